"""t-product, transpose, Schatten norm and its proximal step against the definitions."""

import tracemalloc

import naive
import numpy as np
import pytest
from conftest import flat, needs_jit, tensor
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import agtf

SHAPES = [(1, 1, 1), (5, 2, 1), (6, 3, 2), (7, 4, 3), (4, 5, 4), (9, 3, 5)]


@pytest.fixture(params=SHAPES, ids=str)
def X(request):
    return np.random.default_rng(sum(request.param)).normal(size=request.param)


def test_tprod_is_a_circular_convolution_of_slices(X):
    B = np.random.default_rng(1).normal(size=(X.shape[1], 3, X.shape[2]))
    np.testing.assert_allclose(agtf.tprod(X, B), naive.tprod(X, B), atol=1e-12)


def test_transpose_turns_products_around(X):
    B = np.random.default_rng(1).normal(size=(X.shape[1], 3, X.shape[2]))
    np.testing.assert_allclose(agtf.ttranspose(X), naive.ttranspose(X))
    turned = agtf.tprod(agtf.ttranspose(B), agtf.ttranspose(X))
    np.testing.assert_allclose(agtf.ttranspose(agtf.tprod(X, B)), turned, atol=1e-12)


@pytest.mark.parametrize("fft_norm", ["ortho", "backward"])
@pytest.mark.parametrize("axis", agtf.AXES)
@pytest.mark.parametrize("p", [0.3, 0.5, 1.0])
def test_norm_and_prox_match_the_definition(X, p, axis, fft_norm):
    expected = naive.schatten_norm(X, p, axis, fft_norm)
    assert agtf.schatten_norm(X, p, axis, fft_norm) == pytest.approx(expected, rel=1e-8)
    for tau in (0.0, 0.1, 0.7, 100.0):
        expected = naive.schatten_prox(X, tau, p, axis, fft_norm)
        np.testing.assert_allclose(agtf.schatten_prox(X, tau, p, axis, fft_norm), expected, atol=1e-8)


def rank_deficient(shape, rank, seed=0):
    """A sum of `rank` outer products; 0: all zeros."""
    rng = np.random.default_rng(seed)
    return np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, rank)) for size in shape))


@pytest.mark.parametrize("fft_norm", ["ortho", "backward"])
@pytest.mark.parametrize("axis", agtf.AXES)
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("shape", [*SHAPES, (40, 5, 4), (300, 3, 3)], ids=str)
def test_norm_of_rank_deficient_tensors(shape, rank, axis, fft_norm):
    for X in (rank_deficient(shape, rank), 1e3 * rank_deficient(shape, rank, 1), np.full(shape, 0.1 * rank)):
        for p in (0.05, 0.1, 0.5):
            expected = naive.schatten_norm(X, p, axis, fft_norm) if rank else 0.0
            assert agtf.schatten_norm(X, p, axis, fft_norm) == pytest.approx(expected, rel=1e-8)


def test_norm_of_rank_one_in_closed_form():
    a, b, c = (np.random.default_rng(0).normal(size=size) for size in (30, 4, 3))
    size = np.linalg.norm(a) * np.linalg.norm(c)
    for p in (0.05, 0.1, 1.0):
        expected = ((size * np.abs(b)) ** p).sum() ** (1 / p)
        assert agtf.schatten_norm(np.einsum("i,j,k->ijk", a, b, c), p, "lateral") == pytest.approx(expected)


def test_norm_keeps_small_singular_values_that_are_not_rounding():
    X = np.zeros((40, 2, 2))
    X[0, 0, 0], X[1, 0, 1] = 1.0, 1e-12
    assert agtf.schatten_norm(X, 0.5, "lateral") == pytest.approx((1 + 1e-6) ** 2, rel=1e-12)


@pytest.mark.parametrize("fft_norm", ["ortho", "backward"])
def test_solver_reports_the_norm_of_rank_deficient_tensors(fft_norm):
    X = rank_deficient((20, 3, 4), 1)
    norm = agtf._Norm(0.05, "sample", fft_norm, (4, 3))
    _, size = agtf._update_F(flat(X), 1e-3, norm)
    expected = naive.schatten_norm(naive.schatten_prox(X, 1e-3, 0.05, "sample", fft_norm), 0.05, "sample", fft_norm)
    assert size == pytest.approx(expected**0.05, rel=1e-8)


def test_norm_of_nothing():
    assert agtf.schatten_norm(np.zeros((0, 2, 3)), 0.5, "lateral") == 0.0


