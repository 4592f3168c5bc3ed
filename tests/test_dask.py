"""Dask: the same calls on dask arrays, on threads and on a cluster of two processes, against the results in memory."""

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import JIT_OFF, ROOT, blobs, table_of_people
from numpy.testing import assert_allclose, assert_array_equal

import agtf

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.skipif(JIT_OFF, reason="the workers would compute for minutes without the compiler")
UNEVEN = (300, 1, 700, 96, 500, 150, 50)
CHUNKS = {"one": (1797,), "uneven": UNEVEN, "a single row": (1, 1000, 796)}


@pytest.fixture(scope="module")
def digits():
    """Views of the digits without the classes."""
    return agtf.digits_views()[0]


@pytest.fixture(scope="module")
def expected(digits):
    return agtf.cluster(digits, 10)


@pytest.fixture(scope="module")
def client():
    """A client of two processes with one thread each, active while a test holds it."""
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="2GB")
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def few(monkeypatch):
    """The start is learnt from 500 rows; the others follow its rules."""
    monkeypatch.setattr(agtf, "_SAMPLE", 500)


def chunked(views, chunks=UNEVEN):
    return [da.from_array(view, chunks=(chunks, view.shape[1])) for view in views]


def with_holes(views, seed=0):
    """Half of the rows of all views but the first are NaN."""
    rng = np.random.default_rng(seed)
    holes = [np.zeros(len(views[0]), bool), *(rng.random(len(view)) < 0.5 for view in views[1:])]
    return [np.where(hole[:, None], np.nan, view) for hole, view in zip(holes, views)], np.stack(holes, axis=1)


def eventually(condition, seconds=20):
    """Workers forget a moment later."""
    for _ in range(10 * seconds):
        if condition():
            return True
        time.sleep(0.1)
    return False


def held(client):
    """Numbers of results that the workers keep."""
    return sum(client.run(lambda dask_worker: len(dask_worker.data)).values())


def assert_same(found, expected):
    assert isinstance(found.labels, da.Array) and isinstance(found.memberships, da.Array)
    assert_array_equal(found.labels.compute(), expected.labels)
    assert_array_equal(found.anchors, expected.anchors)
    assert_allclose(found.memberships.compute(), expected.memberships, atol=1e-3)
    assert_allclose(found.view_agreement, expected.view_agreement, atol=1e-3)
    assert found.n_iter == expected.n_iter


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_threads_find_the_labels_of_memory(digits, chunks, expected):
    found = agtf.cluster(chunked(digits, chunks), 10)
    assert_same(found, expected)
    assert found.labels.chunks == (chunks,)
    assert found.memberships.chunks == (chunks, (10,))


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_rules_of_a_sample_label_the_others(digits, chunks, few):
    assert_same(agtf.cluster(chunked(digits, chunks), 10), agtf.cluster(digits, 10))


def test_a_few_categories_count_alike_in_chunks(few):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1797)
    flags = rng.integers(0, 2, size=(1797, 2)).astype(float)
    views = [8.0 * rng.normal(size=(3, 5))[y] + rng.normal(size=(1797, 5)), flags]
    expected = agtf.cluster(views, 3)
    assert agtf.score(y, expected.labels)["ACC"] == 1.0
    assert_same(agtf.cluster(chunked(views), 3), expected)


def test_levels_are_blurred_alike_in_chunks(few):
    table, y = table_of_people(1797)
    expected = agtf.cluster([table], 3)
    assert agtf.score(y, expected.labels)["ACC"] > 0.97
    assert_same(agtf.cluster(chunked([table]), 3), expected)


def test_embeddings_are_recognised_in_chunks(digits, few):
    embedded = [np.linalg.svd(view, full_matrices=False) for view in digits]
    embedded = [U[:, :30] * s[:30] for U, s, _ in embedded]
    expected = agtf.cluster(embedded, 10)
    assert expected.scalings == [["unit"] * 4] * 2 + [["zscore"] * 4]
    assert_same(agtf.cluster(chunked(embedded), 10), expected)


def test_a_cluster_finds_the_labels_of_memory(client, digits, few):
    with client.as_current():
        found = agtf.cluster(chunked(digits), 10)
        assert_same(found, agtf.cluster(digits, 10))
    del found
    assert eventually(lambda: held(client) == 0)


