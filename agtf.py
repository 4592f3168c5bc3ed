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
import tempfile
import threading
import time
import warnings
from collections import Counter, namedtuple
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from html import escape
from itertools import chain, combinations
from numbers import Integral, Real
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
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix, pair_confusion_matrix
from sklearn.neighbors import NearestNeighbors
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
# 1 kernels: the loops that NumPy does not have. Each works on some rows without the interpreter's lock; what they
#   compute together, tests/naive.py does in plain words.


_AT_ONCE = 512  # rows that Algorithm 1 takes at a time: they stay in the cache between two products of matrices


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
    lanes = 32 if k < 16 and m >= 128 else 1  # else most of 32 sets would have to be looked at again
    least = np.full(lanes, -np.inf, distance.dtype)
    best = np.empty(k + 1)
    who = np.empty(k + 1, np.int32)
    for i in range(rows):
        row = distance[i]
        best[:] = np.inf
        who[:] = 0
        bound = _bound_nearest(row, k, least) if lanes > 1 else np.inf
        for lane in range(lanes):
            if least[lane] > bound:
                continue
            for j in range(lane, m, lanes):
                d = row[j]
                if d > bound or (d == best[k] and j >= who[k]):
                    continue
                at = k
                while at > 0 and (best[at - 1] > d or (best[at - 1] == d and who[at - 1] > j)):
                    best[at] = best[at - 1]
                    who[at] = who[at - 1]
                    at -= 1
                best[at] = d
                who[at] = j
                bound = min(bound, best[k])
        joined = -1  # so many have a farther one among the best
        for t in range(k + 1):
            joined += best[t] < np.inf
        farthest = best[joined] if joined >= 0 else 0.0
        equal = joined < 1 or farthest - best[0] <= 1e-6 * farthest  # less is rounding, in single precision
        if equal:
            for j in range(m):
                if row[j] < np.inf:
                    farthest = max(farthest, row[j])
        tells = joined > 0 and farthest - best[0] > 1e-6 * farthest
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
def _bound_nearest(row, k, least):
    """A bound of the (k+1)-th smallest number of a row: that of the `least` of every 32nd number, from the first on,
    from the second on, and so on. The processor takes many numbers of this pass at a time, and few of the 32 sets have
    to be looked at again: the search takes 0.7 of the time among 1000 anchors, 0.44 among 400.
    """
    lanes, whole = least.size, row.size // least.size * least.size
    for t in range(lanes):  # not least[:] = row[:lanes], whose error message takes two seconds to compile
        least[t] = row[t]
    for j in range(lanes, whole, lanes):
        piece = row[j : j + lanes]
        for t in range(lanes):
            least[t] = min(piece[t], least[t])
    for j in range(whole, row.size):
        least[j - whole] = min(row[j], least[j - whole])
    bound = -np.inf
    for t in range(lanes):
        smaller = 0
        for u in range(lanes):
            smaller += np.int32(least[u] < least[t])
        if smaller <= k:
            bound = max(bound, least[t])
    return bound


@_jit
def _to_distances(products, square, anchor_square, share, first, together):
    """Turn products x.a into squared distances |x|^2 - 2 x.a + |a|^2, and add `share` of them to `together`, which is
    new if they are the first."""
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            d = max(square[i] + anchor_square[j] - 2.0 * products[i, j], 0.0)
            products[i, j] = d
            together[i, j] = share * d if first else together[i, j] + share * d


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
def _blur(prints, widths, rows):
    """Add to the numbers of a column of some width chance ones, at most half of it, that the row's print decides."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            if widths[c] > 0.0:
                drawn = _mix(prints[i] ^ ((np.uint64(c) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)))
                rows[i, c] += widths[c] * ((drawn >> np.uint64(11)) * 2.0**-53 - 0.5)


@_jit
def _spread_out(X, chances, chosen):
    """k-means++ seeding among the columns of X (d, n): the next one is chosen in proportion to the squared distance to
    those chosen; of several trials the one that leaves the smallest sum. `chances` (seeds, trials) are numbers between
    0 and 1; the first seed is chosen among all alike. Returns the number of each column's nearest seed.
    """
    d, n = X.shape
    nearest, distance, best = np.ones(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    total, owner = float(n), np.zeros(n, np.int32)
    for t in range(chosen.size):
        least = np.inf
        for trial in range(chances.shape[1]):
            target, at = chances[t, trial] * total, 0
            while at < n - 1 and target >= nearest[at]:
                target -= nearest[at]
                at += 1
            distance[:] = 0.0
            for c in range(0, d - 3, 4):  # four at a time take three quarters of the time
                x0, x1, x2, x3 = X[c, at], X[c + 1, at], X[c + 2, at], X[c + 3, at]
                r0, r1, r2, r3 = X[c], X[c + 1], X[c + 2], X[c + 3]
                for i in range(n):
                    a0, a1, a2, a3 = r0[i] - x0, r1[i] - x1, r2[i] - x2, r3[i] - x3
                    distance[i] += a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3
            for c in range(d // 4 * 4, d):
                for i in range(n):
                    distance[i] += (X[c, i] - X[c, at]) * (X[c, i] - X[c, at])
            left = 0.0
            for i in range(n):
                left += distance[i] if t == 0 else min(nearest[i], distance[i])
            if left < least:
                least, chosen[t] = left, at
                best, distance = distance, best
        total = least
        for i in range(n):
            closer = t == 0 or best[i] < nearest[i]
            nearest[i], owner[i] = best[i] if closer else nearest[i], t if closer else owner[i]
    return owner


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
    out = np.zeros(s.size)
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


def _in_lines(m, L, kind):
    """Zeros (m, L or some more) whose rows lie in as few lines of the cache as they can: sums over edges, which meet
    the rows in any order, take three quarters of the time, in single precision two thirds."""
    shape, line = (m, -(-L // 8) * 8), 64
    room = np.zeros(np.prod(shape) * np.dtype(kind).itemsize + line, np.uint8)
    return np.ndarray(shape, kind, room, offset=-room.ctypes.data % line)


def _copied_in_lines(G, kind):
    copy = _in_lines(*G.shape, kind)
    copy[:, : G.shape[1]] = G
    return copy


@_jit
def _fill_B(index, weight, G, W, J, z, w, penalties, B):
    """B <- 2 S*G + mu' max(z, 0) - mu min(z, 0) + (rho' + rho) J - rho w, with penalties (mu, rho, mu', rho').

    J = w W unless it is given. Slice u of S moves G's slices on by u, (S*G)^(r) = sum_u S^(u) G^(r-u); what moves
    beyond the last is folded back. G may have more columns than B, of zeros. Four neighbours at a time take a quarter
    of the time; unsigned numbers of places, which can't be below 0, save another twentieth to a fifth.
    """
    rows, V, neighbours = index.shape
    L, K, wide, g = np.uint64(B.shape[1]), np.uint64(B.shape[1] // V), np.uint64(G.shape[1]), G.ravel()
    mu, rho, new_mu, new_rho = penalties
    product = np.empty(L + wide, B.dtype)
    for lo in range(0, rows, _AT_ONCE):
        hi = min(lo + _AT_ONCE, rows)
        low = J[lo:hi] if len(J) > 0 else np.dot(w[lo:hi], W)
        for i in range(lo, hi):
            product[:] = 0.0
            for u in range(V):
                moved = product[np.uint64(u) * K :]
                for t in range(0, neighbours - 3, 4):
                    s0, s1, s2, s3 = weight[i, u, t], weight[i, u, t + 1], weight[i, u, t + 2], weight[i, u, t + 3]
                    a0, a1 = np.uint64(index[i, u, t]) * wide, np.uint64(index[i, u, t + 1]) * wide
                    a2, a3 = np.uint64(index[i, u, t + 2]) * wide, np.uint64(index[i, u, t + 3]) * wide
                    for c in range(wide):
                        moved[c] += s0 * g[a0 + c] + s1 * g[a1 + c] + s2 * g[a2 + c] + s3 * g[a3 + c]
                for t in range(neighbours // 4 * 4, neighbours):
                    s0, a0 = weight[i, u, t], np.uint64(index[i, u, t]) * wide
                    for c in range(wide):
                        moved[c] += s0 * g[a0 + c]
            row, its_low = B[i], low[i - lo]
            for c in range(L):
                pull = new_mu if z[i, c] > 0.0 else -mu
                whole = product[c] + product[L + c]
                row[c] = whole + whole + pull * z[i, c] + (new_rho + rho) * its_low[c] - rho * w[i, c]


@_jit
def _fill_H(index, weight, M, W, J, share_z, share_w, B, z, w, StH):
    """B <- H = B M, then z <- H + share_z min(z, 0) and w <- H + share_w (w - J), the arguments of the next proximal
    steps; adds to StH what the rows contribute to S^T*H. Returns max |max(z, 0) - H| of every column."""
    gaps = np.zeros(len(M), B.dtype)
    for lo in range(0, len(B), _AT_ONCE):
        hi = min(lo + _AT_ONCE, len(B))
        low = J[lo:hi] if len(J) > 0 else np.dot(w[lo:hi], W)
        H = np.dot(B[lo:hi], M)
        for i in range(lo, hi):
            row, its_low = H[i - lo], low[i - lo]
            for c in range(len(M)):
                B[i, c] = row[c]
                z[i, c] = row[c] + (share_z * z[i, c] if z[i, c] < 0.0 else z[i, c] - z[i, c])
                w[i, c] = row[c] + share_w * (w[i, c] - its_low[c])
                q = z[i, c] if z[i, c] > 0.0 else z[i, c] - z[i, c]
                gaps[c] = max(gaps[c], abs(q - row[c]))
        _scatter(index[lo:hi], weight[lo:hi], H, StH)
    return gaps


@_jit
def _scatter(index, weight, H, out):
    """Add to out (m, V*K or some more) what the rows contribute to S^T*H: (S^T*H)^(v) = sum_u (S^(u))^T H^(v+u).

    Columns of out beyond V*K are of no use.
    """
    rows, V, neighbours = index.shape
    L, K, wide, total = np.uint64(H.shape[1]), np.uint64(H.shape[1] // V), np.uint64(out.shape[1]), out.ravel()
    twice = np.zeros(L + wide, H.dtype)
    for i in range(rows):
        for c in range(L):
            twice[c] = twice[L + c] = H[i, c]
        for u in range(V):
            moved = twice[np.uint64(u) * K :]
            for t in range(neighbours):
                s, a = weight[i, u, t], np.uint64(index[i, u, t]) * wide
                for c in range(wide):
                    total[a + c] += s * moved[c]


@_jit
def _gaps(z, w, W, J):
    """max |max(z, 0) - J| of every column, J = w W unless it is given: many columns at a time, in a third of the time
    that one maximum of all takes."""
    most = np.zeros(len(W), z.dtype)
    for lo in range(0, len(z), _AT_ONCE):
        hi = min(lo + _AT_ONCE, len(z))
        low = J[lo:hi] if len(J) > 0 else np.dot(w[lo:hi], W)
        for i in range(lo, hi):
            row = low[i - lo]
            for c in range(len(W)):
                q = z[i, c] if z[i, c] > 0.0 else z[i, c] - z[i, c]
                most[c] = max(most[c], abs(q - row[c]))
    return most


@cache  # because it searches the loaded libraries
def _libraries():
    return ThreadpoolController().lib_controllers


def _set_limit(library, number):
    # Newer threadpoolctl lets the thread that set OpenBLAS's limit own it; here another one may give it back.
    disown = getattr(library, "clear_controlling_thread", lambda force: None)
    disown(force=True)
    library.set_num_threads(number)
    disown(force=True)


_thread = threading.local()  # .threads that its call may use and their .pool, in threads that work for a call; .depth
_process = SimpleNamespace(calls=0, before=[], lock=threading.Lock())  # calls in all threads, limits before the first
_process.foreign = threading.Lock()  # held around scikit-learn's fits, which change the process's filters for warnings


def _forget_other_threads():
    """In a forked child only the thread that forked lives on: nobody else will end a call, or release a lock."""
    depth, calls = getattr(_thread, "depth", 0), _process.calls
    _process.calls, _process.foreign, _thread.pool = depth, threading.Lock(), None
    if calls and not depth:
        for library, number in zip(_libraries(), _process.before):
            _set_limit(library, number)
    _process.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_process.lock.acquire, after_in_parent=_process.lock.release, after_in_child=_forget_other_threads
    )


@contextmanager
def _limits(n_jobs=None):
    """For a with: n_jobs threads of ours, and BLAS and OpenMP on one, because their sums depend on the number."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and n_jobs >= -1 and n_jobs != 0):
        raise ValueError(f"n_jobs must be None, -1 or an int of at least 1, got {n_jobs!r}")
    threads = numba.config.NUMBA_NUM_THREADS if n_jobs in (None, -1) else int(n_jobs)
    outer, outer_pool = getattr(_thread, "threads", None), getattr(_thread, "pool", None)  # of a call around this one
    threads = threads if outer is None else min(threads, outer)
    with _process.lock:
        before = [library.num_threads for library in _libraries()]
        if _process.calls == 0:
            _process.before = before
        _process.calls += 1
    try:
        _thread.depth = getattr(_thread, "depth", 0) + 1
        _begin_worker(threads)
        with ThreadPoolExecutor(threads, initializer=_begin_worker) as _thread.pool:
            yield
    finally:
        _thread.threads, _thread.pool, _thread.depth = outer, outer_pool, _thread.depth - 1
        with _process.lock:
            _process.calls -= 1
            for library, mine, first in zip(_libraries(), before, _process.before):
                if library.internal_api == "openmp" and library.prefix != "vcomp":  # whose limit is each thread's own
                    _set_limit(library, mine)
                elif _process.calls == 0:
                    _set_limit(library, first)


def _begin_worker(threads=1):
    """Work for a call in this thread, with so many of ours below it, and the libraries on one."""
    _thread.threads = threads
    with _process.lock:  # forks wait for it: a child would inherit OpenBLAS's own lock, and wait for ever
        for library in _libraries():
            _set_limit(library, 1)


def _map_rows(function, n, rows=4096):
    """[function(lo, hi), ...] over fixed blocks of rows, in order, on the threads that the running call may use.

    The blocks do not depend on the number of threads, so sums over the list do not either. Plain threads, because
    every kernel and NumPy release the interpreter's lock, and because they survive forks and concurrent callers,
    which numba's own thread pools do not.
    """
    blocks = [(lo, min(lo + rows, n)) for lo in range(0, n, rows)]
    if getattr(_thread, "pool", None) is None or _thread.threads == 1 or len(blocks) < 2:
        return [function(lo, hi) for lo, hi in blocks]
    return list(_thread.pool.map(lambda block: function(*block), blocks))


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
    fft_norm="backward" leaves the DFT without a factor, as the public code of sibling methods does.

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
    if not isinstance(p, Real) or not 0 < p <= 1:
        raise ValueError(f"p must lie in (0, 1], got {p!r}")
    _check_choice("axis", axis, AXES)
    _check_choice("fft_norm", fft_norm, ("ortho", "backward"))


def _warn(message, kind=UserWarning):
    """Warn where this module was called, however deep inside it this is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and (frame.f_globals is globals() or frame.f_globals.get("__name__", "").startswith("sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


def _check_choice(name, value, choices):
    if not isinstance(value, (str, type(None))) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _whole(name, value, low, high, limits):
    """`value` as an int between low and high, which `limits` says in words."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must {limits}, got {value}")
    return int(value)


# ======================================================================================================================
# 3 views: read, checked, put in an order that depends on their contents alone, scaled row block by row block.

SCALES = ("auto", "zscore", "unit", "max", None)
_WIDE_VIEW = 100  # features of a view from which on single precision is precise enough for distances
_DIRECTIONS = 100  # at most, in which wide views are seen, and anchors are looked for
_SOUGHT = 2000  # rows, at most, in which they are sought; with all of 20,000 Noisy MNIST falls from NMI 0.83 to 0.68
_ROWS_PER_DIRECTION = 5  # at least; with 10 MSRC and digits beside noise measure alike, with 2 noise wins
# Columns of so many different numbers at most are blurred beside columns of more, unless they alone make more than this
# share of the view's different rows; 10 and 50 levels, and shares of 0.5 and 0.2, measure alike.
_LEVELS, _COMBINED = 20, 0.8
_FEW_COMMON = 10  # samples that two views share
# Views that PCA or SVD made are known by columns whose mean squared cosine is below this share of that of random
# numbers (raw views have about 1 or more, embeddings at most 0.001), measured with so many random vectors.
_ORTHOGONAL, _PROBES = 0.05, 4
_FEWEST_ROTATED, _ROUNDING = 4, 1e6  # columns, at least, that are not smaller than the largest by this factor
_NARROW = 3  # features of a view, whose rows say too little without their length
_MOSTLY_ZERO = 0.1  # share of numbers that are not 0: below, z-scores make rare ones larger than 3, and words count so
_STEEPEST = 1e6  # size over range of a sparse column, which can't be centred: squares of more drown the differences


@dataclass
class _Tables:
    """The views as tables whose rows are in one order, and what the user calls them."""

    tables: list  # (n, d_v) arrays, CSR arrays or dask arrays
    where: list  # how messages call them: views[0], or views['pixels']
    view_names: list
    feature_names: list  # of every view a list of d_v names, or None
    index: object  # of the DataFrames among them, in the order of the rows; None if there are none
    first: int = 0  # number of the first row, if they are a chunk of larger ones
    chunks: tuple | None = None  # numbers of rows in each chunk, if some tables are dask arrays
    frames: tuple = ()  # numbers of the views that are DataFrames

    @property
    def n(self):
        return self.tables[0].shape[0]

    @property
    def sample_names(self):
        """The rows' labels, None if they only count."""
        counts = self.index is not None and self.index.dtype.kind in "iu"
        if self.index is None or counts and np.array_equal(self.index, np.arange(self.n)):
            return None
        return list(map(str, self.index))


def _as_tables(views, fewest_rows=1, join="inner", feature_names=None):
    """The given views, a list or a dict of tables, as `_Tables`; a single table is a list of one."""
    _check_choice("join", join, ("inner", "outer"))
    keys = None
    if _is_mapping(views):
        keys, views = list(views), list(views.values())
    elif _is_cells(views):
        views = list(views.flat)
    elif any(hasattr(views, name) for name in ("shape", "__array__", "__dataframe__")):
        views = [views]
    elif not isinstance(views, (list, tuple)) or any(isinstance(view, (str, os.PathLike)) for view in views):
        hint = "load_views(paths) reads files"
        raise TypeError(f"views must be a list or a dict of (samples, features) tables, got {views!r:.80}: {hint}")
    elif len(views) and not hasattr(views[0], "shape") and np.ndim(views[0]) < 2:
        views = [np.asarray(views)]  # one table as a list of rows
    if len(views) == 0:
        raise ValueError("views is empty: give at least one (samples, features) table")
    where = [f"views[{key!r}]" for key in keys or range(len(views))]
    names = [f"view {v}" for v in range(len(views))] if keys is None else list(map(str, keys))
    if len(set(names)) < len(names):
        raise ValueError(f"two views have the same name: they are {', '.join(map(repr, keys))}")
    views, index = _aligned(views, where, join)
    tables = [_as_table(view, name, fewest_rows) for view, name in zip(views, where)]
    for v, table in enumerate(tables):
        if table.shape[0] != tables[0].shape[0]:
            rows = f"{where[v]} has {table.shape[0]} rows, {where[0]} has {tables[0].shape[0]}"
            turned = ". Give view.T where columns are samples" if len({x.shape[1] for x in tables}) == 1 else ""
            raise ValueError(f"{rows}: every view must describe the same samples, one per row{turned}")
    feature_names = _named_features(feature_names, names, views, tables)
    chunks = next((table.chunks[0] for table in tables if _is_dask(table)), None)
    frames = tuple(v for v, view in enumerate(views) if hasattr(view, "columns"))
    return _Tables(tables, where, names, feature_names, index, chunks=chunks, frames=frames)


def _is_cells(views):
    """Whether it is an array of tables, as a cell array of a .mat file is read."""
    cells = isinstance(views, np.ndarray) and views.dtype == object and views.size > 0
    return cells and all(getattr(cell, "ndim", 0) == 2 for cell in views.flat)


def _is_mapping(views):
    return isinstance(views, Mapping) and not sparse.issparse(views)  # whose "dok" format is a dict


