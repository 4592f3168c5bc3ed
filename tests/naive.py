"""Anchor graph tensor factorisation, slowly: every formula of the paper as plainly as NumPy allows.

This is the reference that the fast module is compared with. It shares no code with it: no FFT, no Gram matrices,
no sorting tricks, dense tensors only. Tensors have the paper's shape (n1, n2, n3), X[:, :, v] is frontal slice v.
Labels in brackets, such as (solveG), are the paper's own equation labels.
"""

from itertools import permutations

import numpy as np

# ---- Tensors ---------------------------------------------------------------------------------------------------------


def tprod(A, B):
    """t-product A * B (def:t-prod), in the time domain: circular convolution of the frontal slices."""
    V = A.shape[2]
    return np.stack([sum(A[:, :, w] @ B[:, :, (v - w) % V] for w in range(V)) for v in range(V)], axis=2)


def ttranspose(A):
    """Tensor transpose A^T: slice 0 is the transpose of slice 0, slice v that of slice V - v."""
    V = A.shape[2]
    return np.stack([A[:, :, -v % V].T for v in range(V)], axis=2)


def fourier(X, dim, sign):
    """Discrete Fourier sums along one dimension, no factor: sum_j X_j exp(sign 2 pi i jk / L) for k = 0 .. L-1."""
    L = X.shape[dim]
    roots = np.exp(sign * 2j * np.pi * np.arange(L) / L)  # jk counts modulo L: less rounding in the angle
    sums = [sum(X.take(j, axis=dim) * roots[j * k % L] for j in range(L)) for k in range(L)]
    return np.stack(sums, axis=dim)


SLICED_DIM = {"cluster": 1, "lateral": 1, "sample": 0, "view": 2}  # the dimension that numbers the matrices


def slices(X, axis, norm):
    """Matrices whose singular values enter the Schatten norm (tensorSpNorm).

    For (n, K, V): "cluster" and "lateral" give K matrices n x V, "sample" n matrices K x V, "view" V matrices n x K,
    after a DFT along the numbering dimension, except for "lateral", which has none.
    """
    dim, L = SLICED_DIM[axis], X.shape[SLICED_DIM[axis]]
    if axis != "lateral":
        X = fourier(X, dim, -1) / {"ortho": np.sqrt(L), "backward": 1.0}[norm]
    return [X.take(i, axis=dim) for i in range(L)]


def unslice(matrices, axis, norm):
    """Inverse of `slices`: the real tensor with the given matrices."""
    dim, L = SLICED_DIM[axis], len(matrices)
    X = np.stack(matrices, axis=dim)
    if axis != "lateral":
        X = fourier(X, dim, +1) / {"ortho": np.sqrt(L), "backward": L}[norm]
    return X.real


# ---- Schatten p-norm and its proximal step ---------------------------------------------------------------------------


def schatten_norm(X, p, axis="cluster", norm="ortho"):
    """Tensor Schatten p-norm (tensorSpNorm): p-th root of the sum of sigma^p over all slices."""
    sigma = np.concatenate([np.linalg.svd(M, compute_uv=False) for M in slices(X, axis, norm)])
    # For small p a rounding error is not small: (1e-16)^0.5 is 1e-8. What is zero up to rounding counts as zero.
    sigma = sigma[sigma > 1e-12 * sigma.max()]
    return np.sum(sigma**p) ** (1 / p)


def gst(s, tau, p):
    """Minimiser over x >= 0 of (x - s)^2 / 2 + tau x^p: the scalar problem behind P_tau in (T2)."""

    def value(x):
        return (x - s) ** 2 / 2 + tau * x**p

    def slope(x):
        return x - s + tau * p * x ** (p - 1)

    if s == 0:
        return 0.0
    # A local minimum lies where the slope turns from negative to positive. In the variable x the basin can be narrow
    # and close to 0 (p near 1), in log x it is wide: when it beats x = 0, the slope is negative from x/2 up to x.
    grid = s * np.geomspace(1e-12, 1, 401)
    best = 0.0
    for low, high in zip(grid, grid[1:]):
        if slope(low) < 0 <= slope(high):
            x = bisect(slope, low, high)
            if value(x) < value(best):
                best = x
    return best


def bisect(function, low, high):
    """Where a function, negative at low and not at high, crosses zero, to the last bit."""
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return high
        if function(middle) < 0:
            low = middle
        else:
            high = middle


