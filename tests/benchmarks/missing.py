"""How accurate agtf is when views miss samples: the field's two protocols, and files that are incomplete as they come.

    python tests/benchmarks/missing.py [--sets MSRC,NGs_Per0.1] [--methods agtf] [--seeds 5] [--jobs 2] [--json FILE]

Pairs missing: every (sample, view) pair is missing with the same probability, but every sample keeps at least one view.
Paired: a share of the samples is complete, the others are seen in one view each; with 0 nothing connects the views, and
agtf refuses. Part: no sample is complete, each is seen in this share of the views. Rows are shuffled; every seed has
its own holes and shuffle. Peers get the views scaled as agtf scales them, k-means with the features' means filled in.
Those of `imml` take part if it is installed. FILE as in accuracy.py.
"""

import argparse
import importlib.util
from functools import partial

import numpy as np
from accuracy import SCORES, add_run_options, agtf_with, markdown, measure, run_all, values
from datasets import FOLDER, agtf, available, load, our_scaling, shuffled
from scipy.sparse import issparse
from sklearn.cluster import KMeans

SETS = ("MSRC", "HandWritten4", "BBCSport")
MISSING = (0.1, 0.3, 0.5, 0.7)
PAIRED = (0.9, 0.7, 0.5, 0.3, 0.1, 0)
PEERS = ("DAIMC", "EEIMVC", "OPIMC", "PIMVC")  # of imml
ONLY = {"DAIMC": "MSRC"}  # half a minute there; with the number of features it grows to hours


def missing(n, V, rate, rng):
    """What is seen (n, V): every pair is missing with probability `rate`; samples seen nowhere get one view back."""
    seen = rng.random((n, V)) >= rate
    nowhere = np.flatnonzero(~seen.any(axis=1))
    seen[nowhere, rng.integers(0, V, len(nowhere))] = True
    return seen


def paired(n, V, ratio, rng):
    """What is seen (n, V): a share of the samples in all views, each of the others in one."""
    seen = np.zeros((n, V), bool)
    seen[np.arange(n), rng.integers(0, V, n)] = True
    seen[rng.permutation(n)[: round(ratio * n)]] = True
    return seen


def part(n, V, share, rng):
    """What is seen (n, V): every sample in this share of the views, so that none is complete."""
    seen = np.zeros((n, V), bool)
    views = min(max(round(share * V), 1), V - 1)
    np.put_along_axis(seen, rng.random((n, V)).argsort(axis=1)[:, :views], True, axis=1)
    return seen


PROTOCOLS = {"missing": (missing, MISSING), "paired": (paired, PAIRED), "part": (part, (0.5,))}


def draw(name, seed):
    """Views with rows of NaN where a sample was not seen, and classes; named "set, protocol share", or as a file."""
    set_name, _, how = name.partition(", ")
    if not how:
        views, y = agtf.load_views(FOLDER / "incomplete" / f"{name}.mat")
        views, y = [view.toarray() if issparse(view) else view for view in views], np.unique(y, return_inverse=True)[1]
        return shuffled(views, y, seed)
    protocol, share = how.split()
    views, y = shuffled(*load(set_name), seed)
    seen = PROTOCOLS[protocol][0](len(y), len(views), float(share), np.random.default_rng(seed))
    return [np.where(seen[:, [v]], view, np.nan) for v, view in enumerate(views)], y


def scaled(view):
    """A view scaled as `our_scaling` does it with the rows that were seen; the others stay NaN."""
    seen = ~np.isnan(view).all(axis=1)
    out = np.full(view.shape, np.nan)
    out[seen] = our_scaling([view[seen]])
    return out


def imputed_k_means(views, k, seed, y):
    X = np.hstack([scaled(view) for view in views])
    return KMeans(k, n_init=10, random_state=seed).fit(np.where(np.isnan(X), np.nanmean(X, axis=0), X))


def of_imml(name, views, k, seed, y):
    import imml.cluster

    method = getattr(imml.cluster, name)(n_clusters=int(k), random_state=seed)
    return method.fit([scaled(view) for view in views])


METHODS = {"agtf": agtf_with(), "k-means": imputed_k_means}
METHODS |= {name: partial(of_imml, name) for name in PEERS}


def run(name, method, seed):
    """One line of the file; of a method that fails, its words instead of the scores."""
    try:
        figures, _ = measure(METHODS[method], *draw(name, seed), seed)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        figures = {"error": str(error)}
    return {"set": name, "method": method, "seed": seed, **figures}


def table(rows):
    """A line for each set and protocol, a column for each method: the means of the scores over the seeds."""
    names, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("set", "method"))
    failed = {(row["set"], row["method"]): row["error"] for row in rows if "error" in row}

    def cell(name, method):
        if (name, method) in failed:
            return "refused" if "no sample in common" in failed[name, method] else "failed"
        if not values(rows, name, method, "ACC"):
            return "not run"
        return " / ".join(f"{np.mean(values(rows, name, method, score)):.3f}" for score in SCORES)

    lines = [[name, *(cell(name, method) for method in methods)] for name in names]
    return markdown([" / ".join(SCORES), *methods], lines)


def all_names():
    """Names of the sets that are here, each with the names under which `draw` knows it."""
    there = available()
    made = [f"{protocol} {share:g}" for protocol, (_, shares) in PROTOCOLS.items() for share in shares]
    names = {name: [f"{name}, {how}" for how in made] for name in SETS if name in there}
    names |= {file.stem: [file.stem] for file in sorted((FOLDER / "incomplete").glob("*.mat"))}
    return names or {"digits": [f"digits, {how}" for how in made]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = all_names()
    there = [name for name in METHODS if name not in PEERS or importlib.util.find_spec("imml")]
    parser.add_argument("--sets", default=",".join(names), help="names with commas")
    parser.add_argument("--methods", default=",".join(there), help="names with commas")
    add_run_options(parser, "one set, one seed, under 2 minutes")
    given = parser.parse_args()
    sets, methods = given.sets.split(","), given.methods.split(",")
    if given.quick:
        sets, given.seeds = sets[:1], 1
    unknown = {*sets, *methods}.difference(names, there)
    if unknown:
        parser.error(f"unknown, or not installed: {', '.join(sorted(unknown))}")
    asked = [name for set_name in sets for name in names[set_name]]
    pairs = [(name, method) for name in asked for method in methods if name.startswith(ONLY.get(method, ""))]
    tasks = [(*pair, seed) for pair in pairs for seed in range(given.seeds)]
    print(f"\n{table(run_all(run, tasks, given.jobs, given.json))}\n\nRows shuffled, means of {given.seeds} seeds.")


if __name__ == "__main__":
    main()
