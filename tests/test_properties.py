"""Contracts of the public functions, searched by hypothesis: 30 examples each, 2,500 with `-m slow`."""

import itertools
import tempfile
import warnings

import naive
import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import JIT_OFF
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import agtf

SIZES = st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))
FLOATS = st.floats(-1e6, 1e6, allow_subnormal=False)
OURS = [  # warnings that small random problems deserve
    "the clusters are not clear",
    "no convergence",
    ".*clusters are empty",
    "the factors have come",
    ".* tells something about",
    ".* in common with any other view",
]


@st.composite
def tables(draw, n):
    """One view: any shape, type, memory layout, sparse format and scale, sometimes with ties or constant columns."""
    d = draw(st.integers(1, 5))
    values = draw(hnp.arrays(float, (n, d), elements=st.floats(-4, 4, width=16)))
    table = values * 10.0 ** draw(st.integers(-8, 8))
    form = draw(st.sampled_from(["C", "F", "float32", "int", "bool", "csr", "csc", "coo", "strided", "read-only"]))
    if form == "F":
        return np.asfortranarray(table)
    if form in ("float32", "int", "bool"):
        return values.astype({"float32": np.float32, "int": int, "bool": bool}[form])
    if form in ("csr", "csc", "coo"):
        return sparse.coo_array(table).asformat(form)
    if form == "strided":
        return np.repeat(table, 2, axis=1)[:, ::2]
    table.flags.writeable = form != "read-only"
    return table


@st.composite
def problems(draw, least=4):
    n = draw(st.integers(least, 24))
    views = [draw(tables(n)) for _ in range(draw(st.integers(1, 3)))]
    return views, draw(st.integers(2, max(2, n // 2)))


def dense(view):
    return view.toarray() if sparse.issparse(view) else np.asarray(view)


def quiet_cluster(views, k, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ours in OURS:
            warnings.filterwarnings("ignore", ours)
        return agtf.cluster(views, k, max_iter=30, **options)


def cluster_keeps_its_promises(draw):
    views, k = draw(problems())
    before = [dense(view).copy() for view in views]
    result = quiet_cluster(views, k, random_state=draw(st.integers(0, 5)))
    n = len(before[0])
    assert result.labels.shape == (n,) and 0 <= result.labels.min() and result.labels.max() < k
    assert result.memberships.min() >= 0 and np.allclose(result.memberships.sum(axis=1), 1)
    assert result.anchor_memberships.min() >= 0 and np.allclose(result.anchor_memberships.sum(axis=2), 1)
    assert result.view_agreement.min() >= 0 and result.view_agreement.max() <= 1
    assert result.predict(views).shape == (n,)
    assert str(result.explain(n - 1)).startswith(f"sample {n - 1} is in cluster {result.labels[-1]}")
    for view, copy in zip(views, before):
        assert (dense(view) == copy).all()


def order_does_not_matter(draw):
    views, k = draw(problems())
    n = views[0].shape[0]
    order = np.array(draw(st.permutations(range(n))))
    labels = quiet_cluster(views, k).labels
    # Views of the same rows, but for columns of zeros, may be mirror images of each other: they keep their order.
    rows = [sorted(map(tuple, dense(view)[:, dense(view).any(axis=0)] + 0.0)) for view in views]
    others = views if any(a == b for a, b in itertools.combinations(rows, 2)) else views[::-1]
    moved = quiet_cluster([view.tocsr()[order] if sparse.issparse(view) else view[order] for view in others], k)
    # Equal rows are told apart by nobody; which of them gets which label may follow the order.
    keys = [tuple(np.concatenate([dense(view)[i] + 0.0 for view in views])) for i in range(n)]
    assert sorted(zip(keys, labels)) == sorted(zip([keys[i] for i in order], moved.labels))


def missing_views_are_filled_or_refused(draw):
    views, k = draw(problems(least=8))
    n, V = views[0].shape[0], len(views)
    mask = draw(hnp.arrays(bool, (n, V), elements=st.sampled_from([True, True, True, False])))
    try:
        result = quiet_cluster(views, k, mask=mask)
    except ValueError as error:
        assert any(text in str(error) for text in ("seen in", "observed in no sample", "no sample in common"))
    else:
        assert np.isfinite(result.memberships).all()


def saved_results_predict_the_same(draw):
    views, k = draw(problems())
    result = quiet_cluster(views, k)
    with tempfile.TemporaryDirectory() as folder:
        result.save(f"{folder}/result.npz")
        assert (agtf.load(f"{folder}/result.npz").predict(views) == result.predict(views)).all()


def products_follow_the_definition(draw):
    n1, m, V = draw(SIZES)
    A = draw(hnp.arrays(float, (n1, m, V), elements=FLOATS))
    B = draw(hnp.arrays(float, (m, draw(st.integers(1, 4)), V), elements=FLOATS))
    assert np.allclose(agtf.tprod(A, B), naive.tprod(A, B), atol=1e-9 * (1 + np.abs(A).max() * np.abs(B).max() * m * V))
    assert (agtf.ttranspose(agtf.ttranspose(A)) == A).all()


def prox_never_loses_to_its_input_or_zero(draw):
    Z = draw(hnp.arrays(float, draw(SIZES), elements=st.floats(-1e3, 1e3, allow_subnormal=False)))
    p, tau = draw(st.floats(0.1, 1)), draw(st.floats(0, 1e3, allow_subnormal=False))
    axis = draw(st.sampled_from(agtf.AXES))
    X = agtf.schatten_prox(Z, tau, p, axis)

    def objective(X):
        s = np.linalg.svd(agtf._to_slices(X, axis, "ortho"), compute_uv=False)
        return ((X - Z) ** 2).sum() / 2 + tau * (np.where(s > 1e-10 * (1 + s.max()), s, 0) ** p).sum()

    assert objective(X) <= min(objective(Z), objective(0 * Z)) * (1 + 1e-6) + 1e-6


def scores_stay_in_range(draw):
    n = draw(st.integers(2, 30))
    y, labels = (np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))) for _ in range(2))
    scores = agtf.score(y, labels)
    assert all(-1 <= value <= 1 + 1e-12 for value in scores.values())
    assert scores["purity"] >= scores["ACC"] - 1e-12
    assert all(np.isclose(value, 1) for value in agtf.score(y, y * 2 + 1).values())


def suggestions_are_a_ranking(draw):
    views, _ = draw(problems(least=6))
    k_max = draw(st.integers(2, views[0].shape[0] - 1))
    suggestion = agtf.suggest_k(views, k_max)
    assert set(suggestion.candidates) <= set(range(2, k_max + 1)) and len(suggestion.candidates) >= 1
    assert np.isfinite(suggestion.scores).all() and (np.diff(suggestion.scores) <= 0).all()


PROPERTIES = [
    cluster_keeps_its_promises,
    order_does_not_matter,
    missing_views_are_filled_or_refused,
    saved_results_predict_the_same,
    products_follow_the_definition,
    prox_never_loses_to_its_input_or_zero,
    scores_stay_in_range,
    suggestions_are_a_ranking,
]


@pytest.mark.parametrize("examples", [3 if JIT_OFF else 30, pytest.param(2500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_property(holds, examples):
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def search(data):
        holds(data.draw)

    search()
