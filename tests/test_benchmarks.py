"""The parts of the benchmarks that could be wrong without looking wrong: cut classes, resumed runs, calibration."""

import json
import pathlib
import re
import sys
from types import SimpleNamespace

import conftest
import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.preprocessing import normalize, scale

sys.path.insert(0, str(pathlib.Path(__file__).parent / "benchmarks"))

import accuracy  # noqa: E402
import all as everything  # noqa: E402
import datasets  # noqa: E402
import missing  # noqa: E402
import speed  # noqa: E402


def test_cut_classes_shrink_by_the_rule():
    y = np.repeat(np.arange(4), (100, 200, 40, 300))
    views, classes = datasets.cut([np.arange(len(y))[:, None]], y, seed=3)
    assert np.array_equal(y[views[0][:, 0]], classes)  # rows and labels stay together
    assert len(np.unique(views[0])) == len(classes)
    shares = np.bincount(classes) / np.bincount(y)
    np.testing.assert_allclose(np.sort(shares)[::-1], [1, 10 ** (-1 / 3), 10 ** (-2 / 3), 0.1], atol=0.02)


def test_cut_follows_the_seed_and_leaves_five():
    y = np.repeat(np.arange(3), (20, 20, 3))
    X = np.arange(len(y))[:, None]
    kept = [datasets.cut([X], y, seed)[0][0][:, 0] for seed in range(6)]
    assert np.array_equal(kept[0], datasets.cut([X], y, 0)[0][0][:, 0])
    assert len({tuple(rows) for rows in kept}) > 3
    sizes = [np.bincount(y[rows]) for rows in kept]
    assert all(size[2] == 3 and size[:2].min() >= 5 for size in sizes)
    assert min(size[:2].min() for size in sizes) == 5  # a tenth of 20 would be 2


def test_groups_are_disjoint_and_known():
    names = [name for some in datasets.GROUPS.values() for name in some]
    assert len(names) == len(set(names)) == len(datasets.SETS) + len(datasets.CUT) + len(datasets.EMBEDDED)
    assert set(map(datasets.origin, names)) == set(datasets.SETS)


def test_embedded_views_are_their_leading_singular_directions():
    X = np.random.default_rng(0).normal(size=(90, 70)) + 3
    embedded = datasets.embed(X)
    assert embedded.shape == (90, 64)
    expected = np.linalg.svd(scale(X), compute_uv=False)[:64]
    np.testing.assert_allclose(np.linalg.norm(embedded, axis=0)[:20], expected[:20], rtol=0.03)
    words = embedded * (embedded > 1)  # mostly zeros
    np.testing.assert_allclose(np.linalg.norm(datasets.embed(words), axis=1).max(), 1, atol=0.01)


def test_our_scaling_gives_every_view_the_same_variance():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.2, (50, 30))  # mostly zeros
    dense = rng.normal(3, [1, 100, 0.01], (50, 3))
    X = datasets.our_scaling([counts, dense])
    np.testing.assert_allclose([X[:, :30].var(axis=0).sum(), X[:, 30:].var(axis=0).sum()], 1)
    for part, expected in ((X[:, :30], normalize(counts.astype(float))), (X[:, 30:], scale(dense))):
        ratio = pdist(part) / pdist(expected)
        np.testing.assert_allclose(ratio, ratio[0])


def test_bins_count_samples_in_the_cluster_of_their_class():
    y = np.array([0, 0, 0, 1, 1, 1])
    sure = np.array([0.95, 0.95, 0.6, 0.8, 0.4, 1.0])
    label = np.array([2, 2, 0, 0, 0, 2])  # cluster 2 is class 0, cluster 0 is class 1, cluster 1 is empty
    memberships = np.repeat((1 - sure[:, None]) / 2, 3, axis=1)
    memberships[np.arange(6), label] = sure
    expected = [[1, 0.4, 1], [1, 0.6, 0], [1, 0.8, 1], [2, 1.9, 2], [1, 1.0, 0]]
    np.testing.assert_allclose(accuracy.bins(memberships, y), expected)
    lines = accuracy.calibration_table([{"bins": expected}, {"ACC": 1.0}, {"bins": expected}]).splitlines()
    assert lines[2] == "| 0 to 0.5 | 2 | 0.400 | 1.000 |" and len(lines) == 7


