"""``convfind doctor``: what is installed, what is broken, and what to do about it."""

from __future__ import annotations

import dataclasses
import os
import platform
import warnings
from pathlib import Path
from typing import Any

import click

import convfind
from convfind.cli.app import App, Command
from convfind.cli.devices import install_backend
from convfind.cli.version import installed_version
from convfind.errors import SettingsError
from convfind.finddb import BinaryStore, FindDb, FindDbWarning
from convfind.finddb.pack import is_of_kernels
from convfind.finddb.packs import installed_packs
from convfind.plugins.registry import Registry
from convfind.settings import Settings
from convfind.text import format_bytes

_LIBRARIES = ("numpy", "lmdb", "msgspec", "pluggy", "click", "rich", "ml_dtypes", "pyopencl")


@dataclasses.dataclass(slots=True)
class Diagnosis:
    """Sections of facts, and the list of what is broken."""

    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)


@click.command(cls=Command)
@click.pass_obj
def doctor(app: App) -> None:
    """Check the installation; exits 1 if something is broken.

    Shows versions, plugins with what failed in them (CONVFIND_LOG_LEVEL=debug adds tracebacks),
    devices or what to install for some, the health of the find database, where caches lie and
    whether they can be written, and the settings in force.

    \b
    Examples:
      convfind doctor
      convfind doctor --json
    """
    diagnosis = Diagnosis()
    settings = _settings(app, diagnosis)
    _versions(diagnosis)
    _plugins(app.registry, diagnosis)
    _devices(app.registry, diagnosis)
    if settings is not None:
        _database(app.registry, settings, diagnosis)
    diagnosis.facts["problems"] = diagnosis.problems
    if app.json:
        app.emit(diagnosis.facts)
    else:
        _print(app, diagnosis)
    if diagnosis.problems:
        raise click.exceptions.Exit(1)


def _settings(app: App, diagnosis: Diagnosis) -> Settings | None:
    try:
        settings = app.settings
    except SettingsError as error:
        diagnosis.facts["settings"] = {}
        diagnosis.problems.append(str(error))
        return None
    values: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name != "plugins":
            value = settings.policy.mode if field.name == "find_mode" else value
            value = value.name if field.name in ("find_mode", "find_enforce") else value
            values[field.name] = str(value) if isinstance(value, Path) else value
    diagnosis.facts["settings"] = values
    return settings


def _versions(diagnosis: Diagnosis) -> None:
    found = {"convfind": installed_version("convfind"), "python": platform.python_version()}
    found |= {name: installed_version(name) for name in _LIBRARIES}
    diagnosis.facts["platform"] = platform.platform()
    diagnosis.facts["versions"] = found


def _plugins(registry: Registry, diagnosis: Diagnosis) -> None:
    diagnosis.facts["plugins"] = [
        {"name": info.name, "distribution": info.distribution, "version": info.version}
        for info in registry.plugins
    ]
    diagnosis.facts["disabled_plugins"] = [info.name for info in registry.disabled]
    diagnosis.facts["plugin_failures"] = [dataclasses.asdict(f) for f in registry.failures]
    diagnosis.facts["solvers"] = len(registry.solvers)
    diagnosis.problems += map(str, registry.failures)


def _devices(registry: Registry, diagnosis: Diagnosis) -> None:
    listing = convfind.devices(registry=registry)
    found, errors = listing.devices, listing.failures
    diagnosis.facts["devices"] = {name: target.identity for name, target in found}
    diagnosis.facts["backends"] = {name: errors.get(name, "ok") for name in registry.backends}
    # A backend without hardware is usual where several are installed, and core alone works, too;
    # backends of which none has a device do not.
    if registry.backends and not found:
        diagnosis.problems += [f"{name}: {error}" for name, error in errors.items()]
        diagnosis.problems.append("no backend has a device")


def _database(registry: Registry, settings: Settings, diagnosis: Diagnosis) -> None:
    folder = settings.user_db_path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FindDbWarning)  # health says the same
        packs = installed_packs(folder)
        kernels = [pack for pack in packs if is_of_kernels(pack)] + list(registry.kernel_packs())
        records = [pack for pack in packs if pack not in kernels]
        with FindDb.open(folder, (*records, *registry.system_databases())) as database:
            health = list(database.health())
        with BinaryStore.open(None, kernels) as binaries:
            health += binaries.health()
    if not _is_writable(folder):
        health.append(f"{folder} cannot be written; set CONVFIND_USER_DB_PATH")
    files = sorted(folder.glob("*.lmdb")) if folder.is_dir() else []
    diagnosis.facts["database"] = {
        "path": str(folder),
        "files": {file.name: file.stat().st_size for file in files},
        "packs": [str(path) for path in packs],
        "system": [str(path) for path in (*registry.system_databases(), *registry.kernel_packs())],
        "problems": health,
    }
    diagnosis.problems += health


def _is_writable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _print(app: App, diagnosis: Diagnosis) -> None:
    facts = diagnosis.facts
    app.print(
        " ".join(f"{name} {number}" for name, number in facts["versions"].items()),
        facts["platform"],
    )
    plugins = [
        f"{plugin['name']} ({plugin['distribution']} {plugin['version']})".replace(" )", ")")
        for plugin in facts["plugins"]
    ]
    app.print("", f"plugins: {', '.join(plugins) or 'none'}; {facts['solvers']} solvers")
    if facts["disabled_plugins"]:
        app.print(f"disabled: {', '.join(facts['disabled_plugins'])}")
    app.print("", "backends and devices:")
    app.print(*(f"  {name}: {state}" for name, state in facts["backends"].items()))
    app.print(*(f"  {name}: {identity}" for name, identity in facts["devices"].items()))
    if not facts["backends"]:
        app.print(f"  {install_backend()}")
    if "database" in facts:
        database = facts["database"]
        app.print("", f"database: {database['path']}")
        app.print(*(f"  {n}: {format_bytes(size)}" for n, size in database["files"].items()))
        app.print(*(f"  pack: {path}" for path in database["packs"]))
        app.print(*(f"  shipped: {path}" for path in database["system"]))
    app.print("", "settings:")
    app.print(*(f"  {name}: {value}" for name, value in facts["settings"].items()))
    if diagnosis.problems:
        app.print("", f"{len(diagnosis.problems)} broken:")
        app.print(*(f"  {problem}" for problem in diagnosis.problems))
    else:
        app.print("", "nothing is broken")
