"""cluster(): what comes out, what may come in, and what it must not depend on."""

import itertools
import os
import subprocess
import sys
from types import SimpleNamespace

import naive
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from conftest import ROOT, blobs, data_set, in_blocks, needs_jit, table_of_people
from scipy.stats import kstest
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import agtf


@pytest.fixture(scope="module")
def fitted():
    views, y = blobs()
    return views, y, agtf.cluster(views, 3)


def accuracy(y, labels):
    return agtf.score(y, labels)["ACC"]


def test_result_has_what_it_promises(fitted):
    views, y, result = fitted
    n, m = len(y), len(result.anchors)
    assert accuracy(y, result.labels) == 1.0
    assert result.memberships.shape == (n, 3)
    np.testing.assert_allclose(result.memberships.sum(axis=1), 1)
    np.testing.assert_array_equal(result.memberships.argmax(axis=1), result.labels)
    assert result.anchor_memberships.shape == (2, m, 3) and result.joint_memberships.shape == (m, 3)
    assert result.anchor_memberships.min() >= 0
    np.testing.assert_allclose(result.anchor_memberships.sum(axis=2), 1)
    np.testing.assert_array_equal(result.anchor_labels, result.labels[result.anchors])
    assert result.view_agreement.shape == (3,)
    assert result.converged and result.stopped_by == "tol"
    assert set(result.history) == set(agtf.HISTORY)
    assert all(len(values) == result.n_iter for values in result.history.values())
    assert result.options["n_anchors"] * result.options["n_draws"] == m
    assert repr(result) == f"<agtf.Result: 60 samples, 2 views, 3 clusters, {m} anchors, {result.n_iter} iterations>"


def test_history_adds_up(fitted):
    h, o = fitted[2].history, fitted[2].options
    np.testing.assert_allclose(h["objective"], h["fit"] + o["lambda1"] * h["H_norm"] + o["lambda2"] * h["G_norm"])
    np.testing.assert_allclose(h["mu"][1:] / h["mu"][:-1], o["growth"])


def test_predict_agrees_on_the_training_samples_and_new_ones(fitted):
    views, y, result = fitted
    np.testing.assert_array_equal(result.predict(views), result.labels)
    new_views, new_y = [view[:7] + 0.01 for view in views], y[:7]
    assert accuracy(new_y, result.predict(new_views)) == 1.0
    np.testing.assert_array_equal(result.predict([sparse.csr_array(v) for v in new_views]), result.labels[:7])


def test_explain_names_anchors_votes_and_shares(fitted):
    views, y, result = fitted
    for i in (0, 5, -1):
        why = result.explain(i)
        assert why.label == result.labels[i] and why.sample == range(len(y))[i]
        assert why.slices == ["view 0", "view 1", "joint"]
        assert set(why.anchors.ravel()) <= set(result.anchors)
        np.testing.assert_allclose(why.weights.sum(axis=1), 1)
        np.testing.assert_allclose(why.votes.sum(axis=1), 1)
        assert why.shares.sum() == pytest.approx(1)
        assert why.votes.sum(axis=0).argmax() == why.label
        lines = str(why).splitlines()
        assert lines[0] == f"sample {why.sample} is in cluster {why.label}" and len(lines) == 7
    with pytest.raises(IndexError):
        result.explain(60)


SCALED = {
    "zscore": lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
    "unit": lambda x: x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300),
    "max": lambda x: x / np.abs(x).max(),
    None: lambda x: x,
}


def dense_graph(result, v):
    """Slice v of the result's graph as an (n, m) array."""
    S = np.zeros((len(result.labels), len(result.anchors)))
    np.put_along_axis(S, result._index[:, v], result._weight[:, v], axis=1)
    return S


