"""Validation of values from files that somebody else wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from convfind.errors import ConvfindError
from convfind.finddb.key import SCHEMA
from convfind.finddb.record import FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind.plugins.registry import default_registry
from convfind.problem import ConvProblem
from convfind.problem.text import parse_network_config
from convfind.solver.config import ConfigValue
from convfind.types import Algorithm

_LARGEST = 1 << 63
_ALGORITHMS = frozenset(algorithm.value for algorithm in Algorithm)


def key_fault(key: str) -> str | None:
    """Return why a text is not the key of one of convfind's own values, None if it is."""
    device, _, problem = key.rpartition("|")
    schema, *parts = device.split("|")
    if schema != str(SCHEMA) or len(parts) < 5 or not parts[-1].isdecimal():
        return f"key {key[:80]!r} does not begin with schema {SCHEMA} and a device"
    try:
        parse_network_config(problem)
    except (ConvfindError, ValueError) as exc:  # a number of too many digits, for one
        return None if _is_key_of_a_package(problem) else str(exc)
    return None


def _is_key_of_a_package(text: str) -> bool:
    """True for the key of a problem that an installed package brings, in its one spelling."""
    try:
        found = default_registry().problem_from_key(text)
    except (ConvfindError, ValueError):
        return False
    return found.kind != ConvProblem.kind and found.key == text


def value_fault(table: str, value: Any) -> str | None:
    """Return why no search could have recorded a value of a sub-database, None if one could."""
    return _FAULTS[table](value)


def _entry_fault(entry: FindEntry) -> str | None:
    for record in entry.records:
        why = _record_fault(record)
        if why is not None:
            return f"record of {record.solver[:60]!r}: {why}"
    return None


def _record_fault(record: FindRecord) -> str | None:
    error = record.error
    if not record.solver:
        return "no solver"
    if record.algorithm not in _ALGORITHMS:
        return f"algorithm {record.algorithm[:40]!r} is none of {', '.join(sorted(_ALGORITHMS))}"
    if not 0 < record.time_ms < math.inf:
        return f"time {record.time_ms!r} ms is not above 0"
    if not 0 <= record.spread_ms < math.inf:
        return f"spread {record.spread_ms!r} ms is not 0 or more"
    if error is not None and not 0 <= error < math.inf:
        return f"error {error!r} is not 0 or more"
    if not _is_config(record.config or {}):
        return "a number of its config has more than 64 bits"
    for name in ("solver_version", "samples", "workspace", "created"):
        number = getattr(record, name)
        if not 0 <= number < _LARGEST:
            return f"{name} {number!r} is not 0 or more"
    return None


def _configs_fault(configs: tuple[TunedConfig, ...]) -> str | None:
    for one in configs:
        if not one.solver or not 0 <= one.time_ms < math.inf or not 0 <= one.created < _LARGEST:
            return f"tuned config of {one.solver[:60]!r} has no solver, or an impossible time"
        if not _is_config(one.config):
            return f"a number of the config of {one.solver[:60]!r} has more than 64 bits"
    return None


def _is_config(config: Mapping[str, ConfigValue]) -> bool:
    numbers = (value for value in config.values() if isinstance(value, int))
    return all(-_LARGEST <= number < _LARGEST for number in numbers)


def _quarantine_fault(records: tuple[QuarantineRecord, ...]) -> str | None:
    for one in records:
        if not one.solver or not 0 <= one.created < _LARGEST:
            return f"quarantine of {one.solver[:60]!r} has no solver, or an impossible time"
    return None


_FAULTS: dict[str, Callable[[Any], str | None]] = {
    FIND.name: _entry_fault,
    CONFIG.name: _configs_fault,
    QUARANTINE.name: _quarantine_fault,
}