@needs_jit
def test_whole_numbers_do_not_compile_again():
    X = rank_deficient((6, 3, 2), 2)
    expected = agtf.schatten_prox(X, 1.0, 1.0), agtf.schatten_norm(X, 1.0)
    compiled = len(agtf._gst.signatures)
    np.testing.assert_array_equal(agtf.schatten_prox(X, 1, 1), expected[0])
    assert agtf.schatten_norm(X, 1) == expected[1]
    assert len(agtf._gst.signatures) == compiled


@pytest.mark.parametrize("axis", agtf.AXES)
@pytest.mark.parametrize("p", [0.4, 1.0])
def test_prox_is_the_minimiser(axis, p):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(6, 3, 4))
    tau = 0.5

    def objective(X):
        return ((X - Z) ** 2).sum() / 2 + tau * agtf.schatten_norm(X, p, axis) ** p

    best = agtf.schatten_prox(Z, tau, p, axis)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            assert objective(best) <= objective(best + size * rng.normal(size=Z.shape)) + 1e-12


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0.05, 1))
def test_gst_beats_a_numerical_minimiser(s, tau, p):
    def objective(x):
        return (x - s) ** 2 / 2 + tau * x**p

    x = agtf._gst(np.array([s]), tau, p)[0]
    assert 0 <= x <= s
    found = minimize_scalar(objective, bounds=(0, max(s, 1e-9)), method="bounded").fun
    assert objective(x) <= min(found, objective(0.0)) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
def test_gst_matches_dense_search(p):
    for tau in (0.01, 0.3, 2.0):
        threshold = agtf._gst_threshold(tau, p)
        for s in (0.0, 0.5 * threshold, 0.999 * threshold, 1.001 * threshold, 2 * threshold, 50.0):
            assert agtf._gst(np.array([s]), tau, p)[0] == pytest.approx(naive.gst(s, tau, p), abs=1e-8)


SMALL = st.floats(0, 1e-290) | st.floats(0, 1e-320) | st.floats(0, 1e-150) | st.floats(0, 1e300)


@settings(max_examples=200, deadline=None)
@given(SMALL, SMALL, st.floats(0.01, 1))
@example(s=5e-324, tau=0.0, p=0.01)  # x ** (p - 1) is infinite, and 0 times that was NaN
@example(s=5e-324, tau=5e-324, p=0.5)
@example(s=1e-318, tau=1e-323, p=0.99)  # 2 tau (1 - p) is 0 here, the threshold is not
@example(s=1e-310, tau=5e-324, p=0.9)
@example(s=1e-310, tau=1e-310, p=1 - 1e-16)
@example(s=1e-200, tau=1e-301, p=0.5)
@example(s=1e300, tau=1e300, p=0.5)
def test_gst_of_extreme_numbers(s, tau, p):
    plain = getattr(agtf._gst, "py_func", agtf._gst)  # where NumPy would warn
    found = [gst(np.array([s]), tau, p)[0] for gst in (agtf._gst, plain)]
    assert np.isfinite(found).all() and 0 <= min(found) and max(found) <= s
    if s == 0 or tau == 0:
        assert found == [s, s]
        return
    # In units of s the problem has s = 1 and tau = t, which is harmless or too large for anything but 0.
    log_t = np.log(tau) + (p - 2) * np.log(s)
    margin = 1e-6 + 100 * 5e-324 / s
    t = np.exp(min(log_t, 5.0)) * np.array([1, 1 - margin, 1 + margin])
    best, above, below = (naive.gst(1.0, x, p) for x in t)
    assume((best > 0) == (above > 0) == (below > 0))  # on the threshold either is right
    np.testing.assert_allclose(found, s * best, rtol=0, atol=1e-8 * s + 10 * 5e-324)


def test_soft_threshold_for_p_one():
    s = np.linspace(0, 3, 31)
    np.testing.assert_allclose(agtf._gst(s, 1.0, 1.0), np.maximum(s - 1, 0), atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12))
def test_simplex_projection(values):
    projected = np.array([values])
    agtf._project_simplex(projected)
    np.testing.assert_allclose(projected[0], naive.simplex(np.array(values)), atol=1e-8)
    assert projected.min() >= 0 and projected.sum() == pytest.approx(1, abs=1e-9)


ANY_SIZE = st.floats(-1, 1) | st.sampled_from([1e17, 1e17 + 16, -1e17, 3e8, 3e8 + 0.5]) | st.floats(-4e307, 4e307)


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_SIZE, min_size=1, max_size=12), ANY_SIZE)
@example(values=[0.0, 0.0, 0.0], level=1e17)
@example(values=[8e307, -8e307, -8e307, -8e307], level=0.0)  # their sum is infinite
def test_simplex_projection_of_extreme_numbers(values, level):
    row = np.array(values) + level
    projected = row[None].copy()
    agtf._project_simplex(projected)
    np.testing.assert_allclose(projected[0], naive.simplex(row), atol=1e-14)
    assert projected.min() >= 0 and projected.sum() == pytest.approx(1, abs=1e-14)


