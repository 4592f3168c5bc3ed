"""The paper's tables and figures in its own protocol, and the same with the rows shuffled.

    python tests/benchmarks/paper.py [--quick] [--json FILE]

Prints the tables, writes the page tutorials/paper_results.md with its pictures (--quick: build/paper_results.md).
The files are sorted by class, and the paper's protocol depends on the order of the rows: every score says which it was.
"""

import argparse
import json
import pathlib
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from types import SimpleNamespace

import matplotlib
import numpy as np
import scipy.sparse as sparse
from datasets import FOLDER, ROOT, agtf, available, load, noisy_mnist, shuffled
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

# Appendix B of the paper; the number of Reuters' anchors is 0.01 of its 18758 documents, kept for the smaller file.
PAPER = {
    "MSRC": dict(n_anchors=0.4, p=0.5, lambda1=100.0, lambda2=1.0),
    "HandWritten4": dict(n_anchors=0.4, p=0.4, lambda1=5.0, lambda2=500.0),
    "Mnist4": dict(n_anchors=0.7, p=0.5, lambda1=100.0, lambda2=1000.0),
    "Scene15": dict(n_anchors=0.1, p=0.8, lambda1=50.0, lambda2=50.0),
    "Reuters-1200": dict(n_anchors=188, p=0.2, lambda1=2000.0, lambda2=2000.0),
    "Noisy MNIST": dict(n_anchors=200, p=0.1, lambda1=8000.0, lambda2=5000.0),
}
# Preprocessing is not in the paper. One choice per set and protocol: as printed, closest.
SCALES = {
    "MSRC": ("unit", None),
    "HandWritten4": ("max", "unit"),
    "Mnist4": ("max", "max"),
    "Scene15": ("unit", "unit"),
    "Reuters-1200": ("unit", "unit"),
    "Noisy MNIST": (None, None),
}
PUBLISHED = {  # the rows "Ours" of the paper's tables 3 and 4: ACC, NMI, purity
    "MSRC": (1.000, 1.000, 1.000),
    "HandWritten4": (0.995, 0.989, 0.995),
    "Mnist4": (0.996, 0.983, 0.996),
    "Scene15": (0.870, 0.906, 0.902),
    "Reuters-1200": (0.796, 0.731, 0.796),
    "Noisy MNIST": (0.819, 0.837, 0.851),
}
PUBLISHED_ABLATION = {  # table 5: ACC for H-norm and G-norm
    "MSRC": {"off off": 0.789, "off on": 0.952, "on off": 0.971, "on on": 1.000},
    "Scene15": {"off off": 0.499, "off on": 0.628, "on off": 0.837, "on on": 0.870},
}
DIFFERENT = {
    "Scene15": "features of the file: 20, 59, 40; of the paper: 1800, 1180, 1240",
    "Reuters-1200": "1200 documents, 5 x 2000 words; paper: 18758 documents, 11547 to 34251 words",
    "Noisy MNIST": "10,000 samples built from MNIST by the published rule; noise and order are not the paper's",
}
FIGURE_SETS = ("MSRC", "HandWritten4", "Mnist4")
CLOSEST = dict(n_neighbors=15, penalty=3e-5, growth=1.1, h_first=True, clip="frequency", gst_steps=5)
ITERATIONS = 200  # of the closest recipe; its penalties are above 1e3 then, and labels no longer move

# ---- The protocol, plainly: anchors, graphs, and a solver with the switches of the closest recipe --------------------


def scaled(view, scale):
    # Column-major, as MATLAB keeps it, whatever was given: VDA hangs on the last bits of the rows' sums (see the page).
    X = np.asarray(view.toarray() if sparse.issparse(view) else view, float, order="F")
    if scale == "unit":
        length = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(length > 0, length, 1.0)
    return X / X.max() if scale == "max" else X


def vda(X, m):
    """Variance-based anchors, ascending. Each choice takes roots of tiny differences: rounding decides many of them."""
    s = X.var(axis=1, ddof=1)
    free = np.ones(len(s), bool)
    chosen = []
    while True:
        s = s / (s.max() or 1.0)
        chosen.append(int(np.argmax(np.where(free, s, -1.0))))
        if len(chosen) == m:
            return np.sort(chosen)
        free[chosen[-1]] = False
        closeness = 1 / (1 + np.sqrt(np.abs(s[chosen[-1]] - s)))
        s = s * (1 - closeness / closeness.max())


