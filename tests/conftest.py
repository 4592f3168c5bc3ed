"""Shared by the tests: where the benchmark data are, and small problems."""

import os
import pathlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import naive  # noqa: E402

import agtf  # noqa: E402

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
needs_jit = pytest.mark.skipif(JIT_OFF, reason="takes minutes without the compiler")


def data_set(name):
    """Views and labels of a benchmark file, or skip."""
    folder = pathlib.Path(os.environ.get("AGTF_DATA", ROOT.parent / "shared" / "data"))
    path = folder / f"{name}.mat"
    if not path.exists():
        pytest.skip(f"{path.name} is not in AGTF_DATA ({folder})")
    return agtf.load_views(path)


def table_of_people(n=900, seed=0):
    """Ages, children (five levels) and a flag of one in twenty beside an income; three kinds of people."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    age = np.round(rng.normal(np.array([25, 45, 70])[y], 4))
    children = np.minimum(rng.poisson(np.array([0.2, 2.0, 1.0])[y]), 4)
    income = np.exp(rng.normal(np.array([9.5, 11.5, 10.5])[y], 0.15))
    return np.column_stack([age, children, rng.random(n) < 0.05, income]), y


def blobs(n=60, k=3, widths=(4, 6), seed=0, spread=0.6):
    """Views of n samples in k well separated groups, rows in random order, and the groups."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    return [3 * rng.normal(size=(k, d))[y] + spread * rng.normal(size=(n, d)) for d in widths], y


def random_graph(n, m, V, k, rng):
    """An anchor graph tensor as agtf keeps it, indices and weights, and the same as a dense (n, m, V) array."""
    index = np.stack([[rng.permutation(m)[:k] for _ in range(V)] for _ in range(n)]).astype(np.int32)
    weight = rng.dirichlet(np.ones(k), size=(n, V))
    dense = np.zeros((n, m, V))
    for i, v, t in np.ndindex(n, V, k):
        dense[i, index[i, v, t], v] += weight[i, v, t]
    return (index, weight), dense


def in_blocks(size=5, **arrays):
    """Rows in blocks of `size` with the given arrays, which have a row per sample."""
    n = len(next(iter(arrays.values())))
    rows = agtf._Rows(SimpleNamespace(n=n))
    rows.blocks = [agtf._Block(rows.data, lo, min(lo + size, n)) for lo in range(0, n, size)]
    for name, array in arrays.items():
        rows.spread(name, array.copy())
    return rows


def changed(result, **fields):
    """The same result but for these fields."""
    return agtf.Result(**(vars(result) | fields))


def flat(X):
    """The paper's (n, K, V) tensor as the solver's (n, V*K) matrix."""
    return np.array(X.transpose(0, 2, 1).reshape(len(X), -1), order="C")


def tensor(X, V):
    """Back again."""
    return X.reshape(len(X), V, -1).transpose(0, 2, 1)


def orthogonal_tensor(n, K, V, rng):
    """A random H with H^T * H = I."""
    bar = np.fft.fft(rng.normal(size=(n, K, V)))
    for v in range(V):
        bar[:, :, v] = naive.polar(bar[:, :, v], bar[:, :, v])
    return np.fft.ifft(bar).real
