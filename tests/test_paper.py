"""The plain solver of benchmarks/paper.py: the paper's way it is Algorithm 1, and each of its switches matters."""

import pathlib
import sys

import conftest
import naive
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "benchmarks"))

import paper  # noqa: E402

AS_PRINTED = dict(h_first=False, clip="time", gst_steps=60, axis="sample")
WEIGHTS = dict(p=0.5, lambda1=0.3, lambda2=0.2)
STEPS = dict(penalty=0.4, growth=1.3, iterations=5)


def problem(seed=0, n=18, m=11, V=3, K=3):
    """Dense graph (n, m, V) and a start H, Q, J, F of the paper's shape, nothing in it degenerate."""
    rng = np.random.default_rng(seed)
    _, dense = conftest.random_graph(n, m, V, 4, rng)
    H = conftest.orthogonal_tensor(n, K, V, rng)
    Q, J = np.abs(H), H + 0.1 * rng.normal(size=H.shape)
    F = rng.dirichlet(np.ones(K), size=(m, V)).transpose(0, 2, 1)
    return dense, (H, Q, J, F)


def slices_first(X):
    return np.ascontiguousarray(X.transpose(2, 0, 1))


def solved(dense, start, **changes):
    S = [paper.sparse.csr_array(dense[:, :, v]) for v in range(dense.shape[2])]
    return paper.solve(S, [slices_first(X) for X in start], **{**WEIGHTS, **STEPS, **AS_PRINTED, "tol": 0.0, **changes})


@pytest.mark.parametrize("axis", ["sample", "cluster"])
def test_the_papers_way_is_algorithm_1(axis):
    dense, start = problem()
    ours = solved(dense, start, axis=axis)
    theirs = naive.algorithm1(
        dense, *start, **WEIGHTS, mu=0.4, rho=0.4, sigma=0.4, growth=1.3, iterations=5, axis=axis, norm="backward"
    )
    for name in "HGQJF":
        np.testing.assert_allclose(getattr(ours, name), slices_first(theirs[name]), atol=1e-6)
    assert np.array_equal(ours.labels, theirs["labels"])


@pytest.mark.parametrize(
    "change",
    [{"h_first": True}, {"clip": "frequency"}, {"clip": "real"}, {"gst_steps": 1}, {"axis": "cluster"}],
    ids=str,
)
def test_every_switch_changes_the_result(change):
    dense, start = problem()
    assert np.abs(solved(dense, start).H - solved(dense, start, **change).H).max() > 1e-3


def test_the_two_clips_over_frequencies_differ():
    dense, start = problem()
    frequency, real = (solved(dense, start, clip=clip).Q for clip in ("frequency", "real"))
    assert np.abs(frequency - real).max() > 1e-3


def test_anchors_and_graph_are_those_of_the_definition():
    X = np.random.default_rng(1).normal(size=(25, 4))
    anchors = paper.vda(X, 9)
    assert np.array_equal(anchors, naive.vda([X], 9))
    graph = paper.anchor_graph(X, anchors, 3).toarray()
    np.testing.assert_allclose(graph, naive.anchor_graph(X, X[anchors], 3), atol=1e-12)


def test_anchors_do_not_depend_on_the_layout_in_memory():
    X = np.random.default_rng(2).normal(size=(300, 40))
    rows, columns = (paper.vda(paper.scaled(np.array(X, order=order), "unit"), 120) for order in "CF")
    assert np.array_equal(rows, columns)


def test_a_first_step_without_graph_keeps_the_start():
    # H before G, G = 0: B2 vanishes, and its polar factor is the previous H.
    dense, _ = problem()
    S = [paper.sparse.csr_array(dense[:, :, v]) for v in range(3)]
    start = paper.identity_start(S, 3)
    one = paper.solve(S, start, **{**WEIGHTS, **STEPS, **AS_PRINTED, "h_first": True, "iterations": 1})
    np.testing.assert_allclose(one.H, start[0], atol=1e-12)


@conftest.needs_jit
def test_closest_recipe_on_msrc_depends_on_the_order_of_the_rows():
    views, y = conftest.data_set("MSRC")
    y = np.unique(y, return_inverse=True)[1]
    assert paper.closest("MSRC", views, y)["ACC"] >= 0.99  # rows sorted by class
    assert paper.closest("MSRC", *paper.shuffled(views, y, 0))["ACC"] < 0.5  # the same rows, shuffled
