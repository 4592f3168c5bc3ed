"""Every update of Algorithm 1 and whole runs of it against tests/naive.py."""

import itertools
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from conftest import blobs, flat, in_blocks, orthogonal_tensor, random_graph, tensor

import agtf

SIZES = [(12, 7, 3, 1), (13, 6, 2, 2), (14, 8, 3, 3), (15, 7, 4, 4), (17, 9, 3, 5)]  # n, m, K, V


@pytest.fixture(params=SIZES, ids=str)
def problem(request):
    n, m, K, V = request.param
    rng = np.random.default_rng(n)
    graph, S = random_graph(n, m, V, 4, rng)
    names = {"H": n, "Q": n, "w": n, "Y1": n, "F": m, "Y3": m}
    T = {name: rng.normal(size=(rows, K, V)) for name, rows in names.items()}
    T["W"] = rng.normal(size=(V * K, V * K))
    T["J"] = tensor(flat(T["w"]) @ T["W"], V)
    T["Y2"] = 0.7 * (T["w"] - T["J"])
    T["H"] = orthogonal_tensor(n, K, V, rng)
    T["G"] = rng.dirichlet(np.ones(K), size=(m, V)).transpose(0, 2, 1)
    return graph, S, T, (V, K)


@pytest.fixture(params=[False, True], ids=["J = w W", "J kept"])
def keeps_J(request):
    return request.param


def state(graph, T, keeps_J):
    """Blocks whose z and w hold Q, Y1 (with mu = 0.3) and Y2 (with rho = 0.7), and J if they are to keep it; and a W,
    which then is of no use."""
    index, weight = graph
    z = np.maximum(T["Q"], 0) + np.minimum(T["Y1"], 0) / 0.3
    arrays = {"H": T["H"], "z": z, "w": T["w"]} | ({"J": T["J"]} if keeps_J else {})
    rows = in_blocks(index=index, weight=weight, S=weight, **{name: flat(X) for name, X in arrays.items()})
    W = np.full_like(T["W"], np.nan) if keeps_J else T["W"]
    return rows, np.maximum(z, 0), 0.3 * np.minimum(z, 0), W  # the blocks, Q, Y1 and W


def test_products_with_the_sparse_tensor(problem, keeps_J):
    graph, S, T, (V, K) = problem
    rows, Q, Y1, W = state(graph, T, keeps_J)
    StH = rows.sum(agtf._transposed_times, S.shape[1])
    np.testing.assert_allclose(tensor(StH, V), naive.tprod(naive.ttranspose(S), T["H"]), atol=1e-12)
    gram = rows.sum(agtf._form_B, flat(T["G"]), W, (0.3, 0.7), (0.6, 1.4))
    expected = 2 * naive.tprod(S, T["G"]) + 0.6 * Q - Y1 + 1.4 * T["J"] - T["Y2"]
    np.testing.assert_allclose(tensor(rows.gather("H"), V), expected, atol=1e-12)
    np.testing.assert_allclose(gram, flat(expected).T @ flat(expected), atol=1e-10)


def test_update_G(problem):
    graph, S, T, (V, K) = problem
    StH = flat(naive.tprod(naive.ttranspose(S), T["H"]))
    G = tensor(agtf._update_G(StH, flat(T["F"]), flat(T["Y3"]), 0.4, (V, K)), V)
    np.testing.assert_allclose(G, naive.update_G(S, T["H"], T["F"], T["Y3"], 0.4), atol=1e-8)
    assert G.min() >= 0
    np.testing.assert_allclose(G.sum(axis=1), 1)


def assert_orthogonal(H, V):
    H = tensor(H, V)
    identity = np.zeros((H.shape[1], H.shape[1], V))
    identity[:, :, 0] = np.eye(H.shape[1])
    np.testing.assert_allclose(naive.tprod(naive.ttranspose(H), H), identity, atol=1e-8)


def test_update_H_and_the_arguments_of_the_proximal_steps(problem, keeps_J):
    graph, S, T, (V, K) = problem
    rows, Q, Y1, W = state(graph, T, keeps_J)
    expected = naive.update_H(S, T["G"], Q, Y1, T["J"], T["Y2"], 0.6, 1.4, T["H"])
    gram = rows.sum(agtf._form_B, flat(T["G"]), W, (0.3, 0.7), (0.6, 1.4))
    B = rows.gather("H").copy()
    np.testing.assert_allclose(tensor(agtf._polar_factor(B, flat(T["H"]), (V, K)), V), expected, atol=1e-8)
    M = agtf._polar(rows, gram, (V, K))
    small = M, W, (0.3, 0.7), (0.6, 1.4), S.shape[1]
    StH, w_gram, gaps = rows.run(agtf._form_H, small, agtf._both_sums_and_most, None)
    H, z, w = (tensor(rows.gather(name), V) for name in ("H", "z", "w"))
    np.testing.assert_allclose(H, expected, atol=1e-8)
    assert_orthogonal(rows.gather("H"), V)
    np.testing.assert_allclose(z, expected + Y1 / 0.6, atol=1e-8)
    Q = naive.update_Q(expected, Y1, 0.6)
    np.testing.assert_allclose(np.maximum(z, 0), Q, atol=1e-8)
    np.testing.assert_allclose(gaps, np.abs(flat(Q - expected)).max(axis=0), atol=1e-8)
    np.testing.assert_allclose(w, expected + T["Y2"] / 1.4, atol=1e-8)
    np.testing.assert_allclose(w_gram, flat(w).T @ flat(w), atol=1e-8)
    np.testing.assert_allclose(tensor(StH, V), naive.tprod(naive.ttranspose(S), expected), atol=1e-8)