def _named_features(given, view_names, views, tables):
    """Of every view the names of its features: those given in a dict by view name, or its columns' if they have any."""
    given = {} if given is None else given
    if not isinstance(given, dict) or any(np.ndim(names) != 1 for names in given.values()):
        raise TypeError(f"feature_names must be a dict of lists by view name, got {given!r}")
    given = {str(name): list(map(str, names)) for name, names in given.items()}
    for name in given:
        if name not in view_names:
            raise ValueError(f"feature_names has an unknown view {name!r}: they are {', '.join(map(repr, view_names))}")
    found = []
    for name, view, table in zip(view_names, views, tables):
        columns, d, often = list(map(str, getattr(view, "columns", []))), table.shape[1], Counter()
        for at, column in enumerate(columns):
            often[column] += 1
            while often[column] > 1 and f"{column} ({often[column]})" in columns:
                often[column] += 1
            columns[at] = column if often[column] == 1 else f"{column} ({often[column]})"
        if columns == list(map(str, range(d))) or not columns:
            columns = None  # they only count, or there are none
        names = given.get(name, columns)
        if columns is not None and name in given:
            raise ValueError(f"feature_names: {name!r} is a DataFrame with names of its own")
        if names is not None and (len(names) != d or len(set(names)) < d):
            raise ValueError(f"feature_names must be {d} different names for {name!r}, got {len(names)}")
        found.append(names)
    return found


def _aligned(views, where, join):
    """DataFrames with the same row labels in the order of the first one, and these labels.

    With join="outer" the rows are all labels that any of them has, and those that a view has not are NaN in it.
    """
    frames = {v: view for v, view in enumerate(views) if hasattr(view, "reindex") and not _is_dask(view)}
    labels = {v: frame.index for v, frame in frames.items() if hasattr(frame, "index")}
    if not labels:
        return views, None
    start, first = next(iter(labels.items()))
    if not all(index.equals(first) for index in labels.values()):
        for v, index in labels.items():
            if not index.is_unique:
                twice = index[index.duplicated()][0]
                raise ValueError(f"{where[v]} has the row label {twice!r} twice, so views can't be matched by label")
            strangers = index.symmetric_difference(labels[start], sort=False)
            if join == "outer" and len(labels) == len(views):
                first = first.union(index, sort=False)
            elif len(strangers):
                differ = f"{where[v]} and {where[start]} differ in {len(strangers)}, first {strangers[0]!r}"
                hint = 'every view must describe the same samples, unless join="outer" and all are DataFrames'
                raise ValueError(f"the row labels of {differ}: {hint}")
        views = [view.reindex(first) if v in labels else view for v, view in enumerate(views)]
    return views, first


def _is_dask(view):
    return type(view).__module__.split(".")[0] in ("dask", "dask_expr")


def _as_table(view, name, fewest_rows):
    """A view as an array, a CSR array or a dask array, of which the numbers are checked where they are."""
    if _is_dask(view):
        if not hasattr(view, "chunks"):
            kind = f"{name} is a {type(view).__name__} of Dask"
            raise TypeError(f"{kind}: give a dask array, as to_dask_array() makes one")
        if any(future.cancelled() for future in _futures(view)):
            raise ValueError(f"{name} lies with a client of Dask that was closed, or was cancelled: make it again")
        if np.isnan(view.shape).any():
            view = view.copy().compute_chunk_sizes()
    elif sparse.issparse(view):
        view = sparse.csr_array(view)
        if view.dtype.char == "g":  # a long double, in which SciPy does not compute everything
            view = view.astype(float)
        if not view.has_canonical_format:
            view = sparse.csr_array(view.tocoo())  # a copy, in which equal places are added up
    elif isinstance(view, np.ma.MaskedArray):
        view = view.astype(float).filled(np.nan)
    elif hasattr(view, "reindex") and view.ndim == 2 and not all(map(_is_plain, view.dtypes)):
        times = [column for column, kind in zip(view, view.dtypes) if getattr(kind, "kind", "O") in "mM"]
        if times:
            hint = "give times as numbers, such as days since a date"
            raise TypeError(f"{name} is not numeric (column {times[0]!r}): {hint}")
        view = view.astype(object).where(view.notna(), np.nan)  # nullable numbers, categories that are some
        texts = [column for column, x in zip(view, view.iloc[0]) if isinstance(x, str)] if len(view) else []
        name = f"{name}, column {texts[0]!r}," if texts else name
        view = view.to_numpy()
    else:
        view = np.asarray(view)
    if view.dtype.kind in "mM":
        raise TypeError(f"{name} is not numeric (dtype {view.dtype}): give times as numbers, such as days since a date")
    if np.iscomplexobj(view):
        raise ValueError(f"Complex data not supported: {name} is complex, give real and imaginary parts as columns")
    if view.dtype.kind not in "fiub" and not _is_dask(view):
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


def _is_plain(kind):
    return isinstance(kind, np.dtype) and kind.kind in "biufc"


def _fill_holes(given, mask, means=None):
    """Put the mean of the rows seen (or that in `means`, a vector per view) where one of them lacks a number."""
    seen = np.ones((given.n, len(given.tables)), bool) if mask is None else np.asarray(mask)
    _check_mask(seen, given.n, len(given.tables))
    for v, table in enumerate(given.tables):
        values = table.data if sparse.issparse(table) else table
        if values.dtype.kind != "f" or not np.isnan(values).any():
            continue
        dense = table.toarray() if sparse.issparse(table) else table
        lacks = np.isnan(dense)
        there = np.isfinite(dense) & seen[:, [v]]
        total = np.sort(np.where(there, dense, 0.0).astype(float), axis=0).sum(axis=0)  # whatever the rows' order
        mean = total / np.maximum(there.sum(axis=0), 1) if means is None else means[v]
        filled = np.where(lacks & ~lacks.all(axis=1, keepdims=True), mean, dense)
        given.tables[v] = sparse.csr_array(filled) if sparse.issparse(table) else filled


def _as_mask(mask, given):
    """The mask; a DataFrame with named columns or rows in the order of the views and samples of these names."""
    if not hasattr(mask, "columns") or _is_dask(mask):
        return mask
    columns = list(map(str, mask.columns))
    counts = [str(v) for v in range(len(columns))]
    unnamed = given.view_names == [f"view {v}" for v in counts]
    wanted = counts if unnamed and set(columns) == set(counts) else given.view_names
    if set(columns) == set(wanted) or not unnamed and columns != counts:
        mask = mask.iloc[:, _matched(wanted, columns, "the columns of mask", "of the views")]
    if given.index is not None and not mask.index.equals(given.index):
        rows, there = (list(map(str, index)) for index in (given.index, mask.index))
        if type(mask.index).__name__ != "RangeIndex":
            mask = mask.iloc[_matched(rows, there, "the rows of mask", "of the views")]
        elif set(rows) == set(there):
            raise ValueError("mask counts its rows, and the views have these numbers in another order: give it labels")
    if not mask.isna().any(axis=None) and all(kind == "boolean" for kind in mask.convert_dtypes().dtypes):
        mask = mask.astype(bool)  # nullable, or objects
    return mask.to_numpy()


def _check_mask(mask, n, V):
    if mask.shape != (n, V) or mask.dtype != bool:
        raise ValueError(f"mask must be a boolean array of shape {(n, V)}, True where a sample was seen in a view")


def _observed(given, mask):
    """Whether sample i was observed in view v, as an (n, V) array: not where the mask says so, nor in rows of NaN."""
    n, V = given.n, len(given.tables)
    seen = np.ones((n, V), bool) if mask is None else np.array(mask)
    _check_mask(seen, n, V)

    def look(v, lo, hi):
        rows, there = given.tables[v][lo:hi], seen[lo:hi, v]
        if sparse.issparse(rows):
            entries = rows.tocoo()
            at = np.flatnonzero(~np.isfinite(entries.data))
            row, column, values = entries.row[at], entries.col[at], entries.data[at]
        else:
            row, column = np.nonzero(~np.isfinite(rows))
            values = rows[row, column]
        infinite = there[row] & np.isinf(values)
        there &= np.bincount(row, np.isnan(values), hi - lo) < rows.shape[1]
        bad = infinite if infinite.any() else there[row]
        if bad.any():
            what, hint = "NaN", 'fill NaN with impute="mean", or make the whole row NaN if a sample was not seen there'
            if infinite.any():
                what, hint = "infinity", "put a number in its place, or NaN"
            first = f"first in row {row[bad][0] + given.first + lo}, column {column[bad][0]}"
            raise ValueError(f"{given.where[v]} contains {what} in {len(np.unique(row[bad]))} row(s), {first}: {hint}")

    for v in range(V):
        _map_rows(partial(look, v), n)
    nowhere = np.flatnonzero(~seen.any(axis=1))
    if len(nowhere):
        first = nowhere[0] + given.first
        raise ValueError(f"{len(nowhere)} sample(s) were seen in no view, first sample {first}: leave them out")
    return seen


@dataclass
class _Scaling:
    """How one view is scaled: (x - shift) * factor per column, then rows of length 1 if "unit", less `centre`."""

    name: str | None  # of SCALES
    factor: np.ndarray  # (features,)
    shift: np.ndarray | None  # (features,), None for a sparse view, whose zeros must stay zeros
    centre: np.ndarray | None = None  # (features,): distances are the same without it, and exact where values are large
    weight: float = 1.0  # of the view among the joint features: 1 / the root of the variance of all its features
    directions: np.ndarray | None = None  # (features, fewer), in which a wide view is seen after all that
    widths: np.ndarray | None = None  # (features,): numbers are blurred by half of them to either side, before all that

    def __call__(self, rows):
        return self.with_squares(rows)[0]

    def with_squares(self, rows):
        """Scaled rows and their squared lengths. Wide dense rows are in single precision: errors average out."""
        if sparse.issparse(rows):
            data, row = rows.data * self.factor[rows.indices], np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            if self.name == "unit":
                length = np.sqrt(np.bincount(row, data**2, rows.shape[0]))
                data /= np.where(length > 0, length, 1.0)[row]
            scaled = sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)
            return scaled, np.bincount(row, data**2, rows.shape[0])
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(float)
        if self.widths is not None:
            with np.errstate(over="ignore"):  # of numbers that single precision has not; the kernel, if not compiled
                prints, rows = _fingerprints(rows.astype(np.float32)), rows.astype(float, order="C")
                _blur(prints, self.widths, rows)
        scaled = np.empty(rows.shape, np.float32 if rows.shape[1] > _WIDE_VIEW else np.float64)
        centre = np.zeros(rows.shape[1]) if self.centre is None else self.centre
        square = _scale_rows(np.ascontiguousarray(rows), self.shift, self.factor, self.name == "unit", centre, scaled)
        if self.directions is not None:
            scaled = scaled @ self.directions
            square = np.einsum("ij,ij->i", scaled, scaled, dtype=float)
        return scaled, square

    def refine(self, mean, square):
        """Finish a `_first_scaling` with the means of the rows, so scaled, and of their squares."""

        def rounded(x, size):
            # To 36 binary digits of this size, so that sums in another order give the same scaling, not one like it.
            unit = np.ldexp(1.0, np.frexp(size)[1] - 36)
            return np.round(x / unit) * unit

        variance = np.maximum(square - mean**2, 0.0)
        spread = rounded(variance.sum(), square.sum())
        if self.name == "zscore":
            varies = (self.factor > 0) & (variance > 1e-20)
            if self.shift is not None:
                width = np.divide(1.0, self.factor, out=np.zeros_like(mean), where=varies)
                self.shift = self.shift + rounded(mean, np.sqrt(variance)) * width
            deviation = np.sqrt(np.where(varies, rounded(variance, variance), 1.0))
            self.factor = np.where(varies, self.factor / deviation, 0.0)
            spread = varies.sum()
        elif self.centre is not None:
            self.centre = rounded(self.centre + mean, np.sqrt(spread))
        self.weight = 1.0 / np.sqrt(spread) if spread > 0 else 0.0


def _first_scaling(scale, extent, dtype, name):
    """A view's scaling, as far as its extent goes: to numbers whose moments neither overflow nor cancel."""
    (below, high), (filled, size, sparse_blocks, dense_blocks) = extent
    low, top, is_sparse = -below, max(below.max(), high.max()), sparse_blocks > 0
    if is_sparse and dense_blocks:
        raise TypeError(f"{name} has sparse and dense chunks: make them alike")
    if scale in ("auto", "other"):
        mostly_zero = low.min() >= 0 and filled < _MOSTLY_ZERO * size
        by_direction = is_sparse or mostly_zero or scale == "other"
        scale = "unit" if by_direction and len(low) > _NARROW else "zscore"
    precise = is_sparse or len(low) <= _WIDE_VIEW
    most = 1e305 if scale is not None else 1e150 if precise else 1e15  # whose squares are in single precision
    if top > most:
        hint = 'use scale="auto"' if top <= 1e305 else "rescale it"
        raise ValueError(f"{name} has values as large as {top:.1e}, too large to square: {hint}")
    if scale is None and 0 < top < 1 / most:
        raise ValueError(f'{name} has no value above {top:.1e}, too small to square: use scale="auto"')
    steep = np.flatnonzero((high > low) & (np.maximum(high, below) > _STEEPEST * (high - low)))
    if is_sparse and len(steep):
        narrow = f"the values of column {steep[0]} of {name} differ by less than a millionth of their size"
        raise ValueError(f"{narrow}, and a sparse view can't be centred: give it as a dense array")
    if scale == "zscore":
        width, shift = high - low, low
    else:
        width, shift = np.full(len(low), top if scale in ("unit", "max") and top > 0 else 1.0), np.zeros(len(low))
    varies = width > np.finfo(float).tiny
    if scale == "zscore":  # a column of sums that are all 1 but for rounding does not vary
        rounding = np.finfo(dtype if dtype in (np.float32, np.float64) else float).eps
        varies &= width > 8 * rounding * np.maximum(high, below)
    factor = np.where(varies, 1.0 / np.where(varies, width, 1.0), 0.0)
    scaling = _Scaling(scale, factor, None if is_sparse else shift)
    if not is_sparse and scale != "zscore":
        scaling.centre = scaling((low / 2 + high / 2)[None])[0]  # moments about the middle do not cancel either
    return scaling


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
    rows: np.ndarray
    slots: np.ndarray
    seen: np.ndarray | None  # (n, V): whether a row was observed in a view; None if all were
    schemes: list = field(default_factory=list)
    distinct: np.ndarray | None = None  # one position for every different row

    @property
    def n(self):
        return len(self.rows)

    def observed(self, positions):
        """Whether rows were seen in each view, (rows, V)."""
        if self.seen is not None:
            return self.seen[positions]
        return np.ones((len(self.rows[positions]), len(self.slots)), bool)

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
        """All scaled views side by side, times their weights; what a wide view is seen without counts as nothing."""
        weights = [scaling.weight for scaling in self.schemes[scheme].scalings]
        parts = [weight * self.scaled(v, positions, scheme) for v, weight in enumerate(weights)]
        return sparse.hstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.hstack(parts)


