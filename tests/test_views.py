"""What comes in: tables matched by their names, numbers that can't be told apart, options refused before any work."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from conftest import blobs, changed, needs_jit
from test_cluster import accuracy, test_bad_input_is_named

import agtf

# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def framed():
    """Two DataFrames whose rows are in different orders, what they hold in one order, and its classes."""
    views, y = blobs()
    names = [f"patient {i}" for i in range(60)]
    first = pd.DataFrame(views[0], index=names, columns=list("abcd"))
    second = pd.DataFrame(views[1], index=names, columns=list("uvwxyz"))
    return [first, second.iloc[np.random.default_rng(0).permutation(60)]], views, y


def test_frames_are_aligned_by_label(framed):
    frames, views, y = framed
    result, expected = agtf.cluster(frames, 3), agtf.cluster(views, 3)
    assert accuracy(y, result.labels) == 1.0
    np.testing.assert_array_equal(result.memberships, expected.memberships)
    assert result.sample_names == list(frames[0].index) and expected.sample_names is None
    assert result.feature_names == [list("abcd"), list("uvwxyz")]
    mixed = agtf.cluster([views[0], *frames[::-1]], 3)  # arrays have the order of the first DataFrame
    assert mixed.sample_names == list(frames[1].index)
    np.testing.assert_array_equal(agtf.cluster([views[0], frames[0]], 3).labels, agtf.cluster([views[0]] * 2, 3).labels)
    assert accuracy(y, agtf.AGTF(3).fit(frames).labels_) == 1.0
    assert agtf.suggest_k(frames, 8).candidates[0] == 3


def test_holes_in_nullable_and_category_columns_are_holes():
    (first, second), y = blobs()
    grades = pd.DataFrame({"grade": pd.Categorical(y + 1), "stage": pd.Categorical(2 * y + 1)})
    frames = [grades, pd.DataFrame(first).astype("Float64"), pd.DataFrame(second).round().astype("Int64")]
    for frame in frames:
        whole = frame.astype(float).to_numpy()
        np.testing.assert_array_equal(agtf._as_tables(frame).tables[0], whole)
        frame.iloc[:9] = pd.NA
        whole[:9] = np.nan
        np.testing.assert_array_equal(agtf._as_tables([frame, second]).tables[0], whole)
        labels = agtf.cluster([frame, second], 3).labels
        np.testing.assert_array_equal(labels, agtf.cluster([whole, second], 3).labels)
    with pytest.raises(TypeError, match="column 'kind', is not numeric .*: encode text and categories"):
        agtf.cluster([pd.DataFrame({"kind": pd.Categorical(np.array(list("abc"))[y])}), second], 3)


def test_what_are_no_tables_is_refused_with_a_hint():
    for views in ("a.csv", ["a.csv", "b.csv"]):
        with pytest.raises(TypeError, match=r"a.csv.*: load_views\(paths\) reads files"):
            agtf.cluster(views, 3)
    with pytest.raises(ValueError, match="views.1. has 5 rows, views.0. has 3.*Give view.T where columns are samples"):
        agtf.cluster([np.ones((3, 60)), np.ones((5, 60))], 3)


def test_times_are_refused():
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), unit="D")
    for view in (pd.DataFrame({"in": day}), pd.DataFrame({"in": day.tz_localize("UTC")}), day.to_numpy()[:, None]):
        with pytest.raises(TypeError, match="not numeric"):
            agtf.cluster([view, blobs()[0][0]], 3)


def test_a_mask_with_names_is_matched_by_them(framed):
    (first, second), views, y = framed
    names = ["first", "second"]
    broken = second.copy()
    broken.loc[first.index[:20]] = 1e3
    seen = pd.DataFrame({"second": ~first.index.isin(first.index[:20]), "first": True}, index=first.index).iloc[::-1]
    result = agtf.cluster(dict(zip(names, (first, broken))), 3, mask=seen)
    plain = seen.loc[first.index, names].to_numpy()
    np.testing.assert_array_equal(result.labels, agtf.cluster([first, broken], 3, mask=plain).labels)
    assert accuracy(y, result.labels) == 1.0
    other = {"second": broken.loc[first.index], "first": first}
    np.testing.assert_array_equal(result.predict(other, seen), result.predict([first, broken], plain))
    np.testing.assert_array_equal(result.predict([first, broken], seen[names]), result.predict([first, broken], plain))
    counted = pd.DataFrame(plain)  # no names, by position
    labels = agtf.cluster(dict(zip(names, (first, broken))), 3, mask=counted).labels
    np.testing.assert_array_equal(labels, result.labels)
    with pytest.raises(ValueError, match="the columns of mask are not those of the views: 1 absent"):
        agtf.cluster({"first": first, "third": broken}, 3, mask=seen)
    assert agtf.suggest_k({"first": first, "second": broken}, 5, mask=seen).candidates[0] == 3


def test_columns_that_only_count_are_matched_in_any_order(framed):
    _, views, _ = framed
    frame = pd.DataFrame(views[0])
    for model in (agtf.cluster(frame, 3), agtf.AGTF(3).fit(frame)):
        np.testing.assert_array_equal(model.predict(frame[[3, 1, 0, 2]]), model.predict(frame))


def test_samples_that_overlap_are_joined_everywhere(framed):
    (first, second), _, _ = framed
    frames = [first.iloc[:50], second.loc[first.index[10:]]]
    result = agtf.cluster(frames, 3, join="outer")
    assert result.predict(frames).shape == (60,)
    assert agtf.AGTF(3, join="outer").fit_transform(frames).shape == (60, 3)
    assert agtf.suggest_k(frames, 8, join="outer").candidates[0] == 3


def test_imputed_means_do_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(1)
    views = [4 * rng.normal(size=(5, w))[np.arange(150) % 5] + 4 * rng.normal(size=(150, w)) for w in (4, 6)]
    views[0][rng.random(views[0].shape) < 0.05] = np.nan
    order = rng.permutation(150)
    labels = agtf.cluster(views, 5, impute="mean").labels
    np.testing.assert_array_equal(agtf.cluster([v[order] for v in views], 5, impute="mean").labels, labels[order])
    half = np.tile(50 * np.abs(views[1]) + 800, (3, 1)).astype(np.float16)
    half[3, 1] = np.nan
    assert agtf.cluster(half, 3, impute="mean").labels.shape == (450,)


def test_a_view_may_be_called_joint(framed):
    _, views, _ = framed
    result = agtf.cluster({"joint": views[0], "b": views[1]}, 3)
    assert result.slices == ["joint", "b", "joint slice"] and "joint slice" in str(result.describe())


def test_labels_that_only_count_are_no_names(framed):
    _, views, _ = framed
    plain = agtf.cluster([pd.DataFrame(view) for view in views], 3)
    assert plain.sample_names is None and plain.feature_names == [None, None]
    numbered = pd.DataFrame(views[0], index=range(100, 160), columns=[2, 3, 5, 7])
    result = agtf.cluster(numbered, 3)
    assert result.sample_names[0] == "100" and result.feature_names == [["2", "3", "5", "7"]]
    turned = agtf.cluster([pd.DataFrame(views[0]), pd.DataFrame(views[1]).iloc[::-1]], 3)
    np.testing.assert_array_equal(turned.labels, plain.labels)


def test_different_row_labels_are_refused(framed):
    frames, _, _ = framed
    other = frames[1].rename(index={"patient 7": "stranger"})
    with pytest.raises(
        ValueError, match=r"row labels of views\[1\] and views\[0\] differ in 2, first '(patient 7|stra)"
    ):
        agtf.cluster([frames[0], other], 3)
    with pytest.raises(ValueError, match=r"of views\['b'\] and views\['a'\] differ in 5, first 'patient "):
        agtf.cluster({"a": frames[0], "b": frames[1].iloc[5:]}, 3)


def test_row_labels_that_stand_twice_are_refused_unless_all_are_the_same(framed):
    frames, views, _ = framed
    twice = frames[0].rename(index={"patient 7": "patient 3"})
    with pytest.raises(ValueError, match=r"views\[0\] has the row label 'patient 3' twice"):
        agtf.cluster([twice, frames[1]], 3)
    with pytest.raises(ValueError, match=r"views\[1\] has the row label 'patient 3' twice"):
        agtf.cluster([frames[1], twice], 3)
    same = [twice, pd.DataFrame(views[1], index=twice.index)]
    np.testing.assert_array_equal(agtf.cluster(same, 3).labels, agtf.cluster(views, 3).labels)


def test_predict_matches_columns_and_rows_by_name(framed):
    frames, views, _ = framed
    result = agtf.cluster(frames, 3)
    expected = result.predict_memberships(views)
    turned = [frames[0][list("dbca")], frames[1][list("zyxwvu")]]
    np.testing.assert_array_equal(result.predict_memberships(turned), expected)
    np.testing.assert_array_equal(agtf.AGTF(3).fit(frames).predict(turned), result.labels)
    stored = [sparse.csr_array(view) for view in views]  # nothing to match by
    np.testing.assert_array_equal(result.predict(stored), result.labels)
    with pytest.raises(ValueError, match=r"columns of views\[1\] are not .* 2 absent \['v', 'z'\], 0 unknown"):
        result.predict([frames[0], frames[1].drop(columns=["v", "z"])])
    with pytest.raises(ValueError, match=r"columns of views\[0\] are not .* 0 absent \[\], 1 unknown \['more'\]"):
        result.predict([frames[0].assign(more=1.0), frames[1]])
    with pytest.raises(ValueError, match=r"columns of views\[0\] are not .* 1 absent \['a'\], 1 unknown \['A'\]"):
        result.predict([frames[0].rename(columns={"a": "A"}), frames[1]])


def test_predict_matches_views_by_name(framed):
    frames, views, _ = framed
    result = agtf.cluster({"blood": views[0], 7: views[1]}, 3)
    assert result.view_names == ["blood", "7"] and result.slices == ["blood", "7", "joint"]
    np.testing.assert_array_equal(result.predict({7: views[1], "blood": views[0]}), result.labels)
    np.testing.assert_array_equal(result.predict(views), result.labels)
    mixed = {7: frames[1].iloc[::-1].set_axis(range(6), axis=1), "blood": frames[0].set_axis(range(4), axis=1)}
    places = frames[0].index.get_indexer(mixed[7].index)  # in the order of the first that is given
    np.testing.assert_array_equal(result.predict(mixed), result.labels[places])
    with pytest.raises(ValueError, match=r"mask must be a boolean array of shape \(60, 2\)"):
        result.predict({7: views[1], "blood": views[0]}, mask=np.ones((60, 1), bool))
    with pytest.raises(ValueError, match="two views have the same name: they are '7', 7"):
        agtf.cluster({"7": views[0], 7: views[1]}, 3)
    with pytest.raises(ValueError, match=r"the views are not .*: 1 absent \['blood'\], 1 unknown \['urine'\]"):
        result.predict({"urine": views[0], 7: views[1]})
    with pytest.raises(ValueError, match=r"the views are not .*: 1 absent \['7'\], 0 unknown"):
        result.predict({"blood": views[0]})


def test_names_of_an_earlier_fit_are_forgotten(framed):
    frames, views, _ = framed
    model = agtf.AGTF(3).fit(frames[0])
    assert list(model.feature_names_in_) == list("abcd") and model.result_.feature_names == [list("abcd")]
    model.fit(views)
    assert not hasattr(model, "feature_names_in_") and model.result_.feature_names == [None, None]
    model.fit(frames[0]).fit(views[0])
    assert not hasattr(model, "feature_names_in_") and model.result_.feature_names == [None]
    assert model.result_.sample_names is None
    with pytest.raises(ValueError, match="same order"):  # of one table scikit-learn asks it
        model.fit(frames[0]).predict(frames[0][list("dcba")])


def test_features_of_arrays_have_the_given_names(framed, tmp_path):
    frames, views, _ = framed
    names = {"7": list("uvwxyz")}
    result = agtf.cluster({"blood": views[0], 7: views[1]}, 3, feature_names=names)
    assert result.feature_names == [None, list("uvwxyz")] and "7: " in str(result.describe())
    assert set(result.describe(0).names) == {*(f"feature {j}" for j in range(4)), *"uvwxyz"}
    result.save(tmp_path / "result.npz")
    assert agtf.load(tmp_path / "result.npz").feature_names == result.feature_names
    turned = {"blood": views[0], "7": frames[1][list("zyxwvu")].loc[frames[0].index]}
    np.testing.assert_array_equal(result.predict(turned), result.predict(views))
    listed = agtf.AGTF(3, feature_names={"view 1": np.array(list("uvwxyz"))}).fit([frames[0], frames[1].to_numpy()])
    assert listed.result_.feature_names == [list("abcd"), list("uvwxyz")]
    assert agtf.AGTF(3, feature_names={"view 0": list("ABCD")}).fit(views[0]).result_.feature_names == [list("ABCD")]


@pytest.mark.parametrize(
    "names, error, words",
    [
        ({"urine": ["a"]}, ValueError, "feature_names has an unknown view 'urine': they are 'blood', 'soil'"),
        ({"blood": list("abc")}, ValueError, "feature_names must be 4 different names for 'blood', got 3"),
        ({"blood": list("abca")}, ValueError, "feature_names must be 4 different names for 'blood', got 4"),
        ({"soil": list("uvwxyz")}, ValueError, "feature_names: 'soil' is a DataFrame with names of its own"),
        ([list("abcd")], TypeError, "feature_names must be a dict of lists by view name, got "),
    ],
)
def test_wrong_names_of_features_are_refused(framed, names, error, words):
    frames, views, _ = framed
    given = {"blood": views[0], "soil": frames[1]}
    for call in (agtf.cluster, lambda views, k, feature_names: agtf.AGTF(k, feature_names=feature_names).fit(views)):
        with pytest.raises(error, match=words):
            call(given, 3, feature_names=names)


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["auto", "zscore", "max", "unit", None])
def test_small_differences_of_large_numbers_count(scale):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % 3)
    views = [1e9 + rng.integers(-3, 4, size=(3, d))[y] + rng.integers(0, 2, size=(90, d)) for d in (6, 8)]
    assert accuracy(y, agtf.cluster([view - 1e9 for view in views], 3, scale="zscore").labels) == 1.0
    result = agtf.cluster(views, 3, scale=scale)
    assert accuracy(y, result.labels) == 1.0 and accuracy(y, result.predict(views)) == 1.0
    assert agtf.suggest_k(views, 8, scale=scale).candidates[0] == 3


@pytest.mark.parametrize("scale", ["auto", "zscore", "max", "unit", None])
def test_sparse_views_that_would_have_to_be_centred_are_refused(scale):
    narrow = 1e9 + np.random.default_rng(0).integers(0, 3, size=(60, 4))
    narrow[:, 0] = 1.0
    why = r"values of column 1 of views\[1\] differ by less than a millionth of their size, .* give it as a dense array"
    with pytest.raises(ValueError, match=why):
        agtf.cluster([np.ones((60, 1)), sparse.csr_array(narrow)], 3, scale=scale)


def test_what_vanishes_when_it_is_squared_is_refused():
    views, y = blobs()
    tiny = [view * 1e-165 for view in views]
    with pytest.raises(
        ValueError, match=r'views\[\d\] has no value above .*e-16\d, too small to square: use scale="auto"'
    ):
        agtf.cluster(tiny, 3, scale=None)
    for scale in ("auto", "max", "unit", "zscore"):
        assert accuracy(y, agtf.cluster(tiny, 3, scale=scale).labels) == 1.0


def test_rows_of_nan_leave_a_sparse_view_sparse(monkeypatch):
    X = np.where(np.random.default_rng(0).random((50, 30)) < 0.1, 1.0, 0.0)
    X[[3, 40]] = np.nan
    given = agtf._as_tables([sparse.csr_array(X), np.ones((50, 1))])
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    monkeypatch.setattr(sparse.csr_array, "todense", None)
    seen = agtf._observed(given, None)
    np.testing.assert_array_equal(np.flatnonzero(~seen[:, 0]), [3, 40])
    partly = given.tables[0].copy()
    partly.data[partly.indptr[3] : partly.indptr[3] + 2] = 0.0
    with pytest.raises(ValueError, match="NaN in 1 row.s., first in row 3, column 2"):
        agtf._observed(agtf._as_tables([partly, np.ones((50, 1))]), None)


# ---- options ---------------------------------------------------------------------------------------------------------

BAD_OPTIONS = [case for case in test_bad_input_is_named.pytestmark[0].args[1] if case[2]]


@pytest.mark.parametrize("views, k, options, error, words", [
    *BAD_OPTIONS,
    (BAD_OPTIONS[0][0], 2, dict(n_jobs=0), ValueError, "n_jobs must be None, -1 or an int of at least 1"),
    (BAD_OPTIONS[0][0], 2, dict(n_jobs=1.5), ValueError, "n_jobs must be None, -1 or an int of at least 1"),
    (BAD_OPTIONS[0][0], 2, dict(random_state="x"), ValueError, "seed"),
])  # fmt: skip
def test_bad_options_are_refused_before_any_work(monkeypatch, views, k, options, error, words):
    def work(*given):
        raise AssertionError("has begun to work")

    for name in ("_arrange", "_observed", "_first_scaling"):
        monkeypatch.setattr(agtf, name, work)
    with pytest.raises(error, match=words):
        agtf.cluster(views, k, **options)
    with pytest.raises(error, match=words):
        agtf.AGTF(k, **options).fit(views)


KERNELS = "_nearest_anchors _project_simplex _gst _gst_threshold _fill_B _fill_H _scatter _gaps".split()


@needs_jit
def test_no_option_and_no_table_compiles_a_kernel_again():
    views, y = blobs()
    result = agtf.cluster(views, 3)
    result.predict(views)
    compiled = {name: len(getattr(agtf, name).signatures) for name in KERNELS}
    whole = dict(penalty=1, growth=2, p=1, lambda1=1, lambda2=1, tol=1)
    small = dict(penalty=np.float32(1), p=np.float32(0.5), lambda1=np.int8(1), lambda2=np.float16(1))
    mask = np.ones((60, 2), bool)
    mask[:9, 0] = False
    for options in (whole, small, dict(scale=None, joint=False), dict(init=y.astype(np.uint8))):
        agtf.cluster(views, 3, **options, max_iter=np.int64(200))
    for form in (lambda x: x.astype(np.float32), np.asfortranarray, sparse.csc_array, lambda x: x.astype(int)):
        agtf.cluster([form(view) for view in views], 3, mask=mask).predict(views, mask)
    assert {name: len(getattr(agtf, name).signatures) for name in KERNELS} == compiled


def test_all_samples_as_anchors_are_drawn_once_for_each_scaling():
    views, _ = blobs(n=40)
    result = agtf.cluster(views, 3, n_anchors=40)
    np.testing.assert_array_equal(np.sort(result.anchors.reshape(2, 40), axis=1), [np.arange(40)] * 2)
    assert result.options["n_draws"] == 2
    result = agtf.cluster(views, 3, n_anchors=1.0, scale="zscore", n_draws=5)
    np.testing.assert_array_equal(np.sort(result.anchors), np.arange(40))
    assert result.options["n_draws"] == 1 and result.options["n_anchors"] == 40


def test_generators_are_random_states():
    views, _ = blobs(n=80, spread=2.0)
    first, again, other = (agtf.cluster(views, 3, random_state=np.random.default_rng(s)) for s in (5, 5, 6))
    np.testing.assert_array_equal(first.memberships, again.memberships)
    assert set(first.anchors) != set(other.anchors)
    generator = np.random.default_rng(5)
    np.testing.assert_array_equal(agtf.cluster(views, 3, random_state=generator).memberships, first.memberships)
    assert set(agtf.cluster(views, 3, random_state=generator).anchors) != set(first.anchors)  # it has moved on
    assert agtf.suggest_k(views, 5, random_state=generator).candidates.shape == (4,)


def same(first, second):
    for name in ("labels", "memberships", "anchor_memberships", "joint_memberships", "anchors", "view_agreement"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    for name, values in first.history.items():
        np.testing.assert_array_equal(second.history[name], values, err_msg=name)


@needs_jit
@pytest.mark.parametrize("n_jobs", [2, None])
def test_n_jobs_changes_nothing(n_jobs):
    views, _ = blobs(n=1200, k=4, widths=(5, 6), spread=2.5)
    views[1] = sparse.csr_array(np.where(views[1] > 2, views[1], 0.0))
    views[0][:300] = np.nan
    one, many = (agtf.cluster(views, 4, n_anchors=100, n_jobs=jobs) for jobs in (1, n_jobs))
    same(one, many)
    np.testing.assert_array_equal(
        one.predict_memberships(views, n_jobs=n_jobs), one.predict_memberships(views, n_jobs=1)
    )
    first, second = (agtf.suggest_k(views, 8, n_jobs=jobs) for jobs in (1, n_jobs))
    np.testing.assert_array_equal(first.spectrum, second.spectrum)
    model = agtf.AGTF(4, n_anchors=100, n_jobs=n_jobs).fit(views)
    np.testing.assert_array_equal(model.predict(views), one.predict(views))


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "all"])
def test_bad_n_jobs_are_refused_everywhere(n_jobs):
    views, _ = blobs()
    result = agtf.cluster(views, 3)
    for call in (
        result.predict,
        result.predict_memberships,
        lambda views, n_jobs: agtf.suggest_k(views, n_jobs=n_jobs),
    ):
        with pytest.raises(ValueError, match="n_jobs must be None, -1 or an int of at least 1"):
            call(views, n_jobs=n_jobs)


# ---- what comes out --------------------------------------------------------------------------------------------------


def test_an_empty_batch_is_predicted():
    views, _ = blobs()
    result = agtf.cluster(views, 3)
    for empty in ([view[:0] for view in views], [sparse.csr_array(view)[:0] for view in views]):
        labels = result.predict(empty)
        assert labels.shape == (0,) and labels.dtype.kind == "i"
        assert result.predict_memberships(empty, np.ones((0, 2), bool)).shape == (0, 3)
        assert agtf.AGTF(3).fit(views).predict(empty).shape == (0,)


def test_predicted_memberships_are_shares_of_the_votes():
    views, _ = blobs(spread=2.5)
    result = agtf.cluster(views, 3)
    votes = np.array([result.explain(i).votes.sum(axis=0) for i in range(60)])
    memberships = result.predict_memberships(views)
    np.testing.assert_allclose(memberships, votes / votes.sum(axis=1, keepdims=True), atol=1e-8)
    np.testing.assert_array_equal(result.predict(views), memberships.argmax(axis=1))
    model = agtf.AGTF(3).fit(views)
    for call in (model.predict_proba, model.transform, agtf.AGTF(3).fit_transform):
        np.testing.assert_array_equal(call(views), memberships)


def test_explain_says_when_the_votes_favour_another_cluster():
    views, _ = blobs()
    result = agtf.cluster(views, 3)
    label = result.labels[0]
    assert result.explain(0).favoured == label and "although" not in str(result.explain(0))
    moved = changed(result, labels=np.where(np.arange(60) == 0, (label + 1) % 3, result.labels))
    why = moved.explain(0)
    assert why.favoured == label
    first = f"sample 0 is in cluster {(label + 1) % 3}, although its anchors' votes favour cluster {label}"
    assert str(why).splitlines()[0] == first
    assert "although" not in str(moved.explain(1))


def test_view_agreement_is_the_share_that_a_slice_alone_would_label_so():
    views, y = blobs(n=120, widths=(4, 5), spread=1.5)
    noise = np.random.default_rng(1).normal(size=(120, 3))
    result = agtf.cluster([noise, *views], 3)
    alone = np.array([result.explain(i).votes.argmax(axis=1) for i in range(120)])
    np.testing.assert_allclose(result.view_agreement, (alone == result.labels[:, None]).mean(axis=0))
    assert result.view_agreement[0] < 0.7 < 0.9 < result.view_agreement[1:].min()
    double = agtf.cluster([2 * noise, *(2 * view for view in views)], 3)
    np.testing.assert_allclose(double.view_agreement, result.view_agreement, atol=0.1)
    assert not hasattr(result, "view_weights")
    assert len(agtf.cluster(views, 3, joint=False).view_agreement) == 2


def test_a_view_that_tells_little_is_reported_and_not_mixed_in():
    views, y = blobs(n=120, widths=(4,), spread=0.4)
    words = 1.0 * (np.arange(3) == y[:, None])  # says it all, about some
    for share, warned in ((0.5, False), (0.1, True)):
        some = np.where(np.random.default_rng(0).random(120)[:, None] < share, words, 0.0)
        told = some.any(axis=1).mean()
        for form in (np.asarray, sparse.csr_array):
            if warned:
                message = f"view 1 tells something about {told:.0%} of the samples only"
                with pytest.warns(UserWarning, match=message):
                    result = agtf.cluster([*views, form(some)], 3, scale=["zscore", "unit"])
            else:
                result = agtf.cluster([*views, form(some)], 3, scale=["zscore", "unit"])
            assert accuracy(y, result.labels) == 1.0
            assert result.view_agreement[1] == 1.0  # among those about whom it tells something
            np.testing.assert_allclose(result._share_told, [1.0, told, 1.0])
    with pytest.warns(UserWarning, match="words tells something about"):
        agtf.cluster({"numbers": views[0], "words": some}, 3, scale=["zscore", "unit"])


@pytest.mark.parametrize("names", [np.array(list("abcd")), ["a"], {"view 0": 4}, {"view 0": "abcd"}], ids=str)
def test_feature_names_of_a_wrong_kind(names):
    with pytest.raises(TypeError, match="feature_names must be a dict of lists by view name"):
        agtf.cluster(blobs(widths=(4, 5))[0], 3, feature_names=names)


def test_an_estimator_matches_frames_by_the_names_it_was_given():
    pandas = pytest.importorskip("pandas")
    X = blobs(widths=(4,))[0][0]
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = agtf.AGTF(3, feature_names={"view 0": list("abcd")}).fit(X)
    np.testing.assert_array_equal(model.predict(frame[list("dcba")]), model.predict(X))
    with pytest.raises(ValueError, match="names of its own"):
        model.fit(frame)


def test_masked_numbers_are_missing():
    views, _ = blobs(n=200, widths=(4, 5))
    gone = np.arange(200) % 5 == 0
    masked = np.ma.MaskedArray(views[1], np.repeat(gone[:, None], 5, axis=1))
    holes = np.where(gone[:, None], np.nan, views[1])
    np.testing.assert_array_equal(agtf.cluster([views[0], masked], 3).labels, agtf.cluster([views[0], holes], 3).labels)


def test_descriptions_compare_by_identity_and_samples_have_numbers():
    result = agtf.cluster(blobs(n=60)[0], 3)
    assert result.describe() != result.describe()
    with pytest.raises(IndexError):
        result.explain(60)
    assert result.explain(-1).sample == 59


def seen_in_views(result):
    return [int(count.sum()) for count, _, _ in result._profile]


def test_masks_are_matched_by_label_also_where_labels_repeat_or_only_count():
    views, _ = blobs(n=90)
    seen = np.ones((90, 2), bool)
    seen[:30, 0] = False
    twice = [f"patient {i // 2}" for i in range(90)]
    frames = [pd.DataFrame(view, index=twice) for view in views]
    assert seen_in_views(agtf.cluster(frames, 3, mask=pd.DataFrame(seen, index=twice))) == [60, 90]
    with pytest.raises(ValueError, match="rows of mask can't be matched .*: a name stands twice"):
        agtf.cluster(frames, 3, mask=pd.DataFrame(seen, index=twice).sample(frac=1, random_state=0))
    frames, mask = [pd.DataFrame(view) for view in views], pd.DataFrame(seen)
    plain, mixed = (agtf.cluster(frames, 3, mask=m) for m in (mask, mask.sample(frac=1, random_state=0)))
    np.testing.assert_allclose(plain._profile[0][1], mixed._profile[0][1])
    turned = pd.DataFrame(seen[:, ::-1], columns=["view 1", "view 0"])
    assert seen_in_views(agtf.cluster(views, 3, mask=turned)) == [60, 90]


def test_a_mask_that_counts_rows_which_are_labels_in_another_order_is_refused():
    views, _ = blobs(n=90)
    mixed = np.random.default_rng(0).permutation(90)
    views[0][7] = 1e6
    frames, seen = [pd.DataFrame(view).loc[mixed] for view in views], np.ones((90, 2), bool)
    seen[7, 0] = False
    with pytest.raises(ValueError, match="mask counts its rows, and the views have these numbers in another order"):
        agtf.cluster(frames, 3, mask=pd.DataFrame(seen))
    result = agtf.cluster(frames, 3, mask=pd.DataFrame(seen, index=list(range(90))))
    assert seen_in_views(result) == [89, 90] and np.abs(result._profile[0][1]).max() < 100


def test_infinity_is_named_and_not_a_mean():
    views, _ = blobs(n=60)
    views[1][5::10, 1], views[1][0, 1] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"views\[1\] contains infinity in 1 row\(s\), first in row 0, column 1"):
        agtf.cluster(views, 3, impute="mean")
    views[1][0] = np.inf
    with pytest.raises(ValueError, match=r"contains infinity in 1 row\(s\), first in row 0, column 0"):
        agtf.cluster(views, 3)


def test_columns_that_repeat_a_name_are_told_apart():
    views, _ = blobs(n=60, widths=(3, 4))
    frame = pd.DataFrame(views[0], columns=["a", "b", "a"])
    result = agtf.cluster([frame, views[1]], 3)
    assert result.feature_names[0] == ["a", "b", "a (2)"]
    np.testing.assert_array_equal(result.predict([frame, views[1]]), result.predict(views))
    named = agtf.cluster([frame.set_axis(list("abc"), axis=1), views[1]], 3)
    with pytest.raises(ValueError, match=r"1 absent \['c'\], 1 unknown \['a \(2\)'\]"):
        named.predict([frame, views[1]])


def test_a_mapping_is_a_dict_of_views(tmp_path):
    views, _ = blobs(n=60)
    np.savez(tmp_path / "views.npz", first=views[0], second=views[1])
    with np.load(tmp_path / "views.npz") as file:
        result = agtf.cluster(file, 3)
        assert result.view_names == ["first", "second"]
        np.testing.assert_array_equal(result.predict(file), agtf.cluster(views, 3).predict(views))


def test_estimators_take_views_as_nested_lists():
    views, _ = blobs(n=60)
    nested = [view.tolist() for view in views]
    np.testing.assert_array_equal(agtf.AGTF(3).fit(nested).labels_, agtf.cluster(views, 3).labels)


@pytest.mark.parametrize("factor", [1e18, 1e-18])
def test_wide_views_without_a_scale_have_narrower_limits(factor):
    wide = factor * np.random.default_rng(0).normal(size=(60, 150))
    with pytest.raises(ValueError, match=r"too (large|small) to square: use scale"):
        agtf.cluster([wide], 3, scale=None)


def test_suggest_k_fills_holes_if_asked():
    views, _ = blobs(n=90)
    views[0][5, 0] = np.nan
    with pytest.raises(ValueError, match='fill NaN with impute="mean"'):
        agtf.suggest_k(views, 6)
    assert agtf.suggest_k(views, 6, impute="mean").candidates[0] == 3
    with pytest.raises(IndexError, match="no sample 90: give a name, or a number from 0 to 89"):
        agtf.cluster(views, 3, impute="mean").explain(90)


def test_a_warning_of_suggest_k_points_at_its_caller():
    views, _ = blobs(n=60)
    views[1][4:] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agtf.suggest_k(views, 5)
    assert {warning.filename for warning in caught} == {__file__} and "in common" in str(caught[0].message)


# ---- what many users have, and few tests -----------------------------------------------------------------------------


def orthogonal(X, pca=False):
    """X as users embed it: coordinates along its principal directions."""
    X = X - X.mean(axis=0) if pca else X
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    return U * s


@pytest.mark.parametrize("pca", [False, True])
def test_embeddings_are_unit_rows_in_two_draws_of_three(pca):
    views, y = agtf.digits_views()
    embedded = [orthogonal(view, pca) for view in views]
    found = agtf.cluster(embedded, 10)
    assert found.scalings == [["unit"] * 4] * 2 + [["zscore"] * 4]
    z_scores = agtf.cluster(embedded, 10, scale="zscore")
    assert agtf.score(y, found.labels)["ARI"] > agtf.score(y, z_scores.labels)["ARI"] + 0.02
    assert (found.predict([view[:300] for view in embedded]) == found.labels[:300]).mean() > 0.9
    raw = agtf.cluster(views, 10, max_iter=0).scalings
    assert raw == [["zscore"] * 4] * 2 + [["unit"] * 4]
    beside = agtf.cluster([embedded[0], views[0]], 10, max_iter=0)  # every view for itself
    assert beside.scalings == [["unit", "zscore"]] * 2 + [["zscore", "unit"]]


def test_columns_of_embeddings_are_recognised_by_their_cosines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12)) * np.geomspace(100, 0.01, 12)
    tables = {
        "random": (X, False),
        "orthogonal": (orthogonal(X), True),
        "orthogonal, single precision": (orthogonal(X).astype(np.float32), True),
        "orthogonal and rounding": (np.hstack([orthogonal(X), 1e-13 * rng.normal(size=(300, 3))]), True),
        "away from 0": (orthogonal(X) + 5 * X.std(), False),
        "part of the rows": (orthogonal(np.vstack([X, X[:150]]))[:300], False),
        "three columns": (orthogonal(X[:, :3]), False),
        "one of three": (np.eye(3)[rng.integers(0, 3, 300)], False),
        "one of eight": (np.eye(8)[rng.integers(0, 8, 300)], False),
        "wide": (orthogonal(rng.normal(size=(300, 150)) * np.geomspace(50, 0.1, 150)), True),
    }
    for name, (table, expected) in tables.items():
        s = agtf._resolve(agtf.AGTF(3), 300, 1)
        data = agtf._arrange(agtf._as_tables([table]), None, True, s.schemes)
        kept = [scheme.scalings[0].name for scheme in data.schemes] == ["unit", "zscore"]
        assert kept == expected, name
    # The definition: the mean squared cosine of different columns, a share of 1 / n.
    for table, n in ((X, 300), (orthogonal(X), 300)):
        unit = table / np.linalg.norm(table, axis=0)
        cosines = (unit.T @ unit)[~np.eye(12, dtype=bool)]
        scaling = agtf._Scaling("zscore", np.ones(12), table.min(axis=0))
        moments = agtf._moments_of([agtf._Scheme([scaling], 1)], [table], [np.arange(n)])[0]
        assert agtf._is_rotated(scaling, moments / n, n) == ((cosines**2).mean() < agtf._ORTHOGONAL / n)


def test_columns_that_vary_by_rounding_do_not_count():
    (X, _), y = blobs(n=200)
    rng = np.random.default_rng(0)
    for kind, step in ((float, 2.0**-52), (np.float32, 2.0**-23)):
        sums = (1 + step * rng.integers(-2, 3, size=(200, 4))).astype(kind)
        assert (np.ptp(sums, axis=0) > 0).all()
        with pytest.warns(UserWarning, match="view 1 tells something about 0% of the samples"):
            scaled = agtf.cluster([X, sums], 3)._anchors.schemes[0].scalings
        assert not scaled[1].factor.any() and (scaled[0].factor > 0).all()
        small = (1 + 100 * step * rng.integers(-2, 3, size=(200, 4))).astype(kind)  # far above rounding
        assert agtf.cluster([X, small], 3)._anchors.schemes[0].scalings[1].factor.all()


def test_rows_that_only_their_length_tells_apart_stay_together_in_any_order():
    rng = np.random.default_rng(7)
    X = np.zeros((300, 12))  # purchases in one department each: as unit rows 12 different ones
    X[np.arange(300), rng.integers(0, 12, 300)] = rng.integers(1, 6, 300)
    order = rng.permutation(300)
    with pytest.warns(UserWarning, match="3 of 15 clusters are empty"):
        first, second = agtf.cluster([X], 15), agtf.cluster([X[order]], 15)
    assert agtf.score(first.labels[order], second.labels)["ARI"] == 1.0
    for row in np.unique(X, axis=0):
        assert len(set(first.labels[(row == X).all(axis=1)])) == 1


def test_names_that_count_are_matched_whichever_came_first(framed):
    _, (first, _), _ = framed
    counted = pd.DataFrame(first)
    turned = agtf.cluster([counted[[2, 0, 3, 1]]], 3)
    np.testing.assert_array_equal(turned.predict([counted]), turned.predict([counted[[2, 0, 3, 1]]]))
    np.testing.assert_array_equal(turned.predict({"view 0": counted}), turned.predict([counted]))
    estimator = agtf.AGTF(3).fit([counted[[2, 0, 3, 1]]])
    np.testing.assert_array_equal(estimator.predict([counted]), turned.predict([counted]))


def test_columns_of_a_mask_that_count(framed):
    _, views, _ = framed
    mask = np.ones((60, 2), bool)
    mask[:15, 0] = False
    frame = pd.DataFrame(mask)
    expected = agtf.cluster(views, 3, mask=mask)
    for given in (frame, frame[[1, 0]], frame.astype("boolean"), frame.astype(object)):
        np.testing.assert_array_equal(agtf.cluster(views, 3, mask=given).memberships, expected.memberships)
    named = agtf.cluster({1: views[1], 0: views[0]}, 3, mask=frame)
    np.testing.assert_allclose(named._share_told[:2], [1.0, 0.75])
    with pytest.raises(ValueError, match="boolean array"):
        agtf.cluster(views, 3, mask=frame.astype(int))


def test_cells_of_a_mat_file_are_views(framed):
    _, views, _ = framed
    cells = np.empty((1, 2), object)
    cells[0, :] = views
    expected = agtf.cluster(views, 3).labels
    np.testing.assert_array_equal(agtf.cluster(cells, 3).labels, expected)
    np.testing.assert_array_equal(agtf.AGTF(3).fit(cells[0]).labels_, expected)


def test_odd_kinds_of_numbers(framed):
    _, (first, second), _ = framed
    expected = agtf.cluster([first, second], 3).labels
    longer = sparse.csr_array(first).astype(np.longdouble)
    np.testing.assert_array_equal(agtf.cluster([longer], 3).labels, agtf.cluster([sparse.csr_array(first)], 3).labels)
    objects = pd.DataFrame(first).astype(object)
    objects.iloc[4] = pd.NA
    assert np.isnan(agtf._as_tables([objects]).tables[0][4]).all()
    np.testing.assert_array_equal(agtf.cluster([objects.fillna(0), second], 3).labels.shape, expected.shape)
    with pytest.raises(TypeError, match="column 'visit'.*days since"):
        agtf.cluster([pd.DataFrame({"age": first[:, 0], "visit": pd.Timestamp("2024-01-01")})], 3)
    with pytest.raises(ValueError, match="penalty must be at most"):
        agtf.cluster([first], 3, penalty=1e19)


@pytest.mark.parametrize("size", [2.0**-200, 2.0**-60, 1.0, 2.0**60, 2.0**200])
def test_embeddings_of_any_size_are_seen_alike(size):
    views, y = agtf.digits_views()
    y, embedded = y[:600], orthogonal(np.hstack([views[0], views[2]])[:600], pca=True)[:, :120]
    found = agtf.cluster([size * embedded], 10, max_iter=0)
    assert found.scalings == [["unit"], ["unit"], ["zscore"]]
    for draw in np.split(found._index[:, 0], 3, axis=1):  # neighbours are of the sample's class
        assert (y[found.anchors[draw]] == y[:, None]).mean() > 0.4


def test_years_in_half_precision_vary():
    years = np.c_[2000 + np.arange(60) % 13, np.random.default_rng(0).normal(size=60)].astype(np.float16)
    assert agtf.cluster([years], 3, max_iter=0)._anchors.schemes[0].scalings[0].factor.all()
