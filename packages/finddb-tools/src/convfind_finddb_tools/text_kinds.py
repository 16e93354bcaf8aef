"""MIOpen's two text formats: the lines of a find-db and of a perf-db, and their sub-databases."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from convfind_finddb_tools import miopen_text, perf_text
from convfind_finddb_tools.database import FOREIGN, FOREIGN_CONFIG

_PERF_NAME = re.compile(r".*\.u?db\.txt(?:\.bz2)?")
_FIND_NAME = re.compile(r".*\.txt(?:\.bz2)?")
_JSON_NAME = re.compile(r".*\.jsonl(?:\.bz2)?")


@dataclass(frozen=True, slots=True)
class TextKind:
    """Format of the lines of one kind of file."""

    table: str  # the sub-database of the records
    normalize: Callable[[bytes], bytes]  # whole lines in the form in which they are kept
    records: Callable[[bytes], list[tuple[bytes, bytes]]]
    fault: Callable[[bytes], str | None]
    is_record: Callable[[bytes, bytes], bool]


FIND_TEXT = TextKind(
    FOREIGN,
    miopen_text.upgrade,
    miopen_text.records,
    miopen_text.fault,
    miopen_text.is_record,
)
PERF_TEXT = TextKind(
    FOREIGN_CONFIG,
    perf_text.plain_lines,
    perf_text.perf_records,
    perf_text.perf_fault,
    perf_text.is_perf_record,
)
KINDS = {kind.table: kind for kind in (FIND_TEXT, PERF_TEXT)}


def kind_of(file: Path) -> TextKind:
    """The kind that a file's name tells: ``*.db.txt`` is a perf-db, anything else a find-db."""
    return PERF_TEXT if _PERF_NAME.fullmatch(file.name) else FIND_TEXT


def form_of(path: Path) -> str | None:
    """The form of text that a name tells, as `export_to` calls it; None for a database."""
    names = {"miopen-perf": _PERF_NAME, "miopen": _FIND_NAME, "jsonl": _JSON_NAME}
    if path.is_dir():
        return None
    return next((form for form, name in names.items() if name.fullmatch(path.name)), None)
