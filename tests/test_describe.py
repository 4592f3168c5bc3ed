"""What is cluster 3? Descriptions against answers that are known, and against loops written from the definitions."""

import pickle

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import JIT_OFF, blobs, changed, data_set, needs_jit

import agtf

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BAD_NAME = '<b>"x"</b>\n$y & z\x1b[0m'


def random_problem(kind):
    """Views, mask, number of clusters."""
    k = {"k=2": 2, "k=100": 20 if JIT_OFF else 100}.get(kind, 4)
    widths = (5,) if kind == "single" else (4, 6, 3)
    views, _ = blobs(n=max(90, 6 * k), k=k, widths=widths, spread=2.0)
    mask = None
    if kind == "sparse":
        views[1] = sparse.csr_array(np.where(views[1] > 1, views[1], 0.0))
    if kind == "missing":
        mask = np.random.default_rng(1).random((len(views[0]), 3)) > 0.2
        mask[~mask.any(axis=1)] = True
        views[0] = np.where(mask[:, :1], views[0], np.nan)
    return views, mask, k


@pytest.fixture(scope="module", params=["dense", "sparse", "missing", "single", "k=2", "k=100"])
def problem(request):
    views, mask, k = random_problem(request.param)
    result = agtf.cluster(views, k, mask=mask)
    dense = [view.toarray() if sparse.issparse(view) else view for view in views]
    seen = np.ones((len(dense[0]), len(dense)), bool) if mask is None else mask
    return result, dense, seen


