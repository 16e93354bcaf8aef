"""`cached_property`, free of locks, and `RecentlyUsed`, a cache that stays as small as it is told.

The property of `functools` holds a lock while it computes, up to Python 3.11: a process that is
forked in that moment has it locked for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Key = TypeVar("Key")
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


class RecentlyUsed(Generic[Key, Value]):
    """Values by key, of which those that were not used for longest are forgotten.

    There are two generations, and a full one takes the place of the older: what was used since then
    moves to the younger. So a value that is used over and over costs a look-up and no bookkeeping.
    """

    def __init__(self, most: int) -> None:
        """Make an empty one; it keeps the ``most`` last used, and at times twice as many."""
        self._most = most
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """Return a value, None where there is none."""
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: Key, value: Value) -> None:
        """Keep a value."""
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def clear(self) -> None:
        """Forget everything."""
        self._old, self._young = {}, {}

    def __contains__(self, key: Key) -> bool:
        """True where a value is kept, which does not count as a use."""
        return key in self._young or key in self._old

    def __len__(self) -> int:
        """How many values are kept."""
        return len(self._young.keys() | self._old.keys())
