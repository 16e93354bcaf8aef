"""``convfind devices``: every device of every backend, and why a backend has none."""

from __future__ import annotations

from typing import Any

import click

import convfind
from convfind.cli.app import App, Command, new_table
from convfind.device.target import Target
from convfind.install_hint import pip_install
from convfind.text import format_bytes


def install_backend() -> str:
    """Say what to do without any backend."""
    command = pip_install("convfind-backend-opencl[cpu]")
    return f"no backend is installed; {command} brings OpenCL and a runtime for CPUs"


def device_json(name: str, target: Target) -> dict[str, Any]:
    """Describe a device."""
    return {
        "device": name,
        "name": target.name,
        "kind": target.kind.value,
        "vendor": target.vendor,
        "platform": target.platform,
        "arch": target.arch,
        "compute_units": target.compute_units,
        "driver": target.driver,
        "features": sorted(target.features),
        "local_memory": target.local_memory,
        "global_memory": target.global_memory,
        "cache": target.cache,
        "identity": target.identity,
    }


@click.command(cls=Command)
@click.pass_obj
def devices(app: App) -> None:
    """List the devices, and for each backend without any what it lacks.

    The name in the first column is what --device and convfind.open() take; a kind (opencl:cpu) or a
    part of vendor, platform or name (opencl:nvidia) does as well.

    \b
    Examples:
      convfind devices
      convfind devices --json
    """
    listing = convfind.devices(registry=app.registry)
    found, errors = listing.devices, listing.failures
    if app.json:
        listed = [device_json(name, target) for name, target in found]
        app.emit({"devices": listed, "errors": dict(errors)})
        return
    if found:
        table = new_table(
            *("device", "kind", "name", "platform", "arch", "units", "memory", "features"),
            right=("units", "memory"),
        )
        for name, target in found:
            table.add_row(
                *(name, target.kind.value, target.name, target.platform, target.arch),
                str(target.compute_units),
                format_bytes(target.global_memory),
                " ".join(sorted(target.features)),
            )
        app.print(table)
    for name, error in errors.items():
        app.print(f"{name}: {error}")
    if not app.registry.backends:
        app.print(install_backend())