def naive_difference(x, inside):
    """Cohen's d of one feature, from its definition."""
    a, b = x[inside], x[~inside]
    if len(a) == 0 or len(b) == 0:
        return 0.0
    within = (((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()) / len(x)
    return (a.mean() - b.mean()) / np.sqrt(within)


def test_profile_and_differences_are_those_of_the_definitions(problem):
    result, views, seen = problem
    for c in range(result.memberships.shape[1]):
        one = result.describe(c)
        assert (np.diff(np.abs(one.differences)) <= 0).all() and len(one.features) == sum(x.shape[1] for x in views)
        for v, j, d, mean, others in zip(one.views, one.features, one.differences, one.means, one.other_means):
            x, inside = views[v][seen[:, v], j], result.labels[seen[:, v]] == c
            np.testing.assert_allclose(d, naive_difference(x, inside), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose([mean, others], [x[inside].mean(), x[~inside].mean()], rtol=1e-9)
            count, means, variances = result._profile[v]
            assert count[c] == inside.sum()
            np.testing.assert_allclose(variances[c, j], x[inside].var(), rtol=1e-9, atol=1e-12)


def test_the_table_is_that_of_the_definitions(problem):
    result, _, _ = problem
    (n, k), found = result.memberships.shape, result.describe()
    whys = [result.explain(i) for i in range(n)]
    winners = np.array([np.where(why.told, why.votes.argmax(axis=1), np.nan) for why in whys])
    for c in range(k):
        own = result.memberships[result.labels == c]
        assert found.sizes[c] == len(own) > 0
        np.testing.assert_allclose(found.certainty[c], own[:, c].mean())
        np.testing.assert_allclose(found.mixing[c], own.mean(axis=0), atol=1e-15)
        others = [b for b in range(k) if b != c]
        assert found.closest[c] in others
        assert found.mixing[c, found.closest[c]] == max(found.mixing[c, b] for b in others)
        np.testing.assert_allclose(found.confused[c], np.mean([row[found.closest[c]] > 0.1 for row in own]))
        own_winners = winners[result.labels == c]
        told = (~np.isnan(own_winners)).sum(axis=0)
        np.testing.assert_allclose(found.agreement[c], (own_winners == c).sum(axis=0) / told)
        best = np.sort(own[:, c])[::-1][:8]
        typical = found.typical[c][found.typical[c] >= 0]
        np.testing.assert_array_equal(result.memberships[typical, c], best)
        assert (result.labels[typical] == c).all() and len(set(typical)) == len(typical)
        one = result.describe(c)
        strongest = [(one.views[t], one.features[t], one.differences[t]) for t in range(3)]
        assert strongest == list(zip(found.views[c], found.features[c], found.differences[c]))


def test_border_and_anchors(problem):
    result, _, _ = problem
    certainty = result._slice_memberships().mean(axis=0)
    for c in range(result.memberships.shape[1]):
        one, expected = result.describe(c), []
        for i in np.flatnonzero(result.labels == c):
            there, other = max((x, -b) for b, x in enumerate(result.memberships[i]) if b != c)
            if there > 0.1:
                expected.append((result.memberships[i, c] - there, i, -other))
        assert [(i, b) for _, i, b in sorted(expected)] == list(zip(one.border, one.neighbours))
        np.testing.assert_array_equal(one.border_memberships[:, 0], result.memberships[one.border, c])
        np.testing.assert_array_equal(one.border_memberships[:, 1], result.memberships[one.border, one.neighbours])
        assert set(one.anchors) == set(result.anchors[result.anchor_labels == c])
        assert len(set(one.anchors)) == len(one.anchors) and (np.diff(one.anchor_certainty) <= 0).all()
        for i, x in zip(one.anchors, one.anchor_certainty):
            assert x in certainty[(result.anchors == i) & (result.anchor_labels == c), c]


def test_equal_memberships_are_told_apart_by_the_anchors():
    views, _ = blobs()
    result = agtf.cluster(views, 3)
    sharp = changed(result, memberships=np.eye(3)[result.labels])
    found = sharp.describe()
    support = np.array([sharp.explain(i).votes.mean(axis=0) for i in range(60)])
    assert (found.certainty == 1).all() and (found.confused == 0).all()
    for c in range(3):
        inside = np.flatnonzero(sharp.labels == c)
        np.testing.assert_allclose(support[found.typical[c], c], np.sort(support[inside, c])[::-1][:8])
        elsewhere = np.delete(support[inside].mean(axis=0), c)
        np.testing.assert_allclose(support[inside].mean(axis=0)[found.closest[c]], elsewhere.max())
        assert len(sharp.describe(c).border) == 0


def test_the_feature_that_separates_comes_first():
    rng, views, y = np.random.default_rng(3), *blobs(n=120, k=4, widths=(6, 5), spread=0.3)
    noise = rng.normal(size=(120, 9))
    noise[:, 7] -= 30 * (y == 2)
    result = agtf.cluster([*views, noise], 4)
    assert agtf.score(y, result.labels)["ACC"] == 1
    c = result.labels[y == 2][0]
    found, one = result.describe(), result.describe(c)
    assert (found.views[c, 0], found.features[c, 0]) == (2, 7) and found.differences[c, 0] < -10
    assert (one.views[0], one.features[0]) == (2, 7)
    np.testing.assert_allclose([one.means[0], one.other_means[0]], [-30, 0], atol=0.5)
    assert "view 2: feature 7 -" in str(found) and "feature 7" in str(one)


@pytest.mark.parametrize("convert, precise", [(np.asarray, 1e-9), (sparse.csr_array, 1e-6)])  # scikit-learn's
@pytest.mark.parametrize("offsets", [(1e9, 1e9), (0, 1e9), (-1e9, 1e9)])
def test_large_offsets_do_not_hide_small_variances(convert, precise, offsets):
    rng, labels = np.random.default_rng(0), np.arange(10_000) % 2
    values = rng.normal(size=(10_000, 3)) + np.array(offsets)[labels, None]
    values[:1000, 0] = 0  # in the other cluster an outlier
    data = agtf._Data([convert(values)], np.arange(10_000), np.arange(1), None)
    count, mean, variance = agtf._profile(data, labels, 2)[0]
    for c in range(2):
        exact = values[labels == c].astype(np.longdouble)
        np.testing.assert_allclose(mean[c], exact.mean(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(variance[c], exact.var(axis=0), rtol=precise)


def test_profile_goes_over_blocks_and_leaves_sparse_views_sparse(monkeypatch):
    rng, n, k = np.random.default_rng(0), 10_000, 3
    table, labels = sparse.random_array((n, 40), density=0.1, format="csr", rng=rng), rng.integers(0, k, n)
    seen = rng.random((n, 2)) > 0.3
    dense = table.toarray()
    data = agtf._Data([table, dense], rng.permutation(n), np.array([1, 0]), seen)
    blocks, whole = [], agtf._moments

    def watched(rows, label, k):
        blocks.append((rows.shape[0], sparse.issparse(rows)))
        return whole(rows, label, k)

    monkeypatch.setattr(agtf, "_moments", watched)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csr_array, name, None)
    profile = agtf._profile(data, labels, k)  # slot 0 is the second view
    assert sorted(sparse for _, sparse in blocks) == [False, False, True, True] and max(blocks)[0] <= 4096
    for v, slot in enumerate(data.slots):
        for c in range(k):
            rows = dense[data.rows[seen[:, v] & (labels == c)]]
            assert profile[slot][0][c] == len(rows)
            np.testing.assert_allclose(profile[slot][1][c], rows.mean(axis=0), rtol=1e-12)
            np.testing.assert_allclose(profile[slot][2][c], rows.var(axis=0), rtol=1e-12)


def test_features_that_do_not_vary():
    views, y = blobs()
    constant = np.full((60, 4), 0.1)
    constant[:, 1] = y == 1  # says it all, without variance
    constant[:, 2] = 1e200 * (y == 2)  # too large to square
    result = agtf.cluster([*views, constant], 3)
    assert agtf.score(y, result.labels)["ACC"] == 1
    c, found = result.labels[y == 1][0], result.describe()
    assert (found.views[c, 0], found.features[c, 0], found.differences[c, 0]) == (2, 1, 1000)
    one = result.describe(c)
    assert set(one.features[(one.views == 2) & (one.differences == 0)]) >= {0, 3}
    assert np.isfinite(one.differences).all() and str(one)
    widened = [*views, sparse.csr_array(np.c_[constant[:, :2], np.full(60, 0.7)])]
    one = agtf.cluster(widened, 3).describe(c)  # sums of sparse columns round, each cluster's a little differently
    assert np.abs(one.differences[(one.views == 2) & (one.features != 1)]).max() < 1e-3


def test_few_samples_empty_and_single_clusters():
    copies = np.repeat([[0.0, 1.0], [5.0, 3.0]], 6, axis=0)
    with pytest.warns(UserWarning, match="empty"):
        result = agtf.cluster([copies], 3)
    empty = np.flatnonzero(np.bincount(result.labels, minlength=3) == 0)[0]
    found, one = result.describe(), result.describe(empty)
    assert found.closest[empty] == -1 and (found.typical[empty] == -1).all() and (found.differences[empty] == 0).all()
    assert one.size == 0 and np.isnan(one.means).all() and "cluster" in str(one) and one._repr_html_()
    alone = agtf.AGTF(n_clusters=1).fit(blobs()[0]).result_
    assert alone.describe().closest == [-1] and np.isnan(alone.describe(0).other_means).all()
    assert "60 samples" in str(alone.describe(0)) and (alone.describe(0).differences == 0).all()
    for drawn in (agtf.plot_clusters(alone), agtf.plot_clusters(result)):
        drawn.figure.canvas.draw()
        assert np.isfinite(drawn.collections[0].get_offsets()).all()
    plt.close("all")


def test_a_saved_result_describes_itself(tmp_path):
    views, mask, k = random_problem("missing")
    result = agtf.cluster(views, k, mask=mask)
    result.save(tmp_path / "result.npz")
    again = agtf.load(tmp_path / "result.npz")
    assert str(again.describe()) == str(result.describe()) and str(again.describe(1)) == str(result.describe(1))
    assert str(pickle.loads(pickle.dumps(result.describe(1)))) == str(result.describe(1))


def test_the_order_of_rows_does_not_matter():
    views, mask, k = random_problem("missing")
    order = np.random.default_rng(2).permutation(len(views[0]))
    found, other = (agtf.cluster([x[rows] for x in views], k, mask=mask[rows]).describe()
                    for rows in (slice(None), order))  # fmt: skip
    np.testing.assert_allclose(found.certainty, other.certainty)
    for name in ("sizes", "closest", "agreement", "views", "features", "differences"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


def test_wrong_clusters_are_refused():
    result = agtf.cluster(blobs()[0], 3)
    for wrong, kind in ((3, ValueError), (-1, ValueError), (1.0, TypeError), ("1", TypeError)):
        with pytest.raises(kind, match="cluster must"):
            result.describe(wrong)


def named(result):
    widths = [moments[1].shape[1] for moments in result._profile]
    names = [[f"{BAD_NAME} {j}" for j in range(widths[0])], *[None] * (len(widths) - 1)]
    samples = [f"{BAD_NAME} {i}" for i in range(len(result.labels))]
    return changed(result, view_names=["a" * 50, *result.view_names[1:]], feature_names=names, sample_names=samples)


def test_tables_in_a_terminal_and_in_a_notebook(problem):
    result, views, _ = problem
    k = result.memberships.shape[1]
    for shown in (result, named(result)):
        found = shown.describe()
        text, lines = str(found), str(found).split("\n")
        assert len(lines) == 2 * k + 7 and repr(found) == text and "\x1b" not in text
        first = text.split("\n\n")[1].split("\n")[1:]
        assert len({len(line) for line in first}) == 1  # columns of numbers stand in line
        assert [line.split()[:2] for line in first[1:]] == [[str(c), str(found.sizes[c])] for c in range(k)]
        one = str(shown.describe(k - 1))
        assert all(name[:30] in one for name in shown.view_names) and "\x1b" not in one
        for page in (found._repr_html_(), shown.describe(0)._repr_html_()):
            assert page.count("<table") == page.count("</table>") > 1 and "<b>" not in page
            assert ("&lt;b&gt;" in page) == (shown is not result) and "\x1b" not in page


def test_frames(problem):
    pytest.importorskip("pandas")
    result = named(problem[0])
    found, one = result.describe(), result.describe(1)
    frame = found.to_frame()
    np.testing.assert_array_equal(frame["size"], found.sizes)
    np.testing.assert_array_equal(frame["joint agrees"], found.agreement[:, -1])
    frame = one.to_frame()
    np.testing.assert_array_equal(frame["difference"], one.differences)
    assert frame["feature"][list(one.views).index(0)] == f"{BAD_NAME} {one.features[one.views == 0][0]}"
    assert set(frame["view"]) == set(result.view_names)
    why = result.explain(0)
    assert list(why.to_frame()["slice"]) == result.slices and "&lt;b&gt;" in why._repr_html_()


@needs_jit
def test_digits_name_pixels_that_a_person_would_name():
    views, y = agtf.digits_views()
    result = agtf.cluster(views, 10)
    zeros = np.bincount(result.labels[y == 0]).argmax()
    one = result.describe(zeros)
    pixels = [(divmod(j, 8), d < 0) for j, d in zip(one.features[one.views == 0], one.differences[one.views == 0])]
    assert {place for place, _ in pixels[:2]} <= {(r, c) for r in (3, 4) for c in (3, 4)}  # the hole in the middle
    assert all(empty for _, empty in pixels[:2])
    sevens, nines = (np.bincount(result.labels[y == d]).argmax() for d in (7, 9))
    assert len({zeros, sevens, nines}) == 3


@needs_jit
def test_words_that_fit_the_class():
    views, y = data_set("Movies")
    result = agtf.cluster(views, len(np.unique(y)))
    table = np.asarray(views[0].todense() if sparse.issparse(views[0]) else views[0])
    for c in range(result.memberships.shape[1]):
        one = result.describe(c)
        j = one.features[(one.views == 0) & (one.differences > 0)][0]
        inside = result.labels == c
        assert (table[inside, j] > 0).mean() > 3 * (table[~inside, j] > 0).mean()


def test_plot_profile(problem):
    result, views, _ = problem
    V = len(views)
    given = plt.figure().subplots(1, V)
    assert agtf.plot_profile(result, 1, ax=given) is given
    panels = agtf.plot_profile(named(result), 1)
    panels[0].figure.canvas.draw()
    one = result.describe(1)
    for v, panel in enumerate(panels):
        np.testing.assert_allclose([bar.get_width() for bar in panel.patches], one.differences[one.views == v][:8])
    assert len(panels) == V and "<b>" in panels[0].get_yticklabels()[0].get_text()
    plt.close("all")


def test_plot_clusters(problem):
    result, _, _ = problem
    k, given = result.memberships.shape[1], plt.figure().subplots()
    assert agtf.plot_clusters(result, ax=given) is given
    ax = agtf.plot_clusters(result)
    ax.figure.canvas.draw()
    points = ax.collections[0]
    assert [text.get_text() for text in ax.texts] == [str(c) for c in range(k)]
    np.testing.assert_allclose(points.get_array(), result.describe().certainty)
    assert np.isfinite(points.get_offsets()).all() and len(np.unique(points.get_offsets(), axis=0)) == k
    joined = np.triu(result.describe().mixing + result.describe().mixing.T, 1) > 0.01
    assert len(ax.lines) == joined.sum()
    plt.close("all")
