"""Multi-view clustering by Anchor Graph Tensor Factorization (AGTF), in one file.

Several feature tables about the same samples become sparse sample-by-anchor graphs; the graphs, stacked, are
factorised into a sample indicator H and an anchor indicator G; the labels are read off H, and G says why.

    import agtf
    views, y = agtf.digits_views()
    result = agtf.cluster(views, 10)
    result.labels

The method is that of R. Wang, J. Li, Q. Gao and C. Deng, "Interpretable Multi-View Clustering Based on Anchor Graph
Tensor Factorization". This file may be copied into a project as it is; it needs numba, NumPy, SciPy and scikit-learn,
and matplotlib for pictures.

Sections: 1 kernels - 2 tensors - 3 views - 4 anchors and graphs - 5 start - 6 Algorithm 1 - 7 result -
8 cluster() and AGTF - 9 data and scores - 10 pictures - 11 command line
"""

# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the agtf authors

import inspect
import json
import os
import re
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import SimpleNamespace

import numba
import numpy as np
import scipy.sparse as sparse
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController  # which scikit-learn needs, too

__version__ = "0.1.0"
__all__ = """AGTF PAPER Result cluster digits_views load load_views plot_anchors plot_confusion plot_convergence
plot_embedding plot_explain plot_gallery plot_grid plot_indicator plot_k plot_sweep plot_views schatten_norm
schatten_prox score suggest_k tprod ttranspose""".split()

# ======================================================================================================================
# 1 kernels: the loops that NumPy does not have. Each works on rows lo..hi without the interpreter's lock, and has a
#   plain twin in tests/naive.py.


def _jit(function):
    """Compile `function` on its first call, cached on disk where the disk allows it."""
    try:
        return numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # no writable place for the cache
        return numba.njit(function, nogil=True)


@_jit
def _nearest_anchors(distance, index, weight):
    """The k nearest anchors of each row and their weights (d_{k+1} - d_j) / (k d_{k+1} - sum_j d_j)."""
    rows, m = distance.shape
    k = index.shape[1]
    best = np.empty(k + 1)
    who = np.empty(k + 1, np.int32)
    for i in range(rows):
        filled = 0
        for j in range(m):
            d = distance[i, j]
            if filled <= k:
                at = filled
                filled += 1
            elif d < best[k]:
                at = k
            else:
                continue
            while at > 0 and best[at - 1] > d:
                best[at] = best[at - 1]
                who[at] = who[at - 1]
                at -= 1
            best[at] = d
            who[at] = j
        total = 0.0
        for t in range(k):
            total += best[k] - best[t]
        for t in range(k):
            index[i, t] = who[t]
            # All k + 1 distances equal: nothing tells the anchors apart.
            weight[i, t] = (best[k] - best[t]) / total if total > 0.0 else 1.0 / k


@_jit
def _project_simplex(B):
    """Replace every row of B (rows, K) by the nearest point with entries >= 0 that sum to 1."""
    rows, K = B.shape
    for i in range(rows):
        ordered = np.sort(B[i])[::-1]
        total = 0.0
        shift = 0.0
        for c in range(K):
            total += ordered[c]
            if ordered[c] * (c + 1) > total - 1.0:
                shift = (total - 1.0) / (c + 1)
        for c in range(K):
            B[i, c] = max(B[i, c] - shift, 0.0)


@_jit
def _gst(s, tau, p):
    """Generalised soft threshold: argmin_x (x - s)^2 / 2 + tau x^p over x >= 0, for a vector s >= 0 and 0 < p <= 1."""
    out = np.zeros_like(s)
    valley = (2.0 * tau * (1.0 - p)) ** (1.0 / (2.0 - p))
    for i in range(s.size):
        # Below the threshold 0 wins; above it the fixed point is a contraction with a factor of at most p/2.
        if s[i] > _gst_threshold(tau, p):
            x = s[i]
            for _ in range(100):
                previous = x
                x = max(s[i] - p * tau * x ** (p - 1.0), valley)
                if abs(x - previous) <= 1e-15 * s[i]:
                    break
            out[i] = x
    return out


@_jit
def _gst_threshold(tau, p):
    """The largest s that the generalised soft threshold sends to 0."""
    base = 2.0 * tau * (1.0 - p)
    if base == 0.0:
        return tau
    return base ** (1.0 / (2.0 - p)) + p * tau * base ** ((p - 1.0) / (2.0 - p))


@_jit
def _form_B2(index, weight, G, Q, Y1, J, Y2, mu, rho, lo, hi):
    """J <- 2 S*G + mu Q - Y1 + rho J - Y2 for rows lo..hi."""
    V = index.shape[1]
    L = G.shape[1]
    K = L // V
    row = np.empty(L)
    for i in range(lo, hi):
        for c in range(L):
            row[c] = mu * Q[i, c] - Y1[i, c] + rho * J[i, c] - Y2[i, c]
        for u in range(V):
            # (S*G)^(r) = sum_u S^(u) G^(r-u): slice u of S moves G's slices on by u.
            shift = u * K
            for t in range(index.shape[2]):
                w = 2.0 * weight[i, u, t]
                g = G[index[i, u, t]]
                for c in range(L - shift):
                    row[c + shift] += w * g[c]
                for c in range(shift):
                    row[c] += w * g[c + L - shift]
        J[i] = row


@_jit
def _scatter(index, weight, H, m, lo, hi):
    """The part of S^T*H (m, V*K) that rows lo..hi contribute: (S^T*H)^(v) = sum_u (S^(u))^T H^(v+u)."""
    V = index.shape[1]
    L = H.shape[1]
    K = L // V
    out = np.zeros((m, L))
    for i in range(lo, hi):
        for u in range(V):
            shift = u * K
            for t in range(index.shape[2]):
                w = weight[i, u, t]
                a = out[index[i, u, t]]
                for c in range(L - shift):
                    a[c] += w * H[i, c + shift]
                for c in range(shift):
                    a[c + L - shift] += w * H[i, c]
    return out


@_jit
def _clip(H, Q, Y1, mu, lo, hi):
    """Q <- max(H + Y1/mu, 0) and Y1 <- Y1 + mu (H - Q) for rows lo..hi; returns max |Q - H|."""
    worst = 0.0
    for i in range(lo, hi):
        for c in range(H.shape[1]):
            z = H[i, c] + Y1[i, c] / mu
            q = max(z, 0.0)
            Q[i, c] = q
            Y1[i, c] = mu * (z - q)
            worst = max(worst, abs(q - H[i, c]))
    return worst


@cache  # because it searches the loaded libraries
def _thread_pools():
    """The libraries whose limit is each thread's own (OpenMP, but not Microsoft's), and those with one for all."""
    libraries = ThreadpoolController().lib_controllers
    own = [library for library in libraries if library.internal_api == "openmp" and library.prefix != "vcomp"]
    return own, [library for library in libraries if library not in own]


_thread = threading.local()  # .threads: how many its call may use, in threads that work for a call of ours
_process = SimpleNamespace(lock=threading.Lock(), calls=0, before=[])  # calls in all threads; limits before the first


@contextmanager
def _limits(n_jobs=None):
    """For a with: n_jobs threads of ours, and BLAS and OpenMP on one, because their sums depend on the number."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and (n_jobs == -1 or n_jobs >= 1)):
        raise ValueError(f"n_jobs must be None, -1 or an int of at least 1, got {n_jobs!r}")
    threads = numba.config.NUMBA_NUM_THREADS if n_jobs in (None, -1) else int(n_jobs)
    outer = getattr(_thread, "threads", None)  # a call within a call, from a callback
    _thread.threads = threads if outer is None else min(threads, outer)
    try:
        with _one_library_thread() if outer is None else nullcontext():
            yield
    finally:
        _thread.threads = outer


@contextmanager
def _one_library_thread():
    """BLAS has one limit for the process: the first call that begins sets it, the last that ends gives it back."""
    own, shared = _thread_pools()
    before = [(library, library.num_threads) for library in own]
    with _process.lock:
        if _process.calls == 0:
            _process.before = [(library, library.num_threads) for library in shared]
            for library in shared:
                _set_limit(library, 1)
        _process.calls += 1
    try:
        for library in own:
            _set_limit(library, 1)
        yield
    finally:
        with _process.lock:
            _process.calls -= 1
            if _process.calls == 0:
                _give_back_shared_limits()
        for library, number in before:
            _set_limit(library, number)


def _set_limit(library, number):
    # Newer threadpoolctl lets the thread that set OpenBLAS's limit own it: others then set it in vain, in silence. Here
    # the thread that gives it back need not be the one that set it.
    disown = getattr(library, "clear_controlling_thread", lambda force: None)
    disown(force=True)
    library.set_num_threads(number)
    disown(force=True)


def _give_back_shared_limits():
    for library, number in _process.before:
        if library.num_threads == 1:  # otherwise somebody else has set it meanwhile, and it is theirs
            _set_limit(library, number)


def _forget_other_threads():
    """In a forked child only the thread that forked lives on; the calls of the others will not end there."""
    calls = int(getattr(_thread, "threads", None) is not None)
    if calls == 0 and _process.calls > 0:
        _give_back_shared_limits()
    _process.calls = calls
    _process.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_process.lock.acquire, after_in_parent=_process.lock.release, after_in_child=_forget_other_threads
    )


def _begin_worker():
    """A worker is one thread for its call, and so are the libraries in it; its settings end with it."""
    for library in _thread_pools()[0]:
        _set_limit(library, 1)
    _thread.threads = 1


def _map_rows(function, n, rows=4096):
    """[function(lo, hi), ...] over fixed blocks of rows, in order, on the threads that the running call may use.

    The blocks do not depend on the number of threads, so sums over the list do not either. Plain threads, because
    every kernel and NumPy release the interpreter's lock, and because they survive forks and concurrent callers,
    which numba's own thread pools do not.
    """
    blocks = [(lo, min(lo + rows, n)) for lo in range(0, n, rows)]
    threads = min(len(blocks), getattr(_thread, "threads", None) or numba.config.NUMBA_NUM_THREADS)
    if threads <= 1:
        return [function(lo, hi) for lo, hi in blocks]
    with ThreadPoolExecutor(threads, initializer=_begin_worker) as pool:
        return list(pool.map(lambda block: function(*block), blocks))


# ======================================================================================================================
# 2 tensors: the t-product and the tensor Schatten p-norm, for tensors of the paper's shape (n1, n2, n3).

AXES = ("cluster", "lateral", "sample", "view")
_DFT_ALONG = {"sample": 0, "cluster": 1, "view": 2}


def tprod(A, B):
    """t-product A * B (Definition 1): slice-wise matrix products after a DFT along the third axis.

    A is (n1, m, n3), B is (m, n2, n3), the product (n1, n2, n3).

    >>> import numpy as np, agtf
    >>> A, B = np.ones((2, 3, 4)), np.ones((3, 5, 4))
    >>> agtf.tprod(A, B).shape
    (2, 5, 4)
    """
    A, B = np.asarray(A, float), np.asarray(B, float)
    if A.ndim != 3 or B.ndim != 3 or A.shape[1] != B.shape[0] or A.shape[2] != B.shape[2]:
        raise ValueError(f"tprod takes (n1, m, n3) and (m, n2, n3), got {A.shape} and {B.shape}")
    products = np.einsum("imf,mkf->ikf", np.fft.rfft(A), np.fft.rfft(B), optimize=True)
    return np.fft.irfft(products, n=A.shape[2])


def ttranspose(A):
    """Tensor transpose of A (n1, n2, n3): every frontal slice transposed, slices 1, ..., n3 - 1 in reverse order.

    >>> import numpy as np, agtf
    >>> A = np.arange(12.0).reshape(2, 2, 3)
    >>> bool((agtf.ttranspose(agtf.ttranspose(A)) == A).all())
    True
    """
    A = np.swapaxes(np.asarray(A), 0, 1)
    return np.concatenate([A[:, :, :1], A[:, :, :0:-1]], axis=2)


def _to_slices(X, axis, fft_norm):
    """The stack of matrices whose singular values the norm of X (n, K, V) sums."""
    X = np.asarray(X, float)
    if X.ndim != 3:
        raise ValueError(f"a tensor has 3 axes (samples, clusters, views), got shape {X.shape}")
    if axis == "lateral":
        return X.transpose(1, 0, 2)
    return np.moveaxis(np.fft.fft(X, axis=_DFT_ALONG[axis], norm=fft_norm), _DFT_ALONG[axis], 0)


def _from_slices(slices, axis, fft_norm):
    if axis == "lateral":
        return slices.transpose(1, 0, 2)
    return np.fft.ifft(np.moveaxis(slices, 0, _DFT_ALONG[axis]), axis=_DFT_ALONG[axis], norm=fft_norm).real


def schatten_norm(X, p, axis="cluster", fft_norm="ortho"):
    """Tensor Schatten p-norm (Definition 2): the p-norm of the singular values of all transformed slices.

    X is (n, K, V), samples (or anchors) x clusters x views, and 0 < p <= 1. `axis` says where the DFT runs. "cluster"
    (Definition 2): along the clusters, slices n x V. "lateral" (the Remark): nowhere, slices n x V. "sample": along the
    samples, slices K x V; this one depends on the order of the rows. "view": along the views, slices n x K.
    fft_norm="backward" leaves the DFT without a factor, as the code behind the published figures does.

    >>> import numpy as np, agtf
    >>> X = np.zeros((4, 2, 3))
    >>> X[0, 0] = [3, 0, 4]
    >>> round(agtf.schatten_norm(X, 1.0, axis="lateral"), 6)
    5.0
    """
    _check_norm_options(p, axis, fft_norm)
    s = np.linalg.svd(_to_slices(X, axis, fft_norm), compute_uv=False)
    return float((s**p).sum() ** (1 / p))


def schatten_prox(Z, tau, p, axis="cluster", fft_norm="ortho"):
    """argmin_X ||X - Z||_F^2 / 2 + tau ||X||_Sp^p (Lemma 1): the singular values of all slices shrunk by GST.

    Z and the result are (n, K, V), tau is at least 0; p, axis and fft_norm are as in `schatten_norm`. With "backward"
    the shrinkage acts on the unnormalised DFT's singular values.

    >>> import numpy as np, agtf
    >>> Z = np.zeros((4, 2, 3))
    >>> Z[0, 0] = [3, 0, 4]
    >>> agtf.schatten_prox(Z, 2.5, 1.0, axis="lateral")[0, 0].round(6)
    array([1.5, 0. , 2. ])
    """
    if not tau >= 0:
        raise ValueError(f"tau must be >= 0, got {tau!r}")
    _check_norm_options(p, axis, fft_norm)
    U, s, Vh = np.linalg.svd(_to_slices(Z, axis, fft_norm), full_matrices=False)
    shrunk = _gst(s.ravel(), float(tau), float(p)).reshape(s.shape)
    return np.ascontiguousarray(_from_slices((U * shrunk[:, None, :]) @ Vh, axis, fft_norm))


def _check_norm_options(p, axis, fft_norm):
    if not 0 < p <= 1:
        raise ValueError(f"p must lie in (0, 1], got {p!r}")
    _check_choice("axis", axis, AXES)
    _check_choice("fft_norm", fft_norm, ("ortho", "backward"))


def _check_choice(name, value, choices):
    if not isinstance(value, (str, type(None))) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _whole(name, value, low, high, limits, kind="an int"):
    """`value` as an int between low and high, which `limits` says in words."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name} must be {kind}, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must {limits}, got {value}")
    return int(value)