@pytest.mark.parametrize("n", [511, 512, 513, 1025])
def test_blocks_of_any_size_make_the_same_iterations(n):
    """Blocks are worked off in pieces of 512 rows."""
    (index, weight), _ = random_graph(n, 12, 2, 3, np.random.default_rng(0))
    H = np.random.default_rng(1).normal(size=(n, 6))
    found = []
    for size in (100, n):
        rows = in_blocks(size, index=index, S=weight, H=H, z=H, w=H)
        settings = SimpleNamespace(norm=agtf._Norm(0.5, "cluster", "ortho", (2, 3)), lambda1=0.1, lambda2=0.1)
        vars(settings).update(penalty=1.0, growth=1.5, tol=0.0)
        StH = rows.sum(agtf._transposed_times, 12)
        G, *_ = agtf._algorithm1(rows, StH, StH.copy(), np.eye(6), settings, 4, lambda *_: False)
        found.append([G, *(rows.gather(name) for name in ("H", "z", "w"))])
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_update_H_without_full_rank_is_completed_by_the_previous_one(problem):
    graph, S, T, (V, K) = problem
    zero = np.zeros_like(T["H"])
    expected = naive.update_H(S, T["G"], zero, zero, zero, zero, 1.0, 1.0, T["H"])
    rows, *_ = state(graph, T | dict(Q=zero, Y1=zero, w=T["H"]), keeps_J=False)
    W = np.zeros((V * K, V * K))
    gram = rows.sum(agtf._form_B, flat(T["G"]), W, (0.0, 0.0), (1.0, 1.0))
    M = agtf._polar(rows, gram, (V, K))
    rows.map(agtf._form_H, M, W, (0.0, 0.0), (1.0, 1.0), S.shape[1])
    np.testing.assert_allclose(tensor(rows.gather("H"), V), expected, atol=1e-8)
    assert_orthogonal(rows.gather("H"), V)


@pytest.mark.parametrize("axis, fft_norm", [*itertools.product(agtf.AXES, ["ortho", "backward"])])
def test_update_J_and_F(problem, axis, fft_norm):
    graph, S, T, (V, K) = problem
    norm = agtf._Norm(0.5, axis, fft_norm, (V, K))
    w = T["H"] + T["Y2"] / 0.8
    rows, Q, *_ = state(graph, T | {"w": w}, keeps_J=False)
    W, size, gap = agtf._update_J(rows, flat(w).T @ flat(w), 0.9 / 0.8, norm)
    expected = naive.update_J(T["H"], T["Y2"], 0.9, 0.8, 0.5, axis, fft_norm)
    J = rows.gather("J") if axis == "sample" else rows.gather("w") @ W
    np.testing.assert_allclose(tensor(J, V), expected, atol=1e-8)
    assert gap == pytest.approx(np.abs(Q - expected).max(), abs=1e-8)
    assert size == pytest.approx(naive.schatten_norm(expected, 0.5, axis, fft_norm) ** 0.5, rel=1e-6, abs=1e-6)
    F, size = agtf._update_F(flat(T["G"] + T["Y3"] / 0.8), 0.9 / 0.8, norm)
    expected = naive.update_F(T["G"], T["Y3"], 0.9, 0.8, 0.5, axis, fft_norm)
    np.testing.assert_allclose(tensor(F, V), expected, atol=1e-8)
    assert size == pytest.approx(naive.schatten_norm(expected, 0.5, axis, fft_norm) ** 0.5, rel=1e-6, abs=1e-6)


def five_iterations(rows, F, W, **settings):
    settings = SimpleNamespace(**settings, growth=1.3, tol=0.0)
    StH, watched = rows.sum(agtf._transposed_times, len(F)), []
    ended = agtf._algorithm1(rows, StH, F, W, settings, 5, lambda *state: watched.append(state))
    return *ended, watched[-1][4]  # the last W


