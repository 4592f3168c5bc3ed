"""Scores, built-in digits and files."""

import re

import naive
import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import data_set
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import savemat
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import agtf

LABELS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=25)


@settings(max_examples=50, deadline=None)
@given(LABELS)
def test_scores_match_counting(pairs):
    y, labels = np.array(pairs).T
    scores, counted = agtf.score(y, labels), naive.pair_scores(y, labels)
    for name, twin in {"ACC": "ACC", "purity": "purity", "ARI": "ari", "NMI": "nmi"}.items():
        assert scores[name] == pytest.approx(counted[twin], abs=1e-9), name
    together = max(np.bincount(y).max(), np.bincount(labels).max()) > 1
    if together and counted["precision"] + counted["recall"] > 0:
        for name, twin in {"precision": "precision", "recall": "recall", "F-score": "f_score"}.items():
            assert scores[name] == pytest.approx(counted[twin], abs=1e-9), name
    assert scores["NMI"] == normalized_mutual_info_score(y, labels)
    assert scores["ARI"] == adjusted_rand_score(y, labels)


def test_scores_do_not_depend_on_names():
    y = np.array([0, 0, 1, 1, 2, 2, 2])
    assert set(agtf.score(y, np.array(list("bbccaaa"))).values()) == {1.0}
    half = agtf.score(y, np.zeros(7, int))
    assert half["ACC"] == half["purity"] == pytest.approx(3 / 7) and half["recall"] == 1.0
    alone = agtf.score(y, np.arange(7))
    assert alone["precision"] == 1.0 and alone["recall"] == 0.0 and alone["F-score"] == 0.0


@pytest.mark.parametrize("y, labels", [([0, 1, 1], [0, 1]), ([], []), ([[0, 1]], [[0, 1]])])
def test_scores_need_one_label_per_sample(y, labels):
    shapes = re.escape(f"y_true has shape {np.shape(y)}, labels {np.shape(labels)}")
    with pytest.raises(ValueError, match=shapes):
        agtf.score(y, labels)


def test_digits():
    views, y = agtf.digits_views()
    assert [v.shape for v in views] == [(1797, 64), (1797, 40), (1797, 72), (1797, 48)]
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    for view in views:
        assert np.isfinite(view).all() and (view.std(axis=0) > 0).mean() > 0.8


@pytest.mark.parametrize(
    "name, widths, k",
    [
        ("MSRC", [24, 576, 512, 256, 254], 7),
        ("HW1256", [76, 216, 47, 6], 10),
        ("Mnist4", [30, 9, 30], 4),
        ("Scene15", [20, 59, 40], 15),
        ("100Leaves", [64, 64, 64], 100),
        ("BBCSport", [3183, 3203], 5),
        ("Reuters-1200", [2000] * 5, 6),
    ],
)
def test_benchmark_files(name, widths, k):
    views, y = data_set(name)
    assert [v.shape for v in views] == [(len(y), d) for d in widths]
    assert len(np.unique(y)) == k and y.ndim == 1


A, B = np.arange(12.0).reshape(4, 3), np.arange(20.0).reshape(4, 5) % 7
Y = np.array([1, 1, 2, 2])


def cells(*tables):
    out = np.empty((1, len(tables)), object)
    out[0, :] = tables
    return out


@pytest.mark.parametrize(
    "variables",
    [
        {"X": cells(A, B), "Y": Y[:, None]},
        {"X": cells(A.T, B.T), "gt": Y[None]},
        {"data": cells(A, B).T, "truth": Y[:, None]},
        {"X1": A, "X2": B, "y": Y[:, None]},
        {"X": cells(sparse.csc_matrix(A), sparse.csc_matrix(B)), "labels": Y},
        {"fea": cells(A.T, B.T)},
        {"X": cells(A, B), "truelabel": cells(Y[:, None], Y[:, None])},
        {"X": cells(A, B), "Y": Y[:, None], "class_names": cells("cat", "dog", "hen")},
    ],
    ids=lambda v: "-".join(v),
)
def test_mat_files(tmp_path, variables):
    savemat(tmp_path / "data.mat", variables)
    views, y = agtf.load_views(tmp_path / "data.mat")
    for view, expected in zip(views, (A, B), strict=True):
        np.testing.assert_array_equal(view.toarray() if sparse.issparse(view) else view, expected)
    if y is not None:
        np.testing.assert_array_equal(y, Y)
    assert (y is None) == ("fea" in variables)


def test_npz_and_csv_files(tmp_path):
    np.savez(tmp_path / "data.npz", text=A, image=B, y=Y)
    views, y = agtf.load_views(str(tmp_path / "data.npz"))
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(y, Y)
    np.savetxt(tmp_path / "a.csv", A, delimiter=",")
    np.savetxt(tmp_path / "b.csv", np.c_[B, Y], delimiter=";", header="p;q;r;s;t;label", comments="")
    views, y = agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"])
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(views[1], B)
    np.testing.assert_array_equal(y.astype(float), Y)
    assert agtf.load_views(tmp_path / "a.csv")[1] is None