def _arrange(given, mask, canonical, schemes):
    """Check the values, choose the working order, fit the scalings; `schemes` are pairs (a word per view, draws).

    The canonical order sorts views and rows by fingerprints of their contents, so that whatever follows, sums and
    random draws included, cannot depend on the order in which they were given.
    """
    prints, seen, facts = _look((given, mask))
    words = schemes[0][0]
    slots, schemes, counts = _agreed([facts], given, schemes, canonical)
    keys = _keys(prints, slots)
    rows = np.argsort(keys, kind="stable") if canonical else np.arange(given.n)
    tables, seen = [given.tables[slot] for slot in slots], seen[rows][:, slots]
    _refine(schemes, [_moments_of(schemes, tables, [rows[some] for some in seen.T])], counts)
    data = _Data(tables, rows, slots, None if seen.all() else seen, schemes, _distinct(keys[rows]))
    # The beginning is a random sample in the canonical order only.
    some = np.arange(min(data.n, _SAMPLE)) if canonical else np.arange(0, data.n, -(-data.n // _SOUGHT))
    _blur_levels(data, words, some)
    return _in_leading_directions(data, words, some)


def _blur_levels(data, words, some):
    """In views that "auto" z-scores, columns of few levels beside columns of more are blurred where samples share their
    levels: half a step to either side, at most a standard deviation. Not in wide views, where distances are smooth.

    So counts, flags and answers stand for the intervals around them. Else the nearest rows have the same levels, and
    every combination of these looks like a cluster of its own (ages, children and income: ARI 0.55 to 0.97).
    """
    for v, slot in enumerate(data.slots):
        seen, scaling = some if data.seen is None else some[data.seen[some, v]], data.schemes[0].scalings[v]
        dense = words[slot] == "auto" and scaling.name == "zscore" and scaling.shift is not None
        if not dense or len(scaling.factor) > _WIDE_VIEW:
            continue
        X = data.scaled(v, seen[:_SOUGHT]).astype(np.float32)  # in which numbers do not differ by rounding
        gaps = np.diff(np.sort(X, axis=0), axis=0)
        levels = 1 + np.count_nonzero(gaps, axis=0)
        few = (levels > 1) & (levels <= _LEVELS)
        combined, different = (len(np.unique(_fingerprints(columns))) for columns in (X[:, few], X))
        if not few.any() or combined > _COMBINED * different:  # as it is, too, where all columns have few levels
            continue
        steps, widths = np.where(gaps[:, few] > 0, gaps[:, few], np.nan), np.zeros(len(few))
        widths[few] = np.minimum(np.nanmedian(steps, axis=0), 2) / scaling.factor[few]
        for scaling in (scheme.scalings[v] for scheme in data.schemes):
            if scaling.name == "zscore":  # rows of zeros, which have no direction, must stay so
                scaling.widths = widths
                scaling.factor = scaling.factor / np.sqrt(1 + (widths * scaling.factor) ** 2 / 12)


def _in_leading_directions(data, words, some):
    """The data, wide views that are z-scored by "auto" seen in few directions, those of most variance in some rows.

    The rest is mostly noise: without it distances say more (Noisy MNIST: NMI 0.69 to 0.81; 400 digits beside 500
    columns of noise: ACC 0.15 to 0.70) and cost less. Of mostly-zero views, such as words, every feature counts.
    """
    for v, slot in enumerate(data.slots):
        seen = some if data.seen is None else some[data.seen[some, v]]
        few = min(_DIRECTIONS, len(seen) // _ROWS_PER_DIRECTION)
        if words[slot] == "auto" and data.tables[v].shape[1] > 2 * few > 2:
            for i, scheme in enumerate(data.schemes if data.schemes[0].scalings[v].name == "zscore" else []):
                X = data.scaled(v, seen[:_SOUGHT], i)
                scheme.scalings[v].directions = randomized_svd(X, few, n_iter=2, random_state=0)[2].T
    return data


def _fingerprints(rows):
    """A number for every row of a block, dense or CSR, that its contents make."""
    (n, d), prints = rows.shape, np.empty(rows.shape[0], np.uint64)
    if sparse.issparse(rows):
        values, columns, starts = rows.data.astype(float), rows.indices, rows.indptr
    else:
        values = np.ascontiguousarray(rows, float)
        columns, starts = np.tile(np.arange(d, dtype=np.int32), n), np.arange(n + 1) * d
    with np.errstate(over="ignore"):  # for the kernel without the compiler
        _fingerprint(values.view(np.uint64).ravel(), columns, starts, prints)
    return prints


def _look(source):
    """Of views and their mask the rows' fingerprints, where they were seen, and three facts that chunks have to merge:
    how many rows two views have in common, a number for every view (to be added up), its extent."""
    given, mask = source
    seen = _observed(given, mask)

    def look(table, there, lo, hi):
        rows, some = table[lo:hi], there[lo:hi]
        is_sparse, d, prints = sparse.issparse(rows), rows.shape[1], _fingerprints(rows)
        # The extent: the largest of -x and of x in each column; counts of numbers that are not 0, of all, of blocks.
        reach, counts = np.full((2, d), -np.inf), np.zeros(4, int)
        if some.any():
            rows = rows[some]
            low, high = (x.toarray().ravel() if is_sparse else x for x in (rows.min(axis=0), rows.max(axis=0)))
            reach[:] = -low.astype(float), high
            counts[:] = rows.nnz if is_sparse else np.count_nonzero(rows), some.sum() * d, is_sparse, not is_sparse
        return np.where(some, prints, np.uint64(1)), reach, counts

    found = [zip(*_map_rows(partial(look, *pair), given.n)) for pair in zip(given.tables, seen.T)]
    prints, *extents = zip(*((np.concatenate(f), np.max(reach, axis=0), sum(counts)) for f, reach, counts in found))
    together = _mix(np.sum([_mix(f) for f in prints], axis=0, dtype=np.uint64))
    view_prints = np.array([np.sum(_mix(f ^ together), dtype=np.uint64) for f in prints])
    return prints, seen, (seen.T.astype(int) @ seen, view_prints, *extents)


def _agreed(facts, given, schemes, canonical=True):
    """From the facts of all chunks: the views' order, `_Scheme`s with scalings that have still to be refined, and how
    many rows were seen in every view. Views that few samples connect with the others are worth a warning."""
    common, view_prints, reaches, counts = zip(*facts)
    common, where = sum(common), given.where
    if common.min() < given.n:
        unseen = np.flatnonzero(common.diagonal() == 0)
        if len(unseen):
            raise ValueError(f"{where[unseen[0]]} was observed in no sample: leave it out")
        pieces, piece = connected_components(common > 0)
        if pieces > 1:
            apart = f"{where[np.flatnonzero(piece != piece[0])[0]]} has no sample in common with {where[0]}"
            raise ValueError(f"{apart}, not even through other views: leave it out")
        links = np.where(np.eye(len(common)), 0, common).max(axis=1)
        if links.min() < _FEW_COMMON:
            few = f"{where[links.argmin()]} has only {links.min()} sample(s) in common with any other view"
            _warn(f"{few}: how its clusters match theirs rests on these")
    slots = np.argsort(np.sum(view_prints, axis=0, dtype=np.uint64), kind="stable") if canonical else range(len(where))
    found, extents = [], [(np.max(reach, axis=0), sum(count)) for reach, count in zip(zip(*reaches), zip(*counts))]
    for words, draws in schemes:
        scalings = [_first_scaling(words[slot], extents[slot], given.tables[slot].dtype, where[slot]) for slot in slots]
        if found and [x.name for x in scalings] == [x.name for x in found[-1].scalings]:
            found[-1].draws += draws  # "auto" has chosen the same
        else:
            found.append(_Scheme(scalings, draws))
    return np.array(slots), found, common.diagonal()[slots]


def _moments_of(schemes, tables, rows):
    """Of every scheme's every view the sums of these rows of it, so scaled, and of their squares, (2, d) each.

    Below them, where z-scores are wanted, X^T X r of the rows without a shift, for some `_probes` r.
    """

    def moments(scaling, table, rows, lo, hi):
        block = scaling(table[rows[lo:hi]])
        total = np.stack([x.sum(axis=0, dtype=float) for x in (block, block**2)])
        if scaling.name != "zscore" or scaling.shift is None:
            return total
        whole = block + scaling.shift * scaling.factor
        return np.vstack([total, (whole.T @ (whole @ _probes(scaling))).T])

    every = [one for scheme in schemes for one in zip(scheme.scalings, tables, rows)]
    return [sum(_map_rows(partial(moments, *one), len(one[2]))) for one in every]


def _refine(schemes, moments, counts):
    """Finish the schemes with the `_moments_of` all chunks, over so many rows of each view."""
    scalings = [scaling for scheme in schemes for scaling in scheme.scalings]
    rotated = []
    for scaling, total, n in zip(scalings, _sums(moments), np.tile(counts, len(schemes))):
        rotated.append(len(total) > 2 and _is_rotated(scaling, total / n, n))
        scaling.refine(*(total[:2] / n))
    if len(schemes) == 2:
        _swap_scalings(*schemes, rotated)


def _probes(scaling):
    """Random signs (d, some), to ask a matrix about its entries without making it; 0 for columns that are rounding."""
    signs = np.random.RandomState(0).choice([-1.0, 1.0], size=(len(scaling.factor), _PROBES))
    widest = scaling.factor.min(where=scaling.factor > 0, initial=np.inf)
    return signs * ((scaling.factor > 0) & (scaling.factor < _ROUNDING * widest))[:, None]


def _is_rotated(scaling, moments, n):
    """Whether the columns are orthogonal, far more so than chance leaves random numbers: PCA or SVD made them.

    Their cosines times random vectors, less these vectors, show the mean of their squares, 1 / n by chance.
    """
    (mean, square, *images), offset, probes = moments, scaling.shift * scaling.factor, _probes(scaling)
    size = np.sqrt(np.maximum(square + 2 * mean * offset + offset**2, np.finfo(float).tiny))[:, None]
    some, probes = probes[:, 0] != 0, size * probes
    apart = (np.transpose(images) / size - probes)[some]
    chance = (some.sum() - 1) / n * np.square(probes).sum()
    around = (scaling.shift < 0).any()  # columns of yes and no may be orthogonal, too, but are never negative
    return some.sum() >= _FEWEST_ROTATED and around and np.square(apart).sum() < _ORTHOGONAL * chance


def _swap_scalings(first, second, rotated):
    """Of views whose columns are principal directions, whose sizes say how much they matter, fewer draws see z-scores.

    Most see unit rows; not all, because a big cluster about the mean has no direction, and small ones get lost.
    """
    for v, (scaling, unit) in enumerate(zip(first.scalings, second.scalings)):
        if rotated[v] and unit.name == "unit":
            first.scalings[v], second.scalings[v] = unit, scaling


def _sums(parts):
    """The sums of lists or tuples of arrays, in their order."""
    return [sum(some) for some in zip(*parts)]


def _keys(prints, slots):
    """One number per row for all views."""
    return reduce(lambda keys, slot: _mix(keys + prints[slot]), slots, np.uint64(0))


def _distinct(keys):
    """The first position of every different row."""
    return np.sort(np.unique(keys, return_index=True)[1])


# ======================================================================================================================
# 4 anchors and graphs: every view as n x k indices and weights of nearest anchors, in blocks of rows.

ANCHORS = ("medoid", "vda", "random")
_POOL = 5  # rows per anchor, among which anchors are looked for
_LLOYD_STEPS = 2
# So many rows per cluster suffice for anchors: those seen in most views, because half-seen ones can be compared with
# few (HandWritten4, 30 % missing: 0.85 to 0.94).
_COMPLETE = 10
_STRANGERS, _COMPARED = 0.15, 500  # a share of rows that are like no others, and how many rows are compared
_PIECE = 256  # rows whose distances to all anchors are in memory, better in the cache, at a time


@dataclass
class _Block:
    """Rows lo..hi of the data in working order, with all that belongs to them."""

    data: _Data
    lo: int
    hi: int
    first: int = 0  # number of the data's first row, if they are a chunk of larger ones
    index: np.ndarray | None = None  # (rows, slices, neighbours) int32: S[i, index[i, v, t], v] = weight[i, v, t]
    weight: np.ndarray | None = None  # the same shape
    told: np.ndarray | None = None  # (rows, slices): whether a view tells anything about a row; if not, the others do
    S: np.ndarray | None = None  # the weights as the solver sees them
    labels: np.ndarray | None = None
    H: np.ndarray | None = None  # (rows, slices * k), the state of Algorithm 1; B2 on the way to the next H
    z: np.ndarray | None = None
    w: np.ndarray | None = None
    J: np.ndarray | None = None  # where it is not w W: with the DFT over the samples
    by_H: np.ndarray | None = None  # labels by H alone, without the anchors' help; -1 for none
    memberships: np.ndarray | None = None

    @property
    def rows(self):
        return slice(self.lo, self.hi)

    def pieces(self, size):
        """Slices of the block's rows, small enough for the cache."""
        return [slice(lo, min(lo + size, self.hi - self.lo)) for lo in range(0, self.hi - self.lo, size)]

    def __sizeof__(self):
        """For Dask, which leaves large things where they are, and puts them on disk when memory is short."""
        return 1000 + sum(getattr(x, "nbytes", 0) for x in vars(self).values())


class _Rows:
    """All rows in blocks. A step is a function of a block; what it returns is small, and added in a fixed order.

    The blocks depend on n alone, so nothing depends on the number of threads.
    """

    def __init__(self, data, first=0):
        self.data, self.near = data, self  # near rows are those at hand: here all, with Dask some
        self.numbers = getattr(data, "rows", None)  # of the given samples
        size = min(max(data.n // 8, 512), 8192)
        self.blocks = [_Block(data, lo, min(lo + size, data.n), first) for lo in range(0, data.n, size)]

    @property
    def kind(self):
        """The precision of the state."""
        return self.blocks[0].H.dtype

    def run(self, step, small, within, across, reads=None):
        """Take a step; its results are put together by `within` in a chunk, by `across` those of the chunks of Dask.

        `reads` is for Dask: "views", "graph" for what was there before `settle`, or None.
        """
        return within(_map_rows(lambda b, _: step(self.blocks[b], *small), len(self.blocks), rows=1))

    def map(self, step, *small, reads=None):
        """[step(block, *small), ...]"""
        return self.run(step, small, list, lambda parts: sum(parts, []), reads)

    def sum(self, step, *small):
        return self.run(step, small, sum, sum)

    def gather(self, name):
        return np.concatenate(self.map(attrgetter(name)))

    def spread(self, name, whole):
        self.map(lambda block: setattr(block, name, whole[block.first + block.lo : block.first + block.hi]))

    def join(self, anchors, show=None):
        """Give the blocks their graphs, in one piece of memory for all: the system gets back large pieces only."""
        for name, kind in ("index", np.int32), ("weight", np.float32):
            self.spread(name, np.empty((self.data.n, *anchors.edges), kind))
        self.map(_join, anchors, show)

    def take(self, name, at):
        """What the blocks know about the rows at these positions: integers."""

        def known(block):
            place = at - block.first - block.lo
            here = (place >= 0) & (place < block.hi - block.lo)
            return np.where(here, getattr(block, name)[np.where(here, place, 0)], 0)

        return self.sum(known)

    def head(self, n):
        """The first n rows as one block with its graph: in the canonical order a random sample."""
        some = [block for block in self.blocks if block.lo < n]
        index, weight = (np.concatenate([getattr(b, name) for b in some])[:n] for name in ("index", "weight"))
        return _Block(self.data, 0, min(n, self.data.n), index=index, weight=weight)

    def outcome(self, slices, k):
        """What belongs to the samples, in their given order, for the `Result`."""
        inverse, labels = np.argsort(self.data.rows), self.gather("labels")
        graph = {f"_{name}": _handed_over(self, name, slices) for name in ("index", "weight", "told")}
        memberships, profile = _handed_over(self, "memberships", np.arange(k)), _profile(self.data, labels, k)
        return dict(labels=labels[inverse], memberships=memberships, _profile=profile, **graph)


# ---- the same on Dask ------------------------------------------------------------------------------------------------


def _dask(name, *arguments, **options):
    """dask.name(...): the package is imported when dask arrays are given."""
    import dask

    return getattr(dask, name)(*arguments, **options)


def _futures(*kept):
    """What a cluster keeps for dask arrays or for tasks."""
    return sys.modules["distributed"].futures_of(kept) if "distributed" in sys.modules else []


def _as_dask(parts, chunks, width, kind):
    """A dask array from tasks, one for each chunk that has rows."""
    import dask.array

    rows = [n for n in chunks if n]
    arrays = [dask.array.from_delayed(part, (n, *width), kind) for part, n in zip(parts, rows)]
    whole = dask.array.concatenate(arrays) if rows else dask.array.zeros((0, *width), kind)
    return whole.rechunk({0: chunks})


def _sources(given, mask):
    """Of every chunk with rows a task that reads its views and mask, anew for every step that asks for them."""
    rows, tables, where = tuple(n for n in given.chunks if n), given.tables, given.where
    firsts, parts = np.cumsum(rows, dtype=int) - rows, []
    if mask is not None:
        mask = _as_table(mask, "mask", 0)
        _check_mask(mask, given.n, len(tables))
        tables, where = [*tables, mask], [*where, "mask"]
    for table in tables if rows else []:
        if _is_dask(table):
            parts.append(table.rechunk({0: rows, 1: -1}).to_delayed().ravel())
        else:
            pieces = (table[first : first + n] for first, n in zip(firsts, rows))
            parts.append(_dask("persist", *(_dask("delayed", piece, traverse=False) for piece in pieces)))
    shapes = [[(n, table.shape[1]) for table in tables] for n in rows]
    every = zip(zip(*parts), shapes, firsts.tolist())
    return [_dask("delayed", _opened)(list(part), *one, where, len(given.tables)) for part, *one in every]


def _opened(parts, shapes, first, where, V):
    """On a worker: the views of the chunk that begins with row `first`, and their mask."""
    tables = [_as_table(part, name, 0) for part, name in zip(parts, where)]
    for table, shape, name in zip(tables, shapes, where):
        if table.shape != shape:
            wrong = f"the chunk of {name} from row {first} on has shape {table.shape}, not {shape} as announced"
            raise ValueError(f"{wrong}: call compute_chunk_sizes() on the dask array first")
    return _Tables(tables[:V], where[:V], [], [], None, first), tables[V] if len(tables) > V else None


class _DaskRows(_Rows):
    """The same for rows in the chunks of dask arrays, in the order in which they were given.

    A step is one task per chunk, which hands on a changed copy of the chunk's blocks, and a tree of tasks that puts the
    small results together in a fixed order. On a cluster all of this happens on the workers: only what steps are given
    and what they return travels. Of an order that depends on the rows' contents just the beginning is needed: these
    rows, `near`, are fetched, and anchors and the start come from them as they do in memory.
    """

    kind = np.dtype(np.float32)

    def __init__(self, given, mask, s):
        self.given, self.sources, self.graphs = given, _sources(given, mask), []
        looked = _dask("persist", *[_dask("delayed", _on_one_thread)(_look, source) for source in self.sources])
        facts = _dask("compute", *[_dask("delayed", itemgetter(2))(one) for one in looked])
        slots, schemes, counts = _agreed(facts, given, s.schemes)
        firsts = np.cumsum([0, *filter(None, given.chunks)])[:-1].tolist()

        def pick(looked, first):
            seen = looked[1][:, slots]
            return _smallest(_keys(looked[0], slots), seen, np.arange(first, first + len(seen)), *wanted)

        wanted = _SAMPLE, max(_POOL * s.m, _COMPLETE * s.k)
        picked = _dask("compute", *[_dask("delayed", pick)(*one) for one in zip(looked, firsts)])
        keys, seen, numbers = _smallest(*map(np.concatenate, zip(*picked)), *wanted)
        shared = _dask("delayed", (slots, schemes, numbers), traverse=False)
        tasks = [_dask("delayed", _on_one_thread)(_fetch, *one, shared) for one in zip(self.sources, looked)]
        tables, moments = zip(*_dask("compute", *tasks))
        _refine(schemes, moments, counts)
        tables = [sparse.vstack(x, format="csr") if sparse.issparse(x[0]) else np.concatenate(x) for x in zip(*tables)]
        order = np.argsort(keys, kind="stable")
        seen = None if min(counts) == given.n else seen[order]
        near = _Data(tables, order, slots, seen, schemes, _distinct(keys[order]))
        _blur_levels(near, s.schemes[0][0], np.arange(min(given.n, _SAMPLE)))
        _in_leading_directions(near, s.schemes[0][0], np.arange(min(given.n, _SAMPLE)))
        self.near, self.numbers = _Rows(near), numbers[order]
        self.data = SimpleNamespace(n=given.n, rows=slice(None), slots=slots, seen=seen, distinct=near.distinct)
        bare = _dask("delayed", replace(near, tables=[], distinct=None), traverse=False)
        self.states = [_dask("delayed", _begun)(*one, bare) for one in zip(looked, firsts)]

    def run(self, step, small, within, across, reads=None):
        step = _dask("delayed", (step, small, within, reads), traverse=False)
        beside = {"views": self.sources, "graph": self.graphs}.get(reads, [None] * len(self.states))
        states = [_dask("delayed", _on_one_thread)(_stepped, step, *pair) for pair in zip(self.states, beside)]
        parts = [_dask("delayed", itemgetter(1))(state) for state in states]
        while len(parts) > 1:
            parts = [_dask("delayed", across)(parts[i : i + 8]) for i in range(0, len(parts), 8)]
        *self.states, result = _dask("persist", *states, *parts)
        del states, parts  # which hold the states of before
        try:
            return _dask("compute", result)[0]
        except BaseException:  # an interrupt or a fault; notebooks keep the frame, and with it all that was begun
            for future in _futures(result, *self.states, *self.graphs):
                future.cancel()
            raise

    def take(self, name, at):
        return super().take(name, self.numbers[at])

    def join_others(self, anchors):
        self.map(_join, anchors, reads="views")
        self.graphs = self.states

    def settle(self):
        """Leave the weights, of which the solver has its own, to the graph that was put aside; shorten the indices."""

        def slim(block):
            block.weight = None
            if block.index.max() < 2**16:
                block.index = block.index.astype(np.uint16)

        self.map(slim)

    def outcome(self, slices, k):
        def part(chunk, name):
            return np.concatenate([getattr(block, name) for block in chunk[0]])

        profile = self.run(_block_moments, (k,), _pooled_views, _pooled_views, "views")
        found = dict(_profile=profile, _index=None, _weight=None, _told=None, _sources=self.sources)
        for name, width, kind in (("labels", (), np.intp), ("memberships", (k,), float)):
            parts = _dask("persist", *[_dask("delayed", part)(state, name) for state in self.states])
            found[name] = _as_dask(parts, self.given.chunks, width, kind)
        return found


def _on_one_thread(function, *arguments):
    """On a worker, which is one of many threads or processes."""
    with _limits(1):
        return function(*arguments)


def _smallest(keys, seen, numbers, sample, pool):
    """The `sample` rows with the smallest keys and, for any number of views, the `pool` first different ones that were
    seen in so many: what `_choose_anchors` and `_find_labels` look at. The arrays without the others."""
    order, seen_in, different = np.argsort(keys, kind="stable"), seen.sum(axis=1), np.unique(keys, return_index=True)[1]
    pools = [different[seen_in[different] >= least][:pool] for least in range(1, seen.shape[1] + 1)]
    best = np.unique(np.concatenate([order[:sample], *pools]))
    return keys[best], seen[best], numbers[best]


def _fetch(source, looked, shared):
    """Of every view those rows of a chunk that have these numbers, and the moments that the scalings need."""
    (given, _), (slots, schemes, numbers) = source, shared
    tables, here = [given.tables[slot] for slot in slots], numbers - given.first
    here = here[(here >= 0) & (here < given.n)]
    return [x[here] for x in tables], _moments_of(schemes, tables, [np.flatnonzero(looked[1][:, v]) for v in slots])


def _begun(looked, first, bare):
    """The blocks of a chunk, about which nothing is known yet but where they were seen."""
    seen = None if bare.seen is None else looked[1][:, bare.slots]
    return _Rows(replace(bare, rows=np.arange(len(looked[1])), seen=seen), first).blocks, None


# The arrays that steps write into: a copy of a block needs its own.
_WRITTEN = {"_form_B": ("H",), "_form_H": ("H", "z", "w"), "_prune_filled": ("S",)}


def _stepped(shared, chunk, beside):
    """A chunk's blocks after a step, and its result. Those before stay, and are needed again if these get lost."""
    step, small, within, reads = shared
    written, bare = _WRITTEN.get(getattr(step, "__name__", None), ()), chunk[0][0].data
    data = replace(bare, tables=[beside[0].tables[slot] for slot in bare.slots]) if reads == "views" else bare
    blocks = [replace(b, data=data, **{name: getattr(b, name).copy() for name in written}) for b in chunk[0]]
    if reads == "graph":
        for block, known in zip(blocks, beside[0]):
            block.index, block.weight = known.index, known.weight
    result = within(step(block, *small) for block in blocks)
    for block in blocks:
        block.data = bare
    return blocks, result


def _block_moments(block, k):
    """Of every given view the `_moments` of the block's rows that were seen there."""
    data, moments = block.data, [None] * len(block.data.tables)
    for v, slot in enumerate(data.slots):
        some = np.flatnonzero(data.observed(block.rows)[:, v])
        moments[slot] = _moments(data.tables[v][block.lo + some], block.labels[some], k)
    return moments


def _pooled_views(moments):
    """One after the other, because those of a wide view are as large as many of its rows."""
    return reduce(lambda total, more: [_pooled(pair) for pair in zip(total, more)], moments)


def _choose_anchors(data, s, rng):
    """Positions of the anchors, the same samples in every view, draw after draw, ascending in each; fixes the draws."""
    if not isinstance(s.anchors, str):
        return np.argsort(data.rows)[s.anchors]
    if s.anchors == "vda":
        return _vda(data, s.m)
    pool = data.distinct
    if data.seen is not None:
        pool = pool[data.seen[pool].sum(axis=1) >= _views_needed(data, pool, _COMPLETE * s.k)]
    if s.in_given_order:  # else it is in the canonical order, and its beginning a random sample
        pool = rng.permutation(pool)
    pool = np.sort(pool[: _POOL * s.m])
    if s.m >= len(pool):
        pool = pool if len(pool) > 1 else np.arange(2)
        for scheme in data.schemes:
            scheme.draws = 1  # another draw would be the same
        return np.tile(pool, len(data.schemes))
    seeds = rng.randint(2**31 - 1, size=len(data.schemes))
    return np.concatenate([_draw_anchors(data, pool, s, scheme, seed) for scheme, seed in enumerate(seeds)])


def _views_needed(data, rows, fewest):
    """The largest number of views in which at least so many of the rows were seen, and which leaves no cluster out."""
    seen_in = data.seen[rows].sum(axis=1)
    least = max((least for least in range(2, data.seen.shape[1] + 1) if (seen_in >= least).sum() >= fewest), default=1)
    while least > 1 and _share_of_strangers(data, rows[rows < _SAMPLE], least) > _STRANGERS:
        least -= 1
    return least


def _share_of_strangers(data, rows, least):
    """The share of the rows seen in fewer than `least` views that lie farther, in these, from the others than all but a
    twentieth of the others lie from each other: many are of a cluster that some view has not seen (ARI 0.65 to 0.99).
    """
    seen, far = data.seen[rows], []
    complete = seen.sum(axis=1) >= least
    asked = np.flatnonzero(~complete)
    asked = asked[:: max(len(asked) // _COMPARED, 1)][:_COMPARED]
    patterns, which = np.unique(seen[asked], axis=0, return_inverse=True)
    for number, views in enumerate(map(np.flatnonzero, patterns)):
        some = rows[asked[which.ravel() == number]]
        others = rows[complete & seen[:, views].all(axis=1)][:_COMPARED]
        if len(others) >= 20:  # of fewer nobody knows what a twentieth is
            parts = [[data.scaled(v, at) * data.schemes[0].scalings[v].weight for v in views] for at in (others, some)]
            others, some = (sparse.hstack(x, "csr") if any(map(sparse.issparse, x)) else np.hstack(x) for x in parts)
            near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(others)
            far.extend(near.kneighbors(some)[0].ravel() > np.quantile(near.kneighbors()[0], 0.95))
    return np.mean(far) if far else 0.0


def _draw_anchors(data, pool, s, scheme, seed):
    """Positions of a scheme's anchors among the pool, spread over the joint features by k-means++ seeding."""
    rng, draws = np.random.RandomState(seed), data.schemes[scheme].draws
    if s.anchors == "random":
        return np.concatenate([np.sort(rng.choice(pool, s.m, replace=False)) for _ in range(draws)])
    X = data.joint(pool, scheme)
    if min(X.shape) > _DIRECTIONS:  # the search then costs the same for any width
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
    nearest = _spread_out(np.ascontiguousarray(X.T), np.random.RandomState(seed).uniform(size=(m, 1)), seeds)
    centres = X[seeds]
    for _ in range(_LLOYD_STEPS):
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

    scalings = [replace(scaling, centre=None, directions=None, widths=None) for scaling in data.schemes[0].scalings]

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

    @property
    def edges(self):
        """The shape of a sample's part of the graph: slices, and neighbours in all draws."""
        return self.slices, self.draws * self.neighbours

    def join(self, data, rows, room):
        """Indices and weights (rows, slices, neighbours) of the graphs of some rows of the data; `room` for distances.

        The joint slice needs no joint features: its squared distance is the weighted sum of those of the views, over
        the views in which both the sample and the anchor were seen. It also stands in for the views that tell nothing
        about a sample: it was not seen there, or is equally far from all anchors. Returns, too, which views did tell.
        """
        V, m = self.usable.shape
        n, size = len(range(*rows.indices(data.n))), m // self.draws
        raw = [data.raw(v, rows) for v in range(V)]
        seen = data.observed(rows)
        index = np.empty((n, self.slices, self.draws, self.neighbours), np.int32)
        weight, told = np.empty(index.shape, np.float32), np.ones((n, self.slices), bool)
        told[:, :V] = seen
        first = 0
        for scheme in self.schemes:
            draws = slice(first, first + scheme.draws)
            usable = self.usable[:, first * size : draws.stop * size]
            whole = data.seen is None and usable.all()
            shape, common = (n, usable.shape[1]), 0
            together = room[0, : shape[0] * shape[1]].reshape(shape)
            for v, scaling in enumerate(scheme.scalings):
                scaled, square = scaling.with_squares(raw[v])
                distance = room[1].view(scaled.dtype)[: shape[0] * shape[1]].reshape(shape)
                if sparse.issparse(scaled):
                    (scaled @ scheme.rows[v].T).toarray(out=distance)
                else:
                    np.matmul(scaled, scheme.rows[v].T, out=distance)
                share = scaling.weight**2
                _to_distances(distance, square, scheme.squares[v], share if whole else 0.0, v == 0, together)
                if not whole:
                    both = seen[:, v, None] & usable[v]
                    together += share * both * distance
                    common = common + both.astype(np.int16)
                    distance[:, ~usable[v]] = np.inf
                if distance.dtype != room.dtype:  # the search is compiled for one type: two take two seconds more
                    exact = room[2, : shape[0] * shape[1]].reshape(shape)
                    exact[:] = distance
                    distance = exact
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
        # A row of zeros has no direction: as unit rows go, it is the same distance from everybody.
        filled = [x.name != "unit" or abs(raw[v]).sum(axis=1) > 0 for v, x in enumerate(scheme.scalings)]
        usable.append(data.observed(own).T & np.stack([np.broadcast_to(f, len(own)) for f in filled]))
    neighbours = s.neighbours
    if size >= len(data.distinct):  # every different row is an anchor, those that few samples have, too: look farther
        neighbours = max(neighbours, min(size // 3, s.most_neighbours))
    return _Anchors(schemes, np.hstack(usable), min(neighbours, size - 1), s.joint)


def _join(block, anchors, show=None):
    """Give the block its graph, where there is room for it or anew; show(about the share of the rows done)."""
    n = block.hi - block.lo
    if block.index is None:
        block.index, block.weight = (np.empty((n, *anchors.edges), kind) for kind in (np.int32, np.float32))
    block.told = np.empty((n, anchors.slices), bool)
    room = np.empty((3, _PIECE * anchors.m))  # once: memory that is new to the process takes as long as the work on it
    for piece in block.pieces(_PIECE):
        joined = anchors.join(block.data, slice(block.lo + piece.start, block.lo + piece.stop), room)
        block.index[piece], block.weight[piece], block.told[piece] = joined
    if show is not None:
        show(block.hi / block.data.n)


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

_SAMPLE = 20_000  # rows from which the start is learnt; the others follow its rules (all, where the order is given)
_EXTRA_VECTORS = 10  # singular vectors of a graph: twice as many as clusters, at most so many more
_LAST_WEIGHTS = 0.7, 0.1  # of the k-th of them, after a short and after a long diffusion
_JUDGED_AT = 0.5  # its weight after the diffusion at which both partitions are judged
_MARGIN = 1.015  # the long diffusion's scatter counts so much more: of two that are alike the short one is better
_CLEAR = 0.2  # a graph shows k clusters clearly where 1 - s_k is below this share of 1 - s_(k+1), s squared
_CRUMBS = 0.01  # where less is lacking there are more pieces still, such as small groups far off
_DENSE = 500  # a matrix of this size is decomposed at once
# Of the Krylov space, and how many more before it is asked again whether the k leading vectors are found.
_FEWEST_BLOCKS, _MOST_BLOCKS, _MORE_BLOCKS, _RESIDUAL = 6, 30, 3, 3e-3
_COPIES = 0.9  # a share of the samples: where holes are filled with means many are copies, and the others tell
# Adjusted Rand index of two draws, and of two diffusions in one: of noise in six features nearly all have less.
_STABLE, _STABLE_ALONE = 0.6, 0.8
_RESTARTS, _FIRST_STEPS = 15, 10  # of k-means on the embedding, and steps of each
_SEEDED = 5000  # rows, about, among which its seeds are sought
_COMMON = 10  # directions, beside two per cluster, that hold what the embeddings of all draws have in common
_ROUNDS = 5  # of linear discriminants; later ones change a few labels in a thousand
_SHRINKAGE = 0.1  # of their covariances towards a multiple of the identity
_LEAST_LOG = -20.0  # of a probability: what a view excludes is improbable, not impossible
_FIRST_SAMPLES = 20  # per cluster: so many of the samples seen in most views are clustered before the others follow


def _find_labels(rows, anchors, s):
    """Give all rows labels, by rules that are learnt from a sample of them; returns how clear the clusters are."""
    sample = rows.near.head(rows.data.n if s.in_given_order else _SAMPLE)  # a file's beginning may be one class
    learn = _spectral_rule if rows.data.seen is None else _rule_with_holes
    parts = _parts_without_copies(sample, anchors)
    if parts and not _know_clusters(sample, anchors, s, learn, parts):
        parts = None
    labels, rule, clarity = learn(sample, anchors, s.k, s.rng, parts)
    by_views = parts is not None or rows.data.seen is not None
    if by_views:
        labels, mend = _mended_by_views(sample, labels, s.k, s.rng)
    if sample.hi == rows.data.n:
        rows.spread("labels", labels[np.argsort(sample.data.rows)][rows.data.rows])
    else:

        def label(block):
            block.labels = mend(block, rule(block)) if by_views else rule(block)

        rows.map(label, reads="views" if by_views else None)
    return clarity


def _parts_without_copies(block, anchors):
    """Parts of the graph, (draw, slices) each, without views in which nearly all samples have two nearest anchors at
    the same distance, as copies are; None if there are no such views, or no others.

    In a view of few different rows, such as a few categories, the nearest anchors of a sample are its copies, and every
    category looks like a clear cluster, in the joint slice, too.
    """
    V, some = len(anchors.usable), slice(None, None, max(len(block.weight) // 1000, 1))
    weight, seen = block.weight[some, :V], block.data.observed(block.rows)[some]
    weight = np.sort(weight.reshape(-1, V, anchors.draws, anchors.neighbours), axis=3)
    alike = (weight[..., -2:].min(axis=3) > 0.99999 * weight[..., -1]).all(axis=2)
    others = np.flatnonzero((alike & seen).sum(axis=0) < _COPIES * np.maximum(seen.sum(axis=0), 1)).tolist()
    return [(draw, others) for draw in range(anchors.draws)] if 0 < len(others) < V else None


def _know_clusters(sample, anchors, s, learn, parts):
    """Whether parts of the graph show k clusters clearly or, if few features could not help it, say alike in two draws.

    Then they decide, and all views' discriminants mend their labels: the pixels of 800 digits beside two questions, ARI
    0.01 to 0.74. Tables of noise beside telling categories are the reason to ask: with the answer they have 0.83.
    """
    if np.mean([p.clear for p in _projections(sample, anchors, s.k, s.k + 1, s.rng, parts)]) > 0.5:
        return True
    if sum(sample.data.tables[v].shape[1] for v in parts[0][1]) <= _NARROW:
        return False
    alone = [learn(sample, anchors, s.k, s.rng, [part]) for part in parts]
    if len(alone) == 1:
        return alone[0][2] >= _STABLE_ALONE
    return any(adjusted_rand_score(one[0], other[0]) >= _STABLE for one, other in combinations(alone, 2))


def _spectral_rule(sample, anchors, k, rng, parts=None):
    """k-means on the embeddings of parts of the graph, if not given the views together and the joint slice, every draw.

    A short diffusion finds clusters of equal size that overlap, a long one small clusters beside big ones. Of the two
    partitions that one is taken which a mixture of round Gaussians in k - 1 dimensions, with the sizes found, makes
    more likely after a diffusion between them, (k - 1) / 2 log(scatter) + entropy of the sizes, and of whose clusters
    the anchors are surer: half of the log of the entropy that is left when one knows a sample's anchor, as a share.
    Linear discriminants then have the last word: directions along which the clusters spread anyway count less.
    Returns the sample's labels, a function that labels another block in the same way, and how far both partitions
    agree (adjusted Rand index).
    """
    projections = _projections(sample, anchors, k, min(2 * k, k + _EXTRA_VECTORS), rng, parts)
    # Where some graphs show k clusters clearly, the others have nothing to add.
    projections = [p for p in projections if p.clear] or projections

    def embedding(vectors, last):
        return np.hstack([projection.diffused(U, last) for projection, U in zip(projections, vectors)])

    vectors = [projection.of_sample for projection in projections]
    best, margin, partitions, judge = np.inf, 1.0, [], embedding(vectors, _JUDGED_AT)
    square = np.einsum("ij,ij->", judge, judge, dtype=float) / len(judge)
    for weight in _LAST_WEIGHTS:
        X = embedding(vectors, weight)
        common = np.linalg.eigh(X.T @ X)[1][:, -2 * k - _COMMON :]  # what the embeddings share, in fewer directions
        X = X @ common
        found = _kmeans(X, k, rng.randint(2**31 - 1))
        partitions.append(found)
        share = np.bincount(found) / len(found)
        scatter = square - share @ np.square(_means(judge, found)).sum(axis=1)
        entropy, load = share @ -np.log(share), _anchor_loads(sample, found, anchors.m, k)
        load = load if parts is None else load[parts[0][1]]
        unsure = -(load * np.log(np.maximum(load, 1e-300) / np.maximum(load.sum(axis=2, keepdims=True), 1e-300))).sum()
        unsure /= max(load.sum() * entropy, 1e-300)
        doubt = (k - 1) / 2 * np.log(max(margin * scatter, 1e-12)) + entropy + 0.5 * np.log(unsure + 1e-3)
        if doubt < best:
            best, last, turn, labels, chosen = doubt, weight, common, found, X
        margin = _MARGIN
    rule = None
    for _ in range(_ROUNDS):
        new = _Discriminants(chosen, labels)
        found = new.predict(chosen)
        swallows = len(np.unique(found)) < len(np.unique(labels))  # a tiny cluster, by a big one
        rule = new if rule is None or not swallows else rule
        if swallows or np.array_equal(found, labels):
            break
        labels = found
    clarity = float(adjusted_rand_score(*partitions))
    return labels, lambda block: rule.predict(embedding([p(block) for p in projections], last) @ turn), clarity


def _anchor_loads(block, labels, m, k):
    """(slices, m, k): how much of every anchor's edges is with samples of each cluster."""
    at = block.index * np.int32(k) + labels.astype(np.int32)[:, None, None]
    slices = range(at.shape[1])
    return np.stack([np.bincount(at[:, v].ravel(), block.weight[:, v].ravel(), m * k).reshape(m, k) for v in slices])


def _projections(sample, anchors, k, r, rng, parts=None):
    """The projections on r directions of parts of the graph, (draw, slices) each, if not given as above."""
    if parts is None:
        V = len(anchors.usable)
        groups = [list(range(V)), [V]] if anchors.joint else [list(range(V))]
        parts = [(draw, slices) for draw in range(anchors.draws) for slices in groups]
    seeds = rng.randint(2**31 - 1, size=len(parts))

    def project(i, _):
        return _Projection(sample, anchors, *parts[i], k, r, seeds[i])

    return _map_rows(project, len(parts), rows=1)


class _Projection:
    """From a block's graph, in one draw and some of its slices, to its leading left singular vectors."""

    def __init__(self, sample, anchors, draw, slices, k, r, seed):
        self.m, self.draw, self.slices = anchors.m // anchors.draws, draw, slices
        self.neighbours = slice(draw * anchors.neighbours, (draw + 1) * anchors.neighbours)
        self.scale = np.ones(self.m * len(slices))
        A = self.matrix(sample)
        mass = A.sum(axis=0)
        self.scale = 1.0 / np.sqrt(np.where(mass > 0, mass, 1.0))
        A.data *= self.scale[A.indices]
        square, right = _spectrum(A, k, r, seed)
        top = np.sqrt(square[0]) if square[0] > 0 else 1.0
        self.share = np.maximum(np.sqrt(square) / top, 1e-6)
        self.share[self.share > 1 - 1e-6] = 1.0  # the graph's weights are in single precision
        self.last_share = min(self.share[min(k, len(square)) - 1], 1.0 - 1e-12)
        lacking = 1.0 - self.share[k - 1 : k + 1] ** 2
        self.clear = len(lacking) == 2 and lacking[0] < _CLEAR * lacking[1] and lacking[1] > _CRUMBS
        self.directions = right / (self.share * top)
        self.of_sample = (A @ self.directions).astype(np.float32)

    def matrix(self, block):
        """The chosen slices of the draw's graph side by side, columns scaled, as a sparse (n, m * slices) matrix."""
        index = block.index[:, self.slices, self.neighbours] - np.int32(self.draw * self.m)
        index += np.arange(len(self.slices), dtype=np.int32)[:, None] * self.m
        values = block.weight[:, self.slices, self.neighbours].ravel() * self.scale[index.ravel()]
        starts = np.arange(0, index.size + 1, index[0].size)
        return sparse.csr_array((values, index.ravel(), starts), (len(index), len(self.scale)))

    def __call__(self, block):
        return (self.matrix(block) @ self.directions).astype(np.float32)

    def diffused(self, U, last):
        """The j-th of the vectors multiplied by (s_j / s_1)^t, a diffusion of t steps, as rows of length 1.

        The k-th one is left the weight `last`. So the end is soft where the spectrum is, and sharp where k clusters are
        clear; a fixed t cuts a big clear cluster along its inner modes rather than a small one off.
        """
        steps = np.log(last) / np.log(self.last_share)
        U = U * (self.share**steps).astype(np.float32)
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
        if blocks == most or blocks >= _FEWEST_BLOCKS and blocks % _MORE_BLOCKS == 0:
            found, mapped = basis[:, : new.stop], image[:, : new.stop]
            square, turn = np.linalg.eigh(found.T @ mapped)
            square, turn = square[: -r - 1 : -1], turn[:, : -r - 1 : -1]
            gaps = mapped @ turn[:, :k] - found @ turn[:, :k] * square[:k]
            if np.linalg.norm(gaps, axis=0).max() < _RESIDUAL * square[0]:
                break
    return np.maximum(square, 0.0), found @ turn


def _kmeans(X, k, seed):
    """Labels of k clusters, or of as many as X has rows that its distances can tell apart.

    KMeans would warn of fewer, and filters for warnings belong to the process: a thread must not change them.
    """
    # On a grid of a thousandth of the longest row, rows are equal or far enough apart for single precision.
    mean = X.mean(axis=0)
    step = max(np.linalg.norm(X - mean, axis=1).max() / 1000, np.finfo(np.float32).tiny)
    grid = np.round((X - mean) / step)
    # As integers, because rounding in sums of floats depends on where in the matrix a row is.
    mixing = np.random.RandomState(0).randint(2**62, size=X.shape[1], dtype=np.int64)
    number = grid.astype(np.int64) @ mixing
    different = np.unique(number, return_index=True)[1]
    k = min(k, len(different))
    # Seeds as scikit-learn chooses them, but in the last, leading directions.
    rng, seeds, trials = np.random.RandomState(seed), np.empty((_RESTARTS, k), np.intp), 2 + int(np.log(k))
    every = max(len(X) // _SEEDED, 1)
    columns = np.ascontiguousarray(grid[::every, -k:].T)
    for chances, chosen in zip(rng.uniform(size=(*seeds.shape, trials)), seeds):
        _spread_out(columns, chances, chosen)
        chosen *= every
        order = np.append(chosen, different)  # of seeds that are equal but in other directions, one stays
        chosen[:] = order[np.sort(np.unique(number[order], return_index=True)[1])[:k]]
    # Restarts show after a few steps which of them leads; that one goes on.
    starts = iter(seeds)
    with _process.foreign:
        first = KMeans(k, init=lambda X, *_, **__: X[next(starts)], n_init=_RESTARTS, max_iter=_FIRST_STEPS).fit(grid)
        labels = KMeans(k, init=first.cluster_centers_, n_init=1).fit(grid).labels_
    # Clusters are numbered by their first rows, not by the luck of the seeds.
    return np.argsort(np.argsort(np.unique(labels, return_index=True)[1]))[labels]


def _means(X, labels):
    """The means (k, d) of the rows of X with each label."""
    size = np.bincount(labels)
    return sparse.csc_array((1.0 / size[labels], labels, np.arange(len(X) + 1)), (len(size), len(X))) @ X


class _Discriminants:
    """Linear discriminants of labelled rows X (n, d), classes as likely as they are large.

    What LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1) computes, in one product of matrices; but the spread
    is the mean of the classes' spreads, not of the samples', so that big classes do not hide the small ones' shape.
    """

    def __init__(self, X, labels):
        self.classes_, labels, size = np.unique(labels, return_inverse=True, return_counts=True)
        means, d = _means(X, labels), X.shape[1]
        centred = (X - means[labels]) / np.sqrt(len(size) * size)[labels, None]
        spread = centred.T @ centred
        least = 1e-9 * np.square(means).mean()  # rows of a class that are all equal have no spread to divide by
        spread = (1 - _SHRINKAGE) * spread + (_SHRINKAGE * np.trace(spread) / d + least) * np.eye(d)
        self.slopes = np.linalg.lstsq(spread.astype(float), means.T, rcond=None)[0].astype(X.dtype)
        self.offsets = -0.5 * (means.T * self.slopes).sum(axis=0)
        self.prior = np.log(size / len(X))

    def scores(self, X):
        """Logarithms of likelihoods, up to what the classes have in common: without the sizes."""
        return X @ self.slopes + self.offsets

    def predict(self, X):
        return self.classes_[(self.scores(X) + self.prior).argmax(axis=1)]


def _rule_with_holes(sample, anchors, k, rng, parts=None):
    """The spectral rule where views are missing.

    The samples seen in most views are clustered first, and their anchors vote for the others: half-seen samples blur
    the spectrum (HandWritten4, 30 % missing: 0.88 against 0.92).
    """
    seen = sample.data.seen[sample.rows]
    least = _views_needed(sample.data, np.arange(sample.lo, sample.hi), _FIRST_SAMPLES * k)
    first = seen.sum(axis=1) >= least
    best = replace(sample, index=sample.index[first], weight=sample.weight[first])
    found, spectral, clarity = _spectral_rule(best, anchors, k, rng, parts)
    memberships = _anchor_loads(best, found, anchors.m, k)
    memberships /= np.maximum(memberships.sum(axis=2, keepdims=True), 1e-300)

    def guess(block):
        first = block.data.seen[block.rows].sum(axis=1) >= least
        labels = _votes(block.index, block.weight, memberships).sum(axis=1).argmax(axis=1)
        some = replace(block, index=block.index[first], weight=block.weight[first])
        labels[first] = spectral(some) if first.any() else labels[first]
        return labels

    labels = guess(sample)
    labels[first] = found
    return labels, guess, clarity


def _votes(index, weight, memberships):
    """(n, slices, k): for every slice the memberships of a sample's anchors, averaged with the graph's weights."""
    n, _, neighbours = index.shape
    votes, starts = np.empty((*index.shape[:2], memberships.shape[2])), np.arange(0, n * neighbours + 1, neighbours)
    for v, G in enumerate(memberships):
        votes[:, v] = sparse.csr_array((weight[:, v].ravel(), index[:, v].ravel(), starts), (n, len(G))) @ G
    return votes


def _mended_by_views(sample, labels, k, rng):
    """Better labels where views are missing or are not asked: linear discriminants in every view, their
    log-probabilities summed.

    A view speaks for the samples it has seen, and shows as many leading directions as the root of their number. Worth
    0.015 on HandWritten4 with 30 % missing and 0.05 with 50 %; complete data gain on some sets and lose on others.
    Returns the sample's labels, and a function that mends the labels of another block.
    """
    data, V = sample.data, len(sample.data.tables)
    seen = data.observed(sample.rows)
    directions = []
    for v in range(V):
        some = np.flatnonzero(seen[:, v])
        X, r, seed = data.scaled(v, some), int(np.sqrt(len(some))), rng.randint(2**31 - 1)
        directions.append(randomized_svd(X, r, random_state=seed)[2].T if X.shape[1] > r > 0 else np.eye(X.shape[1]))

    def features(data, v, positions):
        return data.scaled(v, positions) @ directions[v]

    def decide(rules, block, labels):
        total = np.zeros((len(labels), k))
        total[np.arange(len(labels)), labels] = 1e-9  # no view has an opinion: the label stays
        for v, rule in rules.items():
            some = np.flatnonzero(block.data.observed(block.rows)[:, v])
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
#   Of the tensors with a row per sample three are kept: H, and the arguments z = H + Y1/mu and w = H + Y2/rho of the
#   two proximal steps. Then Q = max(z, 0), Y1 = mu min(z, 0), J = w W with one of these matrices, Y2 = rho (w - J).

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


class _Norm(namedtuple("_Norm", "p axis fft_norm shape")):
    """Which tensor Schatten p-norm: the exponent, the reading of Definition 2, the convention of the DFT, (V, K)."""

    def factor(self):
        """Singular values of the slices as computed here, times this, are those of the convention asked for."""
        length = {"cluster": self.shape[1], "view": self.shape[0]}.get(self.axis, 1)
        return np.sqrt(length) if self.fft_norm == "backward" else 1.0


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


def _gram(X):
    """X^T X, in doubles: NumPy knows that it is symmetric, and takes 0.6 of the time of another product."""
    return (X.T @ X).astype(float)


def _form_B(block, G, W, old, new):
    """Pass A: B2 = 2 S*G + mu Q - Y1 + rho J - Y2 in the place of H, which nobody needs any more; returns B2^T B2.

    `old` are the penalties (mu, rho) with which z and w were formed, `new` those of this iteration; J = w W.
    """
    kind = block.H.dtype
    if G.ctypes.data % 64:  # on a worker of Dask it lies where its message has it
        G = _copied_in_lines(G, kind)
    W, J, penalties = np.ascontiguousarray(W, kind), _given_J(block), np.array([*old, *new], kind)
    _fill_B(block.index, block.S, G, W, J, block.z, block.w, penalties, block.H)
    return _gram(block.H)


def _polar(rows, gram, shape):
    """Eq. (solveH): the matrix M with which H = B2 M is the polar factor of B2 at every view frequency."""
    square, right = np.linalg.eigh(_slice_grams(gram, shape, "view"))
    if (square[:, 0] <= _FULL_RANK[rows.kind.name] * square[:, -1]).any():
        whole = _polar_factor(rows.gather("H").astype(float), rows.gather("w").astype(float), shape)
        rows.spread("H", np.ascontiguousarray(whole, rows.kind))
        return np.eye(len(gram))
    # H^T*H = I asks for orthonormal slices of the unnormalised DFT; the Gram matrices are those of the orthonormal one.
    inverse_root = (right / np.sqrt(shape[0] * square)[:, None, :]) @ right.conj().swapaxes(1, 2)
    return _from_right(inverse_root, shape, "view")


def _polar_factor(B, previous, shape):
    """The same from thin SVDs, for B2 without full rank.

    Rows of G sum to 1, so from the identity start B2 loses a dimension at every view frequency but 0, and part of the
    polar factor is arbitrary. The previous w, at the start H, completes it (the limit of polar(B2 + e w) as e goes to
    0), then just any matrix.
    """
    B, previous = (np.fft.rfft(X.reshape(-1, *shape), axis=1).swapaxes(0, 1) for X in (B, previous))
    H = np.zeros_like(B)
    for X in (B, previous, np.broadcast_to(np.random.RandomState(0).uniform(size=B.shape[1:]), B.shape)):
        rest, back = X, H.conj().swapaxes(1, 2)
        for _ in range(2):  # twice, for orthogonality to working precision
            rest = rest - H @ (back @ rest)
            rest = rest - rest @ (back @ H)
        U, s, Vh = np.linalg.svd(rest, full_matrices=False)
        H = H + (U * (s > 1e-7 * np.linalg.norm(X, axis=(1, 2))[:, None])[:, None, :]) @ Vh
    return np.fft.irfft(H, n=shape[0], axis=0).swapaxes(0, 1).reshape(B.shape[1], -1)


def _form_H(block, M, W, old, new, m):
    """Pass B: H = B2 M, then z = H + Y1/mu and w = H + Y2/rho; returns S^T*H, w^T w, and max |Q - H| by column."""
    kind = block.H.dtype
    StH, shares = _in_lines(m, len(M), kind), (kind.type(old[0] / new[0]), kind.type(old[1] / new[1]))
    M, W = (np.ascontiguousarray(X, kind) for X in (M, W))
    state = _given_J(block), *shares, block.H, block.z, block.w
    gaps = _fill_H(block.index, block.S, M, W, *state, StH)
    return StH[:, : len(M)].astype(float, copy=False), _gram(block.w), gaps


def _both_sums_and_most(parts):
    """What `_form_H` returned for some blocks, for all of them."""
    StH, gram, gaps = zip(*parts)
    return sum(StH), sum(gram), np.max(gaps, axis=0)


def _gap_to_J(block, W):
    """Pass C: max |Q - J| of every column."""
    return _gaps(block.z, block.w, np.ascontiguousarray(W, block.w.dtype), _given_J(block))


def _given_J(block):
    """J where it is kept, else no rows: then it is w W."""
    return block.w[:0] if block.J is None else block.J


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
    """Eq. (solveJ): J = Gamma_tau(w) as the matrix W with J = w W; returns W, ||J||_Sp^p and max |Q - J|."""
    if norm.axis == "sample":  # no matrix can do that, and the blocks keep J
        J, size = _prox_over_samples(rows.gather("w"), tau, norm)
        rows.spread("J", J)
        W = np.zeros_like(gram)
    else:
        W, size = _shrinkage(gram, tau, norm)
    return W, size, np.max(rows.map(_gap_to_J, W))


def _update_F(X, tau, norm):
    """Eq. (solveF): F = Gamma_tau(X) for X = G + Y3/sigma, and ||F||_Sp^p."""
    if norm.axis == "sample":
        return _prox_over_samples(X, tau, norm)
    W, size = _shrinkage(X.T @ X, tau, norm)
    return X @ W, size


class State(namedtuple("State", "iteration H Q J G F history rows")):
    """What a callback sees after each iteration: H, Q, J (n, V, K), G, F (m, V, K), and the history, lists with one
    entry per iteration so far. Row i of H, Q and J belongs to sample rows[i]."""

    @property
    def labels(self):
        """Labels after this iteration, in the order of the given samples."""
        return self.Q.mean(axis=1).argmax(axis=1)[np.argsort(self.rows)]


def _algorithm1(rows, StH, F, W, s, max_iter, watch):
    """Algorithm 1, from H, z and w in the blocks, S^T*H, F and J = w W. Returns G, F, the history, and what ended it.

    watch(iteration, gap, G, F, W, history) is called after each iteration; a true answer stops the run.
    """
    norm, shape = s.norm, s.norm.shape
    n, m, Y3 = rows.data.n, len(F), np.zeros_like(F)
    mu = rho = sigma = s.penalty
    old = (0.0, 0.0)  # no multipliers yet
    history = {name: [] for name in HISTORY}
    S_square = rows.sum(lambda block: float((block.S.astype(float) ** 2).sum()))
    typical = np.sqrt(shape[1] / n)  # an entry of H: its columns have length 1 over about n/K samples
    stopped_by = "max_iter"
    if max_iter == 0:
        return _update_G(StH, F, Y3, sigma, shape), F, history, stopped_by
    for iteration in range(1, max_iter + 1):
        G = _update_G(StH, F, Y3, sigma, shape)
        M = _polar(rows, rows.sum(_form_B, _copied_in_lines(G, rows.kind), W, old, (mu, rho)), shape)
        small = M, W, old, (mu, rho), m
        StH, gram, QH = rows.run(_form_H, small, _both_sums_and_most, _both_sums_and_most)
        W, H_norm, QJ = _update_J(rows, gram, s.lambda1 / rho, norm)
        F, G_norm = _update_F(G + Y3 / sigma, s.lambda2 / sigma, norm)
        Y3 += sigma * (G - F)

        # ||H*G^T|| = ||G|| because H is orthogonal, and <S, H*G^T> = <S^T*H, G>.
        fit = max(S_square - 2.0 * float((StH * G).sum()) + float((G**2).sum()), 0.0)
        QH, GF = QH.max(), np.abs(G - F).max()
        objective = fit + s.lambda1 * H_norm + s.lambda2 * G_norm
        for name, value in zip(HISTORY, (QH, QJ, GF, objective, fit, H_norm, G_norm, mu, rho, sigma)):
            history[name].append(float(value))
        gap = max(max(QH, QJ) / typical, GF)
        if gap <= s.tol:
            stopped_by = "tol"
        if watch(iteration, gap, G, F, W, history):
            stopped_by = "callback"
        if stopped_by != "max_iter":
            break
        old = (mu, rho)
        mu, rho, sigma = (max(x, min(s.growth * x, _PENALTY_CAP)) for x in (mu, rho, sigma))
    return G, F, history, stopped_by


def _transposed_times(block, m):
    """The part of S^T*H (m, V*K) that the block contributes."""
    L = block.H.shape[1]
    StH = _in_lines(m, L, block.H.dtype)
    _scatter(block.index, block.S, block.H, StH)
    return StH[:, :L].astype(float)


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

_FORMAT = 5  # of the files that `Result.save` writes
_SAVED = {kind.__name__: kind for kind in (_Anchors, _Scheme, _Scaling)}  # what may be in them besides arrays and words


class Result:
    """What `cluster` found. V views, m anchors, k clusters; all arrays are in the order of the given samples and views.

    From dask arrays, `labels` and `memberships` are dask arrays of the same chunks; `compute` makes them NumPy's.

    Attributes
    ----------
    labels : (n,) int array
    memberships : (n, k) array
        How sure the factorisation is of each cluster, rows summing to 1: the root of Q's load, averaged over the
        slices, fair to clusters of all sizes; what a row lacks of a full load is filled by its anchors' votes.
    anchor_memberships, joint_memberships : (V, m, k) array, (m, k) array or None
        For every view, and for all features together, the probability that an anchor belongs to each cluster: G, its
        slices moved to their views.
    anchors, anchor_labels : (m,) int arrays
        Which samples are the anchors, draw after draw, and the clusters that they vote for, over all slices.
    view_agreement : (V,) or (V + 1,) array
        Share of the samples whose label is what that slice alone, by its anchors' votes, would give, among those about
        which it tells anything; the joint slice last.
    clarity : float or None
        How far the partitions after a short and after a long diffusion on the graphs agree (adjusted Rand index); None
        if the start is given. Below 0.7, which is warned of, clusters are probably cut in pieces or merged; more is no
        proof that they are not.
    n_iter, stopped_by : int, {"tol", "max_iter", "callback"}
    history : dict of (n_iter,) arrays
        "Q-H", "Q-J", "G-F": the residuals; "objective" = "fit" + lambda1 * "H_norm" + lambda2 * "G_norm";
        "mu", "rho", "sigma": the penalties.
    options, seconds : dicts
        The options in force, automatic values filled in; how long each stage took.
    view_names, feature_names, sample_names : lists
        Names of the views; of every view those of its features or None; those of the samples or None.
    """

    # Besides: _index and _weight (n, slices, neighbours), the graph; _told (n, slices), whether a slice tells something
    # about a sample, _share_told, about how many; _anchors; _profile, the moments of every view's clusters.
    _sources = None  # of every chunk the views, delayed, if they were dask arrays: then there is no graph

    def __init__(self, **fields):
        vars(self).update(fields)

    def __repr__(self):
        (n, k), (V, m, _) = self.memberships.shape, self.anchor_memberships.shape
        return f"<agtf.Result: {n} samples, {V} views, {k} clusters, {m} anchors, {self.n_iter} iterations>"

    @property
    def slices(self):
        """Names of the slices: the views, then the joint one if there is one."""
        joint = "joint"
        while joint in self.view_names:
            joint += " slice"
        return [*self.view_names, joint] if self._anchors.joint else list(self.view_names)

    @property
    def converged(self):
        return self.stopped_by == "tol"

    @property
    def scalings(self):
        """How every draw of anchors saw every view: a list per draw of "zscore", "unit", ... per view."""
        return [[scaling.name for scaling in x.scalings] for x in self._anchors.schemes for _ in range(x.draws)]

    def predict(self, views, mask=None, n_jobs=None):
        """Labels (n,) of unseen samples: the vote of their nearest stored anchors, all slices counted alike.

        `views`, `mask` and `n_jobs` are as in `cluster`, with the same views and features; views of a dict and columns
        of DataFrames are matched by name where the model was fitted on names, rows are in the order of the first view
        that is given. Dask arrays give a lazy dask array.
        """
        return self.predict_memberships(views, mask, n_jobs).argmax(axis=1)

    def predict_memberships(self, views, mask=None, n_jobs=None):
        """Memberships (n, k) of unseen samples: the shares of their anchors' votes; arguments as in `predict`."""
        given, fitted = _as_tables(views, 0, self.options["join"]), self._anchors.schemes[0].scalings
        mask = _as_mask(mask, given)
        if _is_mapping(views):
            places = _matched(self.view_names, given.view_names, "the views")
            parts = {name: [getattr(given, name)[v] for v in places] for name in ("tables", "where", "feature_names")}
            given = replace(given, **parts, frames=[at for at, v in enumerate(places) if v in given.frames])
            if mask is not None:
                mask = mask if _is_dask(mask) else np.asarray(mask)
                _check_mask(mask, given.n, len(places))
                mask = mask[:, places]
        if len(given.tables) != len(fitted):
            raise ValueError(f"got {len(given.tables)} view(s), the model was fitted on {len(fitted)}")
        for v, table in enumerate(given.tables):
            old, new, d = self.feature_names[v], given.feature_names[v], len(fitted[v].factor)
            counts = list(map(str, range(d)))  # columns that only count, then or now, in another order
            if old is None and new and set(new) == set(counts):
                old = counts
            elif new is None and old and set(old) == set(counts) and v in given.frames:
                new = counts
            if old and new and old != new:
                given.tables[v] = table[:, _matched(old, new, f"the columns of {given.where[v]}")]
            elif table.shape[1] != d:
                raise ValueError(f"{given.where[v]} has {table.shape[1]} features, the model was fitted on {d}")
        means = None
        if self.options["impute"]:
            means = [count @ mean / max(count.sum(), 1) for count, mean, _ in self._profile]
        model = self._anchors, self._slice_memberships(), means
        if given.chunks is None:
            return _voted((given, mask), model, n_jobs)
        shared = _dask("delayed", model, traverse=False)
        parts = [_dask("delayed", _voted)(source, shared) for source in _sources(given, mask)]
        return _as_dask(parts, given.chunks, self.memberships.shape[1:], float)

    def score(self, y_true):
        """The scores of the labels against (n,) classes in the order of the samples, see `agtf.score`."""
        self._check_kept()
        return score(y_true, self.labels)

    def compute(self):
        """The same result with NumPy arrays where it has dask arrays, and with its graph; itself if it has none."""
        if self._sources is None:
            return self
        index, weight, told = map(np.concatenate, zip(*self._graphs(self._sources)))
        labels, memberships = _dask("compute", self.labels, self.memberships)
        found = dict(labels=labels, memberships=memberships, _index=index, _weight=weight, _told=told, _sources=None)
        return Result(**(vars(self) | found))

    def _check_kept(self):
        if any(future.cancelled() for future in _futures(self.labels, self.memberships)):
            raise ValueError("the result lies with a client of Dask that was closed: call result.compute() before")

    def _graphs(self, sources):
        """[(indices, weights, told), ...] of chunks of rows, which a result of dask arrays does not keep."""
        self._check_kept()
        shared = _dask("delayed", self._anchors, traverse=False)
        return _dask("compute", *[_dask("delayed", _graph)(source, shared) for source in sources])

    def _graph_of(self, i):
        """A sample's anchors and weights, and whether each slice tells something about it."""
        if self._sources is None:
            return self._index[i], self._weight[i], self._told[i]
        stops = np.cumsum([rows for rows in self.labels.chunks[0] if rows])
        chunk = np.searchsorted(stops, i, side="right")
        return [part[i - stops[chunk]] for part in self._graphs([self._sources[chunk]])[0]]

    def explain(self, i):
        """Why sample i, a number or a name, is where it is: a `Description` of its anchors and of their votes.

        `anchors`, `weights` and `clusters` are (slices, neighbours), `votes` (slices, k); `told` (slices,) says whether
        the slice tells anything: if not (not seen, or equally far from all), the others find its anchors; `shares`
        (slices,), how much of the votes for the label each slice gives; `favoured` is the cluster with most votes: if
        not the `label`, the factorisation, which weighs all samples together, overruled the anchors. Four anchors a
        slice are printed.
        """
        if isinstance(i, str):
            if (self.sample_names or []).count(i) != 1:
                raise KeyError(f"no one sample is called {i!r}")
            i = self.sample_names.index(i)
        n = len(self.labels)
        if not isinstance(i, Integral) or not -n <= i < n:
            raise IndexError(f"there is no sample {i!r}: give a name, or a number from 0 to {n - 1}")
        return _explain(self, int(i) % n)

    def describe(self, cluster=None):
        """What the clusters are, a `Description`; or one cluster in full. -1 stands for none.

        All clusters, line c for cluster c: `sizes`; `certainty`, the mean membership of its samples; `mixing` (k, k),
        their mean memberships in all clusters; `closest`, the other cluster with the highest of these; `confused`, the
        share of the samples with a membership above 0.1 there; `agreement` (k, slices), the share of the samples whose
        label the slice alone would give, by its anchors' votes, among those about which it tells anything; `views`,
        `features` and `differences` (k, 3), what sets it apart most; `typical` (k, 8), the samples with the highest
        memberships, of equal ones with the most votes.

        One cluster: the same about it, `views`, `features`, `differences`, `means` and `other_means` of all features,
        the most different first, in the units of the data; its `anchors` and `anchor_certainty`, the most certain
        first; `border`, its samples with a membership above 0.1 in another cluster, the most torn first, `neighbours`,
        that other cluster, and `border_memberships` (samples, 2) in both.

        Differences are standardised (Cohen's d): the mean of the cluster less that of all other samples, divided by
        the standard deviation within these two groups, at most 1000; samples not seen in a view are left out there.
        """
        result, k = self.compute(), self.memberships.shape[1]
        if cluster is None:
            return _describe(result)
        cluster = _whole("the cluster", cluster, 0, k - 1, f"lie between 0 and {k - 1}")
        return _describe_cluster(result, _describe(result), cluster)

    def report(self, path):
        """Write the result as one HTML page that needs nothing else, below 3 MB unless the clusters alone take more."""
        _report(self.compute(), path)

    def save(self, path):
        """Write the result to one .npz file, without pickle; `agtf.load` reads it back."""
        arrays = {}

        def written(x):
            # What JSON does not know: arrays are stored beside it, unknown objects, such as generators, by their names.
            if isinstance(x, np.ndarray) and not x.dtype.hasobject:
                arrays[f"array {len(arrays)}"] = x
                return {"array": f"array {len(arrays) - 1}"}
            if sparse.issparse(x):
                return {"csr": [x.data, x.indices, x.indptr], "shape": x.shape}
            if type(x).__name__ in _SAVED:
                return {"class": type(x).__name__, "fields": vars(x)}
            return x.item() if isinstance(x, np.generic) else repr(x)

        facts = {"format": _FORMAT, "agtf": __version__, "result": vars(self.compute())}
        text = json.dumps(facts, default=written)
        with open(path, "wb") as file:
            np.savez_compressed(file, facts=text, **arrays)

    def __getstate__(self):
        return vars(self.compute()) | {"agtf": __version__}

    def __setstate__(self, state):
        written = state.pop("agtf")
        if written != __version__:
            advice = "use Result.save and agtf.load between versions"
            warnings.warn(f"pickled by agtf {written}, this is {__version__}: {advice}", UserWarning, stacklevel=2)
        vars(self).update(state)

    def _slice_memberships(self):
        if self.joint_memberships is None:
            return self.anchor_memberships
        return np.concatenate([self.anchor_memberships, self.joint_memberships[None]])


def load(path):
    """Read a result that `Result.save` wrote; its predictions are those of the original."""

    def read(x):
        if "array" in x:
            return file[x["array"]]
        if "csr" in x:
            return sparse.csr_array(tuple(x["csr"]), tuple(x["shape"]))
        return _SAVED[x["class"]](**x["fields"]) if "class" in x else x

    with open(path, "rb") as opened:
        try:
            file = np.load(opened, allow_pickle=False)
            facts = json.loads(text := str(file["facts"]))
            if facts["format"] == _FORMAT:
                return Result(**json.loads(text, object_hook=read)["result"])
        except Exception as error:  # another or a damaged file can make the readers raise anything
            raise ValueError(f"{path} was not written by Result.save, or is damaged: {error}") from error
    raise ValueError(f"{path} was written by agtf {facts['agtf']}, this is {__version__}: it cannot be read")


def _matched(old, new, what, whose="that the model was fitted on"):
    """The places of the old names, those `whose` they are, among the new ones, which must be the same."""
    at = {name: place for place, name in enumerate(new)}
    if len(at) < len(new) or len(set(old)) < len(old):
        raise ValueError(f"{what} can't be matched with those {whose}: a name stands twice")
    absent, unknown = [name for name in old if name not in at], sorted(set(new) - set(old))
    if absent or unknown:
        differ = f"{len(absent)} absent {absent[:3]}, {len(unknown)} unknown {unknown[:3]}"
        raise ValueError(f"{what} are not those {whose}: {differ}")
    return [at[name] for name in old]


def _joined(source, anchors, means=None):
    """A pair of views and mask as rows in blocks, joined to the anchors."""
    given, mask = source
    given = replace(given, tables=list(given.tables))
    for v, scaling in enumerate(anchors.schemes[0].scalings):
        if scaling.shift is None:
            given.tables[v] = sparse.csr_array(given.tables[v])
        elif sparse.issparse(given.tables[v]):
            given.tables[v] = given.tables[v].toarray()
    if means is not None:
        _fill_holes(given, mask, means)
    seen = _observed(given, mask)
    n, V = seen.shape
    rows = _Rows(_Data(given.tables, np.arange(n), np.arange(V), None if seen.all() else seen))
    rows.join(anchors)
    return rows


def _voted(source, model, n_jobs=1):
    """Of every row the shares of the anchors' votes (n, k)."""
    anchors, memberships, means = model
    with _limits(n_jobs):
        rows = _joined(source, anchors, means)
        votes = rows.map(lambda block: _votes(block.index, block.weight, memberships).sum(axis=1))
    votes = np.concatenate([np.empty((0, memberships.shape[2])), *votes]) + 1e-300
    return votes / votes.sum(axis=1, keepdims=True)


def _graph(source, anchors):
    """Indices and weights of the graph of a chunk's rows, and which views tell something about them."""
    with _limits(1):
        rows = _joined(source, anchors)
    return rows.gather("index"), rows.gather("weight"), rows.gather("told")


# ======================================================================================================================
# 8 cluster() and AGTF

PAPER = dict(
    anchors="vda", n_neighbors=10, joint=False, normalize=False, init="identity", axis="sample", fft_norm="backward",
    penalty=1e-5, growth=1.3, tol=1e-3,
)  # fmt: skip
"""The paper's protocol as options of `cluster`; p, lambda1, lambda2, n_anchors and scale are its choice per data set.

Its scores depend on the order of the rows: rows sorted by class and the same rows shuffled give different partitions.
"""

_OPTIONS = {  # the words that an option may be, the type and the least value of its numbers; the rest is in `_resolve`
    "impute": ((None, "mean"), None, 0), "scale": (SCALES, None, 0), "anchors": (ANCHORS, None, 0),
    "n_anchors": (("auto",), Real, 0), "n_draws": (("auto",), Integral, 1), "n_neighbors": (("auto",), Integral, 1),
    "init": (("spectral", "identity"), None, 0), "lambda1": (("auto",), Real, 0), "lambda2": (("auto",), Real, 0),
    "penalty": (("auto",), Real, 1e-300), "growth": ((), Real, 1), "tol": ((), Real, 0), "max_iter": ((), Integral, 0),
}  # fmt: skip
# The options resolved for n samples in V views: nothing is "auto" but lambda1 and lambda2, which depend on the start.
# `schemes` are pairs of words, one per view, and of draws of anchors that see the views so; `m` anchors are in a draw.
_Settings = namedtuple(
    "_Settings",
    "k schemes anchors m draws neighbours most_neighbours joint init in_given_order norm lambda1 lambda2 penalty growth"
    " tol rng",
)
# 5 to 12 measure alike. More where one draw is all there is: of 56 surveys of two to six questions ARI 0.56 to 0.63.
_NEIGHBOURS, _MOST_NEIGHBOURS = 8, 24


def _resolve(o, n, V, fewest=2):
    """Check the options in an `AGTF` for n samples in V views, before any work, and fill in what is automatic."""
    limits = f"lie between {fewest} and the number of samples, {n}"
    k = _whole("the number of clusters", o.n_clusters, fewest, n, limits)
    for name, (words, kind, least) in _OPTIONS.items():
        value, choices = getattr(o, name), list(map(repr, words))
        if kind is not None:
            choices.append(f"{'an int' if kind is Integral else 'a number'} of at least {least}")
        if isinstance(value, (str, type(None))):
            good = value in words
        elif kind is None:
            good = name in ("scale", "anchors", "init")  # arrays, of which below
        else:
            good = isinstance(value, kind) and not isinstance(value, bool) and least <= value < np.inf
        if not good:
            raise ValueError(f"{name} must be {' or '.join(choices)}, got {value!r}")
    _check_norm_options(o.p, o.axis, o.fft_norm)
    if not isinstance(o.penalty, str) and o.penalty > _PENALTY_CAP:
        raise ValueError(f"penalty must be at most {_PENALTY_CAP:.0e}, got {o.penalty!r}")
    for name in ("joint", "normalize"):
        if getattr(o, name) not in (True, False):
            raise ValueError(f"{name} must be True or False, got {getattr(o, name)!r}")
    if o.callback is not None and not callable(o.callback):
        raise ValueError(f"callback must be a function or None, got {o.callback!r}")

    scales = list(o.scale) if np.ndim(o.scale) else [o.scale] * V
    if len(scales) != V:
        raise ValueError(f"scale has {len(scales)} entries for {V} views: give one, or one per view")
    for scale in scales:
        _check_choice("scale", scale, SCALES)

    anchors, m = o.anchors, o.n_anchors
    drawn = isinstance(anchors, str) and anchors != "vda"
    if not isinstance(anchors, str):
        anchors = np.asarray(anchors)
        m, whole = anchors.size, anchors.ndim == 1 and anchors.dtype.kind in "iu"
        if m < 2 or not whole or anchors.min() < 0 or anchors.max() >= n or len(np.unique(anchors)) < m:
            raise ValueError(f"anchors must be at least 2 different sample indices between 0 and {n - 1}")
    elif m == "auto":
        # Eight anchors a cluster at least, so that a sample's eight neighbours may all lie in its cluster.
        m = max(min(5 * n // 6, max(_NEIGHBOURS * k, min(int(12 * np.sqrt(n)), 1000))), min(2 * k, n))
    elif isinstance(m, Integral):
        m = _whole("n_anchors", m, 2, n, f"lie between 2 and the number of samples, {n}")
    elif 0 < m <= 1:
        m = max(int(round(m * n)), 2)
    else:
        raise ValueError(f"n_anchors as a rate must lie in (0, 1], got {m}; as a count it must be an int")

    draws = o.n_draws
    if draws == "auto":
        draws = 3 if drawn else 1
    elif draws > 1 and not drawn:
        raise ValueError("n_draws above 1 needs anchors that are drawn, 'medoid' or 'random'")
    schemes = [(scales, draws)]
    if scales == ["auto"] * V and draws >= 3:
        schemes = [(scales, draws - draws // 3), (["other"] * V, draws // 3)]
    neighbours = min(_NEIGHBOURS, m - 1) if o.n_neighbors == "auto" else o.n_neighbors
    limits = f"be at least 1 and below the number of anchors, {m} (give more anchors or fewer neighbours)"
    neighbours = _whole("n_neighbors", neighbours, 1, m - 1, limits)
    most_neighbours = _MOST_NEIGHBOURS if o.n_neighbors == "auto" else neighbours

    init, joint, rng = o.init, bool(o.joint), o.random_state
    if not isinstance(init, str):
        init = np.asarray(init)
        if init.shape != (n,) or init.dtype.kind not in "iu" or not np.array_equal(np.unique(init), np.arange(k)):
            raise ValueError(f"init must be ({n},) integer labels, among them every label from 0 to {k - 1}")
    in_given_order = o.axis == "sample" or isinstance(init, str) and init == "identity"
    if isinstance(rng, np.random.Generator):  # which scikit-learn does not take
        rng = rng.integers(2**32)
    # Numbers of one type, so that kernels compile once.
    norm = _Norm(float(o.p), o.axis, o.fft_norm, (V + joint, k))
    lambda1, lambda2 = (x if x == "auto" else float(x) for x in (o.lambda1, o.lambda2))
    penalty = m * draws / k if o.penalty == "auto" else float(o.penalty)
    return _Settings(
        k, schemes, anchors, m, int(draws), neighbours, most_neighbours, joint, init, in_given_order, norm, lambda1,
        lambda2, penalty, float(o.growth), float(o.tol), check_random_state(rng),
    )  # fmt: skip


def cluster(
    views, k, *, mask=None, join="inner", feature_names=None, impute=None, scale="auto", anchors="medoid",
    n_anchors="auto", n_draws="auto", n_neighbors="auto", joint=True, normalize=True, init="spectral", axis="cluster",
    p=0.5, lambda1="auto", lambda2="auto", fft_norm="ortho", penalty="auto", growth=2.0, tol=0.05, max_iter=200,
    random_state=0, callback=None, verbose=0, n_jobs=None,
):  # fmt: skip
    """Cluster multi-view data by anchor graph tensor factorization; returns a `Result`.

    With the default options the partition does not depend on the order of the rows, on the order of the views, or on
    the number of threads. (Views that are mirror images of each other have no order but the given one.)

    Parameters
    ----------
    views : list, or dict by name, of (n, d_v) arrays, DataFrames, SciPy sparse matrices or dask arrays
        One table per view, one row per sample; a single table is one view. A row of NaN in a view means that the sample
        was not observed there. DataFrames with the same row labels in another order are put in order.
        With dask arrays the work is done chunk by chunk of rows, on the active client or on Dask's threads. They are
        read several times: persist them if they are slow to make, in chunks of some ten thousand rows, each of which
        costs a little in every step. Options that need all rows in one place are refused.
    k : int
        Number of clusters, at least 2.
    mask : (n, V) bool array, NumPy or dask, or None
        Another way to tell what is missing: False where a sample was not observed in a view.
    join : {"inner", "outer"}
        The row labels of DataFrames must be the same; with "outer" the samples are all labels that any of them has,
        missing in the others.
    feature_names : dict of lists or None
        Names of the features of views that are no DataFrames, by the view's name ("view 0", ... in a list).
    impute : {None, "mean"}
        What to do about single missing numbers in a row that was observed: refuse them, or put the column's mean.
    scale : {"auto", "zscore", "unit", "max", None}, or a list with one of them per view
        "zscore": columns of mean 0 and variance 1; "unit": rows of length 1; "max": divided by the largest absolute
        value. "auto": two draws of anchors in three see z-scores ("unit" for sparse views and non-negative ones with
        less than a tenth of non-zeros), one sees unit rows, because neither is right for all data; views of up to three
        features are z-scores always. Of views whose columns are orthogonal, as PCA and SVD of these rows make them, two
        draws in three see unit rows and one z-scores, if all views are "auto" and there are three draws or more. All
        draws see z-scored views with more than 2d columns, d = min(n / 5, 100), in their d leading directions. In
        z-scores of dense views, columns of at most 20 different numbers, beside columns of more and at most 100 in all,
        stand for the intervals around them, if samples share rows of these: up to half a step, at most a standard
        deviation, is added or taken away, the same for equal rows. scale="zscore" does without.
    anchors : {"medoid", "vda", "random"} or (m,) int array
        "medoid": samples spread over all features together, the members nearest to centres after k-means++ seeding and
        two Lloyd steps; "vda": the paper's variance rule; or the indices of the samples to use.
    n_anchors, n_draws, n_neighbors : int or "auto"; n_anchors may be a float, a rate of the samples
        How many anchors are drawn, how often (the graphs of the draws are averaged), and how many of each draw a sample
        is joined to. "auto": 12 sqrt(n), at most 1000, at least 8 k, at most five sixths of n, fewer if there are fewer
        different rows; 3, or 1 if they are not drawn; 8, or fewer if there are fewer anchors (24, or a third of them,
        if all different rows are anchors).
    joint, normalize : bool
        Whether all scaled features together make one more slice; whether the graph's columns are scaled so that S^T*H
        of a clean partition lies on the simplex.
    init : {"spectral", "identity"} or (n,) int array
        Where the factorisation starts: labels from the spectrum of the graphs (of views of few different rows, such as
        a few categories, only if the others do not know the clusters); the paper's identity matrix, which puts one of
        the first k rows in each cluster, and so depends on the order of the rows; or labels.
    axis, p, fft_norm
        The tensor Schatten p-norm, see `schatten_norm`. axis="sample" depends on the order of the rows.
    lambda1, lambda2 : float or "auto"
        Weights of the norms of H and G. With "auto" the first shrinkage takes about a quarter (a fiftieth) of a
        typical leading singular value of H (of G, which is 0 at the identity start); much larger ones make G collapse.
    penalty, growth : float or "auto", float
        First value of the penalties mu, rho and sigma ("auto": all anchors / k), and their growth per iteration.
    tol, max_iter : float, int
        Stop when max |Q - H| and max |Q - J|, both relative to sqrt(k / n), a typical entry of H, and max |G - F| are
        at most `tol`, or after `max_iter` iterations.
    random_state : int, RandomState, Generator or None
        All randomness comes from it.
    callback, verbose : callable or None, int
        callback(state) is called after each iteration, a true return value stops the run; verbose=1 shows a progress
        line on standard error when the work takes longer than two seconds.
    n_jobs : int or None
        Threads; None or -1: as many as NUMBA_NUM_THREADS allows. Tasks of Dask have one each.

    >>> import agtf
    >>> views, y = agtf.digits_views()
    >>> result = agtf.cluster(views, 10)
    >>> result.labels.shape, result.memberships.shape
    ((1797,), (1797, 10))
    """
    options = AGTF(
        k, join=join, feature_names=feature_names, impute=impute, scale=scale, anchors=anchors, n_anchors=n_anchors,
        n_draws=n_draws, n_neighbors=n_neighbors, joint=joint, normalize=normalize, init=init, axis=axis, p=p,
        lambda1=lambda1, lambda2=lambda2, fft_norm=fft_norm, penalty=penalty, growth=growth, tol=tol, max_iter=max_iter,
        random_state=random_state, callback=callback, verbose=verbose, n_jobs=n_jobs,
    )  # fmt: skip
    return _cluster(_as_tables(views, join=join, feature_names=feature_names), mask, options, fewest=2)


def _cluster(tables, mask, o, fewest):
    """`cluster` and `AGTF.fit`: check, arrange, scale, choose anchors, build graphs, start, iterate, read off."""
    s, mask = _resolve(o, tables.n, len(tables.tables), fewest), _as_mask(mask, tables)
    if tables.chunks is not None:
        possible = {"impute": [None], "anchors": ["medoid", "random"], "init": ["spectral"], "callback": [None]}
        for name, words in (possible | {"axis": ["cluster", "lateral", "view"]}).items():
            _check_choice(f"with dask arrays, whose rows are apart, {name}", getattr(o, name), words)
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        # Refused before a byte is allocated: three tensors, or up to four of doubles, the graph twice, embeddings.
        state, edges = 32 if s.in_given_order else 12, max(s.neighbours * s.draws, s.most_neighbours)
        needed = tables.n * (s.norm.shape[0] * (state * s.k + 20 * edges) + 32 * s.k) / 2**30
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        if needed > there:
            need = f"{tables.n} samples in {s.k} clusters need about {needed:.1f} GiB besides the views"
            hint = "cluster a sample of the rows and predict() the others, or give dask arrays"
            raise MemoryError(f"{need}, this machine has {there:.1f} GiB: {hint}")
    if s.norm.axis == "sample":
        known = "the result depends on the order of the rows, and on rows sorted by class it knows the classes"
        _warn(f'axis="sample" takes a DFT over the samples: {known}')
    elif s.in_given_order:
        known = "the result depends on the order of the rows"
        _warn(f'init="identity" puts one of the first {s.k} rows in each cluster: {known}')
    if o.impute:
        _fill_holes(tables, mask)
    progress = _Progress(o.verbose)
    with _limits(o.n_jobs):
        rows, at, anchors = _prepare(tables, mask, s, progress)
        if tables.chunks is not None:
            rows.join_others(anchors)
        progress("finding a start")
        mass = rows.sum(_mass, anchors.m)
        scale = _simplex_scale(mass, s.k) if o.normalize else np.ones_like(mass)
        # The state in single precision gives the same labels in half of the memory; the paper's protocol in double.
        rows.map(_normalise, scale, np.float64 if s.in_given_order else np.float32)
        StH, F, W, clarity, filled = _start(rows, at, anchors, s)
        if tables.chunks is not None:
            rows.settle()
        if s.lambda1 == "auto":
            leading = _leading(rows.sum(lambda block: _gram(block.H)), s.norm, rows)
            s = s._replace(lambda1=_automatic_lambda(leading, s.penalty, _SHARE_H, s.norm.p))
        if s.lambda2 == "auto":
            leading = _leading(F.T @ F, s.norm, F)
            s = s._replace(lambda2=_automatic_lambda(leading, s.penalty, _SHARE_G, s.norm.p))

        def watch(iteration, gap, G, F, W, history):
            # Gaps shrink like powers of the penalties, so their logarithm tells how far the way is.
            gaps.append(gap)
            first, least, last = np.log(np.maximum([gaps[0], min(gaps), s.tol], 1e-300))
            share = min((first - least) / (first - last), 1.0) if first > last else 1.0
            progress.show(share, f"iteration {iteration}, gap {gap:.1e}")
            if o.callback is None:
                return False
            H, Q = rows.gather("H"), np.maximum(rows.gather("z"), 0.0)
            J = rows.gather("J") if s.norm.axis == "sample" else rows.gather("w") @ W.astype(rows.kind)
            tensors = (X.reshape(-1, *s.norm.shape) for X in (H, Q, J, G, F))
            return o.callback(State(iteration, *tensors, history, rows.data.rows))

        progress("iterating")
        gaps, different = [], len(rows.data.distinct)
        # H^T*H = I needs a sample for every cluster; else it would tear rows apart that are equal to the graphs.
        iterations = int(o.max_iter) if different >= s.k and filled else 0
        G, F, history, stopped_by = _algorithm1(rows, StH, F, W, s, iterations, watch)
        progress("reading off")
        found, together, empty = _read_off(rows, at, anchors, G, s)
    progress("done")
    history = {name: np.array(values) for name, values in history.items()}
    options = o.get_params(deep=False)
    for name in ("n_clusters", "feature_names", "callback", "verbose", "n_jobs"):  # which tell nothing about the result
        del options[name]
    options |= {"n_anchors": anchors.m // anchors.draws, "n_draws": anchors.draws, "joint": s.joint}
    options |= {"n_neighbors": anchors.neighbours, "lambda1": s.lambda1, "lambda2": s.lambda2, "penalty": s.penalty}
    result = Result(
        **found, clarity=clarity, n_iter=len(history["fit"]), stopped_by=stopped_by, history=history, options=options,
        view_names=tables.view_names, feature_names=tables.feature_names, sample_names=tables.sample_names,
        seconds=progress.seconds,
    )  # fmt: skip
    for message, kind in _doubts(result, together, empty, different):
        _warn(message, kind)
    return result


def _prepare(tables, mask, s, progress):
    """From views to anchor graphs: the rows in blocks, the anchors' positions, the anchors. Near rows are joined."""
    progress("reading views")
    chunked = tables.chunks is not None
    rows = _DaskRows(tables, mask, s) if chunked else _Rows(_arrange(tables, mask, not s.in_given_order, s.schemes))
    progress("choosing anchors")
    at = _choose_anchors(rows.near.data, s, s.rng)
    progress("building graphs")
    anchors = _collect_anchors(rows.near.data, at, s)
    rows.near.join(anchors, progress.show)
    return rows, at, anchors


def _start(rows, at, anchors, s):
    """Give the blocks their first H, z and w.

    Returns S^T*H and the first F (m, V*k), the W of the first J = w W, how clear the clusters are, and whether none of
    them is empty.
    """
    V, k = s.norm.shape
    if isinstance(s.init, str) and s.init == "identity":
        # Every frequency slice of H is eye(n, k): in the time domain the first slice is, and the others vanish.
        H = np.zeros((rows.data.n, V * k))
        H[:k, :k] = np.eye(k)
        for name, first in ("H", H), ("z", np.zeros_like(H)), ("w", H.copy()):
            rows.spread(name, first)
        F, W = np.zeros((anchors.m, V * k)), np.zeros((V * k, V * k))
        return rows.sum(_transposed_times, anchors.m), F, W, None, True
    clarity = None
    if isinstance(s.init, str):
        clarity = _find_labels(rows, anchors, s)
    else:
        rows.spread("labels", s.init[rows.data.rows])
    rows.map(_prune_filled, rows.take("labels", at))
    size = rows.sum(lambda block: np.bincount(block.labels, minlength=k))
    entry = 1.0 / np.sqrt(np.maximum(size, 1))  # 0 members where fewer rows than clusters can be told apart

    def first_H(block):
        block.H = np.zeros((len(block.labels), V * k), block.S.dtype)
        block.H[np.arange(len(block.labels)), block.labels] = entry[block.labels]
        block.z, block.w = block.H.copy(), block.H.copy()

    rows.map(first_H)
    StH = rows.sum(_transposed_times, anchors.m)
    F = StH.copy()
    _project_simplex(F.reshape(-1, k))
    return StH, F, np.eye(V * k), clarity, bool(size.all())


def _prune_filled(block, anchor_labels):
    """A filled row may speak for the sample's label, not against it (HandWritten4, 50 % missing: 0.85 to 0.87)."""
    i, v = np.nonzero(~block.told)
    block.S[i, v] *= anchor_labels[block.index[i, v]] == block.labels[i, None]


def _read_off(rows, at, anchors, G, s):
    """What the `Result` needs, in the order of the given samples and views; the share of the anchors that are, by H
    alone, in the cluster that they vote for; the number of clusters that are empty."""
    V, k = s.norm.shape
    mass = rows.sum(lambda block: (block.H**2).sum(axis=0, dtype=float)).reshape(V, k).sum(axis=1)
    mass = mass / mass.sum()
    # S^(v) = sum_t H^(t) (G^(t-v))^T: seen from view v, an anchor's clusters are those of G moved on by t.
    G = G.reshape(-1, V, k)
    memberships = np.stack([sum(mass[t] * G[:, (t - v) % V] for t in range(V)) for v in range(V)])

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
        agrees = block.told & (votes.argmax(axis=2) == consensus.argmax(axis=1)[:, None])
        soft = np.sqrt(consensus)  # loads promise more than they keep, their roots do not (see the benchmarks)
        block.memberships = soft / soft.sum(axis=1, keepdims=True)
        block.labels = block.memberships.argmax(axis=1)
        block.S = block.H = block.z = block.w = block.J = None  # the state has been read, and the memory is wanted
        return agrees.sum(axis=0), block.told.sum(axis=0), np.bincount(block.labels, minlength=k)

    agreeing, told, members = _sums(rows.map(read, reads="graph"))
    views = np.argsort(rows.data.slots)
    slices = np.append(views, V - 1) if s.joint else views
    memberships = memberships[slices]
    parts = ("scalings", "rows", "squares")
    schemes = [replace(x, **{name: [getattr(x, name)[v] for v in views] for name in parts}) for x in anchors.schemes]
    anchor_labels, by_H = memberships.mean(axis=0).argmax(axis=1), rows.take("by_H", at)
    found = dict(
        anchor_memberships=memberships[: len(views)], joint_memberships=memberships[-1] if s.joint else None,
        anchors=rows.numbers[at], anchor_labels=anchor_labels, view_agreement=(agreeing / np.maximum(told, 1))[slices],
        _share_told=(told / rows.data.n)[slices], **rows.outcome(slices, k),
        _anchors=replace(anchors, schemes=schemes, usable=anchors.usable[views]),
    )  # fmt: skip
    return found, ((by_H < 0) | (by_H == anchor_labels)).mean(), np.count_nonzero(members == 0)


def _handed_over(rows, name, slices):
    """The blocks' arrays, which they lose, as one in the order of the given samples, with these slices."""
    first = getattr(rows.blocks[0], name)
    whole = np.empty((rows.data.n, len(slices), *first.shape[2:]), first.dtype)
    for block in rows.blocks:
        whole[rows.data.rows[block.rows]] = getattr(block, name)[:, slices]
        setattr(block, name, None)
    return whole


# Of 115 runs on public sets 48 had less; 43 of them differed from the classes (ARI below 0.7), of the others 1 in 7.
_CLARITY = 0.7


def _doubts(result, together, empty, different):
    """What the user should be warned of."""
    k = result.memberships.shape[1]
    if empty:
        differ = f"the data have {different} different sample(s), of which the graphs may tell fewer apart"
        yield f"{empty} of {k} clusters are empty; {differ}", UserWarning
    for name, told in zip(result.view_names, result._share_told):
        if told < 0.25:
            why = "it was not seen in the others, or they are equally far from all anchors there"
            yield f"{name} tells something about {told:.0%} of the samples only: {why}", UserWarning
    if result.clarity is not None and result.clarity < _CLARITY:
        apart = f"two ways to find them agree by {result.clarity:.2f} only (adjusted Rand index)"
        yield f"the clusters are not clear: {apart}; some may be cut in pieces or merged, see suggest_k", UserWarning
    if result.n_iter and result.stopped_by == "max_iter":
        residuals = ", ".join(f"{name} {result.history[name][-1]:.1e}" for name in HISTORY[:3])
        failed = f"no convergence in max_iter={result.n_iter} iterations, residuals {residuals}"
        yield f"{failed}: raise max_iter or tol", ConvergenceWarning
    certain, there = result.anchor_memberships.max(axis=2).mean(), 1 < k <= len(result.labels) / 2
    if result.n_iter and there and (together < 0.5 or certain < 1.01 / k):
        blamed = "lambda2" if certain < 1.5 / k else "lambda1"
        apart = f"the factors have come apart: {together:.0%} of the anchors are in the cluster that they vote for"
        apart = "the factors have come apart: the anchors vote for all clusters alike" if certain < 1.01 / k else apart
        hint = f"; {blamed}={result.options[blamed]:.3g} is probably too large" if result.options[blamed] else ""
        yield apart + hint, UserWarning


class _Progress:
    """Seconds of every stage; if verbose, after two seconds, a line on standard error: stage, share done, time left.

    The line is drawn over in a terminal and in a notebook; elsewhere there is a new one every two seconds.
    """

    def __init__(self, verbose):
        self.verbose, self.stage, self.shown, self.seconds = verbose, None, 0.0, {}
        self.started = self.since = time.perf_counter()
        self.redraws = "ipykernel" in sys.modules or getattr(sys.stderr, "isatty", bool)()  # there may be none

    def __call__(self, stage):
        now = time.perf_counter()
        if self.stage is not None:
            self.seconds[self.stage] = now - self.since
        self.stage, self.since = stage, now
        self.show(0.0)

    def show(self, share, detail=""):
        """Tell how much of the stage is done, from 0 to 1; the time left is the time taken by what is left."""
        now, done = time.perf_counter(), self.stage == "done"
        due = now - self.started >= 2.0 and now - self.shown >= (0.1 if self.redraws else 2.0)
        if self.verbose and (self.shown if done else due):
            self.shown = now
            left = f"{(now - self.since) * (1 - share) / share:5.0f} s left" if share > 0 else ""
            line = f"agtf {self.stage:16} [{'#' * round(20 * share):20}] {share:4.0%} {left} {detail}"
            line = f"agtf done in {now - self.started:.1f} s" if done else line
            start, end = "\r" if self.redraws else "", "" if self.redraws and not done else "\n"
            print(f"{start}{line:<78}", end=end, file=sys.stderr, flush=True)


class AGTF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Anchor graph tensor factorization as a scikit-learn estimator.

    The options are those of `cluster`, with the same defaults; `n_clusters` is its k. After `fit` there are `labels_`
    (n,), `n_iter_`, `n_features_in_`, the number of features of all views, and `result_`, the `Result`, with the rest.

    >>> import agtf
    >>> views, y = agtf.digits_views()
    >>> model = agtf.AGTF(n_clusters=10).fit(views)
    >>> bool((model.labels_ == agtf.cluster(views, 10).labels).all())
    True
    """

    def __init__(
        self, n_clusters=8, *, join="inner", feature_names=None, impute=None, scale="auto", anchors="medoid",
        n_anchors="auto", n_draws="auto", n_neighbors="auto", joint=True, normalize=True, init="spectral",
        axis="cluster", p=0.5, lambda1="auto", lambda2="auto", fft_norm="ortho", penalty="auto", growth=2.0, tol=0.05,
        max_iter=200, random_state=0, callback=None, verbose=0, n_jobs=None,
    ):  # fmt: skip
        self.n_clusters, self.join, self.feature_names, self.impute = n_clusters, join, feature_names, impute
        self.scale, self.anchors, self.n_anchors, self.n_draws = scale, anchors, n_anchors, n_draws
        self.n_neighbors, self.joint, self.normalize, self.init = n_neighbors, joint, normalize, init
        self.axis, self.p, self.lambda1, self.lambda2, self.fft_norm = axis, p, lambda1, lambda2, fft_norm
        self.penalty, self.growth, self.tol, self.max_iter = penalty, growth, tol, max_iter
        self.random_state, self.callback, self.verbose, self.n_jobs = random_state, callback, verbose, n_jobs

    def fit(self, X, y=None, mask=None):
        """Cluster X, a list or dict of views or one (n, d) table; y is ignored; mask as in `cluster`."""
        if _is_one_table(X):
            finite = "allow-nan" if self.impute else True
            validate_data(self, X, accept_sparse="csr", dtype="numeric", ensure_min_samples=2, ensure_all_finite=finite)
        else:
            vars(self).pop("feature_names_in_", None)  # of an earlier fit
        tables = _as_tables(X, join=self.join, feature_names=self.feature_names)
        self.n_features_in_ = sum(table.shape[1] for table in tables.tables)
        # One cluster is a pointless but legal setting for an estimator, as it is for KMeans.
        self.result_ = _cluster(tables, mask, self, fewest=1)
        self.n_iter_ = self.result_.n_iter
        return self

    @property
    def labels_(self):
        return self.result_.labels

    @property
    def _n_features_out(self):  # of transform, for scikit-learn's names of columns
        return self.result_.memberships.shape[1]

    def predict(self, X, mask=None):
        """Labels of unseen samples, see `Result.predict`."""
        return self.predict_proba(X, mask).argmax(axis=1)

    def predict_proba(self, X, mask=None):
        """Memberships (n, k) of unseen samples, see `Result.predict_memberships`."""
        check_is_fitted(self)
        # Columns are matched by the given names, which scikit-learn does not know.
        if _is_one_table(X) and not (self.feature_names is not None and hasattr(X, "columns")):
            finite = "allow-nan" if self.impute else True
            validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric", ensure_all_finite=finite)
        return self.result_.predict_memberships(X, mask, self.n_jobs)

    transform = predict_proba  # for pipelines

    def fit_transform(self, X, y=None, mask=None):
        """The same as `fit`, then `transform`; what the factorisation says is in `result_.memberships`."""
        return self.fit(X, mask=mask).transform(X, mask)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_one_table(X):
    """Whether X is one table in memory, of which scikit-learn can tell whether it is right."""
    several = isinstance(X, (list, tuple)) and len(X) > 0 and np.ndim(X[0]) == 2 or _is_cells(X)
    return not several and not _is_mapping(X) and not _is_dask(X)


Suggestion = namedtuple("Suggestion", "candidates scores spectrum")


def suggest_k(views, k_max=20, *, mask=None, join="inner", impute=None, scale="auto", random_state=0, n_jobs=None):
    """Numbers of clusters that the data suggest, from gaps in the spectrum of their anchor graphs.

    k clusters that are hardly joined make k eigenvalues close to 1 and a drop after them. The score of k is the log of
    the ratio of eigenvalue k to eigenvalue k + 1, of the views' graphs together and of the joint graph, averaged over
    both and over the draws of anchors, and 1 more where a graph falls apart into k pieces, or nearly. Numbers from 2 to
    `k_max` are considered, the other options are those of `cluster`. Returns a named tuple: `candidates`, the most
    convincing first; their `scores`; the `spectrum`, the eigenvalues, descending, the first is 1.

    >>> import numpy as np, agtf
    >>> rng = np.random.default_rng(0)
    >>> X = 9 * rng.normal(size=(4, 5))[rng.integers(0, 4, 200)] + rng.normal(size=(200, 5))
    >>> int(agtf.suggest_k([X], 10).candidates[0])
    4
    """
    tables = _as_tables(views, join=join)
    k_max = _whole("k_max", k_max, 2, tables.n - 1, f"lie between 2 and the number of samples less one, {tables.n - 1}")
    o, mask = AGTF(k_max, impute=impute, scale=scale, random_state=random_state), _as_mask(mask, tables)
    s = _resolve(o, tables.n, len(tables.tables))
    if impute:
        if tables.chunks is not None:
            _check_choice("with dask arrays, whose rows are apart, impute", impute, [None])
        _fill_holes(tables, mask)
    with _limits(n_jobs):
        rows, _, anchors = _prepare(tables, mask, s, _Progress(0))
        sample = rows.near.head(_SAMPLE)
        parts = _parts_without_copies(sample, anchors)  # every category would be a cluster
        parts = [p.share**2 for p in _projections(sample, anchors, k_max, k_max + 1, s.rng, parts)]
    # Few anchors have a short spectrum; three equal values at least, which suggest k = 2 without conviction.
    length = min(map(len, parts))
    parts = [np.maximum(np.pad(part[:length], (0, max(3 - length, 0)), mode="edge"), 1e-12) for part in parts]
    apart = [1.0 - part[1:-1] < _CLEAR * (1.0 - part[2:]) for part in parts]
    scores = np.mean([np.log(part[1:-1] / part[2:]) + clear for part, clear in zip(parts, apart)], axis=0)
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

    return [of_view(v) for v in np.argsort(data.slots)]


@np.errstate(over="ignore", invalid="ignore")  # values too large to square have no variance
def _moments(rows, label, k):
    """Of each cluster in a block of rows the count (k,), the mean and the variance, (k, d) each."""
    count, mean, variance = np.bincount(label, minlength=k), *np.zeros((2, k, rows.shape[1]))
    for c in np.flatnonzero(count):
        some = rows[label == c].astype(float)
        if sparse.issparse(some):
            mean[c], variance[c] = mean_variance_axis(some, axis=0)
        else:
            shifted = some - some[0]  # differences from one row have no offset that would cost digits
            mean[c], variance[c] = some[0] + shifted.mean(axis=0), shifted.var(axis=0)
    return count, mean, variance


@np.errstate(over="ignore", invalid="ignore")
def _pooled(moments):
    """The `_moments` of all blocks together."""
    counts, means, variances = map(np.array, zip(*moments))
    count, first = counts.sum(axis=0), means[(counts > 0).argmax(axis=0), np.arange(counts.shape[1])]
    weight = counts[:, :, None] / np.maximum(count, 1)[:, None]
    mean = first + (weight * (means - first)).sum(axis=0)
    return count, mean, (weight * (variances + (means - mean) ** 2)).sum(axis=0)


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
    """The table; the page's style draws a bar in cells that say how long, full for a difference of 3 or more."""
    body = ""
    for row in rows:
        body += "<tr>"
        for name, cell in zip(header, row):
            mark = ' class="n"' if _NUMBER.fullmatch(cell) else ""
            if name == "difference":
                size, side = min(abs(float(cell)) / 3, 1), "less" if cell.startswith("-") else "more"
                mark = f' class="{side}" style="--bar: {size:.2f}"'
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
    memberships, (index, weights, told) = result._slice_memberships(), result._graph_of(i)
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
        name = _printable(name) if told[v] else f"{_printable(name)} (says nothing: by the others)"
        rows.append((name, f"{shares[v]:.0%}", ", ".join(f"{c}: {votes[v, c]:.2f}" for c in best), text))
    return Description(
        title=title, sample=i, label=label, favoured=favoured, slices=result.slices, anchors=anchors, weights=weights,
        clusters=clusters, votes=votes, told=told, shares=shares, sample_names=result.sample_names,
        tables=[("how its anchors vote", ("slice", "share", "votes", "anchors: sample x weight > cluster"), rows)],
        columns={"slice": result.slices, "share": shares, "votes": list(votes)},
    )  # fmt: skip


def _describe(result):
    """All clusters, see `Result.describe`."""
    labels, (n, k) = result.labels, result.memberships.shape
    votes = _votes(result._index, result._weight, result._slice_memberships())
    sizes, support, own = np.bincount(labels, minlength=k), votes.mean(axis=1), (np.arange(n), labels)
    members, some = sparse.csc_array((np.ones(n), labels, np.arange(n + 1)), (k, n)), np.maximum(sizes, 1)
    mixing, voted = (members @ x / some[:, None] for x in (result.memberships, support))
    agrees = result._told & (votes.argmax(axis=2) == labels[:, None])
    agreement = members @ agrees / np.maximum(members @ result._told, 1)
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
    views = []
    for name, (_, mean, _), told in zip(result.view_names, result._profile, result._share_told):
        partly = f", telling something about {told:.0%} of the samples" if told < 1 else ""
        views.append(f"{_printable(name)} ({mean.shape[1]} features{partly})")
    anchors = f"{result.options['n_draws']} draws of {result.options['n_anchors']}"
    options = {name: f"{x:.4g}" if isinstance(x, float) else _printable(x) for name, x in result.options.items()}
    agreement = ", ".join(f"{_printable(name)} {x:.1%}" for name, x in zip(result.slices, result.view_agreement))
    residuals = ", ".join(f"{name} {x:.1e}" for name in HISTORY[:3] for x in result.history[name][-1:])
    clarity = "unknown" if result.clarity is None else f"{result.clarity:.2f}"
    facts = {
        "Data": f"{', '.join(views)}; anchors, samples that stand for all: {anchors}",
        "Agreement of the views": f"{agreement} of the samples are where that view's anchors alone would put them",
        "Clarity": f"two ways to find the clusters agree by {clarity} (adjusted Rand index; below 0.7 doubtful)",
        "Certainty": f"half of the samples have a membership above {middle:.2f}, a tenth one below {low:.2f}",
    }
    technical = {
        "Convergence": f"{result.n_iter} iterations, ended by {result.stopped_by}; residuals {residuals or 'unknown'}",
        "Options": ", ".join(f"{name} = {x}" for name, x in options.items()),
    }
    cards = (_describe_cluster(result, everything, c)._repr_html_() for c in range(k))
    parts = {
        "title": escape(everything.title), "version": __version__,
        "facts": "".join(f"<p><b>{name}:</b> {escape(text)}.</p>" for name, text in facts.items()),
        "technical": "".join(f"<p><b>{name}:</b> {escape(text)}.</p>" for name, text in technical.items()),
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
p { max-width: 60rem } table { border-collapse: collapse; overflow-wrap: normal }
th button { font: inherit; padding: 0 .2rem }
.wide, output { overflow-x: auto } output { display: block; white-space: pre; font: .8rem/1.5 monospace }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #8886 }
.n { text-align: right } .sortable td:nth-last-child(2) { min-width: 16rem }
[aria-sort=ascending]::after { content: "▲" } [aria-sort=descending]::after { content: "▼" }
[style] { white-space: nowrap } [style]::before { content: ""; display: inline-block; width: calc(4rem * var(--bar));
  height: .6em; margin-right: .4em; background: #cc6677; print-color-adjust: exact } .more::before { background: #69c }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(25rem, 100%), 1fr)); gap: 1rem }
article { border: 1px solid #8886; padding: 1rem; break-inside: avoid; min-width: 0 }
@media print { :root { color-scheme: light; font-size: 9px } form { display: none } .wide { overflow: visible }
  button { all: unset } .sortable td:nth-last-child(2) { min-width: 0 } h2 { break-after: avoid } }
</style></head><body><main><h1>$title</h1>$facts
<form><h2>Look up a sample</h2><label>Number or name <input name="wanted" autocomplete="off"></label>
<button>Explain</button><output id="answer" tabindex="0"></output></form><p>$left_out</p>
<h2>Clusters</h2><p>Sure: the mean membership of the samples in their cluster. Confused: the share of them with a
membership above 0.1 in the closest cluster. Agrees: the share whose cluster that view's anchors alone would choose.
Joint: the features of all views together. Differences from all other samples are in standard deviations within both
groups (Cohen's d); bars are full at 3. Click a column's name to sort.</p>
$clusters<h2>Each cluster</h2><div class="cards">$cards</div>
<h2>How it was made</h2>$technical<p>Written by agtf $version.</p></main>
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
_HOLES = ("na", "n/a", "null", "none", "?")  # what files have in the place of a number, besides
_WRITTEN_HOLES = ["", "#N/A N/A", *"? NaN nan -NaN -nan NA na N/A n/a NULL Null null None none <NA> #NA #N/A".split()]
_WRITTEN_HOLES += "1.#QNAN -1.#QNAN 1.#IND -1.#IND".split()
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
    if y_true.shape != labels.shape or labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"y_true has shape {y_true.shape}, labels {labels.shape}: give both one label per sample")
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
    return {name: float(value) for name, value in (scores | {"precision": precision, "recall": recall}).items()}


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
        are_tables = paths[0].lower().endswith(_TABLES)
        for name in chosen if are_tables else (*chosen, labels):
            if name not in (None, *contents):
                raise ValueError(f"it holds nothing called {name!r}")
        if labels in chosen and not are_tables:
            raise ValueError(f"{labels!r} can't be a view and the labels")
        if are_tables:
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
        raise ValueError(f"give one .mat file, one .npz file, or one of {_TABLES} per view; got {', '.join(paths)}")
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


def _is_label(name, label):
    return str(name).strip().lower() in _LABEL_NAMES if label is None else str(name) == label


def _is_measured(values):
    """Whether they are numbers that no classes have."""
    return values.dtype.kind == "f" and bool((values[values == values] % 1 != 0).any())


def _labels_among(names, label):
    found = [name for name in names if _is_label(name, label)]
    if len(found) > 1:
        raise ValueError(f"{' and '.join(found)} may be labels: keep one, or choose labels={found[-1]!r}")
    return found


def _read_tables(paths, label):
    """Views by file name, as DataFrames if pandas is installed, samples in the order of the first file; labels."""
    tables, y, order, unnamed, read = {}, None, None, [], []
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    for path in paths:
        try:
            read.append(_read_table(path, label))
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{path} is not a table of numbers: {error}") from None
    are_numbered = _share_numbers(read)
    for v, (path, stem, (frame, labels)) in enumerate(zip(paths, stems, read)):
        if are_numbered:
            frame = frame.set_index(frame.columns[0])
            frame.index = frame.index.astype(int).map(str)
            labels = [x.set_axis(frame.index) for x in labels]
        index = getattr(frame, "index", None)
        if index is None or type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
            unnamed.append(path)
            if index is not None and _counts_rows(frame):
                number = f"the first column, {frame.columns[0]!r}, numbers the rows"
                hint = "leave out its name if it names the samples; if it is a feature, put it behind another"
                raise ValueError(f"{path}: {number}: {hint}")
        else:
            samples = frame.index.astype(str)
            order = samples if order is None else order
            if frame.index.hasnans or not samples.is_unique or set(samples) != set(order):
                raise ValueError(f"{path}: the first column is text, but does not name every sample of {paths[0]} once")
            rows = samples.get_indexer(order)
            frame, labels = frame.set_axis(samples).iloc[rows], [x.iloc[rows] for x in labels]
        if labels and y is not None and list(map(str, y)) != list(map(str, labels[0])):
            raise ValueError(f"{path}: its labels are not those of another file: are the rows in the same order?")
        y = labels[0].to_numpy() if labels and y is None else y
        if frame.shape[1]:  # a file may hold nothing but labels
            tables[stem if stems.count(stem) == 1 else f"{stem} {v}"] = frame
    counted = [] if order is None else list(map(str, range(len(order))))
    if unnamed and counted and set(order) == set(counted) and list(order) != counted:
        raise ValueError(f"{unnamed[0]} does not name the samples, and the other files number them in another order")
    if unnamed and order is not None and list(order) != counted:
        named = next(path for path in paths if path not in unnamed)
        _warn(f"{unnamed[0]} does not name the samples: its rows are taken in the order of {named}")
    if label is not None and y is None:
        raise ValueError(f"{', '.join(paths)}: there is no column called {label!r}")
    if y is not None and any(len(table) != len(y) for table in tables.values()):
        raise ValueError(f"{', '.join(paths)}: there are {len(y)} labels, but not as many samples in every file")
    return tables, y


def _read_table(path, label):
    """A DataFrame of numbers, or without pandas an array if a CSV file has nothing else; labels in a list, if any."""
    kind = os.path.splitext(path)[1].lower()
    options = _csv_options(path, label) if kind == ".csv" else {}
    try:
        import pandas
    except ImportError:
        if options.get("header", 0) is None:
            return np.loadtxt(path, delimiter=options["sep"], ndmin=2, encoding="utf-8-sig"), []
        raise ValueError("install pandas to read names, text, holes and other files than .csv") from None
    frame = getattr(pandas, f"read_{kind[1:]}")(path, **options)
    labels = _labels_among(frame, label)
    for name in labels:  # among numbers what is written for a hole is no class
        holes = frame[name].isna() | frame[name].isin(_WRITTEN_HOLES)
        numbers = pandas.to_numeric(frame[name].where(~holes), errors="coerce")
        if holes.any() and not holes.all() and (holes | numbers.notna()).all():
            frame[name] = numbers
    labels = [frame.pop(name) for name in labels if label is not None or not _is_measured(frame[name])]
    names = frame.iloc[:, 0].dropna() if frame.shape[1] and frame.dtypes.iloc[0].kind not in "biuf" else []
    if 2 * sum(_NUMBER.fullmatch(str(name).replace(",", ".")) is not None for name in names) > len(names):
        raise ValueError("the first column is mostly numbers, but not all, or with commas for points")
    if len(names) or frame.shape[1] and frame.columns[0] == "Unnamed: 0":  # text, or the index of to_csv
        frame = frame.set_index(frame.columns[0])
        frame.index = frame.index.map(str, na_action="ignore")  # pandas takes 0, 1, 2 and 2, 1, 0 for mere ranges
    if not frame.shape[1] and not labels:
        raise ValueError("its only column is text; columns are separated by commas, semicolons or tabs")
    return frame.astype(float), labels


def _counts_rows(frame):
    """Whether the first of some columns with names holds consecutive whole numbers, in any order."""
    first = np.sort(frame.iloc[:, 0]) if frame.shape[1] > 1 and frame.columns[0] != 0 else np.zeros(2)
    return len(first) > 9 and (np.diff(first) == 1).all() and first[0] in (0, 1)


def _share_numbers(read):
    """Whether the first columns number the samples: one name, and the same whole numbers, none twice, in every file."""
    first = [x.iloc[:, 0] for x, y in read if hasattr(x, "iloc") and x.shape[1] and x.shape[1] + len(y) > 1]
    if len(read) < 2 or len(first) < len(read) or len({x.name for x in first}) > 1 or first[0].name == 0:
        return False  # without names a first column may be anything
    same = all(set(x) == set(first[0]) for x in first)
    return same and all(x.is_unique and (x % 1 == 0).all() and type(x.index).__name__ == "RangeIndex" for x in first)


def _csv_options(path, label):
    """How pandas is to read a CSV file, from its first two lines that are not blank."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = filter(str.strip, file)
        line = next(lines, '""')
        separator = max(",;\t", key=re.sub('"[^"]*"', "", line).count)
        cells = csv.reader(chain([line], lines), delimiter=separator, skipinitialspace=True)  # some go over many lines
        first, second = next(cells), next(cells, [""])
        longer = len(second) > len(first) and any(any(row[len(first) :]) for row in cells)
    *is_number, starts = [bool(_NUMBER.fullmatch(x)) or x.strip().lower() in _HOLES for x in (*first, second[0])]
    _labels_among(first, label)  # pandas gives a second column of the same name another one
    counted, named = [cell for cell in first if cell], not all(is_number)
    counts = len(counted) > 1 and any(counted == [str(lo + c) for c in range(len(counted))] for lo in (0, 1))
    if len(counted) > 2 and all(map(str.isdecimal, counted)) and int(counted[0]) >= 100:  # years, wavelengths
        steps = {int(b) - int(a) for a, b in zip(counted, counted[1:])}
        counts |= len(steps) == 1 and min(steps) > 0
    if counts or len(first) > 1 and all(is_number[1:]) and not (is_number[0] and first[0].strip()):
        raise ValueError("the first line may be names or data; put a line of names above it, or in its place")
    more = second[len(first) :] if named else []  # than the first line, in which R leaves out the name of the names,
    ended = starts and not any(more) and not longer  # or because all others end in a separator
    if more and not ended and (len(more) > 1 or not more[0] or first[0].startswith("#")):
        raise ValueError("the first line has fewer cells than the second: leave out comments, and name every column")
    holes = _WRITTEN_HOLES
    if named and (texts := [at for at, name in enumerate(first) if _is_label(name, label)]):
        at = texts[0] + (len(more) > 0 and not ended)
        holes = {c: [""] if c == at else _WRITTEN_HOLES for c in range(max(len(first), len(second)) + 1)}
    options = {"sep": separator, "header": 0 if named else None, "na_values": holes, "skipinitialspace": True}
    options["keep_default_na"] = False  # a class may be called None
    names = {"index_col": False} if ended else {"names": ["Unnamed: 0", *first]}
    return options | {"encoding": "utf-8-sig"} | (names if more else {})


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
    cells = {name: list(x.ravel()) if x.dtype == object else [x] for name, x in contents.items()}
    named = [name for name in contents if _is_label(name, label) and (label or name not in chosen)]
    vectors = {name: _label_vector(cells.pop(name), contents[name].dtype == object) for name in named}
    y = max(vectors.values(), key=len, default=np.array([]))
    for name, other in vectors.items():
        both = list(zip(map(str, y), map(str, other)))
        if len(y) == len(other) > 0 and not len(set(both)) == len(set(map(str, y))) == len(set(map(str, other))):
            raise ValueError(f"{' and '.join(vectors)} may be labels, and differ: choose labels={name!r} or another")
    if label is not None and len(y) == 0:
        raise ValueError(f"{label!r} is no vector of labels")
    index = next((x for name, x in cells.items() if name.lower() == "index" and contents[name].dtype == object), [])
    n = len(y) or max((int(np.max(seen)) for seen in index), default=0)
    names, views = chosen or _guess_views(contents, cells, n), {}
    parts = {part.lower() for name in names for part in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}
    if not chosen and {"train", "test"} <= parts:
        raise ValueError("it holds samples for training and others for testing")
    for name in names:
        for cell in cells[name]:
            if cell.dtype.kind not in "biuf" or cell.ndim < 1 or 0 in cell.shape:
                raise ValueError(f"{name!r} is no table of numbers")
            key = f"view {len(views)}" if contents[name].dtype == object else name
            views[key] = cell if cell.ndim == 2 else cell.reshape(len(cell), -1)  # images
    shapes = [view.shape for view in views.values()]
    n = n or next((sizes[0] for sizes in zip(*shapes) if len(set(sizes)) == 1), 0)
    if any(n not in shape for shape in shapes):
        raise ValueError(f"views of shapes {', '.join(map(str, shapes))} share no number of samples {n or ''}".rstrip())
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


def _label_vector(cells, are_cells):
    """One text per cell, or a vector that all cells repeat; else an empty one."""
    cells = [x.toarray() if sparse.issparse(x) else x for x in cells]
    if are_cells and all(cell.dtype.kind == "U" for cell in cells):
        return np.array(["".join(cell) for cell in cells])
    alike = all(np.array_equal(x, cells[0], equal_nan=True) for x in cells[1:] if cells[0].dtype.kind in "biuf")
    is_vector = cells[0].dtype.kind in "biufU" and cells[0].size in cells[0].shape
    return cells[0].ravel() if is_vector and alike else np.array([])


def _guess_views(contents, cells, n):
    """The names of the views: of a cell array of matrices, or else of the matrices."""
    tables = []
    for name, some in cells.items():
        is_table = all(cell.dtype.kind in "biuf" and cell.ndim >= 2 and 0 not in cell.shape for cell in some)
        is_kernel = is_table and _KERNEL_NAMES.fullmatch(name) and all(len(set(cell.shape[:2])) == 1 for cell in some)
        if some and is_table and not is_kernel and not _OTHER_NAMES.fullmatch(name):
            if any(cell.ndim > 2 and len(cell) != n for cell in some):
                raise ValueError(f"{name!r} has more than two axes, and no labels tell that the first is the samples")
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
        if not any(len(cells[x]) == len(cells[name]) and all(map(same, cells[x], cells[name])) for x in views):
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
        more |= dict(yticks=range(len(lines)), yticklabels=[*map(_drawn, lines)], ylim=(len(lines) - 0.5, -0.5))
    ax.set(title=_drawn(title, 200), xlabel=xlabel, ylabel=ylabel, **more)
    return ax


def _drawn(name, width=40):
    """A name in a picture, where $ would begin a formula."""
    return _printable(name, width).replace("$", r"\$")


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
    ax.set_xticks(np.arange(V) * (k + gap) + (k - 1) / 2, [*map(_drawn, result.slices)])
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
    right.set(ylim=(0, None), ylabel="objective" if accuracy is None else "objective, accuracy")
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
            ax.text(*middle, _drawn(classes[c]), bbox={"fc": "white", "ec": colour}, **_CENTRED)
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
        ax.set_yticks(range(len(counts)), [*map(_drawn, np.unique(y_true))])
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
        names = [_drawn(_sample_name(explanation, anchor)) if weight > 0.08 else "" for anchor, weight in anchors]
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
    reach = 1.05 * np.abs(found.differences).max(initial=0.1)  # one scale: a weak view looks weak
    left, right = -reach * (found.differences < 0).any(), reach * (found.differences > 0).any()
    for v, panel in enumerate(np.atleast_1d(panels)):
        some = np.flatnonzero(found.views == v)[:8]
        view, *names = (_printable(x, 24) for x in [result.view_names[v], *found.names[some]])
        _axes(panel, f"Cluster {c}: {view}", "difference / standard deviation", lines=names, xlim=(left, right))
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one view alone is not clear, and that is the point
        rows |= {f"AGTF, {name} only": cluster([view], 10).labels for name, view in zip(names, views)}
    table = [[name, *(f"{x:.3f}" for x in score(y, labels).values())] for name, labels in rows.items()]
    print(_text_table(["", *score(y, y)], table), result.describe(), sep="\n")
    plot_gallery(result, views[0].reshape(-1, 8, 8)).figure.savefig(output, dpi=110)
    print(f"picture: {output}")


def _show(paths):
    """Print what the files hold, and what load_views reads from them."""
    print("contents:", _listing(_read(paths)[0]), "read as:", sep="\n")
    views, y = load_views(paths, names=True)
    for name, view in views.items():
        missing = (np.asarray((view != view).sum(axis=1)) == view.shape[1]).sum()  # NaN differs from itself
        print(f"  {name}: {view.shape[0]} samples, {view.shape[1]} features, {missing} missing rows")
    print("  no labels" if y is None else f"  labels: {len(y)}, {len(np.unique(y[y == y]))} different")


def _run(given, verbose):
    """Cluster the data files, or predict, and write what was asked for, every file whole or not at all."""
    views, y = load_views(given.data, names=True)  # features keep their names in any case, for a model's sake
    known = np.array([]) if y is None else y[y == y]  # NaN, the class of samples without one, differs from itself
    if not given.names:
        views = [x.reset_index(drop=True) if hasattr(x, "reset_index") else x for x in views.values()]
    tables = _as_tables(views)
    names = (f"{name} ({table.shape[1]})" for name, table in zip(tables.view_names, tables.tables))
    print(f"{tables.n} samples, {len(tables.tables)} views: {', '.join(names)}")
    outputs = {}
    if given.predict:
        memberships = load(given.predict).predict_memberships(views)
        labels = memberships.argmax(axis=1)
    else:
        if given.clusters == "auto":
            found = suggest_k(views, min(20, tables.n - 1), impute=given.impute, random_state=given.seed)
            k, next_best, left = int(found.candidates[0]), max(found.scores[1:2], default=0.0), found.spectrum
            sure = "clear" if found.scores[0] > 2 * next_best else "a guess"
            drop = ", ".join(f"{1 - left[c] / left[c - 1]:.0%} after {c}" for c in found.candidates[:3])
            print(f"k = {k} is {sure}: the graphs' spectrum drops by {drop}")
        elif given.clusters is None and (len(known) == 0 or _is_measured(known)):
            raise ValueError(f"{given.data[0]} has no labels to count, whole numbers or text: give -k, or -k auto")
        else:
            k = int(given.clusters or len(np.unique(known)))
        result = cluster(views, k, impute=given.impute, random_state=given.seed, verbose=verbose)
        labels, memberships = result.labels, result.memberships
        outputs = {"report": (given.report, result.report), "model": (given.save, result.save)}
    print("cluster sizes: " + ", ".join(map(str, np.bincount(labels, minlength=memberships.shape[1]))))
    if len(known) and len(y) == len(labels) and not _is_measured(known):
        scores = (f"{name} {x:.3f}" for name, x in score(known, labels[y == y]).items())
        print(f"against the file's labels: {', '.join(scores)}")

    def write_csv(path):
        columns = ({"sample": tables.sample_names} if given.names and tables.sample_names else {}) | {"label": labels}
        if given.memberships:
            columns |= {f"cluster {c}": np.char.mod("%.6f", column) for c, column in enumerate(memberships.T)}
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *zip(*columns.values())])

    for what, (path, write) in ({"labels": (given.output, write_csv)} | outputs).items():
        if path:
            real = os.path.realpath(path)
            with tempfile.TemporaryDirectory(dir=os.path.dirname(real)) as folder:
                write(os.path.join(folder, "part"))
                os.replace(os.path.join(folder, "part"), real)
            print(f"{what}: {path}")
    if not given.output:
        print("labels are not written: name a file with -o")


def _main(arguments=None):
    import argparse

    about = "Cluster multi-view data. Without arguments: cluster the built-in digits and draw a picture."
    parser = argparse.ArgumentParser(prog="python -m agtf", description=about)
    add = parser.add_argument
    add("data", nargs="*", help="a .mat or .npz file, or .csv, .parquet or .feather files, one per view")
    add("-k", "--clusters", help='how many, or "auto" (default: as many as the labels in the file)')
    add("-o", "--output", help="file for the labels, or for the demo's picture")
    add("--memberships", action="store_true", help="write the memberships in all clusters beside the labels")
    add("--names", action="store_true", help="keep the names of views, features and samples that the files give")
    add("--report", metavar="FILE.html", help="write the result as a page for a browser")
    add("--save", metavar="MODEL.npz", help="write the result for agtf.load and --predict")
    add("--predict", metavar="MODEL.npz", help="labels for the data from a saved result; nothing is clustered")
    add("--impute", action="store_const", const="mean", help='fill single holes with means: impute="mean"')
    add("--seed", type=int, default=0, help="random_state (default: 0)")
    add("--show", action="store_true", help="print what the files hold and what is read, then stop")
    add("--quiet", action="store_true", help="no progress line")
    add("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    clustering = given.clusters or given.impute or given.report or given.save
    if not given.data and (clustering or given.predict):
        parser.error("-k, --impute, --report, --save and --predict need data files")
    if given.predict and clustering:
        parser.error("-k, --impute, --report and --save cluster, --predict does not: leave one or the other out")
    if given.clusters not in (None, "auto") and not given.clusters.isdecimal():
        parser.error(f"-k must be a whole number or auto, got {given.clusters}")
    verbose = int(not given.quiet and sys.stderr.isatty())
    outputs = [path for path in (given.output, given.report, given.save) if path]
    taken = list(map(os.path.realpath, (*outputs, *given.data, given.predict or "")))
    try:
        for path in outputs:
            real, other = os.path.realpath(path), os.path.exists(path) and not os.path.isfile(path)  # folders, devices
            if other or taken.count(real) > 1 or not os.path.isdir(os.path.dirname(real)):
                raise ValueError(f"{path} cannot be written: an input, given twice, no file, or in a folder not there")
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
    warnings.showwarning = lambda message, *_, **__: print(f"agtf: {message}", file=sys.stderr)
    sys.exit(_main())
