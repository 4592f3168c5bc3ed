"""The notebooks of tutorials/: the committed files are in order, and every one runs in a fresh kernel.

They run in their reduced mode (AGTF_FAST=1), with data from AGTF_DATA if it is there, with the built-in digits if not.
The first three by default, the others, which take longer, with `-m slow`.
"""

import json
import os
import pathlib
import re

import pytest
from conftest import ROOT, needs_jit

FOLDER = ROOT / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = """01_quickstart 02_inside_agtf 03_reading_the_factors 04_parameters 05_sample_order 06_large_data 07_messy_data
08_your_data"""
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def source(cell):
    return "".join(cell["source"])


def code_cells(path):
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def printed(cell):
    """What the cell's outputs say in words: streams, plain text, tracebacks."""
    parts = []
    for output in cell["outputs"]:
        texts = [output.get("text", ""), *output.get("traceback", [])]
        texts += [value for kind, value in output.get("data", {}).items() if kind.startswith("text/")]
        parts += ["".join(text) for text in texts]
    return "\n".join(parts)


def test_all_eight_are_there():
    assert [path.stem for path in NOTEBOOKS] == NAMES.split()


@each_notebook
def test_executed_from_top_to_bottom_without_an_error(path):
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


@each_notebook
def test_cells_are_short_and_prose_comes_first(path):
    cells = read(path)["cells"]
    assert cells[0]["cell_type"] == "markdown" and source(cells[0]).startswith("# ")
    too_long = {cell["id"]: len(source(cell).splitlines()) for cell in cells if source(cell).count("\n") >= 25}
    assert not too_long


@each_notebook
def test_ends_with_what_was_learned(path):
    last = source(read(path)["cells"][-1])
    assert last.startswith("## What you learned") and "**Next:**" in last


@each_notebook
def test_nothing_is_loaded_from_the_network(path):
    for cell in code_cells(path):
        assert not re.search(r"https?://|ftp://|urlopen|urlretrieve|fetch_|requests\.|!pip|!wget|!curl", source(cell))


@each_notebook
def test_no_path_of_the_machine_and_no_warning_in_the_outputs(path):
    for cell in code_cells(path):
        text = printed(cell)
        assert not re.search(r"(?<![\w.])/(home|root|work|tmp|usr|var|opt|Users|mnt|private)\b|[A-Z]:\\", text), text
        assert "Warning" not in text, text


@each_notebook
def test_links_lead_somewhere(path):
    for cell in read(path)["cells"]:
        if cell["cell_type"] == "markdown":
            for target in re.findall(r"\]\(([^)#]+)\)", source(cell)):
                assert target.startswith("http") or (FOLDER / target).exists(), target


def test_readme_lists_every_notebook_with_a_picture():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"({path.name})" in text, path.name
    pictures = re.findall(r"(?:!\[[^]]*\]\(|<img[^>]*src=\")([^)\"]+)", text)
    assert len(pictures) >= len(NOTEBOOKS)
    assert all((FOLDER / picture).exists() for picture in pictures)


def test_the_folder_stays_small():
    assert sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()) < 8_000_000


@needs_jit
@pytest.mark.filterwarnings("default")  # warnings of the notebook machinery are not ours
@pytest.mark.parametrize(
    "path",
    [*NOTEBOOKS[:3], *(pytest.param(path, marks=pytest.mark.slow) for path in NOTEBOOKS[3:])],
    ids=lambda path: path.stem,
)
def test_runs(path, monkeypatch, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="running notebooks needs nbformat")
    nbclient = pytest.importorskip("nbclient", reason="running notebooks needs nbclient")
    pytest.importorskip("ipykernel", reason="running notebooks needs ipykernel")
    monkeypatch.setenv("AGTF_FAST", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    for library in ("OMP", "OPENBLAS"):  # small problems: threads of scikit-learn would only wait for each other
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")
    # The data folder is found from the project's root, the kernel runs in tutorials/.
    folder = pathlib.Path(os.environ.get("AGTF_DATA", ROOT.parent / "shared" / "data")).resolve()
    monkeypatch.setenv("AGTF_DATA", str(folder))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    # What the tests see must be what readers would get, reduced: the same cells, no error, nothing on standard error.
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert "Warning" not in printed(cell), printed(cell)