def test_votes_come_from_the_nearest_anchors_of_each_view(fitted):
    views, _, result = fitted
    k = result.options["n_neighbors"]
    draws = np.split(result.anchors, result.options["n_draws"])
    assert len(draws) == 3
    for v, view in enumerate(views):
        scaled = [SCALED["zscore"](view), SCALED["zscore"](view), SCALED["unit"](view)]
        S = np.hstack([naive.anchor_graph(X, X[anchors], k) / 3 for X, anchors in zip(scaled, draws)])
        np.testing.assert_allclose(dense_graph(result, v), S, atol=1e-8)
        for i in range(10):
            np.testing.assert_allclose(result.explain(i).votes[v], S[i] @ result.anchor_memberships[v], atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_views_does_not_matter(seed):
    views, y = blobs(n=70, k=4, widths=(4, 5, 2), seed=seed, spread=2.5)
    views[1] = sparse.csr_array(np.where(views[1] > 0, views[1], 0.0))
    labels = agtf.cluster(views, 4).labels
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    np.testing.assert_array_equal(agtf.cluster([view[order] for view in views], 4).labels, labels[order])
    moved = agtf.cluster([views[2], views[0], views[1]], 4)
    np.testing.assert_array_equal(moved.labels, labels)
    assert [[len(s.factor) for s in scheme.scalings] for scheme in moved._anchors.schemes] == [[2, 4, 5]] * 2


def test_order_of_rows_that_are_blurred_does_not_matter():
    table, y = table_of_people()
    order = np.random.default_rng(0).permutation(900)
    result = agtf.cluster([table], 3)
    np.testing.assert_array_equal(agtf.cluster([table[order]], 3).labels, result.labels[order])
    assert (result.predict([table]) == result.labels).mean() > 0.98 and accuracy(y, result.labels) > 0.98


@needs_jit
@pytest.mark.parametrize("name", ["MSRC", "BBCSport", "HW1256"])
def test_order_of_real_rows_and_views_does_not_matter(name):
    views, y = data_set(name)
    k = len(np.unique(y))
    result = agtf.cluster(views, k)
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = agtf.cluster([view[order] for view in views[::-1]], k)
    np.testing.assert_array_equal(shuffled.labels, result.labels[order])
    for view in views:  # the same anchors, up to samples that are equal in all views
        np.testing.assert_array_equal(view[order[shuffled.anchors]], view[result.anchors])
    np.testing.assert_allclose(shuffled.anchor_memberships[::-1], result.anchor_memberships)


@needs_jit
def test_number_of_threads_does_not_matter():
    code = (
        "import agtf, numpy as np; v, y = agtf.digits_views(); r = np.random.default_rng(0).integers(0, 1797, 9000);"
        "v = [x[r] + 1e-3 * np.random.default_rng(1).normal(size=(9000, x.shape[1])) for x in v];"
        "r = agtf.cluster(v, 10, n_anchors=200, n_draws=2);"
        "print(hash(r.labels.tobytes()), hash(r.memberships.tobytes()))"
    )
    outputs = set()
    for threads in "1", "2":
        env = dict(os.environ, PYTHONHASHSEED="0", NUMBA_NUM_THREADS=threads, OMP_NUM_THREADS=threads)
        env["OPENBLAS_NUM_THREADS"] = threads
        outputs.add(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=env))
    assert len(outputs) == 1


