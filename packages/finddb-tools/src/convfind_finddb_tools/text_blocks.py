"""Reading large text files, plain or compressed by bz2, in blocks of whole lines."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Protocol

from convfind.errors import FindDbError

_BLOCK = 4 << 20
_COMPRESSED = 1 << 18
_MAGIC = b"BZh"
# Text of databases becomes 20 to 100 times as small; what expands further was made to fill memory.
_MOST_EXPANDED = 1000
_ALWAYS_EXPANDED = 16 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its line feed; the file's last line gets one if it lacks it."""

    text: bytes
    first_line: int
    position: int  # bytes of the file that were read so far


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Decompressed:
    """Text of a bz2 file, decompressed in pieces large enough for another thread to do it.

    `bz2.BZ2File` feeds 8 KiB at a time, and waits for the interpreter after each.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._decompressor = bz2.BZ2Decompressor()
        self._expanded = 0

    def read(self, size: int, /) -> bytes:
        """Return up to so many bytes; none at the end of the file.

        Raises:
            OSError: so little data hold so much text that it cannot be a database.
        """
        while True:
            data = b""
            if self._decompressor.eof:
                data = self._decompressor.unused_data or self._raw.read(_COMPRESSED)
                if not data:
                    return b""
                self._decompressor = bz2.BZ2Decompressor()  # streams may follow each other
            elif self._decompressor.needs_input:
                data = self._raw.read(_COMPRESSED)
                if not data:
                    msg = "compressed data end before their end mark"
                    raise EOFError(msg)
            text = self._decompressor.decompress(data, size)
            self._expanded += len(text)
            if self._expanded > _ALWAYS_EXPANDED + _MOST_EXPANDED * self._raw.tell():
                msg = f"it expands to more than {_MOST_EXPANDED} times its size"
                raise OSError(msg)
            if text:
                return text


def read_blocks(path: Path) -> Iterator[Block]:
    """Read a file; the next block is read and decompressed while the caller uses one.

    Raises:
        FindDbError: the file is missing, no file, truncated or damaged.
    """
    with _opened(path) as (raw, source), ThreadPoolExecutor(1) as pool:
        yield from _blocks(path, raw, source, pool)


class TextFile:
    """A file whose beginning was read, so that nothing is created for one that is unusable."""

    def __init__(self, path: Path) -> None:
        """Read the first block; raises `FindDbError` where that fails or the file is empty."""
        self.path = path
        self._blocks: Iterator[Block] | None = read_blocks(path)
        self._first = next(self._blocks, None)
        if self._first is None:
            msg = f"{path} is empty"
            raise FindDbError(msg)

    def blocks(self) -> Iterator[Block]:
        """All blocks, from the first one, as often as it is called."""
        blocks, self._blocks = self._blocks, None
        if blocks is None or self._first is None:
            return read_blocks(self.path)
        first, self._first = self._first, None
        return chain((first,), blocks)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, _Readable]]:
    """Open a file; yields it and its text, which is decompressed where needed."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(len(_MAGIC)) == _MAGIC
            raw.seek(0)
            yield raw, _Decompressed(raw) if compressed else raw
    except FileNotFoundError as exc:
        msg = f"{path} does not exist"
        raise FindDbError(msg) from exc
    except IsADirectoryError as exc:
        msg = f"{path} is a folder; name the files in it"
        raise FindDbError(msg) from exc
    except EOFError as exc:
        msg = f"{path} is truncated: its compressed data end too early"
        raise FindDbError(msg) from exc
    except OSError as exc:
        msg = f"{path} cannot be read: {exc}"
        raise FindDbError(msg) from exc


def _blocks(
    path: Path, raw: BinaryIO, source: _Readable, pool: ThreadPoolExecutor
) -> Iterator[Block]:
    line, rest = 1, b""
    coming = pool.submit(source.read, _BLOCK)
    while piece := coming.result():
        position = raw.tell()
        coming = pool.submit(source.read, _BLOCK)
        end = piece.rfind(b"\n") + 1
        if not end:
            msg = f"{path}: line {line} is longer than {_BLOCK >> 20} MiB: not a find database"
            if len(rest) + len(piece) > _BLOCK:
                raise FindDbError(msg)
            rest += piece
            continue
        text = rest + piece[:end]
        rest = piece[end:]
        yield Block(text, line, position)
        line += text.count(b"\n")
    if rest:
        yield Block(rest + b"\n", line, raw.tell())
