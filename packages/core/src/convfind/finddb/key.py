"""Keys: readable for people, short enough for LMDB, and tied to their values by a checksum.

A value as stored is ``checksum (8 bytes) | length (2 bytes) | full key | payload``. The full key is
there only where it had to be shortened; otherwise its length is 0. The checksum covers the full key
and the payload: neither a damaged value nor that of another key is ever taken for an answer.
"""

from __future__ import annotations

from hashlib import blake2b

from convfind.device.target import Target
from convfind.problem.contract import Problem

#: Raised only when old programs must not read new values, or new programs cannot read old ones.
SCHEMA = 1

_MAX_KEY = 511  # the longest key that LMDB takes
_DIGEST = 16
_KEPT = _MAX_KEY - 1 - 2 * _DIGEST  # bytes of a longer key that stay readable
_CHECKSUM = 8
_HEAD = _CHECKSUM + 2


def database_key(target: Target, problem: Problem) -> bytes:
    """The full key, e.g. ``1|opencl|NVIDIA CUDA|NVIDIA H200|sm_90|132|<network config>``."""
    return identity_key(target.identity, problem)


def database_keys(target: Target, problem: Problem) -> tuple[bytes, ...]:
    """The same, then what it was under a former identity of the device."""
    return tuple([identity_key(identity, problem) for identity in target.identities])


def identity_key(identity: str, problem: Problem) -> bytes:
    """The same for a device that may not be here."""
    return f"{SCHEMA}|{identity}|{problem.key}".encode()


def key_identity(key: bytes) -> str:
    """Return the identity of the device in a full key."""
    return key.decode(errors="replace").partition("|")[2].rpartition("|")[0]


def beginning_of_identity(identity: str) -> bytes:
    """Return how all keys of a device begin."""
    return f"{SCHEMA}|{identity}|".encode()


def end_of_identity(identity: str) -> bytes:
    """Return what comes after all keys of a device, and before those of the next."""
    return beginning_of_identity(identity) + b"\xff"


def stored_key(key: bytes) -> bytes:
    """The key as LMDB sees it: itself, or where too long its beginning, ``~`` and a digest."""
    if len(key) <= _MAX_KEY:
        return key
    digest = blake2b(key, digest_size=_DIGEST).hexdigest().encode()
    return key[:_KEPT] + b"~" + digest


def stored_prefix(prefix: bytes) -> bytes:
    """The beginning that all stored keys share whose full keys begin with ``prefix``."""
    return prefix[:_KEPT]


def seal(key: bytes, payload: bytes) -> bytes:
    """Wrap a payload with its checksum and, where needed, its full key."""
    full = key if len(key) > _MAX_KEY else b""
    checksum = blake2b(key + payload, digest_size=_CHECKSUM).digest()
    return b"".join((checksum, len(full).to_bytes(2, "little"), full, payload))


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Return the payload, or None where the value is damaged or belongs to another key."""
    length = int.from_bytes(sealed[_CHECKSUM:_HEAD], "little")
    payload = sealed[_HEAD + length :]
    checksum = blake2b(key, digest_size=_CHECKSUM)
    checksum.update(payload)
    return payload if sealed[:_CHECKSUM] == checksum.digest() else None


def full_key(stored: bytes, sealed: bytes) -> bytes:
    """Return the full key of a value found under a stored key."""
    length = int.from_bytes(sealed[_CHECKSUM:_HEAD], "little")
    return sealed[_HEAD : _HEAD + length] or stored
