"""Every update of Algorithm 1 and whole runs of it against tests/naive.py."""

import itertools

import naive
import numpy as np
import pytest
from conftest import blobs, flat, orthogonal_tensor, random_graph, tensor

import agtf

SIZES = [(12, 7, 3, 1), (13, 6, 2, 2), (14, 8, 3, 3), (15, 7, 4, 4), (17, 9, 3, 5)]  # n, m, K, V


@pytest.fixture(params=SIZES, ids=str)
def problem(request):
    n, m, K, V = request.param
    rng = np.random.default_rng(n)
    graph, S = random_graph(n, m, V, 4, rng)
    names = {"H": n, "Q": n, "J": n, "Y1": n, "Y2": n, "F": m, "Y3": m}
    T = {name: rng.normal(size=(rows, K, V)) for name, rows in names.items()}
    T["H"] = orthogonal_tensor(n, K, V, rng)
    T["G"] = rng.dirichlet(np.ones(K), size=(m, V)).transpose(0, 2, 1)
    return graph, S, T, (V, K)


def form_B2(graph, T, mu, rho):
    return agtf._B2(graph, *(flat(T[name]) for name in ("G", "Q", "Y1", "J", "Y2")), mu, rho)


def test_products_with_the_sparse_tensor(problem):
    graph, S, T, (V, K) = problem
    H = flat(T["H"])
    StH = sum(agtf._scatter(graph.index, graph.weight, H, graph.m, lo, lo + 5) for lo in range(0, len(H) - 5, 5))
    StH = StH + agtf._scatter(graph.index, graph.weight, H, graph.m, (len(H) - 1) // 5 * 5, len(H))
    np.testing.assert_allclose(tensor(StH, V), naive.tprod(naive.ttranspose(S), T["H"]), atol=1e-12)
    B = form_B2(graph, T, 0.3, 0.7)
    expected = 2 * naive.tprod(S, T["G"]) + 0.3 * T["Q"] - T["Y1"] + 0.7 * T["J"] - T["Y2"]
    np.testing.assert_allclose(tensor(B, V), expected, atol=1e-12)


def test_update_G(problem):
    graph, S, T, (V, K) = problem
    StH = flat(naive.tprod(naive.ttranspose(S), T["H"]))
    G = tensor(agtf._update_G(StH, flat(T["F"]), flat(T["Y3"]), 0.4, (V, K)), V)
    np.testing.assert_allclose(G, naive.update_G(S, T["H"], T["F"], T["Y3"], 0.4), atol=1e-8)
    assert G.min() >= 0
    np.testing.assert_allclose(G.sum(axis=1), 1)


def test_update_H_from_gram_matrices_and_from_svds(problem):
    graph, S, T, (V, K) = problem
    expected = naive.update_H(S, T["G"], T["Q"], T["Y1"], T["J"], T["Y2"], 0.3, 0.7, T["H"])
    B, H = form_B2(graph, T, 0.3, 0.7), flat(T["H"])
    np.testing.assert_allclose(tensor(agtf._polar_factor(B, H, (V, K)), V), expected, atol=1e-8)
    agtf._update_H(B, H, (V, K))
    np.testing.assert_allclose(tensor(H, V), expected, atol=1e-8)
    identity = np.zeros((K, K, V))
    identity[:, :, 0] = np.eye(K)
    np.testing.assert_allclose(naive.tprod(naive.ttranspose(tensor(H, V)), tensor(H, V)), identity, atol=1e-8)


def test_update_H_without_full_rank_is_completed_by_the_previous_H(problem):
    graph, S, T, (V, K) = problem
    zero = {name: np.zeros_like(T[name]) for name in ("Q", "J", "Y1", "Y2")}
    expected = naive.update_H(S, T["G"], zero["Q"], zero["Y1"], zero["J"], zero["Y2"], 1.0, 1.0, T["H"])
    H = flat(T["H"])
    agtf._update_H(form_B2(graph, {**T, **zero}, 1.0, 1.0), H, (V, K))
    np.testing.assert_allclose(tensor(H, V), expected, atol=1e-8)


def test_update_Q(problem):
    graph, S, T, (V, K) = problem
    H, Q, Y1 = flat(T["H"]), flat(T["Q"]), flat(T["Y1"])
    residual = agtf._update_Q(H, Q, Y1, 0.6)
    expected = naive.update_Q(T["H"], T["Y1"], 0.6)
    assert Q.min() >= 0
    np.testing.assert_allclose(tensor(Q, V), expected, atol=1e-12)
    np.testing.assert_allclose(tensor(Y1, V), T["Y1"] + 0.6 * (T["H"] - expected), atol=1e-12)
    assert residual == pytest.approx(np.abs(expected - T["H"]).max())


@pytest.mark.parametrize("axis, fft_norm", [*itertools.product(agtf.AXES, ["ortho", "backward"])])
def test_update_J_and_F(problem, axis, fft_norm):
    graph, S, T, (V, K) = problem
    norm = agtf._Norm(0.5, axis, fft_norm, (V, K))
    for name, low_rank, Y, update in (("H", "J", "Y2", naive.update_J), ("G", "F", "Y3", naive.update_F)):
        J, Y2 = flat(T[low_rank]), flat(T[Y])
        against = flat(T["Q"]) if name == "H" else flat(T["G"])
        residual, size = agtf._update_low_rank(flat(T[name]), J, Y2, 0.8, 0.9, norm, against)
        expected = update(T[name], T[Y], 0.9, 0.8, 0.5, axis, fft_norm)
        np.testing.assert_allclose(tensor(J, V), expected, atol=1e-8)
        np.testing.assert_allclose(tensor(Y2, V), T[Y] + 0.8 * (T[name] - expected), atol=1e-8)
        assert residual == pytest.approx(np.abs(J - against).max(), abs=1e-8)
        assert size == pytest.approx(naive.schatten_norm(expected, 0.5, axis, fft_norm) ** 0.5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("axis, fft_norm", [*itertools.product(agtf.AXES, ["ortho", "backward"])])
def test_five_iterations(problem, axis, fft_norm):
    graph, S, T, (V, K) = problem
    args = dict(p=0.5, lambda1=0.05, lambda2=0.03)
    start = [T["H"], np.maximum(T["H"], 0), T["H"], T["G"]]
    expected = naive.algorithm1(
        S, *start, **args, mu=0.1, rho=0.1, sigma=0.1, growth=1.3, iterations=5, axis=axis, norm=fft_norm
    )
    H, Q, J, F = map(flat, start)
    norm = agtf._Norm(0.5, axis, fft_norm, (V, K))
    G, history, stopped_by = agtf._algorithm1(
        graph, H, Q, J, F, norm, 0.05, 0.03, 0.1, 1.3, tol=0.0, max_iter=5, watch=lambda *state: False
    )
    for name, value in {"H": H, "Q": Q, "J": J, "F": F, "G": G}.items():
        np.testing.assert_allclose(tensor(value, V), expected[name], atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(tensor(Q, V).mean(axis=2).argmax(axis=1), expected["labels"])
    assert stopped_by == "max_iter"
    for name in agtf.HISTORY:
        np.testing.assert_allclose(history[name], [step[name] for step in expected["history"]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", agtf.AXES)
def test_paper_start(axis):
    """The identity start, where the first B2 has no full rank."""
    rng = np.random.default_rng(3)
    n, m, K, V = 20, 9, 3, 3
    graph, S = random_graph(n, m, V, 4, rng)
    H = np.zeros((n, K, V))
    H[:K, :, 0] = np.eye(K)
    zero, zero_F = np.zeros_like(H), np.zeros((m, K, V))
    expected = naive.algorithm1(S, H, zero, zero, zero_F, 0.5, 0.01, 0.01, 1e-2, 1e-2, 1e-2, 1.3, 5, axis, "backward")
    state = [flat(X) for X in (H, zero, zero, zero_F)]
    norm = agtf._Norm(0.5, axis, "backward", (V, K))
    G, _, _ = agtf._algorithm1(graph, *state, norm, 0.01, 0.01, 1e-2, 1.3, 0.0, 5, watch=lambda *state: False)
    np.testing.assert_allclose(tensor(G, V), expected["G"], atol=1e-6)
    np.testing.assert_allclose(tensor(state[0], V), expected["H"], atol=1e-6)
    np.testing.assert_allclose(tensor(state[1], V), expected["Q"], atol=1e-6)


def test_gram_of_slices_and_matrix_from_the_right_undo_each_other():
    rng = np.random.default_rng(0)
    V, K = 4, 3
    X = rng.normal(size=(20, V * K))
    for axis in ("cluster", "lateral", "view"):
        slices = agtf._to_slices(tensor(X, V), axis, "ortho")
        grams = agtf._slice_grams(agtf._gram(X), (V, K), axis)
        np.testing.assert_allclose(grams, slices.conj().swapaxes(1, 2) @ slices, atol=1e-10)
        moved = agtf._from_slices(slices @ grams, axis, "ortho")
        np.testing.assert_allclose(tensor(X @ agtf._from_right(grams, (V, K), axis), V), moved, atol=1e-8)


@pytest.mark.parametrize("axis", agtf.AXES)
@pytest.mark.parametrize("fft_norm", ["ortho", "backward"])
def test_automatic_lambda_sets_the_first_shrinkage(axis, fft_norm):
    X = np.random.default_rng(0).normal(size=(20, 12))
    leading = np.median([np.linalg.svd(M, compute_uv=False)[0] for M in naive.slices(tensor(X, 4), axis, fft_norm)])
    for p in (0.5, 1.0):
        tau = agtf._automatic_lambda(X, 2.0, agtf._Norm(p, axis, fft_norm, (4, 3)), 0.1) / 2.0
        assert tau * p * leading ** (p - 1) == pytest.approx(0.1 * leading)
        assert naive.gst(leading, tau, p) == pytest.approx(0.9 * leading, rel=0.02)


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8, 1.0])
def test_automatic_lambda_leaves_something_of_H(p):
    X = np.random.default_rng(0).normal(size=(20, 12))
    leading = np.median([np.linalg.svd(M, compute_uv=False)[0] for M in naive.slices(tensor(X, 4), "cluster", "ortho")])
    tau = agtf._automatic_lambda(X, 2.0, agtf._Norm(p, "cluster", "ortho", (4, 3)), 0.25) / 2.0
    assert 0.5 * leading < naive.gst(leading, tau, p) < 0.99 * leading
    views, y = blobs(n=120, k=3)
    result = agtf.cluster(views, 3, p=p)
    assert result.history["H_norm"].min() > 0
    assert agtf.score(y, result.labels)["ACC"] == 1.0


def test_row_blocks_do_not_change_the_sums():
    X = np.random.default_rng(0).normal(size=(10_000, 4))
    np.testing.assert_allclose(agtf._gram(X), X.T @ X)
    assert agtf._map_rows(lambda lo, hi: (lo, hi), 10, rows=4) == [(0, 4), (4, 8), (8, 10)]