@pytest.mark.parametrize("sample", (500, 20_000))
def test_missing_views(digits, sample, monkeypatch):
    monkeypatch.setattr(agtf, "_SAMPLE", sample)
    views, holes = with_holes(digits)
    expected = agtf.cluster(views, 10)
    assert_same(agtf.cluster(chunked(views), 10), expected)
    for mask in (~holes, da.from_array(~holes, chunks=(400, 1))):
        assert_array_equal(agtf.cluster(chunked(digits), 10, mask=mask).labels.compute(), expected.labels)


@pytest.mark.slow
def test_missing_views_on_a_cluster(client, digits, few):
    views, _ = with_holes(digits)
    with client.as_current():
        assert_same(agtf.cluster(chunked(views), 10), agtf.cluster(views, 10))


def test_a_view_that_a_chunk_has_not_seen(digits, few):
    views = [view.astype(float) for view in digits]
    views[1][:400] = np.nan
    found, expected = agtf.cluster(chunked(views), 10), agtf.cluster(views, 10)
    assert_same(found, expected)
    for mine, whole in zip(found._profile, expected._profile):
        for a, b in zip(mine, whole):
            assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_sparse_chunks(few):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    dense = [rng.poisson(4.0 * rng.random((3, d))[y] * (rng.random((900, d)) < 0.2)).astype(float) for d in (40, 60)]
    views = [sparse.csr_array(view) for view in dense]
    lazy = [array.map_blocks(sparse.csr_matrix) for array in chunked(dense, (500, 400))]
    expected, found = agtf.cluster(views, 3), agtf.cluster(lazy, 3)
    assert_same(found, expected)
    assert all(map(sparse.issparse, found._anchors.schemes[0].rows))
    assert_allclose(found.predict_memberships(lazy).compute(), expected.predict_memberships(views), atol=1e-6)
    other = [lazy[0], lazy[1].rechunk((300, 60))]
    assert_array_equal(agtf.cluster(other, 3).labels.compute(), expected.labels)


def test_sparse_and_dense_chunks_of_a_view_are_refused():
    part = da.ones((20, 3), chunks=20)
    mixed = da.concatenate([part, part.map_blocks(sparse.csr_array, meta=np.empty((0, 0)))])
    with pytest.raises(TypeError, match=r"views\[0\] has sparse and dense chunks"):
        agtf.cluster([mixed], 2)


def test_the_order_of_rows_does_not_matter(digits, few):
    order = np.random.default_rng(1).permutation(len(digits[0]))
    found = agtf.cluster(chunked([view[order] for view in digits]), 10).labels.compute()
    assert_array_equal(found, agtf.cluster(digits, 10).labels[order])


def test_equal_rows_in_many_chunks(few):
    """Anchors come from the different rows, of which a sample of the rows would show a few only."""
    views, _ = blobs(60, 3)
    views = [np.repeat(view, [1] * 50 + [300] * 10, axis=0) for view in views]
    chunks = (1000, 1000, 1000, 50)
    assert_same(agtf.cluster(chunked(views, chunks), 3), agtf.cluster(views, 3))


def test_chunks_are_put_right(digits, expected):
    """Along columns, in another way in each view, of unknown sizes, empty; NumPy arrays are split alike; names stay."""
    expected = expected.labels
    one, two, three, *rest = digits
    unknown = da.from_array(three, chunks=(600, three.shape[1]))
    unknown = unknown[da.from_array(np.ones(len(three), bool), chunks=600)]
    assert np.isnan(unknown.shape[0])
    empty = da.concatenate([da.from_array(two[:700], chunks=(700, -1)), da.from_array(two[700:], chunks=(800, -1))])
    empty = empty.rechunk(((700, 0, 800, 0, 297), two.shape[1]))
    views = {"one": da.from_array(one, chunks=(500, 20)), "two": empty, "three": unknown}
    views |= {str(v): view for v, view in enumerate(rest)}
    found = agtf.cluster(views, 10)
    assert_array_equal(found.labels.compute(), expected)
    assert found.view_names == list(views) and found.labels.chunks[0] == (500, 500, 500, 297)
    assert np.isnan(unknown.shape[0])  # the user's array stays as it was
    views = {"two": empty, "one": one, "three": three, **views}
    found = agtf.cluster(views, 10)
    assert_array_equal(found.labels.compute(), expected)
    assert found.labels.chunks[0] == (700, 0, 800, 0, 297)


