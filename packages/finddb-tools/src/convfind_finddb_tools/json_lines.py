"""Records as JSON Lines: one problem a line, fields by name, sorted, for review in git."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from convfind.errors import FindDbError, ProblemError
from convfind.finddb.key import SCHEMA
from convfind.finddb.record import FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind.problem_text import parse_network_config
from convfind_finddb_tools.database import FOREIGN, Snapshot, Writer
from convfind_finddb_tools.foreign import device_of_key
from convfind_finddb_tools.import_miopen import ImportReport
from convfind_finddb_tools.joining import JOINS, join_into
from convfind_finddb_tools.miopen_text import is_record
from convfind_finddb_tools.sealed import open_foreign
from convfind_finddb_tools.text_blocks import check_readable, read_blocks

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


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


def export_json_lines(snapshot: Snapshot, output: BinaryIO) -> tuple[int, int]:
    """Write everything; returns how many lines were written, and values were damaged."""
    written = damaged = 0
    for line in _lines(snapshot):
        if line is None:
            damaged += 1
            continue
        output.write(_encoder.encode(line) + b"\n")
        written += 1
    return written, damaged


def _lines(snapshot: Snapshot) -> Iterator[_Line | None]:
    for table in (FIND, CONFIG, QUARANTINE):
        for key, sealed in snapshot.items(table.name):
            value: Any = table.unpack(key, sealed)
            if value is None:
                yield None
                continue
            found = value.records if isinstance(value, FindEntry) else value
            considered = list(value.considered) if isinstance(value, FindEntry) else []
            records = [msgspec.structs.asdict(record) for record in found]
            yield _Line(table.name, key.decode(), records, considered)
    for key, sealed in snapshot.items(FOREIGN):
        text = open_foreign(key, sealed)
        yield None if text is None else _Line(FOREIGN, key.decode(), text=text.decode())


def import_json_lines(
    database: Path, file: Path, on_progress: Callable[[int], None] = lambda position: None
) -> ImportReport:
    """Merge the lines of a file into a database, whole or not at all.

    What is there already takes part by the rule of `convfind_finddb_tools.joining`.

    Raises:
        FindDbError: the file or the database cannot be used, or no line is a record.
    """
    check_readable(file)
    with Writer(database, room=4 * file.stat().st_size) as writer:

        def work(transaction: Any) -> ImportReport:
            report = ImportReport(file, "convfind")
            for block in read_blocks(file):
                for number, line in enumerate(block.text.split(b"\n")[:-1], block.first_line):
                    if not line.strip():
                        continue
                    report.lines += 1
                    try:
                        table, key, value = _read(line)
                    except (msgspec.MsgspecError, ProblemError, FindDbError) as exc:
                        report.refuse(number, str(exc))
                        continue
                    if join_into(transaction, writer.table(table), JOINS[table], key, value):
                        report.added += 1
                    else:
                        report.unchanged += 1
                on_progress(block.position)
            report.require_records()
            return report

        return writer.write(work)


def _read(text: bytes) -> tuple[str, bytes, Any]:
    """Return table, key and value of a line; raises where anything is not as it must be."""
    line = _decoder.decode(text)
    key = line.key.encode()
    if line.table == FOREIGN:
        device_of_key(key)
        if not is_record(key.rpartition(b"|")[2], line.text.encode()):
            msg = f"{line.text!r} is not the text of a record of MIOpen"
            raise FindDbError(msg)
        return FOREIGN, key, line.text.encode()
    kind = _KINDS.get(line.table)
    if kind is None:
        msg = f"table {line.table!r} is none of {', '.join((*_KINDS, FOREIGN))}"
        raise FindDbError(msg)
    schema, *device, problem = line.key.split("|")
    if schema != str(SCHEMA) or len(device) < 5:
        msg = f"key {line.key!r} does not begin with schema {SCHEMA} and a device"
        raise FindDbError(msg)
    parse_network_config(problem)
    records = tuple(_record(kind, fields) for fields in line.records)
    if kind is FindRecord:
        entry = FindEntry(records=cast("Any", records), considered=tuple(line.considered))
        return line.table, key, entry
    return line.table, key, records


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
