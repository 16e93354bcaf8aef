"""Installing packs as layers below the user's own database."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from convfind.device.target import Target
from convfind.errors import FindDbError
from convfind.finddb.database_file import make_private_folder
from convfind.finddb.file_check import lock_file
from convfind.finddb.pack import SUFFIX, Manifest, Pack, read_pack
from convfind.finddb.packs import installed_packs, pack_prefix, packs_folder
from convfind.finddb.replacing import copy_file
from convfind_finddb_tools.pack_check import check_pack
from convfind_finddb_tools.signature import check_signature, signature_path

_SHORT = 12  # digits of the hash in a name
_DIGITS = 64
_HASH = re.compile(r"[0-9a-fA-F]{8,64}")  # an empty one, of a variable not set, demands nothing


@dataclass(frozen=True, slots=True)
class InstalledPack:
    """A pack in the folder of installed packs. ``fault`` says why it cannot be used."""

    path: Path
    manifest: Manifest | None
    sha256: str = ""
    devices: tuple[str, ...] = ()  # names of the devices here that it is for
    fault: str = ""


def install_pack(
    file: Path,
    user_path: Path,
    devices: Mapping[str, Target],
    *,
    any_device: bool = False,
    sha256: str | None = None,
    trusted: frozenset[str] | None = None,
    check: Callable[[Pack], None] = lambda pack: None,
) -> tuple[Path, bool]:
    """Check a pack and copy it into the folder of installed packs; nothing changes on an error.

    Args:
        file: the pack.
        user_path: the user's database, a folder.
        devices: the devices here by name.
        any_device: install it also where none of these is the pack's, for later.
        sha256: what the hash must be, or begin with.
        trusted: public keys, one of which must have signed it; None asks for no signature.
        check: called with a pack in which everything else is right; may refuse it.

    Returns:
        Where it is installed, and whether it was not yet.

    Raises:
        FindDbError: it is no pack, damaged, for another device or compiler, has another hash, or
            no trusted signature; or nobody vouches for its kernels.
    """
    pack = read_pack(file)
    manifest = pack.manifest
    if sha256 is not None and not _HASH.fullmatch(sha256):
        msg = f"{sha256!r} is no SHA-256; give 8 hexadecimal digits of it at least, 64 at most"
        raise FindDbError(msg)
    if sha256 is not None and not pack.sha256.startswith(sha256.lower()):
        msg = f"{file} has SHA-256 {pack.sha256}, not {sha256}"
        raise FindDbError(msg)
    if manifest.compiler and trusted is None and len(sha256 or "") < _DIGITS:
        msg = (
            f"{file} holds kernels, which are code: say whose with --trust KEYS, or which with "
            f"--sha256 and all {_DIGITS} digits from whoever made it; its own are {pack.sha256}"
        )
        raise FindDbError(msg)
    if trusted is not None:
        check_signature(pack, trusted)
    if not any_device and not any(map(manifest.serves, devices.values())):
        found = (one.compiler if manifest.compiler else one.identity for one in devices.values())
        msg = (
            f"{file} is for {manifest.compiler or manifest.device}, here is "
            f"{'; '.join(dict.fromkeys(found)) or 'none'}; --any-device installs it for later"
        )
        raise FindDbError(msg)
    check_pack(pack)
    check(pack)
    folder = packs_folder(user_path)
    prefix = pack_prefix(manifest.compiler or manifest.device)
    place = folder / f"{prefix}{pack.sha256[:_SHORT]}{SUFFIX}"
    if place.exists() and _same(place, pack):
        return place, False
    try:
        make_private_folder(folder)
    except OSError as exc:
        msg = f"{folder} cannot be created: {exc}"
        raise FindDbError(msg) from exc
    if trusted is not None:
        copy_file(signature_path(file), signature_path(place))
    # Finds that run meanwhile see no pack whose copy was not checked.
    with tempfile.TemporaryDirectory(prefix=".install-", dir=folder) as drafts:
        draft = Path(drafts) / place.name
        copy_file(file, draft)
        if not _same(draft, pack):
            if not place.exists():
                signature_path(place).unlink(missing_ok=True)
            msg = f"{file} was changed while it was being installed; install it again"
            raise FindDbError(msg)
        os.utime(draft)  # the latest installed is uppermost
        draft.replace(place)
    return place, True


def list_packs(files: Iterable[Path], devices: Mapping[str, Target]) -> list[InstalledPack]:
    """Read the manifests of packs; a damaged pack is listed with its fault."""
    found = []
    for file in files:
        try:
            pack = read_pack(file)
        except FindDbError as exc:
            found.append(InstalledPack(file, None, fault=str(exc)))
            continue
        names = tuple(name for name, target in devices.items() if pack.manifest.serves(target))
        found.append(InstalledPack(file, pack.manifest, pack.sha256, names))
    return found


def uninstall_pack(user_path: Path, name: str) -> Path:
    """Remove an installed pack, by the name of its file or the beginning of its hash.

    Raises:
        FindDbError: there is no such pack, or several; lists the installed ones.
    """
    files = installed_packs(user_path)
    chosen = [file for file in files if name in (file.name, file.stem)]
    if not chosen and name:
        chosen = [file for file in files if file.stem.rpartition("@")[2].startswith(name[:_SHORT])]
    if len(chosen) != 1:
        names = ", ".join(file.name for file in files) or "none"
        several = f"{name!r} means {len(chosen)} packs" if chosen else f"no pack {name!r}"
        msg = f"{several}; installed: {names}"
        raise FindDbError(msg)
    try:
        chosen[0].unlink()
        lock_file(chosen[0]).unlink(missing_ok=True)
        signature_path(chosen[0]).unlink(missing_ok=True)
    except OSError as exc:
        msg = f"{chosen[0]} cannot be removed: {exc}"
        raise FindDbError(msg) from exc
    return chosen[0]


def _same(place: Path, pack: Pack) -> bool:
    try:
        return read_pack(place).sha256 == pack.sha256
    except FindDbError:
        return False  # damaged: to be replaced
