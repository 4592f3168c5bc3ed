"""Input at the edge: k non-empty clusters come out, or a warning or an error says why not; never NaN, never a hang."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import JIT_OFF, blobs, needs_jit

import agtf

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
TEXT = np.where(rng.random((40, 30)) < 0.1, rng.random((40, 30)), 0.0)
TEXT[[3, 17]] = 0.0
MANY_COMPONENTS = 100.0 * (np.arange(60) % 10)[:, None] + rng.normal(size=(60, 2))

CASES = {
    "many duplicate rows": ([np.repeat(X[:8], 5, axis=0)], 4),
    "constant view": ([X, np.full((40, 2), 7.0)], 3),
    "constant column": ([np.c_[X, np.ones(40)]], 3),
    "views of one feature": ([X[:, :1], X[:, 1:2]], 3),
    "n barely above k": ([X[:6]], 5),
    "k is n": ([X[:6]], 6),
    "k is half of n": ([X], 20),
    "a cluster of one sample": ([np.vstack([X[:, :2], [[50.0, 50.0]]])], 2),
    "zero rows in text": ([TEXT, TEXT[:, ::-1]], 3),
    "zero rows in sparse text": ([sparse.csr_array(TEXT)], 3),
    "tiny values": ([X * 1e-300], 3),
    "huge values": ([X * 1e300], 3),
    "denormals": ([X * 1e-310, X], 3),
    "huge offset": ([1e9 + X], 3),
    "more components than clusters": ([MANY_COMPONENTS], 3),
    "fewer distinct rows than anchors": ([np.repeat(X[:10], 6, axis=0)], 3, dict(n_anchors=30)),
    "two samples": ([X[:2]], 2),
    "booleans": ([X > 0, X > 1], 2),
    "float16": ([X.astype(np.float16)], 3),
    "twenty views": ([rng.normal(size=(40, 2)) for _ in range(20)], 3),
    "one wide row each": ([rng.normal(size=(12, 900))], 3),
    "p nearly 0": ([X], 3, dict(p=1e-3)),
    "p is 1": ([X], 3, dict(p=1.0)),
    "no norms": ([X], 3, dict(lambda1=0, lambda2=0)),
    "penalties at their cap": ([X], 3, dict(penalty=1e13, growth=10.0)),
    "identity start": ([X, X**2], 3, dict(init="identity")),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_edge(case):
    views, k, *options = CASES[case]
    if JIT_OFF and case in ("twenty views",):
        pytest.skip("slow without the compiler")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = agtf.cluster(views, k, **(options[0] if options else {}))
    assert all(w.filename.endswith(("agtf.py", "test_degenerate.py")) for w in caught), [str(w.message) for w in caught]
    n = views[0].shape[0]
    assert result.labels.shape == (n,) and result.labels.min() >= 0 and result.labels.max() < k
    assert np.isfinite(result.memberships).all() and np.isfinite(result.anchor_memberships).all()
    np.testing.assert_allclose(result.memberships.sum(axis=1), 1)
    np.testing.assert_allclose(result.anchor_memberships.sum(axis=2), 1)
    empty = k - len(np.unique(result.labels))
    assert empty == 0 or any("empty" in str(w.message) for w in caught), f"{empty} empty clusters in silence"
    result.explain(0)
    assert result.predict(views).shape == (n,)


def test_duplicates_only():
    nothing = pytest.warns(UserWarning, match="view 0 tells something about 0% of the samples only")
    with nothing, pytest.warns(UserWarning, match="1 different sample"):
        result = agtf.cluster(np.ones((30, 4)), 3)
    assert len(np.unique(result.labels)) == 1


def test_values_that_cannot_be_squared_are_refused():
    with pytest.raises(ValueError, match=r"views\[1\] has values as large as 1.7e\+308, .* rescale it"):
        agtf.cluster([X, np.sign(X) * 1.7e308], 3)
    with pytest.raises(ValueError, match='use scale="auto"'):
        agtf.cluster([X * 1e200], 3, scale=None)


def test_equal_rows_share_a_label():
    views, _ = blobs(n=30)
    doubled = [np.vstack([view, view]) for view in views]
    labels = agtf.cluster(doubled, 3).labels
    np.testing.assert_array_equal(labels[:30], labels[30:])


def test_collapse_is_reported():
    views, _ = blobs(n=80)
    with pytest.warns(UserWarning, match=r"come apart: .*; lambda2=1e\+12 is probably too large"):
        agtf.cluster(views, 3, lambda2=1e12)
    with pytest.warns(UserWarning, match=r"come apart: .*; lambda1=1e\+12 is probably too large"):
        agtf.cluster(views, 3, lambda1=1e12)


@needs_jit
def test_two_hundred_clusters():
    views, y = blobs(n=1200, k=200, widths=(6, 7), spread=0.05)
    result = agtf.cluster(views, 200)
    assert len(np.unique(result.labels)) == 200 and agtf.score(y, result.labels)["ACC"] > 0.95


@needs_jit
@pytest.mark.parametrize("problems", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_soak(problems):
    """Small random problems of every kind, with no warning that is not ours."""
    draw = np.random.default_rng(1)
    for _ in range(problems):
        n, V = int(draw.integers(4, 60)), int(draw.integers(1, 5))
        k = int(draw.integers(2, max(3, n // 3)))
        views = [draw.normal(size=(n, int(draw.integers(1, 9)))) * 10.0 ** draw.integers(-6, 7) for _ in range(V)]
        if draw.random() < 0.3:
            views[0] = np.round(views[0])
        if draw.random() < 0.2:
            views[0] = views[0].astype(np.float32)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = agtf.cluster(views, k, random_state=int(draw.integers(1000)))
        assert all(w.filename == __file__ for w in caught), [str(w.message) for w in caught]
        assert np.isfinite(result.memberships).all()