# ======================================================================================================================
# 3 views: checked, put in an order that depends on their contents alone, scaled row block by row block.

SCALES = ("auto", "zscore", "unit", "max", None)


def _as_views(views):
    """A list of (n, d_v) float-convertible arrays or CSR matrices; a single table is a list of one."""
    if hasattr(views, "shape") or hasattr(views, "__array__") or hasattr(views, "__dataframe__"):
        views = [views]
    elif not isinstance(views, (list, tuple)):
        raise TypeError(f"views must be a list of (samples, features) tables, got {type(views).__name__}")
    elif len(views) and not hasattr(views[0], "shape") and np.ndim(views[0]) < 2:
        views = [np.asarray(views)]  # one table as a list of rows
    if len(views) == 0:
        raise ValueError("views is empty: give at least one (samples, features) table")
    views = [_as_table(view, f"views[{v}]") for v, view in enumerate(views)]
    for v, view in enumerate(views):
        if view.shape[0] != views[0].shape[0]:
            rows = f"views[{v}] has {view.shape[0]} rows, views[0] has {views[0].shape[0]}"
            raise ValueError(f"{rows}: every view must describe the same samples, one per row")
    return views


def _as_table(view, name):
    if sparse.issparse(view):
        view = sparse.csr_array(view)
        if not view.has_canonical_format:
            view = view.copy()
            view.sum_duplicates()
    else:
        view = np.asarray(view)
    if np.iscomplexobj(view):
        raise ValueError(f"Complex data not supported: {name} is complex, give real and imaginary parts as columns")
    if view.dtype.kind not in "fiub":
        try:
            view = view.astype(float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} is not numeric (dtype {view.dtype}): encode text and categories first") from error
    if view.ndim != 2:
        hint = "Reshape your data with array.reshape(-1, 1) if it is one feature"
        raise ValueError(f"{name} has shape {view.shape}; expected 2D array, (samples, features). {hint}")
    if 0 in view.shape:
        raise ValueError(f"{name} has {view.shape[0]} sample(s) and {view.shape[1]} feature(s): drop it")
    return view


def _rows_seen(view, name, wanted, lo, hi):
    """Which of the wanted rows were observed: not those of nothing but NaN. Other NaN, or infinity, is an error."""
    block, wanted = view[lo:hi], wanted[lo:hi]
    values = block.data if sparse.issparse(block) else block
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return wanted
    nan, bad = np.isnan(values), ~np.isfinite(values)
    if sparse.issparse(block):
        nan, bad = (sparse.csr_array((x, block.indices, block.indptr), block.shape).toarray() for x in (nan, bad))
    wanted = wanted & ~nan.all(axis=1)
    bad &= wanted[:, None]
    if bad.any():
        row, column = np.argwhere(bad)[0]
        where = f"{bad.any(axis=1).sum()} partly filled row(s), first in row {row + lo}, column {column}"
        hint = "impute it, or make the whole row NaN if the sample was not seen there"
        raise ValueError(f"{name} contains NaN or infinity in {where}: {hint}")
    return wanted


@dataclass
class _Scaling:
    """How one view is scaled: (x - shift) * factor per column, then rows of length 1 if `unit`."""

    factor: np.ndarray  # (features,)
    shift: np.ndarray | None  # (features,), None for a sparse view, whose zeros must stay zeros
    unit: bool
    weight: float = 1.0  # of the view among the joint features

    def __call__(self, rows):
        if sparse.issparse(rows):
            data = rows.data * self.factor[rows.indices]
            if self.unit:
                row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
                length = np.sqrt(np.bincount(row, data**2, rows.shape[0]))
                data /= np.where(length > 0, length, 1.0)[row]
            return sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)
        rows = (np.asarray(rows, float) - self.shift) * self.factor
        if self.unit:
            length = np.linalg.norm(rows, axis=1, keepdims=True)
            rows /= np.where(length > 0, length, 1.0)
        return rows


