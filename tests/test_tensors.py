"""t-product, transpose, Schatten norm and its proximal step against the definitions."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
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
