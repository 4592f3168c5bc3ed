"""How accurate agtf is on shuffled rows: its scores on sets with equal, unequal and cut classes, beside simpler ways.

    python tests/benchmarks/accuracy.py [--sets MSRC,cut] [--methods agtf,start] [--seeds 5] [--jobs 2] [--json FILE]

Every seed cuts the classes (of the sets whose name ends in -cut), shuffles the rows and seeds the method. Options of
agtf are its defaults unless the method says otherwise. Each figure is appended to FILE (one JSON object a line) when
it is there, and what FILE has is not computed again: a stopped run goes on. Take a new file when the code has changed.
"""

import argparse
import json
import os
import pathlib
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from unittest.mock import patch

import numpy as np
from datasets import GROUPS, agtf, available, draw, our_scaling
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.preprocessing import StandardScaler

PAPER = dict(agtf.PAPER, scale="unit", p=0.5, lambda1=100, lambda2=1, n_anchors=0.4)
SCORES = ("ACC", "NMI", "ARI")
EDGES = (0, 0.5, 0.7, 0.9, 0.99, 1)  # bins of the largest membership
ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def agtf_with(**options):
    return lambda views, k, seed, y: agtf.cluster(views, k, random_state=seed, **options)


def raw(views):
    return np.hstack(views).astype(float)


def z_scores(views):
    return StandardScaler().fit_transform(raw(views))


def k_means(features):
    return lambda views, k, seed, y: KMeans(k, n_init=10, random_state=seed).fit(features(views))


def spectral(features):
    def run(views, k, seed, y):
        return SpectralClustering(k, affinity="nearest_neighbors", random_state=seed).fit(features(views))

    return run


def best_view(views, k, seed, y):
    """The most accurate of agtf's results for one view; only who knows the classes can choose it."""
    found = [agtf.cluster([view], k, random_state=seed) for view in views]
    return max(found, key=lambda result: agtf.score(y, result.labels)["ACC"])


def with_noise(views, k, seed, y):
    """agtf with one more view of Gaussian noise, as wide as the widest view."""
    noise = np.random.default_rng(seed).normal(size=(len(y), max(view.shape[1] for view in views)))
    return agtf.cluster([*views, noise], k, random_state=seed)


METHODS = {
    "agtf": agtf_with(),
    "start": agtf_with(max_iter=0),
    "k-means": k_means(our_scaling),
    "spectral": spectral(our_scaling),
    "best view": best_view,
}
MORE = {  # when asked for, by name or with --methods all
    "noise view": with_noise,
    "one draw": agtf_with(n_draws=1),
    "no joint slice": agtf_with(joint=False),
    "no norm of H": agtf_with(lambda1=0),
    "no norm of G": agtf_with(lambda2=0),
    "raw S": agtf_with(normalize=False),
    "axis lateral": agtf_with(axis="lateral"),
    "axis view": agtf_with(axis="view"),
    "paper": agtf_with(**PAPER),
    "k-means raw": k_means(raw),
    "k-means z-scores": k_means(z_scores),
    "spectral z-scores": spectral(z_scores),
}
EXPLAINED = {
    "start": "start: agtf without iterations",
    "k-means": "k-means, spectral: on all features, mostly-zero views as unit rows, others as z-scores",
    "best view": "best view: agtf on the single view that turns out most accurate, which only the classes can tell",
    "noise view": "noise view: agtf with one more view, of pure noise",
    "paper": "paper: its protocol as printed, with its settings for MSRC",
}


def measure(method, views, y, seed):
    """Scores and seconds of a method, and what it found."""
    k = len(np.unique(y))
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = method(views, k, seed, y)
    seconds = time.perf_counter() - started
    scores = agtf.score(y, found.labels if isinstance(found, agtf.Result) else found.labels_)
    return {score: scores[score] for score in SCORES} | {"seconds": seconds}, found


def measure_named(name, views, y, seed):
    """The same for a method by its name; for agtf also how far its memberships can be trusted."""
    figures, found = measure({**METHODS, **MORE}[name], views, y, seed)
    return figures | ({"bins": bins(found.memberships, y)} if name == "agtf" else {})


