"""AGTF as a scikit-learn citizen."""

import inspect
import os
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse
from conftest import blobs
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import agtf

NOT_APPLICABLE = {
    # Run by scikit-learn only when the environment asks for its experimental array API support.
    "check_array_api_input": "needs SCIPY_ARRAY_API=1 and another array library",
    # Below is what they check, less that.
    "check_estimator_sparse_array": "takes whoever has predict_proba and sparse input for a classifier",
    "check_estimator_sparse_matrix": "takes whoever has predict_proba and sparse input for a classifier",
}


@parametrize_with_checks([agtf.AGTF()], expected_failed_checks=lambda _: NOT_APPLICABLE)
def test_scikit_learn_checks(estimator, check):
    name = check.func.__name__
    if name in NOT_APPLICABLE and ("SCIPY_ARRAY_API" not in os.environ or "sparse" in name):
        pytest.skip(NOT_APPLICABLE[name])
    check(estimator)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr", "64-bit indices"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_any_sparse_table_is_fine(kind, form):
    X = np.random.default_rng(0).random((40, 3))
    X[X < 0.6] = 0
    X[:, 0] += 0.1
    expected = agtf.AGTF(4).fit(kind(X))
    table = kind(X)
    if form == "64-bit indices":
        table.indices, table.indptr = table.indices.astype(np.int64), table.indptr.astype(np.int64)
    else:
        table = table.asformat(form)
    model = agtf.AGTF(4).fit(table)
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.predict(table), expected.predict(X))
    assert model.predict_proba(table).shape == model.transform(table).shape == (40, 4)


def test_options_and_defaults_are_those_of_cluster():
    function, estimator = (inspect.signature(f).parameters for f in (agtf.cluster, agtf.AGTF))
    options = {name: p.default for name, p in function.items() if name not in ("views", "k", "mask")}
    assert options == {name: p.default for name, p in estimator.items() if name != "n_clusters"}
    assert list(options) == [name for name in estimator if name != "n_clusters"]


def test_fit_is_cluster():
    views, y = blobs()
    model = agtf.AGTF(n_clusters=3, n_anchors=12).fit(views)
    result = agtf.cluster(views, 3, n_anchors=12)
    np.testing.assert_array_equal(model.labels_, result.labels)
    np.testing.assert_array_equal(model.predict(views), result.predict(views))
    np.testing.assert_array_equal(model.fit_predict(views), result.labels)
    assert model.n_iter_ == result.n_iter and model.n_features_in_ == 10


def test_clone_pickle_and_frames():
    views, _ = blobs()
    model = clone(agtf.AGTF(n_clusters=3, p=0.4)).set_params(n_neighbors=5)
    assert model.get_params()["p"] == 0.4 and "n_neighbors=5" in repr(model)
    frame = pd.DataFrame(views[0], columns=list("abcd"))
    model.fit(frame)
    assert list(model.feature_names_in_) == list("abcd")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_columns_of_transform_have_names():
    views, _ = blobs(n=90)
    model = agtf.AGTF(3).set_output(transform="pandas").fit(views[0])
    frame = model.transform(views[0])
    assert list(frame.columns) == ["agtf0", "agtf1", "agtf2"] == list(model.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), model.predict_proba(views[0]))


def test_pickles_know_their_version(tmp_path, monkeypatch):
    views, _ = blobs()
    result = agtf.cluster(views, 3)
    joblib.dump(result, tmp_path / "result.joblib")
    again = joblib.load(tmp_path / "result.joblib")
    np.testing.assert_array_equal(again.predict(views), result.predict(views))
    pickled = pickle.dumps(result)
    monkeypatch.setattr(agtf, "__version__", "99.0")
    with pytest.warns(UserWarning, match="pickled by agtf .*, this is 99.0: use Result.save"):
        pickle.loads(pickled)
