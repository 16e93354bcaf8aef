"""Rosters: lists of solvers that a file stores once, so that an entry has a bit for each of them.

A roster is a sorted array of versioned ids under the digest of its bytes. It is never changed and
never removed, and a digest means the same in every file. A file has a new one, with all names so
far, where an entry names a solver that the newest one lacks.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from itertools import compress

import msgspec
import numpy as np

from convfind.finddb.change import Change, Get
from convfind.finddb.key import seal, unseal

#: The sub-database of rosters, and the key there of the newest one's digest.
ROSTER, NEWEST = "roster", b"newest"

_DIGEST = 16
_MOST_KNOWN = 1024

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[str, ...])

# By digest and bits: what they stand for stays true whatever becomes of the files.
_known: dict[tuple[bytes, bytes], tuple[str, ...]] = {}


def members(get: Get, digest: bytes, bits: bytes) -> tuple[str, ...]:
    """The names of a roster whose bits are set, sorted; none where it is missing or damaged."""
    known = _known.get((digest, bits))
    if known is not None:
        return known
    chosen = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    found = tuple(compress(_read(get, digest), chosen.tolist()))
    if found:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[digest, bits] = found
    return found


def enrol(names: tuple[str, ...], change: Change) -> tuple[bytes, bytes]:
    """Give names a roster: return its digest, and a bit for each of its names.

    This is the newest roster, where it has all of them, else a new one.
    """
    if not names:
        return b"", b""
    digest = unseal(NEWEST, change.get(ROSTER, NEWEST) or b"") or b""
    newest = _read(change.get, digest)
    bits = _bits(newest, names)
    if bits is not None:
        return digest, bits
    roster = tuple(sorted({*newest, *names}))
    payload = _encoder.encode(roster)
    digest = _digest(payload)
    change.put(ROSTER, digest, seal(digest, payload))
    change.put(ROSTER, NEWEST, seal(NEWEST, digest))
    return digest, _bits(roster, names) or b""


def _read(get: Get, digest: bytes) -> tuple[str, ...]:
    sealed = get(ROSTER, digest) if len(digest) == _DIGEST else None
    return () if sealed is None else roster_names(digest, sealed)


def roster_names(digest: bytes, sealed: bytes) -> tuple[str, ...]:
    """Decode a roster; a damaged one, and one under a key that is not its digest, has no names."""
    return _decoded(digest, sealed) if len(digest) == _DIGEST else ()


@lru_cache(maxsize=16)
def _decoded(digest: bytes, sealed: bytes) -> tuple[str, ...]:
    payload = unseal(digest, sealed)
    if payload is None or _digest(payload) != digest:
        return ()
    try:
        return _decoder.decode(payload)
    except msgspec.MsgspecError:
        return ()


@lru_cache(maxsize=64)
def _bits(roster: tuple[str, ...], names: tuple[str, ...]) -> bytes | None:
    """The lowest bit of the first byte is the first name's; None where the roster lacks a name."""
    chosen = frozenset(names)
    if not chosen.issubset(roster):
        return None
    return np.packbits([name in chosen for name in roster], bitorder="little").tobytes()


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_DIGEST).digest()