def bins(memberships, y):
    """For each bin of the largest membership: how many samples, its sum, how many in the cluster of their class."""
    labels, largest = memberships.argmax(axis=1), memberships.max(axis=1)
    counts = np.zeros((y.max() + 1, memberships.shape[1]), int)
    np.add.at(counts, (y, labels), 1)
    classes, clusters = linear_sum_assignment(-counts)
    class_of = np.full(counts.shape[1], -1)
    class_of[clusters] = classes
    at = np.clip(np.digitize(largest, EDGES) - 1, 0, len(EDGES) - 2)
    sums = (np.bincount(at, weights, len(EDGES) - 1) for weights in (None, largest, class_of[labels] == y))
    return np.transpose(list(sums)).tolist()


def suggested(views, y):
    """The five numbers of clusters that suggest_k likes best, and the rank of the true one."""
    k = len(np.unique(y))
    found = agtf.suggest_k(views, max(20, 3 * k // 2)).candidates.tolist()
    return {"classes": k, "first five": found[:5], "rank of the truth": found.index(k) + 1}


def run(name, method, seed):
    """One line of the file."""
    views, y = draw(name, seed)
    figures = suggested(views, y) if method == "suggest_k" else measure_named(method, views, y, seed)
    return {"set": name, "method": method, "seed": seed, **figures}


def warm_up():
    """Compile, or load what was compiled: no method's seconds should have that in them."""
    views, _ = draw("digits", 0)
    agtf.cluster(views, 10)
    agtf.cluster([np.tile(views[0][:300], 3), views[1][:300].astype(np.float32)], 10)  # wide views, single precision


def run_all(run, tasks, jobs, file):
    """run(set, method, seed) for all tasks: read from the file, or computed by `jobs` processes of one thread each."""
    rows = {}
    if file and file.exists():
        known = map(json.loads, file.read_text().splitlines())
        rows = {(row["set"], row["method"], row["seed"]): row for row in known}
    # The number of threads must be known before a process imports anything.
    with patch.dict(os.environ, ONE_THREAD), ProcessPoolExecutor(jobs, get_context("spawn"), warm_up) as pool:
        try:
            for done in as_completed([pool.submit(run, *task) for task in tasks if task not in rows]):
                row = done.result()
                rows[row["set"], row["method"], row["seed"]] = row
                scores = " ".join(f"{score} {row[score]:.3f}" for score in (*SCORES, "seconds") if score in row)
                scores += row.get("error", "")
                print(f"{row['set']:18}{row['method']:18}seed {row['seed']}  {scores}", flush=True)
                if file:
                    with file.open("a") as lines:
                        lines.write(json.dumps(row) + "\n")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    rows = {task: rows[task] for task in tasks} | rows  # in the order of the tasks, not of their ends
    if file:
        part = file.with_suffix(".part")
        part.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
        part.replace(file)
    return [rows[task] for task in tasks]


def values(rows, name, method, score):
    """One value per seed."""
    return [row[score] for row in rows if row["set"] == name and row["method"] == method]


def mean(rows, names, method, score):
    """Mean over the sets of the means over the seeds."""
    return np.mean([np.mean(values(rows, name, method, score)) for name in names])


def markdown(header, lines):
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))


def table(rows, score, names, methods):
    """One line per method, one column per set, mean ± standard deviation of the seeds, and the mean over the sets."""
    form, lines = ".1f" if score == "seconds" else ".3f", []
    for method in methods:
        seeds = [values(rows, name, method, score) for name in names]
        cells = [f"{np.mean(some):{form}} ± {np.std(some):{form}}" for some in seeds]
        lines.append([method, *cells, f"**{mean(rows, names, method, score):{form}}**"])
    return markdown(["", *names, "mean"], lines)


def means_table(rows, groups, methods):
    """Means of the groups, all scores."""
    header = ["mean of", *(f"{group}, {score}" for group in groups for score in SCORES)]
    lines = [
        [method, *(f"{mean(rows, names, method, score):.3f}" for names in groups.values() for score in SCORES)]
        for method in methods
    ]
    return markdown(header, lines)


