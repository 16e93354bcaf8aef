"""`cached_property`: computed once for an object, and free of locks.

That of `functools` holds a lock while it computes, up to Python 3.11: a process that is forked in
that moment has it locked for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):
    """A property whose first value stays in the object. Threads may compute it at once."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        # Found there before this is asked again.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
