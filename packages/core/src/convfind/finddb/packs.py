"""Installed packs: read-only databases for one device that a user put beside the database."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = "packs"
_LONGEST = 160
_OTHER = re.compile(r"[^A-Za-z0-9.]+")


def packs_folder(user_path: Path) -> Path:
    """The folder of installed packs that belongs to a user's database, a folder or its file."""
    return (user_path.parent if user_path.suffix == ".lmdb" else user_path) / _FOLDER


def pack_prefix(identity: str) -> str:
    """Return how a device's packs are named at first: ``opencl-NVIDIA-CUDA-H200-sm-90-132@``.

    Two devices may share it: keys of records name the device in full.
    """
    return _OTHER.sub("-", identity).strip("-.")[:_LONGEST] + "@"


def installed_packs(user_path: Path, *identities: str) -> tuple[Path, ...]:
    """Installed packs, of one device where its identities are given; the latest installed first."""
    prefixes = tuple(map(pack_prefix, identities)) or ("",)
    found = []
    try:
        for file in packs_folder(user_path).iterdir():
            if file.suffix == ".lmdb" and file.name.startswith(prefixes):
                found.append((-file.stat().st_mtime_ns, file.name, file))
    except OSError:
        return ()  # a cache is never fatal
    return tuple(file for _, _, file in sorted(found))
