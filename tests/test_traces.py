"""What a call borrows from the process (threads of libraries, warnings, random numbers) it leaves as it was."""

import os
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from conftest import ROOT, blobs, needs_jit
from threadpoolctl import ThreadpoolController, threadpool_limits

import agtf

LIBRARIES = ThreadpoolController()  # what threadpool_info() reports, without searching for libraries every time


@pytest.fixture(autouse=True)
def two_library_threads():
    """So that a limit of one is seen on a machine of one core, too."""
    with threadpool_limits(2):
        yield


def threads_of_libraries():
    return [library["num_threads"] for library in LIBRARIES.info()]


def state_of_the_process():
    kind, keys, *position = np.random.get_state()  # noqa: NPY002
    return threads_of_libraries(), list(warnings.filters), (kind, keys.tolist(), position), dict(os.environ)


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def overlapping(first, second):
    """Begin `first`, begin `second`, end `first`, end `second`: what the second's thread sees, three times.

    Both threads live until the end: threadpoolctl lets a living thread own OpenBLAS's limit.
    """
    seen, barrier = [], threading.Barrier(2, timeout=60)

    def a():
        with first():
            barrier.wait()  # 1: first runs
            barrier.wait()  # 2: both run
        barrier.wait()  # 3: first has ended
        barrier.wait()  # 4: both have

    def b():
        barrier.wait()
        with second():
            seen.append(threads_of_libraries())
            barrier.wait()
            barrier.wait()
            seen.append(threads_of_libraries())
        seen.append(threads_of_libraries())
        barrier.wait()

    with ThreadPoolExecutor(2) as pool:
        for task in [pool.submit(a), pool.submit(b)]:
            task.result()
    return seen


def test_limits_hold_until_the_last_call_ends():
    before, here = in_another_thread(threads_of_libraries), threads_of_libraries()
    ones = [1] * len(before)
    assert overlapping(agtf._limits, agtf._limits) == [ones, ones, before]
    assert overlapping(agtf._limits, lambda: agtf._limits(1)) == [ones, ones, before]
    assert threads_of_libraries() == here


def test_a_call_within_a_call_ends_no_limit():
    before = threads_of_libraries()
    with agtf._limits():
        with pytest.raises(KeyError), agtf._limits():
            raise KeyError
        assert set(threads_of_libraries()) == {1}
    assert threads_of_libraries() == before


def test_limits_hold_in_a_thread_where_another_thread_owns_them():
    threadpool_limits(2)  # from now on this thread owns OpenBLAS's limit, for threadpoolctl

    def look():
        with agtf._limits():
            inside = threads_of_libraries()
        return inside, threads_of_libraries()

    inside, after = in_another_thread(look)
    assert set(inside) == {1} and after == in_another_thread(threads_of_libraries)


def test_workers_have_the_limits_too():
    with agtf._limits(2):
        seen = agtf._map_rows(lambda lo, hi: (threading.get_ident(), threads_of_libraries()), 20, rows=1)
    assert threading.get_ident() not in [thread for thread, _ in seen]
    assert {tuple(numbers) for _, numbers in seen} == {(1,) * len(LIBRARIES.info())}


def threads_used(blocks=12):
    """How many threads work on blocks that take their time."""

    def work(lo, hi):
        time.sleep(0.02)
        return threading.get_ident()

    return len(set(agtf._map_rows(work, blocks, rows=1)))


@pytest.mark.parametrize("n_jobs", [1, 2, 3, np.int64(5)])
def test_n_jobs_is_the_number_of_threads(n_jobs):
    with agtf._limits(n_jobs):
        assert threads_used() == n_jobs
        with agtf._limits(2):  # in a callback
            assert threads_used() == min(n_jobs, 2)
        assert threads_used() == n_jobs
        assert agtf._map_rows(lambda lo, hi: threads_used_by_a_call(), 4, rows=1) == [1] * 4


def threads_used_by_a_call():
    with agtf._limits(4):
        return threads_used()


@pytest.mark.parametrize("n_jobs", [None, -1])
def test_all_threads_are_those_of_numba(monkeypatch, n_jobs):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 4)
    assert threads_used() == 1  # outside a call there are none
    with agtf._limits(n_jobs):
        assert threads_used() == 4


@pytest.mark.parametrize("n_jobs", [0, -2, 1.0, True, "2"])
def test_other_n_jobs_are_refused(n_jobs):
    before = threads_of_libraries()
    with pytest.raises(ValueError, match="n_jobs must be None, -1 or an int of at least 1"), agtf._limits(n_jobs):
        pass
    assert threads_of_libraries() == before


