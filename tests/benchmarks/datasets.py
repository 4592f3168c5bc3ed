"""The benchmarks' data: files in AGTF_DATA, Noisy MNIST made from MNIST, and the built-in digits."""

import os
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import agtf  # noqa: E402

FOLDER = pathlib.Path(os.environ.get("AGTF_DATA", ROOT.parent / "shared" / "data"))
FILES = {
    "MSRC": "MSRC.mat",
    "HandWritten4": "HW1256.mat",
    "Mnist4": "Mnist4.mat",
    "Scene15": "Scene15.mat",
    "100Leaves": "100Leaves.mat",
    "BBCSport": "BBCSport.mat",
    "Reuters-1200": "Reuters-1200.mat",
}


def available():
    """Names of the sets that can be loaded here; says so when the files are missing."""
    found = [name for name, file in FILES.items() if (FOLDER / file).exists()]
    if not found:
        print(f"no benchmark files in {FOLDER} (AGTF_DATA): only the built-in digits", file=sys.stderr)
    return [*found, "digits"]


def load(name):
    """Views and labels (0, 1, ...) in the order of the file, which is sorted by class for all sets but the digits."""
    views, y = agtf.digits_views() if name == "digits" else agtf.load_views(FOLDER / FILES[name])
    return views, np.unique(y, return_inverse=True)[1]


def shuffled(views, y, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    return [view[order] for view in views], y[order]


def noisy_mnist(n=50_000, seed=0):
    """View 1: a digit turned by up to 45 degrees; view 2: another digit of its class under uniform noise.

    Made from the first n training digits of MNIST; without the file, from the built-in digits, repeated. float32.
    """
    from scipy.ndimage import affine_transform

    rng = np.random.default_rng(seed)
    if (FOLDER / "mnist.npz").exists():
        with np.load(FOLDER / "mnist.npz") as file:
            images, y = file["x_train"][:n] / np.float32(255), file["y_train"][:n].astype(int)
    else:
        print("no mnist.npz in AGTF_DATA: the built-in digits, repeated, stand in for MNIST", file=sys.stderr)
        (pixels, *_), y = agtf.digits_views()
        take = rng.integers(0, len(y), n)
        images, y = pixels.reshape(-1, 8, 8).astype(np.float32)[take], y[take]
    centre = (np.array(images.shape[1:]) - 1) / 2
    turned, other = np.empty_like(images), np.empty(len(y), int)
    for i, angle in enumerate(np.deg2rad(rng.uniform(-45, 45, len(y)))):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        affine_transform(images[i], turn, centre - turn @ centre, order=1, output=turned[i])
    for c in np.unique(y):
        of_class = np.flatnonzero(y == c)
        other[of_class] = rng.choice(of_class, len(of_class))
    noisy = np.clip(images[other] + rng.random(images.shape, dtype=np.float32), 0, 1)
    return [turned.reshape(len(y), -1), noisy.reshape(len(y), -1)], y


def mixture(n, n_views=3, k=10, features=20, seed=0):
    """A Gaussian mixture seen through `n_views` views, float32; made in blocks, so that memory is the views' own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    views = []
    for _ in range(n_views):
        centres = 1.2 * rng.normal(size=(k, features)).astype(np.float32)
        view = np.empty((n, features), np.float32)
        for lo in range(0, n, 10**5):
            block = slice(lo, min(lo + 10**5, n))
            view[block] = centres[y[block]] + rng.standard_normal((len(y[block]), features), np.float32)
        views.append(view)
    return views, y


def sparse_text(n=18_758, widths=(21531, 24892, 34251, 15506, 11547), k=6, density=0.004, seed=0):
    """Word counts in the shape of the paper's Reuters: one vocabulary per language, Zipf words, k topics, CSR."""
    import scipy.sparse as sparse

    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    views = []
    for width in widths:
        common = 1.0 / np.arange(1, width + 1)
        words = rng.poisson(density * width * 1.6, n)
        rows = np.repeat(np.arange(n), words)
        columns = np.empty(len(rows), int)
        for c in range(k):
            topic = common * rng.lognormal(0, 1.2, width)
            of_topic = np.flatnonzero(y[rows] == c)
            columns[of_topic] = rng.choice(width, len(of_topic), p=topic / topic.sum())
        views.append(sparse.csr_array((np.ones(len(rows)), (rows, columns)), (n, width)))
    return views, y
