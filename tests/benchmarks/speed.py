"""How fast agtf is, each figure next to the thing it is compared with, measured in the same run.

    python tests/benchmarks/speed.py [--quick] [--only stages,ratios] [--json FILE]

Whole runs have a process of their own each, and their peak memory is that of cluster(), not of making the data.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import numba
import numpy as np
import scipy
import sklearn
from accuracy import ONE_THREAD, markdown
from datasets import ROOT, agtf, available, draw, load, mixture, noisy_mnist, our_scaling, sparse_text, wide_images
from sklearn.cluster import KMeans, MiniBatchKMeans


def machine():
    """What the figures depend on besides the code."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    out = {"cores": cores, "processor": platform.processor() or platform.machine()}
    out |= {"python": platform.python_version()}
    return out | {package.__name__: package.__version__ for package in (np, numba, scipy, sklearn)}


def timed(function):
    """Seconds and result."""
    started = time.perf_counter()
    found = function()
    return time.perf_counter() - started, found


def best_of(repeats, function):
    """Shortest of some timings, in seconds."""
    return min(timed(function)[0] for _ in range(repeats))


def peak_mb():
    """Largest resident size of this process so far. On Linux getrusage also counts the parent's, before exec."""
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


# ---- One iteration ---------------------------------------------------------------------------------------------------


PRECISIONS = {"single, the default": np.float32, "double": np.float64}  # of the state; the paper's protocol has doubles


