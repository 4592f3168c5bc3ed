"""Samples that were not observed in every view."""

import warnings

import naive
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from conftest import blobs, data_set, in_blocks, needs_jit

import agtf


def with_holes(n, V, rate, seed=0):
    """A mask with about `rate` of the (sample, view) pairs missing, each sample keeping at least one view."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, V)) >= rate
    nowhere = np.flatnonzero(~mask.any(axis=1))
    mask[nowhere, rng.integers(0, V, len(nowhere))] = True
    return mask


def holes_as_nan(views, mask):
    return [np.where(mask[:, [v]], view, np.nan) for v, view in enumerate(views)]


@pytest.fixture
def problem():
    views, y = blobs(n=120, k=3, widths=(4, 5, 6))
    return views, y, with_holes(120, 3, 0.3)


def test_nan_rows_and_mask_mean_the_same(problem):
    views, y, mask = problem
    result = agtf.cluster(holes_as_nan(views, mask), 3)
    np.testing.assert_array_equal(agtf.cluster(views, 3, mask=mask).labels, result.labels)
    assert agtf.score(y, result.labels)["ACC"] > 0.95
    np.testing.assert_array_equal(result._anchors.usable, mask[result.anchors].T)
    np.testing.assert_array_equal(agtf.AGTF(3).fit(views, mask=mask).labels_, result.labels)
    half = [view if v else np.where(mask[:, [v]], view, np.nan) for v, view in enumerate(views)]
    rest = mask.copy()
    rest[:, 0] = True
    np.testing.assert_array_equal(agtf.cluster(half, 3, mask=rest).labels, result.labels)


def test_values_behind_the_mask_are_never_looked_at(problem):
    views, _, mask = problem
    junk = [np.where(mask[:, [v]], view, 1e6) for v, view in enumerate(views)]
    junk[0][~mask[:, 0], 0] = np.inf
    np.testing.assert_array_equal(agtf.cluster(junk, 3, mask=mask).labels, agtf.cluster(views, 3, mask=mask).labels)


def test_order_still_does_not_matter(problem):
    views, _, mask = problem
    labels = agtf.cluster(views, 3, mask=mask).labels
    order = np.random.default_rng(1).permutation(120)
    moved = agtf.cluster([views[v][order] for v in (2, 0, 1)], 3, mask=mask[order][:, [2, 0, 1]])
    np.testing.assert_array_equal(moved.labels, labels[order])


def naive_graph(views, mask, anchors, k, scale):
    """One draw's graphs (n, slices, m), the joint one last: among anchors that were seen there, by the views in common.

    Who was not seen in a view is joined there to the anchors that are nearest in the views that both were seen in.
    """
    distance, weight = [], []
    for v, view in enumerate(views):
        X, seen = view, view[mask[:, v]]
        if scale == "zscore":
            X = (X - seen.mean(axis=0)) / seen.std(axis=0)
        else:
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
        distance.append(((X[:, None] - X[anchors]) ** 2).sum(axis=2))
        weight.append(1 / X[mask[:, v]].var(axis=0).sum())
    n, V = mask.shape
    S = np.zeros((n, V + 1, len(anchors)))
    for i in range(n):
        joint = np.full(len(anchors), np.inf)
        for t, a in enumerate(anchors):
            common = [v for v in range(V) if mask[i, v] and mask[a, v]]
            if common:
                joint[t] = np.mean([weight[v] * distance[v][i, t] for v in common])
        for v in range(V):
            nearest = distance[v][i] if mask[i, v] else joint
            S[i, v] = naive.anchor_weights(np.where(mask[anchors, v], nearest, np.inf), k)
        S[i, V] = naive.anchor_weights(joint, k)
    return S


@pytest.mark.parametrize("joint", [True, False])
def test_graphs_with_holes_match_the_definition(problem, joint):
    views, mask = problem[0], with_holes(120, 3, 0.6)  # so many that few samples are complete, and few anchors
    result = agtf.cluster(views, 3, mask=mask, n_anchors=15, n_neighbors=4, joint=joint)
    draws = zip(np.split(result.anchors, 3), ("zscore", "zscore", "unit"))
    expected = np.concatenate([naive_graph(views, mask, at, 4, scale) / 3 for at, scale in draws], axis=2)
    found = np.zeros((120, 3 + joint, 45))
    np.put_along_axis(found, result._index, result._weight, axis=2)
    np.testing.assert_allclose(found, expected[:, : 3 + joint], atol=1e-8)
    assert not mask[result.anchors].all()


def test_predict_with_missing_views(problem):
    views, y, mask = problem
    result = agtf.cluster(views, 3)
    assert agtf.score(y, result.predict(holes_as_nan(views, mask)))["ACC"] > 0.95
    np.testing.assert_array_equal(result.predict(views, mask), result.predict(holes_as_nan(views, mask)))
    model = agtf.AGTF(3).fit(views)
    np.testing.assert_array_equal(model.predict(views, mask), result.predict(views, mask))


def test_sparse_views_can_be_missing():
    views, y = blobs(n=100, widths=(30, 40), spread=0.3)
    views = [sparse.csr_array(np.where(view > 1.5, view, 0.0)) for view in views]
    mask = with_holes(100, 2, 0.2)
    result = agtf.cluster(views, 3, mask=mask)
    assert agtf.score(y, result.labels)["ACC"] > 0.9
    rows_of_nan = [sparse.csr_array(view) for view in holes_as_nan([view.toarray() for view in views], mask)]
    np.testing.assert_array_equal(agtf.cluster(rows_of_nan, 3).labels, result.labels)
    np.testing.assert_array_equal(result.predict(rows_of_nan), result.predict(views, mask))


@pytest.mark.parametrize("anchors", ["random", "vda"])
def test_graphs_of_sparse_views_with_holes_are_those_of_dense_ones(anchors):
    """Scaled rows share their column numbers with raw ones: whoever sorts the one must not sort the other."""
    views, _ = blobs(n=100, widths=(30, 40))
    mask = with_holes(100, 2, 0.2)
    options = dict(mask=mask, n_anchors=20, anchors=anchors, scale="unit", max_iter=0)
    dense, stored = (
        agtf.cluster([form(view) for view in views], 3, **options) for form in (np.array, sparse.csr_array)
    )
    np.testing.assert_array_equal(stored.anchors, dense.anchors)
    np.testing.assert_array_equal(stored._index, dense._index)
    np.testing.assert_allclose(stored._weight, dense._weight, atol=1e-8)


@pytest.mark.parametrize("scale", ["zscore", "unit", "max", None])
def test_anchors_are_looked_for_as_if_unseen_rows_were_the_mean(problem, scale):
    views, _, mask = problem
    views = [1000.0 + view for view in views]
    data = agtf._arrange(agtf._as_tables(views), mask, False, [([scale] * 3, 1)])
    joint = data.joint(np.arange(120))
    for v, columns in enumerate((slice(0, 4), slice(4, 9), slice(9, 15))):
        assert (joint[~mask[:, v], columns] == 0).all() and (joint[mask[:, v], columns] != 0).any(axis=1).all()
        np.testing.assert_allclose(joint[:, columns].mean(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("anchors", ["medoid", "random"])
def test_anchors_are_samples_seen_in_most_views_if_they_suffice(problem, anchors):
    views, _, mask = problem
    assert mask.all(axis=1).sum() >= 30
    assert mask[agtf.cluster(views, 3, mask=mask, anchors=anchors, n_anchors=12).anchors].all()
    mask = with_holes(120, 3, 0.6)
    assert mask.all(axis=1).sum() < 30
    seen_in = mask[agtf.cluster(views, 3, mask=mask, anchors=anchors, n_anchors=12).anchors].sum(axis=1)
    assert set(seen_in) == {2, 3}


def test_the_variance_rule_prefers_complete_samples(problem):
    views, _, mask = problem
    result = agtf.cluster(views, 3, mask=mask, anchors="vda", n_anchors=12)
    assert mask[result.anchors].all() and len(set(result.anchors)) == 12
    result = agtf.cluster(views, 3, mask=mask, anchors="vda", n_anchors=100)  # there are not so many
    assert len(set(result.anchors)) == 100


@pytest.mark.parametrize("anchors", ["medoid", "random", "vda", np.arange(40)], ids=str)
def test_nobody_need_be_seen_everywhere(problem, anchors):
    views, y, mask = problem
    two = np.ones((120, 3), bool)
    two[np.arange(120), np.arange(120) % 3] = False
    result = agtf.cluster(views, 3, mask=two, anchors=anchors)
    assert agtf.score(y, result.labels)["ACC"] > 0.95
    one = np.zeros((120, 3), bool)
    one[np.arange(120), np.arange(120) % 3] = True
    with pytest.raises(
        ValueError, match=r"views\[1\] has no sample in common with views\[0\], not even through other views"
    ):
        agtf.cluster(views, 3, mask=one, anchors=anchors)
    one[:4] = True
    with pytest.warns(UserWarning, match=r"views\[0\] has only 4 sample\(s\) in common with any other view"):
        result = agtf.cluster(views, 3, mask=one, anchors=anchors)
    assert len(set(result.labels)) == 3 and np.isfinite(result.memberships).all()
    assert np.isfinite(result.predict_memberships(views, one)).all()


def test_what_cannot_be_done_is_said(problem):
    views, _, mask = problem
    none = mask.copy()
    none[7] = False
    with pytest.raises(ValueError, match=r"1 sample\(s\) were seen in no view, first sample 7"):
        agtf.cluster(views, 3, mask=none)
    with pytest.raises(ValueError, match=r"boolean array of shape \(120, 3\)"):
        agtf.cluster(views, 3, mask=mask[:, :2])
    broken = [view.copy() for view in views]
    broken[1][[3, 9], 2] = np.nan
    with pytest.raises(ValueError, match=r"views\[1\] contains NaN in 2 .* in row 3"):
        agtf.cluster(broken, 3)
    nowhere = np.ones((120, 3), bool)
    nowhere[:, 1] = False
    with pytest.raises(ValueError, match=r"views\[1\] was observed in no sample"):
        agtf.cluster(views, 3, mask=nowhere)


def test_few_samples_are_clustered_at_once():
    views, y = blobs(n=45, k=3)
    mask = np.ones((45, len(views)), bool)
    mask[:5, 1] = False  # fewer than 20 complete samples a cluster: nobody is left to vote on
    assert agtf.score(y, agtf.cluster(views, 3, mask=mask).labels)["ACC"] == 1.0


def mended(views, mask, labels, learnt_on):
    """The labels of all rows, by rules learnt on the first ones; the given labels are what the others start from."""
    data = agtf._arrange(agtf._as_tables(views), mask, False, [(["auto"] * len(views), 1)])
    first, rest = agtf._Block(data, 0, learnt_on), agtf._Block(data, learnt_on, len(labels))
    found, mend = agtf._mended_by_views(first, labels[:learnt_on], 3, np.random.RandomState(0))
    return np.concatenate([found, mend(rest, labels[learnt_on:])])


@pytest.mark.parametrize("learnt_on", [120, 70])
def test_discriminants_of_the_views_mend_labels(problem, learnt_on):
    views, y, mask = problem
    rng = np.random.RandomState(0)
    wrong = np.where(rng.rand(120) < 0.25, rng.randint(3, size=120), y)
    assert (wrong != y).sum() > 10
    np.testing.assert_array_equal(mended(views, mask, wrong, learnt_on), y)


def test_a_view_that_saw_too_little_has_no_say(problem):
    views, y, mask = problem
    mask = mask.copy()
    mask[:, 1] = y == 0  # sees one cluster only
    mask[:, 2] = (y == 0) | (np.cumsum(y == 1) == 1) & (y == 1)  # and one sample of another
    mask[:, 0] = True
    mask[np.flatnonzero(y == 0)[:5], 0] = False  # nobody speaks for these
    y = (y + 1) % 3  # so that their label is not the first
    np.testing.assert_array_equal(mended(views, mask, y, 120), y)


def test_filled_rows_do_not_argue_with_the_labels(problem):
    views, y, mask = problem
    result = agtf.cluster(views, 3, mask=mask)
    index, weight = result._index, result._weight
    rows = in_blocks(50, index=index, S=weight, labels=y, told=mask)
    rows.map(agtf._prune_filled, y[result.anchors])
    own = y[result.anchors][index] == y[:, None, None]
    unseen = np.column_stack([~mask, np.zeros(120, bool)])[:, :, None]
    assert (unseen & ~own & (weight > 0)).any()
    np.testing.assert_array_equal(rows.gather("S"), np.where(unseen & ~own, 0.0, weight))


@needs_jit
def test_handwritten_digits_survive_thirty_percent_missing():
    views, y = data_set("HW1256")
    complete, holed = [], []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        shuffled = [view[order] for view in views]
        mask = with_holes(len(y), 4, 0.3, seed)
        complete.append(agtf.score(y[order], agtf.cluster(shuffled, 10, random_state=seed).labels)["ACC"])
        holed.append(agtf.score(y[order], agtf.cluster(shuffled, 10, mask=mask, random_state=seed).labels)["ACC"])
    assert np.mean(holed) >= np.mean(complete) - 0.05


# ---- the ways in which data are incomplete ---------------------------------------------------------------------------


def test_frames_that_overlap_are_joined_if_asked_for(problem):
    views, y, _ = problem
    frames = [pd.DataFrame(view, index=[f"s{i}" for i in range(120)]) for view in views]
    frames = [frames[0].iloc[:100], frames[1].iloc[20:], frames[2].iloc[::-1]]
    with pytest.raises(ValueError, match=r'differ in 40, first .*unless join="outer"'):
        agtf.cluster(frames, 3)
    result = agtf.cluster(frames, 3, join="outer")
    assert sorted(result.sample_names) == sorted(frames[2].index)
    truth = y[[int(name[1:]) for name in result.sample_names]]
    assert agtf.score(truth, result.labels)["ACC"] > 0.95
    fitted = agtf.AGTF(3, join="outer").fit(frames)
    np.testing.assert_array_equal(fitted.labels_, result.labels)
    with pytest.raises(ValueError, match=r"join must be one of 'inner', 'outer', got 'left'"):
        agtf.cluster(frames, 3, join="left")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_single_holes_are_filled_if_asked_for(problem, form):
    views, y, _ = problem
    holes = [view.copy() for view in views]
    holes[0][[3, 40], [1, 0]] = np.nan
    holes[1][7] = np.nan  # a whole row is a sample that was not seen, and stays so
    given = [form(view) for view in holes]
    with pytest.raises(ValueError, match=r'views\[0\] contains NaN .* fill NaN with impute="mean"'):
        agtf.cluster(given, 3)
    result = agtf.cluster(given, 3, impute="mean")
    by_hand = [view.copy() for view in holes]
    by_hand[0][[3, 40], [1, 0]] = np.nanmean(holes[0], axis=0)[[1, 0]]
    expected = agtf.cluster([form(view) for view in by_hand], 3).labels  # whose means may differ in the last digit
    assert agtf.score(expected, result.labels)["ARI"] == 1.0
    assert agtf.score(y, result.predict(given))["ACC"] > 0.95
    assert np.isnan(holes[0][3, 1])  # the user's table is left alone


def test_a_group_that_a_view_never_saw_and_a_view_that_saw_little(problem):
    views, y, _ = problem
    mask = np.ones((120, 3), bool)
    mask[y == 1, 0] = False
    assert agtf.score(y, agtf.cluster(views, 3, mask=mask).labels)["ACC"] > 0.95
    rare = np.ones((120, 3), bool)
    rare[12:, 2] = False
    with pytest.warns(UserWarning, match="view 2 tells something about 10% of the samples only"):
        result = agtf.cluster(views, 3, mask=rare)
    assert agtf.score(y, result.labels)["ACC"] > 0.95


def test_means_that_are_filled_in_are_those_of_the_rows_seen():
    views, y = blobs(n=120)
    rng = np.random.default_rng(0)
    holes = views[0].copy()
    holes[rng.random(holes.shape) < 0.05] = np.nan
    mask = np.ones((120, len(views)), bool)
    mask[:40, 0] = False
    unseen, wrong = holes.copy(), holes.copy()
    unseen[:40], wrong[:40] = np.nan, -1e6
    expected = agtf.cluster([unseen, *views[1:]], 3, impute="mean")
    found = agtf.cluster([wrong, *views[1:]], 3, impute="mean", mask=mask)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert agtf.score(y, found.labels)["ARI"] > 0.9


def test_a_single_table_with_holes_is_imputed_by_the_estimator():
    views, y = blobs(n=120)
    X = np.hstack(views)
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    model = agtf.AGTF(3, impute="mean").fit(X)
    assert agtf.score(y, model.labels_)["ARI"] > 0.9
    assert (model.predict(X) == model.labels_).mean() > 0.9
    with pytest.raises(ValueError, match="NaN"):
        agtf.AGTF(3).fit(X)


def test_a_mask_in_predict_follows_the_order_of_the_given_views():
    views, y = blobs(n=120)
    named = dict(zip("abc", views))
    result = agtf.cluster(named, 3)
    mask = np.ones((120, len(views)), bool)
    mask[:, 0] = False
    spoilt = named | {"a": -50.0 * named["a"]}
    expected = result.predict(spoilt, mask)
    turned = dict(reversed(spoilt.items()))
    np.testing.assert_array_equal(result.predict(turned, mask[:, ::-1]), expected)
    assert (expected == result.labels).mean() > 0.9


def test_a_view_that_the_start_does_not_see_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(agtf, "_SAMPLE", 60)
    views, y = blobs(n=400)
    views = [*views, np.random.default_rng(0).normal(size=(400, 40))]
    mask = np.ones((400, len(views)), bool)
    mask[3:, -1] = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(6):
            order = np.random.default_rng(seed).permutation(400)
            found = agtf.cluster([view[order] + 1e-9 * seed for view in views], 3, mask=mask[order])
            assert agtf.score(y[order], found.labels)["ARI"] > 0.9


def test_what_was_not_seen_is_told():
    views, y = blobs(n=90, k=3)
    views[1][:20] = np.nan
    result = agtf.cluster({"blood": views[0], "images": views[1]}, 3)
    for i, seen in ((3, False), (50, True)):
        found = result.explain(i)
        assert found.told.tolist() == [True, seen, True]
        assert ("images (says nothing: by the others)" in repr(found)) is not seen
    # Anchors of other views say nothing about how far a view agrees.
    misjoined = [views[0], np.random.default_rng(0).permutation(views[1][20:])]
    misjoined[1] = np.vstack([views[1][:20], misjoined[1]])
    result = agtf.cluster(misjoined, 3)
    votes = agtf._votes(result._index, result._weight, result._slice_memberships())[20:, 1].argmax(axis=1)
    agrees = [np.mean(votes[result.labels[20:] == c] == c) for c in range(3)]
    np.testing.assert_allclose(result.describe().agreement[:, 1], agrees)


@pytest.mark.parametrize("gone", [[(1, 2)], [(1, 2), (0, 1)], [(1, 2), (2, 2)], [(0, 0), (1, 1), (2, 2)]])
def test_whole_clusters_that_were_not_seen_in_a_view(gone):
    """`gone` are pairs of views and clusters; complete samples alone would never show these."""
    for seed in range(3):
        views, y = blobs(n=600, k=3, widths=(5, 5, 5), seed=seed)
        for v, c in gone:
            views[v][y == c] = np.nan
        assert agtf.score(y, agtf.cluster(views, 3).labels)["ARI"] > 0.95
