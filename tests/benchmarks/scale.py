"""How far agtf goes: the same views in memory, mapped from files, and as dask arrays on two workers of limited memory.

    python tests/benchmarks/scale.py [--quick] [--sizes 1000000,10000000] [--modes memory,dask] [--json FILE]

Three views of 20 features, float32, in .npy files that the script makes (240 bytes a sample) and removes again. Every
run has a process of its own. Memory is the largest sum of the resident sizes of all its processes, with the pages of
mapped files; the megabytes of an iteration are those that its processes sent each other; agreement compares the labels
with those found in memory.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial

import numpy as np
from accuracy import markdown
from datasets import agtf, mixture
from speed import cell, machine, timed

MODES = ("memory", "memmap", "dask")
SIZES, QUICK_SIZES = (1_000_000, 3_000_000, 10_000_000), (20_000, 50_000)
VIEWS, K = 3, 10
WORKERS = 2
LARGEST_CHUNK = 500_000  # rows: 120 MB of views, half a gigabyte of state
# The defaults of Dask begin to use the disk at 60 % of the limit, for workers that do much beside what Dask knows of.
MEMORY = {"target": 0.75, "spill": 0.85, "pause": 0.9}
COLUMNS = ("n", "mode", "seconds", "us_per_sample", "peak_gb", "iterations", "mb_per_iteration", "agreement", "ACC")


def files(folder, n):
    return [pathlib.Path(folder) / f"{n}-{v}.npy" for v in range(VIEWS)]


def make(folder, n):
    """Write the views and the classes."""
    views, y = mixture(n, VIEWS, K)
    for path, view in zip(files(folder, n), views):
        np.save(path, view)
    np.save(pathlib.Path(folder) / f"{n}-classes.npy", y)


class PeakMemory:
    """For a with: the largest sum of the resident sizes of this process and its children, in GB, as `.gb`."""

    def __enter__(self):
        self.gb, self.over = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def __exit__(self, *problem):
        self.over.set()
        self.thread.join()

    def watch(self):
        import psutil  # which Dask's workers need, too

        me = psutil.Process()
        while not self.over.wait(0.2):
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.Error:  # it has just ended
                    pass
            self.gb = max(self.gb, total / 1e9)


def count_sent():
    """From now on, add up in this process the bytes that it sends through Dask's connections."""
    from distributed.comm.tcp import TCP

    write = TCP.write

    async def counted(self, *arguments, **options):
        sent = await write(self, *arguments, **options)
        TCP.sent_in_all += sent
        return sent

    TCP.sent_in_all, TCP.write = 0, counted


def sent():
    """The bytes counted in this process, NaN in a worker that Dask has started anew since."""
    from distributed.comm.tcp import TCP

    return getattr(TCP, "sent_in_all", np.nan)


def part_of(path, lo, hi):
    return np.load(path, mmap_mode="r")[lo:hi]