def graph_of_clusters(n, m, V, K, k, kind=np.float64, seed=0):
    """A noisy anchor graph tensor of K clusters as rows in blocks, and the clusters."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    index = (rng.integers(0, m // K, (n, V, k)) * K + y[:, None, None]).astype(np.int32)
    stray = rng.random(index.shape) < 0.1
    index[stray] = rng.integers(0, m, stray.sum())
    rows = agtf._Rows(SimpleNamespace(n=n))
    rows.spread("index", index)
    rows.spread("weight", rng.dirichlet(np.ones(k), (n, V)))
    rows.map(agtf._normalise, agtf._simplex_scale(rows.sum(agtf._mass, m), K), kind)
    return rows, y


def start(y, m, V, K):
    """H and F."""
    H = np.zeros((len(y), V * K))
    H[np.arange(len(y)), y] = 1 / np.sqrt(np.bincount(y))[y]
    return H, np.full((m, V * K), 1 / K)


OPTIONS = dict(lambda1=1.0, lambda2=1.0, penalty=8.0, growth=1.3)


def seconds_per_iteration(rows, y, m, V, K, iterations):
    """Seconds of each iteration of agtf, and the factors after the last."""
    times = []

    def watch(*_):
        times.append(time.perf_counter())
        return False

    H, F = start(y, m, V, K)
    for name in ("H", "z", "w"):
        rows.spread(name, H.astype(rows.blocks[0].S.dtype))
    norm = agtf._Norm(0.5, "cluster", "backward", (V, K))
    settings = SimpleNamespace(norm=norm, **OPTIONS, tol=0.0)
    with agtf._limits():
        StH = rows.sum(agtf._transposed_times, m)
        G, *_ = agtf._algorithm1(rows, StH, F, np.eye(V * K), settings, iterations + 1, watch)
    return np.diff(times), rows.gather("H"), G


def plain_iterations(rows, y, m, V, K, iterations, dense):
    """The same by the plain solver of paper.py, with a dense or a sparse S."""
    import paper

    index, weight = rows.gather("index"), rows.gather("S").astype(float)
    n, _, k = index.shape
    ends = np.arange(0, n * k + 1, k)
    slices = [scipy.sparse.csr_array((weight[:, v].ravel(), index[:, v].ravel(), ends), (n, m)) for v in range(V)]
    slices = [s.toarray() if dense else s for s in slices]
    H, F = (X.reshape(-1, V, K).transpose(1, 0, 2).copy() for X in start(y, m, V, K))
    times = []
    way = dict(p=0.5, axis="cluster", h_first=False, clip="time", gst_steps=60, tol=-1.0, iterations=iterations + 1)
    found = paper.solve(slices, (H, H, H, F), **OPTIONS, **way, watch=lambda *_: times.append(time.perf_counter()))
    return np.diff(times), found.H, found.G


def iteration_against_copy(quick):
    n, m, V, K, out = 50_000 if quick else 200_000, 400, 3, 10, []
    for precision, kind in PRECISIONS.items():
        rows, y = graph_of_clusters(n, m, V, K, 8, kind)
        source = [np.random.default_rng(i).random((n, V * K)).astype(kind) for i in range(5)]
        target = [np.empty_like(X) for X in source]

        def copy(source=source, target=target):
            with agtf._limits():
                for X, Z in zip(source, target):
                    agtf._map_rows(lambda lo, hi, X=X, Z=Z: np.copyto(Z[lo:hi], X[lo:hi]), n)

        copy()
        floor = best_of(5, copy)
        seconds = seconds_per_iteration(rows, y, m, V, K, 8)[0].min()
        floor = min(floor, best_of(5, copy))
        out.append({"precision": precision, "n": n, "copy_s": floor, "iteration_s": seconds, "ratio": seconds / floor})
    return out


def iteration_against_numpy(quick):
    n, m, V, K, out = 5_000 if quick else 20_000, 1_000, 3, 10, []
    for precision, kind in PRECISIONS.items():
        rows, y = graph_of_clusters(n, m, V, K, 8, kind)
        _, H, G = seconds_per_iteration(rows, y, m, V, K, 2)
        ours = seconds_per_iteration(rows, y, m, V, K, 8)[0].min()
        for form in ("dense", "sparse"):
            plain, *factors = plain_iterations(rows, y, m, V, K, 2, form == "dense")
            error = max(np.abs(X.reshape(-1, V, K).transpose(1, 0, 2) - Z).max() for X, Z in zip((H, G), factors))
            row = {"precision": precision, "plain S": form, "n": n, "plain_s": plain.min(), "agtf_s": ours}
            out.append(row | {"speed_up": plain.min() / ours, "difference": error})
    return out


# ---- Whole runs, each in a process of its own ------------------------------------------------------------------------


def timed_cluster(views, k):
    """Seconds of a warm call of cluster(), of its stages, its memory; and the result."""
    agtf.cluster([view[:500] for view in views], k)  # compiled code into memory
    if os.path.exists("/proc/self/clear_refs"):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # from here on the peak is that of cluster(), not of making the data
    before = peak_mb()
    seconds, result = timed(lambda: agtf.cluster(views, k))
    out = {"seconds": seconds, "us_per_sample": 1e6 * seconds / len(result.labels), "iterations": result.n_iter}
    return out | {"stages": result.seconds, "peak_mb": peak_mb(), "before_mb": before}, result


def data(name, n):
    """Views and classes of a set by its name in the tables; `n` is for those that are made."""
    if name == "made-up":
        return mixture(n)
    if name == "overlapping":
        views, y = mixture(n, k=20, apart=0.3)
        return [view.astype(float) for view in views], y
    if name == "Noisy MNIST":
        return noisy_mnist(n)
    return wide_images(n) if name == "wide images" else draw(name, 0)


def job_beside_kmeans(name, n):
    """cluster(), KMeans and MiniBatchKMeans on the joint features: seconds, ACC and NMI; short calls best of three."""
    views, y = data(name, n)
    k = y.max() + 1
    out, result = timed_cluster(views, k)
    features = our_scaling(views)
    models = {
        "KMeans": lambda: KMeans(k, n_init=10, random_state=0).fit(features).labels_,
        "MiniBatch": lambda: MiniBatchKMeans(k, n_init=10, random_state=0).fit(features).labels_,
    }
    found = {"agtf": (out["seconds"], result.labels)} | {method: timed(model) for method, model in models.items()}
    models["agtf"] = lambda: agtf.cluster(views, k)
    row = {"data": name, "n": len(y), **out}
    for method, (seconds, labels) in found.items():
        if seconds < 5:
            seconds = min(seconds, best_of(2, models[method]))
        scores = agtf.score(y, labels)
        row |= {f"{method} s": seconds, f"{method} ACC": scores["ACC"], f"{method} NMI": scores["NMI"]}
    return row | {"us_per_sample": 1e6 * row["agtf s"] / len(y), "ratio": row["agtf s"] / row["KMeans s"]}


def job_growth(n, V, k):
    views, y = mixture(n, V, k)
    out, result = timed_cluster(views, k)
    return {"n": n, "V": V, "k": k, **out, "ACC": agtf.score(y, result.labels)["ACC"]}


def job_sparse(n):
    views, y = sparse_text(n)
    megabytes = sum(v.data.nbytes + v.indices.nbytes + v.indptr.nbytes for v in views) / 2**20
    dense = sum(8 * v.shape[0] * v.shape[1] for v in views) / 2**20
    out, result = timed_cluster(views, 6)
    assert all(scipy.sparse.issparse(rows) for scheme in result._anchors.schemes for rows in scheme.rows)
    return {"n": n, "input_mb": megabytes, "dense_mb": dense, **out, "ACC": agtf.score(y, result.labels)["ACC"]}


JOBS = {"beside_kmeans": job_beside_kmeans, "growth": job_growth, "sparse": job_sparse}


def in_process(job, *arguments, **environment):
    command = [sys.executable, __file__, "--job", job, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


# ---- The first call --------------------------------------------------------------------------------------------------

FIRST = """
import sys, time
t = time.perf_counter(); import numba, scipy.sparse.linalg, sklearn.cluster; a = time.perf_counter() - t
t = time.perf_counter(); import agtf; b = time.perf_counter() - t
import numpy as np
views = [np.load(path) for path in sys.argv[1:]]
t = time.perf_counter(); agtf.cluster(views, 7); c = time.perf_counter() - t
t = time.perf_counter(); agtf.cluster(views, 7); d = time.perf_counter() - t
print(a, b, c, d)
"""


def first_calls():
    views, _ = load(available()[0])
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for v, view in enumerate(views):
            paths.append(os.path.join(folder, f"{v}.npy"))
            np.save(paths[-1], view)
        with open(os.path.join(folder, "agtf.py"), "w") as copy:
            copy.write((ROOT / "agtf.py").read_text())
        runs = []
        for _ in range(3):
            out = subprocess.check_output([sys.executable, "-c", FIRST, *paths], cwd=folder, text=True)
            runs.append([float(x) for x in out.split()])
    cold, *cached = runs
    packages, module, first, warm = np.min(cached, axis=0)
    return {"packages_s": packages, "import_s": module, "first_ever_s": cold[2], "new_process_s": first, "warm_s": warm}


# ---- The sections ----------------------------------------------------------------------------------------------------


def against_copy(quick):
    """One iteration against copying five tensors of its size (V = 3, K = 10, 8 neighbours)"""
    return iteration_against_copy(quick)


def against_numpy(quick):
    """One iteration against plain NumPy in doubles (m = 1000, V = 3, K = 10); difference of the factors after 3"""
    return iteration_against_numpy(quick)


STAGE_SETS = ("digits", "Scene15", "DryBean")


def stages(quick):
    """Whole calls beside k-means on the joint features, all threads: made-up views of 20 features, and real ones"""
    sizes, sets, noisy = (2_000, 10_000, 50_000, 100_000, 200_000, 1_000_000), STAGE_SETS, (10_000, 50_000)
    if quick:
        sizes, sets, noisy = sizes[:2], STAGE_SETS[:1], (2_000,)
    there = available(("balanced", "unbalanced"))
    runs = [("made-up", n) for n in sizes] + [(name, 0) for name in sets if name in there]
    return [in_process("beside_kmeans", *run) for run in [*runs, *(("Noisy MNIST", n) for n in noisy)]]


RATIOS = [  # data, samples, the ratio that we want at most
    ("digits", 0, 3), ("overlapping", 6_773, 4), ("DryBean", 0, 12), ("made-up", 20_000, 4),
    ("wide images", 10_000, 0.4), ("Noisy MNIST", 10_000, 0.25),
]  # fmt: skip


def ratios(quick):
    """Whole calls against KMeans(n_init=10) on the joint features, one thread each"""
    there = available(("balanced", "unbalanced"))
    rows = []
    for name, n, wanted in RATIOS[:2] if quick else RATIOS:
        if n or name in there:
            rows.append(in_process("beside_kmeans", name, n, **ONE_THREAD) | {"at most": wanted})
    return rows


def sizes(quick):
    """More samples of one population: the first n of Noisy MNIST, three seeds, each with its own draw of the data"""
    drawn, rows = [noisy_mnist(1_000 if quick else 50_000, seed) for seed in range(3)], []
    for n in (500, 1_000) if quick else (10_000, 20_000, 20_001, 50_000):
        found = []
        for seed, (views, y) in enumerate(drawn):
            labels = agtf.cluster([view[:n] for view in views], 10, random_state=seed).labels
            found.append(agtf.score(y[:n], labels))
        means = {score: float(np.mean([scores[score] for scores in found])) for score in ("ACC", "NMI", "ARI")}
        rows.append({"n": n, **means, "NMI of each": ", ".join(f"{scores['NMI']:.3f}" for scores in found)})
    return rows


def growth(quick):
    """Growth with the views and the clusters: Gaussian mixtures, views of 20 features, float32"""
    sizes = [(3, 10), (3, 50), (3, 100), (2, 10), (5, 10), (10, 10)]
    return [in_process("growth", 10_000 if quick else 100_000, *size) for size in (sizes[:2] if quick else sizes)]


def sparse_views(quick):
    """Sparse text in the shape of the paper's Reuters (5 languages, CSR)"""
    return [in_process("sparse", 4_000 if quick else 18_758)]


