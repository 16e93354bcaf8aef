"""A device with databases that are only read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import convfind
from convfind import Handle
from convfind.finddb import FindDb
from convfind.plugins.registry import Registry
from convfind.settings import Settings


@contextmanager
def open_over(
    device: str | None, layers: Sequence[Path], registry: Registry, settings: Settings
) -> Iterator[Handle]:
    """Open a device over database files, topmost first; what is stored stays in memory.

    Raises:
        DeviceError: no such device.
        BackendUnavailableError: no backend, or its runtime is missing.
    """
    bare = dataclasses.replace(settings, disable_find_db=True, disable_binary_cache=True)
    with (
        convfind.open(device, registry=registry, settings=bare) as opened,
        FindDb.open(None, layers) as database,
    ):
        yield Handle(dataclasses.replace(opened.session, database=database), settings)