def test_prediction_is_lazy(digits, expected):
    result = expected

    def touched(block):
        raise RuntimeError("touched")

    lazy = [view.map_blocks(touched, dtype=float, meta=np.empty((0, 0))) for view in chunked(digits)]
    labels, memberships = result.predict(lazy), result.predict_memberships(lazy)
    assert labels.chunks == (UNEVEN,) and memberships.chunks == (UNEVEN, (10,))
    with pytest.raises(RuntimeError, match="touched"):
        labels.compute()
    expected = result.predict_memberships(digits)
    assert_allclose(result.predict_memberships(chunked(digits)).compute(), expected, atol=1e-6)
    assert_array_equal(result.predict(chunked(digits)).compute(), expected.argmax(axis=1))
    assert result.predict([view[:0] for view in chunked(digits)]).compute().shape == (0,)


@pytest.mark.slow
def test_prediction_on_a_cluster(client, digits):
    result = agtf.cluster(digits, 10)
    with client.as_current():
        found = agtf.cluster(chunked(digits), 10).predict(chunked(digits))
        assert_array_equal(found.compute(), result.predict(digits))


def test_prediction_fills_single_holes(digits):
    views = [view.astype(float) for view in digits]
    views[0][5, 3] = views[2][1500, 1] = np.nan
    result = agtf.cluster(views, 10, impute="mean")
    assert_allclose(result.predict_memberships(chunked(views)).compute(), result.predict_memberships(views), atol=1e-6)


def test_the_rest_of_a_result(digits, expected, tmp_path):
    found = agtf.cluster(chunked(digits), 10)
    for i in (0, 300, 1796, -1):
        assert str(found.explain(i)) == str(expected.explain(i))
    assert str(found.describe()) == str(expected.describe())
    assert str(found.describe(3)) == str(expected.describe(3))
    found.save(tmp_path / "result.npz")
    for other in (agtf.load(tmp_path / "result.npz"), pickle.loads(pickle.dumps(found)), found.compute()):
        assert isinstance(other.labels, np.ndarray)
        assert_array_equal(other.labels, expected.labels)
        assert_array_equal(other._index, expected._index)
        assert_array_equal(other.predict(digits), expected.predict(digits))
    assert expected.compute() is expected
    assert found.score(expected.labels)["ACC"] == 1.0
    assert repr(found) == repr(expected)
    agtf.plot_indicator(found)
    agtf.plot_clusters(found)
    found.report(tmp_path / "report.html")
    assert "10 clusters of 1797 samples" in (tmp_path / "report.html").read_text()


def test_estimator_and_suggestion(digits, expected):
    model = agtf.AGTF(10).fit(chunked(digits))
    assert_array_equal(model.labels_.compute(), expected.labels)
    assert isinstance(model.predict(chunked(digits)), da.Array)
    alone = agtf.AGTF(10).fit(chunked(digits)[0])  # one table
    assert_array_equal(alone.labels_.compute(), agtf.cluster(digits[:1], 10).labels)
    assert isinstance(alone.predict_proba(chunked(digits)[0]), da.Array)
    found, expected = agtf.suggest_k(chunked(digits), 12), agtf.suggest_k(digits, 12)
    assert_array_equal(found.candidates, expected.candidates)
    assert_allclose(found.spectrum, expected.spectrum)


def test_scalings_do_not_depend_on_the_chunks():
    """To the last bit: anchors are drawn, and one bit may draw others."""
    rng = np.random.default_rng(0)
    views = [1e3 + rng.normal(size=(5000, 7)), rng.exponential(size=(5000, 5)), rng.random((5000, 3)) - 0.5]
    views.append(np.where(rng.random((5000, 30)) < 0.03, rng.random((5000, 30)), 0))
    expected = agtf.cluster(views, 4)._anchors.schemes
    found = agtf.cluster(chunked(views, (1, 2000, 2999)), 4)._anchors.schemes
    for mine, whole in zip(found, expected):
        for a, b in zip(mine.scalings, whole.scalings):
            assert a.name == b.name and a.weight == b.weight
            assert_array_equal(a.factor, b.factor)
            assert_array_equal(a.shift, b.shift)
            assert a.centre is None and b.centre is None or (a.centre == b.centre).all()