def test_files_that_cannot_be_read(tmp_path):
    savemat(tmp_path / "none.mat", {"note": "nothing"})
    with pytest.raises(ValueError, match="holds no views"):
        agtf.load_views(tmp_path / "none.mat")
    savemat(tmp_path / "none.mat", {"X": np.empty((0, 0), object), "Y": Y})
    with pytest.raises(ValueError, match="holds no views"):
        agtf.load_views(tmp_path / "none.mat")
    savemat(tmp_path / "odd.mat", {"X": cells(A, B.T[:3, :2])})
    with pytest.raises(ValueError, match=r"\(4, 3\), \(3, 2\) share no number of samples"):
        agtf.load_views(tmp_path / "odd.mat")
    (tmp_path / "text.csv").write_text("a,b\n1,two\n")
    with pytest.raises(ValueError, match="not a table of numbers"):
        agtf.load_views(tmp_path / "text.csv")
    with pytest.raises(ValueError, match="one .mat file"):
        agtf.load_views(tmp_path / "data.xls")


def test_csv_files_with_holes(tmp_path):
    (tmp_path / "holes.csv").write_text("a,b,class\n1,2,x\n,,y\n3,,x\n")
    views, y = agtf.load_views(tmp_path / "holes.csv")
    np.testing.assert_array_equal(views[0], [[1, 2], [np.nan, np.nan], [3, np.nan]])
    assert y.tolist() == ["x", "y", "x"]
    (tmp_path / "no_names.csv").write_text("1,,3\n4,5,6\n")
    np.testing.assert_array_equal(agtf.load_views(tmp_path / "no_names.csv")[0][0], [[1, np.nan, 3], [4, 5, 6]])


@pytest.mark.parametrize("transposed", [False, True])
def test_matlab_files_of_version_7_3(tmp_path, transposed):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "new.mat"
    tables = [A, sparse.csc_array(B)] if not transposed else [A.T, sparse.csc_array(B.T)]
    with h5py.File(path, "w", userblock_size=512) as file:
        file["#refs#/a"] = tables[0].T
        group = file.create_group("#refs#/b")
        group.attrs["MATLAB_sparse"] = tables[1].shape[0]
        group["data"], group["ir"], group["jc"] = tables[1].data, tables[1].indices, tables[1].indptr
        file.create_group("zeros").attrs["MATLAB_sparse"] = 4  # MATLAB writes nothing but `jc` for these
        file["zeros/jc"] = np.zeros(3, np.uint64)
        refs = file.create_dataset("X", (2, 1), dtype=h5py.ref_dtype)
        refs[0, 0], refs[1, 0] = file["#refs#/a"].ref, group.ref
        file["gt"] = Y[None].astype(float)
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    views, y = agtf.load_views(path)
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(views[1].toarray(), B)
    np.testing.assert_array_equal(y, Y)


def test_matlab_files_of_version_7_3_without_h5py(tmp_path, monkeypatch):
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400))
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ValueError, match="new.mat cannot be read: .*h5py"):
        agtf.load_views(tmp_path / "new.mat")


def same(table, expected):
    table = table.toarray() if sparse.issparse(table) else np.asarray(table)
    return np.array_equal(table, expected, equal_nan=table.dtype.kind == "f")


def save_v73(path, variables):
    """The file that MATLAB writes with -v7.3."""
    h5py = pytest.importorskip("h5py")

    def put(file, name, value):
        if isinstance(value, dict):
            file.create_group(name).attrs["MATLAB_class"] = np.bytes_("struct")
            for key, member in value.items():
                put(file, f"{name}/{key}", member)
        elif isinstance(value, str):
            file[name] = np.array([[ord(c)] for c in value], np.uint16)
            file[name].attrs["MATLAB_class"] = np.bytes_("char")
        elif value.dtype == object:
            refs = file.create_dataset(name, value.T.shape, dtype=h5py.ref_dtype)
            for at, member in np.ndenumerate(value):
                put(file, f"#refs#/{name}{at}", member)
                refs[at[::-1]] = file[f"#refs#/{name}{at}"].ref
        else:
            file[name] = value.T

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            put(file, name, value)
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


C = np.sin(np.arange(8.0)).reshape(4, 2)
LIST = np.array([[1, 2], [3, 4], [2, 1], [4, 3]])
WILD = {
    "a cell array wins over matrices": {"X": cells(A, B), "Z": C, "LIST": LIST, "Y": Y[:, None]},
    "X over data over fea": {"fea": cells(C, C), "data": cells(C, A), "X": cells(A, B), "Y": Y[:, None]},
    "data over fea": {"fea": cells(C, C), "Data": cells(A, B), "Y": Y[:, None]},
    "X that has other samples is not the views": {"X": cells(C[:3], C[:3]), "data": cells(A, B), "Y": Y[:, None]},
    "twice, in cells": {"views": cells(A, B), "again": cells(A.T, B.T), "Y": Y[:, None]},
    "twice, loose": {"X1": A, "X2": B, "first": A.T, "Y": Y[:, None]},
    "labels in cells, and names of classes": {"X": cells(A, B), "classes": cells("p", "q"), "gt": cells(Y, Y, Y)},
    "an empty cell array": {"X": np.empty((0, 0), object), "Z": cells(A, B), "Y": Y[:, None]},
    "labels are text": {"X": cells(A, B), "label": cells("1", "1", "2", "2").T},
    "the labels are as many as the samples": {"classes": np.arange(3), "X": cells(A, B), "class": {"a": C}, "Y": Y},
    "one column per class is no vector": {"Y": np.eye(2)[Y - 1], "X": cells(A, B), "gt": Y},
    "struct, text, kernels, folds": {
        "X1": A, "X2": B, "Y": Y[:, None], "K": A @ A.T, "KH": np.ones((4, 4, 3)), "options": {"X": C, "data": C},
        "note": "made", "folds": LIST, "MissingStatus": LIST % 2,
    },
    "cells of all of these": {"X": cells(A, B), "folds": cells(LIST, LIST), "s": cells({"a": C}, {"a": C}), "y": Y},
}  # fmt: skip


