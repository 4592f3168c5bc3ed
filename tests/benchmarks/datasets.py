"""The benchmarks' data: files in AGTF_DATA, sets made from them, made-up ones, and the built-in digits."""

import os
import pathlib
import sys

import numpy as np
import scipy.sparse as sparse
from scipy.ndimage import affine_transform, zoom
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import StandardScaler, normalize

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import agtf  # noqa: E402

FOLDER = pathlib.Path(os.environ.get("AGTF_DATA", ROOT.parent / "shared" / "data"))
SETS = {  # name: file, whether its classes have about the same size
    "MSRC": ("MSRC.mat", "balanced"),
    "HandWritten4": ("HW1256.mat", "balanced"),
    "Mnist4": ("Mnist4.mat", "balanced"),
    "Scene15": ("Scene15.mat", "balanced"),
    "100Leaves": ("100Leaves.mat", "balanced"),
    "BBCSport": ("BBCSport.mat", "balanced"),
    "Reuters-1200": ("Reuters-1200.mat", "balanced"),
    "digits": (None, "balanced"),  # inside scikit-learn
    "Dermatology": ("Dermatology.mat", "unbalanced"),
    "Wisconsin": ("Wisconsin.mat", "unbalanced"),
    "WebKB": ("WebKB.mat", "unbalanced"),
    "Movies": ("Movies.mat", "unbalanced"),
    "CiteSeer": ("CiteSeer.mat", "unbalanced"),
    "Satimage": ("Satimage.mat", "unbalanced"),
    "DryBean": ("DryBean.mat", "unbalanced"),
    "AmazonPhoto": ("AmazonPhoto.mat", "unbalanced"),
}
BALANCED = [name for name, (_, group) in SETS.items() if group == "balanced"]
UNBALANCED = [name for name, (_, group) in SETS.items() if group == "unbalanced"]
# Balanced sets made unbalanced by `cut`. Not 100Leaves: its classes have 16 samples.
CUT = [f"{name}-cut" for name in BALANCED if name != "100Leaves"]
# Wide sets as users of embeddings have them, by `embed`.
WIDE = "MSRC HandWritten4 100Leaves BBCSport Reuters-1200 digits Wisconsin WebKB Movies CiteSeer".split()
EMBEDDED = [f"{name}-svd" for name in WIDE]
GROUPS = {"balanced": BALANCED, "unbalanced": UNBALANCED, "cut": CUT, "embedded": EMBEDDED}


def available(groups=("balanced",)):
    """Names of the sets of some groups that can be loaded here; says so when the files are missing."""
    files = {name: file for name, (file, _) in SETS.items()}
    names = [name for group in groups for name in GROUPS[group]]
    missing = [name for name in names if (file := files[origin(name)]) and not (FOLDER / file).exists()]
    if missing:
        print(f"{len(missing)} sets left out, whose files are not in {FOLDER} (AGTF_DATA)", file=sys.stderr)
    return [name for name in names if name not in missing]


def load(name):
    """Views and labels (0, 1, ...) in the order of the file, which is sorted by class for all sets but the digits."""
    views, y = agtf.digits_views() if name == "digits" else agtf.load_views(FOLDER / SETS[name][0])
    return views, np.unique(y, return_inverse=True)[1]


def origin(name):
    """The set that a set was made from."""
    return name.removesuffix("-cut").removesuffix("-svd")


def draw(name, seed):
    """A set of any group as a benchmark sees it: rows shuffled, classes cut or views embedded if the name says so."""
    views, y = load(origin(name))
    if name.endswith("-cut"):
        views, y = cut(views, y, seed)
    if name.endswith("-svd"):
        views = [embed(view) for view in views]
    return shuffled(views, y, seed)


def embed(view):
    """A view in its 64 leading singular directions, of unit rows if it is mostly zero, else of z-scores."""
    X = view.astype(float)
    mostly_zero = X.min() >= 0 and np.count_nonzero(X) < 0.5 * X.size
    X = normalize(X) if mostly_zero else StandardScaler().fit_transform(X)
    return TruncatedSVD(min(64, X.shape[1] - 1), random_state=0).fit_transform(X)


def shuffled(views, y, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    return [view[order] for view in views], y[order]


def cut(views, y, seed, ratio=10):
    """Classes in a random order; the r-th of K keeps a random ratio^(-r/(K-1)) of its samples, at least five."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y))
    kept = []
    for share, c in zip(np.geomspace(1, 1 / ratio, len(classes)), classes):
        rows = np.flatnonzero(y == c)
        kept.append(rng.permutation(rows)[: max(5, round(share * len(rows)))])
    kept = np.sort(np.concatenate(kept))
    return [view[kept] for view in views], y[kept]


def our_scaling(views):
    """All features side by side: mostly-zero views as unit rows, others as z-scores, views with the same variance."""
    blocks = []
    for view in views:
        X = view if view.dtype.kind == "f" else view.astype(float)
        mostly_zero = X.min() >= 0 and np.count_nonzero(X) < 0.5 * X.size
        X = normalize(X) if mostly_zero else StandardScaler().fit_transform(X)
        blocks.append(X / np.sqrt(X.var(axis=0).sum()))
    return np.hstack(blocks)


def mnist(n, rng):
    """The first n training digits of MNIST, float32 in [0, 1]; without the file, built-in digits drawn by `rng`."""
    if (FOLDER / "mnist.npz").exists():
        with np.load(FOLDER / "mnist.npz") as file:
            return file["x_train"][:n] / np.float32(255), file["y_train"][:n].astype(int)
    print("no mnist.npz in AGTF_DATA: the built-in digits, repeated, stand in for MNIST", file=sys.stderr)
    (pixels, *_), y = agtf.digits_views()
    take = rng.integers(0, len(y), n)
    return pixels.reshape(-1, 8, 8).astype(np.float32)[take], y[take]


def wide_images(n):
    """Digits of MNIST in two resolutions: 28 x 28 and 16 x 16 pixels."""
    images, y = mnist(n, np.random.default_rng(0))
    small = zoom(images, (1, 16 / images.shape[1], 16 / images.shape[2]), order=1)
    return [images.reshape(n, -1), small.reshape(n, -1)], y


def noisy_mnist(n=50_000, seed=0):
    """View 1: a digit turned by up to 45 degrees; view 2: another digit of its class under uniform noise. float32."""
    rng = np.random.default_rng(seed)
    images, y = mnist(n, rng)
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


def mixture(n, n_views=3, k=10, features=20, seed=0, apart=1.2):
    """A Gaussian mixture seen through `n_views` views, float32; made in blocks, so that memory is the views' own.

    Centres have coordinates of standard deviation `apart`, samples have 1 around them.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    views = []
    for _ in range(n_views):
        centres = apart * rng.normal(size=(k, features)).astype(np.float32)
        view = np.empty((n, features), np.float32)
        for lo in range(0, n, 10**5):
            block = slice(lo, min(lo + 10**5, n))
            view[block] = centres[y[block]] + rng.standard_normal((len(y[block]), features), np.float32)
        views.append(view)
    return views, y


def sparse_text(n=18_758, widths=(21531, 24892, 34251, 15506, 11547), k=6, density=0.004, seed=0):
    """Word counts in the shape of the paper's Reuters: one vocabulary per language, Zipf words, k topics, CSR."""
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
