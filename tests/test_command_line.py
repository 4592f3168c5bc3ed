"""python -m agtf, as a user types it."""

import csv
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from conftest import ROOT, blobs, needs_jit
from scipy.io import savemat

import agtf


def run(*arguments, cwd):
    command = [sys.executable, "-m", "agtf", *map(str, arguments)]
    env = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


@pytest.fixture
def data_file(tmp_path):
    views, y = blobs()
    X = np.empty((1, 2), object)
    X[0, :] = views
    savemat(tmp_path / "data.mat", {"X": X, "Y": y[:, None] + 1})
    return tmp_path / "data.mat"


@needs_jit
def test_without_arguments_it_shows_the_digits(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    for word in ("AGTF, all views", "k-means, all views", "AGTF, profiles only", "ACC", "set apart by", "samples"):
        assert word in done.stdout
    assert (tmp_path / "agtf-digits.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_is_clustered(data_file, capsys):
    labels = data_file.with_name("labels.csv")
    assert agtf._main([str(data_file), "-k", "3", "-o", str(labels)]) == 0
    out, err = capsys.readouterr()
    assert "60 samples, 2 views: view 0 (4), view 1 (6)" in out and "cluster sizes: 20, 20, 20" in out and err == ""
    views, y = agtf.load_views(data_file)
    written = np.loadtxt(labels, skiprows=1, dtype=int)
    np.testing.assert_array_equal(written, agtf.cluster(views, 3).labels)
    assert agtf._main([str(data_file)]) == 0  # as many clusters as the labels in the file


@needs_jit
def test_a_file_is_clustered_in_a_process_of_its_own(data_file):
    done = run(data_file, "-k", 3, "-o", "labels.csv", "--quiet", cwd=data_file.parent)
    assert done.returncode == 0 and done.stderr == ""
    assert data_file.with_name("labels.csv").read_text().startswith("label\n")


def test_wrong_use_gives_one_line_and_code_2(data_file, capsys):
    folder = data_file.parent
    (folder / "broken.mat").write_bytes(b"MATLAB 5.0 MAT-file, but not really")
    np.savez(folder / "bare.npz", a=np.ones((5, 2)))
    for arguments in (
        [folder / "missing.mat", "-k", 3],
        [folder / "broken.mat", "-k", 3],
        [data_file, "-k", 100],
        [data_file, "-k", 3, "-o", data_file],
        [data_file, "-k", 3, "-o", folder / "no" / "labels.csv"],
        [folder / "table.txt", "-k", 3],
        [folder / "bare.npz"],
    ):
        assert agtf._main(list(map(str, arguments))) == 2, arguments
        out, err = capsys.readouterr()
        assert err.startswith("agtf: ") and err.count("\n") == 1 and "Traceback" not in err
    for arguments in (["-k", "3"], ["--clusters", "many"]):
        with pytest.raises(SystemExit) as stop:
            agtf._main(arguments)
        assert stop.value.code == 2


def test_help_explains(capsys):
    with pytest.raises(SystemExit) as stop:
        agtf._main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for word in ("Without arguments", "-k", "-o", "--quiet", ".mat"):
        assert word in out


def test_a_folder_of_broken_files(data_file, capsys):
    folder, whole = data_file.parent, data_file.read_bytes()
    np.savez(folder / "good.npz", a=np.ones((5, 2)), b=np.ones((5, 3)))
    npz = (folder / "good.npz").read_bytes()
    broken = {
        "half.mat": whole[: len(whole) // 2],
        "head.mat": whole[:100],
        "empty.mat": b"",
        "flipped.mat": whole[:128] + bytes(255 - b for b in whole[128:300]) + whole[300:],
        "v73.mat": b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(600),
        "half.npz": npz[: len(npz) // 2],
        "text.npz": b"not a zip file",
        "empty.npz": b"",
        "words.csv": b"a,b\n1,two\n3,4\n",
        "ragged.csv": b"1,2\n3\n4,5\n",
        "empty.csv": b"",
        "binary.csv": bytes(range(256)),
        "holes.csv": b"a,b\n1,\n3,4\n5,6\n",
    }
    for name, content in broken.items():
        (folder / name).write_bytes(content)
    np.savez(folder / "objects.npz", X=np.array([{}, []], object))
    np.savez(folder / "ragged.npz", a=np.ones((5, 2)), b=np.ones((7, 3)))
    savemat(folder / "lengths.mat", {"X": np.array([[np.ones((4, 2)), np.ones((5, 3))]], object)})
    savemat(folder / "struct.mat", {"X": {"a": 1}})
    for name in [*broken, "objects.npz", "ragged.npz", "lengths.mat", "struct.mat"]:
        assert agtf._main([str(folder / name), "-k", "2", "-o", str(folder / "out.csv")]) == 2, name
        out, err = capsys.readouterr()
        assert err.startswith("agtf: ") and err.count("\n") == 1, (name, err)
        assert not (folder / "out.csv").exists()


def test_output_is_whole_or_not_there(data_file, monkeypatch):
    labels = data_file.with_name("labels.csv")
    labels.write_text("old\n")
    monkeypatch.setattr(agtf.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    assert agtf._main([str(data_file), "-k", "3", "-o", str(labels)]) == 2
    assert labels.read_text() == "old\n"


def test_show_prints_contents_and_clusters_nothing(data_file, capsys, monkeypatch):
    monkeypatch.delattr(agtf, "cluster")
    X, Z = np.empty((1, 2), object), np.arange(24.0).reshape(6, 4)
    X[0, :] = [np.where(np.arange(6)[:, None] < 2, np.nan, Z), Z]
    path = data_file.with_name("wild.mat")
    savemat(path, {"X": X, "gt": np.array([1, 1, 1, 2, 2, 2]), "note": "hello"})
    assert agtf._main([str(path), "--show"]) == 0
    out, err = capsys.readouterr()
    lines = [line.strip() for line in out.splitlines()]
    assert "X: cell array (1, 2) (6, 4), (6, 4)" in lines and "note: text (1,)" in lines and err == ""
    assert "view 0: 6 samples, 4 features, 2 missing rows" in lines
    assert "view 1: 6 samples, 4 features, 0 missing rows" in lines and "labels: 6, 2 different" in lines
    savemat(path, {"a": X, "b": X[:, ::-1]})
    assert agtf._main([str(path), "--show"]) == 2
    out, err = capsys.readouterr()
    assert "a: cell array (1, 2)" in out and "several cell arrays that could be the views: a, b" in err
    (data_file.parent / "p.csv").write_text("p,q\n1,2\n3,4\n")
    assert agtf._main([str(data_file.parent / "p.csv"), "--show"]) == 0
    out = capsys.readouterr().out
    assert "p: 2 samples, 2 features, 0 missing rows" in out and "no labels" in out
    assert agtf._main(["--show"]) == 2 and "give one .mat file" in capsys.readouterr().err


def test_show_counts_missing_rows_of_sparse_views(tmp_path, capsys):
    X = np.empty((1, 1), object)
    X[0, 0] = scipy.sparse.csc_matrix(np.eye(5, 3))
    index = np.empty((1, 1), object)
    index[0, 0] = [1, 5]
    savemat(tmp_path / "s.mat", {"X": X, "index": index, "Y": np.arange(5)})
    assert agtf._main([str(tmp_path / "s.mat"), "--show"]) == 0
    assert "view 0: 5 samples, 3 features, 3 missing rows" in capsys.readouterr().out


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header, list(zip(*rows))


@pytest.fixture
def named_files(tmp_path):
    """Two tables with names of samples and features, and the DataFrames that they hold."""
    pandas = pytest.importorskip("pandas")
    views, y = blobs()
    samples = [f'sample "{i}", <b>' for i in range(60)]
    frames = {}
    for name, view in zip(("soil", "air"), views):
        frames[name] = pandas.DataFrame(view, samples, [f"{name} {c}" for c in range(view.shape[1])])
        frames[name].to_csv(tmp_path / f"{name}.csv", index_label="id")
    return [str(tmp_path / f"{name}.csv") for name in frames], frames


def test_names_memberships_report_and_model(named_files, tmp_path, capsys):
    paths, frames = named_files
    labels, report, model = (str(tmp_path / name) for name in ("labels.csv", "report.html", "model.npz"))
    outputs = ["-o", labels, "--memberships", "--report", report, "--save", model]
    assert agtf._main([*paths, "-k", "3", "--names", *outputs]) == 0
    out, err = capsys.readouterr()
    assert "2 views: soil (4), air (6)" in out and err == ""
    assert f"labels: {labels}\nreport: {report}\nmodel: {model}\n" in out
    expected = agtf.cluster(frames, 3)
    header, (samples, found, *memberships) = read_csv(labels)
    assert header == ["sample", "label", "cluster 0", "cluster 1", "cluster 2"]
    assert list(samples) == list(frames["soil"].index)
    np.testing.assert_array_equal(np.array(found, int), expected.labels)
    np.testing.assert_allclose(np.array(memberships, float).T, expected.memberships, atol=1e-6)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "air: air " in page and "3 clusters of 60 samples" in page
    saved = agtf.load(model)
    assert saved.view_names == ["soil", "air"] and saved.sample_names == list(frames["soil"].index)

    new = [str(tmp_path / f"new {name}.csv") for name in frames]
    for path, frame in zip(new, frames.values()):
        frame.iloc[10:30].to_csv(path, index_label="id")
    assert agtf._main([*new, "--predict", model, "-o", labels, "--memberships"]) == 0
    assert "20 samples" in capsys.readouterr().out
    header, (found, *memberships) = read_csv(labels)
    assert header[0] == "label"
    some = [frame.iloc[10:30] for frame in frames.values()]
    np.testing.assert_array_equal(np.array(found, int), saved.predict(some))
    np.testing.assert_allclose(np.array(memberships, float).T, saved.predict_memberships(some), atol=1e-6)
    assert agtf._main([*new, "--predict", model, "--names", "-o", labels]) == 2  # other names of views
    assert "2 unknown ['new air', 'new soil']" in capsys.readouterr().err


def test_columns_in_another_order_are_matched_with_the_models(named_files, tmp_path):
    paths, frames = named_files
    model, labels, again = (str(tmp_path / name) for name in ("model.npz", "labels.csv", "again.csv"))
    assert agtf._main([*paths, "-k", "3", "--names", "--save", model, "-o", labels]) == 0
    for path, frame in zip(paths, frames.values()):
        frame.iloc[:, ::-1].to_csv(path, index_label="id")
    assert agtf._main([*paths, "--predict", model, "-o", again]) == 0
    assert read_csv(again)[1][0] == read_csv(labels)[1][1]


def test_samples_without_a_class(tmp_path, capsys):
    pytest.importorskip("pandas")
    (view, _), y = blobs()
    rows = [f"{a},{b},{'' if i == 3 else 'xyz'[c]}" for i, ((a, b), c) in enumerate(zip(view[:, :2], y))]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,label", *rows]))
    for arguments in (["-o", str(tmp_path / "labels.csv")], ["--show"]):
        assert agtf._main([str(tmp_path / "a.csv"), *arguments]) == 0
        assert ("labels: 60, 3 different" if "--show" in arguments else "ACC") in capsys.readouterr().out
    assert len(read_csv(tmp_path / "labels.csv")[1][0]) == 60


def test_real_numbers_are_no_classes_to_count(tmp_path, capsys):
    pytest.importorskip("pandas")
    (view, _), _ = blobs()
    np.savetxt(tmp_path / "xyz.csv", view[:, :3], delimiter=",", header="x,y,z", comments="")
    assert agtf._main([str(tmp_path / "xyz.csv")]) == 2
    assert "no labels to count, whole numbers or text: give -k" in capsys.readouterr().err


@pytest.mark.parametrize("k", ["3", "auto"])
def test_single_holes_are_filled_on_demand(tmp_path, capsys, k):
    views, _ = blobs()
    views[0][5, 1] = np.nan
    np.savez(tmp_path / "holes.npz", a=views[0], b=views[1])
    arguments = [str(tmp_path / "holes.npz"), "-k", k, "-o", str(tmp_path / "labels.csv")]
    assert agtf._main(arguments) == 2 and 'impute="mean"' in capsys.readouterr().err
    assert agtf._main([*arguments, "--impute"]) == 0
    found = np.array(read_csv(tmp_path / "labels.csv")[1][0], int)
    np.testing.assert_array_equal(found, agtf.cluster(views, 3, impute="mean").labels)


def test_outputs_are_checked_before_any_work(data_file, capsys, monkeypatch):
    monkeypatch.delattr(agtf, "load_views")
    monkeypatch.delattr(agtf, "digits_views")
    data, x = str(data_file), str(data_file.with_name("x"))
    nowhere, folder = str(data_file.with_name("nope") / "x.csv"), str(data_file.parent)
    for arguments, why in (
        ([data, "-k", "3", "-o", x, "--report", x], "x cannot be written: an input, given twice"),
        (
            [data, "-k", "3", "--report", x, "--save", os.path.join(folder, ".", "x")],
            "x cannot be written: an input, given twice",
        ),
        ([data, "-k", "3", "--save", nowhere], f"{nowhere} cannot be written: an input, given twice, no file, or"),
        ([data, "-k", "3", "-o", folder], f"{folder} cannot be written"),
        (["-o", nowhere], f"{nowhere} cannot be written: an input, given twice, no file, or"),
    ):
        assert agtf._main(arguments) == 2, arguments
        assert why in capsys.readouterr().err


def test_without_names_the_files_names_do_not_matter(named_files, tmp_path, capsys):
    paths, frames = named_files
    assert agtf._main([*paths, "-k", "3", "-o", str(tmp_path / "labels.csv")]) == 0
    assert "view 0 (4), view 1 (6)" in capsys.readouterr().out
    header, columns = read_csv(tmp_path / "labels.csv")
    assert header == ["label"]
    np.testing.assert_array_equal(np.array(columns[0], int), agtf.cluster(list(frames.values()), 3).labels)


@pytest.mark.parametrize("spread, sure", [(0.3, "clear"), (4.0, "a guess")])
def test_k_auto_says_how_sure_it_is(tmp_path, capsys, spread, sure):
    views, _ = blobs(n=120, k=4, widths=(5, 6), spread=spread)
    np.savez(tmp_path / "data.npz", a=views[0], b=views[1])
    suggestion = agtf.suggest_k(views, 20)
    first, second = suggestion.candidates[:2]
    assert agtf._main([str(tmp_path / "data.npz"), "-k", "auto"]) == 0
    out = capsys.readouterr().out
    drops = [1 - suggestion.spectrum[k] / suggestion.spectrum[k - 1] for k in (first, second)]
    start = f"k = {first} is {sure}: the graphs' spectrum drops by {drops[0]:.0%} after {first}, {drops[1]:.0%} after "
    assert f"{start}{second}" in out
    sizes = out.split("cluster sizes: ")[1].split("\n")[0].split(", ")
    assert len(sizes) == first and sum(map(int, sizes)) == 120
    assert sure == "a guess" or first == 4


def test_files_beside_the_outputs_stay_and_links_lead_on(data_file, tmp_path):
    keep, page, target = tmp_path / "labels.csv.part", tmp_path / "labels.csv", tmp_path / "elsewhere.csv"
    keep.write_text("mine")
    target.write_text("old")
    page.symlink_to(target)
    assert (
        agtf._main([str(data_file), "-k", "3", "-o", str(page), "--report", str(tmp_path / "labels.csv.part.html")])
        == 0
    )
    assert keep.read_text() == "mine" and page.is_symlink() and target.read_text().startswith("label")
    left = {path.name for path in tmp_path.iterdir()} - {data_file.name}
    assert left == {"labels.csv", "labels.csv.part", "labels.csv.part.html", "elsewhere.csv"}


def test_options_that_do_not_go_together(data_file, capsys):
    data, model = str(data_file), str(data_file.with_name("model.npz"))
    for arguments in (
        [data, "--predict", model, "-k", "3"],
        [data, "--predict", model, "--save", "other.npz"],
        [data, "--predict", model, "--report", "report.html"],
        [data, "--predict", model, "--impute"],
        ["--report", "report.html"],
        ["--predict", model],
    ):
        with pytest.raises(SystemExit) as stop:
            agtf._main(arguments)
        assert stop.value.code == 2
    told = capsys.readouterr().err
    assert told.count("leave one or the other out") == 4 and told.count("need data files") == 2
    with pytest.raises(SystemExit):
        agtf._main([data, "-k", "x"])
    assert "-k must be a whole number or auto, got x" in capsys.readouterr().err
    assert agtf._main([data, "-k", "3", "--save", model]) == 0
    whole = data_file.with_name("model.npz").read_bytes()
    capsys.readouterr()
    wrong = [["--predict", model, "-o", model], ["-k", "3", "--save", data], ["-k", "3", "--report", data]]
    for broken, content in {"half.npz": whole[: len(whole) // 2], "text.npz": b"no zip", "empty.npz": b""}.items():
        data_file.with_name(broken).write_bytes(content)
        wrong.append(["--predict", str(data_file.with_name(broken))])
    for arguments in [*wrong, ["--predict", data], ["--predict", str(data_file.with_name("nowhere.npz"))]]:
        assert agtf._main([data, *arguments]) == 2, arguments
        err = capsys.readouterr().err
        assert err.startswith("agtf: ") and err.count("\n") == 1
    assert data_file.with_name("model.npz").read_bytes() == whole and agtf.load_views(data_file)[1] is not None


def test_a_model_knows_the_files_columns_without_names_too(named_files, tmp_path, capsys):
    paths, frames = named_files
    model, labels, again = (str(tmp_path / name) for name in ("model.npz", "labels.csv", "again.csv"))
    assert agtf._main([*paths, "-k", "3", "--save", model, "-o", labels]) == 0
    assert agtf.load(model).view_names == ["view 0", "view 1"] and read_csv(labels)[0] == ["label"]
    assert agtf._main([*paths[::-1], "--predict", model]) == 2
    assert "are not those that the model was fitted on" in capsys.readouterr().err
    for path, frame in zip(paths, frames.values()):
        frame.iloc[:, ::-1].to_csv(path, index_label="id")
    assert agtf._main([*paths, "--predict", model, "-o", again]) == 0
    assert read_csv(again) == read_csv(labels)


def test_files_with_and_without_names_of_samples(named_files, tmp_path, capsys):
    paths, frames = named_files
    bare = tmp_path / "bare.csv"
    frames["air"].to_csv(bare, index=False)
    with pytest.warns(UserWarning, match="bare.csv does not name the samples: its rows .* order of .*soil"):
        assert agtf._main([paths[0], str(bare), "-k", "3"]) == 0
    assert "60 samples, 2 views: view 0 (4), view 1 (6)" in capsys.readouterr().out