@pytest.mark.parametrize("save", [savemat, save_v73])
@pytest.mark.parametrize("variables", WILD.values(), ids=WILD)
def test_files_as_they_are_found(tmp_path, variables, save):
    save(tmp_path / "wild.mat", variables)
    views, y = agtf.load_views(tmp_path / "wild.mat")
    assert len(views) == 2 and same(views[0], A) and same(views[1], B)
    np.testing.assert_array_equal(y.astype(int), Y)


@pytest.mark.parametrize("save", [savemat, save_v73])
@pytest.mark.parametrize("labelled", [True, False])
def test_index_and_columns_of_nan_become_missing_rows(tmp_path, save, labelled):
    """Samples are columns, even of a square table; the index is right where the data are not NaN."""
    rng = np.random.default_rng(0)
    full = [rng.normal(size=(6, 9)), rng.normal(size=(6, 6)), rng.integers(0, 9, size=(6, 9))]
    seen = [np.array([1, 2, 4]), np.array([6, 3, 1, 2]), np.array([5, 6])]
    expected = []
    for table, rows in zip(full, seen):
        expected.append(np.full(table.shape, np.nan))
        expected[-1][rows - 1] = table[rows - 1]
    data = cells(expected[0].T, expected[1].T, full[2].T)
    variables = {"data": data.T, "index": cells(*(i[:, None] for i in seen)), "MissingStatus": np.ones((6, 3))}
    variables |= {"truelabel": cells(*[np.array([[1, 1, 1, 2, 2, 2]]).T] * 3)} if labelled else {}
    save(tmp_path / "missing.mat", variables)
    views, y = agtf.load_views(tmp_path / "missing.mat", names=True)
    assert list(views) == ["view 0", "view 1", "view 2"] and all(map(same, views.values(), expected))
    assert y.tolist() == [1, 1, 1, 2, 2, 2] if labelled else y is None


@pytest.mark.parametrize(
    "index, why",
    [
        (cells([1, 2]), "2 views, but `index` lists the samples seen in 1"),
        (cells([1, 2], [0, 1]), "other samples than 1 to 4"),
        (cells([1, 5], [1, 2]), "other samples than 1 to 4"),
        (cells([1.5], [1, 2]), "other samples than 1 to 4"),
    ],
)
def test_a_wrong_index_is_refused(tmp_path, index, why):
    savemat(tmp_path / "wrong.mat", {"X": cells(A, B), "index": index, "Y": Y})
    with pytest.raises(ValueError, match=why):
        agtf.load_views(tmp_path / "wrong.mat")


def test_without_labels_the_index_tells_how_many_samples(tmp_path):
    tables = [np.arange(24.0).reshape(4, 6), np.ones((4, 6))]  # all have as many features, and as many samples
    savemat(tmp_path / "both.mat", {"data": cells(*(t.T for t in tables)), "index": cells([1, 2, 3], [2, 3, 4])})
    views, _ = agtf.load_views(tmp_path / "both.mat")
    assert same(views[0][:3], tables[0][:3]) and np.isnan(views[0][3]).all() and np.isnan(views[1][0]).all()


def test_index_of_sparse_views(tmp_path):
    tables = [sparse.csc_matrix(t) for t in (A, B)]
    savemat(tmp_path / "s.mat", {"X": cells(*tables), "index": cells([1, 2, 4], [1, 2, 3, 4]), "Y": Y})
    views, _ = agtf.load_views(tmp_path / "s.mat")
    assert all(map(sparse.issparse, views))
    assert same(views[0], np.where(np.arange(4)[:, None] == 2, np.nan, A)) and same(views[1], B)
    savemat(tmp_path / "s.mat", {"X1": tables[0], "X2": tables[1], "copy": tables[0], "Y": Y})
    assert [v.shape for v in agtf.load_views(tmp_path / "s.mat")[0]] == [(4, 3), (4, 5)]


def test_copies_with_holes_and_labels_that_are_not_known(tmp_path):
    hole = np.where(np.arange(4)[:, None] == 2, np.nan, A)
    savemat(tmp_path / "h.mat", {"a": cells(hole, B), "b": cells(hole.T, B.T), "gt": cells("p", "", "q", "q").T})
    views, y = agtf.load_views(tmp_path / "h.mat")
    assert len(views) == 2 and same(views[0], hole) and y.tolist() == ["p", "", "q", "q"]
    savemat(tmp_path / "h.mat", {"a": cells(hole, B), "b": cells(A, B), "Y": Y})
    with pytest.raises(ValueError, match="several cell arrays"):
        agtf.load_views(tmp_path / "h.mat")
    savemat(tmp_path / "v.mat", {"X": cells(A[:, :1], B[:, :1]), "Y": Y})
    assert [view.shape for view in agtf.load_views(tmp_path / "v.mat")[0]] == [(4, 1), (4, 1)]


