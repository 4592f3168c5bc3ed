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
8 cluster() and AGTF - 9 describe and report - 10 data and scores - 11 pictures - 12 command line
"""

# SPDX-License-Identifier: MIT
# Copyright (c) 2026 the agtf authors

import csv
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
from functools import cache, partial, reduce
from html import escape
from operator import attrgetter, itemgetter
from string import Template
from types import SimpleNamespace

import numba
import numpy as np
import scipy.sparse as sparse
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController  # which scikit-learn needs, too

__version__ = "0.2.0"
__all__ = """AGTF PAPER Result cluster digits_views load load_views plot_anchors plot_clusters plot_confusion
plot_convergence plot_embedding plot_explain plot_gallery plot_grid plot_indicator plot_k plot_profile plot_sweep
plot_views schatten_norm schatten_prox score suggest_k tprod ttranspose""".split()

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
    """The k nearest anchors of each row and their weights (d_{k+1} - d_j) / (k d_{k+1} - sum_j d_j).

    An anchor at an infinite distance is out of reach. A row that is equally far from all anchors has no edges, weights
    0: nothing tells them apart, and edges to just any of them would tie strangers together.
    """
    rows, m = distance.shape
    k = index.shape[1]
    best = np.empty(k + 1)
    who = np.zeros(k + 1, np.int32)
    for i in range(rows):
        filled = 0
        bound = np.inf  # of what can still enter
        for j in range(m):
            d = distance[i, j]
            if d >= bound:
                continue
            at = k
            if filled <= k:
                at = filled
                filled += 1
            while at > 0 and best[at - 1] > d:
                best[at] = best[at - 1]
                who[at] = who[at - 1]
                at -= 1
            best[at] = d
            who[at] = j
            if filled > k:
                bound = best[k]
        joined = min(filled - 1, k)
        farthest = best[joined] if filled else 0.0
        equal = filled < 2 or farthest - best[0] <= 1e-6 * farthest  # less is rounding, in single precision
        if equal:
            for j in range(m):
                if distance[i, j] < np.inf:
                    farthest = max(farthest, distance[i, j])
        tells = filled > 1 and farthest - best[0] > 1e-6 * farthest
        total = 0.0
        for t in range(joined):
            total += best[joined] - best[t]
        for t in range(k):
            index[i, t] = who[t]
            weight[i, t] = 0.0
            if tells and t < joined:
                # Copies of one anchor: k + 1 equal distances, but others are farther.
                weight[i, t] = 1.0 / joined if equal else (best[joined] - best[t]) / total


@_jit
def _to_distances(products, square, anchor_square, share, together):
    """Turn products x.a into squared distances |x|^2 - 2 x.a + |a|^2, and add `share` of them to `together`."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            d = max(square[i] + anchor_square[j] - 2.0 * products[i, j], 0.0)
            products[i, j] = d
            together[i, j] += share * d


@_jit
def _scale_rows(rows, shift, factor, unit, centre, out):
    """out <- (rows - shift) * factor, then rows of length 1 if `unit`, less `centre`; returns the squared lengths."""
    square = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        length = 0.0
        for c in range(rows.shape[1]):
            x = (rows[i, c] - shift[c]) * factor[c]
            length += x * x
            out[i, c] = x
        root = 1.0 / np.sqrt(length) if unit and length > 0.0 else 1.0
        total = 0.0
        for c in range(rows.shape[1]):
            x = out[i, c] * root - centre[c]
            out[i, c] = x
            total += x * x
        square[i] = total
    return square


