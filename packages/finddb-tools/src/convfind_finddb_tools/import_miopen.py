"""Importing MIOpen's texts: every line becomes an entry or is listed with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from convfind.errors import FindDbError
from convfind.finddb.environment import Transaction
from convfind.finddb.key import seal
from convfind_finddb_tools.database import Writer
from convfind_finddb_tools.foreign import ForeignDevice
from convfind_finddb_tools.text_blocks import Block, TextFile
from convfind_finddb_tools.text_kinds import PERF_TEXT, TextKind, kind_of

_MOST_REFUSED = 100_000  # lines; a file with more is not what it claims to be
_GROWTH = 64  # bytes that a compressed byte may become in the database


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that did not become an entry."""

    number: int
    reason: str


@dataclass(slots=True)
class ImportReport:
    """Result of importing the lines of one file."""

    file: Path
    source: str  # the device it is for, or "convfind" for JSON Lines
    lines: int = 0  # without empty ones
    added: int = 0
    unchanged: int = 0
    refused: list[RefusedLine] = field(default_factory=list)

    def refuse(self, number: int, reason: str) -> None:
        """Note a line that is left out. Raises `FindDbError` where there are far too many."""
        self.refused.append(RefusedLine(number, reason))
        if len(self.refused) > _MOST_REFUSED:
            msg = f"{self.file}: more than {_MOST_REFUSED} lines are refused, the last: {reason}"
            raise FindDbError(msg)

    def require_records(self) -> None:
        """Raise `FindDbError` where no line at all is an entry."""
        if not self.lines:
            msg = f"{self.file} is empty"
            raise FindDbError(msg)
        if not self.added and not self.unchanged and self.refused:
            first = self.refused[0]
            msg = f"{self.file} holds no entry; line {first.number}: {first.reason}"
            raise FindDbError(msg)


def import_miopen(
    database: Path,
    file: Path,
    device: ForeignDevice | None = None,
    *,
    kind: TextKind | None = None,
    replace: bool = False,
    on_progress: Callable[[int], None] = lambda position: None,
) -> ImportReport:
    """Import a find-db of version 1 or 2, or a perf-db, as foreign records, whole or not at all.

    Existing records stay: an equal line counts as unchanged, a different one is refused. Only a
    block of lines is held in memory.

    Args:
        database: folder or file; created where it is missing.
        file: plain or compressed by bz2.
        device: the device it is for; None where the file's name says it.
        kind: what the lines are; None where the file's name says it, else a find-db.
        replace: forget all records of that device first.
        on_progress: hears how many bytes of the file were read.

    Raises:
        FindDbError: the file or the database cannot be used, or no line is an entry.
    """
    kind = kind or kind_of(file)
    device = device or ForeignDevice.of_file(file, perf=kind is PERF_TEXT)
    text = TextFile(file)  # before a database is created for it
    with Writer(database, room=_GROWTH * file.stat().st_size) as writer:

        def work(transaction: Transaction) -> ImportReport:
            report = ImportReport(file, device.identity)
            import_ = _Import(kind, writer, transaction, device.prefix, report)
            if replace:
                import_.forget_device()
            for block in text.blocks():
                import_.add(block)
                on_progress(block.position)
            report.require_records()
            return report

        return writer.write(work)


class _Import:
    """One file on its way into one transaction."""

    def __init__(
        self,
        kind: TextKind,
        writer: Writer,
        transaction: Transaction,
        prefix: bytes,
        report: ImportReport,
    ) -> None:
        self._kind = kind
        self._prefix = prefix
        self._report = report
        self._transaction = transaction
        self._cursor = transaction.cursor(writer.table(kind.table))

    def forget_device(self) -> None:
        if self._cursor.set_range(self._prefix):
            while self._cursor.key().startswith(self._prefix) and self._cursor.delete():
                pass

    def add(self, block: Block) -> None:
        text = self._kind.normalize(block.text)
        found = self._kind.records(text)
        lines = text.count(b"\n")
        self._report.lines += lines
        if len(found) < lines:
            self._refuse_malformed(text, block.first_line)
        prefix = self._prefix
        items = [(key := prefix + name, seal(key, values)) for name, values in found]
        consumed, added = self._cursor.putmulti(items, overwrite=False)
        self._report.added += added
        if added < consumed:
            self._compare(items, added, text, block.first_line)

    def _refuse_malformed(self, text: bytes, first_line: int) -> None:
        for number, line in enumerate(text.split(b"\n")[:-1], first_line):
            if not line:
                self._report.lines -= 1
                continue
            reason = self._kind.fault(line)
            if reason is not None:
                self._report.refuse(number, reason)

    def _compare(
        self, items: list[tuple[bytes, bytes]], added: int, text: bytes, first_line: int
    ) -> None:
        """Sort out which lines met an equal record, and which a different one."""
        different = {(key, sealed) for key, sealed in items if self._cursor.get(key) != sealed}
        self._report.unchanged += len(items) - added
        if not different:
            return
        for number, line in enumerate(text.split(b"\n"), first_line):
            name, equals, values = line.partition(b"=")
            key = self._prefix + name
            if equals and (key, seal(key, values)) in different:
                self._report.unchanged -= 1
                self._report.refuse(number, "another entry of this problem is there already")
