"""A `map` over threads, for tasks that release the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Map = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@contextmanager
def parallel_map(n: int) -> Iterator[Map]:
    """A `map` that uses n threads; each task runs on one, so the result does not depend on their number.

    So does linear algebra: its vectors are short, and threads of its own would only get in the way.
    """
    with threadpool_limits(1), ThreadPoolExecutor(max(1, n - 1), thread_name_prefix="fanbayes") as pool:
        yield partial(_map, pool, n)


def one_by_one(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """A `map` on the calling thread."""
    return [function(item) for item in items]


def _map(pool: ThreadPoolExecutor, n: int, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Results of the items; the calling thread is one of the n, those that cannot be had are done without."""
    results: list[Any] = [None] * len(items)
    places = iter(range(len(items)))  # shared: every thread takes the next

    def work() -> None:
        for k in places:
            results[k] = function(items[k])

    others: list[Future[None]] = []
    with suppress(RuntimeError):  # no more threads can be started
        others.extend(pool.submit(work) for _ in range(min(n, len(items)) - 1))
    work()
    for other in others:
        other.result()
    return results