def anchor_graph(X, anchors, k):
    """S^(v), sparse (n, m): weights (d_{k+1} - d_j) / (k d_{k+1} - sum d) on the k nearest anchors."""
    distance = cdist(X, X[anchors], "sqeuclidean")
    near = np.argsort(distance, axis=1, kind="stable")[:, : k + 1]
    d = np.take_along_axis(distance, near, axis=1)
    weight = d[:, -1:] - d[:, :-1]
    total = weight.sum(axis=1, keepdims=True)
    weight = np.where(total > 0, weight / np.where(total > 0, total, 1.0), 1 / k)
    return sparse.csr_array((weight.ravel(), near[:, :k].ravel(), np.arange(0, len(X) * k + 1, k)), distance.shape)


def graphs(views, scale, n_anchors, n_neighbors, anchors=None):
    Xs = [scaled(view, scale) for view in views]
    m = n_anchors if isinstance(n_anchors, int) else round(n_anchors * len(Xs[0]))
    anchors = vda(np.hstack(Xs), m) if anchors is None else anchors
    return [anchor_graph(X, anchors, min(n_neighbors, m - 1)) for X in Xs]


def identity_start(S, k):
    """H, Q, J (V, n, k) and F (V, m, k): every frequency slice of H is eye(n, k), the others are 0."""
    V, (n, m) = len(S), S[0].shape
    H = np.zeros((V, n, k))
    H[0, :k] = np.eye(k)
    return H, np.zeros_like(H), np.zeros_like(H), np.zeros((V, m, k))


def simplex(B):
    """Every row replaced by the nearest point with entries >= 0 and sum 1."""
    down = -np.sort(-B, axis=-1)
    excess = down.cumsum(axis=-1) - 1
    count = (down * np.arange(1, B.shape[-1] + 1) > excess).sum(axis=-1, keepdims=True)
    return np.maximum(B - np.take_along_axis(excess, count - 1, axis=-1) / count, 0)


def polar(B, previous):
    """Polar factor of B; where B has no full rank, the limit of that of B + e * previous for e -> 0."""
    U, s, Vh = np.linalg.svd(B, full_matrices=False)
    kept = s > 1e-7 * s[0]
    if kept.all():
        return U @ Vh
    U, null = U[:, kept], Vh[~kept].conj().T
    rest = previous @ null
    P, _, Rh = np.linalg.svd(rest - U @ (U.conj().T @ rest), full_matrices=False)
    return U @ Vh[kept] + P @ Rh @ null.conj().T


def low_rank(Z, tau, p, axis, gst_steps):
    """Gamma_tau(Z) for Z (V, n, k): singular values of the slices of an unnormalised DFT shrunk by GST."""
    along = {"sample": 1, "cluster": 2}[axis]
    bar = np.moveaxis(np.fft.rfft(Z, axis=along), along, 0)
    out = np.zeros_like(bar)
    threshold = agtf._gst_threshold(tau, p)
    alive = np.linalg.norm(bar, axis=(1, 2)) > threshold  # the others vanish: no SVD for them
    if alive.any():
        U, s, Vh = np.linalg.svd(bar[alive], full_matrices=False)
        x = np.where(s > threshold, s, np.inf)
        for _ in range(gst_steps):
            x = s - p * tau * np.where(s > threshold, x, np.inf) ** (p - 1)
        out[alive] = (U * np.where(s > threshold, np.maximum(x, 0), 0)[:, None]) @ Vh
    return np.fft.irfft(np.moveaxis(out, 0, along), n=Z.shape[along], axis=along)


def solve(
    S, start, p, lambda1, lambda2, penalty, growth, *, h_first, clip, gst_steps, axis="sample", iterations=ITERATIONS,
    tol=1e-3, watch=None,
):  # fmt: skip
    """Algorithm 1 with the switches that the paper leaves open; tensors are (V, n, k), S is V matrices.

    h_first: H before G (G starts at 0). clip: Q >= 0 in the "time" domain (where the constraint is stated), by keeping
    the entries of positive real part over the view "frequency", or by the positive part of that "real" part.
    """
    H, Q, J, F = start
    V = len(S)
    St = [s.T.tocsr() if sparse.issparse(s) else s.T for s in S]
    G, mu = np.zeros_like(F), penalty
    Y1, Y2, Y3 = np.zeros_like(H), np.zeros_like(H), np.zeros_like(F)

    def update_G():
        StH = np.stack([sum(St[w] @ H[(v + w) % V] for w in range(V)) for v in range(V)])
        return simplex((StH + mu / 2 * F - Y3 / 2) / (1 + mu / 2))

    for iteration in range(1, iterations + 1):
        if not h_first:
            G = update_G()
        SG = np.stack([sum(S[w] @ G[(v - w) % V] for w in range(V)) for v in range(V)])
        B2 = np.fft.rfft(2 * SG + mu * Q - Y1 + mu * J - Y2, axis=0)
        H = np.fft.irfft([polar(B, old) for B, old in zip(B2, np.fft.rfft(H, axis=0))], n=V, axis=0)
        if h_first:
            G = update_G()
        Q = H + Y1 / mu
        if clip == "time":
            Q = np.maximum(Q, 0)
        else:
            bar = np.fft.fft(Q, axis=0)
            bar = np.maximum(bar.real, 0) if clip == "real" else np.where(bar.real > 0, bar, 0)
            Q = np.fft.ifft(bar, axis=0).real
        J = low_rank(H + Y2 / mu, lambda1 / mu, p, axis, gst_steps)
        F = low_rank(G + Y3 / mu, lambda2 / mu, p, axis, gst_steps)
        Y1, Y2, Y3 = Y1 + mu * (H - Q), Y2 + mu * (H - J), Y3 + mu * (G - F)
        mu = min(growth * mu, 1e13)
        if watch:
            watch(iteration, H, Q, J, G, F)
        if iteration > 1 and np.linalg.norm(H - Q, axis=(1, 2)).sum() <= tol:
            break
    return SimpleNamespace(H=H, G=G, Q=Q, J=J, F=F, labels=Q.sum(axis=0).argmax(axis=1), iterations=iteration)


