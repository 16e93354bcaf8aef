"""Conversion of typed values to macros and compiler options."""

from __future__ import annotations

import re
from collections.abc import Mapping

DefineValue = int | float | str | bool
Defines = tuple[tuple[str, DefineValue], ...]

_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_TOKEN = re.compile(r"[A-Za-z0-9_]+")


def make_defines(*groups: Mapping[str, DefineValue], **named: DefineValue) -> Defines:
    """Merge macros into the sorted tuple that a `KernelSpec` holds; later values win."""
    merged: dict[str, DefineValue] = {}
    for group in (*groups, named):
        merged.update(group)
    return tuple(sorted(merged.items()))


def define_text(value: DefineValue) -> str:
    """Spell a value as C: booleans as 0 or 1, floats in single precision, words as they are."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value!r}f"
    text = str(value)
    if isinstance(value, str) and not _TOKEN.fullmatch(text):
        msg = f"define value {value!r} is not a single C token"
        raise ValueError(msg)
    return text


def options_of(defines: Defines) -> tuple[str, ...]:
    """Return ``-DNAME=value`` options in order of name."""
    for name, _ in defines:
        if not _NAME.fullmatch(name):
            msg = f"define {name!r} is not an upper-case C macro name"
            raise ValueError(msg)
    return tuple(f"-D{name}={define_text(value)}" for name, value in defines)