def test_same_seed_same_labels_other_seed_other_anchors():
    views, _ = blobs(n=80, spread=2.0)
    first, again, other = (agtf.cluster(views, 3, random_state=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.labels, again.labels)
    np.testing.assert_array_equal(first.memberships, again.memberships)
    assert set(first.anchors) != set(other.anchors)
    agtf.cluster(views, 3, random_state=np.random.RandomState(0))


def test_inputs_are_left_alone_whatever_their_form():
    views, y = blobs()
    views = [np.round(10 * view) for view in views]
    labels = agtf.cluster(views, 3).labels
    frozen = [view.copy() for view in views]
    for view in frozen:
        view.flags.writeable = False
    forms = {
        "read-only": frozen,
        "Fortran": [np.asfortranarray(view) for view in views],
        "float32": [view.astype(np.float32) for view in views],
        "integers": [view.astype(int) for view in views],
        "DataFrames": [pd.DataFrame(view).add_prefix("f") for view in views],
        "strided": [np.repeat(view, 2, axis=0)[::2] for view in views],
        "tuple of lists": tuple(np.asarray(view).tolist() for view in views),
    }
    for name, form in forms.items():
        np.testing.assert_array_equal(agtf.cluster(form, 3).labels, labels, err_msg=name)
    np.testing.assert_array_equal(frozen[0], views[0])
    assert accuracy(y, agtf.cluster(views[0], 3).labels) > 0.9  # one table is one view


def test_sparse_and_dense_agree_and_sparse_stays_sparse():
    views, y = blobs(n=80, widths=(30, 40), spread=0.3)
    views = [np.where(view > 1.5, view, 0.0) for view in views]
    dense = agtf.cluster(views, 3, scale="unit")
    stored = [sparse.csr_array(view) for view in views]
    before = [view.copy() for view in stored]
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        result = agtf.cluster([form(view) for view in views], 3)
        np.testing.assert_array_equal(result.labels, dense.labels)
        assert all(sparse.issparse(rows) for scheme in result._anchors.schemes for rows in scheme.rows)
        np.testing.assert_array_equal(result.predict(views), dense.labels)
    agtf.cluster(stored, 3, scale="zscore")
    assert all((a != b).nnz == 0 for a, b in zip(stored, before))


def test_duplicate_entries_of_a_sparse_view_are_added():
    views, _ = blobs(n=40, widths=(6,))
    half = sparse.csr_array(views[0] / 2)
    twice = (np.tile(half.data, 2), (np.tile(half.tocoo().row, 2), np.tile(half.indices, 2)))
    doubled = sparse.coo_array(twice, half.shape)
    expected = agtf.cluster(sparse.csr_array(views[0]), 3).labels
    np.testing.assert_array_equal(agtf.cluster(doubled, 3).labels, expected)


# ---- options: each changes what it says ------------------------------------------------------------------------------


def test_scalings_do_what_they_say():
    views, _ = blobs(widths=(4, 5))
    views[1] = np.where(views[1] > np.quantile(views[1], 0.92, axis=0), np.abs(views[1]), 0.0)
    for name, scaled in SCALED.items():
        data = arranged(views, [name, name])
        for v, slot in enumerate(data.slots):
            expected, scaling = scaled(views[slot]), data.schemes[0].scalings[v]
            # Dense views are centred, too: distances are the same.
            np.testing.assert_allclose(scaling(views[slot]), expected - expected.mean(axis=0), atol=1e-12)
            assert scaling.weight**-2 == pytest.approx(expected.var(axis=0).sum())
            stored = sparse.csr_array(views[slot])
            again = arranged([stored], [name]).schemes[0].scalings[0]
            uncentred = views[slot] / views[slot].std(axis=0) if name == "zscore" else expected
            np.testing.assert_allclose(again(stored).toarray(), uncentred, atol=1e-12)
            assert again.weight == pytest.approx(scaling.weight)
    data = arranged(views, ["auto", "auto"])
    assert [s.name for s in data.schemes[0].scalings] == [("zscore", "unit")[slot] for slot in data.slots]


def arranged(views, scales, mask=None, canonical=True):
    return agtf._arrange(agtf._as_tables(views), mask, canonical, [(scales, 1)])


def test_levels_beside_numbers_are_blurred():
    table, _ = table_of_people()
    children, flag = (table[:, c].std() for c in (1, 2))
    scaling = arranged([table], ["auto"]).schemes[0].scalings[0]
    np.testing.assert_allclose(scaling.widths, [0, min(1, 2 * children), 2 * flag, 0])
    blurred = scaling(table) / scaling.factor
    blurred += table.mean(axis=0) - blurred.mean(axis=0)
    moved = (blurred - table)[:, 1:3] / scaling.widths[1:3]
    np.testing.assert_allclose(np.delete(blurred, [1, 2], axis=1), np.delete(table, [1, 2], axis=1), rtol=1e-6)
    assert np.abs(moved).max() < 0.55  # a half, and what it moved the mean
    assert abs(np.corrcoef(moved.T)[0, 1]) < 0.1 and (kstest(moved, "uniform", (-0.5, 1)).pvalue > 0.001).all()
    np.testing.assert_allclose(scaling(table).std(axis=0), 1, atol=0.03)
    # The same rows are blurred alike, whatever their order and type; -0 is 0.
    some = np.random.default_rng(1).permutation(900)[:50]
    whole = table[some].astype(int)
    np.testing.assert_array_equal(scaling(whole), scaling(whole.astype(np.float32)))
    np.testing.assert_array_equal(scaling(np.where(table == 0, -0.0, table))[some], scaling(table[some]))
    np.testing.assert_array_equal(scaling(np.asfortranarray(table)), scaling(table))
    nearly = table[some] * (1 + 1e-12)  # as another way of adding up leaves it
    np.testing.assert_allclose(scaling(nearly), scaling(table[some]), atol=1e-9)


def test_odd_levels_do_not_switch_the_blur_off():
    """Holes filled with a mean, and sums that differ by rounding."""
    table, _ = table_of_people()
    whole, holes = arranged([table], ["auto"]).schemes[0].scalings[0].widths, table.copy()
    holes[::9, 1] = np.nan
    result = agtf.cluster([holes], 3, impute="mean")
    np.testing.assert_allclose(result._anchors.schemes[0].scalings[0].widths, whole, rtol=0.1)
    assert (result.predict([holes]) == result.labels).mean() > 0.98
    table[::7, 1] *= 1 + 1e-15
    np.testing.assert_allclose(arranged([table], ["auto"]).schemes[0].scalings[0].widths, whole)


def test_levels_are_blurred_in_z_scores_only():
    """And where rows were seen; what tells nothing has no direction. Other words of `scale` are followed."""
    table, _ = table_of_people()
    table = np.column_stack([table, np.zeros((900, 2))])
    table[:20] = 0
    seen = np.ones((900, 2), bool)
    seen[::3, 0] = False
    data = agtf._arrange(
        agtf._as_tables([table, table[:, :4] + 1]), seen, True, [(["auto"] * 2, 2), (["other"] * 2, 1)]
    )
    for v, slot in enumerate(data.slots):
        zscore, unit = (scheme.scalings[v] for scheme in data.schemes)
        assert (zscore.name, unit.name) == ("zscore", "unit") and unit.widths is None
        np.testing.assert_array_equal(zscore.widths > 0, np.isin(np.arange(6 - 2 * slot), (1, 2)))
    result = agtf.cluster([table, table], 3, scale=["auto", "zscore"])
    assert [scaling.widths is None for scaling in result._anchors.schemes[0].scalings] == [False, True]


def with_counts(table):
    return np.hstack([table, np.random.default_rng(0).poisson(3, size=(900, 20))])


@pytest.mark.parametrize(
    "change",
    [
        lambda table: (table, "zscore"),
        lambda table: (table[:, 1:3], "auto"),
        lambda table: (np.delete(table, [1, 2], axis=1), "auto"),
        lambda table: (sparse.csr_array(table[:, 1:]), "auto"),  # z-scores, because there are three columns
        lambda table: (np.column_stack([table[:, 3], 0.1 + 1e-16 * (np.arange(900) % 2)]), "auto"),
        lambda table: (np.hstack([table, np.random.default_rng(0).normal(size=(900, 97))]), "auto"),
        lambda table: (with_counts(table), "auto"),
        lambda table: (np.where(np.arange(900)[:, None] % 2, with_counts(table), 2.5), "auto"),
    ],
    ids=["as told", "a survey", "numbers", "sparse", "rounding", "wide", "levels that nobody shares", "half filled"],
)
def test_other_views_are_not_blurred(change):
    view, scale = change(table_of_people()[0])
    assert all(scaling.widths is None for scaling in arranged([view], [scale]).schemes[0].scalings)


def test_one_draw_in_three_sees_unit_rows_unless_a_scaling_is_given():
    views, _ = blobs(widths=(4, 5))
    views[1] = np.where(views[1] > np.quantile(views[1], 0.92, axis=0), np.abs(views[1]), 0.0)

    def schemes(**options):
        found = agtf.cluster(views, 3, n_anchors=20, **options)._anchors.schemes
        return [(scheme.draws, [scaling.name for scaling in scheme.scalings]) for scheme in found]

    assert schemes() == [(2, ["zscore", "unit"]), (1, ["unit", "unit"])]
    assert schemes(n_draws=7) == [(5, ["zscore", "unit"]), (2, ["unit", "unit"])]
    assert schemes(n_draws=2) == [(2, ["zscore", "unit"])]
    assert schemes(scale="zscore") == [(3, ["zscore", "zscore"])]
    assert schemes(scale=["auto", "max"]) == [(3, ["zscore", "max"])]
    narrow = agtf.cluster([views[0][:, :3], views[0]], 3, n_anchors=20)
    assert narrow.scalings == [["zscore", "zscore"]] * 2 + [["zscore", "unit"]]  # of three features an angle is little
    few_words = agtf.cluster([sparse.csr_array(views[1][:, :3])], 3, n_anchors=20)
    assert [["zscore"]] == few_words.scalings[:1] and ["unit"] not in few_words.scalings
    only_words = agtf.cluster([sparse.csr_array(views[1])], 3, n_anchors=20)._anchors.schemes
    assert [scheme.draws for scheme in only_words] == [3]  # "auto" is "unit" there


def test_anchor_graph_and_vda_match_the_definition():
    views, _ = blobs(n=30)
    result = agtf.cluster(views, 3, anchors="vda", n_anchors=9, n_neighbors=4, scale=None, joint=False)
    np.testing.assert_array_equal(np.sort(result.anchors), naive.vda(views, 9))
    for v, view in enumerate(views):
        S = naive.anchor_graph(view, view[result.anchors], 4)
        np.testing.assert_allclose(dense_graph(result, v), S, atol=1e-8)


def test_joint_slice_is_the_graph_of_all_scaled_features():
    views, _ = blobs(n=30)
    result = agtf.cluster(views, 3, n_anchors=9, n_neighbors=4)
    parts = []
    for name, anchors in zip(("zscore", "zscore", "unit"), np.split(result.anchors, 3)):
        scaled = [SCALED[name](view) for view in views]
        joint = np.hstack([X / np.sqrt(X.var(axis=0).sum()) for X in scaled])
        parts.append(naive.anchor_graph(joint, joint[anchors], 4) / 3)
    np.testing.assert_allclose(dense_graph(result, 2), np.hstack(parts), atol=1e-8)


def test_normalised_graph_of_a_clean_partition_needs_no_projection():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    index = (y[:, None, None] + 4 * np.array([rng.permutation(5)[:3] for _ in y])[:, None]).astype(np.int32)
    weight = rng.dirichlet(np.ones(3), size=(40, 1))
    H = np.zeros((40, 4))
    H[np.arange(40), y] = 1 / np.sqrt(10)
    rows = in_blocks(7, index=index, weight=weight, H=H)
    mass = np.bincount(index.ravel(), weight.ravel(), 20)
    np.testing.assert_allclose(rows.sum(agtf._mass, 20), [mass], atol=1e-12)
    rows.map(agtf._normalise, agtf._simplex_scale(rows.sum(agtf._mass, 20), 4), float)
    StH = rows.sum(agtf._transposed_times, 20)
    np.testing.assert_allclose(StH.argmax(axis=1), np.arange(20) % 4)
    np.testing.assert_allclose(StH.max(axis=1), np.sqrt(20 / 4 * mass / 10), atol=1e-12)


@pytest.mark.parametrize("kind", ["medoid", "random", "vda"])
def test_anchors_are_distinct_samples(kind):
    views, _ = blobs(n=50)
    result = agtf.cluster(views, 3, anchors=kind, n_anchors=0.3)
    draws = np.split(result.anchors, 1 if kind == "vda" else 3)
    assert [len(set(anchors)) for anchors in draws] == [15] * len(draws)
    assert len(set(map(frozenset, draws))) == len(draws)  # no draw is another's copy
    given = agtf.cluster(views, 3, anchors=draws[0])
    assert list(given.anchors) == list(draws[0])


def test_wide_and_long_data_are_reduced_for_the_choice_of_anchors(monkeypatch):
    views, y = blobs(n=150, widths=(400, 200))
    monkeypatch.setattr(agtf, "_POOL", 6)
    monkeypatch.setattr(agtf, "_DIRECTIONS", 40)
    monkeypatch.setattr(agtf, "_SAMPLE", 120)
    shapes, medoids = [], agtf._medoids
    monkeypatch.setattr(agtf, "_medoids", lambda X, *rest: shapes.append(X.shape) or medoids(X, *rest))
    for form in (np.asarray, sparse.csr_array):
        result = agtf.cluster([form(view) for view in views], 3, n_anchors=20)
        assert len(set(result.anchors[:20])) == 20 and accuracy(y, result.labels) == 1.0
    assert set(shapes) == {(120, 40)}


def test_discriminants_see_the_shape_of_clusters():
    rng = np.random.default_rng(0)
    y, (a, b) = rng.integers(0, 3, 900), rng.normal(size=(2, 900))
    X = np.stack([3 * y + a, 0.9 * a + 0.4 * b], axis=1)  # three parallel, oblique stripes
    labels = agtf._kmeans(X, 3, seed=0)
    assert accuracy(y, labels) < 0.92
    assert accuracy(y, agtf._Discriminants(X[:300], labels[:300]).predict(X)) > 0.95
    assert set(agtf._Discriminants(X[:3], np.arange(3)).predict(X[:3])) == {0, 1, 2}  # clusters of one sample


def test_discriminants_are_those_of_scikit_learn_for_classes_of_one_shape():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], (600, 250, 50))
    X = 2 * rng.normal(size=(3, 4))[y] + rng.normal(size=(900, 4)) @ rng.normal(size=(4, 4))
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(X, y).predict(X)
    assert (agtf._Discriminants(X, y).predict(X) == theirs).mean() > 0.97


