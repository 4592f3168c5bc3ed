"""How fast agtf is, each figure next to the thing it is compared with, measured in the same run.

    python tests/benchmarks/speed.py [--quick] [--json FILE]

Times are best of a few repetitions where that is affordable; peak memory is that of a process of its own.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.sparse as sparse
from datasets import ROOT, agtf, available, load, mixture, noisy_mnist, sparse_text
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits


def best_of(repeats, function):
    """Shortest of some timings, in seconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def peak_mb():
    """Largest resident size of this process so far. On Linux getrusage also counts the parent's, before exec."""
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


# ---- a, b: one iteration ---------------------------------------------------------------------------------------------


def graph_of_clusters(n, m, V, K, k, seed=0):
    """A noisy anchor graph tensor of K clusters, and the clusters."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    index = (rng.integers(0, m // K, (n, V, k)) * K + y[:, None, None]).astype(np.int32)
    stray = rng.random(index.shape) < 0.1
    index[stray] = rng.integers(0, m, stray.sum())
    return agtf._Graph(index, rng.dirichlet(np.ones(k), (n, V)), m).normalised(K), y


def start(S, y, V, K):
    H = np.zeros((len(y), V * K))
    H[np.arange(len(y)), y] = 1 / np.sqrt(np.bincount(y))[y]
    return [H, H.copy(), H.copy(), np.full((S.m, V * K), 1 / K)]


OPTIONS = dict(lambda1=1.0, lambda2=1.0, penalty=8.0, growth=1.3)


def seconds_per_iteration(S, y, V, K, iterations):
    """Seconds of each iteration of agtf, and the factors after the last."""
    times = []

    def watch(*_):
        times.append(time.perf_counter())
        return False

    state = start(S, y, V, K)
    with threadpool_limits(1):
        norm = agtf._Norm(0.5, "cluster", "ortho", (V, K))
        G, _, _ = agtf._algorithm1(S, *state, norm, **OPTIONS, tol=0.0, max_iter=iterations + 1, watch=watch)
    return np.diff(times), state[0], G


def plain_iterations(S, y, V, K, iterations):
    """Algorithm 1 as one would write it in NumPy: dense S, FFTs, full SVDs; its loop times and factors."""
    n, m = len(y), S.m
    dense = np.zeros((V, n, m))
    for v in range(V):
        np.add.at(dense[v], (np.arange(n)[:, None], S.index[:, v]), S.weight[:, v])
    S_bar = np.fft.fft(dense, axis=0)
    H, Q, J, F = (X.reshape(-1, V, K).transpose(1, 0, 2).copy() for X in start(S, y, V, K))
    Y1, Y2, Y3 = np.zeros_like(H), np.zeros_like(H), np.zeros_like(F)
    mu, times = OPTIONS["penalty"], []

    def low_rank(Z, tau):  # slices n x V of the DFT over clusters
        bar = np.fft.fft(Z, axis=2, norm="ortho").transpose(2, 1, 0)
        U, s, Vh = np.linalg.svd(bar, full_matrices=False)
        shrunk = agtf._gst(s.ravel(), tau, 0.5).reshape(s.shape)
        return np.fft.ifft(((U * shrunk[:, None]) @ Vh).transpose(2, 1, 0), axis=2, norm="ortho").real

    def simplex(B):
        ordered = -np.sort(-B, axis=2)
        sums = ordered.cumsum(axis=2) - 1
        count = (ordered * np.arange(1, K + 1) > sums).sum(axis=2, keepdims=True)
        return np.maximum(B - np.take_along_axis(sums, count - 1, axis=2) / count, 0)

    for _ in range(iterations + 1):
        times.append(time.perf_counter())
        StH = np.fft.ifft(S_bar.conj().transpose(0, 2, 1) @ np.fft.fft(H, axis=0), axis=0).real
        G = simplex((StH + mu / 2 * F - Y3 / 2) / (1 + mu / 2))
        B2 = 2 * S_bar @ np.fft.fft(G, axis=0) + np.fft.fft(mu * Q - Y1 + mu * J - Y2, axis=0)
        U, _, Vh = np.linalg.svd(B2, full_matrices=False)
        H = np.fft.ifft(U @ Vh, axis=0).real
        Q = np.maximum(H + Y1 / mu, 0)
        J = low_rank(H + Y2 / mu, OPTIONS["lambda1"] / mu)
        F = low_rank(G + Y3 / mu, OPTIONS["lambda2"] / mu)
        Y1, Y2, Y3 = Y1 + mu * (H - Q), Y2 + mu * (H - J), Y3 + mu * (G - F)
        mu *= OPTIONS["growth"]
    return np.diff(times), H, G


def iteration_against_copy(quick):
    n, V, K = 50_000 if quick else 200_000, 3, 10
    S, y = graph_of_clusters(n, 400, V, K, 8)
    source = [np.random.default_rng(i).random((n, V * K)) for i in range(5)]
    target = [np.empty_like(X) for X in source]

    def copy():
        for X, Z in zip(source, target):
            agtf._map_rows(lambda lo, hi, X=X, Z=Z: np.copyto(Z[lo:hi], X[lo:hi]), n)

    copy()
    floor = best_of(5, copy)
    times, _, _ = seconds_per_iteration(S, y, V, K, 8)
    floor = min(floor, best_of(5, copy))
    return {"n": n, "copy_s": floor, "iteration_s": times.min(), "ratio": times.min() / floor}


def iteration_against_numpy(quick):
    n, m, V, K = 5_000 if quick else 20_000, 1_000, 3, 10
    S, y = graph_of_clusters(n, m, V, K, 8)
    plain, H_plain, G_plain = plain_iterations(S, y, V, K, 2)
    ours, H, G = seconds_per_iteration(S, y, V, K, 2)
    error = np.abs(H.reshape(n, V, K).transpose(1, 0, 2) - H_plain).max()
    error = max(error, np.abs(G.reshape(m, V, K).transpose(1, 0, 2) - G_plain).max())
    ours = min(ours.min(), seconds_per_iteration(S, y, V, K, 8)[0].min())
    return {"n": n, "numpy_s": plain.min(), "agtf_s": ours, "speed_up": plain.min() / ours, "difference": error}


# ---- c, d, e: whole runs, each in a process of its own ---------------------------------------------------------------

STAGES = ("reading views", "choosing anchors", "building graphs", "finding a start", "iterating")


def timed_cluster(views, k):
    """Seconds of a warm call of cluster(), its stages, and the result."""
    agtf.cluster([view[:500] for view in views], k)  # compiled code into memory
    stages, seconds = [], {}

    class Progress(agtf._Progress):
        def __call__(self, stage, detail="", last=False):
            if not stages or stages[-1][0] != stage:
                stages.append((stage, time.perf_counter()))

    if os.path.exists("/proc/self/clear_refs"):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # from here on the peak is that of cluster(), not of making the data
    original, agtf._Progress = agtf._Progress, Progress
    before = peak_mb()
    started = time.perf_counter()
    result = agtf.cluster(views, k)
    total = time.perf_counter() - started
    agtf._Progress = original
    for (stage, at), (_, until) in zip(stages, stages[1:]):
        seconds[stage] = until - at
    return {
        "seconds": total,
        "stages": seconds,
        "iterations": result.n_iter,
        "peak_mb": peak_mb(),
        "before_mb": before,
    }, result


def job_mnist(n):
    views, y = noisy_mnist(n)
    megabytes = sum(view.nbytes for view in views) / 2**20
    np.save(os.path.join(tempfile.gettempdir(), "agtf-noisy-mnist.npy"), np.hstack(views))
    out, result = timed_cluster(views, 10)
    scores = agtf.score(y, result.labels)
    return {"n": n, "input_mb": megabytes, **out, "ACC": scores["ACC"], "NMI": scores["NMI"]}


def job_mnist_kmeans(n, kind):
    _, y = noisy_mnist(n)
    X = np.load(os.path.join(tempfile.gettempdir(), "agtf-noisy-mnist.npy"))
    model = (KMeans if kind == "KMeans" else MiniBatchKMeans)(10, n_init=10, random_state=0)
    started = time.perf_counter()
    labels = model.fit(X).labels_
    seconds = time.perf_counter() - started
    scores = agtf.score(y, labels)
    return {"n": n, "seconds": seconds, "ACC": scores["ACC"], "NMI": scores["NMI"], "peak_mb": peak_mb()}


def job_growth(n, V, k):
    views, y = mixture(n, V, k)
    out, result = timed_cluster(views, k)
    return {
        "n": n,
        "V": V,
        "k": k,
        **out,
        "us_per_sample": 1e6 * out["seconds"] / n,
        "ACC": agtf.score(y, result.labels)["ACC"],
    }


def job_sparse(n):
    views, y = sparse_text(n)
    megabytes = sum(v.data.nbytes + v.indices.nbytes + v.indptr.nbytes for v in views) / 2**20
    dense = sum(8 * v.shape[0] * v.shape[1] for v in views) / 2**20
    out, result = timed_cluster(views, 6)
    assert all(sparse.issparse(rows) for rows in result._anchor_rows)
    return {"n": n, "input_mb": megabytes, "dense_mb": dense, **out, "ACC": agtf.score(y, result.labels)["ACC"]}


JOBS = {"mnist": job_mnist, "mnist_kmeans": job_mnist_kmeans, "growth": job_growth, "sparse": job_sparse}


def in_process(job, *arguments):
    command = [sys.executable, __file__, "--job", job, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


# ---- f: the first call -----------------------------------------------------------------------------------------------

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


# ---- the tables ------------------------------------------------------------------------------------------------------


def table(rows, columns):
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        cells = [row.get(c, "") for c in columns]
        print("| " + " | ".join(f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under 3 minutes")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        name, *arguments = given.job
        print(json.dumps(JOBS[name](*[int(a) if a.isdigit() else a for a in arguments])))
        return
    quick = given.quick
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {
        "cores": cores,
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }
    machine |= {
        p.__name__: p.__version__ for p in (np, __import__("numba"), __import__("scipy"), __import__("sklearn"))
    }
    print("machine: " + ", ".join(f"{key} {value}" for key, value in machine.items()))
    report = {"machine": machine, "quick": quick}

    report["a"] = iteration_against_copy(quick)
    print("\na. one iteration against copying the five state tensors once (V = 3, K = 10, 8 neighbours)")
    table([report["a"]], ["n", "copy_s", "iteration_s", "ratio"])

    report["b"] = iteration_against_numpy(quick)
    print("\nb. one iteration against plain NumPy (m = 1000, V = 3, K = 10); difference of the factors after 3 of them")
    table([report["b"]], ["n", "numpy_s", "agtf_s", "speed_up", "difference"])

    n = 10_000 if quick else 50_000
    print(f"\nc. Noisy MNIST, {n} samples, 2 views of 784, float32 (its rows are not sorted by class)")
    rows = [{"method": "agtf.cluster", **in_process("mnist", n)}]
    rows += [
        {"method": f"{kind}(n_init=10)", **in_process("mnist_kmeans", n, kind)}
        for kind in ("KMeans", "MiniBatchKMeans")
    ]
    for row in rows:
        row["time ratio"] = row["seconds"] / rows[1]["seconds"]
    table(rows, ["method", "seconds", "time ratio", "ACC", "NMI", "peak_mb"])
    print(f"\ninput {rows[0]['input_mb']:.0f} MB; stages of agtf.cluster, seconds:")
    table([rows[0]["stages"]], list(STAGES))
    report["c"] = rows

    sizes = [(10**4, 3, 10), (10**5, 3, 10)] if quick else [
        (10**4, 3, 10), (10**5, 3, 10), (10**6, 3, 10),
        (10**5, 3, 50), (10**5, 3, 100), (10**5, 2, 10), (10**5, 5, 10), (10**5, 10, 10),
    ]  # fmt: skip
    print("\nd. growth: Gaussian mixtures, views of 20 features, float32")
    report["d"] = [in_process("growth", *size) for size in sizes]
    table(report["d"], ["n", "V", "k", "seconds", "us_per_sample", "iterations", "peak_mb", "ACC"])

    print("\ne. sparse text in the shape of the paper's Reuters (5 languages, CSR)")
    report["e"] = in_process("sparse", 4_000 if quick else 18_758)
    table([report["e"]], ["n", "seconds", "input_mb", "dense_mb", "peak_mb", "ACC"])

    print("\nf. the first call: MSRC, seconds")
    report["f"] = first_calls()
    table([report["f"]], list(report["f"]))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
