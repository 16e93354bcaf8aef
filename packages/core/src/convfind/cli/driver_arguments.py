"""Joins the words of an unquoted MIOpenDriver line, whose flags would be taken for our options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import click

from convfind.arguments import similar
from convfind.problem.syntax.driver_flags import FLAGS, FUSION_FLAGS
from convfind.problem.syntax.driver_line import MODES

_FIRST_WORD = re.compile(
    r"(?:.*[/\\])?MIOpenDriver(?:\.exe)?|conv(?:fp16|bfp16|int8|fp8|bfp8)?|CBAInfer(?:fp16)?"
)
_DRIVERS_OWN = frozenset(f"--{flag.long}" for flag in (*FLAGS, *FUSION_FLAGS))


def join_driver_line(arguments: Sequence[str], options: Mapping[str, bool]) -> list[str]:
    """Turn ``["--json", "conv", "-n", "4"]`` into ``["--json", "conv -n 4"]``.

    Long options of ours may stand behind the first word of the line too, short ones only before it.
    ``--mode`` is both the driver's and ours: its value tells which.

    Args:
        arguments: the command line.
        options: our options, and whether each is a flag without a value.

    Raises:
        click.NoSuchOption: a long option that is neither ours nor the driver's.
    """
    ours: list[str] = []
    words = iter(arguments)
    for word in words:
        if _FIRST_WORD.fullmatch(word):
            return [*ours, *_split(word, words, options)]
        ours.append(word)
        if not options.get(word, True):
            ours += _next(words)
    return ours


def _split(first: str, words: Iterator[str], options: Mapping[str, bool]) -> Iterator[str]:
    """Yield our options among the words behind the first one, then the line."""
    line = [first]
    for word in words:
        name, equals, _ = word.partition("=")
        value = [] if equals or options.get(name, True) else _next(words)
        if not name.startswith("--") or (name in _DRIVERS_OWN and not _is_ours(name, word, value)):
            line += (word, *value)
        elif name in options:
            yield from (word, *value)
        else:
            near = similar(name, (*options, *sorted(_DRIVERS_OWN)))
            raise click.NoSuchOption(
                name, possibilities=near, ctx=click.get_current_context(silent=True)
            )
    yield " ".join(line)


def _is_ours(name: str, word: str, value: Sequence[str]) -> bool:
    """Tell of an option that the driver has too whether it is ours."""
    return name == "--mode" and "".join(value or word.split("=")[1:]) not in MODES


def _next(words: Iterator[str]) -> list[str]:
    word = next(words, None)
    return [] if word is None else [word]
