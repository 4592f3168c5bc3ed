"""Results that outlive the process."""

import json

import numpy as np
import pytest
import scipy.sparse as sparse
from conftest import blobs, table_of_people

import agtf


@pytest.mark.parametrize("joint", [True, False])
def test_saved_results_are_the_same(tmp_path, joint):
    views, _ = blobs()
    views.append(sparse.csr_array(np.where(views[1] > 0, views[1], 0.0)))
    result = agtf.cluster(views, 3, joint=joint, n_anchors=np.int64(12), anchors=np.arange(12))
    path = tmp_path / "result.npz"
    result.save(path)
    again = agtf.load(path)
    for name in ("labels", "memberships", "anchor_memberships", "anchors", "anchor_labels", "view_agreement"):
        np.testing.assert_array_equal(getattr(again, name), getattr(result, name))
    np.testing.assert_array_equal(again.predict(views), result.predict(views))
    assert str(again.explain(3)) == str(result.explain(3)) and repr(again) == repr(result)
    assert again.stopped_by == result.stopped_by and again.options["p"] == 0.5
    for name, values in result.history.items():
        np.testing.assert_array_equal(again.history[name], values)


def test_a_saved_result_blurs_as_before(tmp_path):
    table, _ = table_of_people()
    result = agtf.cluster([table], 3)
    result.save(tmp_path / "people.npz")
    again = agtf.load(tmp_path / "people.npz")
    assert again._anchors.schemes[0].scalings[0].widths.max() > 0
    np.testing.assert_array_equal(again.predict_memberships([table]), result.predict_memberships([table]))


def test_other_files_and_versions_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="not written by Result.save"):
        agtf.load(tmp_path / "other.npz")
    np.savez(tmp_path / "later.npz", facts=json.dumps({"format": 99, "agtf": "9.0"}))
    with pytest.raises(ValueError, match="written by agtf 9.0"):
        agtf.load(tmp_path / "later.npz")
    np.savez(tmp_path / "pickled.npz", facts=np.array([{}], object))
    with pytest.raises(ValueError, match="pickle"):
        agtf.load(tmp_path / "pickled.npz")