def test_equal_rows_are_one_anchor():
    views, y = blobs(n=12)
    many = [np.repeat(view, 5, axis=0) for view in views]
    for options in ({}, dict(n_anchors=20), dict(n_draws=1)):
        result = agtf.cluster(many, 3, **options)
        # One draw of all of them for each way of scaling; another draw would be the same.
        draws = np.split(result.anchors, 1 if "n_draws" in options else 2)
        assert [len({tuple(many[0][a]) for a in anchors}) for anchors in draws] == [12] * len(draws)
        assert [len(anchors) for anchors in draws] == [12] * len(draws)
        assert result.options["n_anchors"] == 12 and result.options["n_draws"] == len(draws)
        np.testing.assert_array_equal(result.labels.reshape(12, 5), np.repeat(result.labels[::5, None], 5, axis=1))


def test_constant_views_and_columns_say_nothing():
    views, y = blobs()
    noisy = [np.c_[views[0], np.full(60, 7.0)], views[1], np.full((60, 2), 3.0)]
    with pytest.warns(UserWarning, match="view 2 tells something about 0% of the samples only"):
        result = agtf.cluster(noisy, 3)
    assert accuracy(y, result.labels) == 1.0 and result.view_agreement[2] == 0.0
    nothing = pytest.warns(UserWarning, match="view 0 tells something about 0% of the samples only")
    with nothing, pytest.warns(UserWarning, match="1 of 2 clusters are empty"):
        agtf.cluster(np.full((20, 2), 3.0), 2, anchors="vda", n_anchors=5)


