"""Joins the words of an unquoted MIOpenDriver line, whose flags would be taken for our options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_FIRST_WORD = re.compile(r"(?:.*[/\\])?MIOpenDriver(?:\.exe)?|conv(?:fp16|bfp16|int8|fp8|bfp8)?")
#: Long options that the driver has too; after the line's first word they are the driver's.
_DRIVERS_OWN = frozenset({"--mode"})


def join_driver_line(arguments: Sequence[str], options: Mapping[str, bool]) -> list[str]:
    """Turn ``["--json", "conv", "-n", "4"]`` into ``["--json", "conv -n 4"]``.

    Behind the first word of the line only long options of ours that the driver lacks are ours.

    Args:
        arguments: the command line.
        options: our options, and whether each is a flag without a value.
    """
    start = next((i for i, word in enumerate(arguments) if _FIRST_WORD.fullmatch(word)), None)
    if start is None:
        return list(arguments)
    line, ours = [arguments[start]], list(arguments[:start])
    words = iter(arguments[start + 1 :])
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("--") and name in options and name not in _DRIVERS_OWN:
            ours.append(word)
            if not options[name] and "=" not in word:
                ours += _next(words)
        else:
            line.append(word)
    return [*ours, " ".join(line)]


def _next(words: Iterator[str]) -> list[str]:
    word = next(words, None)
    return [] if word is None else [word]
