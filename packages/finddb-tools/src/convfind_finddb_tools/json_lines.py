"""Records as JSON Lines: one problem per line, fields by name, sorted, for review in git."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from convfind.errors import ConvfindError, FindDbError
from convfind.finddb.change import Change
from convfind.finddb.record import FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind_finddb_tools.database import Snapshot, Writer
from convfind_finddb_tools.foreign import device_of_key
from convfind_finddb_tools.import_miopen import ImportReport
from convfind_finddb_tools.joining import JOINS, join_into
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.text_blocks import TextFile
from convfind_finddb_tools.text_kinds import KINDS
from convfind_finddb_tools.validity import key_fault, value_fault

_KINDS: dict[str, type[msgspec.Struct]] = {
    FIND.name: FindRecord,
    CONFIG.name: TunedConfig,
    QUARANTINE.name: QuarantineRecord,
}


class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    table: str
    key: str
    records: list[dict[str, Any]] = []
    considered: list[str] = []
    text: str = ""  # of a foreign record


_MALFORMED = (msgspec.MsgspecError, ConvfindError, ValueError, RecursionError)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def export_json_lines(
    snapshot: Snapshot, output: BinaryIO, selection: Selection
) -> tuple[int, int]:
    """Write the selected entries; return the number of lines written and of damaged values."""
    written = damaged = 0
    for line in _lines(snapshot, selection):
        if line is None:
            damaged += 1
            continue
        output.write(_encoder.encode(line) + b"\n")
        written += 1
    return written, damaged


def _lines(snapshot: Snapshot, selection: Selection) -> Iterator[_Line | None]:
    for table, join in JOINS.items():
        for key, sealed in snapshot.items(table):
            value = join.unpack(key, sealed, snapshot.get)
            if value is None:
                yield None
                continue
            value = selection.narrowed(table, key, value)
            if value is not None:
                yield _line(table, key.decode(), value)


def _line(table: str, key: str, value: Any) -> _Line:
    if table in KINDS:
        return _Line(table, key, text=value.decode())
    found = value.records if isinstance(value, FindEntry) else value
    considered = list(value.considered) if isinstance(value, FindEntry) else []
    return _Line(table, key, [msgspec.structs.asdict(record) for record in found], considered)


def import_json_lines(
    database: Path, file: Path, on_progress: Callable[[int], None] = lambda position: None
) -> ImportReport:
    """Merge the lines of a file into a database, whole or not at all.

    Existing records take part by the rule of `convfind_finddb_tools.joining`.

    Raises:
        FindDbError: the file or the database cannot be used, or no line is a record.
    """
    text = TextFile(file)
    with Writer(database, room=4 * file.stat().st_size) as writer:

        def work(change: Change) -> ImportReport:
            report = ImportReport(file, "convfind")
            for block in text.blocks():
                for number, line in enumerate(block.text.split(b"\n")[:-1], block.first_line):
                    if not line.strip():
                        continue
                    report.lines += 1
                    try:
                        table, key, value = _read(line)
                    except _MALFORMED as exc:
                        report.refuse(number, str(exc))
                        continue
                    if join_into(change, table, key, value):
                        report.added += 1
                    else:
                        report.unchanged += 1
                on_progress(block.position)
            report.require_records()
            return report

        return writer.change(work)


def _read(text: bytes) -> tuple[str, bytes, Any]:
    """Return table, key and value of a line; raises where anything is not as it must be."""
    line = _decoder.decode(text)
    key = line.key.encode()
    if line.table in KINDS:
        device_of_key(key)
        if not KINDS[line.table].is_record(key.rpartition(b"|")[2], line.text.encode()):
            msg = f"{line.text!r} is not the text of a record of MIOpen"
            raise FindDbError(msg)
        return line.table, key, line.text.encode()
    kind = _KINDS.get(line.table)
    if kind is None:
        msg = f"table {line.table!r} is none of {', '.join(JOINS)}"
        raise FindDbError(msg)
    why = key_fault(line.key)
    if why is not None:
        raise FindDbError(why)
    records = tuple(_record(kind, fields) for fields in line.records)
    value: Any = records
    if kind is FindRecord:
        value = FindEntry(records=cast("Any", records), considered=tuple(line.considered))
    why = value_fault(line.table, value)
    if why is not None:
        raise FindDbError(why)
    return line.table, key, value


def _record(kind: type[msgspec.Struct], fields: dict[str, Any]) -> msgspec.Struct:
    """Make a record of fields by name, checking every type."""
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    unknown = sorted(fields.keys() - known.keys())
    missing = sorted(name for name in known.keys() - fields.keys() if known[name].required)
    if unknown or missing:
        names = ", ".join(known)
        msg = f"fields: unknown {unknown}, missing {missing}; a record has {names}"
        raise FindDbError(msg)
    values = [fields.get(name, field.default) for name, field in known.items()]
    return msgspec.convert(values, kind)