def test_text_columns_of_numbers_are_numbers():
    views, _ = blobs()
    np.testing.assert_array_equal(agtf.cluster(views[0].astype(object), 3).labels, agtf.cluster(views[0], 3).labels)


def test_start_can_be_given_and_kept():
    views, y = blobs()
    result = agtf.cluster(views, 3, init=y, max_iter=0)
    np.testing.assert_array_equal(result.labels, y)
    assert result.n_iter == 0
    assert accuracy(y, agtf.cluster(views, 3, init=y).labels) == 1.0


def test_callback_sees_every_iteration_and_can_stop():
    views, y = blobs()
    seen = []

    def stop_at_four(state):
        seen.append(state.labels)
        assert state.iteration == len(seen) == len(state.history["fit"])
        assert state.H.shape == (60, 3, 3) and state.G.shape[1:] == (3, 3)
        return state.iteration == 4

    result = agtf.cluster(views, 3, callback=stop_at_four, tol=0)
    assert result.n_iter == 4 and result.stopped_by == "callback" and not result.converged
    np.testing.assert_array_equal(seen[-1], result.labels)


def test_running_out_of_iterations_is_said():
    views, _ = blobs()
    with pytest.warns(ConvergenceWarning, match="max_iter=2 .* raise max_iter or tol"):
        result = agtf.cluster(views, 3, max_iter=2, tol=0)
    assert result.stopped_by == "max_iter" and result.n_iter == 2