def test_a_stopped_run_goes_on(tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    known = {"set": "digits-cut", "method": "k-means", "seed": 0, "ACC": -1.0, "NMI": 0.0, "ARI": 0.0, "seconds": 0.0}
    file.write_text(json.dumps(known) + "\n")
    tasks = [("digits-cut", "k-means", seed) for seed in (1, 0)]
    first = accuracy.run_all(accuracy.run, tasks, 1, file)
    assert first[1] == known and first[0]["ACC"] > 0.4  # read; computed
    assert [json.loads(line) for line in file.read_text().splitlines()] == first
    capsys.readouterr()
    assert accuracy.run_all(accuracy.run, tasks, 1, file) == first
    assert capsys.readouterr().out == ""  # nothing was computed


def test_means_are_of_sets_not_of_rows():
    rows = [{"set": name, "method": "agtf", "ACC": value} for name, value in (("a", 0.0), ("a", 0.0), ("b", 1.0))]
    assert accuracy.mean(rows, ["a", "b"], "agtf", "ACC") == pytest.approx(0.5)
    line = accuracy.table(rows, "ACC", ["a", "b"], ["agtf"]).splitlines()[-1]
    assert line == "| agtf | 0.000 ± 0.000 | 1.000 ± 0.000 | **0.500** |"


@pytest.mark.parametrize("dense", [True, False])
def test_the_plain_solver_that_is_timed_does_the_same_iterations(dense):
    m, V, K = 24, 3, 4
    rows, y = speed.graph_of_clusters(80, m, V, K, 5)
    times, *ours = speed.seconds_per_iteration(rows, y, m, V, K, 3)
    plain_times, *plain = speed.plain_iterations(rows, y, m, V, K, 3, dense)
    assert len(times) == len(plain_times) == 3
    for X, Z in zip(ours, plain):
        np.testing.assert_allclose(X.reshape(-1, V, K).transpose(1, 0, 2), Z, atol=1e-8)


@conftest.needs_jit
def test_whole_runs_are_timed_beside_k_means():
    row = speed.job_beside_kmeans("made-up", 600)
    json.dumps(row)  # it is handed over by a process of its own
    assert row["n"] == 600 and row["ratio"] == row["agtf s"] / row["KMeans s"]
    assert min(row["agtf ACC"], row["KMeans ACC"], row["MiniBatch NMI"]) > 0.9


@pytest.mark.parametrize("rate", missing.MISSING)
def test_missing_pairs_leave_every_sample_a_view(rate):
    seen = missing.missing(20_000, 3, rate, np.random.default_rng(0))
    assert seen.any(axis=1).all()
    expected = 1 - rate + rate**3 / 3  # a sample that would be seen nowhere, of probability rate^3, gets one of 3 back
    np.testing.assert_allclose(seen.mean(axis=0), expected, atol=0.02)


@pytest.mark.parametrize("ratio", missing.PAIRED)
def test_paired_samples_are_complete_and_the_others_seen_once(ratio):
    seen = missing.paired(1000, 4, ratio, np.random.default_rng(1))
    complete = seen.all(axis=1)
    assert complete.sum() == round(1000 * ratio)
    assert (seen[~complete].sum(axis=1) == 1).all()
    np.testing.assert_allclose(seen[~complete].mean(axis=0), 0.25, atol=0.1)


def test_holes_are_rows_of_nan_and_the_same_for_every_method():
    views, y = missing.draw("digits, missing 0.3", 4)
    again, _ = missing.draw("digits, missing 0.3", 4)
    whole, classes = datasets.draw("digits", 4)
    assert np.array_equal(y, classes)
    for view, same, full in zip(views, again, whole):
        gone = np.isnan(view).any(axis=1)
        assert 0.2 < gone.mean() < 0.4 and np.isnan(view[gone]).all()
        np.testing.assert_array_equal(view, same)
        np.testing.assert_array_equal(view[~gone], full[~gone])


def test_means_are_filled_in_for_k_means():
    view = np.array([[0.0, 1.0], [2.0, 5.0], [np.nan, np.nan], [0.0, 0.5], [2.0, 5.5]])
    found = missing.scaled(view)
    np.testing.assert_allclose(found[[0, 1, 3, 4]], scale(view[[0, 1, 3, 4]]) / np.sqrt(2))
    assert np.isnan(found[2]).all()
    other = np.array([[0.0], [9.0], [9.1], [0.0], [9.0]])
    labels = missing.imputed_k_means([view, other], 2, 0, None).labels_
    assert labels[2] == labels[1] == labels[4] != labels[0] == labels[3]


def test_methods_of_imml_are_called_with_holes(monkeypatch):
    """Its interface as of 0.6, where n_clusters must be an int of Python's own."""

    class Stub:
        def __init__(self, n_clusters, random_state):
            assert type(n_clusters) is int
            self.given = n_clusters, random_state

        def fit(self, views):
            assert any(np.isnan(view).any() for view in views)
            self.labels_ = np.zeros(len(views[0]), int)
            return self

    package = SimpleNamespace(cluster=SimpleNamespace(DAIMC=Stub))
    monkeypatch.setitem(sys.modules, "imml", package)
    monkeypatch.setitem(sys.modules, "imml.cluster", package.cluster)
    found = missing.METHODS["DAIMC"](missing.draw("digits, paired 0.5", 0)[0], np.int64(10), 3, None)
    assert found.given == (10, 3)


def test_what_failed_or_was_not_run_is_shown_as_such(monkeypatch):
    def fails(views, k, seed, y):
        raise ValueError("no complete sample")

    monkeypatch.setitem(missing.METHODS, "DAIMC", fails)
    row = missing.run("digits, paired 0", "DAIMC", 2)
    assert row == {"set": "digits, paired 0", "method": "DAIMC", "seed": 2, "error": "no complete sample"}
    good = {"set": "a", "method": "agtf", "ACC": 0.5, "NMI": 0.25, "ARI": 1.0}
    rows = [good, {**good, "ACC": 1.0}, {**row, "set": "a"}, {**good, "set": "b"}]
    lines = missing.table(rows).splitlines()
    assert lines[2] == "| a | 0.750 / 0.250 / 1.000 | failed |"
    assert lines[3] == "| b | 0.500 / 0.250 / 1.000 | not run |"


def made_up_report():
    """A report of the shape of a full run's, with every number 0.25 and the first accuracy of agtf 0.75."""
    scores = {"ACC": 0.25, "NMI": 0.25, "ARI": 0.25, "seconds": 0.25}
    tasks = [(name, method, seed) for name in ("MSRC", "WebKB") for method in accuracy.METHODS for seed in (0, 1)]
    rows = [{"set": name, "method": method, "seed": seed, **scores} for name, method, seed in tasks]
    rows[0] |= {"ACC": 0.75, "bins": [[4, 3.0, 1]] * 5}
    times = {"data": "made-up", "n": 10, "seconds": 0.5, "stages": {"iterating": 0.25}, "agtf s": 0.5}
    return {
        "machine": {"cores": 2},
        "seeds": {"accuracy": 2, "others": 2, "missing": 2},
        "accuracy": rows,
        "others": [{**row, "set": {"MSRC": "genes", "WebKB": "optdigits"}[row["set"]]} for row in rows],
        "missing": [{**row, "set": f"{row['set']}, paired 0.5"} for row in rows],
        "speed": {name: [times] for name in speed.SECTIONS},
        "scale": {"rows": [{"n": 10, "mode": "memory", "seconds": 0.5}]},
    }


def test_tables_are_written_between_their_marks_and_nothing_else_changes(tmp_path, monkeypatch):
    root, report = everything.ROOT, made_up_report()
    found = everything.pages(report)
    assert "| agtf | 0.500 / 0.250 / 0.250 | 0.250 / 0.250 / 0.250 |" in found["README.md"]
    assert "| WebKB, paired 0.5 | 0.250 / 0.250 / 0.250 |" in found["README.md"]
    assert "| 10 | memory | 0.5 |" in found["README.md"]
    page = found["tests/benchmarks/README.md"]
    assert "| mean of | 1 unrelated sets, ACC |" in page and "| MSRC, paired 0.5 | 0.500 / 0.250 / 0.250 |" in page
    assert "| made-up | 10 | 0.25, 50% |" in page
    assert "| 0 to 0.5 | 4 | 0.750 | 0.250 |" in page
    between = re.compile(r"(?<=<!-- )(\w+) -->.*?<!-- end of \1(?= -->)", re.DOTALL)
    for name, text in found.items():
        before, after = (re.sub(between, "", whole) for whole in ((root / name).read_text(encoding="utf-8"), text))
        assert before == after
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(everything, "ROOT", tmp_path)
    assert everything.pages(report) == found  # written again, the pages stay as they are


def test_no_generated_table_was_edited_by_hand():
    if not everything.RESULTS.exists():
        pytest.skip("no results.json: benchmarks/all.py has not been run")
    for page, text in everything.pages(json.loads(everything.RESULTS.read_text())).items():
        assert (everything.ROOT / page).read_text(encoding="utf-8") == text, f"{page}: run all.py --tables"


def test_a_run_goes_on_with_the_same_code_only(tmp_path, monkeypatch):
    begun = {"commit": "a", "changed": False}
    asked = []
    monkeypatch.setattr(everything, "code", lambda: begun)
    monkeypatch.setattr(everything, "run", lambda name, *_: asked.append(name) or [{"seed": 0}, {"seed": 1}])
    (tmp_path / "results.json").write_text(json.dumps({**begun, "machine": speed.machine(), "accuracy": [{"seed": 0}]}))
    report = everything.run_everything(tmp_path, False, None)
    assert "accuracy" not in asked and "others" not in asked and {"missing", "paper", "speed"} <= set(asked)
    assert report["seeds"] == {"accuracy": 1, "missing": 2}
    begun["commit"] = "b"
    with pytest.raises(SystemExit, match="other code"):
        everything.run_everything(tmp_path, False, None)