def summary_tables(rows, groups, methods, seeds):
    """Means of the groups, and ACC of every set, the best of agtf and its peers in bold."""
    peers = [method for method in methods if method not in ("start", "best view")]
    lines = []
    for method in methods:
        means = [" / ".join(f"{mean(rows, names, method, score):.3f}" for score in SCORES) for names in groups.values()]
        lines.append([method, *means])
    first = markdown([" / ".join(SCORES), *(f"{len(names)} {group} sets" for group, names in groups.items())], lines)
    lines = []
    for group, names in groups.items():
        for name in names:
            found = [mean(rows, [name], method, "ACC") for method in peers]
            cells = [f"**{x:.3f}**" if x == max(found) else f"{x:.3f}" for x in found]
            lines.append([name, group, *cells])
    notes = "; ".join(EXPLAINED[method] for method in methods if method in EXPLAINED)
    second = markdown(["ACC", "group", *peers], lines)
    return "\n\n".join([first, f"Means of {seeds} seeds, each with its own shuffle (and cut). {notes}.", second])


def plot_against_time(rows, names, methods, ax):
    """Mean accuracy and seconds of every method over the same sets."""
    for method, marker in zip(methods, "oDs^v"):
        seconds, ACC = (mean(rows, names, method, score) for score in ("seconds", "ACC"))
        ax.plot(seconds, ACC, marker, markersize=8)
        below = method == "start"  # which lies close to agtf
        ax.annotate(method, (seconds, ACC), xytext=(0, -18 if below else 9), textcoords="offset points", ha="center")
    ax.margins(0.25, 0.2)
    ax.set_xlim(0)
    ax.set_xlabel("seconds a set, one thread")
    ax.spines[["top", "right"]].set_visible(False)


def calibration_table(rows):
    """Whether samples with a large membership are in the cluster of their class, and those with a small one not."""
    samples, largest, right = np.sum([row["bins"] for row in rows if "bins" in row], axis=0).T
    lines = [
        [f"{low} to {high}", f"{count:.0f}", f"{total / count:.3f}", f"{hits / count:.3f}"]
        for low, high, count, total, hits in zip(EDGES, EDGES[1:], samples, largest, right)
        if count
    ]
    return markdown(["largest membership", "samples", "its mean", "in the cluster of their class"], lines)


def add_run_options(parser, quick, seeds=5):
    """The options of every script that uses `run_all`."""
    parser.add_argument("--seeds", type=int, default=seeds, help="how many")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, one thread each")
    parser.add_argument("--json", type=pathlib.Path, help="file to which every figure is appended, and read from")
    parser.add_argument("--quick", action="store_true", help=quick)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(GROUPS), help="names of sets and groups, with commas")
    more = f"names with commas, or all; beyond these there are {', '.join(MORE)}, suggest_k"
    parser.add_argument("--methods", default=",".join(METHODS), help=more)
    add_run_options(parser, "a small set of each group, two seeds, under 2 minutes")
    given = parser.parse_args()
    if given.quick:
        given.sets, given.seeds = "MSRC,digits-cut,Dermatology", 2
    asked, everything = given.sets.split(","), [*METHODS, *MORE, "suggest_k"]
    methods = everything if given.methods == "all" else given.methods.split(",")
    unknown = {*asked, *methods}.difference(GROUPS, *GROUPS.values(), everything)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    there = available(GROUPS)
    groups = {group: [n for n in names if n in there and {n, group} & {*asked}] for group, names in GROUPS.items()}
    groups = {group: names for group, names in groups.items() if names}
    if not groups:
        parser.error("none of these sets is here")
    seeds = {method: 1 if method == "suggest_k" else given.seeds for method in methods}
    names = [name for some in groups.values() for name in some]
    tasks = [(name, method, seed) for name in names for method in methods for seed in range(seeds[method])]
    rows = run_all(run, tasks, given.jobs, given.json)

    for row in rows:
        if row["method"] == "suggest_k":
            print(f"suggest_k, {row['set']}: {row['classes']} classes, {row['first five']}, {row['rank of the truth']}")
    methods = [method for method in methods if method != "suggest_k"]
    if not methods:
        return
    print(f"\nRows shuffled, seeds: {given.seeds}, ± standard deviation over them")
    for score in (*SCORES, "seconds"):
        for group, some in groups.items():
            print(f"\n{score}, {group}\n\n{table(rows, score, some, methods)}")
    print(f"\n{means_table(rows, groups, methods)}")
    if "agtf" in methods:
        print(f"\nMemberships of agtf, all sets and seeds together\n\n{calibration_table(rows)}")


if __name__ == "__main__":
    main()