def test_bad_input(digits):
    lazy = chunked(digits)
    short = lazy[1][:-1]
    with pytest.raises(ValueError, match=r"views\[1\] has 1796 rows, views\[0\] has 1797"):
        agtf.cluster([lazy[0], short], 10)
    with pytest.raises(ValueError, match=r"views\[0\] has shape \(1797,\); expected 2D array"):
        agtf.cluster([lazy[0][:, 0], lazy[1]], 10)
    with pytest.raises(ValueError, match="Complex data not supported"):
        agtf.cluster([lazy[0] * 1j, lazy[1]], 10)
    with pytest.raises(ValueError, match=r"views\[0\] has 0 sample\(s\)"):
        agtf.cluster([view[:0] for view in lazy], 10)
    words = da.from_array(np.array([["a", "b"]] * 40, object), chunks=20)
    with pytest.raises(TypeError, match=r"views\['w'\] is not numeric"):
        agtf.cluster({"w": words}, 2)
    with pytest.raises(ValueError, match=r"mask must be a boolean array of shape \(1797, 4\)"):
        agtf.cluster(lazy, 10, mask=np.ones((1797, 3), bool))
    with pytest.raises(ValueError, match="number of clusters"):
        agtf.cluster(lazy, 1798)


def test_frames_of_dask_are_refused(digits):
    frame = pytest.importorskip("dask.dataframe").from_array(digits[0])
    with pytest.raises(TypeError, match=r"views\[0\] is a DataFrame of Dask: give a dask array"):
        agtf.cluster([frame], 10)


@pytest.mark.parametrize("where", ("threads", "cluster"))
def test_errors_name_the_rows_of_the_whole(digits, where, request):
    active = request.getfixturevalue("client").as_current() if where == "cluster" else dask.config.set({})
    views = [view.astype(float) for view in digits]
    views[2][1700, 4] = np.nan
    with active:
        with pytest.raises(ValueError, match=r"views\[2\] contains NaN .* first in row 1700, column 4"):
            agtf.cluster(chunked(views), 10)
        result = agtf.cluster(digits, 10)
        with pytest.raises(ValueError, match=r"views\[2\] contains NaN .* first in row 1700, column 4"):
            result.predict(chunked(views))[1690:].compute()
        nowhere = [view.astype(float) for view in digits]
        for view in nowhere:
            view[1111] = np.nan
        with pytest.raises(ValueError, match=r"1 sample\(s\) were seen in no view, first sample 1111"):
            agtf.cluster(chunked(nowhere), 10)


@pytest.mark.parametrize(
    "options",
    [{"axis": "sample"}, {"anchors": "vda"}, {"anchors": np.arange(30)}, {"init": "identity"},
     {"init": np.arange(1797) % 10}, {"impute": "mean"}, {"callback": print}],
    ids=str,
)  # fmt: skip
def test_options_that_need_all_rows_are_refused(digits, options):
    with pytest.raises(ValueError, match=f"with dask arrays, .* {next(iter(options))} must be one of"):
        agtf.cluster(chunked(digits), 10, **options)


def test_warnings_are_those_of_memory():
    alike = [np.repeat(np.arange(3.0)[:, None], 40, axis=0) + np.zeros((120, 4))]
    views, holes = blobs(100, 3)[0], np.zeros((100, 2), bool)
    holes[:45, 0] = holes[50:, 1] = True
    for given, k, mask, text in (
        (alike, 4, None, "1 of 4 clusters are empty"),
        (views, 3, ~holes, "has only 5 sample"),
    ):
        told = []
        for form in (given, chunked(given, (60, len(given[0]) - 60))):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                agtf.cluster(form, k, mask=mask)
            assert {warning.filename for warning in caught} == {__file__}
            told.append([str(warning.message) for warning in caught])
        assert told[0] == told[1] and text in told[0][0]


