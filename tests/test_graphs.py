"""Anchor graphs and their spectra, against plain twins."""

import dataclasses
from types import SimpleNamespace

import naive
import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import blobs, needs_jit, random_graph
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import agtf


@pytest.fixture(autouse=True)
def one_library_thread():
    """Those of a dense decomposition would only wait for each other."""
    with threadpool_limits(1):
        yield


def graph_of(distance, k):
    """The kernel's graph (rows, m) of squared distances."""
    index, weight = np.full((len(distance), k), -1, np.int32), np.full((len(distance), k), np.nan)
    agtf._nearest_anchors(np.array(distance), index, weight)
    assert index.min() >= 0 and (weight >= 0).all()
    S = np.zeros(np.shape(distance))
    np.add.at(S, (np.arange(len(S))[:, None], index), weight)
    return S


def naive_graph_of(distance, k):
    return np.array([naive.anchor_weights(list(row), k) for row in distance])


DISTANCES = {
    "random": lambda rng, m: rng.random((40, m)),
    "few values, many ties": lambda rng, m: rng.integers(0, 4, (60, m)),
    "two values": lambda rng, m: rng.integers(0, 2, (60, m)),
    "all equal": lambda rng, m: np.full((5, m), 3.0),
    "all zero": lambda rng, m: np.zeros((5, m)),
    "equal up to rounding": lambda rng, m: 2.0 + 1e-13 * rng.random((20, m)),
    "duplicated anchors": lambda rng, m: np.repeat(rng.random((40, m)), 4, axis=1)[:, :m],
    "some out of reach": lambda rng, m: np.where(rng.random((60, m)) < 0.5, np.inf, rng.random((60, m))),
    "most out of reach": lambda rng, m: np.where(rng.random((80, m)) < 0.85, np.inf, rng.integers(0, 3, (80, m))),
    "nearly all out of reach": lambda rng, m: np.where(rng.random((80, m)) < 0.98, np.inf, rng.random((80, m))),
    "all out of reach": lambda rng, m: np.full((3, m), np.inf),
    "far away": lambda rng, m: 1e150 * rng.random((20, m)),
    "close by": lambda rng, m: 1e-150 * rng.random((20, m)),
}


@pytest.mark.parametrize("m", [12, 128, 161])
@pytest.mark.parametrize("k", [1, 3, 8, 11, 20])
@pytest.mark.parametrize("name", DISTANCES)
def test_nearest_anchors_match_the_definition(name, k, m):
    if k >= m:
        pytest.skip("fewer anchors than neighbours")
    distance = DISTANCES[name](np.random.default_rng(k), m).astype(float)
    S = graph_of(distance, k)
    np.testing.assert_allclose(S, naive_graph_of(distance, k), atol=1e-12)
    if np.nan_to_num(distance, posinf=0).max() < 1e30 and name != "equal up to rounding":
        single = distance.astype(np.float32)
        np.testing.assert_allclose(graph_of(single, k), naive_graph_of(single.astype(float), k), atol=1e-6)
    sums = S.sum(axis=1)
    assert (np.isclose(sums, 1) | (sums == 0)).all()
    if name in ("all equal", "all zero", "equal up to rounding", "all out of reach"):
        assert not S.any()
    assert not S[np.isinf(distance)].any()


def test_copies_of_one_anchor_share_the_weight():
    S = graph_of([[1.0, 1.0, 1.0, 1.0, 7.0]], 3)
    np.testing.assert_allclose(S, [[1 / 3, 1 / 3, 1 / 3, 0, 0]])


def shared(result, v):
    """Which samples have an anchor in common with each sample in slice v, as an (n, n) array."""
    S = np.zeros((len(result.labels), len(result.anchors)))
    np.put_along_axis(S, result._index[:, v], result._weight[:, v], axis=1)
    return S @ S.T > 1e-9


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_samples_that_share_no_word_are_not_tied_together(form):
    views, y = blobs(n=90, widths=(4,))
    words = np.zeros((90, 30))
    words[np.arange(90), 10 * y + np.arange(90) % 10] = 1.0  # ten words for each group
    result = agtf.cluster([views[0], form(words)], 3, scale=["zscore", "unit"], n_anchors=40)
    tied = shared(result, 1)
    assert not tied[y[:, None] != y].any()
    assert agtf.score(y, result.labels)["ACC"] == 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_without_information_follow_the_joint_slice(form):
    views, y = blobs(n=90, widths=(4,))
    words = 1.0 * (np.arange(6) == (y + 3 * (np.arange(90) % 2))[:, None])
    blank = np.arange(90) % 3 == 0
    words[blank] = 0.0
    result = agtf.cluster([views[0], form(words)], 3, scale=["zscore", "unit"], n_anchors=30, n_draws=1)
    S = np.zeros((90, 3, 30))
    np.put_along_axis(S, result._index, result._weight, axis=2)
    usable = ~blank[result.anchors]
    assert not S[:, 1][:, ~usable].any()  # nobody is joined to a blank anchor there
    X = (views[0] - views[0].mean(axis=0)) / views[0].std(axis=0) / 2
    U = words / np.sqrt(words.var(axis=0).sum())
    for i in np.flatnonzero(blank):
        # Joint distances count views in common, and a blank anchor has none but the first with anybody.
        d = ((X[i] - X[result.anchors]) ** 2).sum(axis=1)
        d = np.where(usable, (d + ((U[i] - U[result.anchors]) ** 2).sum(axis=1)) / 2, d)
        np.testing.assert_allclose(S[i, 2], naive.anchor_weights(d, 8), atol=1e-8)
        np.testing.assert_allclose(S[i, 1], naive.anchor_weights(np.where(usable, d, np.inf), 8), atol=1e-8)
    assert np.isfinite(result.memberships).all() and agtf.score(y, result.labels)["ACC"] == 1.0


