"""Reading large text files, plain or compressed by bz2, in blocks of whole lines."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from convfind.errors import FindDbError

_BLOCK = 4 << 20
_MAGIC = b"BZh"


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its line feed; the file's last line gets one if it lacks it."""

    text: bytes
    first_line: int
    position: int  # bytes of the file that were read so far


def check_readable(path: Path) -> None:
    """Raise `FindDbError` where the beginning of a file cannot be read, or there is none."""
    with _opened(path) as (_, source):
        if not source.read(1):
            msg = f"{path} is empty"
            raise FindDbError(msg)


def read_blocks(path: Path) -> Iterator[Block]:
    """Read a file; the next block is read and decompressed while the caller uses one.

    Raises:
        FindDbError: the file is missing, no file, truncated or damaged.
    """
    with _opened(path) as (raw, source), ThreadPoolExecutor(1) as pool:
        yield from _blocks(path, raw, source, pool)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a file; yields it and its text, which is decompressed where needed."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(len(_MAGIC)) == _MAGIC
            raw.seek(0)
            yield raw, bz2.BZ2File(raw) if compressed else raw  # type: ignore[misc]
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
    path: Path, raw: BinaryIO, source: BinaryIO, pool: ThreadPoolExecutor
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