def first_call(quick):
    """The first call: MSRC (or the digits), seconds"""
    return [first_calls()]


SECTIONS = {
    "copy": against_copy, "numpy": against_numpy, "stages": stages, "ratios": ratios, "sizes": sizes,
    "growth": growth, "sparse": sparse_views, "first": first_call,
}  # fmt: skip


METHODS = ("agtf", "KMeans", "MiniBatch")
RATIO = ("agtf s", "KMeans s", "ratio", "at most", "agtf ACC", "KMeans ACC", "agtf NMI", "KMeans NMI")
COLUMNS = {  # of the sections' tables; the others show all that they measured
    "stages": [
        ["data", "n", *(f"{method} s" for method in METHODS), "us_per_sample", "peak_mb"],
        ["data", "n", *(f"{method} {score}" for score in ("ACC", "NMI") for method in METHODS)],
    ],
    "ratios": [["data", "n", *RATIO]],
    "growth": [["n", "V", "k", "seconds", "us_per_sample", "iterations", "peak_mb", "ACC"]],
    "sparse": [["n", "seconds", "input_mb", "dense_mb", "peak_mb", "ACC"]],
}


def cell(value):
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def text(name, rows):
    """A section's title and tables, from its rows."""
    parts = [f"{name}. {SECTIONS[name].__doc__}"]
    for columns in COLUMNS.get(name, [list(rows[0])]):
        parts.append(markdown(columns, [[cell(row.get(column, "")) for column in columns] for row in rows]))
    if name == "stages":
        stages = list(dict.fromkeys(stage for row in rows for stage in row["stages"]))
        lines = [
            [row["data"], str(row["n"])]
            + [f"{row['stages'][stage]:.2f}, {row['stages'][stage] / row['seconds']:.0%}" for stage in stages]
            for row in rows
        ]
        parts += ["Stages of agtf: seconds, share of the call", markdown(["data", "n", *stages], lines)]
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, a few minutes")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas")
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures; what it has is not run again")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        name, *arguments = given.job
        print(json.dumps(JOBS[name](*[int(a) if a.isdigit() else a for a in arguments])))
        return
    unknown = set(given.only.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    print("machine: " + ", ".join(f"{key} {value}" for key, value in machine().items()))
    report = {"machine": machine(), "quick": given.quick}
    if given.json and given.json.exists():
        known = json.loads(given.json.read_text())
        if {key: known[key] for key in report} != report:
            parser.error(f"{given.json} is of another machine, of other versions or of another size")
        report = known
    for name in given.only.split(","):
        if name not in report:
            report[name] = SECTIONS[name](given.quick)
        print(f"\n{text(name, report[name])}", flush=True)
        if given.json:
            given.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