def schatten_prox(Z, tau, p, axis="cluster", norm="ortho"):
    """Gamma_tau(Z) of (T2): shrink every singular value of every slice by `gst`.

    With norm="backward" tau acts on the unnormalised slices, which is a weaker shrinkage of Z itself.
    """
    shrunk = []
    for M in slices(Z, axis, norm):
        U, sigma, Vh = np.linalg.svd(M, full_matrices=False)
        shrunk.append(U @ np.diag([gst(s, tau, p) for s in sigma]) @ Vh)
    return unslice(shrunk, axis, norm)


def simplex(b):
    """Nearest point to b with entries >= 0 and sum 1: max(b + gamma, 0), gamma as below (solveG)."""
    b = b - np.max(b)  # moves gamma only, and puts it between 0 and 1
    gamma = bisect(lambda g: np.sum(np.maximum(b + g, 0)) - 1, 0.0, 1.0)
    return np.maximum(b + gamma, 0)


# ---- Anchors and graphs ----------------------------------------------------------------------------------------------


def vda(views, m):
    """Variance-based anchors: m row numbers, ascending, the same in every view; ties go to the first row."""
    s = np.concatenate(views, axis=1).var(axis=1, ddof=1)
    chosen = []
    while True:
        if s.max() > 0:
            s = s / s.max()
        left = [i for i in range(len(s)) if i not in chosen]
        last = max(left, key=lambda i: s[i])  # the first of equals
        chosen.append(last)
        if len(chosen) == m:
            return np.array(sorted(chosen))
        c = 1 / (1 + np.sqrt(np.abs(s[last] - s)))
        c = c / c.max()
        s = s * (1 - c)


def anchor_graph(X, A, k):
    """Anchor graph S^(v), (n, m): weights on the k < m nearest anchors fall linearly with squared distance."""
    return np.array([anchor_weights([np.sum((x - anchor) ** 2) for anchor in A], k) for x in X])


def anchor_weights(d, k):
    """One row of the graph from squared distances; anchors at an infinite distance do not count.

    Who has the same distance, up to rounding, from all anchors that count is joined to none. Where the k + 1 nearest
    are copies of one anchor the k first share the weight. Where no more than k count, the last is the one beyond.
    """
    weights = np.zeros(len(d))
    reached = [j for j in range(len(d)) if d[j] < np.inf]
    order = sorted(reached, key=lambda j: d[j])  # stable: of equal distances, the first anchor
    if len(order) < 2 or d[order[-1]] - d[order[0]] <= 1e-9 * d[order[-1]]:
        return weights
    last = min(k, len(order) - 1)
    total = sum(d[order[last]] - d[j] for j in order[:last])  # k d_{k+1} - sum d_j, exactly 0 for equal distances
    for j in order[:last]:
        weights[j] = (d[order[last]] - d[j]) / total if total > 1e-12 * d[order[-1]] else 1 / last
    return weights


# ---- The five updates ------------------------------------------------------------------------------------------------


def update_G(S, H, F, Y3, sigma):
    """(solveG): rows of every frontal slice of B1 projected on the simplex; B1 as below (solveG4)."""
    W1 = F - Y3 / sigma
    B1 = (tprod(ttranspose(S), H) + sigma / 2 * W1) / (1 + sigma / 2)
    G = np.zeros_like(B1)
    for v in range(G.shape[2]):
        for j in range(G.shape[0]):
            G[j, :, v] = simplex(B1[j, :, v])
    return G


def update_H(S, G, Q, Y1, J, Y2, mu, rho, H):
    """(solveH): polar factor of every view frequency of B2, as below (solveH4).

    H, the previous iterate (or the argument of its low-rank step), decides what B2 leaves open.
    """
    W2, W3 = Q - Y1 / mu, J - Y2 / rho
    B2 = 2 * tprod(S, G) + mu * W2 + rho * W3
    pairs = zip(slices(B2, "view", "backward"), slices(H, "view", "backward"))
    return unslice([polar(B, previous) for B, previous in pairs], "view", "backward")


def polar(B, previous):
    """Limit of the polar factor of B + eps * previous for eps -> 0: Lambda V^H of (solveH) where B has full rank.

    Where B is rank deficient, (solveH4) leaves the images of its null space open; `previous` decides them. What it
    sends into the range of B or to zero stays open too, and any fixed matrix decides that.
    """
    H = np.zeros_like(B)  # a partial isometry: H H^H and H^H H are the projections on what is used
    for X in (B, previous, np.random.RandomState(0).uniform(size=B.shape)):
        D = (np.eye(len(H)) - H @ H.conj().T) @ X @ (np.eye(B.shape[1]) - H.conj().T @ H)
        U, sigma, Vh = np.linalg.svd(D, full_matrices=False)
        kept = sigma > 1e-7 * np.sqrt(np.sum(np.abs(X) ** 2))
        H = H + U[:, kept] @ Vh[kept]
    return H