@pytest.mark.parametrize("axis, fft_norm", [*itertools.product(agtf.AXES, ["ortho", "backward"])])
def test_five_iterations(problem, axis, fft_norm):
    (index, weight), S, T, (V, K) = problem
    start = [T["H"], np.maximum(T["H"], 0), T["H"], T["G"]]
    expected = naive.algorithm1(S, *start, 0.5, 0.05, 0.03, 0.1, 0.1, 0.1, 1.3, 5, axis, fft_norm)
    H, Q, J, F = map(flat, start)
    rows = in_blocks(index=index, weight=weight, S=weight, H=H, z=Q, w=J)
    norm = agtf._Norm(0.5, axis, fft_norm, (V, K))
    ended = five_iterations(rows, F, np.eye(V * K), norm=norm, lambda1=0.05, lambda2=0.03, penalty=0.1)
    G, F, history, stopped_by, W = ended
    J = rows.gather("J") if axis == "sample" else rows.gather("w") @ W
    found = {"H": rows.gather("H"), "Q": np.maximum(rows.gather("z"), 0), "J": J, "F": F, "G": G}
    for name, value in found.items():
        np.testing.assert_allclose(tensor(value, V), expected[name], atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(tensor(found["Q"], V).mean(axis=2).argmax(axis=1), expected["labels"])
    assert stopped_by == "max_iter"
    for name in agtf.HISTORY:
        np.testing.assert_allclose(history[name], [step[name] for step in expected["history"]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", agtf.AXES)
def test_paper_start(axis):
    """The identity start, where the first B2 has no full rank."""
    rng = np.random.default_rng(3)
    n, m, K, V = 20, 9, 3, 3
    (index, weight), S = random_graph(n, m, V, 4, rng)
    H = np.zeros((n, K, V))
    H[:K, :, 0] = np.eye(K)
    zero, zero_F = np.zeros_like(H), np.zeros((m, K, V))
    expected = naive.algorithm1(S, H, zero, zero, zero_F, 0.5, 0.01, 0.01, 1e-2, 1e-2, 1e-2, 1.3, 5, axis, "backward")
    rows = in_blocks(index=index, weight=weight, S=weight, H=flat(H), z=flat(zero), w=flat(H))
    norm = agtf._Norm(0.5, axis, "backward", (V, K))
    W = np.zeros((V * K, V * K))
    G, *_ = five_iterations(rows, flat(zero_F), W, norm=norm, lambda1=0.01, lambda2=0.01, penalty=1e-2)
    np.testing.assert_allclose(tensor(G, V), expected["G"], atol=1e-6)
    np.testing.assert_allclose(tensor(rows.gather("H"), V), expected["H"], atol=1e-6)
    np.testing.assert_allclose(np.maximum(tensor(rows.gather("z"), V), 0), expected["Q"], atol=1e-6)


def test_gram_of_slices_and_matrix_from_the_right_undo_each_other():
    rng = np.random.default_rng(0)
    V, K = 4, 3
    X = rng.normal(size=(20, V * K))
    for axis in ("cluster", "lateral", "view"):
        slices = agtf._to_slices(tensor(X, V), axis, "ortho")
        grams = agtf._slice_grams(X.T @ X, (V, K), axis)
        np.testing.assert_allclose(grams, slices.conj().swapaxes(1, 2) @ slices, atol=1e-10)
        moved = agtf._from_slices(slices @ grams, axis, "ortho")
        np.testing.assert_allclose(tensor(X @ agtf._from_right(grams, (V, K), axis), V), moved, atol=1e-8)


@pytest.mark.parametrize("axis", agtf.AXES)
@pytest.mark.parametrize("fft_norm", ["ortho", "backward"])
def test_automatic_lambda_sets_the_first_shrinkage(axis, fft_norm):
    X = np.random.default_rng(0).normal(size=(20, 12))
    leading = np.median([np.linalg.svd(M, compute_uv=False)[0] for M in naive.slices(tensor(X, 4), axis, fft_norm)])
    for p in (0.5, 1.0):
        found = agtf._leading(X.T @ X, agtf._Norm(p, axis, fft_norm, (4, 3)), X)
        assert found == pytest.approx(leading)
        tau = agtf._automatic_lambda(found, 2.0, 0.1, p) / 2.0
        assert tau * p * leading ** (p - 1) == pytest.approx(0.1 * leading)
        assert naive.gst(leading, tau, p) == pytest.approx(0.9 * leading, rel=0.02)


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8, 1.0])
def test_automatic_lambda_leaves_something_of_H(p):
    X = np.random.default_rng(0).normal(size=(20, 12))
    leading = np.median([np.linalg.svd(M, compute_uv=False)[0] for M in naive.slices(tensor(X, 4), "cluster", "ortho")])
    tau = agtf._automatic_lambda(leading, 2.0, 0.25, p) / 2.0
    assert 0.5 * leading < naive.gst(leading, tau, p) < 0.99 * leading
    views, y = blobs(n=120, k=3)
    result = agtf.cluster(views, 3, p=p)
    assert result.history["H_norm"].min() > 0
    assert agtf.score(y, result.labels)["ACC"] == 1.0


def test_row_blocks_are_fixed():
    assert agtf._map_rows(lambda lo, hi: (lo, hi), 10, rows=4) == [(0, 4), (4, 8), (8, 10)]
