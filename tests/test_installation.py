"""What users get besides the functions: the compiler's cache, a read-only disk, plain Python."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import JIT_OFF, ROOT, needs_jit

SMALL = "import agtf, numpy as np; agtf.cluster(np.random.default_rng(0).normal(size=(40, 3)), 2)"


@needs_jit
def test_read_only_installation_works_without_cache(tmp_path):
    shutil.copy(ROOT / "agtf.py", tmp_path)
    # No folder that numba may try can be written: neither beside the module nor in a home.
    hidden = "import numba.core.caching as c; c.CacheImpl._locator_classes = []; "
    env = dict(os.environ, HOME="/nonexistent", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, "-c", hidden + SMALL], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("__pycache__/*.nb?"))


@pytest.mark.skipif(JIT_OFF, reason="this is the run without the compiler")
def test_kernels_updates_and_graphs_pass_without_the_compiler():
    env = dict(os.environ, NUMBA_DISABLE_JIT="1")
    chosen = "test_tensors or test_solver or (graph or anchors or distances) and not spectrum and not identical_blocks"
    tests = [f"tests/test_{name}.py" for name in ("tensors", "solver", "graphs", "cluster")] + ["-pno:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-qx", *tests, "-k", chosen], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.skipif(JIT_OFF, reason="this is the run without the compiler")
def test_everything_passes_without_the_compiler_and_covers_the_module(tmp_path):
    env = dict(os.environ, NUMBA_DISABLE_JIT="1", COVERAGE_FILE=str(tmp_path / "coverage"))
    tests = [sys.executable, "-m", "coverage", "run", f"--include={ROOT / 'agtf.py'}", "-m", "pytest", "-qx"]
    chosen = ["-pno:cacheprovider", "tests", "--ignore=tests/test_tutorials.py"]
    done = subprocess.run([*tests, *chosen], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    # What is for Dask is not run here (its workers would compute for minutes), and is a twelfth of the module.
    report = subprocess.run(
        [sys.executable, "-m", "coverage", "report", "-m", "--fail-under=91"],
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    print(report.stdout)
    assert report.returncode == 0, report.stdout