def factors_after_five_iterations(**options):
    factors = []

    def keep(state):
        factors[:] = state.H.copy(), state.G.copy()
        return state.iteration == 5

    # No automatic values: they would follow the options, and change the path in their place.
    fixed = dict(lambda1=1.0, lambda2=1.0, penalty=5.0, tol=0, callback=keep)
    assert agtf.cluster(blobs(spread=1.5)[0], 3, **{**fixed, **options}).stopped_by == "callback"
    return factors


@pytest.mark.parametrize(
    "options",
    [
        dict(axis="lateral"), dict(axis="view"), dict(p=1.0), dict(lambda1=2.0), dict(lambda2=2.0), dict(penalty=1.0),
        dict(growth=3.0), dict(normalize=False), dict(fft_norm="backward"),
    ],
    ids=str,
)  # fmt: skip
def test_every_option_of_the_solver_changes_its_path(options):
    base, other = factors_after_five_iterations(), factors_after_five_iterations(**options)
    assert max(np.abs(X - Z).max() for X, Z in zip(base, other)) > 1e-4


def test_a_larger_tol_ends_the_same_path_earlier():
    views, _ = blobs(spread=1.5)
    small, large = agtf.cluster(views, 3, tol=1e-3), agtf.cluster(views, 3, tol=1e-2)
    assert large.stopped_by == small.stopped_by == "tol" and 0 < large.n_iter < small.n_iter
    for name in agtf.HISTORY:
        np.testing.assert_array_equal(large.history[name], small.history[name][: large.n_iter])


def test_order_dependent_options_work_in_the_given_order_and_warn():
    views, y = blobs(n=40)
    order = np.argsort(y, kind="stable")
    views = [view[order] for view in views]
    with pytest.warns(UserWarning, match="order of the rows"):
        result = agtf.cluster(views, 3, axis="sample", n_draws=1)
    options = {"init": "identity", "n_neighbors": result.options["n_neighbors"]}
    with pytest.warns(UserWarning, match="first 3 rows.*order of the rows"):
        again = agtf.cluster(views, 3, anchors=result.anchors, max_iter=0, **options)
    np.testing.assert_array_equal(result._index, again._index)


