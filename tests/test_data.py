"""Scores, built-in digits and files."""

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
    with pytest.raises(ValueError, match="install h5py"):
        agtf.load_views(tmp_path / "new.mat")
