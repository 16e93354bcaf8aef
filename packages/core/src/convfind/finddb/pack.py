"""`Pack`: records or kernels for one kind of device, in one file with a manifest and a hash.

A pack is a database file as convfind reads it, followed by what it says about itself::

    pages of LMDB | manifest (JSON) | its length (4 bytes) | SHA-256 of all before | magic (8 bytes)

LMDB reads the pages and never looks behind them. The hash is checked before anything else is. A
pack holds records, which are numbers and names, or kernels, which are code, never both.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from convfind.device.target import Target
from convfind.errors import FindDbCorruptError, FindDbError, FindDbVersionError
from convfind.finddb.key import SCHEMA

VERSION = 1
SUFFIX = ".lmdb"

_MAGIC = b"CFPACK\r\n"
_TAIL = struct.Struct("<I32s8s")  # length of the manifest, hash, magic
_LARGEST = 8 << 30
_LARGEST_MANIFEST = 1 << 20
_CHUNK = 1 << 20
_COMPILER = re.compile(r"[^|\x00-\x1f\x7f]+(?:\|[^|\x00-\x1f\x7f]*){3,}")
_DEVICE = re.compile(_COMPILER.pattern + r"\|[0-9]{1,9}")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Manifest of a pack. New fields have a default; incompatible changes raise the version."""

    version: int
    schema: int  # of the database
    device: str  # identity
    problems: int  # with find records
    records: int
    configs: int = 0  # problems with tuned configs
    quarantined: int = 0  # problems with quarantined solvers
    drivers: list[str] = []
    packages: list[str] = []  # distributions whose solvers were measured
    noise: float = 0.0  # the largest spread of a record over its time
    newest: int = 0  # when its newest record was measured, seconds since 1970
    kernels: int = 0  # compiled programs
    compiler: str = ""  # whose they are, as `Target.compiler`

    def serves(self, target: Target) -> bool:
        """Return whether a device can use what the pack holds."""
        return target.compiler == self.compiler or (
            not self.compiler and self.device in target.identities
        )


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack file whose hash is right."""

    path: Path
    manifest: Manifest
    sha256: str
    pages: int  # bytes of the database at the beginning of the file


def check_name(output: Path) -> None:
    """Raise `FindDbError` if a file that is to be a pack is named as something else."""
    if output.suffix != SUFFIX:
        msg = f"{output}: the name of a pack ends in {SUFFIX}, as those of all databases"
        raise FindDbError(msg)


def is_pack(path: Path) -> bool:
    """True where a file ends as a pack does, whole or not."""
    try:
        with path.open("rb") as file:
            return _tail(file)[2] == _MAGIC
    except (OSError, struct.error):
        return False


def is_of_kernels(path: Path) -> bool:
    """Return whether a file, of which nothing is checked yet, is a pack of kernels."""
    try:
        with path.open("rb") as file:
            length, _, magic = _tail(file)
            if magic != _MAGIC or length > _LARGEST_MANIFEST:
                return False
            file.seek(-_TAIL.size - length, os.SEEK_END)
            return bool(_manifest(path, file.read(length)).compiler)
    except (OSError, struct.error, FindDbError):
        return False


def read_pack(path: Path) -> Pack:
    """Read what a pack says about itself, and check its hash, version and sizes.

    Raises:
        FindDbError: it is missing, no pack, or too large to be one.
        FindDbVersionError: a newer convfind wrote it.
        FindDbCorruptError: the hash is wrong, or the file cut short.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            msg = f"{path} is no file; `convfind db pack` writes packs"
            raise FindDbError(msg)
        with path.open("rb") as file:
            return _read(path, file)
    except FileNotFoundError as exc:
        msg = f"{path} does not exist"
        raise FindDbError(msg) from exc
    except OSError as exc:
        msg = f"{path} cannot be read: {exc.strerror or exc}"
        raise FindDbError(msg) from exc


def append_manifest(file: BinaryIO, manifest: Manifest) -> str:
    """Make a pack of a file that holds the pages of a database; returns its hash."""
    file.seek(0, os.SEEK_END)
    text = msgspec.json.encode(manifest)
    file.write(text)
    length = len(text).to_bytes(4, "little")
    file.write(length)
    end = file.tell()
    digest = _hash(file, end)
    file.seek(end)
    file.write(digest + _MAGIC)
    return digest.hex()


def _read(path: Path, file: BinaryIO) -> Pack:
    size = file.seek(0, os.SEEK_END)
    if size < _TAIL.size:
        msg = f"{path} is no pack; `convfind db pack` writes some"
        raise FindDbError(msg)
    length, digest, magic = _tail(file)
    if magic != _MAGIC:
        msg = f"{path} is no pack, or its end is missing; `convfind db pack` writes packs"
        raise FindDbError(msg)
    if size > _LARGEST:
        msg = f"{path} has {size} bytes; a pack has {_LARGEST} at most"
        raise FindDbError(msg)
    if _hash(file, size - _TAIL.size + 4) != digest:
        msg = f"{path} is damaged: its SHA-256 is not the one that it carries; get it again"
        raise FindDbCorruptError(msg)
    pages = size - _TAIL.size - length
    if length > _LARGEST_MANIFEST or pages < 0:
        msg = f"{path} is damaged: a manifest of {length} bytes in a file of {size}"
        raise FindDbCorruptError(msg)
    file.seek(pages)
    return Pack(path, _manifest(path, file.read(length)), digest.hex(), pages)


def _manifest(path: Path, text: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        msg = f"{path} has a manifest that cannot be read: {exc}"
        raise FindDbCorruptError(msg) from exc
    for name, known in (("version", VERSION), ("schema", SCHEMA)):
        given = getattr(manifest, name)
        if not 1 <= given <= known:
            msg = f"{path} is a pack of {name} {given}; known is {known}: upgrade convfind"
            raise FindDbVersionError(msg)
    if not _DEVICE.fullmatch(manifest.device):
        msg = f"{path} is for {manifest.device[:80]!r}, which is no identity of a device"
        raise FindDbCorruptError(msg)
    if manifest.compiler and not _COMPILER.fullmatch(manifest.compiler):
        msg = f"{path} is of {manifest.compiler[:80]!r}, which is no identity of a compiler"
        raise FindDbCorruptError(msg)
    return manifest


def _tail(file: BinaryIO) -> tuple[int, bytes, bytes]:
    file.seek(-_TAIL.size, os.SEEK_END)
    length, digest, magic = _TAIL.unpack(file.read(_TAIL.size))
    return length, digest, magic


def _hash(file: BinaryIO, size: int) -> bytes:
    """SHA-256 of so many bytes from the beginning."""
    file.seek(0)
    digest = hashlib.sha256()
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.digest()