@needs_jit
def test_in_the_given_order_the_beginning_of_a_file_is_not_all_that_is_seen(monkeypatch):
    """A file may be sorted by class: its first rows know one of them."""
    views, y = blobs(n=600, widths=(60, 4))
    order = np.argsort(y, kind="stable")
    views = [view[order] for view in views]
    monkeypatch.setattr(agtf, "_SAMPLE", 100)
    monkeypatch.setattr(agtf, "_DIRECTIONS", 5)
    monkeypatch.setattr(agtf, "_SOUGHT", 100)
    with pytest.warns(UserWarning, match="order of the rows"):
        result = agtf.cluster(views, 3, axis="sample", max_iter=0)
    assert result._anchors.schemes[0].scalings[0].directions.shape == (60, 5)
    assert agtf.score(y[order], result.labels)["ARI"] > 0.95


def test_verbose_tells_the_stages_on_standard_error(capsys, monkeypatch):
    views, _ = blobs()
    clock = itertools.count(0, 3)  # every look at it takes three seconds: quick stages tell nothing
    monkeypatch.setattr(agtf, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    agtf.cluster(views, 3, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    for stage in ("reading views", "choosing anchors", "building graphs", "finding a start", "iterating", "done"):
        assert stage in err
    agtf.cluster(views, 3)
    assert capsys.readouterr().err == ""


# ---- bad input -------------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(20, 3))
BAD_NAN, BAD_INF = X.copy(), X.copy()
BAD_NAN[4, 1], BAD_INF[2, 0] = np.nan, np.inf


@pytest.mark.parametrize(
    "views, k, options, error, words",
    [
        ([X, X[:-1]], 2, {}, ValueError, r"views\[1\] has 19 rows, views\[0\] has 20"),
        ([X, BAD_NAN], 2, {}, ValueError, r"views\[1\] contains NaN in 1 row\(s\), first in row 4, column 1"),
        ([BAD_INF], 2, {}, ValueError, r"views\[0\] contains infinity .* first in row 2, column 0"),
        ([sparse.csr_array(BAD_NAN)], 2, {}, ValueError, r"views\[0\] contains NaN .* first in row 4"),
        ([], 2, {}, ValueError, "views is empty"),
        ([X, X[:, :0]], 2, {}, ValueError, r"views\[1\] has 20 sample\(s\) and 0 feature\(s\)"),
        ([X[:0]], 2, {}, ValueError, r"views\[0\] has 0 sample\(s\)"),
        ([X, X[0]], 2, {}, ValueError, r"views\[1\] has shape \(3,\); expected 2D array"),
        (np.ones((2, 3, 4)), 2, {}, ValueError, r"views\[0\] has shape \(2, 3, 4\)"),
        ([X, X.astype(str) + "a"], 2, {}, TypeError, r"views\[1\] is not numeric"),
        ([X, X + 1j], 2, {}, ValueError, "Complex data not supported"),
        ("data.mat", 2, {}, TypeError, "views must be a list"),
        ([X], 1, {}, ValueError, "between 2 and the number of samples, 20, got 1"),
        ([X], 21, {}, ValueError, "between 2 and the number of samples, 20, got 21"),
        ([X], 2.0, {}, TypeError, "must be an int"),
        ([X], 2, dict(n_anchors=5, n_neighbors=5), ValueError, "n_neighbors .* below the number of anchors, 5"),
        ([X], 2, dict(n_anchors=21), ValueError, "between 2 and the number of samples, 20, got 21"),
        ([X], 2, dict(n_anchors=1.5), ValueError, "rate"),
        ([X], 2, dict(n_anchors=None), ValueError, "n_anchors"),
        ([X], 2, dict(n_draws=0), ValueError, "n_draws must be 'auto' or an int of at least 1"),
        ([X], 2, dict(n_draws=2, anchors="vda"), ValueError, "n_draws above 1 needs anchors that are drawn"),
        ([X], 2, dict(n_anchors="many"), ValueError, "'auto'"),
        ([X], 2, dict(n_neighbors=2.5), ValueError, "n_neighbors"),
        ([X], 2, dict(joint="no"), ValueError, "joint must be True or False, got 'no'"),
        ([X], 2, dict(callback=3), ValueError, "callback must be a function or None, got 3"),
        ([X], 2, dict(scale="log"), ValueError, "scale must be 'auto' or"),
        ([X], 2, dict(scale=["log"]), ValueError, "scale must be one of 'auto'"),
        ([X, X], 2, dict(scale=["unit"]), ValueError, "scale has 1 entries for 2 views"),
        ([X], 2, dict(anchors="kmeans"), ValueError, "anchors must be 'medoid' or 'vda' or 'random', got 'kmeans'"),
        ([X], 2, dict(anchors=[0, 1, 1]), ValueError, "different sample indices between 0 and 19"),
        ([X], 2, dict(anchors=[0.5, 1]), ValueError, "different sample indices between 0 and 19"),
        ([X], 2, dict(init="random"), ValueError, "init must be 'spectral' or 'identity', got 'random'"),
        ([X], 2, dict(init=np.zeros(20, int)), ValueError, "every label from 0 to 1"),
        ([X], 2, dict(init=np.zeros(19, int)), ValueError, r"\(20,\) integer labels"),
        ([X], 2, dict(axis="rows"), ValueError, "axis must be one of 'cluster', .*, got 'rows'"),
        ([X], 2, dict(p=0), ValueError, r"p must lie in \(0, 1\], got 0"),
        ([X], 2, dict(fft_norm=None), ValueError, "fft_norm must be one of 'ortho', 'backward', got None"),
        ([X], 2, dict(lambda1=-1), ValueError, "lambda1 must be 'auto' or a number of at least 0, got -1"),
        ([X], 2, dict(lambda2="large"), ValueError, "lambda2 must be 'auto' or a number"),
        ([X], 2, dict(penalty=0), ValueError, "penalty"),
        ([X], 2, dict(growth=0.9), ValueError, "growth must be a number of at least 1, got 0.9"),
        ([X], 2, dict(tol=np.nan), ValueError, "tol"),
        ([X], 2, dict(max_iter=2.5), ValueError, "max_iter must be an int"),
        ([X], 2, dict(n_neighbors="all"), ValueError, "n_neighbors must be 'auto' or an int of at least 1"),
    ],
)
def test_bad_input_is_named(views, k, options, error, words):
    with pytest.raises(error, match=words):
        agtf.cluster(views, k, **options)


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="neighbours"):
        agtf.cluster([X], 2, neighbours=3)


def test_predict_checks_its_views(fitted):
    views, _, result = fitted
    with pytest.raises(ValueError, match=r"got 1 view\(s\), the model was fitted on 2"):
        result.predict(views[:1])
    with pytest.raises(ValueError, match=r"views\[1\] has 5 features, the model was fitted on 6"):
        result.predict([views[0], views[1][:, :5]])
    with pytest.raises(ValueError, match=r"views\[0\] contains NaN"):
        result.predict([np.array([[np.nan, 1, 1, 1]]), views[1][:1]])


# ---- accuracy, on shuffled rows --------------------------------------------------------------------------------------


@needs_jit
def test_digits_beat_kmeans_and_every_single_view():
    views, y = agtf.digits_views()
    seeds, joint = range(3), np.hstack([scale(view) / np.sqrt(view.shape[1]) for view in views])
    mean = {
        "all": np.mean([accuracy(y, agtf.cluster(views, 10, random_state=s).labels) for s in seeds]),
        "k-means": np.mean([accuracy(y, KMeans(10, n_init=10, random_state=s).fit_predict(joint)) for s in seeds]),
    }
    for v, view in enumerate(views):
        mean[v] = np.mean([accuracy(y, agtf.cluster([view], 10, random_state=s).labels) for s in seeds])
    assert max(mean, key=mean.get) == "all", mean


@needs_jit
def test_msrc_is_as_good_shuffled_as_sorted():
    views, y = data_set("MSRC")
    in_file, shuffled = [], []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        in_file.append(accuracy(y, agtf.cluster(views, 7, random_state=seed).labels))
        shuffled.append(accuracy(y[order], agtf.cluster([v[order] for v in views], 7, random_state=seed).labels))
    assert np.mean(shuffled) >= 0.82
    assert abs(np.mean(shuffled) - np.mean(in_file)) <= 0.01


@needs_jit
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_paper_protocol_depends_on_the_order_of_the_rows():
    """MSRC is sorted by class. The same protocol on the same samples, shuffled, is far worse: it used the order."""
    views, y = data_set("MSRC")
    options = dict(agtf.PAPER, scale="unit", p=0.5, lambda1=100, lambda2=1, n_anchors=0.4)
    assert accuracy(y, agtf.cluster(views, 7, **options).labels) >= 0.94
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        assert accuracy(y[order], agtf.cluster([view[order] for view in views], 7, **options).labels) < 0.5


@pytest.mark.filterwarnings("default:the clusters are not clear")
def test_clusters_that_are_not_clear_are_warned_of(recwarn):
    views, y = blobs()
    clear = agtf.cluster(views, 3)
    assert clear.clarity > 0.95 and not recwarn
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="the clusters are not clear: two ways to find them agree by 0"):
        noise = agtf.cluster([rng.normal(size=(400, 30)), rng.normal(size=(400, 20))], 8)
    assert noise.clarity < 0.7
    assert agtf.cluster(views, 3, init=y).clarity is None
    mask = np.ones((len(y), len(views)), bool)
    mask[:5, 0] = False
    assert agtf.cluster(views, 3, mask=mask).clarity > 0.95