# ---- spectra ---------------------------------------------------------------------------------------------------------


def scaled_columns(S):
    """S Lambda^(-1/2): rows of S sum to 1, so that its largest singular value is 1, once for each component."""
    mass = np.asarray(S.sum(axis=0)).ravel()
    return sparse.csr_array(S @ sparse.diags_array(1 / np.sqrt(np.where(mass > 0, mass, 1.0))))


def random_rows(n, m, neighbours, rng, near=None):
    """A row-stochastic (n, m) graph; with `near`, row i is joined to the anchors around i m / n on a ring."""
    if near is None:
        columns = np.stack([rng.choice(m, neighbours, replace=False) for _ in range(n)])
    else:
        columns = (np.arange(n)[:, None] * m // n + rng.integers(0, near, (n, neighbours))) % m
    rows = np.repeat(np.arange(n), neighbours)
    return sparse.csr_array((rng.dirichlet(np.ones(neighbours), n).ravel(), (rows, columns.ravel())), (n, m))


def blocks(rng, many, identical):
    one = random_rows(100, 60, 5, rng)
    return sparse.block_diag([one if identical else random_rows(100, 60, 5, rng) for _ in range(many)], "csr")


GRAPHS = {
    "identical blocks": lambda rng: blocks(rng, 10, True),
    "blocks": lambda rng: blocks(rng, 10, False),
    "a ring": lambda rng: random_rows(1000, 600, 4, rng, near=50),
    "one component": lambda rng: random_rows(1000, 600, 8, rng),
    "anchors without samples": lambda rng: sparse.hstack([blocks(rng, 8, False), sparse.csr_array((800, 100))], "csr"),
    "fewer samples than anchors": lambda rng: random_rows(300, 600, 8, rng),
}


@pytest.mark.parametrize("k", [2, 10])
@pytest.mark.parametrize("name", GRAPHS)
def test_spectrum_is_that_of_a_dense_decomposition(name, k):
    A = scaled_columns(GRAPHS[name](np.random.default_rng(0)))
    assert A.shape[1] > agtf._DENSE
    r = 2 * k
    square, right = agtf._spectrum(A, k, r, seed=1)
    exact = np.linalg.svd(A.toarray(), compute_uv=False)[:r] ** 2
    assert square.shape == (r,) and right.shape == (A.shape[1], r)
    np.testing.assert_allclose(square[:k], exact[:k], atol=agtf._RESIDUAL)
    np.testing.assert_allclose(right.T @ right, np.eye(r), atol=1e-9)
    residual = A.T @ (A @ right[:, :k]) - right[:, :k] * square[:k]
    assert np.linalg.norm(residual, axis=0).max() <= agtf._RESIDUAL * square[0]
    assert (square <= exact + 1e-9).all() and (np.diff(square) <= 1e-12).all()  # Ritz values, from below
    if "blocks" in name:
        assert np.isclose(square, 1, atol=1e-4).sum() >= k


def test_all_unit_eigenvalues_of_identical_blocks_are_found():
    A = scaled_columns(blocks(np.random.default_rng(3), 10, True))
    for seed in range(3):
        square, right = agtf._spectrum(A, 10, 20, seed)
        np.testing.assert_allclose(square[:10], 1, atol=1e-5)
        assert square[10] < 0.95
        # They span the indicators of the blocks' anchors.
        indicators = A.T @ np.ones(A.shape[0])
        parts = np.zeros((A.shape[1], 10))
        parts[np.arange(600), np.arange(600) // 60] = indicators
        parts /= np.linalg.norm(parts, axis=0)
        np.testing.assert_allclose(np.linalg.norm(right[:, :10].T @ parts, axis=0), 1, atol=1e-4)


def test_small_and_large_graphs_take_the_same_spectrum(monkeypatch):
    A = scaled_columns(random_rows(900, 400, 6, np.random.default_rng(0)))
    dense, right = agtf._spectrum(A, 4, 8, 0)
    np.testing.assert_allclose(dense, np.linalg.svd(A.toarray(), compute_uv=False)[:8] ** 2, atol=1e-12)
    monkeypatch.setattr(agtf, "_DENSE", 10)
    krylov, other = agtf._spectrum(A, 4, 8, 0)
    np.testing.assert_allclose(krylov[:4], dense[:4], atol=1e-4)
    np.testing.assert_array_equal(other, agtf._spectrum(A, 4, 8, 0)[1])  # the seed decides


def prepared(views, k, **options):
    """The rows with their graph, and the anchors."""
    s = agtf._resolve(agtf.AGTF(k, **options), views[0].shape[0], len(views))
    rows, _, anchors = agtf._prepare(agtf._as_tables(views), None, s, agtf._Progress(0))
    return rows, anchors


@pytest.mark.parametrize("k", [2, 4, 7])
def test_the_kth_direction_of_a_projection_weighs_what_it_is_told(k):
    views, _ = blobs(n=400, k=4, widths=(5, 6), spread=2.0)
    rows, anchors = prepared(views, k, n_anchors=60)
    sample = rows.head(400)
    found = agtf._projections(sample, anchors, k, 2 * k, np.random.RandomState(0))
    assert len(found) == 6  # three draws, the views together and the joint slice
    for projection in found:
        A = projection.matrix(sample)
        U, s, Vt = np.linalg.svd(A.toarray(), full_matrices=False)
        np.testing.assert_allclose(projection.share**2, (s[: 2 * k] / s[0]) ** 2, atol=1e-3)
        left = A @ projection.directions  # singular vectors
        np.testing.assert_allclose(np.linalg.norm(left, axis=0), 1, atol=1e-6)
        for last in (*agtf._LAST_WEIGHTS, agtf._JUDGED_AT):
            steps = np.log(last) / np.log(projection.share[k - 1])
            raw = left * projection.share**steps
            assert projection.share[k - 1] ** steps == pytest.approx(last)
            rows_of_length_1 = projection.diffused(projection(sample), last)
            np.testing.assert_allclose(np.linalg.norm(rows_of_length_1, axis=1), 1, rtol=1e-5)
            np.testing.assert_allclose(rows_of_length_1, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-5)


def test_clear_clusters_leave_no_weight_to_later_directions():
    views, y = blobs(n=300, k=3, widths=(5,), spread=0.01)
    rows, anchors = prepared(views, 3, n_anchors=100)
    sample = rows.head(300)
    for projection in agtf._projections(sample, anchors, 3, 6, np.random.RandomState(0)):
        diffused = projection.diffused(projection(sample), 0.5)
        assert np.linalg.matrix_rank(diffused, tol=0.01 * np.sqrt(300)) == 3


def test_a_projection_treats_other_blocks_as_the_sample():
    views, _ = blobs(n=2000, k=4, widths=(5, 6), spread=2.0)
    rows, anchors = prepared(views, 4, n_anchors=60)
    assert len(rows.blocks) > 2
    whole = agtf._projections(rows.head(2000), anchors, 4, 8, np.random.RandomState(0))[0]
    parts = np.vstack([whole(block) for block in rows.blocks])
    np.testing.assert_allclose(parts, whole(rows.head(2000)), atol=1e-7)


@needs_jit
def test_a_rule_that_swallows_a_cluster_is_not_followed(monkeypatch):
    class Swallows(agtf._Discriminants):
        made = 0

        def predict(self, X):
            if self.number < 2:
                return np.roll(super().predict(X), 1)  # a change, so that there is another round
            return np.zeros(len(X), int)

        def __init__(self, X, labels):
            super().__init__(X, labels)
            Swallows.made += 1
            self.number = Swallows.made

    views, _ = blobs(n=300, k=3, widths=(5, 6), spread=1.0)
    monkeypatch.setattr(agtf, "_SAMPLE", 200)
    monkeypatch.setattr(agtf, "_Discriminants", Swallows)
    assert len(np.unique(agtf.cluster(views, 3, max_iter=0).labels)) == 3 and Swallows.made == 2


def test_means_of_many_rows_are_as_precise_as_their_scatter_needs():
    rng, y = np.random.default_rng(0), np.arange(50_000) % 2
    X = (np.eye(4)[y] + 1e-4 * rng.normal(size=(50_000, 4))).astype(np.float32)
    expected = [X[y == c].astype(float).mean(axis=0) for c in range(2)]
    np.testing.assert_allclose(agtf._means(X, y), expected, rtol=1e-12, atol=1e-15)


@needs_jit
def test_labels_of_rows_beyond_the_sample_follow_its_rule(monkeypatch):
    views, y = blobs(n=1500, k=4, widths=(5, 6), spread=1.0)
    whole = agtf.cluster(views, 4).labels
    monkeypatch.setattr(agtf, "_SAMPLE", 400)
    learnt = agtf.cluster(views, 4).labels
    assert agtf.score(y, whole)["ARI"] > 0.98 and agtf.score(y, learnt)["ARI"] > 0.98
    mask = np.random.default_rng(0).random((1500, 2)) > 0.2
    mask[~mask.any(axis=1), 0] = True
    assert agtf.score(y, agtf.cluster(views, 4, mask=mask).labels)["ARI"] > 0.95


def test_medoids_are_as_many_different_rows_as_asked_for():
    rng = np.random.default_rng(0)
    for X in (np.sign(rng.normal(size=(39, 1))), np.zeros((20, 2)), rng.normal(size=(50, 3))):  # two, one, many places
        for m in (2, 7, 18):
            found = agtf._medoids(X, m, 0)
            assert len(set(found)) == len(found) == m
            places = len(np.unique(X, axis=0))
            assert len(np.unique(X[found], axis=0)) == min(m, places)


@needs_jit
def test_wide_views_are_seen_in_their_leading_directions():
    """Where "auto" z-scores them; with a scaling that the user gives, and of words, every feature is seen."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1200)
    signal = 3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(1200, 4))
    wide = signal @ rng.normal(size=(4, 300)) + 3 * rng.normal(size=(1200, 300))
    words = (rng.random((1200, 300)) < 0.05) * (1.0 + y[:, None])
    result = agtf.cluster([wide, words], 3)
    assert result.scalings == [["zscore", "unit"], ["zscore", "unit"], ["unit", "unit"]]
    for scheme in result._anchors.schemes:
        seen, every = scheme.scalings
        assert seen.directions.shape == (300, 100) and every.directions is None
        np.testing.assert_allclose(seen.directions.T @ seen.directions, np.eye(100), atol=1e-5)
        # The directions of most variance, as PCA finds them.
        scaled = dataclasses.replace(seen, directions=None)(wide).astype(float)
        best = np.linalg.svd(scaled, full_matrices=False)[1][:100]
        assert np.square(seen(wide)).sum() > 0.97 * np.square(best).sum()
    again = agtf.cluster([wide[::-1], words[::-1]], 3)
    np.testing.assert_array_equal(again.labels[::-1], result.labels)
    np.testing.assert_array_equal(result.predict([wide[:50], words[:50]]), result.predict([wide, words])[:50])
    few = agtf.cluster([wide[:300], words[:300]], 3)
    assert [scheme.scalings[0].directions.shape for scheme in few._anchors.schemes] == [(300, 60), (300, 60)]
    for every in (agtf.cluster([wide, words], 3, scale="zscore"), agtf.cluster([wide[:, :200], words], 3)):
        assert all(scaling.directions is None for scheme in every._anchors.schemes for scaling in scheme.scalings)


@needs_jit
@pytest.mark.parametrize("sizes", [(300, 300, 300), (1000, 60, 40), (2000, 30, 20, 15)])
def test_the_longer_diffusion_is_chosen_for_small_clusters_beside_big_ones(sizes):
    rng = np.random.default_rng(1)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    views = [2.2 * rng.normal(size=(len(sizes), d))[y] + rng.normal(size=(len(y), d)) for d in (8, 6)]
    result = agtf.cluster(views, len(sizes))
    assert agtf.score(y, result.labels)["ARI"] > 0.97


def test_loads_of_anchors_are_the_weights_of_their_edges_by_cluster():
    rng = np.random.default_rng(0)
    (index, weight), _ = random_graph(30, 9, 2, 4, rng)
    labels, plain = rng.integers(0, 3, 30), np.zeros((2, 9, 3))
    for i, v, t in np.ndindex(index.shape):
        plain[v, index[i, v, t], labels[i]] += weight[i, v, t]
    loads = agtf._anchor_loads(SimpleNamespace(index=index, weight=weight), labels, 9, 3)
    np.testing.assert_allclose(loads, plain)
    np.testing.assert_allclose(loads.sum(axis=2), agtf._mass(SimpleNamespace(index=index, weight=weight), 9))


def test_seeds_know_the_columns_that_are_nearest_to_them():
    X = np.random.default_rng(0).normal(size=(7, 200)).astype(np.float32)
    seeds = np.empty(12, np.intp)
    owner = agtf._spread_out(X, np.random.default_rng(1).uniform(size=(12, 2)), seeds)
    assert len(set(seeds)) == 12
    np.testing.assert_array_equal(owner, cdist(X.T, X.T[seeds]).argmin(axis=1))