def test_an_interrupt_leaves_nothing_behind(client, digits, monkeypatch):
    dask, calls = agtf._dask, []

    def interrupted(name, *arguments, **options):
        calls.extend([name] * (name == "compute"))
        if len(calls) == 20:
            raise KeyboardInterrupt
        return dask(name, *arguments, **options)

    monkeypatch.setattr(agtf, "_dask", interrupted)
    gc.collect()
    before = held(client)  # of other tests
    with client.as_current():
        with pytest.raises(KeyboardInterrupt) as caught:
            agtf.cluster(chunked(digits), 10)
        assert eventually(lambda: held(client) <= before, 60)
    assert caught.tb is not None  # though its frames are still there


def test_a_closed_client(digits):
    options = dict(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        lazy = [view.persist() for view in chunked(digits)]
    assert_array_equal(
        agtf.cluster(chunked(digits), 10).labels.compute(), agtf.cluster(digits, 10).labels
    )  # on threads
    with pytest.raises(ValueError, match=r"views\[0\] lies with a client of Dask that was closed"):
        agtf.cluster(lazy, 10)


@pytest.mark.slow
def test_a_worker_that_dies_is_survived(digits, few, monkeypatch):
    polar, calls = agtf._polar, []
    options = dict(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="2GB")
    expected = agtf.cluster(digits, 10)
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:

        def deadly(*arguments):
            calls.append(1)
            if len(calls) == 3:
                held_by = client.run(lambda dask_worker: len(dask_worker.data))
                victim = client.run(os.getpid)[max(held_by, key=held_by.get)]
                os.kill(victim, signal.SIGKILL)
            return polar(*arguments)

        monkeypatch.setattr(agtf, "_polar", deadly)
        assert_same(agtf.cluster(chunked(digits), 10), expected)
    assert len(calls) > 3


@pytest.mark.slow
def test_the_benchmark_of_scale(tmp_path):
    script, file = ROOT / "tests" / "benchmarks" / "scale.py", tmp_path / "scale.json"
    command = [sys.executable, script, "--sizes", "30000", "--limit", "1GB", "--json", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = {row["mode"]: row for row in json.loads(file.read_text())["rows"]}
    assert {mode: row["agreement"] for mode, row in rows.items()} == {"memory": 1.0, "memmap": 1.0, "dask": 1.0}
    # A few times what G, S^T*H (3 x 1000 anchors, 4 x 10 columns) and the matrices of 40 x 40 take.
    assert 1 < rows["dask"]["mb_per_iteration"] < 30


def test_tables_in_memory_are_read_by_blocks_too():
    """So that a view mapped from a file need not fit into the memory."""
    n, sizes = 30_000, []

    class Mapped(np.ndarray):
        def __getitem__(self, at):
            rows = np.asarray(self)[at]
            sizes.append(len(rows))
            return rows

        def __array_ufunc__(self, *arguments, **options):
            raise AssertionError("all rows at once")

        __array_function__ = __array_ufunc__

    views, y = blobs(n, 2)
    tables = agtf._as_tables(views)
    tables.tables = [table.view(Mapped) for table in tables.tables]
    result = agtf._cluster(tables, None, agtf.AGTF(2), fewest=2)
    assert agtf.score(y, result.labels)["ACC"] == 1.0
    assert max(sizes) <= 8192 and sum(sizes) > 10 * n


def test_without_dask():
    """Without Dask the module imports, and clusters arrays."""
    script = """
import sys
sys.modules["dask"] = sys.modules["distributed"] = None
import agtf, numpy as np
print(agtf.cluster([np.repeat(np.eye(3), 20, axis=0) + np.linspace(0, 0.1, 60)[:, None]], 3).labels.shape)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "(60,)", done.stderr
    script = "import sys, agtf; assert not {'dask', 'distributed'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0


def small_views(n=300):
    """Two views in which three clusters are clear, and their classes."""
    return blobs(n=n, k=3, widths=(4, 5), spread=1.0)


def in_chunks(view):
    return da.from_array(view, chunks=(100, -1))


def test_frames_beside_dask_arrays_are_matched_by_label():
    pandas = pytest.importorskip("pandas")
    (X, Z), y = small_views()
    names = [f"s{i}" for i in range(len(y))]
    frame = pandas.DataFrame(Z, index=names)
    mixed = frame.sample(frac=1, random_state=0)
    noise = np.random.default_rng(0).normal(size=(len(y), 2))
    found = agtf.cluster([in_chunks(noise), frame, mixed], 3)
    assert found.score(y)["ACC"] > 0.95
    assert found.explain("s3").sample == 3
    columns = pandas.DataFrame(X, columns=list("abcd"))
    model = agtf.cluster([columns, Z], 3)
    ahead = model.predict([columns[list("dcba")], in_chunks(Z)])
    assert_array_equal(ahead.compute(), model.predict([columns, Z]))


def test_chunks_that_are_not_as_announced():
    (X, Z), _ = small_views()
    shorter = in_chunks(X).map_blocks(lambda block: block[10:], dtype=float)
    with pytest.raises(
        ValueError, match=r"views\[0\] from row \d+ on has shape \(90, 4\), not \(100, 4\) as announced"
    ):
        agtf.cluster([shorter, in_chunks(Z)], 3)
    with pytest.raises(ValueError, match="as announced"):
        agtf.cluster([X, Z], 3).predict([shorter, in_chunks(Z)]).compute()


def test_a_mask_of_unknown_size():
    (X, Z), _ = small_views()
    mask = np.random.default_rng(0).random((len(X), 2)) < 0.8
    mask[~mask.any(axis=1)] = True
    unknown = in_chunks(mask)[da.ones(len(X), chunks=100, dtype=bool)]
    found = agtf.cluster([in_chunks(X), in_chunks(Z)], 3, mask=unknown)
    assert_array_equal(found.labels.compute(), agtf.cluster([X, Z], 3, mask=mask).labels)


def test_a_result_of_a_closed_client():
    (X, Z), y = small_views()
    options = dict(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        model = agtf.AGTF(3).fit([in_chunks(X), in_chunks(Z)])
        saved, labels = pickle.dumps(model), model.labels_.compute()
    for ask in (model.result_.describe, lambda: model.result_.explain(3), lambda: model.result_.score(y)):
        with pytest.raises(ValueError, match="client of Dask that was closed: call result.compute"):
            ask()
    assert_array_equal(pickle.loads(saved).labels_, labels)


def test_threads_leave_the_configuration_of_dask():
    name, (X, Z) = "distributed.admin.large-graph-warning-threshold", small_views()[0]
    before = dask.config.get(name)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: agtf.cluster([in_chunks(X), in_chunks(Z)], 3), range(6)))
    assert dask.config.get(name) == before


def test_scores_and_pictures_take_dask_arrays(monkeypatch):
    (X, Z), y = small_views()
    found = agtf.cluster([in_chunks(X), in_chunks(Z)], 3)
    assert agtf.score(in_chunks(y[:, None])[:, 0], found.labels) == found.score(y) == found.compute().score(y)
    assert agtf.plot_confusion(y, found.labels).get_title() == f"ACC {found.score(y)['ACC']:.3f}"
    assert agtf.plot_embedding(found.memberships, found.labels).collections
    assert agtf.plot_gallery(found, np.ones((len(y), 2, 2))).images
    monkeypatch.setattr(agtf, "_DRAWN", 100)
    ax = agtf.plot_indicator(found)
    assert ax.images[0].get_array().shape == (100, 3) and ax.get_ylabel() == "one sample in 3, ordered by cluster"


def test_profiles_of_wide_chunks_are_pooled_one_by_one(monkeypatch):
    sizes, pooled = [], agtf._pooled
    monkeypatch.setattr(agtf, "_pooled", lambda parts: sizes.append(len(parts)) or pooled(parts))
    X = blobs(n=3000, k=3, widths=(4,), spread=1.0)[0][0]
    found = agtf.cluster([da.from_array(X, chunks=(1500, -1))], 3)
    assert max(sizes) == 2 and len(sizes) > 3
    for c in range(3):
        at = np.asarray(found.labels) == c
        assert_allclose(found._profile[0][1][c], X[at].mean(axis=0))
        assert_allclose(found._profile[0][2][c], X[at].var(axis=0))
