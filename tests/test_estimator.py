"""AGTF as a scikit-learn citizen."""

import inspect
import os
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from conftest import blobs
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import agtf

# Run by scikit-learn only when the environment asks for its experimental array API support.
NOT_APPLICABLE = {"check_array_api_input": "needs SCIPY_ARRAY_API=1 and another array library"}


@parametrize_with_checks([agtf.AGTF()], expected_failed_checks=lambda _: NOT_APPLICABLE)
def test_scikit_learn_checks(estimator, check):
    if "SCIPY_ARRAY_API" not in os.environ and check.func.__name__ in NOT_APPLICABLE:
        pytest.skip(NOT_APPLICABLE[check.func.__name__])
    check(estimator)


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