def _fingerprints(view, lo, hi):
    """One 64-bit number per row that depends on the row's values alone; dense and sparse agree."""
    rows = view[lo:hi]
    if sparse.issparse(rows):
        values, columns = rows.data.astype(float), rows.indices
    else:
        values, columns = np.ascontiguousarray(rows, float), np.arange(rows.shape[1])
    salt = (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = _mix(values.view(np.uint64) ^ salt)
    mixed[values == 0] = 0
    if sparse.issparse(rows):
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        return total[rows.indptr[1:]] - total[rows.indptr[:-1]]
    return mixed.sum(axis=1, dtype=np.uint64)


def _mix(x):
    """A bijection of the 64-bit integers that spreads every bit (the finaliser of splitmix64, shortened)."""
    x = (x ^ (x >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(32))


@dataclass
class _Data:
    """The views in working order: position i stands for input row rows[i], slot v for input view slots[v]."""

    views: list
    rows: np.ndarray
    slots: np.ndarray
    seen: np.ndarray | None  # (n, V): whether a row was observed in a view; None if all were
    scalings: list = field(default_factory=list)
    distinct: np.ndarray | None = None  # one position for every different row that was seen in all views
    different: int = 0  # how many different rows there are

    @property
    def n(self):
        return len(self.rows)

    @property
    def complete(self):
        """Positions of the rows that were seen in all views."""
        return np.arange(self.n) if self.seen is None else np.flatnonzero(self.seen.all(axis=1))

    def scaled(self, v, positions):
        """Scaled rows of view v; rows that were not seen become 0, for nobody to use."""
        rows = self.views[v][self.rows[positions]]
        if self.seen is not None:
            seen = self.seen[positions, v]
            rows = sparse.diags_array(seen * 1.0) @ rows if sparse.issparse(rows) else np.where(seen[:, None], rows, 0)
        return self.scalings[v](rows)

    def joint(self, positions):
        """All scaled views side by side, each divided by the root of its total variance."""
        blocks = [s.weight * self.scaled(v, positions) for v, s in enumerate(self.scalings)]
        return sparse.hstack(blocks, format="csr") if any(map(sparse.issparse, blocks)) else np.hstack(blocks)


def _observed(views, mask):
    """Whether sample i was observed in view v, as an (n, V) array, from NaN rows and the mask."""
    n, V = views[0].shape[0], len(views)
    mask = np.ones((n, V), bool) if mask is None else np.asarray(mask)
    if mask.shape != (n, V) or mask.dtype != bool:
        raise ValueError(f"mask must be a boolean array of shape {(n, V)}, True where a sample was seen in a view")
    blocks = [_map_rows(partial(_rows_seen, views[v], f"views[{v}]", mask[:, v]), n) for v in range(V)]
    seen = np.stack([np.concatenate(found) for found in blocks], axis=1)
    nowhere = np.flatnonzero(~seen.any(axis=1))
    if len(nowhere):
        raise ValueError(f"{len(nowhere)} sample(s) were seen in no view, first sample {nowhere[0]}: leave them out")
    return seen


def _arrange(views, mask, canonical):
    """Check the values and choose the working order.

    The canonical order sorts views and rows by fingerprints of their contents, so that whatever follows, sums and
    random draws included, cannot depend on the order in which they were given.
    """
    n = views[0].shape[0]
    seen = _observed(views, mask)
    prints = [np.concatenate(_map_rows(partial(_fingerprints, view), n)) for view in views]
    prints = [np.where(seen[:, v], f, np.uint64(1)) for v, f in enumerate(prints)]
    slots = np.arange(len(views))
    if canonical:
        together = _mix(np.sum([_mix(f) for f in prints], axis=0, dtype=np.uint64))
        slots = np.argsort([np.sum(_mix(f ^ together), dtype=np.uint64) for f in prints], kind="stable")
    keys = np.zeros(n, np.uint64)
    for slot in slots:
        keys = _mix(keys + prints[slot])
    rows = np.argsort(keys, kind="stable") if canonical else np.arange(n)
    seen = seen[rows][:, slots]
    first = np.sort(np.unique(keys[rows], return_index=True)[1])
    distinct = first[seen[first].all(axis=1)]
    views, seen = [views[slot] for slot in slots], None if seen.all() else seen
    return _Data(views, rows, slots, seen, distinct=distinct, different=len(first))


def _fit_scaling(data, v, scale):
    """Scaling of one view (its statistics are summed in working order, so they are order-free too)."""
    table = data.views[v]
    rows = data.rows if data.seen is None else data.rows[data.seen[:, v]]
    n, d, is_sparse = len(rows), table.shape[1], sparse.issparse(table)
    if n == 0:
        raise ValueError(f"views[{data.slots[v]}] was observed in no sample: leave it out")

    def extent(lo, hi):
        block = table[rows[lo:hi]]
        if is_sparse:
            return block.min(axis=0).toarray().ravel(), block.max(axis=0).toarray().ravel(), block.nnz
        return block.min(axis=0), block.max(axis=0), np.count_nonzero(block)

    low, high, filled = zip(*_map_rows(extent, n))
    low, high = np.min(low, axis=0).astype(float), np.max(high, axis=0).astype(float)
    if scale == "auto":
        mostly_zero = is_sparse or (low.min() >= 0 and sum(filled) < 0.5 * n * d)
        scale = "unit" if mostly_zero else "zscore"
    top = max(-low.min(), high.max())
    if top > (1e150 if scale is None else 1e305):
        hint = 'use scale="auto"' if scale is None and top <= 1e305 else "rescale it"
        raise ValueError(f"views[{data.slots[v]}] has values as large as {top:.1e}, too large to square: {hint}")
    # Statistics of (x - low) / (high - low) can neither overflow nor cancel, whatever the units of x.
    width = high - low if scale == "zscore" else np.full(d, top if scale in ("unit", "max") and top > 0 else 1.0)
    varies = width > np.finfo(float).tiny
    factor = np.where(varies, 1.0 / np.where(varies, width, 1.0), 0.0)
    shift = None if is_sparse else (low if scale == "zscore" else np.zeros(d))
    scaling = _Scaling(factor, shift, unit=scale == "unit")

    def moments(lo, hi):
        block = scaling(table[rows[lo:hi]])
        return np.asarray(block.sum(axis=0)).ravel(), np.asarray((block**2).sum(axis=0)).ravel()

    total, squares = (np.sum(part, axis=0) for part in zip(*_map_rows(moments, n)))
    mean = total / n
    variance = np.maximum(squares / n - mean**2, 0.0)
    if scale == "zscore":
        varies &= variance > 1e-20
        if shift is not None:
            scaling.shift = low + mean * width
        scaling.factor = np.where(varies, factor / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
        variance = varies.astype(float)
    spread = variance.sum()
    scaling.weight = 1.0 / np.sqrt(spread) if spread > 0 else 0.0
    return scaling


# ======================================================================================================================
# 4 anchors and graphs: every view as n x k indices and weights of nearest anchors.

ANCHORS = ("medoid", "vda", "random")
_SAMPLE_ROWS = 10_000  # rows that k-means sees when it looks for anchors, whatever n is
_DRAW_ROWS = 20_000  # up to here anchors are drawn three times by default; beyond, time matters more


def _count_anchors(n_anchors, data, k):
    n, complete = data.n, len(data.complete)
    if _is(n_anchors, "auto"):
        # Eight anchors a cluster, so that a sample's eight neighbours may all lie in its cluster.
        m = min(int(12 * np.sqrt(complete)), 1000) if n <= _DRAW_ROWS else 400
        m = max(min(5 * complete // 6, max(8 * k, m)), 2 * k)
        m, least = min(m, max(len(data.distinct), 2)), 2 * k
    elif isinstance(n_anchors, (float, np.floating)):
        if not 0 < n_anchors <= 1:
            raise ValueError(f"n_anchors as a rate must lie in (0, 1], got {n_anchors}; as a count it must be an int")
        m = least = max(int(round(n_anchors * n)), 2)
    else:
        limits = f"lie between 2 and the number of samples, {n}"
        m = least = _whole("n_anchors", n_anchors, 2, n, limits, "an int, a float rate or 'auto'")
    if complete < min(least, n):
        hint = "drop the view with the most missing samples, or ask for fewer anchors"
        are = f"{complete} of {n} samples are, {least} are needed"
        raise ValueError(f"anchors must be seen in all views: {are}; {hint}")
    return m


def _count_draws(n_draws, anchors, n_anchors, n):
    may_differ = isinstance(anchors, str) and anchors != "vda"
    if _is(n_draws, "auto"):
        return 3 if may_differ and _is(n_anchors, "auto") and n <= _DRAW_ROWS else 1
    if not isinstance(n_draws, (int, np.integer)) or isinstance(n_draws, bool) or n_draws < 1:
        raise ValueError(f"n_draws must be 'auto' or an int of at least 1, got {n_draws!r}")
    if n_draws > 1 and not may_differ:
        raise ValueError("n_draws above 1 needs anchors that are drawn, 'medoid' or 'random'")
    return int(n_draws)


def _choose_anchors(data, anchors, m, draws, rng):
    """Positions of the anchors, the same samples in every view, m for each draw, ascending within it."""
    if anchors == "vda":
        return _vda(data, m)
    pool = data.distinct if m <= len(data.distinct) else data.complete  # too few different rows: copies too
    if anchors == "random":
        return np.concatenate([np.sort(rng.choice(pool, m, replace=False)) for _ in range(draws)])
    if len(pool) > max(_SAMPLE_ROWS, 2 * m):
        pool = np.sort(rng.choice(pool, max(_SAMPLE_ROWS, 2 * m), replace=False))
    if m == len(pool):
        return np.tile(pool, draws)
    X = data.joint(pool)
    if X.shape[1] > 500 and X.shape[0] > 100:  # leading principal directions: k-means costs the same for any width
        U, s, _ = randomized_svd(X, 100, n_iter=2, random_state=rng.randint(2**31 - 1))
        X = U * s
    X = X.toarray() if sparse.issparse(X) else X

    def draw(seed):
        centres = _kmeans(X, m, n_init=1, max_iter=20, random_state=seed).cluster_centers_
        chosen = []
        for distance in euclidean_distances(np.resize(centres, (m, X.shape[1])), X, squared=True):
            distance[chosen] = np.inf  # every centre takes another sample
            chosen.append(distance.argmin())
        return np.sort(pool[chosen])

    seeds = rng.randint(2**31 - 1, size=draws)
    return np.concatenate(_map_rows(lambda i, _: draw(seeds[i]), draws, rows=1))


def _kmeans(X, k, **options):
    """KMeans fitted to X, with fewer than k clusters where X has fewer rows that its distances can tell apart.

    It would warn of them, and filters for warnings belong to the process: a thread must not change them.
    """
    centred = X - X.mean(axis=0)
    place = centred @ np.random.RandomState(0).normal(size=X.shape[1])  # rows that differ do on a random line, too
    order = np.argsort(place)
    # Half of the digits are lost in |x|^2 - 2xc + |c|^2.
    apart = np.diff(place[order]) > 1e-7 * np.linalg.norm(centred[order], axis=1)[1:]
    return KMeans(min(k, 1 + apart.sum()), **options).fit(X)


def _vda(data, m):
    """Variance-based de-correlated anchors, the rule of the paper's reference for anchor selection."""

    def moments(lo, hi):
        blocks = [data.scaled(v, slice(lo, hi)) for v in range(len(data.views))]
        return sum(b.sum(axis=1) for b in blocks), sum((b**2).sum(axis=1) for b in blocks)

    total, squares = (np.concatenate(part) for part in zip(*_map_rows(moments, data.n)))
    d = sum(view.shape[1] for view in data.views)
    s = np.maximum(squares - total**2 / d, 0.0) / max(d - 1, 1)
    s = s / s.max() if s.max() > 0 else np.ones_like(s)
    chosen, free = [], np.zeros(data.n, bool)
    free[data.complete] = True
    for _ in range(m):
        best = np.argmax(np.where(free, s, -1.0))
        chosen.append(best)
        free[best] = False
        closeness = 1.0 / (1.0 + np.sqrt(np.abs(s[best] - s)))
        s = s * (1.0 - closeness)
        if s.max() > 0:
            s = s / s.max()
    return np.sort(chosen)


@dataclass
class _Graph:
    """The anchor graph tensor S (n, m, V), few non-zeros a row: S[i, index[i, v, t], v] = weight[i, v, t].

    Anchors drawn several times lie side by side, the graph is then the mean of the draws' graphs.
    """

    index: np.ndarray  # (n, V, neighbours * draws) int32
    weight: np.ndarray  # the same shape
    m: int  # anchors of all draws
    draws: int = 1

    def rows(self, some):
        return replace(self, index=self.index[some], weight=self.weight[some])

    def draw(self, d):
        """The graph of one draw alone."""
        k, m = self.index.shape[2] // self.draws, self.m // self.draws
        part = slice(d * k, (d + 1) * k)
        return _Graph(self.index[:, :, part] - np.int32(d * m), self.weight[:, :, part] * self.draws, m)

    def normalised(self, k):
        """sqrt(m/k) S Lambda^(-1/2), with which S^T*H of a clean partition lies on the simplex by itself."""
        weight = self.weight.copy()
        for v in range(self.index.shape[1]):
            mass = np.bincount(self.index[:, v].ravel(), self.weight[:, v].ravel(), self.m)
            weight[:, v] *= np.sqrt(self.m / k / np.where(mass > 0, mass, 1.0))[self.index[:, v]]
        return replace(self, weight=weight)

    def transposed_times(self, H):
        """S^T*H (m, V*K)."""
        return sum(_map_rows(partial(_scatter, self.index, self.weight, H, self.m), len(H)))

    def matrix(self, slices):
        """The chosen slices of S side by side, as a sparse (n, m * len(slices)) matrix."""
        n, _, k = self.index.shape
        columns = np.concatenate([self.index[:, v] + at * self.m for at, v in enumerate(slices)], axis=1)
        values = np.concatenate([self.weight[:, v] for v in slices], axis=1)
        starts = np.arange(0, columns.size + 1, k * len(slices))
        return sparse.csr_array((values.ravel(), columns.ravel(), starts), (n, self.m * len(slices)))


def _anchor_graph(data, anchors, draws, k, joint):
    """Graph of the data's samples; anchors[v] are the scaled rows in view v of the anchors of all draws.

    The joint slice needs no joint features: its squared distance is the weighted sum of those of the views. Over the
    views in which a sample was seen, it also stands in for the others: all views share their anchors.
    """
    V, m, seen = len(anchors), anchors[0].shape[0], data.seen
    index = np.empty((data.n, V + joint, k * draws), np.int32)
    weight = np.empty(index.shape)
    first = np.repeat(np.arange(draws, dtype=np.int32) * (m // draws), k)

    def nearest(distance):
        by_draw = distance.reshape(-1, m // draws)
        near, close = np.empty((len(by_draw), k), np.int32), np.empty((len(by_draw), k))
        _nearest_anchors(by_draw, near, close)
        return near.reshape(-1, k * draws) + first, close.reshape(-1, k * draws) / draws

    def fill(lo, hi):
        together = np.zeros((hi - lo, m))
        for v in range(V):
            distance = euclidean_distances(data.scaled(v, slice(lo, hi)), anchors[v], squared=True)
            index[lo:hi, v], weight[lo:hi, v] = nearest(distance)
            distance *= data.scalings[v].weight ** 2
            together += distance if seen is None else distance * seen[lo:hi, v, None]
        if joint or seen is not None:
            near, close = nearest(together)
            if joint:
                index[lo:hi, V], weight[lo:hi, V] = near, close
            for v in range(V if seen is not None else 0):
                missing = np.flatnonzero(~seen[lo:hi, v])
                index[lo + missing, v], weight[lo + missing, v] = near[missing], close[missing]

    _map_rows(fill, data.n, rows=1024)
    return _Graph(index, weight, m, draws)


# ======================================================================================================================
# 5 start: labels from the spectrum of the graphs.

_KMEANS_ROWS = 20_000  # rows that k-means and the discriminants see; the others follow their rule


def _spectral_labels(graph, k, joint, rng, seen=None):
    """k-means on the spectral embeddings, for every draw, of the views' graphs together and of the joint graph.

    Where views are missing, the samples seen in most views, at least 20 a cluster, are clustered first, and their
    anchors vote for the others: half-seen samples blur the spectrum (HandWritten4, 30 % missing: 0.88 against 0.92).
    """
    V = graph.index.shape[1] - joint
    if seen is not None:
        views_seen = seen.sum(axis=1)
        least = next(c for c in range(V, 0, -1) if c == 1 or (views_seen >= c).sum() >= 20 * k)
        first, rest = np.flatnonzero(views_seen >= least), np.flatnonzero(views_seen < least)
        labels = np.empty(len(seen), np.intp)
        labels[first] = _spectral_labels(graph.rows(first), k, joint, rng)
        memberships = np.zeros((V + joint, graph.m, k))
        for v in range(V + joint):
            np.add.at(memberships[v], (graph.index[first, v], labels[first, None]), graph.weight[first, v])
        memberships /= np.maximum(memberships.sum(axis=2, keepdims=True), 1e-300)
        labels[rest] = _votes(graph.rows(rest), memberships).sum(axis=1).argmax(axis=1)
        return labels
    draws = (graph.draw(d).normalised(k) for d in range(graph.draws))
    matrices = (draw.matrix(slices) for draw in draws for slices in (range(V), [V])[: 1 + joint])
    return _kmeans_labels(np.hstack([_embedding(A, k) for A in matrices]), k, rng)


def _spectrum(A, r):
    """The r largest squared singular values of A (n, size), descending, and the right singular vectors."""
    n, size = A.shape
    total = sum(_map_rows(lambda lo, hi: (A[lo:hi].T @ A[lo:hi]).toarray(), n, rows=max(16384, n // 8 + 1)))
    r = min(r, size, n)
    if size > 600 and r < size // 10:
        try:
            square, right = eigsh(total, r, v0=np.ones(size))
            order = np.argsort(-square)
            return square[order], right[:, order]
        except ArpackError:  # many equal eigenvalues, as in a graph of many components, can be too hard for Lanczos
            pass
    square, right = eigh(total, subset_by_index=[size - r, size - 1])
    return square[::-1], right[:, ::-1]


def _embedding(A, k):
    """Leading left singular vectors of A as rows of length 1.

    Twice as many as clusters (at most k + 10), the j-th multiplied by (s_j / s_1)^3: a soft end instead of a cut at k,
    measured to be worth 0.015 of accuracy in the mean of seven sets.
    """
    square, right = _spectrum(A, min(2 * k, k + 10))
    s = np.sqrt(np.maximum(square, 1e-12 * square[0]))
    U = A @ (right * (s**2 / s[0] ** 3))
    length = np.linalg.norm(U, axis=1, keepdims=True)
    return U / np.where(length > 0, length, 1.0)


def _kmeans_labels(X, k, rng):
    """k-means, then rounds of linear discriminants: directions along which the clusters spread anyway count less."""
    n = X.shape[0]
    some = np.arange(n) if n <= _KMEANS_ROWS else np.sort(rng.choice(n, _KMEANS_ROWS, replace=False))
    seed = rng.randint(2**31 - 1)
    rule = _kmeans(X[some], k, n_init=10, random_state=seed)
    labels = rule.labels_
    for _ in range(5 if k > 1 else 0):
        if np.bincount(labels, minlength=k).min() < 2:  # a cluster of one sample has no spread to learn from
            break
        discriminants = _discriminants(X[some], labels)
        found = discriminants.predict(X[some])
        if len(np.unique(found)) < k or np.array_equal(found, labels):
            break
        rule, labels = discriminants, found
    return labels if len(some) == n else rule.predict(X)


def _discriminants(X, labels):
    many = len(np.unique(labels))
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1, priors=np.full(many, 1 / many)).fit(X, labels)


def _labels_by_view(data, labels, k, rng):
    """Better labels where views are missing: linear discriminants in every view, their log-probabilities summed.

    A view speaks for the samples it has seen, and shows as many leading directions as the root of their number. Worth
    0.015 on HandWritten4 with 30 % missing and 0.05 with 50 %; complete data gain on some sets and lose on others.
    """
    n, V = data.seen.shape
    seen_by, directions = [], []
    for v in range(V):
        rows = np.flatnonzero(data.seen[:, v])
        if len(rows) > _KMEANS_ROWS:
            rows = np.sort(rng.choice(rows, _KMEANS_ROWS, replace=False))
        d, r, seed = data.views[v].shape[1], int(np.sqrt(len(rows))), rng.randint(2**31 - 1)
        directions.append(randomized_svd(data.scaled(v, rows), r, random_state=seed)[2].T if d > r else np.eye(d))
        seen_by.append(rows)

    def features(v, positions):
        return data.scaled(v, positions) @ directions[v]

    def decide(rules, lo, hi):
        total = np.zeros((hi - lo, k))
        total[np.arange(hi - lo), labels[lo:hi]] = 1e-9  # no view has an opinion: the label stays
        for v, rule in rules.items():
            rows = np.flatnonzero(data.seen[lo:hi, v])
            opinion = np.full((len(rows), k), -20.0)  # what a view excludes is improbable, not impossible
            if len(rows):
                opinion[:, rule.classes_] = np.maximum(rule.predict_log_proba(features(v, lo + rows)), -20.0)
            total[rows] += opinion
        return total.argmax(axis=1)

    for _ in range(5):
        rules = {}
        for v, rows in enumerate(seen_by):
            rows = rows[np.bincount(labels[rows], minlength=k)[labels[rows]] > 1]  # one sample has no spread
            if len(np.unique(labels[rows])) > 1:
                rules[v] = _discriminants(features(v, rows), labels[rows])
        found = np.concatenate(_map_rows(partial(decide, rules), n))
        if len(np.unique(found)) < k or np.array_equal(found, labels):
            break
        labels = found
    return labels


# ======================================================================================================================
# 6 Algorithm 1. Inside the solver a tensor of n samples, V views and K clusters is an (n, V*K) matrix. Every step that
#   mixes the numbers of a sample is then one V*K x V*K matrix from the right, found from a Gram matrix of that size.

HISTORY = ("Q-H", "Q-J", "G-F", "objective", "fit", "H_norm", "G_norm", "mu", "rho", "sigma")
_PENALTY_CAP = 1e13
_FULL_RANK = 1e-7  # smallest to largest eigenvalue: above it a polar factor from the Gram matrix is good to 1e-8


@dataclass
class _Norm:
    """Which tensor Schatten p-norm: the exponent, the reading of Definition 2, the convention of the DFT."""

    p: float
    axis: str
    fft_norm: str
    shape: tuple  # (V, K)

    def factor(self):
        """Singular values of the slices as computed here, times this, are those of the convention asked for."""
        length = {"cluster": self.shape[1], "view": self.shape[0]}.get(self.axis, 1)
        return np.sqrt(length) if self.fft_norm == "backward" else 1.0


def _gram(X):
    """X^T X over fixed blocks of rows."""
    return sum(_map_rows(lambda lo, hi: X[lo:hi].T @ X[lo:hi], X.shape[0]))


def _slice_grams(C, shape, axis):
    """Gram matrices of the slices that `axis` names, from the Gram matrix C of the (n, V*K) matrix."""
    V, K = shape
    C = C.reshape(V, K, V, K)
    if axis == "view":
        C = C.transpose(1, 0, 3, 2)
    if axis != "lateral":
        C = np.fft.ifft(np.fft.fft(C, axis=3), axis=1)
    return np.einsum("acbc->cab", C)


def _from_right(W, shape, axis):
    """The (V*K, V*K) matrix that multiplies every slice f from the right by W[f]."""
    V, K = shape
    L, at = len(W), np.arange(len(W))
    full = np.zeros((W.shape[1], L, W.shape[2], L))
    if axis == "lateral":
        full[:, at, :, at] = W
    else:
        # Slice-wise products in the frequency domain are circular convolutions in the time domain.
        for shift, w in enumerate(np.fft.ifft(W, axis=0).real):
            full[:, at, :, (at + shift) % L] = w
    if axis == "view":
        full = full.transpose(1, 0, 3, 2)
    return full.reshape(V * K, V * K)


def _update_G(StH, F, Y3, sigma, shape):
    """Eq. (solveG): the rows of B1 = (S^T*H + sigma/2 F - Y3/2) / (1 + sigma/2) projected on the simplex."""
    G = (StH + 0.5 * sigma * F - 0.5 * Y3) / (1.0 + 0.5 * sigma)
    _project_simplex(G.reshape(-1, shape[1]))
    return G


def _B2(S, G, Q, Y1, J, Y2, mu, rho):
    """B2 = 2 S*G + mu Q - Y1 + rho J - Y2, in the memory of J, which nobody needs any more."""
    _map_rows(partial(_form_B2, S.index, S.weight, G, Q, Y1, J, Y2, mu, rho), len(J))
    return J


def _update_H(B, H, shape):
    """Eq. (solveH): the polar factor of B2 at every view frequency, written into H."""
    square, right = np.linalg.eigh(_slice_grams(_gram(B), shape, "view"))
    if (square[:, 0] <= _FULL_RANK * square[:, -1]).any():
        H[:] = _polar_factor(B, H, shape)
        return
    # H^T*H = I asks for orthonormal slices of the unnormalised DFT; the Gram matrices are those of the orthonormal one.
    inverse_root = (right / np.sqrt(shape[0] * square)[:, None, :]) @ right.conj().swapaxes(1, 2)
    M = _from_right(inverse_root, shape, "view")
    _map_rows(lambda lo, hi: np.matmul(B[lo:hi], M, out=H[lo:hi]), len(B))


def _polar_factor(B, H, shape):
    """The same from thin SVDs, for B2 without full rank.

    Rows of G sum to 1, so from the identity start B2 loses a dimension at every view frequency but 0, and part of the
    polar factor is arbitrary. It is completed by the previous H: the limit of polar(B2 + e H) as e goes to 0.
    """
    V, K = shape
    B, H = (np.fft.fft(X.reshape(-1, V, K), axis=1) for X in (B, H))
    out = np.empty_like(H)
    for f in range(V // 2 + 1):
        U, s, Vh = np.linalg.svd(B[:, f], full_matrices=False)
        r = int((s > 1e-7 * s[0]).sum())
        out[:, f] = U[:, :r] @ Vh[:r]
        if r < K:
            null = Vh[r:].conj().T
            rest = H[:, f] @ null
            for _ in range(2):  # twice, for orthogonality to working precision
                rest = rest - U[:, :r] @ (U[:, :r].conj().T @ rest)
            A, _, Bh = np.linalg.svd(rest, full_matrices=False)
            out[:, f] += A @ Bh @ null.conj().T
        out[:, -f % V] = out[:, f].conj()
    return np.fft.ifft(out, axis=1).real.reshape(len(H), V * K)


def _update_Q(H, Q, Y1, mu):
    """Eq. (solveQ) in the time domain and its multiplier; returns max |Q - H|."""
    return max(_map_rows(partial(_clip, H, Q, Y1, mu), len(H)))


def _update_low_rank(X, J, Y, penalty, weight, norm, against):
    """Eqs. (solveJ), (solveF): J <- Gamma_{weight/penalty}(X + Y/penalty), then Y <- Y + penalty (X - J).

    Returns max |J - against| and ||J||_Sp^p.
    """
    tau = weight / penalty
    if norm.axis == "sample":
        Z = (X + Y / penalty).reshape(-1, *norm.shape).transpose(0, 2, 1)
        J3 = schatten_prox(Z, tau, norm.p, "sample", norm.fft_norm)
        J[:] = J3.transpose(0, 2, 1).reshape(J.shape)
        Y += penalty * (X - J)
        return np.abs(J - against).max(), schatten_norm(J3, norm.p, "sample", norm.fft_norm) ** norm.p

    def target(lo, hi):
        return X[lo:hi] + Y[lo:hi] / penalty

    # Shrinkage acts from the right. Squaring hides singular values below 1e-8 of the largest: they are within 1e-8 of
    # what any shrinkage makes of them.
    gram = sum(_map_rows(lambda lo, hi: (Z := target(lo, hi)).T @ Z, len(X)))
    square, right = np.linalg.eigh(_slice_grams(gram, norm.shape, norm.axis))
    s = np.sqrt(np.maximum(square, 0.0)) * norm.factor()
    shrunk = _gst(s.ravel(), tau, norm.p).reshape(s.shape)
    ratio = np.divide(shrunk, s, out=np.zeros_like(s), where=s > 0)
    W = _from_right((right * ratio[:, None, :]) @ right.conj().swapaxes(1, 2), norm.shape, norm.axis)

    def shrink(lo, hi):
        Z = target(lo, hi)
        np.matmul(Z, W, out=J[lo:hi])
        np.multiply(Z - J[lo:hi], penalty, out=Y[lo:hi])
        return np.abs(J[lo:hi] - against[lo:hi]).max()

    return max(_map_rows(shrink, len(X))), (shrunk**norm.p).sum()


@dataclass
class State:
    """What a callback sees after each iteration. Arrays are the solver's own: read, do not write."""

    iteration: int
    H: np.ndarray  # (n, V, K)
    Q: np.ndarray
    J: np.ndarray
    G: np.ndarray  # (m, V, K)
    F: np.ndarray
    history: dict  # lists, one entry per iteration so far
    rows: np.ndarray  # row i of H, Q and J belongs to sample rows[i]

    @property
    def labels(self):
        """Labels after this iteration, in the order of the given samples."""
        return self.Q.mean(axis=1).argmax(axis=1)[np.argsort(self.rows)]


def _algorithm1(S, H, Q, J, F, norm, lambda1, lambda2, penalty, growth, tol, max_iter, watch):
    """Algorithm 1. Changes H, Q and J in place; returns G, the history and what ended it.

    `watch(iteration, H, Q, J, G, F, history)` is called after each iteration and stops the run by returning True.
    """
    shape = norm.shape
    Y1, Y2, Y3 = np.zeros_like(H), np.zeros_like(H), np.zeros_like(F)
    mu = rho = sigma = penalty
    history = {name: [] for name in HISTORY}
    S_square = float((S.weight**2).sum())
    typical = np.sqrt(shape[1] / len(H))  # an entry of H: its columns have length 1 over about n/K samples
    StH = S.transposed_times(H)
    G = _update_G(StH, F, Y3, sigma, shape)
    stopped_by = "max_iter"
    for iteration in range(1, max_iter + 1):
        G = _update_G(StH, F, Y3, sigma, shape)
        _update_H(_B2(S, G, Q, Y1, J, Y2, mu, rho), H, shape)
        QH = _update_Q(H, Q, Y1, mu)
        QJ, H_norm = _update_low_rank(H, J, Y2, rho, lambda1, norm, against=Q)
        GF, G_norm = _update_low_rank(G, F, Y3, sigma, lambda2, norm, against=G)

        StH = S.transposed_times(H)
        # ||H*G^T|| = ||G|| because H is orthogonal, and <S, H*G^T> = <S^T*H, G>.
        fit = max(S_square - 2.0 * float((StH * G).sum()) + float((G**2).sum()), 0.0)
        objective = fit + lambda1 * H_norm + lambda2 * G_norm
        for name, value in zip(HISTORY, (QH, QJ, GF, objective, fit, H_norm, G_norm, mu, rho, sigma)):
            history[name].append(float(value))
        if max(max(QH, QJ) / typical, GF) <= tol:
            stopped_by = "tol"
        if watch(iteration, H, Q, J, G, F, history):
            stopped_by = "callback"
        if stopped_by != "max_iter":
            break
        mu, rho, sigma = (max(x, min(growth * x, _PENALTY_CAP)) for x in (mu, rho, sigma))
    return G, history, stopped_by


def _automatic_lambda(X, penalty, norm, share):
    """The lambda whose first shrinkage takes about `share` of the median leading singular value of X's slices."""
    if norm.axis == "sample":
        slices = _to_slices(X.reshape(-1, *norm.shape).transpose(0, 2, 1), "sample", norm.fft_norm)
        leading = np.median(np.linalg.svd(slices, compute_uv=False)[:, 0])
    else:
        square = np.linalg.eigvalsh(_slice_grams(_gram(X), norm.shape, norm.axis))[:, -1]
        leading = np.median(np.sqrt(np.maximum(square, 0.0))) * norm.factor()
    # Shrinkage takes tau p s^(p-1) off a singular value s, and all of it below a threshold, which must stay below s.
    bound = (min(6.0 * share, 0.95) * leading / _gst_threshold(1.0, norm.p)) ** (2.0 - norm.p)
    return penalty * min(share * leading ** (2.0 - norm.p) / norm.p, bound)


# ======================================================================================================================
# 7 result

# Of what a saved file consists; the graph, the scalings and the anchors' rows are taken apart by hand.
_ARRAYS = "labels memberships anchor_memberships joint_memberships anchors anchor_labels view_weights".split()
_FACTS = ("n_iter", "stopped_by", "options")
_CSR = ("data", "indices", "indptr")
_FORMAT = 1


@dataclass(eq=False)
class Result:
    """What `cluster` found. V views, m anchors, k clusters; all arrays are in the order of the given samples and views.

    Attributes
    ----------
    labels : (n,) int array
    memberships : (n, k) array
        The consensus indicator: Q averaged over the slices, rows summing to 1.
    anchor_memberships : (V, m, k) array
        For every view the probability that an anchor belongs to each cluster: G, with its slices moved to the views
        they explain.
    joint_memberships : (m, k) array or None
        The same for the slice of all features together.
    anchors : (m,) int array
        Which samples are the anchors, one draw after the other.
    anchor_labels : (m,) int array
        The cluster that an anchor votes for, over all slices.
    view_weights : (V,) or (V + 1,) array
        Share of H's mass in each slice, the joint slice last. One large entry means one consensus for all views.
    n_iter, stopped_by : int, {"tol", "max_iter", "callback"}
    history : dict of (n_iter,) arrays
        "Q-H", "Q-J", "G-F": the residuals; "objective" = "fit" + lambda1 * "H_norm" + lambda2 * "G_norm";
        "mu", "rho", "sigma": the penalties.
    options : dict
        The options in force, automatic values filled in.
    """

    labels: np.ndarray
    memberships: np.ndarray
    anchor_memberships: np.ndarray
    joint_memberships: np.ndarray | None
    anchors: np.ndarray
    anchor_labels: np.ndarray
    view_weights: np.ndarray
    n_iter: int
    stopped_by: str
    history: dict
    options: dict
    _graph: _Graph
    _scalings: list
    _anchor_rows: list

    def __repr__(self):
        n, k = self.memberships.shape
        V, m, _ = self.anchor_memberships.shape
        return f"<agtf.Result: {n} samples, {V} views, {k} clusters, {m} anchors, {self.n_iter} iterations>"

    @property
    def slices(self):
        """Names of the slices: the views, then the joint one if there is one."""
        return [f"view {v}" for v in range(len(self._scalings))] + ["joint"] * (self.joint_memberships is not None)

    @property
    def converged(self):
        return self.stopped_by == "tol"

    def predict(self, views, mask=None):
        """Labels (n,) of unseen samples: the vote of their nearest stored anchors, all slices counted alike.

        `views` and `mask` as given to `cluster`: as many views, with the same features; missing views as there.
        """
        views = _as_views(views)
        if len(views) != len(self._scalings):
            raise ValueError(f"got {len(views)} view(s), the model was fitted on {len(self._scalings)}")
        for v, (view, scaling) in enumerate(zip(views, self._scalings)):
            d, fitted = view.shape[1], len(scaling.factor)
            if d != fitted:
                raise ValueError(f"views[{v}] has {d} features, the model was fitted on {fitted}")
            if sparse.issparse(view) != (scaling.shift is None):
                views[v] = view.toarray() if sparse.issparse(view) else sparse.csr_array(view)
        seen = _observed(views, mask)
        data = _Data(views, np.arange(len(seen)), np.arange(len(views)), None if seen.all() else seen, self._scalings)
        draws, neighbours = self._graph.draws, self._graph.index.shape[2] // self._graph.draws
        with _limits():
            graph = _anchor_graph(data, self._anchor_rows, draws, neighbours, self.joint_memberships is not None)
        return _votes(graph, self._slice_memberships()).sum(axis=1).argmax(axis=1)

    def explain(self, i):
        """Why sample i is where it is: an `Explanation`, which prints as a table of anchors, votes and shares."""
        i = range(len(self.labels))[i]
        graph, memberships = self._graph.rows([i]), self._slice_memberships()
        votes, label = _votes(graph, memberships)[0], int(self.labels[i])
        support = votes[:, label].sum()
        shares = votes[:, label] / support if support > 0 else np.zeros(len(votes))
        clusters = memberships[np.arange(len(votes))[:, None], graph.index[0]].argmax(axis=2)
        anchors = self.anchors[graph.index[0]]
        return Explanation(i, label, self.slices, anchors, graph.weight[0], clusters, votes, shares)

    def save(self, path):
        """Write the result to one .npz file, without pickle; `agtf.load` reads it back."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"history {name}": values for name, values in self.history.items()}
        arrays |= {"graph index": self._graph.index, "graph weight": self._graph.weight}
        for v, (scaling, rows) in enumerate(zip(self._scalings, self._anchor_rows)):
            arrays |= {f"factor {v}": scaling.factor, f"shift {v}": scaling.shift}
            parts = _CSR if sparse.issparse(rows) else ("",)
            arrays |= {f"anchors {v} {part}": getattr(rows, part) if part else rows for part in parts}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        facts = {name: getattr(self, name) for name in _FACTS}
        facts |= {"format": _FORMAT, "agtf": __version__, "draws": self._graph.draws}
        facts["scalings"] = [[bool(s.unit), float(s.weight)] for s in self._scalings]
        # Options that JSON does not know: arrays and NumPy numbers as lists and numbers, anything else by its name.
        text = json.dumps(facts, default=lambda x: x.tolist() if isinstance(x, (np.ndarray, np.generic)) else repr(x))
        with open(path, "wb") as file:
            np.savez_compressed(file, facts=text, **arrays)

    def __getstate__(self):
        return self.__dict__ | {"agtf": __version__}

    def __setstate__(self, state):
        written = state.pop("agtf")
        if written != __version__:
            advice = "use Result.save and agtf.load between versions"
            warnings.warn(f"pickled by agtf {written}, this is {__version__}: {advice}", UserWarning, stacklevel=2)
        self.__dict__.update(state)

    def _slice_memberships(self):
        if self.joint_memberships is None:
            return self.anchor_memberships
        return np.concatenate([self.anchor_memberships, self.joint_memberships[None]])


def load(path):
    """Read a result that `Result.save` wrote; its predictions are those of the original."""
    with np.load(path, allow_pickle=False) as file:
        if "facts" not in file:
            raise ValueError(f"{path} was not written by Result.save")
        facts = json.loads(str(file["facts"]))
        if facts["format"] != _FORMAT:
            raise ValueError(f"{path} was written by agtf {facts['agtf']}, this is {__version__}: it cannot be read")
        arrays = {name: file[name] for name in file.files}
    scalings, anchor_rows = [], []
    for v, (unit, weight) in enumerate(facts["scalings"]):
        scalings.append(_Scaling(arrays[f"factor {v}"], arrays.get(f"shift {v}"), unit, weight))
        rows = arrays.get(f"anchors {v} ")
        if rows is None:
            parts = [arrays[f"anchors {v} {part}"] for part in _CSR]
            rows = sparse.csr_array(tuple(parts), (len(parts[2]) - 1, len(scalings[v].factor)))
        anchor_rows.append(rows)
    fields = {name: arrays.get(name) for name in _ARRAYS} | {name: facts[name] for name in _FACTS}
    history = {name: arrays[f"history {name}"] for name in HISTORY}
    graph = _Graph(arrays["graph index"], arrays["graph weight"], len(arrays["anchors"]), facts["draws"])
    return Result(**fields, history=history, _graph=graph, _scalings=scalings, _anchor_rows=anchor_rows)


def _votes(graph, memberships):
    """(n, V, k): for every slice the memberships of a sample's anchors, averaged with the graph's weights."""
    n, V, _ = graph.index.shape
    votes = np.empty((n, V, memberships.shape[2]))

    def fill(lo, hi):
        for v, G in enumerate(memberships):
            votes[lo:hi, v] = np.einsum("it,itk->ik", graph.weight[lo:hi, v], G[graph.index[lo:hi, v]])

    _map_rows(fill, n)
    return votes


@dataclass(eq=False)
class Explanation:
    """One sample's decision: `anchors`, `weights` and `clusters` are (slices, neighbours), `votes` (slices, k)."""

    sample: int
    label: int
    slices: list
    anchors: np.ndarray
    weights: np.ndarray
    clusters: np.ndarray
    votes: np.ndarray
    shares: np.ndarray

    def __str__(self):
        lines = [f"sample {self.sample} is in cluster {self.label}"]
        lines.append(f"{'slice':8} {'share':>5}  {'votes':24}  anchors: sample x weight > cluster")
        for v, name in enumerate(self.slices):
            best = [c for c in np.argsort(-self.votes[v], kind="stable")[:3] if self.votes[v, c] >= 0.005]
            votes = ", ".join(f"{c}: {self.votes[v, c]:.2f}" for c in best)
            near = [t for t in range(self.weights.shape[1]) if self.weights[v, t] > 0][:4]
            text = "  ".join(f"{self.anchors[v, t]} x {self.weights[v, t]:.2f} > {self.clusters[v, t]}" for t in near)
            lines.append(f"{name:8} {self.shares[v]:5.0%}  {votes:24}  {text}")
        return "\n".join(lines)


# ======================================================================================================================
# 8 cluster() and AGTF

PAPER = dict(
    anchors="vda", n_neighbors=10, joint=False, normalize=False, init="identity", axis="sample", fft_norm="backward",
    penalty=1e-5, growth=1.3, tol=1e-3,
)  # fmt: skip
"""The paper's protocol as options of `cluster`; p, lambda1, lambda2, n_anchors and scale are its choice per data set.

Its scores depend on the order of the rows: rows sorted by class and the same rows shuffled give different partitions.
"""


def cluster(
    views, k, *, mask=None, scale="auto", anchors="medoid", n_anchors="auto", n_draws="auto", n_neighbors="auto",
    joint=True, normalize=True, init="spectral", axis="cluster", p=0.5, lambda1="auto", lambda2="auto",
    fft_norm="ortho", penalty="auto", growth=1.3, tol=0.05, max_iter=200, random_state=0, callback=None, verbose=0,
):  # fmt: skip
    """Cluster multi-view data by anchor graph tensor factorization.

    With the default options the partition does not depend on the order of the rows, on the order of the views, or on
    the number of threads.

    Parameters
    ----------
    views : list of (n, d_v) arrays, DataFrames or SciPy sparse matrices
        One table per view, one row per sample. A single table counts as one view. A row of NaN in a view means that
        the sample was not observed there.
    k : int
        Number of clusters, at least 2.
    mask : (n, V) bool array or None
        Another way to tell what is missing: False where a sample was not observed in a view.
    scale : {"auto", "zscore", "unit", "max", None}, or a list with one of them per view
        "zscore": columns of mean 0 and variance 1; "unit": rows of length 1; "max": divided by the largest absolute
        value; "auto": "unit" for sparse views and non-negative ones that are mostly zeros, else "zscore".
    anchors : {"medoid", "vda", "random"} or (m,) int array
        "medoid": the samples nearest to m k-means centres of all features together; "vda": the paper's variance rule;
        or the indices of the samples to use.
    n_anchors : int, float or "auto"
        A number, a rate of the samples, or "auto": 12 sqrt(c) for the c samples seen in all views, at most 1000; at
        least 8 k, at most five sixths of c or the number of different rows; for more than 20,000 samples, where time
        matters more, 400 in place of 12 sqrt(c).
    n_draws : int or "auto"
        How often anchors are drawn; the graphs of the draws are averaged. "auto" is 3, and 1 if the number of anchors
        was given, if they are not drawn, or for more than 20,000 samples.
    n_neighbors : int or "auto"
        Anchors of each draw that a sample is joined to; 8, or fewer if there are fewer anchors.
    joint : bool
        Whether all scaled features together make one more slice.
    normalize : bool
        Whether the graph's columns are scaled so that S^T*H of a clean partition lies on the simplex.
    init : {"spectral", "identity"} or (n,) int array
        Where the factorisation starts: labels from the spectrum of the graphs, the paper's identity matrix, or labels.
    axis, p, fft_norm
        The tensor Schatten p-norm, see `schatten_norm`. axis="sample" depends on the order of the rows.
    lambda1, lambda2 : float or "auto"
        Weights of the norms of H and G. With "auto" the first shrinkage takes about a quarter (a fiftieth) of a
        typical leading singular value of H (of G, which is 0 at the identity start); much larger ones make G collapse.
    penalty, growth : float or "auto", float
        First value of the penalties mu, rho and sigma and their growth per iteration. "auto" is the number
        of anchors of all draws / k.
    tol, max_iter : float, int
        Stop when max |Q - H| and max |Q - J|, both relative to sqrt(k / n), a typical entry of H, and max |G - F| are
        at most `tol`, or after `max_iter` iterations.
    random_state : int, RandomState or None
        All randomness comes from it.
    callback : callable or None
        Called as callback(state) after each iteration; a true return value stops the run.
    verbose : int
        1 shows a progress line on standard error.

    Returns
    -------
    Result

    Examples
    --------
    >>> import agtf
    >>> views, y = agtf.digits_views()
    >>> result = agtf.cluster(views, 10)
    >>> result.labels.shape, result.memberships.shape
    ((1797,), (1797, 10))
    """
    options = {name: value for name, value in locals().items() if name not in ("views", "k", "mask")}
    return _cluster(views, k, mask, options, fewest=2)


def _cluster(views, k, mask, options, fewest):
    """`cluster` and `AGTF.fit`: check, arrange, scale, choose anchors, build graphs, start, iterate, read off."""
    o = SimpleNamespace(**options)
    progress = _Progress(o.verbose)
    views = _as_views(views)
    n = views[0].shape[0]
    if n < 2:
        raise ValueError(f"the views have {n} sample: at least 2 are needed")
    limits = f"lie between {fewest} and the number of samples, {n}"
    k = _whole("the number of clusters", k, fewest, n, limits)
    _check_options(o)
    o.joint = bool(o.joint)
    if o.axis == "sample":
        known = "the result depends on the order of the rows, and on rows sorted by class it knows the classes"
        warnings.warn(f'axis="sample" takes a DFT over the samples: {known}', UserWarning, stacklevel=3)
    rng = check_random_state(o.random_state)
    _check_memory(n, len(views) + o.joint, k, o.n_neighbors)

    with _limits():
        data, at, anchor_rows, graph = _prepare(views, k, mask, o, rng, progress)
        S = graph.normalised(k) if o.normalize else replace(graph, weight=graph.weight.copy())

        progress("finding a start")
        norm = _Norm(float(o.p), o.axis, o.fft_norm, (graph.index.shape[1], k))
        H, Q, J, F = _start(graph, S, at, o.init, data, k, o.joint, norm.shape, rng)
        o.penalty = graph.m / k if _is(o.penalty, "auto") else o.penalty
        o.lambda1 = _automatic_lambda(H, o.penalty, norm, 0.25) if _is(o.lambda1, "auto") else o.lambda1
        o.lambda2 = _automatic_lambda(F, o.penalty, norm, 0.02) if _is(o.lambda2, "auto") else o.lambda2

        def watch(iteration, H, Q, J, G, F, history):
            progress("iterating", f"{iteration}, residual {max(history[r][-1] for r in HISTORY[:3]):.1e}")
            if o.callback is None:
                return False
            tensors = (X.reshape(-1, *norm.shape) for X in (H, Q, J, G, F))
            return o.callback(State(iteration, *tensors, history, data.rows))

        iterations = o.max_iter if data.different >= k else 0  # H^T*H = I needs a sample for every cluster
        settings = (o.lambda1, o.lambda2, o.penalty, o.growth, o.tol)
        G, history, stopped_by = _algorithm1(S, H, Q, J, F, norm, *settings, iterations, watch)
        result = _read_off(data, graph, anchor_rows, at, H, Q, G, norm.shape, o, history, stopped_by)
    progress("done", last=True)
    for message, kind in _doubts(result, k, data.different):
        warnings.warn(message, kind, stacklevel=3)
    return result


def _doubts(result, k, different):
    """What the user should be warned of."""
    empty = k - len(np.unique(result.labels))
    if empty:
        yield f"{empty} of {k} clusters are empty; the data have {different} different sample(s)", UserWarning
    if not result.n_iter:
        return
    if result.stopped_by == "max_iter":
        residuals = ", ".join(f"{name} {result.history[name][-1]:.1e}" for name in HISTORY[:3])
        failed = f"no convergence in max_iter={result.n_iter} iterations, residuals {residuals}"
        yield f"{failed}: raise max_iter or tol", ConvergenceWarning
    agreement = (result.anchor_labels == result.labels[result.anchors]).mean()
    if agreement < 0.5:
        blamed = "lambda2" if result.anchor_memberships.max(axis=2).mean() < 1.5 / k else "lambda1"
        apart = f"the factors have come apart: {agreement:.0%} of the anchors are in the cluster that they vote for"
        yield f"{apart}; {blamed}={result.options[blamed]:.3g} is probably too large", UserWarning


def _prepare(views, k, mask, o, rng, progress):
    """From views to the anchor graph; automatic numbers are written into the options."""
    progress("reading views")
    order_matters = o.axis == "sample" or _is(o.init, "identity")
    scales = list(o.scale) if isinstance(o.scale, (list, tuple)) else [o.scale] * len(views)
    if len(scales) != len(views):
        raise ValueError(f"scale has {len(scales)} entries for {len(views)} views: give one, or one per view")
    for scale in scales:
        _check_choice("scale", scale, SCALES)
    data = _arrange(views, mask, canonical=not order_matters)
    data.scalings = [_fit_scaling(data, v, scales[slot]) for v, slot in enumerate(data.slots)]

    progress("choosing anchors")
    o.n_draws = _count_draws(o.n_draws, o.anchors, o.n_anchors, data.n)
    if isinstance(o.anchors, str):
        o.n_anchors = _count_anchors(o.n_anchors, data, k)
        at = _choose_anchors(data, o.anchors, o.n_anchors, o.n_draws, rng)
    else:
        given = np.asarray(o.anchors)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise TypeError(f"anchors must be {', '.join(map(repr, ANCHORS))} or a 1-D array of sample indices")
        if len(given) < 2 or given.min() < 0 or given.max() >= data.n or len(np.unique(given)) < len(given):
            raise ValueError(f"anchors must be at least 2 different sample indices between 0 and {data.n - 1}")
        at, o.n_anchors = np.argsort(data.rows)[given], len(given)
        if data.seen is not None and not data.seen[at].all():
            raise ValueError("anchors must be samples that were seen in all views")
    limits = f"be at least 1 and below the number of anchors, {o.n_anchors} (give more anchors or fewer neighbours)"
    neighbours = min(8, o.n_anchors - 1) if _is(o.n_neighbors, "auto") else o.n_neighbors
    o.n_neighbors = _whole("n_neighbors", neighbours, 1, o.n_anchors - 1, limits, "an int or 'auto'")

    progress("building graphs")
    anchor_rows = [data.scaled(v, at) for v in range(len(views))]
    return data, at, anchor_rows, _anchor_graph(data, anchor_rows, o.n_draws, o.n_neighbors, o.joint)


def _start(graph, S, at, init, data, k, joint, shape, rng):
    """The first H, Q, J (n, V*k) and F (m, V*k). Where views are missing, S loses what was never observed."""
    n, V = data.n, shape[0]
    H = np.zeros((n, V * k))
    if _is(init, "identity"):
        # Every frequency slice of H is eye(n, k): in the time domain the first slice is, and the others vanish.
        H[np.arange(k), np.arange(k)] = 1.0
        return H, np.zeros_like(H), np.zeros_like(H), np.zeros((S.m, V * k))
    if isinstance(init, str):
        labels = _spectral_labels(graph, k, joint, rng, data.seen)
        labels = labels if data.seen is None else _labels_by_view(data, labels, k, rng)
    else:
        labels = np.asarray(init)
        if labels.shape != (n,) or labels.dtype.kind not in "iu":
            got = f"{labels.dtype} {labels.shape}"
            raise ValueError(f"init must be 'spectral', 'identity' or ({n},) integer labels, got {got}")
        used = np.unique(labels)
        if not np.array_equal(used, np.arange(k)):
            raise ValueError(f"init must use every label from 0 to {k - 1}, it has {len(used)} different ones")
        labels = labels[data.rows]
    H[np.arange(n), labels] = 1.0 / np.sqrt(np.bincount(labels, minlength=k))[labels]
    if data.seen is not None:
        # A filled row may speak for the sample's label, not against it (HandWritten4, 50 % missing: 0.85 to 0.87).
        i, v = np.nonzero(~data.seen)
        S.weight[i, v] *= labels[at][S.index[i, v]] == labels[i, None]
    F = S.transposed_times(H)
    _project_simplex(F.reshape(-1, k))
    return H, H.copy(), H.copy(), F


def _read_off(data, graph, anchor_rows, at, H, Q, G, shape, o, history, stopped_by):
    """Labels and memberships from the factors, in the order of the given samples and views."""
    n, (V, k) = len(H), shape
    mass = np.array(_map_rows(lambda lo, hi: (H[lo:hi] ** 2).sum(axis=0), n)).sum(axis=0).reshape(V, k).sum(axis=1)
    mass = mass / mass.sum()
    # S^(v) = sum_s H^(s) (G^(s-v))^T: seen from view v, an anchor's clusters are those of G moved on by s.
    G = G.reshape(-1, V, k)
    memberships = np.stack([sum(mass[s] * G[:, (s - v) % V] for s in range(V)) for v in range(V)])
    consensus = Q.reshape(n, V, k).mean(axis=1)
    silent = np.flatnonzero(consensus.max(axis=1) <= 0.0)  # no load on any cluster: ask the anchors
    consensus[silent] = _votes(graph.rows(silent), memberships).mean(axis=1)

    inverse, views = np.argsort(data.rows), np.argsort(data.slots)
    slices = np.append(views, V - 1) if o.joint else views
    memberships, consensus = memberships[slices], consensus[inverse]
    return Result(
        labels=consensus.argmax(axis=1),
        memberships=consensus / consensus.sum(axis=1, keepdims=True),
        anchor_memberships=memberships[: len(views)],
        joint_memberships=memberships[-1] if o.joint else None,
        anchors=data.rows[at],
        anchor_labels=memberships.mean(axis=0).argmax(axis=1),
        view_weights=mass[slices],
        n_iter=len(history["fit"]),
        stopped_by=stopped_by,
        history={name: np.array(values) for name, values in history.items()},
        options={name: value for name, value in vars(o).items() if name not in ("callback", "verbose")},
        _graph=_Graph(graph.index[inverse][:, slices], graph.weight[inverse][:, slices], graph.m, graph.draws),
        _scalings=[data.scalings[v] for v in views],
        _anchor_rows=[anchor_rows[v] for v in views],
    )


def _check_memory(n, slices, k, n_neighbors):
    """Refuse what cannot fit before a byte is allocated: six tensors, the graph twice, its Gram matrix, embeddings."""
    neighbors = min(n_neighbors, n) if isinstance(n_neighbors, (int, np.integer)) else 8
    needed = n * (slices * (6 * k * 8 + 2 * neighbors * 12) + 4 * k * 8) + 24 * (slices * min(8 * k, n)) ** 2
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            need = f"{n} samples in {k} clusters need about {needed / 2**30:.1f} GiB besides the views"
            hint = "cluster a sample of the rows, then predict() the others"
            raise MemoryError(f"{need}, this machine has {there / 2**30:.1f} GiB: {hint}")


def _is(value, word):
    """Whether an option that may also be an array or a number is this word."""
    return isinstance(value, str) and value == word


def _check_options(o):
    words = {"anchors": ANCHORS, "init": ("spectral", "identity")}
    for name in ("anchors", "init", "n_anchors", "n_neighbors", "n_draws"):
        if isinstance(getattr(o, name), str):
            _check_choice(name, getattr(o, name), words.get(name, ("auto",)))
    may_be_auto = ("lambda1", "lambda2", "penalty")
    lowest = {"penalty": np.finfo(float).tiny, "growth": 1.0}
    _whole("max_iter", o.max_iter, 0, np.inf, "be at least 0")
    for name in (*may_be_auto, "p", "growth", "tol"):
        value = getattr(o, name)
        if name in may_be_auto and _is(value, "auto"):
            continue
        if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
            raise TypeError(f"{name} must be a number{' or auto' * (name in may_be_auto)}, got {value!r}")
        if not lowest.get(name, 0.0) <= value < np.inf:
            raise ValueError(f"{name} must be finite and at least {lowest.get(name, 0.0):g}, got {value!r}")
    _check_norm_options(o.p, o.axis, o.fft_norm)


class _Progress:
    """One line on standard error that tells the stage, the iteration and the time."""

    def __init__(self, verbose):
        self.verbose, self.started, self.shown = verbose, time.perf_counter(), 0.0

    def __call__(self, stage, detail="", last=False):
        now = time.perf_counter() - self.started
        if not self.verbose or (detail and now - self.shown < 0.1):
            return
        self.shown = now if detail else -1.0  # the first detail of a stage is always shown
        line = f"agtf {now:6.1f} s  {stage} {detail}"
        if sys.stderr.isatty():
            print(f"\r{line:<70}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr)


class AGTF(ClusterMixin, BaseEstimator):
    """Anchor graph tensor factorization as a scikit-learn estimator.

    The options are those of `cluster`, with the same defaults; `n_clusters` is its k.

    Attributes
    ----------
    labels_ : (n,) int array
    result_ : Result
        Everything else that was found.
    n_iter_ : int
    n_features_in_ : int
        Number of features, all views together.

    Examples
    --------
    >>> import agtf
    >>> views, y = agtf.digits_views()
    >>> model = agtf.AGTF(n_clusters=10).fit(views)
    >>> bool((model.labels_ == agtf.cluster(views, 10).labels).all())
    True
    """

    def __init__(
        self, n_clusters=8, *, scale="auto", anchors="medoid", n_anchors="auto", n_draws="auto", n_neighbors="auto",
        joint=True, normalize=True, init="spectral", axis="cluster", p=0.5, lambda1="auto", lambda2="auto",
        fft_norm="ortho", penalty="auto", growth=1.3, tol=0.05, max_iter=200, random_state=0, callback=None, verbose=0,
    ):  # fmt: skip
        vars(self).update({name: value for name, value in locals().items() if name not in ("self", "__class__")})

    def fit(self, X, y=None, mask=None):
        """Cluster X, a list of views or one (n, d) table; y is ignored; mask as in `cluster`."""
        if _is_list_of_views(X):
            X = _as_views(X)
            self.n_features_in_ = sum(view.shape[1] for view in X)
        else:
            X = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
        options = self.get_params(deep=False)
        # One cluster is a pointless but legal setting for an estimator, as it is for KMeans.
        self.result_ = _cluster(X, options.pop("n_clusters"), mask, options, fewest=1)
        self.labels_, self.n_iter_ = self.result_.labels, self.result_.n_iter
        return self

    def predict(self, X, mask=None):
        """Labels of unseen samples, see `Result.predict`."""
        check_is_fitted(self)
        if not _is_list_of_views(X):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric")
        return self.result_.predict(X, mask)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_list_of_views(X):
    return isinstance(X, (list, tuple)) and len(X) > 0 and len(getattr(X[0], "shape", ())) == 2


@dataclass
class Suggestion:
    """Numbers of clusters, the most convincing first, their scores, and the spectrum that they come from."""

    candidates: np.ndarray
    scores: np.ndarray
    spectrum: np.ndarray  # eigenvalues of the graphs, descending, the first is 1


def suggest_k(views, k_max=20, *, mask=None, scale="auto", random_state=0):
    """Numbers of clusters that the data suggest, from gaps in the spectrum of their anchor graphs.

    k clusters that are hardly joined make k eigenvalues close to 1 and a drop after them. The score of k is the log of
    the ratio of eigenvalue k to eigenvalue k + 1, of the views' graphs together and of the joint graph, averaged over
    both and over the draws of anchors. Numbers from 2 to `k_max` are considered, the other options are those of
    `cluster`; returns a `Suggestion`.

    >>> import numpy as np, agtf
    >>> rng = np.random.default_rng(0)
    >>> X = 9 * rng.normal(size=(4, 5))[rng.integers(0, 4, 200)] + rng.normal(size=(200, 5))
    >>> int(agtf.suggest_k([X], 10).candidates[0])
    4
    """
    views = _as_views(views)
    n = views[0].shape[0]
    if not isinstance(k_max, (int, np.integer)) or not 2 <= k_max < n:
        raise ValueError(f"k_max must be an int between 2 and the number of samples less one, {n - 1}, got {k_max!r}")
    options = {p.name: p.default for p in inspect.signature(cluster).parameters.values()}
    o = SimpleNamespace(**{**options, "scale": scale})
    with _limits():
        rng, V = check_random_state(random_state), len(views)
        graph = _prepare(views, k_max, mask, o, rng, _Progress(0))[3]
        draws = [graph.draw(d).normalised(1) for d in range(graph.draws)]
        parts = [_spectrum(draw.matrix(slices), k_max + 1)[0] for draw in draws for slices in (range(V), [V])]
    # Few anchors have a short spectrum; three equal values at least, which suggest k = 2 without conviction.
    length = min(map(len, parts))
    parts = [np.pad(part[:length], (0, max(3 - length, 0)), mode="edge") for part in parts]
    parts = [np.maximum(part / part[0], 1e-12) for part in parts]
    scores = np.mean([np.log(part[1:-1] / part[2:]) for part in parts], axis=0)
    order = np.argsort(-scores, kind="stable")
    return Suggestion(order + 2, scores[order], np.mean(parts, axis=0))


# ======================================================================================================================
# 9 data and scores

_LABEL_NAMES = "y gt truth label labels gnd y0 truelabel true_label target class classes".split()
_DIGIT_VIEWS = ("pixels", "Fourier", "gradients", "profiles")


def score(y_true, labels):
    """The seven scores of the paper's figures in a dict, all 1 for a perfect partition of (n,) labels.

    "ACC" (best one-to-one matching of clusters and classes), "NMI", "purity", "ARI", and over pairs of samples
    "F-score", "precision" and "recall".

    >>> import agtf
    >>> agtf.score([0, 0, 1, 1], [5, 5, 3, 3])["ACC"]
    1.0
    """
    counts = contingency_matrix(y_true, labels)
    matched = counts[linear_sum_assignment(-counts)].sum()
    (_, false), (missed, both) = pair_confusion_matrix(y_true, labels).astype(float)
    # Without a single pair put together (or belonging together) nothing was put together wrongly.
    precision = both / (both + false) if both + false else 1.0
    recall = both / (both + missed) if both + missed else 1.0
    scores = {
        "ACC": matched / counts.sum(),
        "NMI": normalized_mutual_info_score(y_true, labels),
        "purity": counts.max(axis=0).sum() / counts.sum(),
        "ARI": adjusted_rand_score(y_true, labels),
        "F-score": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "precision": precision,
        "recall": recall,
    }
    return {name: float(value) for name, value in scores.items()}


def digits_views():
    """Four descriptors of scikit-learn's 1797 handwritten digits of 8 x 8 pixels, a list of views, and their classes.

    Pixels (64), magnitudes of the Fourier transform (40), histograms of gradients (72), ink profiles (48).
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images / 16.0
    n = len(images)
    fourier = np.abs(np.fft.rfft2(images)).reshape(n, -1)
    down, right = np.gradient(images, axis=(1, 2))
    strength, angle = np.hypot(down, right), np.arctan2(down, right)
    bins = np.floor((angle / (2 * np.pi) + 0.5) * 8 - 1e-9).astype(int) % 8
    by_angle = np.where(bins[..., None] == np.arange(8), strength[..., None], 0.0)
    corners = (0, 2, 4)  # overlapping 4 x 4 cells
    gradients = [by_angle[:, r : r + 4, c : c + 4].sum(axis=(1, 2)) for r in corners for c in corners]
    ink = images > 0.3
    sides = [(side, axis) for axis in (1, 2) for side in (ink, np.flip(ink, axis))]
    depths = [np.where(side.any(axis=axis), side.argmax(axis=axis), 8) for side, axis in sides]
    profiles = np.hstack([images.sum(axis=1), images.sum(axis=2), *depths])
    return [images.reshape(n, -1), fourier, np.hstack(gradients), profiles.astype(float)], digits.target


def load_views(path):
    """Read multi-view data: a .mat file of the field, an .npz file, or a list of .csv files, one per view.

    A .mat file has a cell array of matrices (samples as rows or as columns) or one matrix per view, and labels named
    Y, y, gt, truth, ...; an .npz file one array per view, and labels under such a name; a vector that is not in a cell
    array is never a view. In .csv files a first line of names is skipped, and a column with such a name holds the
    labels. Returns a list of (n, d_v) arrays or CSR matrices, and (n,) labels or None.
    """
    paths = [os.fspath(p) for p in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    kinds = {os.path.splitext(p)[1].lower() for p in paths}
    if kinds == {".csv"}:
        tables = [_read_csv(p) for p in paths]
        labels = next((labels for _, labels in tables if labels is not None), None)
        return _oriented([table for table, _ in tables], labels, paths[0])
    if len(paths) != 1 or not kinds <= {".mat", ".npz"}:
        raise ValueError(f"give one .mat file, one .npz file, or .csv files, one per view; got {', '.join(paths)}")
    try:
        variables = _read_variables(paths[0])
    except OSError:
        raise
    except Exception as error:  # a damaged file can make the readers raise anything
        raise ValueError(f"{paths[0]} cannot be read: {error}") from error
    tables, labels = [], None
    for name, value in variables.items():
        members = list(value.ravel()) if isinstance(value, np.ndarray) and value.dtype == object else [value]
        if name.lower() in _LABEL_NAMES:
            labels = members[0] if labels is None else labels
        elif value.dtype == object or value.shape[0] > 1 and value.shape[1] > 1:
            tables += [t for t in members if t.dtype.kind != "U"]  # text: names of classes
    return _oriented(tables, labels, paths[0])


def _read_variables(path):
    """The matrices in a .mat or .npz file, by name."""
    from scipy.io import loadmat

    if path.lower().endswith(".npz"):
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as contents:
            return {name: np.atleast_2d(value) for name, value in contents.items() if value.ndim in (1, 2)}
    try:
        contents = loadmat(path)
    except NotImplementedError:
        contents = _read_hdf5(path)
    return {name: value for name, value in contents.items() if not name.startswith("__") and len(value.shape) == 2}


def _read_hdf5(path):
    """MATLAB v7.3: HDF5 with axes in reverse order, cells as references, sparse matrices as groups."""
    try:
        import h5py
    except ImportError:
        raise ValueError("it is a MATLAB v7.3 file: install h5py, or save it again with -v7") from None

    def value(node):
        if isinstance(node, h5py.Group):
            parts = (node["data"][()], node["ir"][()], node["jc"][()])
            return sparse.csc_array(parts, (int(node.attrs["MATLAB_sparse"]), len(parts[2]) - 1))
        array = node[()].T
        for at, reference in np.ndenumerate(array) if node.dtype == h5py.ref_dtype else ():
            array[at] = value(node.file[reference])  # references come in arrays of objects
        return array

    with h5py.File(path, "r") as file:
        nodes = {name: node for name, node in file.items() if not name.startswith("#")}
        return {name: value(node) for name, node in nodes.items() if isinstance(node, h5py.Dataset) or "data" in node}


def _read_csv(path):
    with open(path, encoding="utf-8-sig") as file:
        first, second = file.readline().strip(), file.readline().strip()
    if not first:
        raise ValueError(f"{path} is empty")
    separator = next((s for s in (",", ";", "\t") if s in first), ",")
    names = [name.strip().strip('"').lower() for name in first.split(separator)]
    number = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|-?inf|"  # or nothing: a hole
    has_header = any(re.fullmatch(number, name) is None for name in names)
    if has_header and not second:
        raise ValueError(f"{path} has a line of names and nothing else")
    layout = {"delimiter": separator, "skip_header": int(has_header), "encoding": "utf-8-sig"}
    cells = np.genfromtxt(path, dtype=str, ndmin=2, **layout)
    at = next((c for c, name in enumerate(names) if has_header and name in _LABEL_NAMES), None)
    labels = None if at is None else cells[:, at]
    cells = np.delete(cells, [] if at is None else [at], axis=1)
    try:
        return np.where(np.char.strip(cells) == "", "nan", cells).astype(float), labels
    except ValueError as error:
        raise ValueError(f"{path} is not a table of numbers: {error}") from None


def _oriented(tables, labels, path):
    """Tables with samples as rows: as many rows as labels, or as all tables have in common."""
    tables = [sparse.csr_array(t) if sparse.issparse(t) else t for t in tables]
    if not tables or any(len(t.shape) != 2 for t in tables):
        raise ValueError(f"{path} holds no views: expected a cell array of matrices, or one matrix per view")
    labels = None if labels is None else np.asarray(labels).ravel()
    heights, widths = map(set, zip(*(t.shape for t in tables)))
    common = next((sizes.pop() for sizes in (heights, widths) if len(sizes) == 1), 0)
    n = common if labels is None else len(labels)
    views = [t if t.shape[0] == n else t.T.tocsr() if sparse.issparse(t) else t.T for t in tables]
    if any(view.shape[0] != n for view in views):
        shapes = ", ".join(str(t.shape) for t in tables)
        raise ValueError(f"{path}: the views' shapes {shapes} share no number of samples" + f" {n}" * bool(n))
    return views, labels


# ======================================================================================================================
# 10 pictures: each helper draws on `ax`, or on axes of its own, and returns them. matplotlib is imported here only.

_CENTRED = {"ha": "center", "va": "center", "fontsize": "small"}


def _axes(ax, width=5.0, height=4.0, columns=None):
    import matplotlib.pyplot as plt

    if ax is None:
        axes = plt.subplots(1, columns or 1, figsize=(width, height), layout="constrained", squeeze=False)[1][0]
        ax = axes if columns else axes[0]
    return ax


def _colours(k):
    """k colours: up to ten that colour-blind readers can tell apart (P. Tol's muted set), then a dark-light scale."""
    import matplotlib

    few = "#332288 #cc6677 #117733 #ddcc77 #88ccee #882255 #44aa99 #999933 #aa4499 #888888".split()
    return few[:k] if k <= len(few) else [matplotlib.colormaps["viridis"](c / (k - 1)) for c in range(k)]


def _heat(ax, image, label, form=None, **options):
    """A heat map with its colour bar and, if there is a format for them, the values written in."""
    drawn = ax.imshow(image, **{"aspect": "auto", "interpolation": "nearest", "cmap": "viridis", **options})
    ax.figure.colorbar(drawn, ax=ax, label=label)
    if form:
        middle = (np.nanmin(image) + np.nanmax(image)) / 2
        for (i, j), value in np.ndenumerate(image):
            ax.text(j, i, form.format(value), color="white" if value < middle else "black", **_CENTRED)
    return ax


def _labelled(ax, whole_x=False, **labels):
    if whole_x:
        ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(**labels)
    return ax


def plot_indicator(result, ax=None):
    """The paper's label figure: consensus memberships, samples (ordered by cluster) x clusters."""
    order = np.lexsort((-result.memberships.max(axis=1), result.labels))
    ax = _heat(_axes(ax, 4, 5), result.memberships[order], "membership", vmin=0.0, vmax=1.0)
    return _labelled(ax, True, xlabel="cluster", ylabel="samples, ordered by cluster", title="Sample memberships")


def plot_anchors(result, ax=None):
    """Anchor memberships, one panel per slice side by side: anchors (ordered by cluster) x clusters."""
    memberships = result._slice_memberships()
    V, m, k = memberships.shape
    order = np.lexsort((-memberships.mean(axis=0).max(axis=1), result.anchor_labels))
    gap = np.full((m, max(1, k // 8)), np.nan)
    canvas = np.hstack([part for v in range(V) for part in (memberships[v, order], gap)][:-1])
    ax = _heat(_axes(ax, 2.0 + 1.3 * V, 4.5), canvas, "probability", vmin=0.0, vmax=1.0)
    ax.set_xticks(np.arange(V) * (k + gap.shape[1]) + (k - 1) / 2, result.slices)
    return _labelled(ax, ylabel="anchors, ordered by cluster", title=f"Anchor memberships, {k} clusters in each panel")


def plot_gallery(result, images, n_anchors=12, ax=None):
    """One row per cluster: the mean of its samples' images (n, height, width), then its most certain anchors."""
    ax, images, k = _axes(ax, 7, 5.5), np.asarray(images, float), result.memberships.shape[1]
    height, width = images.shape[1] + 1, images.shape[2] + 1
    canvas = np.full((k * height, (n_anchors + 2) * width), np.nan)
    certainty = result._slice_memberships().mean(axis=0)
    for c in range(k):
        members = images[result.labels == c]
        voters = np.flatnonzero(result.anchor_labels == c)
        voters = voters[np.argsort(-certainty[voters, c], kind="stable")]
        once = np.sort(np.unique(result.anchors[voters], return_index=True)[1])  # not once for every draw
        voters = voters[once][:n_anchors]
        tiles = [members.mean(axis=0)] * bool(len(members)) + list(images[result.anchors[voters]])
        for column, tile in zip([0, *range(2, n_anchors + 2)], tiles):
            place = canvas[c * height :, column * width :]
            place[: height - 1, : width - 1] = tile / max(tile.max(), 1e-300)
    ax.imshow(canvas, cmap="gray_r", interpolation="nearest")
    ax.set_xticks([width / 2 - 1, (n_anchors + 4) * width / 2 - 1], ["mean", "anchors, the most certain first"])
    ax.set_yticks(np.arange(k) * height + height / 2 - 1, [f"{c}  ({(result.labels == c).sum()})" for c in range(k)])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return _labelled(ax, ylabel="cluster (samples)", title="What the clusters are made of")


def plot_convergence(result, accuracy=None, ax=None):
    """The residuals per iteration; on the right the objective / its first value, and `accuracy` (one per iteration)."""
    ax = _axes(ax)
    steps = np.arange(1, result.n_iter + 1)
    for name, colour, style in zip(HISTORY, _colours(3), ("-", "--", ":")):
        ax.semilogy(steps, np.maximum(result.history[name], 1e-16), style, color=colour, label=f"max |{name}|")
    right, objective = ax.twinx(), result.history["objective"]
    right.plot(steps, objective / objective[:1], color="0.5", label="objective / its first value")
    if accuracy is not None:
        right.plot(steps, accuracy, color="#d55e00", label="accuracy")
    right.set_ylim(bottom=0)
    right.set_ylabel("share")
    ax.legend(handles=[*ax.lines, *right.lines], loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    return _labelled(ax, True, xlabel="iteration", ylabel="residual", title="Convergence")


def plot_embedding(points, labels, method="pca", random_state=0, ax=None):
    """2-D picture ("pca" or "tsne") of indicators (n, k), coloured by labels; a list of them gives a row of panels."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if isinstance(points, (list, tuple)):
        panels = _axes(ax, 2.6 * len(points), 2.9, len(points))
        return np.array([plot_embedding(p, labels, method, random_state, a) for p, a in zip(points, panels)])
    _check_choice("method", method, ("pca", "tsne"))
    points = np.asarray(points, float)
    chart = PCA(2) if method == "pca" else TSNE(2, perplexity=min(30, (len(points) - 1) / 3))
    flat = chart.set_params(random_state=random_state).fit_transform(points)
    classes, index = np.unique(labels, return_inverse=True)
    ax = _axes(ax)
    for c, colour in enumerate(_colours(len(classes))):
        at = index == c
        ax.scatter(*flat[at].T, s=8, color=colour, linewidths=0)
        if len(classes) <= 30:
            box = {"facecolor": "white", "edgecolor": colour, "boxstyle": "round,pad=0.15"}
            ax.text(*np.median(flat[at], axis=0), str(classes[c]), bbox=box, **_CENTRED)
    return _labelled(ax, xticks=[], yticks=[], title={"pca": "Indicators, PCA", "tsne": "Indicators, t-SNE"}[method])


def plot_sweep(values, scores, ax=None, xlabel="", ylabel="ACC", log=False):
    """Means with bands from lowest to highest of scores (values,) or (values, seeds), or of a dict of such arrays."""
    ax = _axes(ax)
    series = scores if isinstance(scores, dict) else {"": scores}
    for (name, table), colour, marker in zip(series.items(), _colours(len(series)), "osD^vP*X" * len(series)):
        table = np.asarray(table, float).reshape(len(values), -1)
        ax.plot(values, table.mean(axis=1), marker=marker, color=colour, label=name)
        ax.fill_between(values, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.2, linewidth=0)
    if log:
        ax.set_xscale("log")
    if isinstance(scores, dict):
        ax.legend()
    return _labelled(ax, xlabel=xlabel, ylabel=ylabel)


def plot_grid(scores, lambda1, lambda2, ax=None, label="ACC"):
    """Scores (len(lambda1), len(lambda2)) as a heat map with the values written in."""
    ax = _heat(_axes(ax), np.asarray(scores, float), label, "{:.2f}")
    ax.set_xticks(range(len(lambda2)), [f"{x:g}" for x in lambda2])
    ax.set_yticks(range(len(lambda1)), [f"{x:g}" for x in lambda1])
    return _labelled(ax, xlabel="lambda2", ylabel="lambda1")


def plot_confusion(y_true, labels, ax=None):
    """Samples per class and cluster, clusters in the order of the classes that they match best."""
    counts = contingency_matrix(y_true, labels)
    matched = linear_sum_assignment(-counts)[1]
    order = np.concatenate([matched, np.setdiff1d(np.arange(counts.shape[1]), matched)])
    ax = _heat(_axes(ax), counts[:, order], "samples", "{:.0f}" if max(counts.shape) <= 12 else None)
    if max(counts.shape) <= 25:
        ax.set_xticks(range(len(order)), np.unique(labels)[order])
        ax.set_yticks(range(len(counts)), np.unique(y_true))
    return _labelled(ax, xlabel="cluster", ylabel="class", title=f"ACC {score(y_true, labels)['ACC']:.3f}")


def plot_explain(explanation, ax=None):
    """One sample: a bar per slice, a piece per anchor, as long as its weight, coloured by the cluster it votes for."""
    from matplotlib.colors import to_rgb

    ax = _axes(ax, 7, 1.2 + 0.5 * len(explanation.slices))
    voted = np.unique(explanation.clusters[explanation.weights > 0])
    colours = dict(zip(voted, _colours(len(voted))))
    for v, weights in enumerate(explanation.weights):
        ends = np.cumsum(weights)
        for anchor, weight, end, c in zip(explanation.anchors[v], weights, ends, explanation.clusters[v]):
            ax.barh(v, weight, left=end - weight, color=colours.get(c), edgecolor="white")
            if weight > 0.08:
                light = np.dot(to_rgb(colours[c]), (0.30, 0.59, 0.11)) > 0.5
                ax.text(end - weight / 2, v, anchor, color="black" if light else "white", **_CENTRED)
    names = [f"{name} ({share:.0%})" for name, share in zip(explanation.slices, explanation.shares)]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    handles = [ax.bar(0, 0, color=colour) for colour in colours.values()]
    ax.legend(handles, [f"cluster {c}" for c in voted], loc="center left", bbox_to_anchor=(1, 0.5))
    ax.set_title(f"Why sample {explanation.sample} is in cluster {explanation.label}")
    x, y = "weight of the anchor (its sample number)", "slice (share in the decision)"
    return _labelled(ax, xlabel=x, ylabel=y, xlim=(0, 1))


def plot_views(result, ax=None):
    """How far each slice alone, by its anchors' votes, agrees with the consensus of all."""
    votes = _votes(result._graph, result._slice_memberships())
    agreement = (votes.argmax(axis=2) == result.labels[:, None]).mean(axis=0)
    ax = _axes(ax, 5, 1.2 + 0.45 * len(agreement))
    ax.bar_label(ax.barh(result.slices, agreement, color=_colours(1)), fmt="%.2f", padding=3)
    ax.invert_yaxis()
    text = "share of samples with the consensus' label"
    return _labelled(ax, xlim=(0, 1.12), xlabel=text, title="Agreement of the views")


def plot_k(suggestion, ax=None):
    """The spectrum behind `suggest_k`, the three best candidates marked at the drop after them."""
    ax = _axes(ax)
    ax.plot(np.arange(1, len(suggestion.spectrum) + 1), suggestion.spectrum, "o-", color=_colours(1)[0], markersize=4)
    for k, value, colour in zip(suggestion.candidates[:3], suggestion.scores, _colours(4)[1:]):
        ax.axvline(k + 0.5, color=colour, linestyle="--", label=f"k = {k} (score {value:.2f})")
    ax.legend(title="drops")
    text = "eigenvalue of the graphs"
    return _labelled(ax, True, xlabel="number of clusters", ylabel=text, title="How many clusters?")


# ======================================================================================================================
# 11 command line


def _kmeans_baseline(views, k, random_state=0):
    """Labels of k-means on all scaled features together, the comparison of the digits demo."""
    with _limits():
        data = _arrange(views, None, canonical=True)
        data.scalings = [_fit_scaling(data, v, "auto") for v in range(len(views))]
        found = KMeans(k, n_init=10, random_state=random_state).fit(data.joint(np.arange(data.n))).labels_
    return found[np.argsort(data.rows)]


def _demo(output, verbose):
    """Cluster the built-in digits, compare with simpler ways, draw a picture."""
    views, y = digits_views()
    started = time.perf_counter()
    result = cluster(views, 10, verbose=verbose)
    seconds = time.perf_counter() - started
    print("1797 handwritten digits, 8 x 8 pixels, 10 classes; the classes are used for the scores only.")
    print("views: " + ", ".join(f"{name} ({v.shape[1]})" for name, v in zip(_DIGIT_VIEWS, views)))
    print(f"cluster(views, 10): {result.n_iter} iterations, {seconds:.1f} s, compiling included\n")
    rows = {"AGTF, all views": result.labels, "k-means, all views": _kmeans_baseline(views, 10)}
    rows |= {f"AGTF, {name} only": cluster([view], 10).labels for name, view in zip(_DIGIT_VIEWS, views)}
    scores = {name: score(y, labels) for name, labels in rows.items()}
    print(_score_table(scores))
    counts = [np.bincount(y[result.labels == c], minlength=10) for c in range(10)]
    print("\ncluster      " + "".join(f"{c:6d}" for c in range(10)))
    print("samples      " + "".join(f"{count.sum():6d}" for count in counts))
    print("mostly digit " + "".join(f"{count.argmax():6d}" for count in counts))
    print("its share    " + "".join(f"{count.max() / max(count.sum(), 1):6.0%}" for count in counts))
    _demo_picture(result, views[0].reshape(-1, 8, 8), {name: s["ACC"] for name, s in scores.items()}, output)
    print(f"\npicture: {output}")


def _score_table(scores):
    names = list(next(iter(scores.values())))
    width = max(map(len, scores))
    lines = [" " * width + "".join(f"{name:>11}" for name in names)]
    lines += [f"{row:{width}}" + "".join(f"{s[name]:11.3f}" for name in names) for row, s in scores.items()]
    return "\n".join(lines)


def _demo_picture(result, images, accuracies, output):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5), layout="constrained")
    gallery, indicator, bars = figure.subplots(1, 3, width_ratios=[2.1, 1, 1.3])
    plot_gallery(result, images, ax=gallery)
    plot_indicator(result, ax=indicator)
    colours = ["#d55e00"] + ["#56b4e9"] * (len(accuracies) - 1)
    bars.bar_label(bars.barh(*zip(*accuracies.items()), color=colours), fmt="%.3f", padding=3)
    bars.invert_yaxis()
    bars.set(xlim=(0, 1.15), xlabel="accuracy", title="Against simpler ways")
    bars.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, dpi=110)


def _write_labels(path, labels, inputs):
    """Write labels as a one-column .csv file, whole or not at all, never over an input."""
    if any(os.path.exists(path) and os.path.samefile(path, given) for given in inputs):
        raise ValueError(f"{path} is an input file, choose another output")
    with open(f"{path}.part", "w", encoding="ascii") as file:
        file.write("label\n" + "\n".join(map(str, labels)) + "\n")
    os.replace(f"{path}.part", path)


def _main(arguments=None):
    import argparse

    about = "Cluster multi-view data. Without arguments: cluster the built-in digits and draw a picture."
    parser = argparse.ArgumentParser(prog="python -m agtf", description=about)
    parser.add_argument("data", nargs="*", help="one .mat or .npz file, or one .csv file per view")
    parser.add_argument("-k", "--clusters", type=int, help="number of clusters (default: that of the file's labels)")
    parser.add_argument("-o", "--output", help="file for the labels, or for the demo's picture")
    parser.add_argument("--seed", type=int, default=0, help="random_state (default: 0)")
    parser.add_argument("--quiet", action="store_true", help="no progress line")
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    verbose = int(not given.quiet and sys.stderr.isatty())
    try:
        if not given.data:
            if given.clusters is not None:
                parser.error("-k is for data files; the built-in digits have 10 clusters")
            _demo(given.output or "agtf-digits.png", verbose)
            return 0
        views, y = load_views(given.data)
        k = given.clusters if given.clusters is not None else None if y is None else len(np.unique(y))
        if k is None:
            parser.error(f"{given.data[0]} has no labels to count: give the number of clusters with -k")
        result = cluster(views, k, random_state=given.seed, verbose=verbose)
        print(f"{len(result.labels)} samples, {len(views)} views: " + ", ".join(str(v.shape[1]) for v in views))
        print("cluster sizes: " + ", ".join(map(str, np.bincount(result.labels, minlength=k))))
        if y is not None and len(y) == len(result.labels):
            print(_score_table({"against the file's labels": score(y, result.labels)}))
        if given.output:
            _write_labels(given.output, result.labels, given.data)
            print(f"labels: {given.output}")
        return 0
    except (OSError, ValueError, TypeError, MemoryError) as error:
        print(f"agtf: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(_main())