FORK = """
import os, threading, warnings
import agtf
from threadpoolctl import ThreadpoolController, threadpool_limits
warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads: that is the question here
blas = ThreadpoolController().select(user_api="blas")
blas.limit(limits=2)
def threads():
    return {library["num_threads"] for library in blas.info()}
def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
def alone():
    assert threads() == {2}, threads()
    with agtf._limits():
        assert threads() == {1}
    assert threads() == {2}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize(
    "code",
    [
        # Another thread's call runs on in the parent; in the child there is no such thread.
        "begun, end = threading.Event(), threading.Event()\n"
        "def call():\n"
        "    with agtf._limits():\n"
        "        begun.set()\n"
        "        end.wait(60)\n"
        "other = threading.Thread(target=call)\n"
        "other.start(); begun.wait(60)\n"
        "in_child(alone)\n"
        "assert threads() == {1}\n"
        "end.set(); other.join()\n"
        "alone()",
        # Forked in a call, by a callback: the child is in that call, too, and leaves it.
        "def leave():\n"
        "    assert threads() == {1}\n"
        "    with agtf._limits(): assert threads() == {1}\n"
        "    assert threads() == {1}\n"
        "    call.__exit__(None, None, None)\n"
        "    alone()\n"
        "call = agtf._limits()\n"
        "with call: in_child(leave)\n"
        "alone()",
        # In a call within a call.
        "def leave():\n"
        "    inner.__exit__(None, None, None)\n"
        "    assert threads() == {1}\n"
        "    outer.__exit__(None, None, None)\n"
        "    alone()\n"
        "outer, inner = agtf._limits(), agtf._limits()\n"
        "with outer:\n"
        "    with inner: in_child(leave)\n"
        "alone()",
        # The lock is held by somebody at the moment of the fork.
        "stop = threading.Event()\n"
        "def busy():\n"
        "    while not stop.is_set():\n"
        "        with agtf._limits(): pass\n"
        "others = [threading.Thread(target=busy) for _ in range(3)]\n"
        "for other in others: other.start()\n"
        "for _ in range(50): in_child(alone)\n"
        "in_child(lambda: in_child(alone))\n"
        "stop.set()\n"
        "for other in others: other.join()\n"
        "alone()",
    ],
    ids=["beside a call", "in a call", "in a call within a call", "at any moment"],
)
def test_forked_children_inherit_no_limit(code):
    done = subprocess.run([sys.executable, "-c", FORK + code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def same(result, expected):
    """Equal in every array, not in the labels alone, in which small differences would hide."""
    for name in ("labels", "memberships", "anchor_memberships", "joint_memberships", "anchors"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)
    for name, values in expected.history.items():
        np.testing.assert_array_equal(result.history[name], values, err_msg=name)


@needs_jit
def test_overlapping_calls_leave_no_trace_and_do_not_change_each_other():
    # Copies, so that k-means has fewer different rows than clusters, of which it warns; rows enough for several blocks.
    copies = [np.repeat(view, 4, axis=0) for view in blobs(n=15)[0]]
    large, _ = blobs(n=5000, k=4, widths=(5, 6), spread=2.0)
    problems = [(copies, 3, dict(n_anchors=30)), (large, 4, dict(n_anchors=100, max_iter=20, tol=1e-1))] * 3
    alone = [agtf.cluster(views, k, **options) for views, k, options in problems[:2]]
    before, elsewhere = state_of_the_process(), in_another_thread(threads_of_libraries)
    with ThreadPoolExecutor(6) as pool:
        begun = [pool.submit(agtf.cluster, views, k, **options) for views, k, options in problems]
        together = [task.result() for task in begun]
        predicted = list(pool.map(lambda i: together[i].predict(problems[i][0]), range(6)))
        suggested = list(pool.map(lambda i: agtf.suggest_k(problems[i][0], 8).scores, range(6)))
    assert state_of_the_process() == before and in_another_thread(threads_of_libraries) == elsewhere
    for i, result in enumerate(together):
        same(result, alone[i % 2])
        np.testing.assert_array_equal(predicted[i], alone[i % 2].predict(problems[i][0]))
        np.testing.assert_array_equal(suggested[i], suggested[i % 2])


def test_a_failed_call_leaves_no_trace():
    before = state_of_the_process()
    with pytest.raises(ZeroDivisionError):
        agtf.cluster(blobs()[0], 3, callback=lambda state: 1 / 0)
    assert state_of_the_process() == before


def test_no_filter_for_warnings_is_touched(monkeypatch):
    """They belong to the process: whoever changes them in one thread changes them for the others."""
    callers = []

    class Spy(warnings.catch_warnings):  # scikit-learn's checks of arrays use it, too, for some microseconds
        def __enter__(self):
            callers.append(sys._getframe(1).f_code.co_filename)
            return super().__enter__()

    with monkeypatch.context() as patch:
        patch.setattr(warnings, "catch_warnings", Spy)
        agtf.cluster([np.repeat(view, 4, axis=0) for view in blobs(n=15)[0]], 3, n_anchors=30)
    assert callers and agtf.__file__ not in callers


@pytest.mark.parametrize("noise", [0, 1e-15, 1e-12, 1e-10])
def test_kmeans_does_not_warn_of_rows_that_it_cannot_tell_apart(noise):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7, 3))[np.arange(60) % 7]
    X = X + noise * rng.normal(size=X.shape)
    for k in (7, 8, 40, 60):
        labels = agtf._kmeans(X, k, seed=0)
        np.testing.assert_array_equal(labels, labels[np.arange(60) % 7])
        assert len(set(labels)) == 7
    assert len(set(agtf._kmeans(X, 5, seed=0))) == 5
    assert len(set(agtf._kmeans(np.full((9, 2), 0.1), 3, seed=0))) == 1
    on_a_line = rng.permutation(60)[:, None] * 1e-7
    assert len(set(agtf._kmeans(on_a_line, 60, seed=0))) == 60
    for seed in range(20):  # rows that differ in the first directions alone, in which no seeds are sought
        few = np.random.default_rng(seed).integers(0, 2, size=(37, 9)) * np.array([1.0] * 5 + [0.0] * 4)
        agtf._kmeans(few, 6, seed=seed)
    # Single precision would see six clusters, and scikit-learn would warn.
    close = np.eye(5)[np.arange(60) % 5] * (1 + 2e-4 * (np.arange(60) == 0))[:, None]
    assert len(set(agtf._kmeans(close.astype(np.float32), 6, seed=0))) == 5
