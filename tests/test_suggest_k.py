"""Choosing the number of clusters."""

import numpy as np
import pytest
from conftest import blobs, data_set, needs_jit

import agtf


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_clear_clusters_are_counted(k):
    views, _ = blobs(n=40 * k, k=k, widths=(5, 6), spread=0.3, seed=k)
    suggestion = agtf.suggest_k(views, 12)
    assert suggestion.candidates[0] == k
    assert sorted(suggestion.candidates) == list(range(2, 13))
    assert (np.diff(suggestion.scores) <= 0).all()
    assert suggestion.spectrum[0] == pytest.approx(1) and (np.diff(suggestion.spectrum) <= 1e-12).all()


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_clusters_far_apart_are_counted_in_few_features_too(d):
    y, centres = np.arange(120) % 3, np.zeros((3, d))
    centres[1, 0], centres[2, -1] = 100, 200
    for seed in range(3):
        view = centres[y] + np.random.default_rng(seed).normal(size=(120, d))
        assert agtf.suggest_k([view], 20).candidates[0] == 3


@needs_jit
@pytest.mark.parametrize("name, k, first", [("BBCSport", 5, 5), ("Mnist4", 4, 2)])
def test_real_clusters(name, k, first):
    views, _ = data_set(name)
    assert k in agtf.suggest_k(views, 15).candidates[:first]


def test_k_max_is_checked():
    views, _ = blobs()
    for k_max in (1, 60):
        with pytest.raises(ValueError, match="k_max must lie between 2 and"):
            agtf.suggest_k(views, k_max)
    with pytest.raises(TypeError, match="k_max must be an int"):
        agtf.suggest_k(views, 2.5)
    with pytest.raises(ValueError, match="scale must be 'auto' or"):
        agtf.suggest_k(views, 5, scale="log")
