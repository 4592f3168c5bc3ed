"""Pictures: drawn without a display, on given axes, with the right things on them."""

import matplotlib
import numpy as np
import pytest
from conftest import blobs

import agtf

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def result():
    return agtf.cluster(blobs()[0], 3)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_indicator(result):
    ax = agtf.plot_indicator(result)
    image = ax.images[0].get_array()
    assert image.shape == (60, 3)
    assert (np.diff(np.argmax(image, axis=1)) >= 0).all()  # ordered by cluster
    given = plt.figure().subplots()
    assert agtf.plot_indicator(result, ax=given) is given


def test_gallery(result):
    images = np.random.default_rng(0).random((60, 4, 5))
    ax = agtf.plot_gallery(result, images, n_anchors=6)
    assert ax.images[0].get_array().shape == (3 * 5, 8 * 6)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0  (20)", "1  (20)", "2  (20)"]
    given = plt.figure().subplots()
    assert agtf.plot_gallery(result, images, ax=given) is given


def test_demo_picture(result, tmp_path):
    images = np.random.default_rng(0).random((60, 4, 5))
    agtf._demo_picture(result, images, {"a": 0.5, "b": 0.7}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_importing_the_module_does_not_import_matplotlib():
    import subprocess
    import sys

    from conftest import ROOT

    code = "import agtf, sys; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
