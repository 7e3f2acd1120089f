"""Values on the workers of Dask, tasks that make them, and what may become of both.

Everything goes through `dask.persist` and `dask.compute`: to the cluster of the current client, or to the threads of
this process where there is none. Nothing is kept without the recipe that it was made by, so a worker that dies costs
the time to make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dask
from dask.delayed import delayed
from dask.sizeof import sizeof
from distributed import KilledWorker, as_completed, default_client, futures_of
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError

from fanbayes.data.batches import reason_of
from fanbayes.data.table import EncodedTable
from fanbayes.estimators.progress import steps
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.partitioned import FAN_IN, added_up


@dataclass(frozen=True)
class DaskParts:
    """Values of Dask, one for each partition or block (`fanbayes.learning.partitioned.Parts`)."""

    values: tuple[Any, ...]

    def map(self, function: Callable[..., Any], *arguments: Any) -> DaskParts:
        """A function of each value and of the arguments, which are sent once to a worker."""
        return self.of(function, [(value,) for value in self.values], *arguments)

    @classmethod
    def of(cls, function: Callable[..., Any], own: Iterable[tuple[Any, ...]], *arguments: Any) -> DaskParts:
        """A function of the own arguments of each value, and of those that all have."""
        shared = [delayed(argument, traverse=False, name=f"fanbayes-argument-{uuid4().hex}") for argument in arguments]
        return cls(tasks(function, [(*each, *shared) for each in own]))

    def persist(self) -> DaskParts:
        """The same values, computed where they are and kept there as long as somebody asks for them."""
        with _on_cluster():
            return DaskParts(dask.persist(*self.values, traverse=False))

    def wait(self, doing: str, verbose: bool) -> None:
        """Until all of these kept values are there; if `verbose`, how many are is shown, with the time left."""
        with steps(verbose, len(self.values)) as report, _on_cluster():
            for _ in as_completed(futures_of(self.values)) if verbose else ():
                report(doing, 1)
        self.map(nothing).gather()  # and say what has become of them

    def gather(self) -> list[Any]:
        """The values, brought here."""
        with _on_cluster():
            return list(dask.compute(*self.values, traverse=False))

    def sum(self) -> Any:
        """Their sum: workers add until there are a few, which are brought and added here."""
        few = DaskParts(tuple(added_up(self.values, _add_later, most=FAN_IN))).gather()
        return _sum(few)


def tasks(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """A task for each of the arguments, all called by the function's name."""
    call = delayed(function, pure=False, traverse=False)
    name = f"fanbayes-{function.__name__.lower().strip('_').replace('_', '-')}-{uuid4().hex}"
    return tuple(call(*each, dask_key_name=f"{name}-{k}") for k, each in enumerate(arguments))


def _add_later(values: Sequence[Any]) -> Any:
    return tasks(_sum, [(list(values),)])[0]


def _sum(values: list[Any]) -> Any:
    return sum(values[1:], start=values[0])


@sizeof.register(EncodedTable)  # type: ignore[untyped-decorator]
def _bytes_of_table(table: EncodedTable) -> int:
    arrays = (table.narrow, table.wide, table.numbers, table.pairs, table.labels, table.weights)
    return sum(array.nbytes for array in arrays if array is not None)


@sizeof.register(InMemoryData)  # type: ignore[untyped-decorator]
def _bytes_of_data(data: InMemoryData) -> int:
    return int(_bytes_of_table(data.table))


# ---------------------------------------------------------------- what may go wrong


class PartitionError(ValueError):
    """What is wrong with a partition, which its message names."""


@contextmanager
def naming_partition(where: str) -> Iterator[None]:
    """Say of which partition an error is."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise PartitionError(f"{where}: {error}") from None


@contextmanager
def _on_cluster() -> Iterator[None]:
    """Say what has become of the cluster, where it is lost."""
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"workers of Dask died again and again over the task {error.task!r:.60}; give them more memory, or make "
            "the partitions smaller"
        ) from error
    except (CancelledError, CommClosedError, ClosedClientError) as error:
        raise ConnectionError(
            f"the scheduler of Dask went away, or what was computed was cancelled ({reason_of(error)}); connect to a "
            "scheduler, and fit again"
        ) from error


@contextmanager
def blaming(parts: DaskParts) -> Iterator[None]:
    """Where a partition cannot be read, name the first of them."""
    try:
        yield
    except (PartitionError, ConnectionError, RuntimeError):
        raise
    except Exception:
        found = _first_failure(parts.map(nothing).values)
        if found is None:  # each can be read: they do not fit together
            raise
        raise PartitionError(f"partition {found[0]} cannot be read: {found[1]}") from found[1]


def _first_failure(values: Sequence[Any]) -> tuple[int, Exception] | None:
    """Number of the first value that cannot be computed, and why; None where all can."""
    low, high, error = 0, len(values), _error_of(values)
    if error is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _error_of(values[low:middle]) is None:
            low = middle
        else:
            high = middle
    return low, _error_of(values[low:high]) or error


def _error_of(values: Sequence[Any]) -> Exception | None:
    try:
        DaskParts(tuple(values)).gather()
    except (ConnectionError, RuntimeError):
        raise
    except Exception as error:
        return error
    return None


def nothing(value: Any) -> None:
    """Of a value that only has to be there."""


def check_versions() -> None:
    """Refuse workers with other versions than here of what is sent to and fro."""
    try:
        client = default_client()
    except ValueError:
        return
    with _on_cluster():
        found = client.get_versions(packages=["fanbayes"])
    for name in ("fanbayes", "numpy"):
        here = found["client"]["packages"][name]
        for address, worker in found["workers"].items():
            there = worker["packages"].get(name)
            if there != here:
                has = f"has {name} {there}" if there else f"has no {name}"
                raise ValueError(f"worker {address} of Dask {has}, and here is {name} {here}; install the same there")
