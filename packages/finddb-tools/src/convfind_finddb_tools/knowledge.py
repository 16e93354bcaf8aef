"""Everything a database knows about one problem, on every device."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.errors import ProblemError
from convfind.finddb.record import QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind.problem_text import format_miopen_key, parse_problem
from convfind_finddb_tools.database import FOREIGN, Snapshot
from convfind_finddb_tools.entry import (
    Entry,
    first_keys,
    foreign_entries,
    own_entries,
    split_key,
)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known about a problem on one device."""

    device: str
    problem: str
    entry: Entry | None
    configs: tuple[TunedConfig, ...] = ()
    quarantine: tuple[QuarantineRecord, ...] = ()


def knowledge_about(snapshot: Snapshot, text: str) -> list[Knowledge]:
    """Look a problem up on every device; a MIOpen key finds MIOpen's records in any case.

    Raises:
        ProblemError: the text is no problem, nor a key in the database.
    """
    names, foreign = _names(text)
    found: list[Knowledge] = []
    own_devices = {
        first.rpartition(b"|")[0]: None
        for table in (FIND, CONFIG, QUARANTINE)
        for first in first_keys(snapshot, table.name)
    }
    for device in own_devices:
        for name in names:
            known = _own(snapshot, device + b"|" + name.encode())
            if known is not None:
                found.append(known)
    for first in first_keys(snapshot, FOREIGN):
        for name in foreign:
            key = first.rpartition(b"|")[0] + b"|" + name.encode()
            for entry in foreign_entries(snapshot, key):
                if entry.problem == name:
                    found.append(Knowledge(entry.device, name, entry))
    if not found:
        parse_problem(text)  # raises where the text is no problem at all
    return found


def _names(text: str) -> tuple[list[str], list[str]]:
    """The network configs and MIOpen keys of a text."""
    try:
        problems = parse_problem(text)
    except ProblemError:
        return [], [text]  # MIOpen has keys that convfind has no problem for
    keys: list[str] = []
    for problem in problems:
        try:
            keys.append(format_miopen_key(problem))
        except ProblemError:
            continue
    plain = [name for problem in problems for name in (problem.key, problem.plain().key)]
    return list(dict.fromkeys(plain)), keys


def _own(snapshot: Snapshot, key: bytes) -> Knowledge | None:
    entry = next(
        (entry for entry in own_entries(snapshot, key) if entry.problem == _name(key)), None
    )
    configs = CONFIG.unpack(key, snapshot.get(CONFIG.name, key)) or ()
    quarantine = QUARANTINE.unpack(key, snapshot.get(QUARANTINE.name, key)) or ()
    if entry is None and not configs and not quarantine:
        return None
    device, problem = split_key(key)
    return Knowledge(device, problem, entry, configs, quarantine)


def _name(key: bytes) -> str:
    return split_key(key)[1]