# ---- Runs ------------------------------------------------------------------------------------------------------------


def closest(name, views, y, S=None, start=None, watch=None, **changes):
    """Scores of the closest recipe, with some of its settings changed."""
    o = {**PAPER[name], "scale": SCALES[name][1], **CLOSEST, **changes}
    graph_options = {key: o.pop(key) for key in ("scale", "n_anchors", "n_neighbors")}
    S = S or graphs(views, anchors=o.pop("anchors", None), **graph_options)
    result = solve(S, start or identity_start(S, y.max() + 1), watch=watch, **o)
    return agtf.score(y, result.labels)


def as_printed(name, views, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the order of the rows matters is the subject here
        labels = agtf.cluster(views, y.max() + 1, **{**agtf.PAPER, "scale": SCALES[name][0], **PAPER[name]}).labels
    return agtf.score(y, labels)


def default(views, y, seed, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return agtf.score(y, agtf.cluster(views, y.max() + 1, random_state=seed, **changes).labels)


def record(dataset, reading, scores, seeds=(), **options):
    mean = {key: float(np.mean([s[key] for s in scores])) for key in scores[0]}
    return {
        "dataset": dataset, "reading": reading, "acc": mean["ACC"], "nmi": mean["NMI"], "purity": mean["purity"],
        "acc_std": float(np.std([s["ACC"] for s in scores])), "seeds": list(seeds), "options": options,
    }  # fmt: skip


def readings(name, views, y, seeds):
    """The table's rows of one set."""
    published = dict(zip(("ACC", "NMI", "purity"), PUBLISHED[name]))
    yield record(name, "published", [published], protocol="published")
    settings = [
        ("as printed", as_printed, {**agtf.PAPER, "scale": SCALES[name][0], **PAPER[name]}),
        ("closest", closest, {**CLOSEST, "scale": SCALES[name][1], **PAPER[name]}),
    ]
    for protocol, run, options in settings:
        yield record(name, "file-order", [run(name, views, y)], protocol=protocol, **options)
        if name == "Noisy MNIST":
            order = np.argsort(y, kind="stable")
            sorted_scores = run(name, [view[order] for view in views], y[order])
            yield record(name, "class-sorted", [sorted_scores], protocol=protocol, **options)
        scores = [run(name, *shuffled(views, y, seed)) for seed in seeds]
        yield record(name, "shuffled", scores, seeds, protocol=protocol, **options)
    scores = [default(*shuffled(views, y, seed), seed) for seed in seeds]
    yield record(name, "default", scores, seeds, protocol="default")


def sensitivity(name, views, y):
    """ACC of the closest recipe in file order with one setting changed at a time."""
    changes = {
        "none": {}, "penalties from 1e-5": {"penalty": 1e-5}, "penalties from 1e-4": {"penalty": 1e-4},
        "growth 1.2": {"growth": 1.2}, "growth 1.3": {"growth": 1.3},
        "10 neighbours": {"n_neighbors": 10}, "20 neighbours": {"n_neighbors": 20},
        "G before H": {"h_first": False}, "Q clipped in the time domain": {"clip": "time"},
        "Q the positive part of its real part": {"clip": "real"}, "GST to convergence": {"gst_steps": 60},
    }  # fmt: skip
    out = {label: closest(name, views, y, **change)["ACC"] for label, change in changes.items()}
    X = np.hstack([scaled(view, SCALES[name][1]) for view in views])
    m = round(PAPER[name]["n_anchors"] * len(y))
    others = [vda(X * (1 + i * 1e-15), m) for i in (1, 2, 3)]
    scores = [closest(name, views, y, anchors=anchors)["ACC"] for anchors in others]
    out["anchors from features times 1 + 1e-15, 2e-15, 3e-15 (mean)"] = float(np.mean(scores))
    return out, float(np.mean([np.isin(vda(X, m), anchors).mean() for anchors in others]))


def control(name, views, y, seeds):
    """Mean ACC of the closest recipe under changes of order that separate its causes."""
    k, out, scale, m = y.max() + 1, {}, SCALES[name][1], PAPER[name]["n_anchors"]
    chosen = vda(np.hstack([scaled(view, scale) for view in views]), round(m * len(y)))

    def run(axis, label, order):
        anchors = np.sort(np.argsort(order)[chosen])  # the same samples, in the order of the rows
        S = graphs([view[order] for view in views], scale, m, CLOSEST["n_neighbors"], anchors)
        H, *rest = identity_start(S, k)
        H = H[:, order] if "carried" in label else H
        out.setdefault(f"{axis}s; {label}", []).append(closest(name, None, y[order], S, (H, *rest), axis=axis)["ACC"])

    run("sample", "file order", np.arange(len(y)))
    run("cluster", "file order", np.arange(len(y)))
    for seed in seeds:
        rng = np.random.default_rng(seed)
        run("sample", "shuffled within classes only", np.lexsort((rng.random(len(y)), y)))
        run("sample", "classes in another order", np.argsort(rng.permutation(k)[y], kind="stable"))
        order = rng.permutation(len(y))
        run("sample", "shuffled, start on the first rows", order)
        run("sample", "shuffled, start carried along", order)
        run("cluster", "shuffled, start carried along", order)
    return {key: float(np.mean(out[key])) for key in sorted(out, key=lambda key: key[0], reverse=True)}  # samples first


def ablation(name, views, y, seeds, few):
    """ACC for H-norm and G-norm on or off: published, closest in file order, closest shuffled, default shuffled."""
    out = {}
    for on, published in PUBLISHED_ABLATION[name].items():
        off = {key: 0.0 for key, kept in zip(("lambda1", "lambda2"), on.split()) if kept == "off"}
        out[on] = {
            "published": published,
            "file-order": closest(name, views, y, **off)["ACC"],
            "shuffled": float(np.mean([closest(name, *shuffled(views, y, s), **off)["ACC"] for s in seeds[:few]])),
            "default": float(np.mean([default(*shuffled(views, y, s), s, **off)["ACC"] for s in seeds])),
        }
    return out


# ---- Figures ---------------------------------------------------------------------------------------------------------

ORDERS = ("file order (sorted by class)", "rows shuffled")
FACTORS = (0.1, 1.0, 10.0)
SHOTS = (2, 80, 120, 140, ITERATIONS)


def figure_data(name, views, y, quick):
    """Everything that the figures show for one set in one order, by the closest recipe."""
    settings = PAPER[name]
    S = graphs(views, SCALES[name][1], settings["n_anchors"], CLOSEST["n_neighbors"])
    history, shots = {"Q-H": [], "Q-J": [], "G-F": [], "ACC": []}, {}

    def watch(iteration, H, Q, J, G, F):
        labels = Q.sum(axis=0).argmax(axis=1)
        differences = [np.abs(X).max() for X in (Q - H, Q - J, G - F)]
        for key, value in zip(history, [*differences, agtf.score(y, labels)["ACC"]]):
            history[key].append(float(value))
        if iteration in SHOTS:
            shots[iteration] = Q.transpose(1, 0, 2).reshape(len(y), -1)

    base = closest(name, views, y, S, watch=watch, tol=0.0)
    data = {"history": history, "rate": [], "p": [], "lambda": []}
    for rate in (0.2, 0.4) if quick else (0.1, 0.2, 0.4, 0.7, 1.0):
        started = time.perf_counter()
        scores = closest(name, views, y, n_anchors=rate)
        data["rate"].append({"rate": rate, "seconds": time.perf_counter() - started, **scores})
    for p in (0.5, 1.0) if quick else (0.1, 0.3, 0.4, 0.5, 1.0):
        data["p"].append({"p": p, **(base if p == settings["p"] else closest(name, views, y, S, p=p))})
    for a in FACTORS:
        for b in FACTORS:
            weights = dict(lambda1=a * settings["lambda1"], lambda2=b * settings["lambda2"])
            scores = base if a == b == 1 else closest(name, views, y, S, **weights)
            data["lambda"].append({**weights, **scores})

    Q = shots[ITERATIONS].reshape(len(y), len(S), -1).sum(axis=1)
    counts = np.zeros((Q.shape[1], Q.shape[1]))
    np.add.at(counts, (y, Q.argmax(axis=1)), 1)
    some = np.random.default_rng(0).choice(len(y), min(len(y), 500), replace=False)
    pictures = {
        "indicator": Q[np.argsort(y, kind="stable")][:, linear_sum_assignment(-counts)[1]],
        "classes": y[some],
        "tsne": {i: TSNE(perplexity=20, max_iter=400, random_state=0).fit_transform(X[some]) for i, X in shots.items()},
    }
    return data, pictures


STYLE = {"font.size": 8, "axes.titlesize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "figure.titlesize": 10}
COLOURS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7")


def panels(figures, title, draw, file, width=3.1, height=2.4):
    """One column per set, one row per order; `draw` fills an axes from the figure's data and its pictures."""
    figure = Figure(figsize=(0.4 + width * len(figures), height * 2), layout="constrained")
    axes = figure.subplots(2, len(figures), squeeze=False)
    for column, (name, orders) in enumerate(figures.items()):
        for row, order in enumerate(ORDERS):
            draw(axes[row, column], name, *orders[order])
            axes[row, column].set_title(f"{name}, {order}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(7, 3 * len(figures)))
    figure.suptitle(title)
    figure.savefig(file, dpi=80)


def draw_scores(ax, rows, x):
    for key, colour in zip(("ACC", "NMI", "purity", "ARI", "F-score", "precision", "recall"), COLOURS):
        ax.plot([row[x] for row in rows], [row[key] for row in rows], ".-", color=colour, label=key, lw=1)
    ax.set(ylim=(0, 1.03), xlabel="anchor rate" if x == "rate" else x)


def draw_time(ax, name, data, pictures):
    anchors = [row["rate"] * len(pictures["indicator"]) for row in data["rate"]]
    seconds = [row["seconds"] for row in data["rate"]]
    ax.plot(anchors, seconds, "o-", color=COLOURS[4])
    ax.set(ylim=(0, 1.1 * max(seconds)), xlabel="anchors", ylabel="seconds, graph and solver")


def draw_lambda(ax, name, data, _):
    grid = np.reshape([row["ACC"] for row in data["lambda"]], (len(FACTORS), -1))
    ax.imshow(grid, vmin=0, vmax=1, cmap="viridis")
    for (i, j), value in np.ndenumerate(grid):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="k" if value > 0.6 else "w")
    ax.set_xticks(range(len(FACTORS)), [f"{f * PAPER[name]['lambda2']:g}" for f in FACTORS])
    ax.set_yticks(range(len(FACTORS)), [f"{f * PAPER[name]['lambda1']:g}" for f in FACTORS])
    ax.set(xlabel="lambda2", ylabel="lambda1")


def draw_history(ax, name, data, _):
    for key, colour in zip(("Q-H", "Q-J", "G-F"), COLOURS[1:]):
        ax.semilogy(np.maximum(data["history"][key], 1e-12), color=colour, label=f"max |{key}|", lw=1)
    ax.plot([], [], color="k", label="ACC (right axis)")
    right = ax.twinx()
    right.plot(data["history"]["ACC"], color="k", lw=1)
    right.set_ylim(0, 1.03)
    ax.set_xlabel("iteration")


def draw_indicator(ax, name, _, pictures):
    Q = pictures["indicator"]
    ax.imshow(Q / np.quantile(Q, 0.98), aspect="auto", vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="cluster, matched to the classes", ylabel="samples, drawn by class")


def draw_tsne(figures, file):
    rows = [(name, order) for name in figures for order in ORDERS]
    figure = Figure(figsize=(9, 1.75 * len(rows)), layout="constrained")
    for axes, (name, order) in zip(figure.subplots(len(rows), 5), rows):
        pictures = figures[name][order][1]
        for ax, (iteration, X) in zip(axes, pictures["tsne"].items()):
            ax.scatter(*X.T, c=pictures["classes"], cmap="tab10", s=3, lw=0)
            ax.set(xticks=[], yticks=[], title=f"iteration {iteration}")
        axes[0].set_ylabel(name + "\n" + order.replace(" (", "\n("))
    figure.suptitle("t-SNE of Q over the iterations; colours are the true classes, 500 samples at most")
    figure.savefig(file, dpi=80)


def draw_all(figures, folder):
    def by(x):
        return lambda ax, name, data, _: draw_scores(ax, data[x], x)

    with matplotlib.rc_context(STYLE):
        panels(figures, "Scores against the anchor rate", by("rate"), folder / "anchor_rate.png")
        panels(figures, "Scores against p", by("p"), folder / "p.png")
        panels(figures, "Running time against the number of anchors", draw_time, folder / "time.png", height=2)
        panels(figures, "ACC; the paper's lambda1 and lambda2 in the centre", draw_lambda, folder / "lambda.png")
        panels(figures, "Residuals and ACC over the iterations", draw_history, folder / "convergence.png")
        panels(figures, "The learned indicator: Q summed over the views", draw_indicator, folder / "labels.png")
        draw_tsne(figures, folder / "tsne.png")


# ---- The page --------------------------------------------------------------------------------------------------------


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def main_table(records):
    order = {"published": "not stated", "file-order": "file order, sorted by class", "class-sorted": "sorted by class"}
    rows = []
    for r in records:
        reading, protocol = r["reading"], r["options"]["protocol"]
        rows.append([
            r["dataset"] + " (*)" * (r["dataset"] in DIFFERENT),
            reading + f", {protocol}" * (protocol not in (reading, "default")),
            "MNIST's own order, not sorted" if (r["dataset"], reading) == ("Noisy MNIST", "file-order")
            else order.get(reading, f"shuffled, {len(r['seeds'])} seed{'s' * (len(r['seeds']) > 1)}"),
            f"{r['acc']:.3f}" + f" ± {r['acc_std']:.3f}" * (len(r["seeds"]) > 1),
            f"{r['nmi']:.3f}", f"{r['purity']:.3f}",
        ])  # fmt: skip
    present = {r["dataset"] for r in records}
    notes = "\n\n".join(f"(*) {name}: {text}." for name, text in DIFFERENT.items() if name in present)
    return table(["data", "reading", "order of the rows", "ACC", "NMI", "purity"], rows) + "\n" + notes


READINGS = {
    "file-order": "closest recipe, rows sorted by class",
    "shuffled": "the same, rows shuffled",
    "default": "our default, rows shuffled",
}


def change(value, reference):
    """A difference of accuracies in words."""
    gain = value - reference
    verb = "stays" if abs(gain) < 0.005 else "gains" if gain > 0 else "loses"
    return f"{verb} ({reference:.3f} without, {value:.3f} with)"


def verdict(records, controls, ablations, figures):
    acc = {(r["dataset"], r["reading"], r["options"]["protocol"]): r["acc"] for r in records}
    sets = [name for name in FIGURE_SETS if (name, "default", "default") in acc]

    def each(reading, protocol):
        return ", ".join(f"{acc[name, reading, protocol]:.3f} ({name})" for name in sets)

    def under(label):
        return ", ".join(f"{c[f'samples; {label}']:.3f} ({name})" for name, c in controls.items())

    lines = [
        f"- **The published accuracies are near what rows sorted by class give.** Printed in the paper: "
        f"{each('published', 'published')}. In the files' own order (sorted by class) our closest recipe gives "
        f"{each('file-order', 'closest')}. The same recipe on the same data with the rows shuffled: "
        f"{each('shuffled', 'closest')}. The protocol as printed: {each('file-order', 'as printed')} in file order "
        f"(sorted by class), {each('shuffled', 'as printed')} shuffled.",
        f"- **What counts is the order of the classes, through the DFT over the samples.** Rows shuffled within their "
        f"classes: {under('shuffled within classes only')}. Shuffled across the classes, with the start carried along: "
        f"{under('shuffled, start carried along')}. A transform along rows sorted by class is a smoothing prior that "
        f"knows the classes; along shuffled rows it smooths over all classes alike.",
    ]
    if ("Noisy MNIST", "class-sorted", "closest") in acc:
        own, by_class = (
            " and ".join(f"{acc['Noisy MNIST', reading, way]:.3f} ({way})" for way in ("as printed", "closest"))
            for reading in ("file-order", "class-sorted")
        )
        lines.append(
            f"- **Noisy MNIST** is not sorted by class as MNIST comes: {own}; with the same rows sorted by class: "
            f"{by_class}. The paper prints {PUBLISHED['Noisy MNIST'][0]:.3f} for 50,000 samples, order not stated."
        )
    questions = {
        "Do the two low-rank norms help?": "off off",
        "Does the G-norm add to the H-norm?": "on off",
    }
    for question, without in questions.items():
        answers = []
        for reading, words in READINGS.items():
            changes = [f"{name} {change(a['on on'][reading], a[without][reading])}" for name, a in ablations.items()]
            answers.append(f"{words}: " + ", ".join(changes))
        lines.append(f"- **{question}** " + "; ".join(answers) + ".")
    ratio = [d["rate"][-1]["seconds"] / d["rate"][0]["seconds"] for f in figures.values() for d in f.values()]
    more = next(iter(next(iter(figures.values())).values()))["rate"]
    settled, peaks = [], []
    for name, orders in figures.items():
        by_class, mixed = (np.array(orders[order]["history"]["ACC"]) for order in ORDERS)
        settled.append(f"{np.flatnonzero(np.abs(by_class - by_class[-1]) > 0.005)[-1] + 2} ({name})")
        peaks.append(f"from {mixed.max():.3f} at iteration {mixed.argmax() + 1} to {mixed[-1]:.3f} ({name})")
    lines += [
        f"- **Convergence**: the residuals fall in any order of the rows: they say nothing about the accuracy. "
        f"In file order (sorted by class) ACC settles at iteration {', '.join(settled)}; the paper, whose penalties "
        f"grow faster, says about 70. On shuffled rows (seed 0) the low-rank step undoes what was found before it "
        f"set in: {', '.join(peaks)}.",
        f"- **Running time**: {more[-1]['rate'] / more[0]['rate']:.0f} times the anchors took {min(ratio):.1f} to "
        f"{max(ratio):.1f} times the time here; the paper says about linear.",
        f"- **Where the order means nothing**, our default gives {each('default', 'default')} on shuffled rows.",
        "- **What we could not test**: the authors' own program (not available to us); Scene15 and Reuters with the "
        "paper's features; Noisy MNIST in the order of the paper's file. So we do not claim that the published values "
        "were obtained in this way, only that the three files of the paper that we have come near them with their rows "
        "sorted by class, and not in any shuffled order that we tried.",
    ]
    return "\n".join(lines)


PAGE = """# The paper's results, reproduced and examined

Written by `python tests/benchmarks/paper.py{flag}`; every figure on it was measured by that script, except those in the
rows called *published*, which are the paper's. The benchmark files are **sorted by class**, and the paper's protocol
depends on the order of the rows, so every score here says in which order the rows were.

## Verdict

{verdict}

## Scores

*As printed* is `agtf.PAPER`: what the paper states, and the choice of the public code of sibling methods where it is
silent. *Closest* is the recipe below. *Default* is `agtf.cluster(views, k)`, whose result does not depend on the order.

{scores}

What was reduced: {reduced}

## The closest recipe, and how far to trust it

H before G with G = 0 at first; Q clipped over the view frequencies, where entries with a negative real part become
0; penalties from 3e-5 growing by 1.1, {iterations} iterations; 15 neighbours; five fixed-point steps of the generalised
soft threshold (GST); DFT over the samples without a factor; VDA anchors in ascending order; identity start; p, lambda1,
lambda2 and anchor rate from the paper's appendix. Preprocessing: MSRC none, HandWritten4 unit rows, Mnist4 divided by
the maximum (as printed: unit rows, maximum, maximum); in both protocols Scene15 and Reuters unit rows, Noisy MNIST
none.

**It was chosen with the labels in view**, among about 1,500 runs that varied the details which the paper leaves open:
an earlier search of about 1,250, in which no recipe met all three published values within 0.005, and some 230 for this
page. It shows that the published values can be approached, not what the method does on new data. This is how the
accuracy moves, rows in file order (sorted by class), when one detail changes:

{sensitivity}

The last row changes nothing but rounding. VDA takes square roots of differences of nearly equal numbers, one choice
after the other, so the last bits of the variances decide which samples become anchors. The share of them that stays:
{kept}. Another layout of the features in memory is enough, and `agtf` and
this script, which round differently, choose different anchors by the same rule.

## Where the order enters

ACC of the closest recipe, mean of {few} shuffles. The DFT of the low-rank step runs over the samples (as in the public
code of sibling methods) or over the clusters (the paper's Definition 2). The start puts the first K rows into K
clusters; "carried along" means that it stays with the same samples when the rows move. The anchors are the same samples
in all rows of the table, in ascending order.

{controls}

## Ablation

ACC with the low-rank norms of H and G on and off (weight 0). *published*: the paper's table 5; *file-order* (rows
sorted by class) and *shuffled* ({few} seeds): the closest recipe; *default*: ours, shuffled, {seeds} seeds. (*) not the
paper's features.

{ablations}

## Figures

All by the closest recipe; upper row: file order, sorted by class; lower row: the same data, rows shuffled (seed 0).
The numbers behind them: [figures.json](paper/figures.json).

![Scores against the anchor rate](paper/anchor_rate.png)

![Running time against anchors](paper/time.png)

![Scores against p](paper/p.png)

![ACC over the two weights](paper/lambda.png)

![Residuals and ACC](paper/convergence.png)

![The learned indicator](paper/labels.png)

![t-SNE over the iterations](paper/tsne.png)
"""


def page(quick, records, sensitivity, control, ablation, figures, seeds, few):
    """The page's text, from the file of --json."""
    names = list(control)
    moves = [[label, *(f"{sensitivity[n][0][label]:.3f}" for n in names)] for label in sensitivity[names[0]][0]]
    by_order = [[*at.split("; "), *(f"{control[n][at]:.3f}" for n in names)] for at in control[names[0]]]
    columns = ("published", "file-order", "shuffled", "default")
    norms = [
        [name + " (*)" * (name in DIFFERENT), *on.split(), *(f"{a[on][c]:.3f}" for c in columns)]
        for name, a in ablation.items() for on in a
    ]  # fmt: skip
    return PAGE.format(
        flag=" --quick" * quick,
        verdict=verdict(records, control, ablation, figures),
        scores=main_table(records),
        reduced=REDUCED[quick],
        iterations=ITERATIONS,
        sensitivity=table(["change", *names], moves),
        kept=", ".join(f"{sensitivity[n][1]:.0%} ({n})" for n in names),
        controls=table(["DFT over", "rows", *names], by_order),
        ablations=table(["data", "H-norm", "G-norm", *columns], norms),
        few=few,
        seeds=len(seeds),
    )


REDUCED = {
    True: "two seeds, three sets, figures for MSRC only, with few points (--quick).",
    False: "Noisy MNIST has 10,000 samples instead of 50,000 (and 200 anchors, as in the paper); controls and "
    "ablations have two shuffles instead of five; the curves have five anchor rates, five values of p and a 3 x 3 grid "
    "of weights around the paper's; t-SNE sees at most 500 samples.",
}


def examine(name, quick, seeds, started):
    """All that is measured on one set, in a process of its own."""

    def say(what):
        print(f"{time.time() - started:6.0f} s  {name}, {what}", flush=True)

    records, found = [], {}
    with threadpool_limits(1):  # small matrices: threads of BLAS only wait for each other
        views, y = noisy_mnist(10_000) if name == "Noisy MNIST" else load(name)
        for r in readings(name, views, y, seeds):
            records.append(r)
            say(f"{r['reading']}, {r['options']['protocol']}: {r['acc']:.3f}")
        if name in ("MSRC",) if quick else name in PUBLISHED_ABLATION:
            found["ablation"] = ablation(name, views, y, seeds, 2)
            say("ablation")
        if name in FIGURE_SETS and (name == "MSRC" or not quick):
            found["sensitivity"] = sensitivity(name, views, y)
            found["control"] = control(name, views, y, seeds[:2])
            say("control")
            orders = zip(ORDERS, [(views, y), shuffled(views, y, 0)])
            found["figures"] = {order: figure_data(name, *data, quick) for order, data in orders}
            say("figures")
    return records, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three sets, two seeds, under 4 minutes")
    parser.add_argument("--json", help="also write all figures to this file")
    given = parser.parse_args()
    quick, started = given.quick, time.time()
    there = {*available(), *["Noisy MNIST"] * (FOLDER / "mnist.npz").exists()}
    names = [name for name in (FIGURE_SETS if quick else PAPER) if name in there]
    if not set(FIGURE_SETS) <= there:
        print(f"the paper's own files are not in {FOLDER} (AGTF_DATA): nothing to reproduce, no page written")
        return
    seeds = list(range(2 if quick else 5))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        sets = dict(zip(names, pool.map(partial(examine, quick=quick, seeds=seeds, started=started), names)))
    report = {"quick": quick, "records": [record for some, _ in sets.values() for record in some]}
    for part in ("sensitivity", "control", "ablation", "figures"):
        report[part] = {name: found[part] for name, (_, found) in sets.items() if part in found}
    folder = ROOT / ("build" if quick else "tutorials")
    (folder / "paper").mkdir(parents=True, exist_ok=True)
    draw_all(report["figures"], folder / "paper")
    numbers = {name: {order: data for order, (data, _) in orders.items()} for name, orders in report["figures"].items()}
    short = json.loads(json.dumps(numbers), parse_float=lambda text: float(f"{float(text):.4g}"))
    report |= {"figures": short, "seeds": seeds, "few": 2}
    (folder / "paper" / "figures.json").write_text(json.dumps(report["figures"]) + "\n")
    (folder / "paper_results.md").write_text(page(**report), encoding="utf-8")
    print(f"{page(**report)}\n{time.time() - started:6.0f} s  page: {folder.name}/paper_results.md")
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report))


if __name__ == "__main__":
    main()
