"""Reading values straight from the pages of an LMDB file, however damaged the rest of it is.

LMDB trusts its pages, and a damaged one may end the process. Nothing here follows a pointer beyond
the file; which of the values found are whole is for their checksums to say.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from convfind.errors import FindDbCorruptError, FindDbError

_HEADER = struct.Struct("=QHHHH")  # number, padding, flags, end of pointers, begin of nodes
_NODE = struct.Struct("=HHHH")  # size of the value (low, high), flags, size of the key
_LEAF, _IN_OVERFLOW = 0x02, 0x01
_META_PAGE_SIZE = 40  # where a meta page names the page size
_SIZES = tuple(1 << shift for shift in range(9, 17))


def leaf_values(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all leaf pages, in use or left over, many of them meaningless.

    Raises:
        FindDbError: the file is missing or cannot be read.
    """
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):
                msg = f"{path} is empty"
                raise FindDbCorruptError(msg)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from _values(data, _page_size(data))
    except OSError as exc:
        msg = f"{path} cannot be read: {exc.strerror or exc}"
        raise FindDbError(msg) from exc


def _page_size(data: mmap.mmap) -> int:
    if len(data) >= _META_PAGE_SIZE + 4:
        (size,) = struct.unpack_from("=I", data, _META_PAGE_SIZE)
        if size in _SIZES:
            return int(size)
    return mmap.PAGESIZE  # the first page is damaged: the size of new files here


def _values(data: mmap.mmap, size: int) -> Iterator[tuple[bytes, bytes]]:
    for page in range(0, len(data) - size + 1, size):
        _, _, flags, lower, _ = _HEADER.unpack_from(data, page)
        if not flags & _LEAF or not _HEADER.size <= lower <= size:
            continue
        for (place,) in struct.iter_unpack("=H", data[page + _HEADER.size : page + lower & ~1]):
            found = _node(data, page, place, size)
            if found is not None:
                yield found


def _node(data: mmap.mmap, page: int, place: int, size: int) -> tuple[bytes, bytes] | None:
    if place + _NODE.size > size:
        return None
    low, high, flags, key_size = _NODE.unpack_from(data, page + place)
    begin = page + place + _NODE.size
    key = data[begin : begin + key_size]
    length = low | high << 16
    begin += key_size
    if flags & _IN_OVERFLOW:
        if begin + 8 > len(data):
            return None
        (number,) = struct.unpack_from("=Q", data, begin)
        begin = number * size + _HEADER.size
    if begin + length > len(data):
        return None
    return key, data[begin : begin + length]