def dask_views(folder, n):
    """The files as dask arrays, a few chunks per worker."""
    import dask
    import dask.array as da

    rows = min(-(-n // (4 * WORKERS)), LARGEST_CHUNK)
    views = []
    for path in files(folder, n):
        width, kind = np.load(path, mmap_mode="r").shape[1], np.float32
        parts = [(lo, min(lo + rows, n)) for lo in range(0, n, rows)]
        parts = [
            da.from_delayed(dask.delayed(part_of)(path, *ends), (ends[1] - ends[0], width), kind) for ends in parts
        ]
        views.append(da.concatenate(parts))
    return views


def measured(views):
    """One warm call, with its labels in memory."""
    agtf.cluster([view[:3000] for view in views], K)
    with PeakMemory() as memory:
        seconds, result = timed(lambda: agtf.cluster(views, K))
        more, labels = timed(lambda: np.asarray(result.labels))
    row = {"seconds": seconds + more, "peak_gb": memory.gb, "iterations": result.n_iter, "stages": result.seconds}
    return row, labels


def on_a_cluster(folder, n, limit):
    """The same on two workers, and what travelled in an iteration."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({f"distributed.worker.memory.{name}": share for name, share in MEMORY.items()})
    algorithm1, moved = agtf._algorithm1, []
    options = dict(n_workers=WORKERS, threads_per_worker=1, memory_limit=limit, dashboard_address=":0")
    with LocalCluster(**options, local_directory=folder) as cluster, Client(cluster) as client:
        count_sent()
        client.run(count_sent)

        def watched(*arguments):
            before = sent() + sum(client.run(sent).values())
            found = algorithm1(*arguments)
            moved.append(sent() + sum(client.run(sent).values()) - before)
            return found

        agtf._algorithm1 = watched
        row, labels = measured(dask_views(folder, n))
    return row | {"mb_per_iteration": moved[-1] / 1e6 / row["iterations"]}, labels


def job(mode, n, folder, limit):
    """One run: its figures."""
    if mode == "dask":
        row, labels = on_a_cluster(folder, n, limit)
    else:
        read = partial(np.load, mmap_mode="r") if mode == "memmap" else np.load
        row, labels = measured([read(path) for path in files(folder, n)])
    kept = pathlib.Path(folder) / f"{n}-labels.npy"
    if mode == "memory":
        np.save(kept, labels)
    if kept.exists():
        row["agreement"] = float((labels == np.load(kept)).mean())
    row["ACC"] = agtf.score(np.load(pathlib.Path(folder) / f"{n}-classes.npy"), labels)["ACC"]
    return {"n": n, "mode": mode, **row, "us_per_sample": 1e6 * row["seconds"] / n}


def in_process(*arguments):
    """The figures of a run in a process of its own; if it fails, why."""
    command = [sys.executable, __file__, "--job", *map(str, arguments)]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    why = (done.stderr.strip() or f"ended with code {done.returncode}").splitlines()[-1]
    return {"mode": arguments[0], "n": arguments[1], "failed": why, "seconds": time.perf_counter() - started}


def text(rows):
    """The table."""
    lines = []
    for row in rows:
        agreement = f"{row['agreement']:.6f}" if "agreement" in row else row.get("failed", "").split(":")[0]
        lines.append([agreement if name == "agreement" else cell(row.get(name, "")) for name in COLUMNS])
    return markdown(list(COLUMNS), lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute")
    parser.add_argument("--sizes", help="numbers of samples, with commas")
    parser.add_argument("--modes", default=",".join(MODES), help="some of %(default)s")
    parser.add_argument("--limit", default="9GB", help="memory of each worker (%(default)s)")
    parser.add_argument("--folder", help="where the files are made, for a disk with room; else a temporary one")
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures; what it has is not run again")
    parser.add_argument("--job", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        mode, n, folder, limit = given.job
        print(json.dumps(job(mode, int(n), folder, limit)))
        return
    modes = given.modes.split(",")
    if set(modes) - set(MODES):
        parser.error(f"unknown: {', '.join(sorted(set(modes) - set(MODES)))}")
    sizes = [int(n) for n in given.sizes.split(",")] if given.sizes else QUICK_SIZES if given.quick else SIZES
    report = {"machine": machine(), "limit": given.limit, "rows": []}
    if given.json and given.json.exists():
        known = json.loads(given.json.read_text())
        if any(known[key] != report[key] for key in ("machine", "limit")):
            parser.error(f"{given.json} is of another machine, of other versions or of another limit")
        report = known
    print("machine: " + ", ".join(f"{key} {value}" for key, value in report["machine"].items()), flush=True)
    done = {(row["mode"], row["n"]) for row in report["rows"]}
    for n in sizes:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            wanted = [mode for mode in modes if (mode, n) not in done]
            if wanted:
                make(folder, n)
            for mode in wanted:
                report["rows"].append(in_process(mode, n, folder, given.limit))
                print(json.dumps(report["rows"][-1]), flush=True)
                if given.json:
                    given.json.write_text(json.dumps(report, indent=1))
    print(f"\n{text(report['rows'])}")


if __name__ == "__main__":
    main()