@_jit
def _mix(x):
    """A bijection of the 64-bit integers that spreads every bit (the finaliser of splitmix64, shortened)."""
    x = (x ^ (x >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(32))


@_jit
def _fingerprint(bits, columns, starts, out):
    """Add up the mixed bits of each row's numbers, those from starts[i] to starts[i + 1]; zeros add nothing."""
    for i in range(out.size):
        total = np.uint64(0)
        for t in range(starts[i], starts[i + 1]):
            if bits[t] << np.uint64(1):  # neither 0 nor -0
                salt = (np.uint64(columns[t]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
                total += _mix(bits[t] ^ salt)
        out[i] = total


@_jit
def _spread_out(X, chances, chosen):
    """k-means++ seeding among the columns of X (d, n): the next one is chosen in proportion to the squared distance to
    those chosen; of several trials the one that leaves the smallest sum. `chances` (seeds, trials) are numbers between
    0 and 1; the first seed is chosen among all alike.
    """
    d, n = X.shape
    nearest, distance, best = np.ones(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    total = float(n)
    for t in range(chosen.size):
        least = np.inf
        for trial in range(chances.shape[1]):
            target, at = chances[t, trial] * total, 0
            while at < n - 1 and target >= nearest[at]:
                target -= nearest[at]
                at += 1
            distance[:] = 0.0
            for c in range(d):
                x = X[c, at]
                for i in range(n):
                    distance[i] += (X[c, i] - x) * (X[c, i] - x)
            left = 0.0
            for i in range(n):
                left += distance[i] if t == 0 else min(nearest[i], distance[i])
            if left < least:
                least, chosen[t] = left, at
                best[:] = distance
        total = least
        for i in range(n):
            nearest[i] = best[i] if t == 0 else min(nearest[i], best[i])


@_jit
def _project_simplex(B):
    """Replace every row of B (rows, K) by the nearest point with entries >= 0 that sum to 1."""
    rows, K = B.shape
    for i in range(rows):
        top = B[i, 0]
        for c in range(1, K):
            top = max(top, B[i, c])
        # Less the largest only the shift changes: it is then between -1 and 0, not lost beside large numbers, and -1 is
        # as good as less. Entries at or below the shift drop out until none does (a sort takes 6 s to compile).
        shift, kept = -2.0, K + 1
        while True:
            total, above = 0.0, 0
            for c in range(K):
                x = max(B[i, c] - top, -1.0)
                if x > shift:
                    total += x
                    above += 1
            if above >= kept:  # by rounding, an entry equal to the shift may come back
                break
            shift, kept = (total - 1.0) / above, above
        for c in range(K):
            B[i, c] = max(max(B[i, c] - top, -1.0) - shift, 0.0)


@_jit
def _gst(s, tau, p):
    """Generalised soft threshold: argmin_x (x - s)^2 / 2 + tau x^p over x >= 0, for a vector s >= 0 and 0 < p <= 1."""
    out = np.zeros_like(s)
    threshold = _gst_threshold(tau, p)
    unit = tau ** (1.0 / (2.0 - p))
    valley = (2.0 - 2.0 * p) / (2.0 - p)  # x / s at the threshold, where it is smallest
    for i in range(s.size):
        # Below the threshold 0 wins; above it the fixed point is a contraction with a factor of at most p/2. It is
        # found for x / s, a number between the valley and 1 even where s and tau are close to the smallest floats.
        if s[i] > threshold:
            pull = p * (unit / s[i]) ** (2.0 - p)
            x = 1.0
            for _ in range(100):
                previous = x
                x = max(1.0 - pull * x ** (p - 1.0), valley)
                if abs(x - previous) <= 1e-15:
                    break
            out[i] = s[i] * x
    return out


@_jit
def _gst_threshold(tau, p):
    """The largest s that the generalised soft threshold sends to 0."""
    base = 2.0 - 2.0 * p  # tau kept apart from it: their product may underflow; 0**0 is 1, so p = 1 gives tau
    return tau ** (1.0 / (2.0 - p)) * (base ** (1.0 / (2.0 - p)) + p * base ** ((p - 1.0) / (2.0 - p)))


@_jit
def _fill_B(index, weight, GG, z, w, J, penalties, B):
    """B <- 2 S*G + mu' max(z, 0) - mu min(z, 0) + (rho' + rho) J - rho w, with penalties (mu, rho, mu', rho').

    GG is G twice side by side: slice u of S moves G's slices on by u, (S*G)^(r) = sum_u S^(u) G^(r-u), and G so moved
    is one piece of GG. Four neighbours at a time take a quarter of the time.
    """
    rows, V, neighbours = index.shape
    L = B.shape[1]
    mu, rho, new_mu, new_rho = penalties
    for i in range(rows):
        row = B[i]
        for c in range(L):
            pull = new_mu if z[i, c] > 0.0 else -mu
            row[c] = pull * z[i, c] + (new_rho + rho) * J[i, c] - rho * w[i, c]
        for u in range(V):
            lo = L - u * (L // V)
            hi = lo + L
            for t in range(0, neighbours - 3, 4):
                s0, s1, s2, s3 = weight[i, u, t], weight[i, u, t + 1], weight[i, u, t + 2], weight[i, u, t + 3]
                g0, g1 = GG[index[i, u, t], lo:hi], GG[index[i, u, t + 1], lo:hi]
                g2, g3 = GG[index[i, u, t + 2], lo:hi], GG[index[i, u, t + 3], lo:hi]
                for c in range(L):
                    half = s0 * g0[c] + s1 * g1[c] + s2 * g2[c] + s3 * g3[c]
                    row[c] += half + half
            for t in range(neighbours // 4 * 4, neighbours):
                s0, g0 = weight[i, u, t], GG[index[i, u, t], lo:hi]
                for c in range(L):
                    row[c] += s0 * g0[c] + s0 * g0[c]


@_jit
def _scatter(index, weight, H, out):
    """Add to out (m, 2 V*K) what the rows contribute to S^T*H: (S^T*H)^(v) = sum_u (S^(u))^T H^(v+u).

    The two halves of out are to be added: what moves beyond the end of the first lies in the second.
    """
    rows, V, neighbours = index.shape
    L = H.shape[1]
    for i in range(rows):
        row = H[i]
        for u in range(V):
            lo = L - u * (L // V)
            hi = lo + L
            for t in range(neighbours):
                s, a = weight[i, u, t], out[index[i, u, t], lo:hi]
                for c in range(L):
                    a[c] += s * row[c]


@_jit
def _move(H, J, z, w, share_z, share_w):
    """z <- H + share_z min(z, 0) and w <- H + share_w (w - J): the arguments of the next proximal steps."""
    for i in range(H.shape[0]):
        for c in range(H.shape[1]):
            z[i, c] = H[i, c] + (share_z * z[i, c] if z[i, c] < 0.0 else z[i, c] - z[i, c])
            w[i, c] = H[i, c] + share_w * (w[i, c] - J[i, c])


@_jit
def _gaps(H, z, J):
    """max |Q - H| and max |Q - J| with Q = max(z, 0)."""
    to_H = 0.0
    to_J = 0.0
    for i in range(H.shape[0]):
        for c in range(H.shape[1]):
            q = max(z[i, c], 0.0)
            to_H = max(to_H, abs(q - H[i, c]))
            to_J = max(to_J, abs(q - J[i, c]))
    return to_H, to_J


@cache  # because it searches the loaded libraries
def _thread_pools():
    """The libraries whose limit is each thread's own (OpenMP, but not Microsoft's), and those with one for all."""
    libraries = ThreadpoolController().lib_controllers
    own = [library for library in libraries if library.internal_api == "openmp" and library.prefix != "vcomp"]
    return own, [library for library in libraries if library not in own]


_thread = threading.local()  # .threads: how many its call may use, in threads that work for a call of ours
_process = SimpleNamespace(lock=threading.Lock(), calls=0, before=[])  # calls in all threads; limits before the first
_process.sending = 0  # graphs to Dask, in all threads
_process.foreign = threading.Lock()  # held around scikit-learn's fits, which change the process's filters for warnings


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
    slices = _to_slices(X, axis, fft_norm)
    s = np.linalg.svd(slices, compute_uv=False)
    # A small power makes rounding large: (1e-16)^0.05 is 0.16. Rounding in the DFT and the SVD grows with the sizes and
    # was at most a fifth of this cut in tensors of rank 1.
    s = s[s > np.finfo(float).eps * sum(slices.shape) * s.max(initial=0.0)]
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
# 3 views: read, checked, put in an order that depends on their contents alone, scaled row block by row block.

SCALES = ("auto", "zscore", "unit", "max", None)
_LARGEST, _SMALLEST = 1e150, 1e-150  # what can be squared, and its square told from 0, in double precision
_WIDE_VIEW = 100  # features of a view from which on single precision is precise enough for distances
_FEW_COMMON = 10  # samples that two views share
_MOSTLY_ZERO = 0.1  # share of numbers that are not 0: below, z-scores make rare ones larger than 3, and words count so
_STEEPEST = 1e6  # size over range of a sparse column, which can't be centred: squares of more drown the differences


@dataclass
class _Tables:
    """The views as tables whose rows are in one order, and what the user calls them."""

    tables: list  # (n, d_v) arrays, CSR arrays or dask arrays
    where: list  # how messages call them: views[0], or views['pixels']
    view_names: list
    feature_names: list  # of every view a list of d_v names, or None
    sample_names: list | None
    first: int = 0  # number of the first row, if they are a chunk of larger ones
    chunks: tuple | None = None  # numbers of rows in each chunk, if some tables are dask arrays

    @property
    def n(self):
        return self.tables[0].shape[0]


def _as_tables(views, fewest_rows=1, join="inner", feature_names=None):
    """The given views, a list or a dict of tables, as `_Tables`; a single table is a list of one."""
    _check_choice("join", join, ("inner", "outer"))
    keys = None
    if sparse.issparse(views):  # of which the "dok" format is a dict
        views = [views]
    elif isinstance(views, dict):
        keys, views = list(views), list(views.values())
    elif hasattr(views, "shape") or hasattr(views, "__array__") or hasattr(views, "__dataframe__"):
        views = [views]
    elif not isinstance(views, (list, tuple)):
        raise TypeError(f"views must be a list or a dict of (samples, features) tables, got {type(views).__name__}")
    elif len(views) and not hasattr(views[0], "shape") and np.ndim(views[0]) < 2:
        views = [np.asarray(views)]  # one table as a list of rows
    if len(views) == 0:
        raise ValueError("views is empty: give at least one (samples, features) table")
    where = [f"views[{key!r}]" for key in keys or range(len(views))]
    names = [f"view {v}" for v in range(len(views))] if keys is None else list(map(str, keys))
    views, sample_names = _aligned(views, where, join)
    tables = [_as_table(view, name, fewest_rows) for view, name in zip(views, where)]
    for v, table in enumerate(tables):
        if table.shape[0] != tables[0].shape[0]:
            rows = f"{where[v]} has {table.shape[0]} rows, {where[0]} has {tables[0].shape[0]}"
            raise ValueError(f"{rows}: every view must describe the same samples, one per row")
    feature_names = _named_features(feature_names, names, list(map(_column_names, views)), tables)
    chunks = next((table.chunks[0] for table in tables if _is_dask(table)), None)
    return _Tables(tables, where, names, feature_names, sample_names, chunks=chunks)


def _named_features(given, view_names, columns, tables):
    """Of every view the names of its features: those of its columns, or those given in a dict by view name."""
    given = {} if given is None else given
    wrong = given if not isinstance(given, dict) else next((x for x in given.values() if np.ndim(x) != 1), None)
    if wrong is not None:
        raise TypeError(f"feature_names must be a dict of lists by view name, got {type(wrong).__name__}")
    given = {str(name): list(map(str, names)) for name, names in given.items()}
    for name in given:
        if name not in view_names:
            raise ValueError(f"feature_names has an unknown view {name!r}: they are {', '.join(map(repr, view_names))}")
    for name, own, table in zip(view_names, columns, tables):
        names, d = given.get(name), table.shape[1]
        if names is not None and own is not None:
            raise ValueError(f"feature_names: {name!r} is a DataFrame with names of its own")
        if names is not None and (len(names) != d or len(set(names)) < d):
            raise ValueError(f"feature_names must be {d} different names for {name!r}, got {len(names)}")
    return [given.get(name, own) for name, own in zip(view_names, columns)]


def _aligned(views, where, join):
    """DataFrames with the same row labels in the order of the first one, and these labels, None if they only count.

    With join="outer" the rows are all labels that any of them has, and those that a view has not are NaN in it.
    """
    frames = {v: view for v, view in enumerate(views) if hasattr(view, "reindex") and not _is_dask(view)}
    labels = {v: frame.index for v, frame in frames.items() if hasattr(frame, "index")}
    if not labels:
        return views, None
    start, first = next(iter(labels.items()))
    others = {v: index for v, index in labels.items() if not index.equals(first)}
    for v, index in labels.items():
        if others and not index.is_unique:
            twice = index[index.duplicated()][0]
            raise ValueError(f"{where[v]} has the row label {twice!r} twice, so views can't be matched by label")
    for v, index in others.items():
        strangers = index.symmetric_difference(labels[start], sort=False)
        if join == "outer" and len(labels) == len(views):
            first = first.union(index, sort=False)
        elif len(strangers):
            differ = f"the row labels of {where[v]} and {where[start]} differ in {len(strangers)}"
            hint = 'every view must describe the same samples, unless join="outer"'
            raise ValueError(f"{differ}, first {strangers[0]!r}: {hint}")
    if others:
        views = [view.reindex(first) if v in labels else view for v, view in enumerate(views)]
    only_count = first.dtype.kind in "iu" and first.equals(type(first)(range(len(first))))
    return views, None if only_count else list(map(str, first))


def _column_names(view):
    """The names of a DataFrame's columns as text, None if there are none, if they only count or if one stands twice."""
    if not hasattr(view, "columns"):
        return None
    names = list(map(str, view.columns))
    only_count = names == list(map(str, range(len(names))))
    return None if only_count or len(set(names)) < len(names) else names


def _as_table(view, name, fewest_rows):
    if _is_dask(view):
        return _as_dask_array(view, name, fewest_rows)
    if sparse.issparse(view):
        view = sparse.csr_array(view)
        if not view.has_canonical_format:
            view = view.copy()
            view.sum_duplicates()
    elif isinstance(view, np.ma.MaskedArray):
        view = view.astype(float).filled(np.nan)
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
    if view.shape[0] < fewest_rows or view.shape[1] == 0:
        raise ValueError(f"{name} has {view.shape[0]} sample(s) and {view.shape[1]} feature(s): drop it")
    return view


def _is_dask(view):
    return type(view).__module__.split(".")[0] in ("dask", "dask_expr")


def _as_dask_array(view, name, fewest_rows):
    if not hasattr(view, "chunks"):
        raise TypeError(f"{name} is a {type(view).__name__} of Dask: give a dask array, as to_dask_array() makes one")
    if any(future.cancelled() for future in _futures(view)):
        raise ValueError(f"{name} lies with a client of Dask that was closed, or was cancelled: make it again")
    if np.isnan(view.shape).any():
        view = view.copy().compute_chunk_sizes()
    # A stand-in of its shape and kind takes no memory; the numbers are checked where they are.
    kind = view.dtype if view.dtype.kind in "fiubc" else float
    _as_table(np.broadcast_to(np.zeros((), kind), view.shape), name, fewest_rows)
    return view


def _delayed(function, *arguments):
    """A task for Dask: function(*arguments), some of which are tasks."""
    import dask

    return dask.delayed(function)(*arguments)


def _shared(what):
    """For the arguments of many tasks: what is so wrapped travels once, not with each of them."""
    import dask

    return dask.delayed(what, traverse=False)


def _persisted(tasks):
    """Let Dask begin with tasks and keep what comes out, on the active client or in this process."""
    import dask

    # The anchors, which travel with a step, are larger than what Dask's clients take for usual, and warn of. The limit
    # is that of the process: the first call sets it, the last gives it back.
    with _process.lock:
        if _process.sending == 0:
            limit = {"distributed.admin.large-graph-warning-threshold": "1TB"}
            # Before distributed is there, so is nobody to warn, and giving back would take its defaults away.
            _process.large = dask.config.set(limit) if "distributed" in sys.modules else nullcontext()
        _process.sending += 1
    try:
        return list(dask.persist(*tasks))
    finally:
        with _process.lock:
            _process.sending -= 1
            if _process.sending == 0:
                _process.large.__exit__(None, None, None)


def _computed(tasks):
    import dask

    return dask.compute(*tasks)


def _futures(*kept):
    """What a cluster keeps for dask arrays or for tasks."""
    if "distributed" not in sys.modules:
        return []
    return sys.modules["distributed"].futures_of(kept)


def _split(table, chunks):
    """A dask array, or a table that is split alike, as tasks: of every chunk with rows a list, side by side."""
    rows = tuple(n for n in chunks if n)
    if _is_dask(table):
        if table.chunks[0] != chunks:
            table, chunks = table.rechunk({0: rows}), rows
        return [list(row) for row, n in zip(table.to_delayed(), chunks) if n]
    parts = _persisted([_shared(table[hi - n : hi]) for hi, n in zip(np.cumsum(rows), rows)])
    return [[part] for part in parts]


def _sources(given, mask):
    """Of every chunk with rows a task that reads its views and mask, anew for every step that asks for them."""
    rows = [n for n in given.chunks if n]
    masks = [None] * len(rows)
    if mask is not None:
        mask = _as_dask_array(mask, "mask", 0) if _is_dask(mask) else np.asarray(mask)
        _check_mask(mask, given.n, len(given.tables))
        masks = _split(mask, given.chunks)
    parts, widths = zip(*(_split(table, given.chunks) for table in given.tables)), [x.shape[1] for x in given.tables]
    every = zip(map(list, parts), masks, np.cumsum(rows) - rows, rows)
    return [_delayed(_opened, *one, int(first), (n, widths), given.where) for *one, first, n in every]


def _opened(parts, mask, first, announced, where):
    """On a worker: the views of the chunk that begins with row `first`, and their mask."""
    tables, (n, widths) = [_as_table(_beside(part), name, 0) for part, name in zip(parts, where)], announced
    mask = np.ones((n, len(where)), bool) if mask is None else _beside(mask)
    for table, width, name in [*zip(tables, widths, where), (mask, len(where), "mask")]:
        if table.shape != (n, width):
            wrong = f"the chunk of {name} from row {first} on has shape {table.shape}, not {(n, width)} as announced"
            raise ValueError(f"{wrong}: call compute_chunk_sizes() on the dask array first")
    return _Tables(tables, where, [], [], None, first), mask


def _beside(blocks):
    if len(blocks) == 1:
        return blocks[0]
    return sparse.hstack(blocks, format="csr") if any(map(sparse.issparse, blocks)) else np.hstack(blocks)


def _rows_seen(table, name, wanted, first, lo, hi):
    """Which of the wanted rows were observed: not those of nothing but NaN. Other NaN, or infinity, is an error."""
    block, wanted = table[lo:hi], wanted[lo:hi]
    if sparse.issparse(block):
        entries = block.tocoo()
        at = np.flatnonzero(~np.isfinite(entries.data))
        row, column, values = entries.row[at], entries.col[at], entries.data[at]
    else:
        row, column = np.nonzero(~np.isfinite(block))
        values = block[row, column]
    wanted = wanted & (np.bincount(row, np.isnan(values), hi - lo) < table.shape[1])
    bad = wanted[row]
    if bad.any():
        rows, columns = row[bad], column[bad]
        where = f"{len(np.unique(rows))} partly filled row(s), first in row {rows[0] + first + lo}, column {columns[0]}"
        hint = 'use impute="mean", or make the whole row NaN if the sample was not seen there'
        raise ValueError(f"{name} contains NaN or infinity in {where}: {hint}")
    return wanted


@dataclass
class _Scaling:
    """How one view is scaled: (x - shift) * factor per column, then rows of length 1 if "unit", less `centre`."""

    name: str | None  # of SCALES
    factor: np.ndarray  # (features,)
    shift: np.ndarray | None  # (features,), None for a sparse view, whose zeros must stay zeros
    centre: np.ndarray | None = None  # (features,): distances are the same without it, and exact where values are large
    weight: float = 1.0  # of the view among the joint features

    def __call__(self, rows):
        if sparse.issparse(rows):
            data = rows.data * self.factor[rows.indices]
            if self.name == "unit":
                row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
                length = np.sqrt(np.bincount(row, data**2, rows.shape[0]))
                data /= np.where(length > 0, length, 1.0)[row]
            return sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)
        return self.with_squares(rows)[0]

    def with_squares(self, rows):
        """Scaled rows and their squared lengths. Wide dense rows are in single precision: errors average out."""
        if sparse.issparse(rows):
            scaled = self(rows)
            return scaled, np.asarray((scaled**2).sum(axis=1)).ravel()
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(float)
        scaled = np.empty(rows.shape, np.float32 if rows.shape[1] > _WIDE_VIEW else np.float64)
        centre = np.zeros(rows.shape[1]) if self.centre is None else self.centre
        square = _scale_rows(np.ascontiguousarray(rows), self.shift, self.factor, self.name == "unit", centre, scaled)
        return scaled, square


def _fingerprints(table, lo, hi):
    """One 64-bit number per row that depends on the row's values alone; dense and sparse agree."""
    rows, out = table[lo:hi], np.empty(hi - lo, np.uint64)
    if sparse.issparse(rows):
        values, columns, starts = rows.data.astype(float), rows.indices, rows.indptr
    else:
        values, d = np.ascontiguousarray(rows, float), rows.shape[1]
        columns, starts = np.tile(np.arange(d, dtype=np.int32), hi - lo), np.arange(hi - lo + 1) * d
    with np.errstate(over="ignore"):  # for the kernel without the compiler
        _fingerprint(values.view(np.uint64).ravel(), columns, starts, out)
    return out


@dataclass
class _Scheme:
    """One way to scale the views, and the draws of anchors that see the data so."""

    scalings: list  # of every view
    draws: int
    rows: list = field(default_factory=list)  # of every view the scaled rows of the anchors of all these draws
    squares: list = field(default_factory=list)  # of their lengths


@dataclass
class _Data:
    """The views in working order: position i stands for input row rows[i], slot v for input view slots[v]."""

    tables: list
    where: list  # names of the slots for messages
    rows: np.ndarray
    slots: np.ndarray
    seen: np.ndarray | None  # (n, V): whether a row was observed in a view; None if all were
    schemes: list = field(default_factory=list)
    distinct: np.ndarray | None = None  # one position for every different row

    @property
    def n(self):
        return len(self.rows)

    def raw(self, v, positions):
        """Rows of view v in the user's units; rows that were not seen become 0, for nobody to use."""
        rows = self.tables[v][self.rows[positions]]
        if self.seen is None:
            return rows
        seen = self.seen[positions, v]
        if not sparse.issparse(rows):
            return np.where(seen[:, None], rows, 0)
        rows.data = np.where(np.repeat(seen, np.diff(rows.indptr)), rows.data, 0)
        return rows

    def scaled(self, v, positions, scheme=0):
        """Scaled rows of view v; those that were not seen are 0, the mean of dense views."""
        rows = self.schemes[scheme].scalings[v](self.raw(v, positions))
        if self.seen is not None and not sparse.issparse(rows):
            rows[~self.seen[positions, v]] = 0.0
        return rows

    def joint(self, positions, scheme=0):
        """All scaled views side by side, each divided by the root of its total variance."""
        weights = [scaling.weight for scaling in self.schemes[scheme].scalings]
        return _beside([weight * self.scaled(v, positions, scheme) for v, weight in enumerate(weights)])


def _observed(given, mask):
    """Whether sample i was observed in view v, as an (n, V) array, from NaN rows and the mask."""
    n, V = given.n, len(given.tables)
    mask = np.ones((n, V), bool) if mask is None else np.asarray(mask)
    _check_mask(mask, n, V)
    steps = [partial(_rows_seen, given.tables[v], given.where[v], mask[:, v], given.first) for v in range(V)]
    none = np.empty(0, bool)  # in an empty batch there are no blocks
    seen = np.stack([np.concatenate([none, *_map_rows(step, n)]) for step in steps], axis=1)
    nowhere = np.flatnonzero(~seen.any(axis=1))
    if len(nowhere):
        first = nowhere[0] + given.first
        raise ValueError(f"{len(nowhere)} sample(s) were seen in no view, first sample {first}: leave them out")
    return seen


def _check_mask(mask, n, V):
    if mask.shape != (n, V) or mask.dtype != bool:
        raise ValueError(f"mask must be a boolean array of shape {(n, V)}, True where a sample was seen in a view")


def _fill_holes(given, means=None):
    """Put the column's mean (or that in `means`, a vector per view) where a row that was seen lacks a number."""
    for v, table in enumerate(given.tables):
        values = table.data if sparse.issparse(table) else table
        if values.dtype.kind != "f" or not np.isnan(values).any():
            continue
        dense = table.toarray() if sparse.issparse(table) else table
        lacks = np.isnan(dense)
        there = (~lacks).sum(axis=0)
        mean = np.where(lacks, 0.0, dense).sum(axis=0) / np.maximum(there, 1) if means is None else means[v]
        filled = np.where(lacks & ~lacks.all(axis=1, keepdims=True), mean, dense)
        given.tables[v] = sparse.csr_array(filled) if sparse.issparse(table) else filled


def _check_common(common, n, where):
    """Refuse views that no sample connects with the others, warn of those that few do.

    `common` (V, V) are the numbers of samples seen in both of two views. Returns whether all were seen everywhere.
    """
    complete = common.min() == n
    if complete or len(common) == 1:
        return complete
    unseen = np.flatnonzero(common.diagonal() == 0)
    if len(unseen):
        raise ValueError(f"{where[unseen[0]]} was observed in no sample: leave it out")
    pieces, piece = connected_components(common > 0)
    if pieces > 1:
        apart = where[np.flatnonzero(piece != piece[0])[0]]
        raise ValueError(f"{apart} has no sample in common with {where[0]}, not even through other views: leave it out")
    links = np.where(np.eye(len(common)), 0, common).max(axis=1)
    if links.min() < _FEW_COMMON:
        few = f"{where[links.argmin()]} has only {links.min()} sample(s) in common with any other view"
        warnings.warn(f"{few}: how its clusters match theirs rests on these", UserWarning, stacklevel=6)
    return complete


def _arrange(given, mask, canonical, schemes):
    """Check the values, choose the working order, fit the scalings; `schemes` are pairs (a word per view, draws).

    The canonical order sorts views and rows by fingerprints of their contents, so that whatever follows, sums and
    random draws included, cannot depend on the order in which they were given.
    """
    prints, seen, (common, view_prints, extents) = _look((given, mask))
    complete = _check_common(common, given.n, given.where)
    slots = np.argsort(view_prints, kind="stable") if canonical else np.arange(len(prints))
    keys = _keys(prints, slots)
    rows = np.argsort(keys, kind="stable") if canonical else np.arange(given.n)
    tables, where, seen = (
        [given.tables[slot] for slot in slots],
        [given.where[slot] for slot in slots],
        seen[rows][:, slots],
    )
    scalings = _fit_scalings(schemes, slots, extents, given.where)
    moments = _moments_of(scalings, tables, [rows[some] for some in seen.T])
    schemes = _as_schemes(schemes, scalings, moments, seen.sum(axis=0))
    return _Data(tables, where, rows, slots, None if complete else seen, schemes, _distinct(keys[rows]))


def _look(source):
    """Of views and their mask the rows' fingerprints, where they were seen, and three facts that chunks have to merge:
    how many rows two views have in common, a number for every view (to be added up), its extent or None."""
    given, mask = source
    seen = _observed(given, mask)
    prints = [np.concatenate(_map_rows(partial(_fingerprints, table), given.n)) for table in given.tables]
    prints = [np.where(seen[:, v], f, np.uint64(1)) for v, f in enumerate(prints)]
    together = _mix(np.sum([_mix(f) for f in prints], axis=0, dtype=np.uint64))
    view_prints = np.array([np.sum(_mix(f ^ together), dtype=np.uint64) for f in prints])
    extents = [_over_rows(_extent, table, np.flatnonzero(seen[:, v])) for v, table in enumerate(given.tables)]
    extents = [_merged(parts) if parts else None for parts in extents]
    return prints, seen, (seen.T.astype(int) @ seen, view_prints, extents)


def _keys(prints, slots):
    """One number per row for all views."""
    keys = np.zeros(len(prints[0]), np.uint64)
    for slot in slots:
        keys = _mix(keys + prints[slot])
    return keys


def _distinct(keys):
    """The first position of every different row."""
    return np.sort(np.unique(keys, return_index=True)[1])


def _over_rows(step, table, rows):
    """[step(some of these rows), ...]"""
    return _map_rows(lambda lo, hi: step(table[rows[lo:hi]]), len(rows))


def _extent(rows):
    """Least and largest number of each column, how many numbers are not 0, how many there are; whether it is sparse."""
    if sparse.issparse(rows):
        low, high, filled = rows.min(axis=0).toarray().ravel(), rows.max(axis=0).toarray().ravel(), rows.nnz
    else:
        low, high, filled = rows.min(axis=0), rows.max(axis=0), np.count_nonzero(rows)
    return low.astype(float), high.astype(float), filled, rows.shape[0] * rows.shape[1], {sparse.issparse(rows)}


def _merged(extents):
    low, high, filled, size, kinds = zip(*extents)
    return np.min(low, axis=0), np.max(high, axis=0), sum(filled), sum(size), set.union(*kinds)


def _fit_scalings(schemes, slots, extents, where):
    """Of every scheme the scalings of the views in working order, still to be refined."""
    return [_fit_scaling(words[slot], *extents[slot], where[slot]) for words, _ in schemes for slot in slots]


def _fit_scaling(scale, low, high, filled, size, kinds, name):
    """A view's scaling, as far as its extent goes: to numbers whose moments do not cancel."""
    if len(kinds) > 1:
        raise TypeError(f"{name} has sparse and dense chunks: make them alike")
    d, is_sparse = len(low), True in kinds
    if scale == "auto":
        mostly_zero = low.min() >= 0 and filled < _MOSTLY_ZERO * size
        scale = "unit" if is_sparse or mostly_zero else "zscore"
    top = max(-low.min(), high.max())
    _check_range(top, scale, name)
    steep = np.flatnonzero((high > low) & (np.maximum(high, -low) > _STEEPEST * (high - low)))
    if is_sparse and len(steep):
        narrow = f"the values of column {steep[0]} of {name} differ by less than a millionth of their size"
        raise ValueError(f"{narrow}, and a sparse view can't be centred: give it as a dense array")
    # Statistics of (x - low) / (high - low) can neither overflow nor cancel, whatever the units of x.
    if scale == "zscore":
        width = high - low
    else:
        width = np.full(d, top if scale in ("unit", "max") and top > 0 else 1.0)
    varies = width > np.finfo(float).tiny
    factor = np.where(varies, 1.0 / np.where(varies, width, 1.0), 0.0)
    shift = None if is_sparse else (low if scale == "zscore" else np.zeros(d))
    scaling = _Scaling(scale, factor, shift)
    if not is_sparse and scale != "zscore":
        scaling.centre = scaling((low / 2 + high / 2)[None])[0]  # moments about the middle do not cancel either
    return scaling


def _moments_of(scalings, tables, rows):
    """For every scaling, of one view after the other, the sums of these rows of it, so scaled, and of their squares."""

    def moments(scaling, rows):
        block = scaling(rows)
        return [np.asarray(x.sum(axis=0, dtype=float)).ravel() for x in (block, block**2)]

    views = [v for _ in range(len(scalings) // len(tables)) for v in range(len(tables))]
    parts = [_over_rows(partial(moments, scaling), tables[v], rows[v]) for scaling, v in zip(scalings, views)]
    return [_sums(some) if some else (0.0, 0.0) for some in parts]


def _sums(parts):
    """The sums of tuples of arrays, in their order."""
    return [sum(some) for some in zip(*parts)]


def _as_schemes(schemes, scalings, moments, counts):
    """`_Scheme`s of scalings, refined by their moments over so many rows of each view; those alike become one."""
    found, V = [], len(counts)
    for i, (_, draws) in enumerate(schemes):
        some = slice(i * V, (i + 1) * V)
        for scaling, sums, n in zip(scalings[some], moments[some], counts):
            _refine(scaling, *(total / n for total in sums))
        if found and [s.name for s in scalings[some]] == [s.name for s in found[-1].scalings]:
            found[-1].draws += draws  # "auto" has chosen the same
        else:
            found.append(_Scheme(scalings[some], draws))
    return found


def _refine(scaling, mean, square):
    """Finish a scaling with the means of the rows, so scaled, and of their squares."""
    variance = np.maximum(square - mean**2, 0.0)
    spread = _rounded(variance.sum(), square.sum())
    if scaling.name == "zscore":
        varies = (scaling.factor > 0) & (variance > 1e-20)
        if scaling.shift is not None:
            width = np.divide(1.0, scaling.factor, out=np.zeros_like(mean), where=varies)
            scaling.shift = scaling.shift + _rounded(mean, np.sqrt(variance)) * width
        variance = _rounded(variance, variance)
        scaling.factor = np.where(varies, scaling.factor / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
        spread = varies.sum()
    elif scaling.centre is not None:
        scaling.centre = _rounded(scaling.centre + mean, np.sqrt(spread))
    scaling.weight = 1.0 / np.sqrt(spread) if spread > 0 else 0.0


def _rounded(x, size):
    """x to 36 binary digits of this size, so that sums in another order give the same scaling, not one like it."""
    unit = np.ldexp(1.0, np.frexp(size)[1] - 36)
    return np.round(x / unit) * unit


def _check_range(top, scale, name):
    """Refuse values that can't be squared; a scaling other than None brings all but the largest into range."""
    if top > (_LARGEST if scale is None else 1e305):
        hint = 'use scale="auto"' if scale is None and top <= 1e305 else "rescale it"
        raise ValueError(f"{name} has values as large as {top:.1e}, too large to square: {hint}")
    if scale is None and 0 < top < _SMALLEST:
        raise ValueError(f'{name} has no value above {top:.1e}, too small to square: use scale="auto"')


# ======================================================================================================================
# 4 anchors and graphs: every view as n x k indices and weights of nearest anchors, in blocks of rows.

ANCHORS = ("medoid", "vda", "random")
_POOL = 5  # rows per anchor, among which anchors are looked for
_DIRECTIONS = 100  # anchors are looked for in so many leading directions, if the joint features are twice as many
_LLOYD_STEPS = 2
# So many rows per cluster suffice for anchors: those seen in most views, because half-seen ones can be compared with
# few (HandWritten4, 30 % missing: 0.85 to 0.94).
_COMPLETE = 10
_PIECE = 1024  # rows whose distances to all anchors are in memory at a time


@dataclass
class _Block:
    """Rows lo..hi of the data in working order, with all that belongs to them."""

    data: _Data
    lo: int
    hi: int
    index: np.ndarray | None = None  # (rows, slices, neighbours) int32: S[i, index[i, v, t], v] = weight[i, v, t]
    weight: np.ndarray | None = None  # the same shape
    told: np.ndarray | None = None  # (rows, V): whether a view tells anything about a row; if not, the joint slice does
    S: np.ndarray | None = None  # the weights as the solver sees them
    labels: np.ndarray | None = None
    H: np.ndarray | None = None  # (rows, slices * k), the state of Algorithm 1; B2 on the way to the next H
    z: np.ndarray | None = None
    w: np.ndarray | None = None
    J: np.ndarray | None = None  # kept for axis="sample" only
    by_H: np.ndarray | None = None  # labels by H alone, without the anchors' help; -1 for none
    memberships: np.ndarray | None = None

    @property
    def rows(self):
        return slice(self.lo, self.hi)

    def pieces(self, size=2048):
        """Slices of the block's rows, small enough for the cache."""
        return [slice(lo, min(lo + size, self.hi - self.lo)) for lo in range(0, self.hi - self.lo, size)]


class _Rows:
    """All rows in blocks. A step is a function of a block; what it returns is small, and added in a fixed order.

    The blocks depend on n alone, so nothing depends on the number of threads.
    """

    def __init__(self, data):
        self.data, self.near = data, self  # near rows are those at hand: here all, with Dask some
        self.numbers = getattr(data, "rows", None)  # of the given samples
        size = min(max(data.n // 16, 512), 8192)
        self.blocks = [_Block(data, lo, min(lo + size, data.n)) for lo in range(0, data.n, size)]

    @property
    def kind(self):
        """The precision of the state."""
        return self.blocks[0].H.dtype

    def join(self, anchors, show=None):
        """Give the blocks their graphs."""
        self.map(_join, anchors, show=show)

    def join_others(self, anchors):
        """The same for the rows that are not near."""

    def map(self, step, *small, show=None, reads=None):
        """[step(block, *small), ...]; show(share of the blocks done) is called on the way; `reads` is for Dask."""
        done = []

        def one(b, _):
            result = step(self.blocks[b], *small)
            done.append(b)
            if show is not None:
                show(len(done) / len(self.blocks))
            return result

        return _map_rows(one, len(self.blocks), rows=1)

    def sum(self, step, *small):
        return sum(self.map(step, *small))

    def sums(self, step, *small):
        """The same for a step that returns several arrays."""
        return _sums(self.map(step, *small))

    def gather(self, name):
        return np.concatenate([getattr(block, name) for block in self.blocks])

    def spread(self, name, whole):
        for block in self.blocks:
            setattr(block, name, whole[block.rows])

    def take(self, name, at):
        """What the blocks know about the anchors at these positions."""
        return self.gather(name)[at]

    def head(self, n):
        """The first n rows as one block with its graph: in the canonical order a random sample."""
        some = [block for block in self.blocks if block.lo < n]
        index, weight = (np.concatenate([getattr(b, name) for b in some])[:n] for name in ("index", "weight"))
        return _Block(self.data, 0, min(n, self.data.n), index, weight)

    def settle(self):
        """Make room for the solver where there is little."""

    def outcome(self, slices, k):
        """What belongs to the samples, in their given order, for the `Result`."""
        inverse, labels = np.argsort(self.data.rows), self.gather("labels")
        graph = dict(_index=_handed_over(self, "index", slices), _weight=_handed_over(self, "weight", slices))
        memberships, profile = _handed_over(self, "memberships", np.arange(k)), _profile(self.data, labels, k)
        return dict(labels=labels[inverse], memberships=memberships, _profile=profile, **graph)


class _DaskRows:
    """The same for rows in the chunks of dask arrays, in the order in which they were given.

    A step is one task per chunk, which hands on a changed copy of the chunk's blocks, and a tree of tasks that puts the
    small results together in a fixed order. On a cluster all of this happens on the workers: only what steps are given
    and what they return travels. Of an order that depends on the rows' contents just the beginning is needed: these
    rows, `near`, are fetched, and anchors and the start come from them as they do in memory.
    """

    kind = np.dtype(np.float32)

    def __init__(self, given, mask, s):
        self.given, self.sources, self.graphs = given, _sources(given, mask), []
        self.stops = np.cumsum([rows for rows in given.chunks if rows])
        looked = _persisted([_delayed(_on_one_thread, _look, source) for source in self.sources])
        common, view_prints, extents = zip(*_computed([_delayed(itemgetter(2), one) for one in looked]))
        common = sum(common)
        complete = _check_common(common, given.n, given.where)
        slots = np.argsort(np.sum(view_prints, axis=0, dtype=np.uint64), kind="stable")

        wanted = _SAMPLE, max(_POOL * s.m, _COMPLETE * s.k)
        picked = _computed([_delayed(_pick, one, slots, *wanted) for one in looked])
        keys, at, seen = map(np.concatenate, zip(*picked))
        chunk = np.repeat(np.arange(len(picked)), [len(some) for some, *_ in picked])
        best = _smallest(keys, seen, *wanted)
        keys, at, seen, chunk = keys[best], at[best], seen[best], chunk[best]

        extents = [_merged([extent for extent in some if extent is not None]) for some in zip(*extents)]
        scalings, every = _fit_scalings(s.schemes, slots, extents, given.where), enumerate(zip(self.sources, looked))
        shared = _shared(SimpleNamespace(slots=slots, scalings=scalings))
        tasks = [_delayed(_on_one_thread, _fetch, *one, shared, at[chunk == c]) for c, one in every]
        tables, moments = zip(*_computed(tasks))
        tables = [sparse.vstack(x, format="csr") if sparse.issparse(x[0]) else np.concatenate(x) for x in zip(*tables)]
        schemes = _as_schemes(s.schemes, scalings, [_sums(x) for x in zip(*moments)], common.diagonal()[slots])
        order, where = np.argsort(keys, kind="stable"), [given.where[slot] for slot in slots]
        seen = None if complete else seen[order]
        near = _Data(tables, where, order, slots, seen, schemes, _distinct(keys[order]))
        self.near, self.numbers = _Rows(near), (at + np.append(0, self.stops)[chunk])[order]
        self.data = SimpleNamespace(n=given.n, rows=slice(None), slots=slots, seen=seen, distinct=near.distinct)
        bare = _shared(replace(near, tables=[], rows=None, distinct=None))
        self.states = [_delayed(_begun, one, bare) for one in looked]

    def join_others(self, anchors):
        self.map(_join, anchors, reads="views")
        self.graphs = self.states

    def settle(self):
        self.map(_slim)

    def map(self, step, *small, reads=None):
        """[step(block, *small), ...]; `reads` is "views", "graph" for what was there before `settle`, or None."""
        return self.run(step, small, list, _chained, reads)

    def sum(self, step, *small):
        return self.run(step, small, sum, sum)

    def sums(self, step, *small):
        return self.run(step, small, _sums, _sums)

    def run(self, step, small, within, across, reads=None):
        """Take a step; its results are put together by `within` in a chunk, by `across` those of the chunks."""
        step = _shared(SimpleNamespace(step=step, small=small, within=within))
        beside = {"views": self.sources, "graph": self.graphs}.get(reads, [None] * len(self.states))
        states = [_delayed(_on_one_thread, _stepped, step, *pair) for pair in zip(self.states, beside)]
        parts = [_delayed(attrgetter("small"), state) for state in states]
        while len(parts) > 1:
            parts = [_delayed(across, parts[i : i + 8]) for i in range(0, len(parts), 8)]
        *self.states, result = _persisted([*states, *parts])
        del states, parts  # which hold the states of before
        try:
            return _computed([result])[0]
        except BaseException:  # an interrupt or a fault; notebooks keep the frame, and with it all that was begun
            for future in _futures(result, *self.states, *self.graphs):
                future.cancel()
            raise

    def gather(self, name):
        return np.concatenate(_computed([_delayed(_part, state, name) for state in self.states]))

    def spread(self, name, whole):
        parts = np.split(whole, self.stops[:-1])
        self.states = _persisted([_delayed(_with, state, name, part) for state, part in zip(self.states, parts)])

    def take(self, name, at):
        chunk = np.searchsorted(self.stops, self.numbers[at], side="right")
        at, found = self.numbers[at] - np.append(0, self.stops)[chunk], np.empty(len(at), int)
        parts = _computed([_delayed(_part, state, name, at[chunk == c]) for c, state in enumerate(self.states)])
        for c, part in enumerate(parts):
            found[chunk == c] = part
        return found

    def outcome(self, slices, k):
        moments, chunks = self.run(_block_moments, (k,), _pooled_views, _pooled_views, "views"), self.given.chunks
        parts = _persisted([_delayed(_part, x, name) for name in ("labels", "memberships") for x in self.states])
        labels = _as_dask(parts[: len(self.states)], chunks, (), np.intp)
        memberships = _as_dask(parts[len(self.states) :], chunks, (k,), float)
        graph = dict(_index=None, _weight=None, _sources=self.sources)
        return dict(labels=labels, memberships=memberships, _profile=_in_units(moments), **graph)


@dataclass
class _Chunk:
    """The blocks of a chunk of rows, and what the last step returned."""

    blocks: list
    small: object = None

    def __sizeof__(self):
        """For Dask, which leaves large things where they are, and puts them on disk when memory is short."""
        return 1000 + sum(getattr(x, "nbytes", 0) for block in self.blocks for x in vars(block).values())


# The arrays that steps write into: a copy of a block needs its own.
_WRITTEN = {"_form_B": ("H",), "_form_H": ("H", "z", "w"), "_prune_filled": ("S",)}


def _on_one_thread(function, *arguments):
    """On a worker, which is one of many threads or processes."""
    with _limits(1):
        return function(*arguments)


def _stepped(step, chunk, beside):
    """A chunk after a step. The one before stays as it is, and is needed again if this one gets lost."""
    written = _WRITTEN.get(getattr(step.step, "__name__", None), ())
    blocks = [replace(block, **{name: getattr(block, name).copy() for name in written}) for block in chunk.blocks]
    bare = data = blocks[0].data
    if isinstance(beside, _Chunk):
        for block, known in zip(blocks, beside.blocks):
            block.index, block.weight = known.index, known.weight
    elif beside is not None:
        data = replace(bare, tables=[beside[0].tables[slot] for slot in bare.slots])
    for block in blocks:
        block.data = data
    small = step.within(step.step(block, *step.small) for block in blocks)
    for block in blocks:
        block.data = bare
    return _Chunk(blocks, small)


def _pick(looked, slots, sample, pool):
    """Of the rows that may be among all those with the smallest keys: keys, numbers, where they were seen."""
    keys, seen = _keys(looked[0], slots), looked[1][:, slots]
    best = _smallest(keys, seen, sample, pool)
    return keys[best], best, seen[best]


def _smallest(keys, seen, sample, pool):
    """Numbers of the `sample` rows with the smallest keys and, for any number of views, of the `pool` first different
    ones that were seen in so many: what `_choose_anchors` and `_find_labels` look at."""
    order, seen_in = np.argsort(keys, kind="stable"), seen.sum(axis=1)
    different = order[_distinct(keys[order])]
    pools = [different[seen_in[different] >= least][:pool] for least in range(1, seen.shape[1] + 1)]
    return np.unique(np.concatenate([order[:sample], *pools]))


def _fetch(source, looked, shared, at):
    """The rows at these places of every view, and the moments that the scalings need."""
    tables = [source[0].tables[slot] for slot in shared.slots]
    rows = [np.flatnonzero(looked[1][:, slot]) for slot in shared.slots]
    return [table[at] for table in tables], _moments_of(shared.scalings, tables, rows)


def _begun(looked, bare):
    """A chunk of rows about which nothing is known yet but where they were seen."""
    seen = None if bare.seen is None else looked[1][:, bare.slots]
    return _Chunk(_Rows(replace(bare, rows=np.arange(len(looked[1])), seen=seen)).blocks)


def _part(chunk, name, rows=slice(None)):
    return np.concatenate([getattr(block, name) for block in chunk.blocks])[rows]


def _with(chunk, name, whole):
    return _Chunk([replace(block, **{name: whole[block.rows]}) for block in chunk.blocks])


def _chained(parts):
    return [result for part in parts for result in part]


def _slim(block):
    """Leave the weights, of which the solver has its own, to the graph that was put aside; and shorten the indices."""
    block.weight = None
    if block.index.max() < 2**16:
        block.index = block.index.astype(np.uint16)


def _block_moments(block, k):
    """Of every given view the `_moments` of the block's rows that were seen there."""
    data, moments = block.data, [None] * len(block.data.tables)
    for v, slot in enumerate(data.slots):
        some = np.arange(block.hi - block.lo) if data.seen is None else np.flatnonzero(data.seen[block.rows, v])
        moments[slot] = _moments(data.tables[v][block.lo + some], block.labels[some], k)
    return moments


def _pooled_views(moments):
    """One after the other, because those of a wide view are as large as many of its rows."""
    return reduce(lambda total, more: [_pooled(pair) for pair in zip(total, more)], moments)


def _as_dask(parts, chunks, width, kind):
    """A dask array from tasks, one for each chunk that has rows."""
    import dask.array

    rows = [n for n in chunks if n]
    arrays = [dask.array.from_delayed(part, (n, *width), kind) for part, n in zip(parts, rows)]
    whole = dask.array.concatenate(arrays) if rows else dask.array.zeros((0, *width), kind)
    return whole if len(rows) == len(chunks) else whole.rechunk({0: chunks})


def _choose_anchors(data, s, rng):
    """Positions of the anchors, the same samples in every view, draw after draw, ascending in each; fixes the draws."""
    if not isinstance(s.anchors, str):
        return np.argsort(data.rows)[s.anchors]
    if s.anchors == "vda":
        return _vda(data, s.m)
    pool = data.distinct
    if data.seen is not None:
        seen = data.seen[pool]
        pool = pool[seen.sum(axis=1) >= _views_needed(seen, _COMPLETE * s.k)]
    pool = pool[: _POOL * s.m]  # in the canonical order a random sample
    if s.m >= len(pool):
        pool = pool if len(pool) > 1 else np.arange(2)
        for scheme in data.schemes:
            scheme.draws = 1  # another draw would be the same
        return np.tile(pool, len(data.schemes))
    seeds = rng.randint(2**31 - 1, size=len(data.schemes))
    return np.concatenate([_draw_anchors(data, pool, s, scheme, seed) for scheme, seed in enumerate(seeds)])


def _views_needed(seen, fewest):
    """The largest number of views in which at least so many rows of `seen` (n, V) were seen."""
    seen_in, least = seen.sum(axis=1), seen.shape[1]
    while least > 1 and (seen_in >= least).sum() < fewest:
        least -= 1
    return least


def _draw_anchors(data, pool, s, scheme, seed):
    """Positions of a scheme's anchors among the pool, spread over the joint features by k-means++ seeding."""
    rng, draws = np.random.RandomState(seed), data.schemes[scheme].draws
    if s.anchors == "random":
        return np.concatenate([np.sort(rng.choice(pool, s.m, replace=False)) for _ in range(draws)])
    X = data.joint(pool, scheme)
    if min(X.shape) > 2 * _DIRECTIONS:  # the search then costs the same for any width
        U, sizes, _ = randomized_svd(X, _DIRECTIONS, n_iter=2, random_state=rng)
        X = U * sizes
    X = np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X, np.float32)
    seeds = rng.randint(2**31 - 1, size=draws)
    return np.concatenate(_map_rows(lambda d, _: np.sort(pool[_medoids(X, s.m, seeds[d])]), draws, rows=1))


def _medoids(X, m, seed):
    """Numbers of m rows of X (n, d) that stand for all: k-means++ seeds, a few Lloyd steps, the nearest members.

    Seeds alone like outliers, and twenty steps from better seeds take ten times as long for the same accuracy.
    """
    seeds = np.empty(m, np.intp)
    _spread_out(np.ascontiguousarray(X.T), np.random.RandomState(seed).uniform(size=(m, 1)), seeds)
    centres = X[seeds]
    for _ in range(_LLOYD_STEPS):
        nearest, _ = _nearest_centre(centres, X)
        members = sparse.csr_array((np.ones(len(X)), (nearest, np.arange(len(X)))), (m, len(X)))
        size = np.bincount(nearest, minlength=m)[:, None]
        centres = np.where(size > 0, members @ X / np.maximum(size, 1), centres)
    nearest, distance = _nearest_centre(centres, X)
    order = np.lexsort((distance, nearest))
    medoids = order[np.unique(nearest[order], return_index=True)[1]]
    # For centres without members their seeds; and where rows are equal, as unit rows of one feature, just any others.
    order = np.concatenate([medoids, np.sort(seeds), np.arange(len(X))])
    return order[np.sort(np.unique(order, return_index=True)[1])[:m]]


def _nearest_centre(centres, X):
    """Of every row of X the number of the nearest centre, and the squared distance to it."""
    nearest, distance = np.empty(len(X), np.intp), np.empty(len(X), X.dtype)
    squares = 0.5 * np.einsum("ij,ij->i", centres, centres)
    for rows in (slice(lo, lo + _PIECE) for lo in range(0, len(X), _PIECE)):
        halves = squares - X[rows] @ centres.T
        nearest[rows] = halves.argmin(axis=1)
        distance[rows] = 2.0 * halves[np.arange(len(halves)), nearest[rows]]
    return nearest, distance + np.einsum("ij,ij->i", X, X)


def _vda(data, m):
    """Variance-based de-correlated anchors, the rule of the paper's reference for anchor selection."""

    scalings = [replace(scaling, centre=None) for scaling in data.schemes[0].scalings]

    def moments(lo, hi):
        blocks = [scaling(data.raw(v, slice(lo, hi))) for v, scaling in enumerate(scalings)]
        return sum(b.sum(axis=1) for b in blocks), sum((b**2).sum(axis=1) for b in blocks)

    total, squares = (np.concatenate(part) for part in zip(*_map_rows(moments, data.n)))
    d = sum(table.shape[1] for table in data.tables)
    s = np.maximum(squares - total**2 / d, 0.0) / max(d - 1, 1)
    s = s / s.max() if s.max() > 0 else np.ones_like(s)
    chosen, free = [], np.ones(data.n, bool) if data.seen is None else data.seen.all(axis=1)
    if free.sum() < m:
        free[:] = True  # the samples that were seen in all views are too few
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
class _Anchors:
    """The anchors of all draws side by side, and what it takes to join rows to them."""

    schemes: list
    usable: np.ndarray  # (V, m): whether an anchor was seen in a view, and is not blank there
    neighbours: int  # in each draw; the graph is the mean of the draws' graphs
    joint: bool  # whether all scaled features together make one more slice

    @property
    def m(self):
        return self.usable.shape[1]

    @property
    def draws(self):
        return sum(scheme.draws for scheme in self.schemes)

    @property
    def slices(self):
        return len(self.usable) + self.joint

    def join(self, data, rows):
        """Indices and weights (rows, slices, neighbours) of the graphs of some of the data's rows.

        The joint slice needs no joint features: its squared distance is the weighted sum of those of the views, over
        the views in which both the sample and the anchor were seen. It also stands in for the views that tell nothing
        about a sample: it was not seen there, or is equally far from all anchors. Returns, too, which views did tell.
        """
        V, m = self.usable.shape
        n, size = len(range(*rows.indices(data.n))), m // self.draws
        raw = [data.raw(v, rows) for v in range(V)]
        seen = np.ones((n, V), bool) if data.seen is None else data.seen[rows]
        index = np.empty((n, self.slices, self.draws, self.neighbours), np.int32)
        weight, told = np.empty(index.shape, np.float32), seen.copy()
        first = 0
        for scheme in self.schemes:
            draws = slice(first, first + scheme.draws)
            usable = self.usable[:, first * size : draws.stop * size]
            whole = data.seen is None and usable.all()
            together, common = np.zeros((n, usable.shape[1])), np.zeros((n, usable.shape[1]), np.int16)
            for v, scaling in enumerate(scheme.scalings):
                scaled, square = scaling.with_squares(raw[v])
                products = scaled @ scheme.rows[v].T
                distance = products.toarray() if sparse.issparse(products) else products
                share = scaling.weight**2
                if whole:
                    _to_distances(distance, square, scheme.squares[v], share, together)
                else:
                    _to_distances(distance, square, scheme.squares[v], 0.0, together)
                    both = seen[:, v, None] & usable[v]
                    together += share * both * distance
                    common += both
                    distance[:, ~usable[v]] = np.inf
                index[:, v, draws], weight[:, v, draws] = self.nearest(distance, scheme.draws)
            if not whole:
                together = np.where(common > 0, together / np.maximum(common, 1), np.inf)
            if self.joint:
                index[:, V, draws], weight[:, V, draws] = self.nearest(together, scheme.draws)
            for v in range(V):
                silent = ~(seen[:, v] & weight[:, v, draws].any(axis=(1, 2)))
                if silent.any():
                    distance = np.where(usable[v], together[silent], np.inf)
                    index[silent, v, draws], weight[silent, v, draws] = self.nearest(distance, scheme.draws)
                told[:, v] &= ~silent
            first = draws.stop
        index += (np.arange(self.draws, dtype=np.int32) * size)[:, None]
        weight /= np.float32(self.draws)
        return index.reshape(n, self.slices, -1), weight.reshape(n, self.slices, -1), told

    def nearest(self, distance, draws):
        """Indices in each draw and weights (rows, draws, neighbours) of the nearest anchors, from squared distances."""
        shape = (len(distance), draws, self.neighbours)
        index, weight = np.empty(shape, np.int32), np.empty(shape, np.float32)
        flat = (len(distance) * draws, -1)
        _nearest_anchors(distance.reshape(flat), index.reshape(flat), weight.reshape(flat))
        return index, weight


def _collect_anchors(data, at, s):
    """The samples at these positions as anchors."""
    V, size = len(data.tables), len(at) // sum(scheme.draws for scheme in data.schemes)
    schemes, usable, rest = [], [], at
    for scheme in data.schemes:
        own, rest = rest[: scheme.draws * size], rest[scheme.draws * size :]
        raw = [data.raw(v, own) for v in range(V)]
        rows, squares = zip(*(scheme.scalings[v].with_squares(raw[v]) for v in range(V)))
        schemes.append(replace(scheme, rows=list(rows), squares=list(squares)))
        seen = np.ones((V, len(own)), bool) if data.seen is None else data.seen[own].T
        # A row of zeros has no direction: as unit rows go, it is the same distance from everybody.
        filled = [s.name != "unit" or abs(raw[v]).sum(axis=1) > 0 for v, s in enumerate(scheme.scalings)]
        usable.append(seen & np.stack([np.broadcast_to(f, len(own)) for f in filled]))
    return _Anchors(schemes, np.hstack(usable), min(s.neighbours, size - 1), s.joint)


def _join(block, anchors):
    """Give the block its graph."""
    pieces = [slice(block.lo + p.start, block.lo + p.stop) for p in block.pieces(_PIECE)]
    parts = [anchors.join(block.data, rows) for rows in pieces]
    block.index, block.weight, block.told = (np.concatenate(part) for part in zip(*parts))


def _mass(block, m):
    """The column sums (slices, m) of the block's graph."""
    slices = range(block.index.shape[1])
    return np.stack([np.bincount(block.index[:, v].ravel(), block.weight[:, v].ravel(), m) for v in slices])


def _normalise(block, scale, kind):
    """S' = S scale, the graph with scaled columns, as the solver's weights."""
    at = np.arange(block.index.shape[1])[:, None]
    block.S = (block.weight * scale[at, block.index]).astype(kind)


def _simplex_scale(mass, k):
    """The column scale sqrt(m/k) Lambda^(-1/2) with which S^T*H of a clean partition lies on the simplex by itself."""
    return np.sqrt(mass.shape[1] / k / np.where(mass > 0, mass, 1.0))


# ======================================================================================================================
# 5 start: labels from the spectrum of the graphs.

_SAMPLE = 20_000  # rows from which the start is learnt; the others follow its rules
_EXTRA_VECTORS = 10  # singular vectors of a graph: twice as many as clusters, at most so many more
_LAST_WEIGHT = 0.5  # of the k-th of them
_CLEAR = 0.2  # a graph shows k clusters clearly where 1 - s_k is below this share of 1 - s_(k+1), s squared
_DENSE = 500  # a matrix of this size is decomposed at once
_FEWEST_BLOCKS, _MOST_BLOCKS, _RESIDUAL = 6, 30, 3e-3  # of the Krylov space, and when the k leading vectors are found
_RESTARTS, _FIRST_STEPS = 20, 5  # of k-means on the embedding, and steps of each
_SEED_DIRECTIONS = 24
_ROUNDS = 5  # of linear discriminants; later ones change a few labels in a thousand
_SHRINKAGE = 0.1  # of their covariances towards a multiple of the identity
_LEAST_LOG = -20.0  # of a probability: what a view excludes is improbable, not impossible
_FIRST_SAMPLES = 20  # per cluster: so many of the samples seen in most views are clustered before the others follow


def _find_labels(rows, anchors, k, rng):
    """Give all rows labels, by rules that are learnt from a sample of them."""
    sample = rows.near.head(_SAMPLE)
    learn = _spectral_rule if rows.data.seen is None else _rule_with_holes
    labels, rule = learn(sample, anchors, k, rng)
    if sample.hi == rows.data.n:
        rows.spread("labels", labels[np.argsort(sample.data.rows)][rows.data.rows])
    else:
        rows.map(_label, rule, reads=None if rows.data.seen is None else "views")


def _label(block, rule):
    block.labels = rule(block)


def _spectral_rule(sample, anchors, k, rng):
    """k-means on the embeddings, for every draw, of the views' graphs together and of the joint graph.

    Returns the sample's labels, and a function that labels another block in the same way.
    """
    projections = _projections(sample, anchors, k, min(2 * k, k + _EXTRA_VECTORS), rng)
    # Where some graphs show k clusters clearly, the others have nothing to add.
    projections = [p for p in projections if p.clear] or projections

    def embedding(block):
        return np.hstack([projection(block) for projection in projections]).astype(np.float32)

    labels, rule = _kmeans_rule(embedding(sample), k, rng)
    return labels, lambda block: rule(embedding(block))


def _projections(sample, anchors, k, r, rng):
    """Of every draw, the projections of the views' graphs together and of the joint graph on r directions."""
    V = len(anchors.usable)
    groups = [list(range(V)), [V]] if anchors.joint else [list(range(V))]
    parts = [(draw, slices) for draw in range(anchors.draws) for slices in groups]
    seeds = rng.randint(2**31 - 1, size=len(parts))

    def project(i, _):
        return _Projection(sample, anchors, *parts[i], k, r, seeds[i])

    return _map_rows(project, len(parts), rows=1)


class _Projection:
    """From a block's graph, in one draw and some of its slices, to leading left singular vectors as rows of length 1.

    The j-th of r vectors is multiplied by (s_j / s_1)^t, a diffusion of t steps, with the t that leaves the k-th one a
    weight of 1/2. So the end is soft where the spectrum is, and sharp where k clusters are clear; a fixed t cuts a big
    clear cluster along its inner modes rather than a small one off.
    """

    def __init__(self, sample, anchors, draw, slices, k, r, seed):
        self.m, self.draw, self.slices = anchors.m // anchors.draws, draw, slices
        self.neighbours = slice(draw * anchors.neighbours, (draw + 1) * anchors.neighbours)
        self.scale = np.ones(self.m * len(slices))
        mass = np.asarray(self.matrix(sample).sum(axis=0)).ravel()
        self.scale = 1.0 / np.sqrt(np.where(mass > 0, mass, 1.0))
        square, right = _spectrum(self.matrix(sample), k, r, seed)
        top = np.sqrt(square[0]) if square[0] > 0 else 1.0
        share = np.maximum(np.sqrt(square) / top, 1e-6)
        share[share > 1 - 1e-6] = 1.0  # the graph's weights are in single precision
        self.spectrum = share**2
        lacking = 1.0 - self.spectrum[k - 1 : k + 1]
        self.clear = len(lacking) == 2 and lacking[0] < _CLEAR * lacking[1]
        steps = np.log(_LAST_WEIGHT) / np.log(min(share[min(k, len(share)) - 1], 1.0 - 1e-12))
        weight = share**steps
        self.directions = right * (weight / (share * top))

    def matrix(self, block):
        """The chosen slices of the draw's graph side by side, columns scaled, as a sparse (n, m * slices) matrix."""
        index = block.index[:, self.slices, self.neighbours] - np.int32(self.draw * self.m)
        index += np.arange(len(self.slices), dtype=np.int32)[:, None] * self.m
        values = block.weight[:, self.slices, self.neighbours].ravel() * self.scale[index.ravel()]
        starts = np.arange(0, index.size + 1, index[0].size)
        return sparse.csr_array((values, index.ravel(), starts), (len(index), len(self.scale)))

    def __call__(self, block):
        U = self.matrix(block) @ self.directions
        length = np.linalg.norm(U, axis=1, keepdims=True)
        return U / np.where(length > 0, length, 1.0)


def _spectrum(A, k, r, seed):
    """The r largest squared singular values of A (n, size), descending, and the right singular vectors (size, r).

    Rayleigh-Ritz in a block Krylov space of A^T A. Blocks of more than k vectors, because k clear clusters make
    k equal singular values, of which a single vector (Lanczos) sees one; all powers, because a spectrum that falls as
    slowly as that of a ring is not found by the last one alone (randomised SVD).
    """
    size, width, r = A.shape[1], k + 2, min(r, *A.shape)
    if size <= max(_DENSE, _FEWEST_BLOCKS * width):
        square, right = eigh((A.T @ A).toarray(), subset_by_index=[size - r, size - 1])
        return np.maximum(square[::-1], 0.0), right[:, ::-1]
    most = min(_MOST_BLOCKS, size // (2 * width))
    basis, image = (np.empty((size, most * width), order="F") for _ in range(2))
    block = np.random.RandomState(seed).normal(size=(size, width))
    for blocks in range(1, most + 1):
        new, old = slice((blocks - 1) * width, blocks * width), basis[:, : (blocks - 1) * width]
        for _ in range(2):  # twice, for orthogonality to working precision
            block = np.linalg.qr(block - old @ (old.T @ block))[0]
        basis[:, new] = block
        block = image[:, new] = A.T @ (A @ block)
        if blocks % _FEWEST_BLOCKS == 0 or blocks == most:
            found, mapped = basis[:, : new.stop], image[:, : new.stop]
            square, turn = np.linalg.eigh(found.T @ mapped)
            square, turn = square[: -r - 1 : -1], turn[:, : -r - 1 : -1]
            gaps = mapped @ turn[:, :k] - found @ turn[:, :k] * square[:k]
            if np.linalg.norm(gaps, axis=0).max() < _RESIDUAL * square[0]:
                break
    return np.maximum(square, 0.0), found @ turn


def _kmeans(X, k, seed):
    """Labels and centres of k clusters, or of as many as X has rows that its distances can tell apart.

    KMeans would warn of fewer, and filters for warnings belong to the process: a thread must not change them.
    """
    # On a grid of a thousandth of the longest row, rows are equal or far enough apart for single precision.
    mean = X.mean(axis=0)
    step = max(np.linalg.norm(X - mean, axis=1).max() / 1000, np.finfo(np.float32).tiny)
    grid = np.round((X - mean) / step)
    # As integers, because rounding in sums of floats depends on where in the matrix a row is.
    mixing = np.random.RandomState(0).randint(2**62, size=X.shape[1], dtype=np.int64)
    k = min(k, len(np.unique(grid.astype(np.int64) @ mixing)))
    # Seeds as scikit-learn chooses them, but in random directions, which keep distances well enough for that.
    rng, seeds, trials = np.random.RandomState(seed), np.empty((_RESTARTS, k), np.intp), 2 + int(np.log(k))
    columns = np.ascontiguousarray((grid @ rng.normal(size=(X.shape[1], _SEED_DIRECTIONS))).T, np.float32)
    for chances, chosen in zip(rng.uniform(size=(*seeds.shape, trials)), seeds):
        _spread_out(columns, chances, chosen)
    # Restarts show after a few steps which of them leads; that one goes on.
    with _process.foreign:
        firsts = [KMeans(k, init=grid[at], n_init=1, max_iter=_FIRST_STEPS).fit(grid) for at in seeds]
        first = min(firsts, key=lambda fitted: fitted.inertia_)
        found = KMeans(k, init=first.cluster_centers_, n_init=1).fit(grid)
    # Clusters are numbered by their first rows, not by the luck of the seeds.
    order = np.argsort(np.unique(found.labels_, return_index=True)[1])
    centres = found.cluster_centers_[order].astype(X.dtype) * X.dtype.type(step) + mean
    return np.argsort(order)[found.labels_], centres


def _kmeans_rule(X, k, rng):
    """k-means, then rounds of linear discriminants: directions along which the clusters spread anyway count less.

    Returns the labels of X (n, features), and a function that labels other rows.
    """
    labels, centres = _kmeans(X, k, rng.randint(2**31 - 1))
    rule = None
    for _ in range(_ROUNDS):
        if k == 1 or np.bincount(labels, minlength=k).min() < 2:  # one sample has no spread to learn from
            break
        discriminants = _Discriminants(X, labels)
        found = discriminants.predict(X)
        if len(np.unique(found)) < k or np.array_equal(found, labels):
            break
        labels, rule = found, discriminants
    if rule is None:
        return labels, lambda X: _nearest_centre(centres, X)[0]
    return labels, rule.predict


class _Discriminants:
    """Linear discriminants of labelled rows X (n, d), every class as likely as the others.

    What LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1) computes, in one product of matrices.
    """

    def __init__(self, X, labels):
        self.classes_, labels, size = np.unique(labels, return_inverse=True, return_counts=True)
        many, d = len(size), X.shape[1]
        members = sparse.csr_array((1.0 / size[labels], (labels, np.arange(len(X)))), (many, len(X)))
        means = members @ X
        centred = (X - means[labels]) / np.sqrt(many * size)[labels, None]
        spread = centred.T @ centred
        least = 1e-9 * np.square(means).mean()  # rows of a class that are all equal have no spread to divide by
        spread = (1 - _SHRINKAGE) * spread + (_SHRINKAGE * np.trace(spread) / d + least) * np.eye(d)
        self.slopes = np.linalg.lstsq(spread.astype(float), means.T, rcond=None)[0].astype(X.dtype)
        self.offsets = -0.5 * (means.T * self.slopes).sum(axis=0)

    def scores(self, X):
        return X @ self.slopes + self.offsets

    def predict(self, X):
        return self.classes_[self.scores(X).argmax(axis=1)]


def _rule_with_holes(sample, anchors, k, rng):
    """The spectral rule where views are missing.

    The samples seen in most views are clustered first, and their anchors vote for the others: half-seen samples blur
    the spectrum (HandWritten4, 30 % missing: 0.88 against 0.92). Then the views' discriminants mend the labels.
    """
    seen = sample.data.seen[sample.rows]
    least = _views_needed(seen, _FIRST_SAMPLES * k)
    first = seen.sum(axis=1) >= least
    best = replace(sample, index=sample.index[first], weight=sample.weight[first])
    found, spectral = _spectral_rule(best, anchors, k, rng)
    memberships = np.zeros((anchors.slices, anchors.m, k))
    for v in range(anchors.slices):
        np.add.at(memberships[v], (best.index[:, v], found[:, None]), best.weight[:, v])
    memberships /= np.maximum(memberships.sum(axis=2, keepdims=True), 1e-300)

    def guess(block):
        first = block.data.seen[block.rows].sum(axis=1) >= least
        labels = _votes(block.index, block.weight, memberships).sum(axis=1).argmax(axis=1)
        some = replace(block, index=block.index[first], weight=block.weight[first])
        labels[first] = spectral(some) if first.any() else labels[first]
        return labels

    labels = guess(sample)
    labels[first] = found
    labels, mend = _mended_by_views(sample, labels, k, rng)
    return labels, lambda block: mend(block, guess(block))


def _votes(index, weight, memberships):
    """(n, slices, k): for every slice the memberships of a sample's anchors, averaged with the graph's weights."""
    votes = np.empty((*index.shape[:2], memberships.shape[2]))
    for v, G in enumerate(memberships):
        for rows in (slice(lo, lo + 4096) for lo in range(0, len(index), 4096)):
            votes[rows, v] = np.einsum("it,itk->ik", weight[rows, v], G[index[rows, v]])
    return votes


def _mended_by_views(sample, labels, k, rng):
    """Better labels where views are missing: linear discriminants in every view, their log-probabilities summed.

    A view speaks for the samples it has seen, and shows as many leading directions as the root of their number. Worth
    0.015 on HandWritten4 with 30 % missing and 0.05 with 50 %; complete data gain on some sets and lose on others.
    Returns the sample's labels, and a function that mends the labels of another block.
    """
    data, V = sample.data, len(sample.data.tables)
    seen = data.seen[sample.rows]
    directions = []
    for v in range(V):
        some = np.flatnonzero(seen[:, v])
        d, r, seed = data.tables[v].shape[1], int(np.sqrt(len(some))), rng.randint(2**31 - 1)
        wide = d > r
        directions.append(randomized_svd(data.scaled(v, some), r, random_state=seed)[2].T if wide else np.eye(d))

    def features(data, v, positions):
        return data.scaled(v, positions) @ directions[v]

    def decide(rules, block, labels):
        total = np.zeros((len(labels), k))
        total[np.arange(len(labels)), labels] = 1e-9  # no view has an opinion: the label stays
        for v, rule in rules.items():
            some = np.flatnonzero(block.data.seen[block.rows, v])
            opinion = np.full((len(some), k), _LEAST_LOG)
            if len(some):
                logs = log_softmax(rule.scores(features(block.data, v, block.lo + some)), axis=1)
                opinion[:, rule.classes_] = np.maximum(logs, _LEAST_LOG)
            total[some] += opinion
        return total.argmax(axis=1)

    last = {}
    for _ in range(_ROUNDS):
        rules = {}
        for v in range(V):
            some = np.flatnonzero(seen[:, v])
            some = some[np.bincount(labels[some], minlength=k)[labels[some]] > 1]  # one sample has no spread
            if len(np.unique(labels[some])) > 1:
                rules[v] = _Discriminants(features(data, v, some), labels[some])
        found = decide(rules, sample, labels)
        if len(np.unique(found)) < k or np.array_equal(found, labels):
            break
        labels, last = found, rules
    return labels, lambda block, guessed: decide(last, block, guessed)


# ======================================================================================================================
# 6 Algorithm 1. Inside the solver a tensor of n samples, V views and K clusters is an (n, V*K) matrix. Every step that
#   mixes the numbers of a sample is then one V*K x V*K matrix from the right, found from a Gram matrix of that size.
#   Of the six tensors with a row per sample three are kept: H, and the arguments z = H + Y1/mu and w = H + Y2/rho of
#   the two proximal steps. Then Q = max(z, 0), Y1 = mu min(z, 0), J = w W and Y2 = rho (w - J).

HISTORY = ("Q-H", "Q-J", "G-F", "objective", "fit", "H_norm", "G_norm", "mu", "rho", "sigma")
_PENALTY_CAP = 1e13
# Smallest to largest eigenvalue: above it a polar factor from the Gram matrix is good to half of the digits.
_FULL_RANK = {"float64": 1e-7, "float32": 1e-3}
# With "auto" the first shrinkage takes so much of a typical leading singular value of H and of G; a tenth of G lets the
# solver run away (Mnist4, one seed: 0.92 to 0.86).
_SHARE_H, _SHARE_G = 0.25, 0.02
# Whatever p, the threshold below which a singular value vanishes stays below so many times the share, and below the
# value itself: else J is 0 in the first iteration and nothing ties the views.
_THRESHOLD_SHARES, _THRESHOLD_CAP = 6.0, 0.95


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
    return sum(X[lo : lo + 4096].T @ X[lo : lo + 4096] for lo in range(0, len(X), 4096))


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


def _low_rank(block, rows, W):
    """J of some of the block's rows: w W, or what the prox over all samples made of w."""
    return block.w[rows] @ W.astype(block.w.dtype) if block.J is None else block.J[rows]


def _form_B(block, G, W, old, new):
    """Pass A: B2 = 2 S*G + mu Q - Y1 + rho J - Y2 in the place of H, which nobody needs any more; returns B2^T B2.

    `old` are the penalties (mu, rho) with which z and w were formed, `new` those of this iteration.
    """
    gram, GG = 0.0, np.hstack([G, G]).astype(block.H.dtype)
    penalties = np.array([*old, *new], block.H.dtype)
    for rows in block.pieces():
        B = block.H[rows]
        J = _low_rank(block, rows, W)
        _fill_B(block.index[rows], block.S[rows], GG, block.z[rows], block.w[rows], J, penalties, B)
        gram = gram + (B.T @ B).astype(float)
    return gram


def _polar(rows, gram, shape):
    """Eq. (solveH): the matrix M with which H = B2 M is the polar factor of B2 at every view frequency."""
    square, right = np.linalg.eigh(_slice_grams(gram, shape, "view"))
    if (square[:, 0] <= _FULL_RANK[rows.kind.name] * square[:, -1]).any():
        whole = _polar_factor(rows.gather("H").astype(float), rows.gather("w").astype(float), shape)
        rows.spread("H", whole.astype(rows.kind))
        return np.eye(len(gram))
    # H^T*H = I asks for orthonormal slices of the unnormalised DFT; the Gram matrices are those of the orthonormal one.
    inverse_root = (right / np.sqrt(shape[0] * square)[:, None, :]) @ right.conj().swapaxes(1, 2)
    return _from_right(inverse_root, shape, "view")


def _polar_factor(B, previous, shape):
    """The same from thin SVDs, for B2 without full rank.

    Rows of G sum to 1, so from the identity start B2 loses a dimension at every view frequency but 0, and part of the
    polar factor is arbitrary. The previous w, at the start H, completes it (the limit of polar(B2 + e w) as e goes to
    0), then unit vectors.
    """
    V, K = shape
    B, previous = (np.fft.fft(X.reshape(-1, V, K), axis=1) for X in (B, previous))
    out = np.empty_like(B)
    for f in range(V // 2 + 1):
        left, right = np.empty((len(B), 0)), np.empty((K, 0))  # the polar factor sends the right columns to the left
        for X in (B[:, f], previous[:, f]):
            null = _completed(right, K)[:, right.shape[1] :]
            rest = X @ null
            for _ in range(2):  # twice, for orthogonality to working precision
                rest -= left @ (left.conj().T @ rest)
            U, s, Vh = np.linalg.svd(rest, full_matrices=False)
            r = int((s > 1e-7 * np.linalg.norm(X)).sum())
            left, right = np.hstack([left, U[:, :r]]), np.hstack([right, null @ Vh[:r].conj().T])
        out[:, f] = _completed(left, K) @ _completed(right, K).conj().T
        out[:, -f % V] = out[:, f].conj()
    return np.fft.ifft(out, axis=1).real.reshape(len(B), V * K)


def _completed(basis, K):
    """Orthonormal columns and, up to K, the first unit vectors far from their span; real where that span is real."""
    for e in np.eye(K, len(basis)):
        e = e - basis @ (basis.conj().T @ e)
        # While columns are missing, one of these unit vectors has at least 1/K of its square outside their span.
        if basis.shape[1] < K and np.linalg.norm(e) ** 2 > 0.5 / K:
            basis = np.column_stack([basis, e / np.linalg.norm(e)])
    return basis


def _form_H(block, M, W, old, new, m):
    """Pass B: H = B2 M, then z = H + Y1/mu and w = H + Y2/rho; returns S^T*H and w^T w."""
    kind = block.H.dtype
    StH, gram, M = np.zeros((m, 2 * len(M)), kind), 0.0, M.astype(kind)
    share_z, share_w = kind.type(old[0] / new[0]), kind.type(old[1] / new[1])
    for rows in block.pieces():
        H = block.H[rows] @ M
        J = _low_rank(block, rows, W)
        w = block.w[rows]
        _move(H, J, block.z[rows], w, share_z, share_w)
        _scatter(block.index[rows], block.S[rows], H, StH)
        block.H[rows] = H
        gram = gram + (w.T @ w).astype(float)
    return _folded(StH), gram


def _residuals(block, W):
    """max |Q - H| and max |Q - J|."""
    worst = np.zeros(2)
    for rows in block.pieces():
        worst = np.maximum(worst, _gaps(block.H[rows], block.z[rows], _low_rank(block, rows, W)))
    return worst


def _shrinkage(gram, tau, norm):
    """Eqs. (solveJ), (solveF): the matrix W with which X W = Gamma_tau(X), from X^T X; and ||X W||_Sp^p.

    Shrinkage acts from the right. Squaring hides singular values below 1e-8 of the largest: they are within 1e-8 of
    what any shrinkage makes of them.
    """
    square, right = np.linalg.eigh(_slice_grams(gram, norm.shape, norm.axis))
    s = np.sqrt(np.maximum(square, 0.0)) * norm.factor()
    shrunk = _gst(s.ravel(), tau, norm.p).reshape(s.shape)
    ratio = np.divide(shrunk, s, out=np.zeros_like(s), where=s > 0)
    W = _from_right((right * ratio[:, None, :]) @ right.conj().swapaxes(1, 2), norm.shape, norm.axis)
    return W, (shrunk**norm.p).sum()


def _prox_over_samples(X, tau, norm):
    """Gamma_tau(X) with the DFT over the samples, and its ||.||_Sp^p: the whole tensor at once, in the given order."""
    X = X.reshape(-1, *norm.shape).transpose(0, 2, 1)
    J = schatten_prox(X, tau, norm.p, "sample", norm.fft_norm)
    size = schatten_norm(J, norm.p, "sample", norm.fft_norm) ** norm.p
    return np.ascontiguousarray(J.transpose(0, 2, 1)).reshape(len(J), -1), size


def _update_J(rows, gram, tau, norm):
    """Eq. (solveJ): W with J = w W, or None and J in the blocks; and ||J||_Sp^p."""
    if norm.axis != "sample":
        return _shrinkage(gram, tau, norm)
    J, size = _prox_over_samples(rows.gather("w"), tau, norm)
    rows.spread("J", J)
    return None, size


def _update_F(X, tau, norm):
    """Eq. (solveF): F = Gamma_tau(X) for X = G + Y3/sigma, and ||F||_Sp^p."""
    if norm.axis == "sample":
        return _prox_over_samples(X, tau, norm)
    W, size = _shrinkage(_gram(X), tau, norm)
    return X @ W, size


@dataclass
class State:
    """What a callback sees after each iteration."""

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


@dataclass(frozen=True)
class _Run:
    """How Algorithm 1 runs: the norm and its weights, the first penalty and its growth, when to stop, who watches."""

    norm: _Norm
    lambda1: float
    lambda2: float
    penalty: float
    growth: float
    tol: float
    max_iter: int
    watch: object  # watch(iteration, gap, W, G, F, history), after each iteration; a true answer stops the run


def _algorithm1(rows, F, W, run):
    """Algorithm 1, from H, z and w in the blocks, F, and the W that makes J = w W.

    Returns G, F, W, the history, and what ended it.
    """
    norm, shape = run.norm, run.norm.shape
    n, m, Y3 = rows.data.n, len(F), np.zeros_like(F)
    mu = rho = sigma = run.penalty
    old = (0.0, 0.0)  # no multipliers yet
    history = {name: [] for name in HISTORY}
    S_square = rows.sum(lambda block: float((block.S.astype(float) ** 2).sum()))
    typical = np.sqrt(shape[1] / n)  # an entry of H: its columns have length 1 over about n/K samples
    StH, stopped_by = rows.sum(_transposed_times, m), "max_iter"
    if run.max_iter == 0:
        return _update_G(StH, F, Y3, sigma, shape), F, W, history, stopped_by
    for iteration in range(1, run.max_iter + 1):
        G = _update_G(StH, F, Y3, sigma, shape)
        M = _polar(rows, rows.sum(_form_B, G, W, old, (mu, rho)), shape)
        StH, gram = rows.sums(_form_H, M, W, old, (mu, rho), m)
        W, H_norm = _update_J(rows, gram, run.lambda1 / rho, norm)
        F, G_norm = _update_F(G + Y3 / sigma, run.lambda2 / sigma, norm)
        Y3 += sigma * (G - F)

        # ||H*G^T|| = ||G|| because H is orthogonal, and <S, H*G^T> = <S^T*H, G>.
        fit = max(S_square - 2.0 * float((StH * G).sum()) + float((G**2).sum()), 0.0)
        QH, QJ = np.max(rows.map(_residuals, W), axis=0)
        GF = np.abs(G - F).max()
        objective = fit + run.lambda1 * H_norm + run.lambda2 * G_norm
        for name, value in zip(HISTORY, (QH, QJ, GF, objective, fit, H_norm, G_norm, mu, rho, sigma)):
            history[name].append(float(value))
        gap = max(max(QH, QJ) / typical, GF)
        if gap <= run.tol:
            stopped_by = "tol"
        if run.watch(iteration, gap, W, G, F, history):
            stopped_by = "callback"
        if stopped_by != "max_iter":
            break
        old = (mu, rho)
        mu, rho, sigma = (max(x, min(run.growth * x, _PENALTY_CAP)) for x in (mu, rho, sigma))
    return G, F, W, history, stopped_by


def _transposed_times(block, m):
    """The part of S^T*H (m, V*K) that the block contributes."""
    StH = np.zeros((m, 2 * block.H.shape[1]), block.H.dtype)
    _scatter(block.index, block.S, block.H, StH)
    return _folded(StH)


def _folded(twice):
    return (twice[:, : twice.shape[1] // 2] + twice[:, twice.shape[1] // 2 :]).astype(float)


def _automatic_lambda(leading, penalty, share, p):
    """The lambda whose first shrinkage takes about `share` of a typical leading singular value."""
    # Shrinkage takes tau p s^(p-1) off a singular value s, and all of it below a threshold, which must stay below s.
    reach = min(_THRESHOLD_SHARES * share, _THRESHOLD_CAP) * leading
    bound = (reach / _gst_threshold(1.0, p)) ** (2.0 - p)
    return penalty * min(share * leading ** (2.0 - p) / p, bound)


def _leading(gram, norm, X):
    """The median over the slices of the largest singular value of X, from X^T X where the slices allow it."""
    if norm.axis == "sample":
        X = X.gather("H") if isinstance(X, _Rows) else X
        slices = _to_slices(X.reshape(-1, *norm.shape).transpose(0, 2, 1), "sample", norm.fft_norm)
        return np.median(np.linalg.svd(slices, compute_uv=False)[:, 0])
    square = np.linalg.eigvalsh(_slice_grams(gram, norm.shape, norm.axis))[:, -1]
    return np.median(np.sqrt(np.maximum(square, 0.0))) * norm.factor()


# ======================================================================================================================
# 7 result

_ARRAYS = "labels memberships anchor_memberships joint_memberships anchors anchor_labels view_agreement".split()
_FACTS = ("n_iter", "stopped_by", "options", "view_names", "feature_names", "sample_names", "seconds")
_CSR = ("data", "indices", "indptr")
_FORMAT = 2


@dataclass(eq=False)
class Result:
    """What `cluster` found. V views, m anchors, k clusters; all arrays are in the order of the given samples and views.

    From dask arrays, `labels` and `memberships` are dask arrays of the same chunks; `compute` makes them NumPy's.

    Attributes
    ----------
    labels : (n,) int array
    memberships : (n, k) array
        How sure the factorisation is of each cluster, rows summing to 1: the root of Q's load, averaged over the
        slices, fair to clusters of all sizes; what a row lacks of a full load is filled by its anchors' votes.
    anchor_memberships : (V, m, k) array
        For every view the probability that an anchor belongs to each cluster: G, with its slices moved to the views
        they explain.
    joint_memberships : (m, k) array or None
        The same for the slice of all features together.
    anchors : (m,) int array
        Which samples are the anchors, one draw after the other.
    anchor_labels : (m,) int array
        The cluster that an anchor votes for, over all slices.
    view_agreement : (V,) or (V + 1,) array
        Share of the samples whose label is what that slice alone, by its anchors' votes, would give, among those about
        which it tells anything; the joint slice last.
    n_iter, stopped_by : int, {"tol", "max_iter", "callback"}
    history : dict of (n_iter,) arrays
        "Q-H", "Q-J", "G-F": the residuals; "objective" = "fit" + lambda1 * "H_norm" + lambda2 * "G_norm";
        "mu", "rho", "sigma": the penalties.
    options : dict
        The options in force, automatic values filled in.
    view_names, feature_names, sample_names : lists
        Names of the V views; of every view its features' names or None; names of the samples or None.
    seconds : dict
        How long each stage took.
    """

    labels: np.ndarray
    memberships: np.ndarray
    anchor_memberships: np.ndarray
    joint_memberships: np.ndarray | None
    anchors: np.ndarray
    anchor_labels: np.ndarray
    view_agreement: np.ndarray
    n_iter: int
    stopped_by: str
    history: dict
    options: dict
    view_names: list
    feature_names: list
    sample_names: list | None
    seconds: dict
    _index: np.ndarray  # (n, slices, neighbours), the graph
    _weight: np.ndarray
    _anchors: _Anchors
    _profile: list  # of every view what `_profile` returns
    _told: np.ndarray  # share of the samples about which a slice tells something
    _sources: list | None = None  # of every chunk the views, delayed, if they were dask arrays: then there is no graph

    def __repr__(self):
        n, k = self.memberships.shape
        V, m, _ = self.anchor_memberships.shape
        return f"<agtf.Result: {n} samples, {V} views, {k} clusters, {m} anchors, {self.n_iter} iterations>"

    @property
    def slices(self):
        """Names of the slices: the views, then the joint one if there is one."""
        return [*self.view_names, "joint"] if self._anchors.joint else list(self.view_names)

    @property
    def converged(self):
        return self.stopped_by == "tol"

    @property
    def scalings(self):
        """How every draw of anchors saw every view: a list per draw of "zscore", "unit", ... per view."""
        names = [([scaling.name for scaling in x.scalings], x.draws) for x in self._anchors.schemes]
        return [list(words) for words, draws in names for _ in range(draws)]

    def predict(self, views, mask=None, n_jobs=None):
        """Labels (n,) of unseen samples: the vote of their nearest stored anchors, all slices counted alike.

        `views`, `mask` and `n_jobs` as given to `cluster`: the same views with the same features; missing views as
        there. Views of a dict and columns of DataFrames are matched by name where the model was fitted on names. From
        dask arrays comes a lazy dask array.
        """
        return self.predict_memberships(views, mask, n_jobs).argmax(axis=1)

    def predict_memberships(self, views, mask=None, n_jobs=None):
        """Memberships (n, k) of unseen samples: the shares of their anchors' votes; arguments as in `predict`."""
        given, means = self._matched(views), None
        if self.options["impute"]:
            means = [count @ mean / max(count.sum(), 1) for count, mean, _ in self._profile]
        model = self._anchors, self._slice_memberships(), means
        if given.chunks is None:
            return _voted((given, mask), model, n_jobs)
        shared = _shared(model)
        parts = [_delayed(_voted, source, shared) for source in _sources(given, mask)]
        return _as_dask(parts, given.chunks, (self.memberships.shape[1],), float)

    def score(self, y_true):
        """The scores of the labels against (n,) classes, see `agtf.score`."""
        self._check_kept()
        return score(y_true, self.labels)

    def _matched(self, views):
        """New views as the tables that the model was fitted on, in its order."""
        if isinstance(views, dict) and not sparse.issparse(views):
            unknown, absent = set(map(str, views)) - set(self.view_names), set(self.view_names) - set(map(str, views))
            if unknown or absent:
                what = f"unknown view {min(unknown)!r}" if unknown else f"no view {min(absent)!r}"
                raise ValueError(f"{what}: the model was fitted on {', '.join(map(repr, self.view_names))}")
            views = {name: view for wanted in self.view_names for name, view in views.items() if str(name) == wanted}
        given = _as_tables(views, fewest_rows=0)
        fitted = self._anchors.schemes[0].scalings
        if len(given.tables) != len(fitted):
            raise ValueError(f"got {len(given.tables)} view(s), the model was fitted on {len(fitted)}")
        for v, (table, scaling) in enumerate(zip(given.tables, fitted)):
            old, new = self.feature_names[v], given.feature_names[v]
            if old is not None and new is not None and old != new:
                absent, unknown = [c for c in old if c not in new], [c for c in new if c not in old]
                if absent or unknown:
                    what = f"lacks the column {absent[0]!r}" if absent else f"has the unknown column {unknown[0]!r}"
                    raise ValueError(f"{given.where[v]} {what} ({len(absent)} absent, {len(unknown)} unknown)")
                table = table[:, [new.index(c) for c in old]]
            d = table.shape[1]
            if d != len(scaling.factor):
                raise ValueError(f"{given.where[v]} has {d} features, the model was fitted on {len(scaling.factor)}")
            given.tables[v] = table
        return given

    def compute(self):
        """The same result with NumPy arrays where it has dask arrays, and with its graph; itself if it has none."""
        if self._sources is None:
            return self
        self._check_kept()
        shared = _shared(self._anchors)
        graph = _computed([_delayed(_graph, source, shared) for source in self._sources])
        index, weight = map(np.concatenate, zip(*graph))
        labels, memberships = _computed([self.labels, self.memberships])
        found = dict(labels=labels, memberships=memberships, _index=index, _weight=weight)
        return replace(self, **found, _sources=None)

    def _check_kept(self):
        if any(future.cancelled() for future in _futures(self.labels, self.memberships)):
            raise ValueError("the result lies with a client of Dask that was closed: call result.compute() before")

    def explain(self, i):
        """Why sample i, a number or a name, is where it is: a `Description` of its anchors and of their votes.

        `anchors`, `weights` and `clusters` are (slices, neighbours), `votes` (slices, k), `shares` (slices,);
        `favoured` is the cluster with most votes: if not the `label`, the factorisation overruled the anchors.
        """
        if isinstance(i, str):
            if (self.sample_names or []).count(i) != 1:
                known = "have no names" if self.sample_names is None else f"are called {self.sample_names[0]!r}, ..."
                raise KeyError(f"no one sample is called {i!r}; the samples {known}")
            i = self.sample_names.index(i)
        n = len(self.labels)
        if not -n <= i < n:
            raise IndexError(f"there are {n} samples, none with the number {i}")
        return _explain(self, range(n)[i])

    def _graph_of(self, i):
        """A sample's anchors and weights; where there is no graph, its chunk of rows has to be asked."""
        if self._sources is None:
            return self._index[i], self._weight[i]
        self._check_kept()
        sizes = np.array([rows for rows in self.labels.chunks[0] if rows])
        chunk = np.searchsorted(np.cumsum(sizes), i, side="right")
        at = i - sizes[:chunk].sum()
        index, weight = _computed([_delayed(_graph, self._sources[chunk], _shared(self._anchors), [at])])[0]
        return index[0], weight[0]

    def describe(self, cluster=None):
        """What the clusters are, a `Description`; or one cluster in full. -1 stands for none.

        All clusters, line c for cluster c: `sizes`; `certainty`, the mean membership of the samples in their cluster;
        `mixing` (k, k), the mean memberships of a cluster's samples in all clusters; `closest`, the other cluster with
        the highest of these; `confused`, the share of the samples with a membership above 0.1 in that one; `agreement`
        (k, slices), the share of the samples whose label the slice alone would give, by its anchors' votes; `views`,
        `features` and `differences` (k, 3), what sets it apart most; `typical` (k, 8), the samples with the highest
        memberships, of equal ones those with most of their anchors' votes.

        One cluster: the same about it, `views`, `features`, `differences`, `means` and `other_means` of all features,
        the most different first, in the units of the data; `anchors` that stand for it, the most certain first, and
        `anchor_certainty`; `border`, its samples with a membership above 0.1 in another cluster, the most torn first,
        `neighbours`, that other cluster, and `border_memberships` (samples, 2) in both.

        Differences are standardised (Cohen's d): the mean of the cluster less that of all other samples, divided by
        the standard deviation within these two groups; at most 1000. Samples not seen in a view are left out there.
        """
        if cluster is None:
            return _describe(self.compute())
        k = self.memberships.shape[1]
        cluster = _whole("the cluster", cluster, 0, k - 1, f"lie between 0 and {k - 1}")
        result = self.compute()
        return _describe_cluster(result, _describe(result), cluster)

    def report(self, path):
        """Write the result as one HTML page that needs nothing else, below 3 MB unless the clusters alone take more."""
        _report(self.compute(), path)

    def save(self, path):
        """Write the result to one .npz file, without pickle; `agtf.load` reads it back."""
        whole = self.compute()
        arrays = {name: getattr(whole, name) for name in _ARRAYS}
        arrays |= {f"history {name}": values for name, values in self.history.items()}
        arrays |= {"graph index": whole._index, "graph weight": whole._weight, "told": self._told}
        arrays["anchors usable"] = self._anchors.usable
        arrays |= {f"profile {v} {i}": part for v, parts in enumerate(self._profile) for i, part in enumerate(parts)}
        for i, scheme in enumerate(self._anchors.schemes):
            for v, (scaling, rows) in enumerate(zip(scheme.scalings, scheme.rows)):
                arrays |= {f"{name} {i} {v}": getattr(scaling, name) for name in ("factor", "shift", "centre")}
                parts = _CSR if sparse.issparse(rows) else ("",)
                arrays |= {f"anchors {i} {v} {part}": getattr(rows, part) if part else rows for part in parts}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        facts = {name: getattr(self, name) for name in _FACTS}
        facts |= {"format": _FORMAT, "agtf": __version__}
        facts |= {name: getattr(self._anchors, name) for name in ("neighbours", "joint")}
        schemes = self._anchors.schemes
        facts["schemes"] = [[x.draws, [[s.name, float(s.weight)] for s in x.scalings]] for x in schemes]
        # Options that JSON does not know: arrays and NumPy numbers as lists and numbers, anything else by its name.
        text = json.dumps(facts, default=lambda x: x.tolist() if isinstance(x, (np.ndarray, np.generic)) else repr(x))
        with open(path, "wb") as file:
            np.savez_compressed(file, facts=text, **arrays)

    def __getstate__(self):
        return self.compute().__dict__ | {"agtf": __version__}

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


def _as_fitted(source, anchors, means=None):
    """A pair of views and mask as rows in blocks that can be joined to the anchors."""
    given, mask = source
    tables = list(given.tables)
    for v, scaling in enumerate(anchors.schemes[0].scalings):
        if sparse.issparse(tables[v]) != (scaling.shift is None):
            tables[v] = tables[v].toarray() if sparse.issparse(tables[v]) else sparse.csr_array(tables[v])
    given = replace(given, tables=tables)
    if means is not None:
        _fill_holes(given, means)
    seen = _observed(given, mask)
    n, V = seen.shape
    return _Rows(_Data(tables, given.where, np.arange(n), np.arange(V), None if seen.all() else seen))


def _voted(source, model, n_jobs=1):
    """Of every row the shares of the anchors' votes (n, k)."""
    anchors, memberships, means = model

    def vote(block):
        _join(block, anchors)
        votes = _votes(block.index, block.weight, memberships).sum(axis=1) + 1e-300
        return votes / votes.sum(axis=1, keepdims=True)

    with _limits(n_jobs):
        rows = _as_fitted(source, anchors, means=means)
        return np.concatenate([np.empty((0, memberships.shape[2])), *rows.map(vote)])


def _graph(source, anchors, some=None):
    """Indices and weights of the graph of a chunk's rows, or of some of them."""
    given, mask = source
    if some is not None:
        given = replace(given, tables=[table[some] for table in given.tables])
        mask = mask if mask is None else mask[some]
    with _limits(1):
        rows = _as_fitted((given, mask), anchors)
        rows.join(anchors)
        return rows.gather("index"), rows.gather("weight")


def load(path):
    """Read a result that `Result.save` wrote; its predictions are those of the original."""
    with np.load(path, allow_pickle=False) as file:
        if "facts" not in file:
            raise ValueError(f"{path} was not written by Result.save")
        facts = json.loads(str(file["facts"]))
        if facts["format"] != _FORMAT:
            raise ValueError(f"{path} was written by agtf {facts['agtf']}, this is {__version__}: it cannot be read")
        arrays = {name: file[name] for name in file.files}
    schemes = []
    for i, (draws, scalings) in enumerate(facts["schemes"]):
        scheme = _Scheme([], draws)
        for v, (name, weight) in enumerate(scalings):
            parts = [arrays.get(f"{part} {i} {v}") for part in ("factor", "shift", "centre")]
            scheme.scalings.append(_Scaling(name, *parts, weight))
            rows = arrays.get(f"anchors {i} {v} ")
            if rows is None:
                rows = tuple(arrays[f"anchors {i} {v} {part}"] for part in _CSR)
                rows = sparse.csr_array(rows, (len(rows[2]) - 1, len(parts[0])))
            scheme.rows.append(rows)
            scheme.squares.append(np.asarray((rows.astype(float) ** 2).sum(axis=1)).ravel())
        schemes.append(scheme)
    anchors = _Anchors(schemes, arrays["anchors usable"], facts["neighbours"], facts["joint"])
    fields = {name: arrays.get(name) for name in _ARRAYS} | {name: facts[name] for name in _FACTS}
    history = {name: arrays[f"history {name}"] for name in HISTORY}
    profile = [[arrays[f"profile {v} {i}"] for i in range(3)] for v in range(len(facts["view_names"]))]
    graph = {"_index": arrays["graph index"], "_weight": arrays["graph weight"]}
    return Result(**fields, **graph, history=history, _anchors=anchors, _profile=profile, _told=arrays["told"])


# ======================================================================================================================
# 8 cluster() and AGTF

PAPER = dict(
    anchors="vda", n_neighbors=10, joint=False, normalize=False, init="identity", axis="sample", fft_norm="backward",
    penalty=1e-5, growth=1.3, tol=1e-3,
)  # fmt: skip
"""The paper's protocol as options of `cluster`; p, lambda1, lambda2, n_anchors and scale are its choice per data set.

Its scores depend on the order of the rows: rows sorted by class and the same rows shuffled give different partitions.
"""


@dataclass(frozen=True)
class _Range:
    """What an option may be: some words, a number in an interval, or an array, which is checked against the data."""

    words: tuple = ()
    number: str = ""  # "an int ..." or "a number ..."
    low: float = 0.0
    high: float = np.finfo(float).max
    array: bool = False

    def check(self, name, value):
        if isinstance(value, (str, type(None))) and value in self.words or self.array and np.ndim(value):
            return
        choices = " or ".join([*map(repr, self.words), self.number][: len(self.words) + bool(self.number)])
        problem = f"{name} must be {choices}, got {value!r}"
        kinds = (int, np.integer) if self.number.startswith("an int") else (int, float, np.integer, np.floating)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if not is_number or not self.number:
            raise (ValueError if isinstance(value, str) and self.words else TypeError)(problem)
        if not self.low <= value <= self.high:
            raise ValueError(problem)


_OPTIONS = {
    "impute": _Range((None, "mean")),
    "scale": _Range(SCALES, array=True),
    "anchors": _Range(ANCHORS, array=True),
    "n_anchors": _Range(("auto",), "a number, an int count or a float rate", -np.inf),
    "n_draws": _Range(("auto",), "an int of at least 1", 1),
    "n_neighbors": _Range(("auto",), "an int of at least 1", 1),
    "init": _Range(("spectral", "identity"), array=True),
    "axis": _Range(AXES),
    "p": _Range((), "a number in (0, 1]", np.finfo(float).tiny, 1.0),
    "lambda1": _Range(("auto",), "a number of at least 0"),
    "lambda2": _Range(("auto",), "a number of at least 0"),
    "fft_norm": _Range(("ortho", "backward")),
    "penalty": _Range(("auto",), "a number above 0", np.finfo(float).tiny),
    "growth": _Range((), "a number of at least 1", 1.0),
    "tol": _Range((), "a number of at least 0"),
    "max_iter": _Range((), "an int of at least 0"),
}
_NEIGHBOURS = 8  # 5 to 12 measure alike
_DRAWS = 3
_UNIT_DRAWS = 3  # with scale="auto" one draw in three sees unit rows
_ANCHORS_PER_ROOT, _MOST_ANCHORS = 12, 1000  # 12 sqrt(n) anchors, at most 1000


@dataclass(frozen=True)
class _Settings:
    """The options as resolved for n samples in V views: nothing in here is "auto" but what depends on the start."""

    k: int
    impute: bool
    schemes: list  # pairs of words, one per view, and of draws of anchors that see the views scaled so
    anchors: object  # a word, or (m,) sample numbers
    m: int  # anchors in a draw
    draws: int
    neighbours: int
    joint: bool
    normalize: bool
    init: object  # a word, or (n,) labels
    norm: _Norm
    lambda1: object  # a number or "auto"
    lambda2: object
    penalty: float
    growth: float
    tol: float
    max_iter: int

    @property
    def in_given_order(self):
        """Whether the rows keep their order, as in the paper's protocol, because it matters."""
        return self.norm.axis == "sample" or isinstance(self.init, str) and self.init == "identity"


def _resolve(given, k, n, V, fewest=2):
    """Check the options against n samples in V views, before any work, and fill in what is automatic."""
    limits = f"lie between {fewest} and the number of samples, {n}"
    k = _whole("the number of clusters", k, fewest, n, limits)
    for name, may_be in _OPTIONS.items():
        may_be.check(name, given[name])
    scales = given["scale"] if isinstance(given["scale"], (list, tuple)) else [given["scale"]] * V
    if len(scales) != V:
        raise ValueError(f"scale has {len(scales)} entries for {V} views: give one, or one per view")
    for scale in scales:
        _check_choice("scale", scale, SCALES)
    anchors, m = _resolve_anchors(given["anchors"], given["n_anchors"], k, n)
    draws = _resolve_draws(given["n_draws"], anchors)
    schemes = [(scales, draws)]
    if isinstance(given["scale"], str) and given["scale"] == "auto" and draws >= _UNIT_DRAWS:
        unit = draws // _UNIT_DRAWS
        schemes = [(scales, draws - unit), (["unit"] * V, unit)]
    limits = f"be at least 1 and below the number of anchors, {m} (give more anchors or fewer neighbours)"
    neighbours = min(_NEIGHBOURS, m - 1) if given["n_neighbors"] == "auto" else given["n_neighbors"]
    neighbours = _whole("n_neighbors", neighbours, 1, m - 1, limits)
    joint = bool(given["joint"])
    norm = _Norm(float(given["p"]), given["axis"], given["fft_norm"], (V + joint, k))
    lambda1, lambda2 = (x if x == "auto" else float(x) for x in (given["lambda1"], given["lambda2"]))
    penalty = m * draws / k if given["penalty"] == "auto" else float(given["penalty"])
    return _Settings(
        k, given["impute"] == "mean", schemes, anchors, m, draws, neighbours, joint, bool(given["normalize"]),
        _resolve_init(given, k, n), norm, lambda1, lambda2, penalty, float(given["growth"]), float(given["tol"]),
        int(given["max_iter"]),
    )  # fmt: skip


def _resolve_anchors(anchors, n_anchors, k, n):
    """The rule or the sample numbers, and how many anchors a draw has."""
    if not isinstance(anchors, str):
        given = np.asarray(anchors)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise TypeError(f"anchors must be {', '.join(map(repr, ANCHORS))} or a 1-D array of sample indices")
        if len(given) < 2 or given.min() < 0 or given.max() >= n or len(np.unique(given)) < len(given):
            raise ValueError(f"anchors must be at least 2 different sample indices between 0 and {n - 1}")
        return given, len(given)
    if n_anchors == "auto":
        # Eight anchors a cluster, so that a sample's eight neighbours may all lie in its cluster.
        m = min(int(_ANCHORS_PER_ROOT * np.sqrt(n)), _MOST_ANCHORS)
        return anchors, max(min(5 * n // 6, max(_NEIGHBOURS * k, m)), min(2 * k, n))
    if isinstance(n_anchors, (float, np.floating)):
        if not 0 < n_anchors <= 1:
            raise ValueError(f"n_anchors as a rate must lie in (0, 1], got {n_anchors}; as a count it must be an int")
        return anchors, max(int(round(n_anchors * n)), 2)
    limits = f"lie between 2 and the number of samples, {n}"
    return anchors, _whole("n_anchors", n_anchors, 2, n, limits, "an int, a float rate or 'auto'")


def _resolve_draws(n_draws, anchors):
    may_differ = isinstance(anchors, str) and anchors != "vda"
    if n_draws == "auto":
        return _DRAWS if may_differ else 1
    if n_draws > 1 and not may_differ:
        raise ValueError("n_draws above 1 needs anchors that are drawn, 'medoid' or 'random'")
    return int(n_draws)


def _resolve_init(given, k, n):
    if isinstance(given["init"], str):
        return given["init"]
    labels = np.asarray(given["init"])
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        got = f"{labels.dtype} {labels.shape}"
        raise ValueError(f"init must be 'spectral', 'identity' or ({n},) integer labels, got {got}")
    used = np.unique(labels)
    if not np.array_equal(used, np.arange(k)):
        raise ValueError(f"init must use every label from 0 to {k - 1}, it has {len(used)} different ones")
    return labels


def cluster(
    views, k, *, mask=None, join="inner", feature_names=None, impute=None, scale="auto", anchors="medoid",
    n_anchors="auto", n_draws="auto", n_neighbors="auto", joint=True, normalize=True, init="spectral", axis="cluster",
    p=0.5, lambda1="auto", lambda2="auto", fft_norm="ortho", penalty="auto", growth=1.3, tol=0.05, max_iter=200,
    random_state=0, callback=None, verbose=0, n_jobs=None,
):  # fmt: skip
    """Cluster multi-view data by anchor graph tensor factorization.

    With the default options the partition does not depend on the order of the rows, on the order of the views, or on
    the number of threads. (Views that are mirror images of each other have no order but the given one.)

    Parameters
    ----------
    views : list, or dict by name, of (n, d_v) arrays, DataFrames, SciPy sparse matrices or dask arrays
        One table per view, one row per sample. A single table counts as one view. A row of NaN in a view means that
        the sample was not observed there. DataFrames with the same row labels in another order are put in order.
        With dask arrays the work is done chunk by chunk of rows, on the active client or on Dask's threads, and labels
        and memberships are dask arrays, too. The views are read several times: persist them if they are slow to make;
        and every chunk costs a little in every step: let it have some ten thousand rows. Options that need all rows
        in one place are refused.
    k : int
        Number of clusters, at least 2.
    mask : (n, V) bool array, NumPy or dask, or None
        Another way to tell what is missing: False where a sample was not observed in a view.
    join : {"inner", "outer"}
        DataFrames are matched by their row labels, which must be the same; with "outer" the samples are all labels that
        any of them has, missing in the others.
    feature_names : dict of lists or None
        Names of the features of views that are no DataFrames, by the view's name ("view 0", ... in a list).
    impute : {None, "mean"}
        What to do about single missing numbers in a row that was observed: refuse them, or put the column's mean.
    scale : {"auto", "zscore", "unit", "max", None}, or a list with one of them per view
        "zscore": columns of mean 0 and variance 1; "unit": rows of length 1; "max": divided by the largest absolute
        value. "auto": two draws of anchors in three see z-scores ("unit" for sparse views and non-negative ones with
        less than a tenth of non-zeros), one sees unit rows, because neither is right for all data.
    anchors : {"medoid", "vda", "random"} or (m,) int array
        "medoid": samples spread over all features together, the members nearest to centres after k-means++ seeding and
        two Lloyd steps; "vda": the paper's variance rule; or the indices of the samples to use.
    n_anchors : int, float or "auto"
        A number, a rate of the samples, or "auto": 12 sqrt(n), at most 1000; at least 8 k, at most five sixths of n.
        Fewer if there are fewer different rows.
    n_draws : int or "auto"
        How often anchors are drawn; the graphs of the draws are averaged. "auto" is 3, and 1 if they are not drawn.
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
    random_state : int, RandomState, Generator or None
        All randomness comes from it.
    callback : callable or None
        Called as callback(state) after each iteration; a true return value stops the run.
    verbose : int
        1 shows a progress line on standard error when the work takes longer than two seconds.
    n_jobs : int or None
        Threads; None or -1: as many as NUMBA_NUM_THREADS allows. The result does not depend on it. Tasks of Dask have
        one each.

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
    given = dict(
        join=join, impute=impute, scale=scale, anchors=anchors, n_anchors=n_anchors, n_draws=n_draws,
        n_neighbors=n_neighbors, joint=joint, normalize=normalize, init=init, axis=axis, p=p, lambda1=lambda1,
        lambda2=lambda2, fft_norm=fft_norm,
        penalty=penalty, growth=growth, tol=tol, max_iter=max_iter, random_state=random_state, callback=callback,
        verbose=verbose, n_jobs=n_jobs,
    )  # fmt: skip
    return _cluster(_as_tables(views, join=join, feature_names=feature_names), k, mask, given, fewest=2)


def _cluster(tables, k, mask, given, fewest):
    """`cluster` and `AGTF.fit`: check, arrange, scale, choose anchors, build graphs, start, iterate, read off."""
    n, V = tables.n, len(tables.tables)
    if n < 2:
        raise ValueError(f"the views have {n} sample: at least 2 are needed")
    s = _resolve(given, k, n, V, fewest)
    rng = _random_state(given["random_state"])
    if tables.chunks is None:
        _check_memory(n, s)
    else:
        _refuse_for_chunks(given)
    if s.norm.axis == "sample":
        known = "the result depends on the order of the rows, and on rows sorted by class it knows the classes"
        warnings.warn(f'axis="sample" takes a DFT over the samples: {known}', UserWarning, stacklevel=3)
    if s.impute:
        _fill_holes(tables)
    progress = _Progress(given["verbose"])
    with _limits(given["n_jobs"]):
        rows, at, anchors = _prepare(tables, mask, s, rng, progress)
        data = rows.data
        rows.join_others(anchors)
        progress("finding a start")
        mass = rows.sum(_mass, anchors.m)
        scale = _simplex_scale(mass, s.k) if s.normalize else np.ones_like(mass)
        # The state in single precision gives the same labels in half of the memory; the paper's protocol in double.
        kind = np.float64 if s.in_given_order else np.float32
        rows.map(_normalise, scale, kind)
        F, W = _start(rows, at, anchors, s, rng)
        rows.settle()
        H_leading, F_leading = _leading(rows.sum(_H_gram), s.norm, rows), _leading(_gram(F), s.norm, F)
        lambda1 = _automatic_lambda(H_leading, s.penalty, _SHARE_H, s.norm.p) if s.lambda1 == "auto" else s.lambda1
        lambda2 = _automatic_lambda(F_leading, s.penalty, _SHARE_G, s.norm.p) if s.lambda2 == "auto" else s.lambda2

        def watch(iteration, gap, W, G, F, history):
            # Gaps shrink like powers of the penalties, so their logarithm tells how far the way is.
            gaps.append(gap)
            way = np.log(max(gaps[0], 1e-300) / max(s.tol, 1e-300))
            share = np.log(max(gaps[0], 1e-300) / max(min(gaps), 1e-300)) / way if way > 0 else 1.0
            progress.show(min(max(share, 0.0), 1.0), f"iteration {iteration}, gap {gap:.1e}")
            if given["callback"] is None:
                return False
            H, w = rows.gather("H"), rows.gather("w")
            J = rows.gather("J") if W is None else w @ W
            tensors = (X.reshape(-1, *s.norm.shape) for X in (H, np.maximum(rows.gather("z"), 0.0), J, G, F))
            return given["callback"](State(iteration, *tensors, history, data.rows))

        progress("iterating")
        gaps = []
        iterations = s.max_iter if len(data.distinct) >= s.k else 0  # H^T*H = I needs a sample for every cluster
        run = _Run(s.norm, lambda1, lambda2, s.penalty, s.growth, s.tol, iterations, watch)
        G, F, W, history, stopped_by = _algorithm1(rows, F, W, run)
        progress("reading off")
        found, together, empty = _read_off(rows, at, anchors, G, s)
    history = {name: np.array(values) for name, values in history.items()}
    options = {name: value for name, value in given.items() if name not in ("callback", "verbose", "n_jobs")}
    options |= {"n_anchors": anchors.m // anchors.draws, "n_draws": anchors.draws, "joint": s.joint}
    options |= {"n_neighbors": anchors.neighbours, "lambda1": lambda1, "lambda2": lambda2, "penalty": s.penalty}
    result = Result(
        **found, n_iter=len(history["fit"]), stopped_by=stopped_by, history=history, options=options,
        view_names=tables.view_names, feature_names=tables.feature_names, sample_names=tables.sample_names,
        seconds=progress.done(),
    )  # fmt: skip
    for message, kind in _doubts(result, empty, len(data.distinct), together):
        warnings.warn(message, kind, stacklevel=3)
    return result


def _refuse_for_chunks(given):
    """Refuse the options that need all rows, or their order, in one place."""
    possible = {"impute": (None,), "anchors": ("medoid", "random"), "init": ("spectral",), "callback": (None,)}
    for name, words in (possible | {"axis": ("cluster", "lateral", "view")}).items():
        if not isinstance(given[name], (str, type(None))) or given[name] not in words:
            raise ValueError(f"{name} must be {' or '.join(map(repr, words))} for dask arrays, whose rows are apart")


def _random_state(random_state):
    """What scikit-learn takes, and a Generator, of which one number is drawn."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.integers(2**32))
    return check_random_state(random_state)


def _prepare(tables, mask, s, rng, progress):
    """From views to anchor graphs: the rows in blocks, the anchors' positions, the anchors. Near rows are joined."""
    progress("reading views")
    if tables.chunks is None:
        rows = _Rows(_arrange(tables, mask, not s.in_given_order, s.schemes))
    else:
        rows = _DaskRows(tables, mask, s)
    progress("choosing anchors")
    at = _choose_anchors(rows.near.data, s, rng)
    progress("building graphs")
    anchors = _collect_anchors(rows.near.data, at, s)
    rows.near.join(anchors, progress.show)
    return rows, at, anchors


def _start(rows, at, anchors, s, rng):
    """Give the blocks their first H, z and w; returns the first F (m, V*k), and the W that makes J = w W."""
    n, (V, k) = rows.data.n, s.norm.shape
    if isinstance(s.init, str) and s.init == "identity":
        # Every frequency slice of H is eye(n, k): in the time domain the first slice is, and the others vanish.
        H = np.zeros((n, V * k))
        H[np.arange(k), np.arange(k)] = 1.0
        rows.spread("H", H)
        rows.spread("z", np.zeros_like(H))
        rows.spread("w", H.copy())
        return np.zeros((anchors.m, V * k)), np.zeros((V * k, V * k))
    if isinstance(s.init, str):
        _find_labels(rows, anchors, k, rng)
    else:
        rows.spread("labels", s.init[rows.data.rows])
    rows.map(_prune_filled, rows.take("labels", at))
    members = rows.sum(lambda block: np.bincount(block.labels, minlength=k))
    rows.map(_first_H, V, 1.0 / np.sqrt(np.maximum(members, 1)))  # 0 where rows are fewer than clusters
    F = rows.sum(_transposed_times, anchors.m)
    _project_simplex(F.reshape(-1, k))
    return F, np.eye(V * k)


def _prune_filled(block, anchor_labels):
    """A filled row may speak for the sample's label, not against it (HandWritten4, 50 % missing: 0.85 to 0.87)."""
    i, v = np.nonzero(~block.told)
    block.S[i, v] *= anchor_labels[block.index[i, v]] == block.labels[i, None]


def _first_H(block, V, size):
    """H of the block's labels in the first slice, and z = w = H."""
    block.H = np.zeros((len(block.labels), V * len(size)), block.S.dtype)
    block.H[np.arange(len(block.labels)), block.labels] = size[block.labels]
    block.z, block.w = block.H.copy(), block.H.copy()


def _H_gram(block):
    return (block.H.T @ block.H).astype(float)


def _read_off(rows, at, anchors, G, s):
    """Labels and memberships from the factors, in the order of the given samples and views.

    Returns, too, the share of the anchors that are, by H alone, in the cluster that they vote for, and the number of
    clusters that are empty.
    """
    data, (V, k) = rows.data, s.norm.shape
    mass = rows.sum(lambda block: (block.H**2).sum(axis=0)).reshape(V, k).sum(axis=1)
    mass = mass / mass.sum()
    # S^(v) = sum_s H^(s) (G^(s-v))^T: seen from view v, an anchor's clusters are those of G moved on by s.
    G = G.reshape(-1, V, k)
    memberships = np.stack([sum(mass[s] * G[:, (s - v) % V] for s in range(V)) for v in range(V)])

    def load(block):
        return np.maximum(block.z, 0.0).reshape(-1, V, k).mean(axis=1, dtype=float)

    # A column of Q has length 1 whatever the size of its cluster, so an entry of a small cluster is large. Times the
    # column's sum, which grows with the root of the size, entries of a clear partition are 1.
    size = rows.sum(lambda block: load(block).sum(axis=0))

    def read(block):
        consensus = V**2 * load(block) * size
        block.by_H = np.where(consensus.max(axis=1) > 0, consensus.argmax(axis=1), -1)
        votes = _votes(block.index, block.weight, memberships)
        # What a row lacks of a full load its anchors fill: entries are larger in small clusters, so that 18 % of a
        # small one may win over 69 % of a big one. Without any edge all clusters are alike.
        consensus += np.maximum(1.0 - consensus.sum(axis=1, keepdims=True), 0.0) * votes.mean(axis=1) + 1e-300
        of_joint = np.ones((len(votes), V - block.told.shape[1]), bool)
        told = np.column_stack([block.told, of_joint])
        agrees = told & (votes.argmax(axis=2) == consensus.argmax(axis=1)[:, None])
        soft = np.sqrt(consensus)  # loads promise more than they keep, their roots do not (see the benchmarks)
        block.memberships = soft / soft.sum(axis=1, keepdims=True)
        block.labels = block.memberships.argmax(axis=1)
        block.S = block.H = block.z = block.w = block.J = None  # the state has been read, and the memory is wanted
        return agrees.sum(axis=0), told.sum(axis=0), np.bincount(block.labels, minlength=k)

    agreeing, told, members = _sums(rows.map(read, reads="graph"))
    views = np.argsort(data.slots)
    slices = np.append(views, V - 1) if s.joint else views
    memberships = memberships[slices]
    parts = ("scalings", "rows", "squares")
    schemes = [replace(x, **{name: [getattr(x, name)[v] for v in views] for name in parts}) for x in anchors.schemes]
    anchor_labels, by_H = memberships.mean(axis=0).argmax(axis=1), rows.take("by_H", at)
    found = dict(
        anchor_memberships=memberships[: len(views)],
        joint_memberships=memberships[-1] if s.joint else None,
        anchors=rows.numbers[at],
        anchor_labels=anchor_labels,
        view_agreement=(agreeing / np.maximum(told, 1))[slices],
        _told=(told / data.n)[slices],
        _anchors=replace(anchors, schemes=schemes, usable=anchors.usable[views]),
        **rows.outcome(slices, k),
    )
    together = ((by_H < 0) | (by_H == anchor_labels)).mean()
    return found, together, np.count_nonzero(members == 0)


def _handed_over(rows, name, slices):
    """The blocks' arrays, which they lose, as one in the order of the given samples, with these slices."""
    first = getattr(rows.blocks[0], name)
    whole = np.empty((rows.data.n, len(slices), *first.shape[2:]), first.dtype)
    for block in rows.blocks:
        whole[rows.data.rows[block.rows]] = getattr(block, name)[:, slices]
        setattr(block, name, None)
    return whole


_LITTLE = 0.25  # of the samples: a view that tells about fewer is worth a warning
_TOGETHER = 0.5  # share of the anchors that should be in the cluster that they vote for


def _doubts(result, empty, different, together):
    """What the user should be warned of."""
    k = result.memberships.shape[1]
    if empty:
        yield f"{empty} of {k} clusters are empty; the data have {different} different sample(s)", UserWarning
    for name, told in zip(result.view_names, result._told):
        if told < _LITTLE:
            little = f"{name} tells something about {told:.0%} of the samples only"
            yield (
                f"{little}: it was not seen in the others, or they are equally far from all anchors there",
                UserWarning,
            )
    if not result.n_iter:
        return
    if result.stopped_by == "max_iter":
        residuals = ", ".join(f"{name} {result.history[name][-1]:.1e}" for name in HISTORY[:3])
        failed = f"no convergence in max_iter={result.n_iter} iterations, residuals {residuals}"
        yield f"{failed}: raise max_iter or tol", ConvergenceWarning
    if together < _TOGETHER:
        blamed = "lambda2" if result.anchor_memberships.max(axis=2).mean() < 1.5 / k else "lambda1"
        apart = f"the factors have come apart: {together:.0%} of the anchors are in the cluster that they vote for"
        yield f"{apart}; {blamed}={result.options[blamed]:.3g} is probably too large", UserWarning


def _check_memory(n, s):
    """Refuse what cannot fit before a byte is allocated: three tensors, the graph twice, embeddings."""
    slices, k = s.norm.shape
    neighbours = s.neighbours * s.draws
    needed = n * (slices * (3 * k * 8 + neighbours * 20) + 4 * k * 8)
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > there:
            need = f"{n} samples in {k} clusters need about {needed / 2**30:.1f} GiB besides the views"
            hint = "cluster a sample of the rows and predict() the others, or give dask arrays"
            raise MemoryError(f"{need}, this machine has {there / 2**30:.1f} GiB: {hint}")


class _Progress:
    """How long each stage took; and a line on standard error that shows the stage, its share done and its time left.

    The line appears when the work has taken two seconds. It is drawn over in a terminal and in a notebook; elsewhere,
    where it could not be, every stage that takes long gets one line.
    """

    def __init__(self, verbose):
        self.verbose, self.started = verbose, time.perf_counter()
        self.stage, self.since, self.shown, self.seconds = None, self.started, 0.0, {}
        self.redraws = sys.stderr.isatty() or "ipykernel" in sys.modules

    def __call__(self, stage):
        now = time.perf_counter()
        if self.stage is not None:
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self.since
        self.stage, self.since = stage, now
        self.show(0.0)

    def show(self, share, detail=""):
        """Tell how much of the stage is done, from 0 to 1; the time left is the time taken by what is left."""
        now = time.perf_counter()
        if not self.verbose or now - self.started < 2.0 or now - self.shown < (0.1 if self.redraws else 2.0):
            return
        self.shown = now
        left = f"{(now - self.since) * (1 - share) / share:5.0f} s left" if share > 0 else ""
        line = f"agtf {self.stage:16} [{'#' * round(20 * share):20}] {share:4.0%} {left} {detail}"
        print(f"\r{line:<78}" if self.redraws else line, end="" if self.redraws else "\n", file=sys.stderr, flush=True)

    def done(self):
        self("done")
        if self.shown:
            line = f"agtf done in {time.perf_counter() - self.started:.1f} s"
            print(f"\r{line:<78}" if self.redraws else line, file=sys.stderr, flush=True)
        return self.seconds


class AGTF(TransformerMixin, ClusterMixin, BaseEstimator):
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
        self, n_clusters=8, *, join="inner", feature_names=None, impute=None, scale="auto", anchors="medoid",
        n_anchors="auto", n_draws="auto", n_neighbors="auto", joint=True, normalize=True, init="spectral",
        axis="cluster", p=0.5, lambda1="auto", lambda2="auto", fft_norm="ortho", penalty="auto", growth=1.3, tol=0.05,
        max_iter=200, random_state=0, callback=None, verbose=0, n_jobs=None,
    ):  # fmt: skip
        self.n_clusters = n_clusters
        self.join = join
        self.feature_names = feature_names
        self.impute = impute
        self.scale = scale
        self.anchors = anchors
        self.n_anchors = n_anchors
        self.n_draws = n_draws
        self.n_neighbors = n_neighbors
        self.joint = joint
        self.normalize = normalize
        self.init = init
        self.axis = axis
        self.p = p
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.fft_norm = fft_norm
        self.penalty = penalty
        self.growth = growth
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(self, X, y=None, mask=None):
        """Cluster X, a list or dict of views or one (n, d) table; y is ignored; mask as in `cluster`."""
        if _are_views(X) or _is_dask(X):
            X = _as_tables(X, join=self.join, feature_names=self.feature_names)
            self.n_features_in_ = sum(table.shape[1] for table in X.tables)
            vars(self).pop("feature_names_in_", None)  # of an earlier fit
        else:
            columns = _column_names(X)
            X = validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_min_samples=2)
            X = _as_tables(X)
            X.feature_names = _named_features(self.feature_names, X.view_names, [columns], X.tables)
        given = self.get_params(deep=False)
        del given["feature_names"]  # which the tables have by now
        # One cluster is a pointless but legal setting for an estimator, as it is for KMeans.
        self.result_ = _cluster(X, given.pop("n_clusters"), mask, given, fewest=1)
        self.labels_, self.n_iter_ = self.result_.labels, self.result_.n_iter
        return self

    def predict(self, X, mask=None):
        """Labels of unseen samples, see `Result.predict`."""
        return self.predict_proba(X, mask).argmax(axis=1)

    def predict_proba(self, X, mask=None):
        """Memberships (n, k) of unseen samples, see `Result.predict_memberships`."""
        check_is_fitted(self)
        if self.feature_names is not None and hasattr(X, "columns"):
            X = [X]  # to be matched by these names, which scikit-learn does not know
        if not _are_views(X) and not _is_dask(X):
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric")
        return self.result_.predict_memberships(X, mask, self.n_jobs)

    def transform(self, X, mask=None):
        """The same as `predict_proba`, for pipelines."""
        return self.predict_proba(X, mask)

    def fit_transform(self, X, y=None, mask=None):
        """The same as `fit`, then `transform`; what the factorisation says is in `result_.memberships`."""
        return self.fit(X, mask=mask).transform(X, mask)

    def __getstate__(self):
        state = super().__getstate__()
        if "result_" in state:  # without what lies with Dask
            result = state["result_"].compute()
            state = state | {"result_": result, "labels_": result.labels}
        return state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _are_views(X):
    """Whether X is several views rather than one table."""
    if sparse.issparse(X):
        return False
    return isinstance(X, dict) or isinstance(X, (list, tuple)) and len(X) > 0 and len(getattr(X[0], "shape", ())) == 2


@dataclass
class Suggestion:
    """Numbers of clusters, the most convincing first, their scores, and the spectrum that they come from."""

    candidates: np.ndarray
    scores: np.ndarray
    spectrum: np.ndarray  # eigenvalues of the graphs, descending, the first is 1


def suggest_k(views, k_max=20, *, mask=None, scale="auto", random_state=0, n_jobs=None):
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
    tables = _as_tables(views)
    n, V = tables.n, len(tables.tables)
    if not isinstance(k_max, (int, np.integer)) or not 2 <= k_max < n:
        raise ValueError(f"k_max must be an int between 2 and the number of samples less one, {n - 1}, got {k_max!r}")
    s = _resolve({**AGTF(scale=scale).get_params(), "random_state": random_state}, k_max, n, V)
    rng = _random_state(random_state)
    with _limits(n_jobs):
        rows, _, anchors = _prepare(tables, mask, s, rng, _Progress(0))
        sample = rows.near.head(_SAMPLE)
        parts = [p.spectrum for p in _projections(sample, anchors, k_max, k_max + 1, rng)]
    # Few anchors have a short spectrum; three equal values at least, which suggest k = 2 without conviction.
    length = min(map(len, parts))
    parts = [np.pad(part[:length], (0, max(3 - length, 0)), mode="edge") for part in parts]
    parts = [np.maximum(part, 1e-12) for part in parts]
    scores = np.mean([np.log(part[1:-1] / part[2:]) for part in parts], axis=0)
    order = np.argsort(-scores, kind="stable")
    return Suggestion(order + 2, scores[order], np.mean(parts, axis=0))


# ======================================================================================================================
# 9 describe and report: what sets the clusters apart, as arrays, as tables and as one page.

_TORN = 0.1  # from this membership on a second cluster counts: the sample lies on the border of both
_NUMBER = re.compile(r"\s*([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?%?|nan|[-+]?inf|)\s*", re.IGNORECASE)  # or a hole


def _profile(data, labels, k):
    """Per given view (count, mean, variance) of each cluster's samples that were seen there: (k,), (k, d), (k, d)."""

    def of_view(v):
        table, seen = data.tables[v], slice(None) if data.seen is None else data.seen[:, v]
        rows, label = data.rows[seen], labels[seen]
        # Blocks so large that all their moments together need less memory than the table.
        size = max(4096, len(rows) // min(32, 1 + table.size // (3 * k * table.shape[1])))
        return _pooled(_map_rows(lambda lo, hi: _moments(table[rows[lo:hi]], label[lo:hi], k), len(rows), size))

    return _in_units([of_view(v) for v in np.argsort(data.slots)])


def _in_units(moments):
    """Count, mean and variance of each cluster, per view, from pooled `_moments`."""
    return [(count, row + mean, variance) for count, row, mean, variance in moments]


@np.errstate(over="ignore", invalid="ignore")  # values too large to square have no variance
def _moments(rows, label, k):
    """Of each cluster in a block of rows the count (k,), a row, the mean less that row, the variance, (k, d) each."""
    count, row, mean, variance = np.bincount(label, minlength=k), *np.zeros((3, k, rows.shape[1]))
    for c in np.flatnonzero(count):
        some = rows[label == c].astype(float)
        if sparse.issparse(some):
            mean[c], variance[c] = mean_variance_axis(some, axis=0)
        else:
            row[c] = some[0]  # differences from it have no offset that would cost digits
            some -= row[c]
            mean[c], variance[c] = some.mean(axis=0), some.var(axis=0)
    return count, row, mean, variance


@np.errstate(over="ignore", invalid="ignore")
def _pooled(moments):
    """The `_moments` of all blocks together."""
    counts, rows, means, variances = map(np.array, zip(*moments))
    count, row = counts.sum(axis=0), rows[(counts > 0).argmax(axis=0), np.arange(counts.shape[1])]
    means += rows - row
    weight = counts[:, :, None] / np.maximum(count, 1)[:, None]
    mean = (weight * means).sum(axis=0)
    return count, row, mean, (weight * (variances + (means - mean) ** 2)).sum(axis=0)


@np.errstate(over="ignore", invalid="ignore")
def _compare(result):
    """Every cluster against all other samples: the views, numbers and names of all D features, and (k, D) arrays of
    their standardised differences (Cohen's d), of their means, and of the others' means."""
    count, mean, variance = zip(*result._profile)
    widths = [x.shape[1] for x in mean]
    views = np.repeat(np.arange(len(widths)), widths)
    weight, mean, variance = np.column_stack(count)[:, views].astype(float), np.hstack(mean), np.hstack(variance)
    rest = weight.sum(axis=0) - weight
    origin = np.take_along_axis(mean, weight.argmax(axis=0)[None], axis=0)  # squares of differences do not cancel
    shifted = mean - origin
    first, second = weight * shifted, weight * (variance + shifted**2)
    others = (first.sum(axis=0) - first) / np.maximum(rest, 1.0)
    spread = weight * variance + np.maximum(second.sum(axis=0) - second - rest * others**2, 0.0)
    difference = np.where((weight > 0) & (rest > 0), shifted - others, 0.0)
    # Features that do not vary within the groups differ by 1000 at most, those that are the same everywhere by nothing.
    deviation = np.maximum(np.sqrt(spread / weight.sum(axis=0)), np.abs(difference) / 1000)
    deviation = np.maximum(deviation, 1e-12 * np.abs(origin) + np.finfo(float).tiny)
    names = [given or [f"feature {j}" for j in range(d)] for given, d in zip(result.feature_names, widths)]
    return dict(
        views=views, features=np.concatenate([np.arange(d) for d in widths]), names=np.array(sum(names, []), object),
        differences=np.nan_to_num(difference / deviation), means=np.where(weight > 0, mean, np.nan),
        other_means=np.where(rest > 0, others + origin, np.nan),
    )  # fmt: skip


def _printable(text, width=40):
    text = "".join(x if x.isprintable() else " " for x in str(text))
    return text if len(text) <= width else text[: width - 1] + "…"


def _sample_name(source, i):
    return str(i) if source.sample_names is None else _printable(source.sample_names[i])


def _text_table(header, rows):
    """Lines of text in columns, those of numbers to the right."""
    columns = []
    for cells in zip(header, *rows):
        side = ">" if all(map(_NUMBER.fullmatch, cells[1:])) else "<"
        columns.append([f"{cell:{side}{max(map(len, cells))}}" for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns))


def _html_table(header, rows, head="<th>{}</th>", kind=""):
    """The table; the page's style draws a bar in cells that say how long, 0.5 for a difference of 1."""
    body = ""
    for row in rows:
        body += "<tr>"
        for name, cell in zip(header, row):
            mark = ' class="n"' if _NUMBER.fullmatch(cell) else ""
            if name == "difference":
                size, side = abs(float(cell)), "less" if cell.startswith("-") else "more"
                mark = f' class="{side}" style="--bar: {size / (1 + size):.2f}"'
            body += f"<td{mark}>{escape(cell)}</td>"
        body += "</tr>\n"
    head = "".join(head.format(escape(name)) for name in header)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


class Description(SimpleNamespace):
    """What `describe` or `explain` finds: prints as tables, in notebooks too; the numbers are attributes."""

    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__  # arrays have no one answer

    def __repr__(self):
        return "\n\n".join([self.title, *(f"{title}\n{_text_table(*table)}" for title, *table in self.tables)])

    def _repr_html_(self):
        tables = (f"<h4>{escape(title)}</h4>{_html_table(*table)}" for title, *table in self.tables)
        return f"<h3>{escape(self.title)}</h3>{''.join(tables)}"

    def to_frame(self):
        """The numbers as a pandas DataFrame: a line per cluster, per feature of one cluster, or per slice."""
        import pandas

        return pandas.DataFrame(self.columns)


def _explain(result, i):
    """One sample, see `Result.explain`."""
    memberships, (index, weights) = result._slice_memberships(), result._graph_of(i)
    anchors = result.anchors[index]
    votes, label = _votes(index[None], weights[None], memberships)[0], int(result.labels[i])
    clusters = memberships[np.arange(len(votes))[:, None], index].argmax(axis=2)
    shares, favoured = votes[:, label] / max(votes[:, label].sum(), 1e-300), int(votes.sum(axis=0).argmax())
    title = f"sample {_sample_name(result, i)} is in cluster {label}"
    if favoured != label:
        title += f", although its anchors' votes favour cluster {favoured}"
    rows = []
    for v, name in enumerate(result.slices):
        best = [c for c in np.argsort(-votes[v], kind="stable")[:3] if votes[v, c] >= 0.005]
        near = [(_sample_name(result, anchors[v, t]), t) for t in np.flatnonzero(weights[v] > 0)[:4]]
        text = "  ".join(f"{anchor} x {weights[v, t]:.2f} > {clusters[v, t]}" for anchor, t in near)
        rows.append((_printable(name), f"{shares[v]:.0%}", ", ".join(f"{c}: {votes[v, c]:.2f}" for c in best), text))
    return Description(
        title=title, sample=i, label=label, favoured=favoured, slices=result.slices, anchors=anchors, weights=weights,
        clusters=clusters, votes=votes, shares=shares, sample_names=result.sample_names,
        tables=[("how its anchors vote", ("slice", "share", "votes", "anchors: sample x weight > cluster"), rows)],
        columns={"slice": result.slices, "share": shares, "votes": list(votes)},
    )  # fmt: skip


def _describe(result):
    """All clusters, see `Result.describe`."""
    labels, (n, k) = result.labels, result.memberships.shape
    votes = _votes(result._index, result._weight, result._slice_memberships())
    sizes, support, own = np.bincount(labels, minlength=k), votes.mean(axis=1), (np.arange(n), labels)
    members, some = sparse.csc_array((np.ones(n), labels, np.arange(n + 1)), (k, n)), np.maximum(sizes, 1)
    values = result.memberships, support, votes.argmax(axis=2) == labels[:, None]
    mixing, voted, agreement = (members @ x / some[:, None] for x in values)
    towards = mixing + 1e-9 * voted  # the anchors decide between equals
    np.fill_diagonal(towards, -1.0)
    closest = towards.argmax(axis=1)
    confused = np.bincount(labels, (result.memberships[own[0], closest[labels]] > _TORN) & (k > 1), k) / some
    closest[(sizes == 0) | (k == 1)] = -1
    order, typical = np.lexsort((-support[own], -result.memberships[own], labels)), np.full((k, 8), -1)
    for c, inside in enumerate(np.split(order, np.cumsum(sizes)[:-1])):
        typical[c, : len(inside)] = inside[:8]
    features = _compare(result)
    top = np.argsort(-np.abs(features["differences"]), axis=1, kind="stable")[:, :3]
    views, differences = features["views"][top], np.take_along_axis(features["differences"], top, axis=1)
    columns = dict(cluster=range(k), size=sizes, sure=mixing.diagonal(), closest=closest, confused=confused)
    columns |= {f"{name} agrees": share for name, share in zip(result.slices, agreement.T)}
    columns |= {"set apart by": [], "typical samples": []}
    for c in range(k):
        strongest = zip(views[c], features["names"][top[c]], differences[c])
        texts = (f"{_printable(result.view_names[v], 20)}: {_printable(x)} {d:+.1f}" for v, x, d in strongest if d)
        columns["set apart by"].append("; ".join(texts))
        columns["typical samples"].append(", ".join(_sample_name(result, i) for i in typical[c, :3] if i >= 0))
    cells = [[f"{x:.0%}" if isinstance(x, float) else str(x) for x in column] for column in columns.values()]
    header, lines = [_printable(name) for name in columns], list(zip(*cells))
    numbers = "how sure, and how far each view agrees", header[:-2], [line[:-2] for line in lines]
    words = "what they are", header[:1] + header[-2:], [line[:1] + line[-2:] for line in lines]
    return Description(
        title=f"{k} clusters of {n} samples", sizes=sizes, certainty=mixing.diagonal(), mixing=mixing, closest=closest,
        confused=confused, agreement=agreement, typical=typical, views=views, features=features["features"][top],
        differences=differences, columns=columns, tables=[numbers, words], _features=features, _table=(header, lines),
    )  # fmt: skip


def _describe_cluster(result, everything, c):
    """One cluster, see `Result.describe`, from the description of all."""
    order = np.argsort(-np.abs(everything._features["differences"][c]), kind="stable")
    features = {name: x[order] if x.ndim == 1 else x[c, order] for name, x in everything._features.items()}
    certainty, voters = result._slice_memberships().mean(axis=0)[:, c], np.flatnonzero(result.anchor_labels == c)
    voters = voters[np.argsort(-certainty[voters], kind="stable")]
    voters = voters[np.sort(np.unique(result.anchors[voters], return_index=True)[1])]  # once, not per draw
    inside = np.flatnonzero(result.labels == c)
    here, others = result.memberships[inside, c], result.memberships[inside]
    others[:, c] = -1.0
    neighbours, there = others.argmax(axis=1), others.max(axis=1)
    torn = np.flatnonzero(there > _TORN)
    torn = torn[np.argsort(here[torn] - there[torn], kind="stable")]
    found = Description(
        cluster=c, size=len(inside), certainty=everything.certainty[c], closest=int(everything.closest[c]),
        confused=everything.confused[c], agreement=everything.agreement[c], **features, anchors=result.anchors[voters],
        anchor_certainty=certainty[voters], typical=everything.typical[c][everything.typical[c] >= 0],
        border=inside[torn], neighbours=neighbours[torn], border_memberships=np.column_stack([here, there])[torn],
    )  # fmt: skip
    near = f", closest to cluster {found.closest}, confused {found.confused:.0%}" if found.closest >= 0 else ""
    found.title = f"cluster {c}: {found.size} samples, {found.certainty:.0%} sure{near}"
    found.columns = dict(view=[result.view_names[v] for v in found.views], feature=found.names)
    found.columns |= dict(difference=found.differences, mean=found.means, others=found.other_means)
    found.tables = []
    for v, name in enumerate(result.view_names):
        rows = []
        for j in np.flatnonzero(found.views == v)[:5]:
            means = (f"{x:.4g}" for x in (found.means[j], found.other_means[j]))
            rows.append((_printable(found.names[j]), f"{found.differences[j]:+.2f}", *means))
        title = f"{_printable(name)}, which agrees on {found.agreement[v]:.0%}"
        found.tables.append((title, ("feature", "difference", "mean", "others"), rows))
    called = partial(_sample_name, result)
    rows = [(what, ", ".join(map(called, getattr(found, what)[:8]))) for what in ("typical", "anchors")]
    border = [(called(inside[i]), f"{here[i]:.2f}", f"{there[i]:.2f}", str(neighbours[i])) for i in torn[:8]]
    found.tables += [
        ("samples that stand for it", ("", "the most certain first"), rows),
        (f"{len(torn)} samples on its border, the most torn first", ("sample", "here", "there", "cluster"), border),
    ]
    return found


def _report(result, path):
    """The page of `Result.report`, which stays below 3 MB: samples that do not fit are left out, and it says so."""
    everything, (n, k), certainty = _describe(result), result.memberships.shape, result.memberships.max(axis=1)
    low, middle = np.quantile(certainty, (0.1, 0.5))
    pairs = zip(result.view_names, result._profile)
    views = ", ".join(f"{_printable(name)} ({mean.shape[1]} features)" for name, (_, mean, _) in pairs)
    options = {name: f"{x:.4g}" if isinstance(x, float) else _printable(x) for name, x in result.options.items()}
    agreement = ", ".join(f"{_printable(name)} {x:.1%}" for name, x in zip(result.slices, result.view_agreement))
    residuals = ", ".join(f"{name} {x:.1e}" for name in HISTORY[:3] for x in result.history[name][-1:])
    facts = {
        "Data": f"{views}; {len(result.anchors)} anchors",
        "Options": ", ".join(f"{name} = {x}" for name, x in options.items()),
        "Agreement of the views": f"{agreement} of the samples are where that view's anchors alone would put them",
        "Certainty": f"half of the samples have a membership above {middle:.2f}, a tenth one below {low:.2f}",
        "Convergence": f"{result.n_iter} iterations, ended by {result.stopped_by}; residuals {residuals or 'unknown'}",
    }
    cards = (_describe_cluster(result, everything, c)._repr_html_() for c in range(k))
    parts = {
        "title": escape(everything.title), "version": __version__,
        "facts": "".join(f"<p><b>{name}:</b> {escape(text)}.</p>" for name, text in facts.items()),
        "clusters": _html_table(*everything._table, "<th><button>{}</button></th>", "sortable"),
        "cards": "\n".join(f'<article id="cluster-{c}">{card}</article>' for c, card in enumerate(cards)),
    }  # fmt: skip
    room = 2_900_000 - len(_PAGE) - sum(len(part.encode(errors="replace")) for part in parts.values())
    typical, samples = everything.typical[everything.typical >= 0], []
    for i in dict.fromkeys([*typical.tolist(), *np.argsort(certainty, kind="stable").tolist()]):
        text = f"Number {i}, cluster {result.labels[i]}, membership {certainty[i]:.0%}\n{result.explain(i)}"
        name = None if result.sample_names is None else result.sample_names[i]
        entry = f'"{i}":{json.dumps([name, text])}'.replace("<", "\\u003c")  # no text can end the script
        room -= len(entry) + 1
        if room < 0:
            break
        samples.append(entry)
    parts["samples"], parts["left_out"] = "{" + ",".join(samples) + "}", ""
    if len(samples) < n:
        parts["left_out"] = f"""To keep this page small, {n - len(samples)} of {n} samples cannot be looked up here; the
least certain can. In Python, result.explain(i) explains any."""
    with open(path, "w", encoding="utf-8", errors="xmlcharrefreplace") as file:
        file.write(Template(_PAGE).substitute(parts))


# One page that may load nothing, which its policy makes sure of. Colours are from the pictures' set.
_PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>$title</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"><style>
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; background: Canvas; color: CanvasText }
body { margin: 0 auto; max-width: 90rem; padding: 1rem; overflow-wrap: anywhere } h3, h4 { margin: .8rem 0 .2rem }
p { max-width: 60rem } table { border-collapse: collapse; overflow-wrap: normal } th button { font: inherit }
.wide, output { overflow-x: auto } output { display: block; white-space: pre; font: .8rem/1.5 monospace }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #8886 }
.n { text-align: right } .sortable td:nth-last-child(2) { min-width: 18rem }
[aria-sort=ascending]::after { content: "▲" } [aria-sort=descending]::after { content: "▼" }
[style] { white-space: nowrap } [style]::before { content: ""; display: inline-block; width: calc(5rem * var(--bar));
  height: .6em; margin-right: .4em; background: #cc6677; print-color-adjust: exact } .more::before { background: #69c }
.cards { columns: 25rem } article { border: 1px solid #8886; padding: 1rem; margin: 0 0 1rem; break-inside: avoid }
@media print { :root { color-scheme: light; font-size: 9px } form { display: none } .wide { overflow: visible }
  button { all: unset } .sortable td:nth-last-child(2) { min-width: 0 } h2 { break-after: avoid } }
</style></head><body><main><h1>$title</h1>$facts
<form><h2>Look up a sample</h2><label>Number or name <input name="wanted" autocomplete="off"></label>
<button>Explain</button><output id="answer" tabindex="0"></output></form><p>$left_out</p>
<h2>Clusters</h2><p>Sure: the mean membership of the samples in their cluster. Confused: the share of them with a
membership above 0.1 in the closest cluster. Agrees: the share whose cluster that view's anchors alone would choose.
Differences from all other samples are in standard deviations. The columns' names sort.</p>$clusters
<h2>Each cluster</h2><div class="cards">$cards</div><p>Written by agtf $version.</p></main>
<script type="application/json" id="data">$samples</script><script>
const samples = JSON.parse(document.getElementById("data").textContent), [form] = document.forms;
for (const th of document.querySelectorAll(".sortable th")) th.firstChild.onclick = () => {
  const [body] = th.closest("table").tBodies, sign = th.ariaSort === "ascending" ? -1 : 1;
  const text = row => row.cells[th.cellIndex].textContent;
  const order = (a, b) => sign * (parseFloat(a) - parseFloat(b) || a.localeCompare(b));
  for (const other of th.parentNode.cells) other.ariaSort = null;
  th.ariaSort = sign > 0 ? "ascending" : "descending";
  body.append(...[...body.rows].sort((a, b) => order(text(a), text(b))));
};
form.onsubmit = event => {
  event.preventDefault();
  const wanted = form.wanted.value, named = Object.keys(samples).filter(i => samples[i][0] === wanted);
  const found = named.length ? named.slice(0, 5) : [wanted.trim()].filter(i => Object.hasOwn(samples, i));
  const texts = found.map(i => samples[i][1]);
  form.elements.answer.textContent = texts.join("\\n\\n") || "Sample " + wanted + " is not on this page.";
};
</script></body></html>
"""


# ======================================================================================================================
# 10 data and scores

_TABLES = (".csv", ".parquet", ".feather")
_LABEL_NAMES = "y gt truth label labels gnd y0 truelabel true_label target class classes".split()
_OTHER_NAMES = re.compile(r"missingstatus|index|indices|(.*_)?folds?_?\d*", re.I)  # about samples, but no features
_KERNEL_NAMES = re.compile(r"(kh?|kernels?|gram)_?\d*", re.I)  # if they are square


def score(y_true, labels):
    """The seven scores of the paper's figures in a dict, all 1 for a perfect partition of (n,) labels.

    "ACC" (best one-to-one matching of clusters and classes), "NMI", "purity", "ARI", and over pairs of samples
    "F-score", "precision" and "recall".

    >>> import agtf
    >>> agtf.score([0, 0, 1, 1], [5, 5, 3, 3])["ACC"]
    1.0
    """
    y_true, labels = np.asarray(y_true), np.asarray(labels)
    counts = contingency_matrix(y_true, labels)
    (_, false), (missed, both) = pair_confusion_matrix(y_true, labels).astype(float)
    # Without a single pair put together (or belonging together) nothing was put together wrongly.
    precision = both / (both + false) if both + false else 1.0
    recall = both / (both + missed) if both + missed else 1.0
    scores = {
        "ACC": counts[linear_sum_assignment(-counts)].sum() / counts.sum(),
        "NMI": normalized_mutual_info_score(y_true, labels),
        "purity": counts.max(axis=0).sum() / counts.sum(),
        "ARI": adjusted_rand_score(y_true, labels),
        "F-score": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
    }
    return {name: float(value) for name, value in scores.items()} | {"precision": precision, "recall": recall}


def digits_views():
    """Four descriptors of scikit-learn's 1797 handwritten digits of 8 x 8 pixels, a list of views, and their classes.

    Pixels (64), magnitudes of the Fourier transform (40), histograms of gradients (72), ink profiles (48).
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, n = digits.images / 16.0, len(digits.images)
    fourier = np.abs(np.fft.rfft2(images)).reshape(n, -1)
    down, right = np.gradient(images, axis=(1, 2))
    bins = np.floor((np.arctan2(down, right) / (2 * np.pi) + 0.5) * 8 - 1e-9).astype(int) % 8
    by_angle = np.where(bins[..., None] == np.arange(8), np.hypot(down, right)[..., None], 0.0)
    corners = (0, 2, 4)  # overlapping 4 x 4 cells
    gradients = [by_angle[:, r : r + 4, c : c + 4].sum(axis=(1, 2)) for r in corners for c in corners]
    ink = images > 0.3
    sides = [(side, axis) for axis in (1, 2) for side in (ink, np.flip(ink, axis))]
    depths = [np.where(side.any(axis=axis), side.argmax(axis=axis), 8) for side, axis in sides]
    profiles = np.hstack([images.sum(axis=1), images.sum(axis=2), *depths])
    return [images.reshape(n, -1), fourier, np.hstack(gradients), profiles], digits.target


def load_views(path, views=None, labels=None, names=False):
    """Read multi-view data: a .mat or .npz file, or a list of .csv, .parquet or .feather files, one per view.

    A .mat file has a cell array of matrices, or else one matrix per view, with samples as rows or as columns; an .npz
    file one array per view; a vector that is not in a cell array is never a view. Labels are called y, gt, truth, ...
    Cells called `index` list, from 1, the samples seen in each view: the others become rows of NaN. Where doubt remains
    an error tells what the file holds; choose by name (`views` may be a list): `load_views(path, views="data",
    labels="truth")`. In the other files a first line of names is no data, a column of such a name (or called `labels`)
    holds the labels, and a first column of text the samples' names, which put them in the order of the first file.

    Returns a list of (n, d_v) arrays or CSR matrices, and (n,) labels or None. With `names=True` a dict instead of the
    list: arrays by name, cells as "view 0", ..., files by name without folder and ending, and these as DataFrames, if
    pandas is installed, with the features' names as columns and the samples' names, if they have any, as index.
    """
    paths = [os.fspath(p) for p in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    (contents, y), chosen = _read(paths, labels), [views] if isinstance(views, str) else views or ()
    try:
        unknown = [name for name in chosen if name not in contents]
        if unknown:
            raise ValueError(f"it holds nothing called {unknown[0]!r}")
        if paths[0].lower().endswith(_TABLES):
            found = {name: contents[name] for name in chosen or contents}
        else:
            found, y = _choose(contents, chosen, labels)
    except ValueError as error:
        how = 'Choose by name: load_views(path, views="data", labels="truth")'
        raise ValueError(f"{', '.join(paths)}: {error}.\nContents:\n{_listing(contents)}\n{how}") from None
    return found if names else [np.asarray(x) if hasattr(x, "columns") else x for x in found.values()], y


def _read(paths, label=None):
    """What the files hold, by name, and labels found in tables."""
    from scipy.io.matlab import loadmat, matfile_version

    kinds = {os.path.splitext(path)[1].lower() for path in paths}
    if kinds and kinds <= set(_TABLES):
        return _read_tables(paths, label)
    if len(paths) != 1 or not kinds <= {".mat", ".npz"}:
        wanted = "one .mat file, one .npz file, or .csv, .parquet or .feather files, one per view"
        raise ValueError(f"give {wanted}; got {', '.join(paths)}")
    with open(paths[0], "rb") as file:
        try:
            if kinds == {".npz"}:
                return dict(np.load(file, allow_pickle=False)), None
            contents = _read_hdf5(file) if matfile_version(file)[0] == 2 else loadmat(file)
            return {name: value for name, value in contents.items() if not name.startswith(("__", "#"))}, None
        except Exception as error:  # a damaged file can make the readers raise anything
            raise ValueError(f"{paths[0]} cannot be read: {error}") from error


def _read_hdf5(file):
    """MATLAB v7.3: HDF5 with axes in reverse order, cells as references, sparse matrices and structs as groups."""
    import h5py

    def value(node):
        if "MATLAB_sparse" in node.attrs and "data" in node:
            parts = (node["data"][()], node["ir"][()], node["jc"][()])
            return sparse.csc_array(parts, (int(node.attrs["MATLAB_sparse"]), len(parts[2]) - 1))
        if isinstance(node, h5py.Group):
            return np.zeros((1, 1), "V1")  # a struct, into which nobody looks
        array = np.asarray(node[()]).T
        if node.attrs.get("MATLAB_class") == b"char":
            return np.array(["".join(map(chr, line)) for line in np.atleast_2d(array)])
        for at, reference in np.ndenumerate(array) if node.dtype == h5py.ref_dtype else ():
            array[at] = value(node.file[reference])  # references come in arrays of objects
        return array

    with h5py.File(file, "r") as opened:
        return {name: value(node) for name, node in opened.items()}


def _read_tables(paths, label):
    """Views by file name, as DataFrames if pandas is installed, samples in the order of the first file; labels."""
    tables, y, order = {}, None, None
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    for v, path in enumerate(paths):
        stem = stems[v] if stems.count(stems[v]) == 1 else f"{stems[v]} {v}"
        try:
            frame = _read_table(path)
            if isinstance(frame, np.ndarray):
                tables[stem] = frame
                continue
            names = [x for x in frame if (str(x).lower() in _LABEL_NAMES if label is None else str(x) == label)]
            labels = [frame.pop(name) for name in names]
            if frame.shape[1] and frame.dtypes.iloc[0].kind not in "biuf":  # text
                frame = frame.set_index(frame.columns[0])
            frame = frame.astype(float)
        except ValueError as error:
            raise ValueError(f"{path} is not a table of numbers: {error}") from None
        if type(frame.index).__name__ != "RangeIndex":  # names
            samples = frame.index.astype(str)
            order = samples if order is None else order
            if not samples.is_unique or set(samples) != set(order):
                raise ValueError(f"{path}: the first column is text, but does not name every sample of {paths[0]} once")
            rows = samples.get_indexer(order)
            frame, labels = frame.set_axis(samples).iloc[rows], [x.iloc[rows] for x in labels]
        y = labels[0].to_numpy() if labels and y is None else y
        if frame.shape[1]:  # a file may hold nothing but labels
            tables[stem] = frame
    if label is not None and y is None:
        raise ValueError(f"{', '.join(paths)}: there is no column called {label!r}")
    return tables, y


def _read_table(path):
    """A file as a DataFrame; without pandas as an array, if it is a CSV file of nothing but numbers."""
    kind, options = os.path.splitext(path)[1].lower(), {}
    if kind == ".csv":
        with open(path, encoding="utf-8-sig") as file:
            first = file.readline().strip()
        separator = max(",;\t", key=first.count)
        is_number = [_NUMBER.fullmatch(cell) is not None for cell in first.split(separator)]
        options = {"sep": separator, "header": None if all(is_number) else 0, "encoding": "utf-8-sig"}
        if len(is_number) > 1 and not is_number[0] and all(is_number[1:]):
            raise ValueError("the first line may be names or data; put a line above it that names the columns")
    try:
        import pandas
    except ImportError:
        if options and all(is_number):
            return np.loadtxt(path, delimiter=separator, ndmin=2, encoding="utf-8-sig")
        raise ValueError("install pandas to read names, text, holes and other files than .csv") from None
    return getattr(pandas, f"read_{kind[1:]}")(path, **options)


def _listing(contents):
    lines = []
    for name, value in contents.items():
        value = np.asarray(value) if hasattr(value, "columns") else value
        kind = {"O": "cell array", "U": "text", "V": "struct"}.get(value.dtype.kind, f"{value.dtype} array")
        cells = ", ".join(str(cell.shape) for cell in value.ravel()[:12]) if value.dtype == object else ""
        lines.append(f"  {name}: {kind} {value.shape} {cells}".rstrip())
    return "\n".join(lines)


def _choose(contents, chosen, label):
    """The views by name, samples as rows, and the labels or None."""
    if label not in (None, *contents):
        raise ValueError(f"it holds nothing called {label!r}")
    cells = {name: list(x.ravel()) if x.dtype == object else [x] for name, x in contents.items()}
    labels, y = [label], np.array([])
    if label is None:
        labels = [name for name in contents if name.lower() in _LABEL_NAMES and name not in chosen]
    for name in labels:  # one text per cell, or a vector that all cells repeat
        some = cells.pop(name)
        if contents[name].dtype == object and all(cell.dtype.kind == "U" for cell in some):
            y = max(y, np.array(["".join(cell) for cell in some]), key=len)
        elif some[0].dtype.kind in "biufU" and all(np.array_equal(cell, some[0]) for cell in some):
            y = max(y, some[0].ravel() if some[0].size in some[0].shape else y, key=len)
    if label is not None and len(y) == 0:
        raise ValueError(f"{label!r} is no vector of labels")
    index = next((x for name, x in cells.items() if name.lower() == "index" and contents[name].dtype == object), [])
    n = len(y) or max((int(np.max(seen)) for seen in index), default=0)
    views = {}
    for name in chosen or _guess_views(contents, cells, n):
        for cell in cells[name]:
            if cell.dtype.kind not in "biuf" or cell.ndim < 1 or 0 in cell.shape:
                raise ValueError(f"{name!r} is no table of numbers")
            key = f"view {len(views)}" if contents[name].dtype == object else name
            views[key] = cell if cell.ndim == 2 else cell.reshape(len(cell), -1)  # images
    shapes = [view.shape for view in views.values()]
    n = n or next((sizes[0] for sizes in zip(*shapes) if len(set(sizes)) == 1), 0)
    if any(n not in shape for shape in shapes):
        number = f"number of samples {n}" if n else "number of samples"
        raise ValueError(f"it holds views whose shapes {', '.join(map(str, shapes))} share no {number}")
    if index and len(index) != len(views):
        raise ValueError(f"there are {len(views)} views, but `index` lists the samples seen in {len(index)}")
    turned = {shape[0] != n for shape in shapes if shape != (n, n)} == {True}  # a square table lies as the others do
    for v, (name, view) in enumerate(views.items()):
        view = view.T if turned or view.shape[0] != n else view
        if index:
            samples = np.arange(1, n + 1)
            if not np.isin(index[v], samples).all():
                raise ValueError(f"`index` lists other samples than 1 to {n}")
            view = sparse.lil_array(view, dtype=float) if sparse.issparse(view) else view.astype(float)
            view[~np.isin(samples, index[v])] = np.nan
        views[name] = sparse.csr_array(view) if sparse.issparse(view) else view
    return views, y if len(y) else None


def _guess_views(contents, cells, n):
    """The names of the views: of a cell array of matrices, or else of the matrices."""
    tables = []
    for name, some in cells.items():
        is_table = all(cell.dtype.kind in "biuf" and cell.ndim == 2 and 0 not in cell.shape for cell in some)
        is_kernel = _KERNEL_NAMES.fullmatch(name) and all(len(set(cell.shape)) == 1 for cell in some)
        if some and is_table and not is_kernel and not _OTHER_NAMES.fullmatch(name):
            tables.append(name)
    matrices = [name for name in tables if any(min(cell.shape) > 1 for cell in cells[name])]
    arrays = [name for name in matrices or tables if contents[name].dtype == object]
    arrays = [name for name in arrays if all(n in cell.shape for cell in cells[name])] or arrays
    arrays = next(([name] for word in ("x", "data", "fea") for name in arrays if name.lower() == word), arrays)

    def same(a, b):
        a = a if a.shape == b.shape else a.T
        if sparse.issparse(a) or sparse.issparse(b):
            return a.shape == b.shape and (a != b).sum() == 0
        return np.array_equal(a, b, equal_nan=True)

    views = []
    for name in arrays or matrices:
        others = (cells[view] for view in views)
        if not any(len(x) == len(cells[name]) and all(map(same, x, cells[name])) for x in others):
            views.append(name)
    if not views:
        raise ValueError("it holds no views: expected a cell array of matrices, or one matrix per view")
    if arrays and len(views) > 1:
        raise ValueError(f"it holds several cell arrays that could be the views: {', '.join(views)}")
    return views


# ======================================================================================================================
# 11 pictures: each helper draws on `ax`, or on axes of its own, and returns them. matplotlib is imported here only.

_CENTRED = {"ha": "center", "va": "center", "fontsize": "small"}
_DRAWN = 20_000  # samples in a picture: more than a screen has lines


def _panels(count, size):
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").subplots(1, count, squeeze=False)[0]


def _axes(ax, title, xlabel="", ylabel="", size=(5, 4), lines=None, **more):
    """`ax`, or new ones, with labels; if there are names for them, with lines 0, 1, ... from the top."""
    ax = _panels(1, size)[0] if ax is None else ax
    if lines is not None:
        more |= dict(yticks=range(len(lines)), yticklabels=lines, ylim=(len(lines) - 0.5, -0.5))
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel, **more)
    return ax


def _colours(k):
    """k colours: up to ten that colour-blind readers can tell apart (P. Tol's muted set), then a dark-light scale."""
    import matplotlib

    few = "#332288 #cc6677 #117733 #ddcc77 #88ccee #882255 #44aa99 #999933 #aa4499 #888888".split()
    return few[:k] if k <= len(few) else [matplotlib.colormaps["viridis"](c / (k - 1)) for c in range(k)]


def _heat(ax, image, label, form=None, **options):
    """A heat map with its colour bar and, if there is a format for them, the values written in."""
    ax.figure.colorbar(ax.imshow(image, aspect="auto", interpolation="nearest", **options), ax=ax, label=label)
    middle = (np.nanmin(image) + np.nanmax(image)) / 2
    for (i, j), value in np.ndenumerate(image) if form else ():
        ax.text(j, i, form.format(value), color="white" if value < middle else "black", **_CENTRED)
    return ax


def plot_indicator(result, ax=None):
    """The paper's label figure: consensus memberships, samples (ordered by cluster; of very many some) x clusters."""
    step = -(-len(result.labels) // _DRAWN)
    labels, memberships = np.asarray(result.labels[::step]), np.asarray(result.memberships[::step])
    order = np.lexsort((-memberships.max(axis=1), labels))
    samples = "samples" if step == 1 else f"one sample in {step}"
    ax = _axes(ax, "Sample memberships", "cluster", f"{samples}, ordered by cluster", (4, 5))
    ax.locator_params("x", integer=True)
    return _heat(ax, memberships[order], "membership", vmin=0, vmax=1)


def plot_anchors(result, ax=None):
    """Anchor memberships, one panel per slice side by side: anchors (ordered by cluster) x clusters."""
    memberships = result._slice_memberships()
    V, m, k = memberships.shape
    order, gap = np.lexsort((-memberships.mean(axis=0).max(axis=1), result.anchor_labels)), max(1, k // 8)
    panels = np.pad(memberships[:, order], ((0, 0), (0, 0), (0, gap)), constant_values=np.nan)
    title = f"Anchor memberships, {k} clusters in each panel"
    ax = _axes(ax, title, "", "anchors, ordered by cluster", (2 + 1.3 * V, 4.5))
    ax.set_xticks(np.arange(V) * (k + gap) + (k - 1) / 2, result.slices)
    return _heat(ax, np.hstack(panels)[:, :-gap], "probability", vmin=0, vmax=1)


def plot_gallery(result, images, n_anchors=12, ax=None):
    """One row per cluster: the mean of its samples' images (n, height, width), then its most certain anchors."""
    result, images = result.compute(), np.asarray(images, float)
    everything, k = _describe(result), result.memberships.shape[1]
    canvas = np.full((k, n_anchors + 2, images.shape[1] + 1, images.shape[2] + 1), np.nan)
    for c, size in enumerate(everything.sizes):
        tiles = images[_describe_cluster(result, everything, c).anchors[:n_anchors]]
        canvas[c, 2 : len(tiles) + 2, :-1, :-1] = tiles
        if size:
            canvas[c, 0, :-1, :-1] = images[result.labels == c].mean(axis=0)
    canvas /= np.maximum(np.nanmax(canvas, axis=(2, 3), keepdims=True, initial=0), 1e-300)
    _, _, height, width = canvas.shape
    names = [f"{c}  ({size})" for c, size in enumerate(everything.sizes)]
    ax = _axes(ax, "What the clusters are made of", "", "cluster (samples)", (7, 5.5))
    ax.imshow(canvas.swapaxes(1, 2).reshape(k * height, -1), cmap="gray_r", interpolation="nearest")
    ax.set_xticks([width / 2 - 1, (n_anchors + 4) * width / 2 - 1], ["mean", "anchors, the most certain first"])
    ax.set_yticks(np.arange(k) * height + height / 2 - 1, names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def plot_convergence(result, accuracy=None, ax=None):
    """The residuals per iteration; on the right the objective / its first value, and `accuracy` (one per iteration)."""
    ax, objective = _axes(ax, "Convergence", "iteration", "residual"), result.history["objective"]
    steps = range(1, result.n_iter + 1)
    ax.locator_params("x", integer=True)
    for name, colour, style in zip(HISTORY, _colours(3), ("-", "--", ":")):
        ax.semilogy(steps, np.maximum(result.history[name], 1e-16), style, color=colour, label=f"max |{name}|")
    right = ax.twinx()
    right.plot(steps, objective / objective[:1], color="0.5", label="objective / its first value")
    if accuracy is not None:
        right.plot(steps, accuracy, color="#d55e00", label="accuracy")
    right.set(ylim=(0, None), ylabel="share")
    ax.legend(handles=[*ax.lines, *right.lines], loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    return ax


def plot_embedding(points, labels, method="pca", random_state=0, ax=None):
    """2-D picture ("pca" or "tsne") of indicators (n, k), coloured by labels; a list of them gives a row of panels."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if isinstance(points, (list, tuple)):
        panels = _panels(len(points), (2.6 * len(points), 2.9)) if ax is None else ax
        return np.array([plot_embedding(p, labels, method, random_state, a) for p, a in zip(points, panels)])
    _check_choice("method", method, ("pca", "tsne"))
    points, (classes, index) = np.asarray(points, float), np.unique(np.asarray(labels), return_inverse=True)
    chart = PCA(2) if method == "pca" else TSNE(2, perplexity=min(30, (len(points) - 1) / 3))
    flat = chart.set_params(random_state=random_state).fit_transform(points)
    ax = _axes(ax, {"pca": "Indicators, PCA", "tsne": "Indicators, t-SNE"}[method], xticks=[], yticks=[])
    for c, colour in enumerate(_colours(len(classes))):
        ax.scatter(*flat[index == c].T, s=8, color=colour, linewidths=0)
        if len(classes) <= 30:
            middle = np.median(flat[index == c], axis=0)
            ax.text(*middle, str(classes[c]), bbox={"fc": "white", "ec": colour}, **_CENTRED)
    return ax


def plot_sweep(values, scores, ax=None, xlabel="", ylabel="ACC", log=False):
    """Means with bands from lowest to highest of scores (values,) or (values, seeds), or of a dict of such arrays."""
    ax = _axes(ax, "", xlabel, ylabel, xscale="log" if log else "linear")
    series = scores if isinstance(scores, dict) else {"": scores}
    for (name, table), colour, marker in zip(series.items(), _colours(len(series)), "osD^vP*X" * len(series)):
        table = np.asarray(table, float).reshape(len(values), -1)
        ax.plot(values, table.mean(axis=1), marker=marker, color=colour, label=name)
        ax.fill_between(values, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.2, linewidth=0)
    if isinstance(scores, dict):
        ax.legend()
    return ax


def plot_grid(scores, lambda1, lambda2, ax=None, label="ACC"):
    """Scores (len(lambda1), len(lambda2)) as a heat map with the values written in."""
    ax = _axes(ax, "", "lambda2", "lambda1", lines=[f"{x:g}" for x in lambda1])
    ax.set_xticks(range(len(lambda2)), [f"{x:g}" for x in lambda2])
    return _heat(ax, np.asarray(scores, float), label, "{:.2f}")


def plot_confusion(y_true, labels, ax=None):
    """Samples per class and cluster, clusters in the order of the classes that they match best."""
    y_true, labels = np.asarray(y_true), np.asarray(labels)
    counts = contingency_matrix(y_true, labels)
    matched = linear_sum_assignment(-counts)[1]
    order = np.concatenate([matched, np.setdiff1d(np.arange(counts.shape[1]), matched)])
    ax = _axes(ax, f"ACC {score(y_true, labels)['ACC']:.3f}", "cluster", "class")
    if max(counts.shape) <= 25:
        ax.set_xticks(range(len(order)), np.unique(labels)[order])
        ax.set_yticks(range(len(counts)), np.unique(y_true))
    return _heat(ax, counts[:, order], "samples", "{:.0f}" if max(counts.shape) <= 12 else None)


def plot_explain(explanation, ax=None):
    """One sample: a bar per slice, a piece per anchor, as long as its weight, coloured by the cluster it votes for."""
    title = f"Why sample {_sample_name(explanation, explanation.sample)} is in cluster {explanation.label}"
    names = [f"{name} ({share:.0%})" for name, share in zip(explanation.slices, explanation.shares)]
    labels = "weight of the anchor (its sample)", "slice (share in the decision)"
    ax = _axes(ax, title, *labels, (7, 1.2 + 0.5 * len(names)), names, xlim=(0, 1))
    voted = np.unique(explanation.clusters[explanation.weights > 0])
    for c, colour in zip(voted, _colours(len(voted))):
        v, t = np.nonzero((explanation.clusters == c) & (explanation.weights > 0))
        weights, ends = explanation.weights[v, t], explanation.weights.cumsum(axis=1)[v, t]
        bars = ax.barh(v, weights, left=ends - weights, color=colour, edgecolor="white", label=f"cluster {c}")
        anchors = zip(explanation.anchors[v, t], weights)
        names = [_sample_name(explanation, anchor) if weight > 0.08 else "" for anchor, weight in anchors]
        ax.bar_label(bars, names, label_type="center", fontsize="small", bbox={"color": "white", "pad": 1})
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def plot_views(result, ax=None):
    """How far each slice alone, by its anchors' votes, agrees with the consensus of all."""
    names, label = result.slices, "share of samples with the consensus' label"
    ax = _axes(ax, "Agreement of the views", label, "", (5, 1.2 + 0.45 * len(names)), names, xlim=(0, 1.12))
    ax.bar_label(ax.barh(range(len(names)), result.view_agreement, color=_colours(1)), fmt="%.2f", padding=3)
    return ax


def plot_k(suggestion, ax=None):
    """The spectrum behind `suggest_k`, the three best candidates marked at the drop after them."""
    ax = _axes(ax, "How many clusters?", "number of clusters", "eigenvalue of the graphs")
    ax.locator_params("x", integer=True)
    ax.plot(np.arange(1, len(suggestion.spectrum) + 1), suggestion.spectrum, "o-", color=_colours(1)[0], markersize=4)
    for k, value, colour in zip(suggestion.candidates[:3], suggestion.scores, _colours(4)[1:]):
        ax.axvline(k + 0.5, color=colour, linestyle="--", label=f"k = {k} (score {value:.2f})")
    ax.legend(title="drops")
    return ax


def plot_profile(result, c, ax=None):
    """What sets cluster c apart from all other samples: a panel per view (`ax`: that many), its strongest features."""
    found, V = result.describe(c), len(result.view_names)
    panels, (more, less) = _panels(V, (1 + 3 * V, 3.2)) if ax is None else ax, _colours(2)
    for v, panel in enumerate(np.atleast_1d(panels)):
        some = np.flatnonzero(found.views == v)[:8]
        view, *names = (_printable(x, 24).replace("$", r"\$") for x in [result.view_names[v], *found.names[some]])
        _axes(panel, f"Cluster {c}: {view}", "difference / standard deviation", lines=names)
        values = found.differences[some]
        panel.barh(range(len(some)), values, color=np.where(values < 0, less, more))
    return panels


def plot_clusters(result, ax=None):
    """A map: alike clusters lie near each other, confused ones are joined; areas are sizes, colours certainty."""
    ax = _axes(ax, "Clusters: alike ones are near, confused ones joined", size=(6, 5), xticks=[], yticks=[])
    found = result.describe()
    there, view = np.flatnonzero(found.sizes), found._features["views"]
    # Every view counts alike, and no feature for everything.
    points = np.clip(found._features["differences"][there], -5, 5) / np.sqrt(np.bincount(view))[view]
    U, s, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)  # their principal directions
    x, y = np.pad(U * s, ((0, 0), (0, 2)))[:, :2].T
    joined = found.mixing[np.ix_(there, there)]
    for a, b in zip(*np.nonzero(np.triu(joined + joined.T, 1) > 0.01)):
        ax.plot(x[[a, b]], y[[a, b]], color="0.7", linewidth=min(60 * (joined[a, b] + joined[b, a]), 12), zorder=1)
    area = (80 + 1000 * found.sizes[there] / found.sizes.max()) / max(len(there) / 15, 1)
    drawn = ax.scatter(x, y, area, found.certainty[there], cmap="Wistia", vmax=1, edgecolors="0.3", zorder=2)
    ax.figure.colorbar(drawn, ax=ax, label="certainty")
    for at, c in enumerate(there):
        ax.text(x[at], y[at], c, **_CENTRED)
    ax.margins(0.15)
    return ax


# ======================================================================================================================
# 12 command line


def _demo(output, verbose):
    """Cluster the built-in digits, compare with simpler ways, draw a picture."""
    from sklearn.preprocessing import scale

    (views, y), names = digits_views(), ("pixels", "Fourier", "gradients", "profiles")
    result = cluster(dict(zip(names, views)), 10, verbose=verbose)
    print("1797 handwritten digits, 8 x 8 pixels, 10 classes; the classes are used for the scores only.")
    print(f"cluster(views, 10): {result}")
    joint = np.hstack([scale(view) / np.sqrt(view.shape[1]) for view in views])  # every view counts alike
    rows = {"AGTF, all views": result.labels}
    rows["k-means, all views"] = KMeans(10, n_init=10, random_state=0).fit_predict(joint)
    rows |= {f"AGTF, {name} only": cluster([view], 10).labels for name, view in zip(names, views)}
    scores = {name: score(y, labels) for name, labels in rows.items()}
    table = [[name, *(f"{x:.3f}" for x in some.values())] for name, some in scores.items()]
    print(_text_table(["", *scores["AGTF, all views"]], table), result.describe(), sep="\n")
    plot_gallery(result, views[0].reshape(-1, 8, 8)).figure.savefig(output, dpi=110)
    print(f"picture: {output}")


def _show(paths):
    """Print what the files hold, and what load_views reads from them."""
    print("contents:", _listing(_read(paths)[0]), "read as:", sep="\n")
    views, y = load_views(paths, names=True)
    for name, view in views.items():
        missing = (np.asarray((view != view).sum(axis=1)) == view.shape[1]).sum()  # NaN differs from itself
        print(f"  {name}: {view.shape[0]} samples, {view.shape[1]} features, {missing} missing rows")
    print("  no labels" if y is None else f"  labels: {len(y)}, {len(np.unique(y))} different")


def _run(given, verbose):
    """Cluster the data files, or predict, and write what was asked for, every file whole or not at all."""
    for path in filter(os.path.exists, filter(None, (given.output, given.report, given.save))):
        if any(os.path.samefile(path, other) for other in filter(None, [*given.data, given.predict])):
            raise ValueError(f"{path} is an input file, choose another output")
    views, y = load_views(given.data, names=given.names)
    tables = _as_tables(views)
    names = (f"{name} ({table.shape[1]})" for name, table in zip(tables.view_names, tables.tables))
    print(f"{tables.n} samples, {len(tables.tables)} views: {', '.join(names)}")
    k, outputs = given.clusters, {}
    if given.predict:
        with open(given.predict, "rb") as file:
            try:
                model = load(file)
            except Exception as error:  # a damaged file can make the reader raise anything
                raise ValueError(f"{given.predict} is no saved result: {error}") from error
        memberships = model.predict_memberships(views)
        labels = memberships.argmax(axis=1)
    else:
        if k is None and y is None:
            raise ValueError(f"{given.data[0]} has no labels to count: give the number of clusters with -k, or -k auto")
        if k == "auto":
            found = suggest_k(views, min(20, tables.n - 1), random_state=given.seed)
            k, next_best = int(found.candidates[0]), max(found.scores[1:2], default=0.0)
            sure = "clear" if found.scores[0] > 2 * next_best else "a guess"
            drop = ", ".join(f"{1 - np.exp(-x):.0%} after {c}" for c, x in zip(found.candidates[:3], found.scores))
            print(f"k = {k} is {sure}: the graphs' spectrum drops by {drop}")
        result = cluster(views, len(np.unique(y)) if k is None else k, random_state=given.seed, verbose=verbose)
        labels, memberships = result.labels, result.memberships
        outputs = {"report": (given.report, result.report), "model": (given.save, result.save)}
    print("cluster sizes: " + ", ".join(map(str, np.bincount(labels, minlength=memberships.shape[1]))))
    if y is not None and len(y) == len(labels):
        print("against the file's labels: " + ", ".join(f"{name} {x:.3f}" for name, x in score(y, labels).items()))

    def write_csv(path):
        columns = {} if tables.sample_names is None else {"sample": tables.sample_names}
        columns["label"] = labels
        if given.memberships:
            columns |= {f"cluster {c}": np.char.mod("%.6f", column) for c, column in enumerate(memberships.T)}
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *zip(*columns.values())])

    for what, (path, write) in ({"labels": (given.output, write_csv)} | outputs).items():
        if path:
            write(f"{path}.part")
            os.replace(f"{path}.part", path)
            print(f"{what}: {path}")


def _main(arguments=None):
    import argparse

    about = "Cluster multi-view data. Without arguments: cluster the built-in digits and draw a picture."
    parser = argparse.ArgumentParser(prog="python -m agtf", description=about)
    add, number = parser.add_argument, lambda text: text if text == "auto" else int(text)
    add("data", nargs="*", help="a .mat or .npz file, or .csv, .parquet or .feather files, one per view")
    add("-k", "--clusters", type=number, help='how many, or "auto" (default: as many as the labels in the file)')
    add("-o", "--output", help="file for the labels, or for the demo's picture")
    add("--memberships", action="store_true", help="write the memberships in all clusters beside the labels")
    add("--names", action="store_true", help="keep the names of views, features and samples that the files give")
    add("--report", metavar="FILE.html", help="write the result as a page for a browser")
    add("--save", metavar="MODEL.npz", help="write the result for agtf.load and --predict")
    add("--predict", metavar="MODEL.npz", help="labels for the data from a saved result; nothing is clustered")
    add("--seed", type=int, default=0, help="random_state (default: 0)")
    add("--show", action="store_true", help="print what the files hold and what is read, then stop")
    add("--quiet", action="store_true", help="no progress line")
    add("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    if (given.predict or not given.data) and (given.clusters or given.report or given.save):
        parser.error("-k, --report and --save are for data files that are clustered, not for --predict or the digits")
    if given.predict and not given.data:
        parser.error("--predict needs data files")
    verbose = int(not given.quiet and sys.stderr.isatty())
    try:
        if given.show:
            _show(given.data)
        elif given.data:
            _run(given, verbose)
        else:
            _demo(given.output or "agtf-digits.png", verbose)
        return 0
    except (OSError, ValueError, TypeError, MemoryError, ImportError) as error:
        print(f"agtf: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(_main())
