"""All contents of a database for one problem, on every device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from convfind.errors import ProblemError
from convfind.finddb.record import QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind.problem import ConvProblem
from convfind.problem.text import format_miopen_key, parse_problem
from convfind_finddb_tools.database import FOREIGN, FOREIGN_CONFIG, Snapshot
from convfind_finddb_tools.entry import (
    Entry,
    first_keys,
    foreign_entry,
    own_entry,
    split_key,
)
from convfind_finddb_tools.joining import JOINS
from convfind_finddb_tools.perf_text import configs, is_perf_key, perf_key
from convfind_finddb_tools.selection import Selection


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All contents of a database for a problem on one device."""

    device: str
    problem: str
    entry: Entry | None
    configs: tuple[TunedConfig, ...] = ()
    quarantine: tuple[QuarantineRecord, ...] = ()
    foreign_configs: tuple[tuple[str, str], ...] = ()  # solver and text of MIOpen's perf-db


def knowledge_about(snapshot: Snapshot, text: str, selection: Selection) -> list[Knowledge]:
    """Look a problem up on every device; a MIOpen key finds MIOpen's records in any case.

    Raises:
        ProblemError: the text is no problem, nor a key in the database.
    """
    found: list[Knowledge] = []
    names = _names(text)
    own_devices = {
        first.rpartition(b"|")[0]: None
        for table in (FIND, CONFIG, QUARANTINE)
        for first in first_keys(snapshot, table.name)
    }
    for device in own_devices:
        for name in names.own:
            key = device + b"|" + name.encode()
            entry = _read(snapshot, selection, FIND.name, key)
            configs = _read(snapshot, selection, CONFIG.name, key) or ()
            quarantine = _read(snapshot, selection, QUARANTINE.name, key) or ()
            if entry or configs or quarantine:
                own = None if entry is None else own_entry(key, entry)
                found.append(Knowledge(*split_key(key), own, configs, quarantine))
    for table, keys in ((FOREIGN, names.find_keys), (FOREIGN_CONFIG, names.perf_keys)):
        for first in first_keys(snapshot, table):
            for name in keys:
                key = first.rpartition(b"|")[0] + b"|" + name.encode()
                values = _read(snapshot, selection, table, key)
                if values is not None:
                    found.append(_foreign(table, key, values))
    if not found and not names.known:
        parse_problem(text)  # raises: the text is no problem at all
    return found


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of a problem in the sub-databases."""

    own: tuple[str, ...] = ()
    find_keys: tuple[str, ...] = ()
    perf_keys: tuple[str, ...] = ()
    known: bool = True


def _names(text: str) -> _Names:
    try:
        problems = parse_problem(text)
    except ProblemError:
        # MIOpen has keys that convfind has no problem for.
        return _Names((), (text,), (text,), is_perf_key(text))
    own = dict.fromkeys(key for problem in problems for key in (problem.key, problem.plain().key))
    return _Names(tuple(own), _spelled(format_miopen_key, problems), _spelled(perf_key, problems))


def _spelled(
    spell: Callable[[ConvProblem], str], problems: Sequence[ConvProblem]
) -> tuple[str, ...]:
    """The keys of those problems that a form has words for."""
    keys: list[str] = []
    for problem in problems:
        with suppress(ProblemError):
            keys.append(spell(problem))
    return tuple(keys)


def _read(snapshot: Snapshot, selection: Selection, table: str, key: bytes) -> Any:
    sealed = snapshot.get(table, key)
    value = None if sealed is None else JOINS[table].unpack(key, sealed, snapshot.get)
    return None if value is None else selection.narrowed(table, key, value)


def _foreign(table: str, key: bytes, values: bytes) -> Knowledge:
    device, problem = split_key(key)
    if table == FOREIGN:
        return Knowledge(device, problem, foreign_entry(key, values))
    texts = ((solver, text.partition(":")[2]) for solver, text in configs(values))
    return Knowledge(device, problem, None, foreign_configs=tuple(texts))
