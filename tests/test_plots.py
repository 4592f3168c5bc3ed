"""Pictures: drawn without a display, on given axes, with the right things on them."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from conftest import JIT_OFF, ROOT, blobs
from threadpoolctl import threadpool_limits

import agtf

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

CASES = [(2, 3)] if JIT_OFF else [(1, 2), (2, 3), (5, 4), (2, 100)]  # views, clusters


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "{}-views-{}-clusters".format(*case))
def result(request):
    V, k = request.param
    return agtf.cluster(blobs(n=max(60, 5 * k), k=k, widths=range(3, 3 + V))[0], k)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def on_given_axes(draw):
    """The axes that `draw` makes, after it has been seen to draw on given ones and to survive rendering."""
    given = plt.figure().subplots()
    assert draw(ax=given) is given
    own = draw(ax=None)
    own.figure.canvas.draw()
    return own


def texts(ticks):
    return [tick.get_text() for tick in ticks]


def bar_lengths(ax):
    """From the first tick on."""
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    return [bar.get_width() for bar in bars]


def test_indicator(result):
    ax = on_given_axes(lambda ax: agtf.plot_indicator(result, ax=ax))
    image = ax.images[0].get_array()
    assert image.shape == result.memberships.shape
    assert (np.diff(np.argmax(image, axis=1)) >= 0).all()  # ordered by cluster
    assert ax.get_xlabel() == "cluster"


def test_anchors(result):
    ax = on_given_axes(lambda ax: agtf.plot_anchors(result, ax=ax))
    assert texts(ax.get_xticklabels()) == result.slices
    assert ax.images[0].get_array().shape[0] == len(result.anchors)


def test_gallery(result):
    n, k = result.memberships.shape
    images = np.random.default_rng(0).random((n, 4, 5))
    ax = on_given_axes(lambda ax: agtf.plot_gallery(result, images, n_anchors=6, ax=ax))
    assert ax.images[0].get_array().shape == (k * 5, 8 * 6)
    assert texts(ax.get_yticklabels())[0] == f"0  ({(result.labels == 0).sum()})"


def test_convergence(result):
    accuracy = np.linspace(0.5, 0.9, result.n_iter)
    ax = on_given_axes(lambda ax: agtf.plot_convergence(result, accuracy, ax=ax))
    assert len(ax.get_lines()) == 3 and ax.get_yscale() == "log"
    assert texts(ax.get_legend().get_texts())[-1] == "accuracy"
    np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), np.arange(1, result.n_iter + 1))
    agtf.plot_convergence(agtf.cluster(blobs()[0], 3, max_iter=0))


def test_embedding(result):
    method = "tsne" if result.memberships.shape[1] == 3 else "pca"
    with threadpool_limits(1):  # threads of scikit-learn would only wait for each other
        ax = on_given_axes(lambda ax: agtf.plot_embedding(result.memberships, result.labels, method, ax=ax))
    assert len(ax.collections) == len(np.unique(result.labels))
    assert sum(len(c.get_offsets()) for c in ax.collections) == len(result.labels)


def test_embeddings_over_iterations(result):
    row = agtf.plot_embedding([result.memberships] * 3, result.labels)
    assert len(row) == 3 and len({ax.figure for ax in row}) == 1
    with pytest.raises(ValueError, match="'tsne'"):
        agtf.plot_embedding(result.memberships, result.labels, "umap")


def test_views_and_explanation(result):
    ax = on_given_axes(lambda ax: agtf.plot_views(result, ax=ax))
    # As long as the share of the samples that the slice alone would put where they are.
    votes = np.array([result.explain(i).votes.argmax(axis=1) for i in range(len(result.labels))])
    agreement = (votes == result.labels[:, None]).mean(axis=0)
    assert dict(zip(texts(ax.get_yticklabels()), bar_lengths(ax))) == pytest.approx(dict(zip(result.slices, agreement)))
    why = result.explain(0)
    ax = on_given_axes(lambda ax: agtf.plot_explain(why, ax=ax))
    assert [name.split(" (")[0] for name in texts(ax.get_yticklabels())] == result.slices
    assert f"cluster {why.label}" in ax.get_title()


def test_sweep():
    scores = {"a": np.random.default_rng(0).random((3, 4)), "b": [0.1, 0.2, 0.3]}
    ax = on_given_axes(lambda ax: agtf.plot_sweep([1, 10, 100], scores, ax=ax, xlabel="lambda1", log=True))
    assert texts(ax.get_legend().get_texts()) == ["a", "b"] and ax.get_xscale() == "log"
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), scores["a"].mean(axis=1))
    assert agtf.plot_sweep([1, 2], [0.1, 0.2]).get_legend() is None


def test_grid_and_confusion():
    grid = np.arange(6.0).reshape(2, 3) / 10
    ax = on_given_axes(lambda ax: agtf.plot_grid(grid, [1, 10], [0.1, 1, 100], ax=ax))
    assert texts(ax.get_xticklabels()) == ["0.1", "1", "100"] and len(ax.texts) == 6
    y = np.array([0, 0, 1, 1, 2, 2])
    ax = on_given_axes(lambda ax: agtf.plot_confusion(y, (y + 1) % 3, ax=ax))
    np.testing.assert_array_equal(ax.images[0].get_array(), 2 * np.eye(3))
    assert texts(ax.get_xticklabels()) == ["1", "2", "0"] and ax.get_title() == "ACC 1.000"
    assert len(agtf.plot_confusion(np.arange(40) % 30, np.arange(40)).texts) == 0


def test_k():
    suggestion = agtf.suggest_k(blobs()[0], 10)
    ax = on_given_axes(lambda ax: agtf.plot_k(suggestion, ax=ax))
    assert texts(ax.get_legend().get_texts())[0].startswith(f"k = {suggestion.candidates[0]} ")
    assert len(ax.get_lines()[0].get_xdata()) == 11


def test_names_are_no_formulas():
    views, y = blobs()
    odd = "$a_{ vs $b"
    result = agtf.cluster({odd: views[0], "\\$": views[1]}, 3, feature_names={odd: [f"{odd} {c}" for c in range(4)]})
    classes = np.array([odd, "b", "c"])[y]
    explanation = result.explain(0)
    explanation.sample_names = [f"{odd} {i}" for i in range(60)]
    drawn = [agtf.plot_anchors(result), agtf.plot_views(result), agtf.plot_explain(explanation)]
    drawn += [agtf.plot_confusion(classes, result.labels), agtf.plot_embedding(result.memberships, classes)]
    drawn += [agtf.plot_profile(result, 0)[0], agtf.plot_clusters(result)]
    for ax in drawn:
        ax.figure.canvas.draw()
    assert drawn[1].get_yticklabels()[0].get_text() == odd.replace("$", r"\$")


def test_importing_the_module_does_not_import_matplotlib():
    code = "import agtf, sys; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
