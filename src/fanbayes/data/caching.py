"""Values that know more about themselves than their fields: computed when first asked for, not pickled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Generic, Self, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class cached_property(Generic[Owner, Value]):
    """As `functools.cached_property`, without its lock.

    Python 3.11 takes a lock, one for all instances of the class, while it computes. A process that is forked meanwhile
    by another thread finds it locked for ever. Without it, two threads may both compute; the values are equal.
    """

    def __init__(self, function: Callable[[Owner], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Owner]) -> Self: ...
    @overload
    def __get__(self, instance: Owner, owner: type[Owner]) -> Value: ...
    def __get__(self, instance: Owner | None, owner: type[Owner]) -> Self | Value:
        if instance is None:
            return self
        # The next look finds it in the instance and does not come here.
        return instance.__dict__.setdefault(self.function.__name__, self.function(instance))  # type: ignore[no-any-return]


def fields_only(instance: Any) -> dict[str, Any]:
    """`__getstate__` of a dataclass without what it has cached, which may be native and is soon computed again."""
    return {f.name: getattr(instance, f.name) for f in fields(instance)}