def update_Q(H, Y1, mu):
    """(solveQ): the non-negative part, taken in the time domain, where Q >= 0 is asked for (solveQ1)."""
    return np.maximum(H + Y1 / mu, 0)


def update_J(H, Y2, lambda1, rho, p, axis, norm):
    """(solveJ): low-rank copy of H."""
    return schatten_prox(H + Y2 / rho, lambda1 / rho, p, axis, norm)


def update_F(G, Y3, lambda2, sigma, p, axis, norm):
    """(solveF): low-rank copy of G."""
    return schatten_prox(G + Y3 / sigma, lambda2 / sigma, p, axis, norm)


def algorithm1(S, H, Q, J, F, p, lambda1, lambda2, mu, rho, sigma, growth, iterations, axis="cluster", norm="ortho"):
    """Algorithm 1 (A1) from a given start, for a fixed number of iterations (at least one), with the terms of (of)."""
    Y1, Y2, Y3 = np.zeros_like(H), np.zeros_like(H), np.zeros_like(F)
    history, W = [], H
    for _ in range(iterations):
        G = update_G(S, H, F, Y3, sigma)
        H = update_H(S, G, Q, Y1, J, Y2, mu, rho, W)
        W = H + Y2 / rho
        Q = update_Q(H, Y1, mu)
        J = update_J(H, Y2, lambda1, rho, p, axis, norm)
        F = update_F(G, Y3, lambda2, sigma, p, axis, norm)

        fit = np.sum((S - tprod(H, ttranspose(G))) ** 2)
        H_norm = schatten_norm(J, p, axis, norm) ** p
        G_norm = schatten_norm(F, p, axis, norm) ** p
        history.append({
            "Q-H": np.abs(Q - H).max(), "Q-J": np.abs(Q - J).max(), "G-F": np.abs(G - F).max(),
            "fit": fit, "H_norm": H_norm, "G_norm": G_norm, "objective": fit + lambda1 * H_norm + lambda2 * G_norm,
            "mu": mu, "rho": rho, "sigma": sigma,
        })  # fmt: skip

        Y1 = Y1 + mu * (H - Q)
        Y2 = Y2 + rho * (H - J)
        Y3 = Y3 + sigma * (G - F)
        mu, rho, sigma = min(growth * mu, 1e13), min(growth * rho, 1e13), min(growth * sigma, 1e13)
    labels = Q.mean(axis=2).argmax(axis=1)
    return {"H": H, "G": G, "Q": Q, "J": J, "F": F, "Y1": Y1, "Y2": Y2, "Y3": Y3, "labels": labels, "history": history}


# ---- Scores ----------------------------------------------------------------------------------------------------------


def pair_scores(y_true, labels):
    """Clustering scores from their definitions: ACC, purity and NMI (arithmetic mean) from counts, the rest from pairs.

    Without a pair in common precision, recall and f_score are 0; equal partitions have ari = nmi = 1.
    """
    y_true, labels = list(y_true), list(labels)
    n, classes, clusters = len(labels), sorted(set(y_true)), sorted(set(labels))
    size = max(len(classes), len(clusters))
    assert size <= 7, "ACC tries every permutation of the clusters"
    counts = np.zeros((size, size))  # classes by clusters, padded to a square
    for t, c in zip(y_true, labels):
        counts[classes.index(t), clusters.index(c)] += 1

    tp = fp = fn = tn = 0
    for i in range(n):
        for j in range(i + 1, n):
            same_class, same_cluster = y_true[i] == y_true[j], labels[i] == labels[j]
            tp += same_cluster and same_class
            fp += same_cluster and not same_class
            fn += not same_cluster and same_class
            tn += not same_cluster and not same_class

    information = 0.0
    for t, c in zip(*np.nonzero(counts)):
        information += counts[t, c] / n * np.log(n * counts[t, c] / (counts[t].sum() * counts[:, c].sum()))
    entropies = [-sum(q * np.log(q) for q in counts.sum(axis=d) / n if q > 0) for d in (0, 1)]

    return {
        "ACC": max(sum(counts[t, c] for t, c in enumerate(order)) for order in permutations(range(size))) / n,
        "purity": counts.max(axis=0).sum() / n,
        "precision": tp / (tp + fp) if tp else 0.0,
        "recall": tp / (tp + fn) if tp else 0.0,
        "f_score": 2 * tp / (2 * tp + fp + fn) if tp else 0.0,
        "ari": 2 * (tp * tn - fn * fp) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn)) if fp or fn else 1.0,
        "nmi": information / np.mean(entropies) if any(entropies) else 1.0,
    }
