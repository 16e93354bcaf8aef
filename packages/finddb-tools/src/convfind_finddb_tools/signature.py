"""Signatures of packs: who vouches for a pack, and where and with what it was made.

A signature is a file beside the pack, ``h200.lmdb.sig``, so that the same records still give the
same pack. It holds a statement that names the pack by its SHA-256, the signer's public key, and the
Ed25519 signature of the statement's bytes.
"""

from __future__ import annotations

import os
import platform
import re
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from convfind.errors import FindDbCorruptError, FindDbError
from convfind.finddb.pack import Pack
from convfind.finddb.replacing import replacing
from convfind.install_hint import pip_install

SIGNATURE_SUFFIX = ".sig"

_CONTEXT = b"convfind pack signature 1\n"  # no other signature of the key can be taken for ours
_PUBLIC = re.compile(r"ed25519:([0-9a-f]{64})")
_LARGEST = 1 << 16


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A signer's statement about a pack. New fields have a default."""

    sha256: str
    device: str
    machine: str = ""  # processor architecture and system on which it was packed
    convfind: str = ""  # version
    python: str = ""
    signed: int = 0  # seconds since 1970


class _SignatureFile(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a signature file; the statement is kept as the text that was signed."""

    statement: str
    key: str  # "ed25519:" and 64 hexadecimal digits
    signature: str


def signature_path(pack: Path) -> Path:
    """Return where the signature of a pack is."""
    return pack.with_name(pack.name + SIGNATURE_SUFFIX)


def generate_key(file: Path) -> str:
    """Write a new private key, and the public one beside it with ``.pub``; return the latter.

    Raises:
        FindDbError: one of them exists already or cannot be written; nothing is left of the other.
    """
    ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = _public_text(key.public_key())
    _write_new(file, secret, 0o600)
    try:
        _write_new(file.with_name(file.name + ".pub"), f"{public}\n".encode(), 0o644)
    except FindDbError:
        file.unlink()  # a key that nobody could check
        raise
    return public


def _write_new(file: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise FindDbError(f"{file} exists already; a key is never written over") from None
    except OSError as exc:
        raise FindDbError(f"{file} cannot be written: {exc.strerror}") from exc
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def sign_pack(pack: Pack, key_file: Path) -> str:
    """Write the signature of a pack beside it; return the public key that checks it.

    Raises:
        FindDbError: the key cannot be read, or the signature not written.
    """
    ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except OSError as exc:
        raise FindDbError(f"{key_file} cannot be read: {exc.strerror}") from exc
    except (ValueError, TypeError) as exc:
        raise FindDbError(f"{key_file} is no key; `convfind db keygen` makes one") from exc
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise FindDbError(f"{key_file} is no Ed25519 key; `convfind db keygen` makes one")
    statement = Statement(
        sha256=pack.sha256,
        device=pack.manifest.device,
        machine=f"{platform.machine()}, {platform.platform()}",
        convfind=metadata.version("convfind"),
        python=platform.python_version(),
        signed=int(time.time()),
    )
    text = msgspec.json.encode(statement)
    public = _public_text(key.public_key())
    signature = key.sign(_CONTEXT + text).hex()
    file = _SignatureFile(statement=text.decode(), key=public, signature=signature)
    with replacing(signature_path(pack.path)) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(file)) + b"\n")
    return public


def read_trusted(keys: Path) -> frozenset[str]:
    """Read public keys, one a line; what follows a ``#`` is a comment.

    Raises:
        FindDbError: the file cannot be read, has none, or a line is no key.
    """
    try:
        lines = keys.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise FindDbError(f"{keys} cannot be read: {exc}") from exc
    words = [word for line in lines if (word := line.partition("#")[0].strip())]
    if words and words[0].startswith("-----BEGIN") and "PRIVATE" in words[0]:
        raise FindDbError(f"{keys} is a private key, which signs; give the public one, {keys}.pub")
    for word in words:
        if not _PUBLIC.fullmatch(word):
            raise FindDbError(
                f"{keys}: {word[:80]!r} is no public key; `convfind db keygen KEY` writes KEY.pub"
            )
    if not words:
        raise FindDbError(f"{keys} has no public key")
    return frozenset(words)


def check_signature(pack: Pack, trusted: frozenset[str]) -> Statement:
    """Return what a trusted signer says about a pack.

    Raises:
        FindDbError: it has no signature, or one by a key that is not trusted.
        FindDbCorruptError: the signature is wrong, or for another pack.
    """
    path = signature_path(pack.path)
    found = _read(path)
    if found.key not in trusted:
        raise FindDbError(f"{path} is by {found.key[:80]}, which is no key that you trust")
    text = found.statement.encode()
    if not _is_right(found.key, found.signature, _CONTEXT + text):
        raise FindDbCorruptError(f"{path} is no signature of its statement; get it again")
    try:
        statement = msgspec.json.decode(text, type=Statement)
    except msgspec.MsgspecError as exc:
        raise FindDbCorruptError(f"{path} has a statement that cannot be read: {exc}") from exc
    if (statement.sha256, statement.device) != (pack.sha256, pack.manifest.device):
        raise FindDbCorruptError(
            f"{path} signs a pack with SHA-256 {statement.sha256[:64]}, not {pack.sha256}"
        )
    return statement


def _read(path: Path) -> _SignatureFile:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:
        msg = f"{path} does not exist: the pack is not signed; `convfind db pack --sign KEY` does"
        raise FindDbError(msg) from None
    except OSError as exc:
        raise FindDbError(f"{path} cannot be read: {exc.strerror}") from exc
    try:
        return msgspec.json.decode(text, type=_SignatureFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FindDbCorruptError(f"{path} is no signature: {exc}") from exc


def _is_right(public: str, signature: str, text: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    ed25519, _ = _cryptography()
    found = _PUBLIC.fullmatch(public)
    assert found is not None  # it is one of those trusted
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(found[1]))
        key.verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _public_text(key: Any) -> str:
    return f"ed25519:{key.public_bytes_raw().hex()}"


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        command = pip_install("convfind-finddb-tools[sign]")
        raise FindDbError(f"signatures need cryptography: {command}") from None
    return ed25519, serialization