@pytest.mark.parametrize("cell", [False, True])
def test_labels_of_which_one_is_nan(tmp_path, cell):
    known = np.array([1, np.nan, 2, 2])
    savemat(tmp_path / "n.mat", {"X": cells(A, B), "y": cells(known, known) if cell else known})
    for choice in (None, "y"):
        np.testing.assert_array_equal(agtf.load_views(tmp_path / "n.mat", labels=choice)[1], known)


def test_in_doubt_the_error_lists_and_the_user_chooses(tmp_path):
    path = tmp_path / "doubt.mat"
    savemat(
        path, {"one": cells(A, B), "two": cells(A, C), "gt": Y, "truth": Y[::-1], "Z": C, "note": "x", "s": {"a": 1}}
    )
    with pytest.raises(ValueError, match="several cell arrays that could be the views: one, two") as caught:
        agtf.load_views(path)
    for line in ("one: cell array (1, 2) (4, 3), (4, 5)", "Z: float64 array (4, 2)", "s: struct (1, 1)", "note: text"):
        assert line in str(caught.value)
    assert 'load_views(path, views="data", labels="truth")' in str(caught.value)
    views, y = agtf.load_views(path, views="two", labels="truth")
    assert same(views[0], A) and same(views[1], C) and y.tolist() == Y[::-1].tolist()
    views, y = agtf.load_views(path, views=["Z", "one"], names=True)
    assert list(views) == ["Z", "view 1", "view 2"] and same(views["view 2"], B) and y.tolist() == Y.tolist()
    for choice in ({"views": "three"}, {"views": ["one", "three"]}, {"views": "one", "labels": "three"}):
        with pytest.raises(ValueError, match="nothing called 'three'"):
            agtf.load_views(path, **choice)
    with pytest.raises(ValueError, match="'s' is no vector of labels"):
        agtf.load_views(path, views="one", labels="s")
    for name in ("note", "s"):
        with pytest.raises(ValueError, match=f"'{name}' is no table of numbers"):
            agtf.load_views(path, views=name)
    savemat(path, {"X1": A, "X2": B, "centres": np.ones((3, 2)), "Y": Y})
    with pytest.raises(ValueError, match="share no number of samples 4") as caught:
        agtf.load_views(path)
    assert "centres: float64 array (3, 2)" in str(caught.value)
    assert len(agtf.load_views(path, views=("X1", "X2"))[0]) == 2


def test_nothing_is_left_out_for_half_a_name(tmp_path):
    np.savez(tmp_path / "data.npz", manifold=A, histogram=A @ A.T, K=B, links=np.eye(4))
    assert list(agtf.load_views(tmp_path / "data.npz", names=True)[0]) == ["manifold", "histogram", "K", "links"]


def test_images_in_npz_files_by_choice(tmp_path):
    np.savez(tmp_path / "images.npz", x_train=np.arange(24).reshape(4, 3, 2), y_train=Y, x_test=np.ones((2, 3, 2)))
    with pytest.raises(ValueError, match="x_test: float64 array \\(2, 3, 2\\)"):
        agtf.load_views(tmp_path / "images.npz")
    views, y = agtf.load_views(tmp_path / "images.npz", views="x_train", labels="y_train", names=True)
    assert same(views["x_train"], np.arange(24).reshape(4, 6)) and same(y, Y)


def test_images_beside_tables_are_views(tmp_path):
    images = np.arange(24.0).reshape(4, 3, 2)
    np.savez(tmp_path / "data.npz", images=images, table=A, y=Y)
    views, y = agtf.load_views(tmp_path / "data.npz", names=True)
    assert same(views["images"], images.reshape(4, 6)) and same(views["table"], A) and same(y, Y)


@pytest.mark.parametrize(
    "name, widths, k, missing",
    [
        ("synthetic3d", [3] * 3, 3, [0] * 3),
        ("incomplete/NGs_Per0.1", [2000] * 3, 5, [235, 216, 221]),
        ("incomplete/NGs_Per0.5", [2000] * 3, 5, [126, 128, 122]),
        ("incomplete/BDGP_fea_Per0", [1000, 500, 250], 5, [1284, 1246, 1248]),
        ("incomplete/bbcsportIncomplete", [3183, 3203], 5, [93, 100]),
        ("CiteSeer", [3312, 3703], 6, [0, 0]),
    ],
)
def test_wild_benchmark_files(name, widths, k, missing):
    views, y = data_set(name)
    assert [v.shape for v in views] == [(len(y), d) for d in widths] and len(np.unique(y)) == k
    assert [np.isnan(v).all(axis=1).sum() for v in views] == missing == [np.isnan(v).any(axis=1).sum() for v in views]


