"""Readers of a policy's fields: each brings a value into the type of its field, or refuses it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from enum import IntEnum, StrEnum
from types import NoneType
from typing import Any, Self, get_args, get_origin

from convfind.arguments import python_scalar
from convfind.errors import SettingsError

Read = Callable[[str, Any], object]


class NumberedWord(IntEnum):
    """Numbers with names, read from words in any case or from the number."""

    @classmethod
    def parse(cls, value: object, name: str) -> Self:
        """Read a word or number. ``name`` is the variable or option, for the error."""
        if isinstance(value, cls):
            return value
        text = str(value).strip().upper()
        for member in cls:
            if text in (member.name, str(member.value)):
                return member
        legal = ", ".join(f"{member.name} or {member.value}" for member in cls)
        raise SettingsError(name, value, legal)


def reader_of(kind: Any) -> Read:
    """Return the function that brings a value into the type of a field, or refuses it."""
    if NoneType in get_args(kind):
        (given,) = (option for option in get_args(kind) if option is not NoneType)
        return _optional(reader_of(given))
    if get_origin(kind) is frozenset:
        return _members(reader_of(*get_args(kind)))
    if issubclass(kind, StrEnum):
        return _word(kind)
    if issubclass(kind, NumberedWord):
        return lambda name, value: kind.parse(value, name)
    return {bool: _switch, float: _amount, int: _count, str: _text}[kind]


def _optional(read: Read) -> Read:
    def read_optional(name: str, value: Any) -> object:
        try:
            return None if value is None else read(name, value)
        except SettingsError as exc:
            raise SettingsError(name, exc.value, f"{exc.allowed}, or None") from None

    return read_optional


def _members(read: Read) -> Read:
    def read_members(name: str, value: Any) -> object:
        if type(value) is frozenset and not value:
            return value
        try:
            items = [value] if isinstance(value, str) else list(value)
        except TypeError:
            raise SettingsError(name, value, "a collection of words") from None
        return frozenset(read(name, item) for item in items)

    return read_members


def _word(kind: type[StrEnum]) -> Read:
    def read_word(name: str, value: Any) -> object:
        try:
            return kind(str(value).lower())
        except ValueError:
            raise SettingsError(name, value, ", ".join(kind)) from None

    return read_word


def _switch(name: str, value: Any) -> bool:
    value = python_scalar(value)
    if not isinstance(value, bool):
        raise SettingsError(name, value, "True or False")
    return value


def _amount(name: str, value: Any) -> float:
    number = python_scalar(value)
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not (is_number and 0 <= number < math.inf):
        raise SettingsError(name, value, "a finite number, 0 or more")
    return float(number)


def _count(name: str, value: Any) -> int:
    try:
        number = operator.index(python_scalar(value))
    except TypeError:
        number = -1
    if isinstance(value, bool) or number < 0:
        raise SettingsError(name, value, "a whole number, 0 or more")
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingsError(name, value, "words")
    return value


def needs_no_reading(kind: Any) -> type | None:
    """Return the type whose values a field takes as they are; None where values have a range."""
    if NoneType in get_args(kind):
        return NoneType
    return kind if isinstance(kind, type) and kind not in (float, int) else None
