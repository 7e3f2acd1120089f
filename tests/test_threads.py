"""Threads that cannot be had, and processes that are forked while others are at work."""

import functools
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from builders import make_world
from joblib import effective_n_jobs
from sklearn.base import clone

from fanbayes import FANClassifier, _native
from fanbayes.data import schema, table
from fanbayes.model import network, structure

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks as Linux has them")


def run(code, before=""):
    """What a Python process of its own prints; it is killed if it hangs."""
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parent)}
    command = ["sh", "-c", f'{before} exec "$@"', "sh", sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=os.environ | alone, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@LINUX
def test_a_pool_is_as_large_as_the_system_allows():
    """With stacks of a gigabyte there is room for some of the threads and not for the next."""
    code = """
        import resource
        import builders, numpy as np
        from fanbayes import _native

        world = builders.make_world(8, "fan", 5, n=900)
        t = world.network.terms
        terms = (t.log_weight, t.log_table, t.numeric, t.n_linear, t.regression)
        arguments = (world.table.rows, t.structure.native, *terms, False, 7)
        wanted = _native.e_step(*arguments)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (5 << 29), resource.RLIM_INFINITY))
        pool = _native.ThreadPool(8)
        found = _native.e_step(*arguments, pool)
        print(pool.n_threads, all((a == b).all() for a, b in zip(found, wanted)))
        del pool
        print("ended")
    """
    n_threads, same, ended = run(code, "ulimit -s 1048576;")
    assert 1 < int(n_threads) < 8
    assert (same, ended) == ("True", "ended")


def test_no_more_threads_than_cores():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    one = FANClassifier(n_components=2, random_state=0, n_jobs=1).fit(X, y)
    many = clone(one).set_params(n_jobs=20_000).fit(X, y)
    assert many._n_threads() == effective_n_jobs(-1)
    np.testing.assert_array_equal(many.predict_proba(X), one.predict_proba(X))
    with pytest.raises(ValueError, match="n_jobs=2147483648 must be at most 1000000"):
        clone(one).set_params(n_jobs=2**31).fit(X, y)


def test_several_callers_share_a_pool():
    """Each gets its own results, whoever did the work."""
    world = make_world(8, "fan", 5, n=900)
    t = world.network.terms
    terms = (t.log_weight, t.log_table, t.numeric, t.n_linear, t.regression)
    tables = [world.table.only(np.arange(n)) for n in (900, 850, 800, 750, 700)]
    pool = _native.ThreadPool(3)

    def e_steps(table, pool):
        arguments = (table.rows, t.structure.native, *terms, False, 7)
        return [_native.e_step(*arguments, pool)[0] for _ in range(100)]

    with ThreadPoolExecutor(len(tables)) as callers:
        found = list(callers.map(e_steps, tables, [pool] * len(tables)))
    for rows, own in zip(tables, found):
        [wanted, *_] = e_steps(rows, None)
        assert all((one == wanted).all() for one in own)


@LINUX
def test_one_thread_in_a_daemonic_process_imports_no_dask():
    code = """
        import multiprocessing, sys
        import numpy as np
        from fanbayes import NBClassifier

        def fit():
            NBClassifier(n_jobs=1).fit(np.arange(20.0)[:, None], np.arange(20) % 2)
            print("distributed" in sys.modules)

        process = multiprocessing.get_context("fork").Process(target=fit, daemon=True)
        process.start()
        process.join()
    """
    assert run(code) == ["False"]


@LINUX
def test_a_pool_in_a_forked_process_is_the_caller_alone():
    code = """
        import os, signal
        import builders
        from fanbayes import _native

        world = builders.make_world(8, "fan", 5, n=900)
        t = world.network.terms
        terms = (t.log_weight, t.log_table, t.numeric, t.n_linear, t.regression)
        arguments = (world.table.rows, t.structure.native, *terms, False, 7)
        pool = _native.ThreadPool(3)
        wanted = _native.e_step(*arguments, pool)
        child = os.fork()
        signal.alarm(30)  # should it hang
        found = _native.e_step(*arguments, pool)
        same = all((a == b).all() for a, b in zip(found, wanted))
        del pool
        if child == 0:
            os._exit(0 if same else 1)
        print(same, os.waitpid(child, 0)[1])
    """
    assert run(code) == ["True", "0"]


@LINUX
def test_a_cached_value_is_no_obstacle_to_a_forked_process():
    """A thread is computing one when the process is forked; the child wants it of another instance."""
    code = """
        import os, signal, threading
        from fanbayes.data.caching import cached_property

        computing, go_on = threading.Event(), threading.Event()

        class Value:
            def __init__(self, slow):
                self.slow = slow

            @cached_property
            def double(self):
                if self.slow:
                    computing.set()
                    go_on.wait()
                return 2 * self.slow

        slow = Value(1)
        thread = threading.Thread(target=lambda: slow.double)
        thread.start()
        computing.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            os._exit(Value(0).double)
        print(os.waitpid(child, 0)[1])
        go_on.set()
        thread.join()
        print(vars(slow)["double"], isinstance(Value.double, cached_property))
    """
    assert run(code) == ["0", "2", "True"]


@pytest.mark.parametrize("module", [schema, table, structure, network])
def test_nothing_that_predicts_waits_for_a_lock(module):
    own = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]
    assert own
    assert not [value for c in own for value in vars(c).values() if isinstance(value, functools.cached_property)]


@LINUX
def test_processes_that_are_forked_while_threads_predict():
    code = """
        import os, pickle, signal, threading
        import numpy as np
        from fanbayes import FANClassifier

        X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
        clf = FANClassifier(n_components=2, random_state=0, n_jobs=2).fit(X, y)
        wanted, fresh = clf.predict_proba(X), pickle.dumps(clf)
        over = threading.Event()

        def predict():
            while not over.is_set():
                pickle.loads(fresh).predict_proba(X)  # its cached values have to be computed again

        threads = [threading.Thread(target=predict) for _ in range(3)]
        for thread in threads:
            thread.start()
        children = []
        for _ in range(20):
            children.append(os.fork())
            if children[-1] == 0:
                signal.alarm(30)
                same = (pickle.loads(fresh).predict_proba(X) == wanted).all() and (clf.predict_proba(X) == wanted).all()
                os._exit(0 if same else 1)
        print(*{os.waitpid(child, 0)[1] for child in children})
        over.set()
        for thread in threads:
            thread.join()
    """
    assert run(code) == ["0"]