def test_names_of_arrays_files_and_cells(tmp_path):
    np.savez(tmp_path / "data.npz", text=A, image=B, y=Y)
    views, y = agtf.load_views(tmp_path / "data.npz", names=True)
    assert list(views) == ["text", "image"] and same(views["image"], B) and same(y, Y)
    for folder in ("p", "q"):
        (tmp_path / folder).mkdir()
        np.savetxt(tmp_path / folder / "a.csv", A, delimiter=",")
    views, y = agtf.load_views([tmp_path / "p" / "a.csv", tmp_path / "q" / "a.csv"], names=True)
    assert list(views) == ["a 0", "a 1"] and same(views["a 1"], A)
    np.savetxt(tmp_path / "y.csv", np.c_[B, Y], delimiter=",", header="p,q,r,s,t,y", comments="")
    views, y = agtf.load_views([tmp_path / "p" / "a.csv", tmp_path / "y.csv"], names=True)
    assert list(views) == ["a", "y"] and same(views["y"], B) and same(y.astype(float), Y)


def test_csv_files_without_pandas(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    (tmp_path / "a.csv").write_text("2;1\n3;4\n")
    np.savetxt(tmp_path / "b.csv", B, delimiter=",")
    views, y = agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"], names=True)
    assert list(views) == ["a", "b"] and same(views["a"], [[2, 1], [3, 4]]) and same(views["b"], B) and y is None
    for text in ("id,p\nann,1\n", "p,label\n1,2\n"):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(ValueError, match="install pandas"):
            agtf.load_views(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("2,1\n3,two\n")
    with pytest.raises(ValueError, match="not a table of numbers: .*'two'"):
        agtf.load_views(tmp_path / "a.csv")


def test_names_of_features_and_samples(tmp_path):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text('id,"height, m",weight\nann,1.5,\nbob,2,60\n"c, d",,\n')
    (tmp_path / "b.csv").write_text("p,q,class\nbob,5,C#\nann,6,#1\n'c d',7,F\n".replace("'c d'", '"c, d"'))
    views, y = agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"], names=True)
    expected = [[1.5, np.nan], [2, 60], [np.nan, np.nan]]
    assert list(views) == ["a", "b"] and same(views["a"], expected) and same(views["b"], [[6], [5], [7]])
    assert y.tolist() == ["#1", "C#", "F"]
    for view, columns in zip(views.values(), (["height, m", "weight"], ["q"])):
        assert isinstance(view, pandas.DataFrame)
        assert list(view.columns) == columns and list(view.index) == ["ann", "bob", "c, d"]
    views, y = agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert isinstance(views[0], np.ndarray) and same(views[1], [[6], [5], [7]]) and y[1] == "C#"
    (tmp_path / "b.csv").write_text("p,q\nbob,5\nann,6\n")
    with pytest.raises(ValueError, match="does not name every sample of .*a.csv once"):
        agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"], names=True)


def test_a_coordinate_called_y_is_a_feature(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0.5\n3,4\n5,\n")
    views, y = agtf.load_views(tmp_path / "a.csv")
    assert same(views[0], [[1, 0.5], [3, 4], [5, np.nan]]) and y is None
    assert same(agtf.load_views(tmp_path / "a.csv", labels="y")[0][0], [[1], [3], [5]])


def test_labels_that_contradict_each_other_are_refused(tmp_path):
    for name, lines in (
        ("a", "1,u\n2,v\n3,u\n"),
        ("b", "4,u\n5,v\n6,u\n"),
        ("c", "4,v\n5,u\n6,u\n"),
        ("d", "4,v\n5,u\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(f"x,label\n{lines}")
    assert agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"])[1].tolist() == ["u", "v", "u"]
    for other in "cd":
        with pytest.raises(ValueError, match=f"{other}.csv: its labels are not those of another file"):
            agtf.load_views([tmp_path / "a.csv", tmp_path / f"{other}.csv"])
    (tmp_path / "e.csv").write_text("p,q\n1,2\n3,4\n")
    with pytest.raises(ValueError, match="there are 3 labels, but not as many samples"):
        agtf.load_views([tmp_path / "a.csv", tmp_path / "e.csv"])


def test_labels_in_csv_files(tmp_path):
    (tmp_path / "a.csv").write_text("language,y,z\nC#,1,2\n#,3,4\nC,5,6\n")
    (tmp_path / "labels.csv").write_text("label\nu\nv\nu\n")
    views, y = agtf.load_views(tmp_path / "a.csv", labels="language")
    assert same(views[0], [[1, 2], [3, 4], [5, 6]]) and y.tolist() == ["C#", "#", "C"]
    (tmp_path / "b.csv").write_text("2,1\n3,4\n5,6\n")
    views, y = agtf.load_views([tmp_path / "b.csv", tmp_path / "labels.csv"])
    assert len(views) == 1 and y.tolist() == ["u", "v", "u"]
    with pytest.raises(ValueError, match="no column called 'truth'"):
        agtf.load_views(tmp_path / "b.csv", labels="truth")
    np.savetxt(tmp_path / "c.csv", np.c_[A, Y], delimiter=",", header="p,q,r,label")  # behind a "#"
    views, y = agtf.load_views(tmp_path / "c.csv")
    assert same(views[0], A) and same(y.astype(float), Y)
    (tmp_path / "d.csv").write_text("p,label\n1,C#\n3,#\n\n")
    views, y = agtf.load_views(tmp_path / "d.csv")
    assert same(views[0], [[1], [3]]) and y.tolist() == ["C#", "#"]
    (tmp_path / "d.csv").write_text("p,label,class\n1,0,none\n3,0,?\n")  # classes may have such names
    views, y = agtf.load_views(tmp_path / "d.csv", labels="class")
    assert same(views[0], [[1, 0], [3, 0]]) and y.tolist() == ["none", "?"]
    (tmp_path / "r.csv").write_text("p,label\nann,1,2\nbob,3,4\n")  # R: no name for the column of names
    views, y = agtf.load_views(tmp_path / "r.csv")
    assert same(views[0], [[1], [3]]) and y.tolist() == [2, 4]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1.5,NA,3\n2,4,5\n", [[1.5, np.nan, 3], [2, 4, 5]]),
        ('"1.5","2"\n"2","4"\n', [[1.5, 2], [2, 4]]),
        ('"height, in m, or so";weight\n1.5;2\n2;4\n', [[1.5, 2], [2, 4]]),
        (",a,b\n0,1.5,2\n1,2,4\n", [[1.5, 2], [2, 4]]),  # the index that to_csv writes
        ('"","a"\n"1",1.5\n"2",2\n', [[1.5], [2]]),  # and R
        ('"a","b"\n"1",1.5,2\n"2",2,4\n', [[1.5, 2], [2, 4]]),  # and R in another mood
        ("a,b,c\n0,1,2,\n3,4,5,\n", [[0, 1, 2], [3, 4, 5]]),  # lines that end in a separator
        ("\n \na,b\n1.5,2\n2,4\n", [[1.5, 2], [2, 4]]),
        ("a,b\n?,2\nna, ?\n2,none\n", [[np.nan, 2], [np.nan, np.nan], [2, np.nan]]),
        ("?,2\n1.5,null\n", [[np.nan, 2], [1.5, np.nan]]),
    ],
)
def test_the_first_line_and_the_first_column_are_what_they_are(tmp_path, text, expected):
    pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text(text)
    np.testing.assert_array_equal(agtf.load_views(tmp_path / "a.csv")[0][0], expected)


def test_an_index_that_counts_backwards_puts_the_samples_in_order(tmp_path):
    (tmp_path / "a.csv").write_text(",p\n0,1\n1,2\n2,3\n")
    (tmp_path / "b.csv").write_text(",q,label\n2,6,w\n1,5,v\n0,4,u\n")
    views, y = agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert same(views[0], [[1], [2], [3]]) and same(views[1], [[4], [5], [6]]) and y.tolist() == ["u", "v", "w"]
    (tmp_path / "bare.csv").write_text("r\n7\n8\n9\n")
    assert same(agtf.load_views([tmp_path / "a.csv", tmp_path / "bare.csv"])[0][1], [[7], [8], [9]])
    with pytest.raises(ValueError, match="bare.csv does not name the samples, and the other files number them"):
        agtf.load_views([tmp_path / "bare.csv", tmp_path / "b.csv"])
    (tmp_path / "named.csv").write_text(",q\nann,6\nbob,5\ncid,4\n")
    with pytest.warns(UserWarning, match="bare.csv does not name the samples: its rows .* in the order of .*named"):
        views, _ = agtf.load_views([tmp_path / "bare.csv", tmp_path / "named.csv"])
    assert same(views[0], [[7], [8], [9]])


def test_labels_in_a_sparse_matrix(tmp_path):
    rng, views = np.random.default_rng(0), np.empty(2, object)
    views[:] = [rng.normal(size=(6, 3)), rng.normal(size=(6, 4))]
    classes = np.array([1.0, 2, 1, 2, 1, 2])
    for y, expected in ((classes[:, None], classes), (np.eye(3)[classes.astype(int)], None)):
        savemat(tmp_path / "data.mat", {"X": views, "Y": sparse.csc_matrix(y)})
        found = agtf.load_views(tmp_path / "data.mat")[1]
        assert found is None if expected is None else same(found, expected)
    with pytest.raises(ValueError, match="'Y' can't be a view and the labels"):
        agtf.load_views(tmp_path / "data.mat", views="Y", labels="Y")


@pytest.mark.parametrize(
    "text, why",
    [
        ("ann,1,2\nbob,3,4\n", "the first line may be names or data"),
        ("id,p\nann,1\nann,2\n", "does not name every sample"),
        ("p,q\n1,2\n3,4,5\n", "Expected 2 fields in line 3, saw 3"),
        ("p,label\n1,x\n3,x,5\n", "Expected 2 fields in line 3, saw 3"),
        ("", "No columns to parse"),
        ("0,1,2\n1,2,3\n4,5,6\n", "the first line may be names or data"),  # as pandas writes names that only count
        (",0,1\n0,2,3\n1,5,6\n", "the first line may be names or data"),
        ("1,2,3\n4,5,6\n", "the first line may be names or data; put a line of names above it, or in its place"),
        (",1,2\n0,2,3\n1,5,6\n", "the first line may be names or data"),
        ("a,b\n1.5,2\n5 m,4\n6,7\n", "the first column is mostly numbers"),
        ("p q\n1 2\n3 4\n", "only column is text; columns are separated by commas, semicolons or tabs"),
        ("p|q\n1|2\n3|4\n", "only column is text"),
        ("id,p\nann,1\n,2\ncid,3\n", "does not name every sample"),
        ("p\nann,1,2\nbob,3,4\n", "first line has fewer cells than the second"),
        ("# measured in May\n1,2\n3,4\n", "leave out comments"),
        ("# measured in May\np,q\n1,2\n3,4\n", "leave out comments"),
        ("p,label,class\n1,x,u\n2,y,v\n", "label and class may be labels: keep one, or choose labels='class'"),
        ("p,label,label\n1,x,u\n2,y,v\n", "label and label may be labels"),
        ("id,p,label\nann,2,0,\nbob,4,1,\n", "the first line has fewer cells than the second"),
        ("height;age\n1,85;40\n1,70;20\n", "the first column is mostly numbers"),
    ],
)
def test_csv_files_that_cannot_be_read(tmp_path, text, why):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=why):
        agtf.load_views(tmp_path / "a.csv")


def test_big_csv_files_are_not_read_as_text(tmp_path):
    """Peak memory is a small multiple of the numbers; text would take 100 bytes for each."""
    import tracemalloc

    X = np.random.default_rng(0).normal(size=(20000, 10))
    np.savetxt(tmp_path / "big.csv", X, delimiter=",", header=",".join(f"f{c}" for c in range(10)), comments="")
    tracemalloc.start()
    views, _ = agtf.load_views(tmp_path / "big.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert same(views[0], X) and peak < 4 * X.nbytes


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_parquet_and_feather_files(tmp_path, kind, monkeypatch):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    first = pandas.DataFrame(A, columns=list("pqr"))
    first.loc[1] = np.nan
    second = pandas.DataFrame({"name": list("dcba"), "p": [1, 2, 3, 4], "label": ["C#", "C", "F", "C"]})
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for frame, path in zip((first, second), paths):
        getattr(frame, f"to_{kind}")(path)
    with pytest.warns(UserWarning, match=f"a.{kind} does not name the samples"):
        views, y = agtf.load_views(paths, names=True)
    assert same(views["a"], first) and same(views["b"], [[1], [2], [3], [4]]) and y.tolist() == ["C#", "C", "F", "C"]
    assert list(views["a"].columns) == list("pqr") and list(views["b"].index) == list("dcba")
    if kind == "parquet":  # which keeps an index
        second.set_index("name").to_parquet(paths[1])
        first.set_axis(list("abcd")).to_parquet(paths[0])
        views, y = agtf.load_views(paths)
        assert same(views[0], first) and same(views[1], [[4], [3], [2], [1]]) and y.tolist() == ["C", "F", "C", "C#"]
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ValueError, match="install pandas"):
        agtf.load_views(paths)


def test_other_files_are_no_saved_results(tmp_path):
    np.save(tmp_path / "a.npy", A)
    (tmp_path / "a.txt").write_text("no result")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("a.npy", "a.txt", "empty.npz"):
        with pytest.raises(ValueError, match=f"{name} was not written by Result.save"):
            agtf.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        agtf.load(tmp_path / "nowhere.npz")


def test_names_of_columns_may_go_over_lines(tmp_path):
    (tmp_path / "t.csv").write_text('"height\n(m)","weight\n(kg)"\n1.5,2\n1.7,3\n')
    table = agtf.load_views([tmp_path / "t.csv"], names=True)[0]["t"]
    assert list(table) == ["height\n(m)", "weight\n(kg)"] and table.shape == (2, 2)


def test_a_class_called_none_is_a_class(tmp_path):
    text = "state,a,b\n" + "".join(f"{name},{i},{i * i}\n" for i, name in enumerate(["None", "Mild", "NA", "Mild"]))
    (tmp_path / "s.csv").write_text(text + "NA,?,n/a\n,NULL,7\n")
    (view,), y = agtf.load_views([tmp_path / "s.csv"], labels="state")
    assert y[:5].tolist() == ["None", "Mild", "NA", "Mild", "NA"] and y[5] != y[5]
    assert np.isnan(view[4]).all() and np.isnan(view[5, 0]) and view[5, 1] == 7


def test_numbers_that_files_share_put_the_samples_in_order(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    ids = pandas.Index(1000 + rng.permutation(40), name="patient")
    a, b = (pandas.DataFrame(rng.normal(size=(40, 2)), ids, columns=list("uv")) for _ in range(2))
    a.to_csv(tmp_path / "a.csv")
    b.assign(y=np.arange(40) % 3).sort_index().to_csv(tmp_path / "b.csv")
    views, y = agtf.load_views([tmp_path / "a.csv", tmp_path / "b.csv"], names=True)
    assert list(views["a"].index) == list(views["b"].index) == list(map(str, ids))
    np.testing.assert_allclose(views["b"], b)
    assert y.tolist() == (np.arange(40) % 3).tolist()
    assert agtf.load_views([tmp_path / "a.csv"])[0][0].shape == (40, 3)  # alone they may be anything


@pytest.mark.parametrize("start", [0, 1])
def test_a_named_column_that_counts_the_rows_is_refused(tmp_path, start):
    """Nobody knows whether it is data, and as a feature it would be silently wrong."""
    rows = "".join(f"{start + i},{i % 3}.5,2.5\n" for i in (2, 0, 1, *range(3, 12)))
    (tmp_path / "v.csv").write_text("patient,a,b\n" + rows)
    with pytest.raises(ValueError, match="v.csv: the first column, 'patient', numbers the rows: leave out its name"):
        agtf.load_views([tmp_path / "v.csv"])
    (tmp_path / "v.csv").write_text(",a,b\n" + rows)
    assert agtf.load_views([tmp_path / "v.csv"])[0][0].shape == (12, 2)


@pytest.mark.parametrize("first", ["400,450,500", "2019,2020,2021", ",410,420", ",400,450,500"])
def test_names_that_are_numbers_are_refused(tmp_path, first):
    (tmp_path / "v.csv").write_text(first + "\n1,2.5,3\n2,4.5,5\n3,1.5,2\n")
    with pytest.raises(ValueError, match="the first line may be names or data"):
        agtf.load_views([tmp_path / "v.csv"])


def test_parts_for_training_and_testing_are_not_views(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "t.npz", X_train=rng.normal(size=(30, 6)), X_test=rng.normal(size=(10, 6)), y_train=np.arange(30)
    )
    with pytest.raises(ValueError, match="for training and others for testing"):
        agtf.load_views(tmp_path / "t.npz")
    assert agtf.load_views(tmp_path / "t.npz", views="X_train", labels="y_train")[0][0].shape == (30, 6)


def test_names_of_labels_may_end_in_blanks_and_must_agree(tmp_path):
    (tmp_path / "v.csv").write_text("y ,a,b\n1,2.5,3\n2,4.5,5\n")
    views, y = agtf.load_views([tmp_path / "v.csv"])
    assert views[0].shape == (2, 2) and y.tolist() == [1, 2]
    y, X = np.array([1, 1, 2, 2, 3]), np.random.default_rng(0).normal(size=(5, 3))
    np.savez(tmp_path / "two.npz", X=X, y=y, gt=y[::-1])
    with pytest.raises(ValueError, match="y and gt may be labels, and differ"):
        agtf.load_views(tmp_path / "two.npz")
    assert agtf.load_views(tmp_path / "two.npz", views="X", labels="gt")[1].tolist() == y[::-1].tolist()
    np.savez(tmp_path / "same.npz", X=X, y=y, gt=np.array(list("aabbc")))  # codes and names
    assert agtf.load_views(tmp_path / "same.npz")[1].tolist() == y.tolist()


@pytest.mark.parametrize("first", ["0,0,1", "5,3,1", "3,3,5", "7,7,7"])
def test_first_lines_of_small_whole_numbers_are_data(tmp_path, first):
    (tmp_path / "v.csv").write_text(first + "\n1,2,3\n")
    assert agtf.load_views([tmp_path / "v.csv"])[0][0].shape == (2, 3)


def test_holes_among_numbers_and_in_columns_without_a_name(tmp_path):
    pytest.importorskip("pandas")
    path = tmp_path / "v.csv"
    path.write_text("a,b,y\n1,2,1\n3,4,NA\n5,6,2\n")
    np.testing.assert_array_equal(agtf.load_views([path])[1], [1, np.nan, 2])
    path.write_text("a,b,target\n1,2,1.5\n3,4,nan\n5,6,2.25\n")
    (view,), y = agtf.load_views([path])
    assert y is None and view.shape == (3, 3)
    for text in ("a,,b\n1,,3\n4,5,6\n", "a,b,a\n1,2,\n4,5,6\n", "a,b\n1,#NA\n3,1.#QNAN\n"):
        path.write_text(text)
        assert np.isnan(agtf.load_views([path])[0][0]).any(), text
    path.write_text("a,b,\n1,2,\n3,4,\n")
    assert np.isnan(agtf.load_views([path])[0][0][:, 2]).all()
    path.write_text(",a,b\nx,1,2\n,4,5\n")
    with pytest.raises(ValueError, match="does not name every sample"):
        agtf.load_views([path])


def test_a_file_of_numbered_labels_is_matched(tmp_path):
    pytest.importorskip("pandas")
    for name, text in {"a": "id,u,v\n1,5,6\n2,7,8\n3,9,1\n", "b": "id,w,x\n3,1,2\n2,3,4\n1,5,6\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "labels.csv").write_text("id,y\n3,0\n1,1\n2,1\n")
    views, y = agtf.load_views([tmp_path / f"{name}.csv" for name in ("a", "b", "labels")], names=True)
    assert list(views) == ["a", "b"] and y.tolist() == [1, 1, 0]
    assert views["b"].to_numpy().tolist() == [[5, 6], [3, 4], [1, 2]]


def test_train_and_test_inside_other_words_say_nothing(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 3))
    np.savez(tmp_path / "v.npz", strain_data=X, blood_test=X + 1, y=np.array([1, 1, 2, 2, 3]))
    assert len(agtf.load_views(tmp_path / "v.npz")[0]) == 2