def both_polar_factors(B, previous):
    """Of (n, K, V) tensors: by the module and by its plain twin."""
    V, K = B.shape[2], B.shape[1]
    pairs = zip(naive.slices(B, "view", "backward"), naive.slices(previous, "view", "backward"))
    plain = naive.unslice([naive.polar(*pair) for pair in pairs], "view", "backward")
    return tensor(agtf._polar_factor(flat(B), flat(previous), (V, K)), V), plain


def assert_orthogonal(H):
    identity = np.zeros((H.shape[1], H.shape[1], H.shape[2]))
    identity[:, :, 0] = np.eye(H.shape[1])
    np.testing.assert_allclose(naive.tprod(naive.ttranspose(H), H), identity, atol=1e-12)


@pytest.mark.parametrize("V", [1, 2, 3, 4])
def test_polar_factor_where_the_previous_one_repeats_what_is_there(V):
    B, previous = np.zeros((2, 2, V)), np.zeros((2, 2, V))
    B[0, 1], previous[:, :, 0] = 1.0, np.eye(2)
    B[0, 1, 0] = 2.0  # so that no view frequency is zero
    for H in both_polar_factors(B, previous):
        assert_orthogonal(H)
        np.testing.assert_allclose(H[:, :, 0], [[0, 1], [1, 0]], atol=1e-12)


@pytest.mark.parametrize("V", [1, 2, 3, 4])
@pytest.mark.parametrize("n, K", [(1, 1), (2, 2), (5, 2), (3, 3), (9, 3), (6, 5)])
def test_polar_factor_is_orthogonal_whatever_is_missing(n, K, V):
    rng = np.random.default_rng(n)
    for rank in range(K + 1):
        images, sources = rng.normal(size=(n, rank, V)), rng.normal(size=(rank, K, V))
        B = naive.tprod(images, sources)
        # An earlier H of low rank, partly or wholly in the range of B, nothing at all, and one that decides everything.
        inside = naive.tprod(images, rng.normal(size=(rank, K, V)))
        lower = naive.tprod(rng.normal(size=(n, 1, V)), rng.normal(size=(1, K, V)))
        for previous in (B, inside, inside + lower, 0 * B, lower, rng.normal(size=(n, K, V))):
            fast, plain = both_polar_factors(B, previous)
            assert_orthogonal(fast)
            assert_orthogonal(plain)
            np.testing.assert_allclose(fast, plain, atol=1e-8)
            # Polar: B = H P with P = H^T*B symmetric and positive semi-definite at every view frequency.
            P = np.fft.fft(naive.tprod(naive.ttranspose(fast), B))
            for f in range(V):
                np.testing.assert_allclose(P[:, :, f], P[:, :, f].conj().T, atol=1e-10)
                assert np.linalg.eigvalsh(P[:, :, f]).min() >= -1e-10


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: agtf.tprod(np.ones((2, 3, 4)), np.ones((2, 3, 4))), r"\(2, 3, 4\)"),
        (lambda: agtf.schatten_norm(np.ones((2, 3)), 0.5), "3 axes"),
        (lambda: agtf.schatten_norm(np.ones((2, 3, 4)), 1.5), "p must lie"),
        (lambda: agtf.schatten_norm(np.ones((2, 3, 4)), 0.5, axis="rows"), "'lateral'"),
        (lambda: agtf.schatten_norm(np.ones((2, 3, 4)), 0.5, fft_norm="none"), "'backward'"),
        (lambda: agtf.schatten_prox(np.ones((2, 3, 4)), -1.0, 0.5), "tau"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_simplex_projection_of_ties_ends():
    """Entries that equal the shift up to rounding must not drop out and come back for ever."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        B = np.round(rng.normal(size=(300, rng.integers(1, 9))) * rng.choice([0.01, 0.1, 1.0, 1e8]), rng.integers(0, 4))
        B[rng.random(B.shape) < 0.3] = 1 / 3
        projected = B.copy()
        agtf._project_simplex(projected)
        np.testing.assert_allclose(projected.sum(axis=1), 1)
        np.testing.assert_allclose(projected[0], naive.simplex(B[0]), atol=1e-9)


def test_polar_factor_needs_no_matrix_of_samples_by_samples():
    B = np.zeros((3000, 6))
    tracemalloc.start()
    agtf._polar_factor(B, np.random.default_rng(0).normal(size=B.shape), (2, 3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * B.nbytes
