"""Installing models beside the user's own database, where handles use them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from convfind.errors import ModelError
from convfind.finddb.database_file import make_private_folder
from convfind.heuristics.installed import SUFFIX, installed_models, models_folder
from convfind.heuristics.model_file import read_model, write_model


def install_model(
    file: Path, user_path: Path, identities: Collection[str], *, any_device: bool = False
) -> Path:
    """Check a model and copy it into the folder of installed models, over one of the same name.

    Args:
        file: the model.
        user_path: the user's database, a folder.
        identities: of the devices here.
        any_device: install it also where none of these is among the model's, for later.

    Raises:
        ModelError: it is no model, damaged, of another version or for other devices, or the folder
            cannot be written; nothing has changed then.
    """
    model = read_model(file)
    known = [device.identity for device in model.devices]
    if not any_device and set(known).isdisjoint(identities):
        here = "; ".join(identities) or "none"
        msg = (
            f"{file} is for {'; '.join(known)}, here is {here}; --any-device installs it for later"
        )
        raise ModelError(msg)
    folder = models_folder(user_path)
    place = folder / f"{file.stem}{SUFFIX}"
    try:
        make_private_folder(folder)
        write_model(place, model)
    except OSError as exc:
        msg = f"{place} cannot be written: {exc}"
        raise ModelError(msg) from exc
    return place


def uninstall_model(user_path: Path, name: str) -> Path:
    """Remove an installed model, by the name of its file with or without the ending.

    Raises:
        ModelError: there is no such model; lists the installed ones.
    """
    files = [model.path for model in installed_models(user_path)]
    chosen = next((file for file in files if name in (file.name, file.stem)), None)
    if chosen is None:
        names = ", ".join(file.name for file in files) or "none"
        msg = f"no model {name!r} is installed; installed: {names}"
        raise ModelError(msg)
    try:
        chosen.unlink()
    except OSError as exc:
        msg = f"{chosen} cannot be removed: {exc}"
        raise ModelError(msg) from exc
    return chosen
