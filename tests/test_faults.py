"""Threads, forks, pools, interrupts, memory: each in a process of its own, none may take the interpreter down."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import JIT_OFF, ROOT, blobs

import agtf

pytestmark = pytest.mark.skipif(JIT_OFF, reason="about compiled code")

PRELUDE = """
import agtf, numpy as np
rng = np.random.default_rng(0)
y = rng.integers(0, 4, 9000)
views = [3 * rng.normal(size=(4, 5))[y] + rng.normal(size=(9000, 5)) for _ in range(2)]
def run(seed=0):
    result = agtf.cluster(views, 4, random_state=seed, n_anchors=200, n_draws=2)
    # Not the labels alone, in which small differences would hide.
    return np.hstack([result.labels, result.memberships.ravel(), result.anchor_memberships.ravel()])
"""


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + code], cwd=ROOT, capture_output=True, text=True, timeout=300, **options
    )


@pytest.mark.parametrize(
    "code",
    [
        "from concurrent.futures import ThreadPoolExecutor\n"
        "alone = run()\n"
        "with ThreadPoolExecutor(4) as pool: together = list(pool.map(run, [0] * 4))",
        "import multiprocessing as mp, warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "alone = run()\n"
        "with mp.get_context('fork').Pool(2) as pool: together = pool.map(run, [0] * 3)",
        "import joblib\nalone = run()\ntogether = joblib.Parallel(n_jobs=2)(joblib.delayed(run)(0) for _ in range(3))",
    ],
    ids=["threads", "forked children", "joblib processes"],
)
def test_concurrent_calls_give_the_same_arrays(code):
    done = python(code + "\nassert all(np.array_equal(arrays, alone) for arrays in together); print('fine')")
    assert done.stdout == "fine\n", done.stderr


def test_interrupt_stops_cleanly():
    # A background job of a shell is started with interrupts ignored; Python then installs no handler of its own.
    handler = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = handler + "print('go', flush=True)\nwhile True: run()"
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "go\n"
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err and process.returncode in (1, -signal.SIGINT, 130)


def test_what_cannot_fit_is_refused_with_an_estimate():
    huge = np.broadcast_to(np.zeros((1, 2)), (10**10, 2))
    with pytest.raises(ValueError, match="n_neighbors must be at least 1 and below the number of anchors"):
        agtf.cluster(blobs()[0], 3, n_neighbors=10**12)
    with pytest.raises(MemoryError, match=r"10000000000 samples in 5 clusters need about \d+\.\d GiB"):
        agtf.cluster([huge, huge], 5)


def test_memory_mapped_views_are_read_in_place(tmp_path):
    views, _ = blobs(n=500)
    mapped = []
    for v, view in enumerate(views):
        np.save(tmp_path / f"{v}.npy", view.astype(np.float32))
        mapped.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
    expected = agtf.cluster([view.astype(np.float32) for view in views], 3)
    result = agtf.cluster(mapped, 3)
    np.testing.assert_array_equal(result.labels, expected.labels)
    np.testing.assert_array_equal(result.predict(mapped), expected.predict(views))
