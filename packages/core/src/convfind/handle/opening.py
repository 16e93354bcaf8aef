"""Opening devices by name, and listing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from convfind.arguments import shown
from convfind.device.target import Target
from convfind.errors import BackendUnavailableError, ConvfindError, DeviceError
from convfind.finddb import BinaryStore, FindDb
from convfind.finddb.packs import installed_packs
from convfind.handle import Handle
from convfind.heuristics.installed import installed_models
from convfind.install_hint import pip_install
from convfind.log import show_messages
from convfind.policy import Isolate
from convfind.runtime.backend import Device
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.settings import Settings

if TYPE_CHECKING:
    from convfind.find.isolation.compilers import Compilers
    from convfind.find.isolation.place import Place
    from convfind.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class DeviceList:
    """The devices of every installed backend by name, and why a backend has none."""

    devices: tuple[tuple[str, Target], ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)


def devices(*, registry: Registry | None = None) -> DeviceList:
    """List devices; names such as ``opencl:0`` are what `open` takes. Never raises."""
    registry = registry or _installed()
    found: list[tuple[str, Target]] = []
    failures: dict[str, str] = {}
    for name in registry.backends:
        try:
            targets = registry.backends[name].targets()
        except Exception as error:
            failures[name] = _reason(error)
            continue
        found += [(f"{name}:{number}", target) for number, target in enumerate(targets)]
    return DeviceList(tuple(found), failures)


def open_handle(
    name: str | None = None,
    *,
    registry: Registry | None = None,
    settings: Settings | None = None,
) -> Handle:
    """Open a device.

    Args:
        name: ``backend:selector``, such as ``opencl:0``, ``opencl:cpu``, ``opencl:nvidia``; a
            backend alone takes its best device; None takes the environment's or the best there is.
        registry: plugins to use; None for what is installed.
        settings: None for the environment's.

    Raises:
        DeviceError: no such device; lists those there are.
        BackendUnavailableError: no backend, or its runtime is missing; says what to install.
    """
    registry = registry or _installed()
    settings = settings or Settings.from_environment()
    device, opened_by = _open_device(name or settings.device, registry)
    return _handle(device, registry, settings, opened_by)


def handle_for(
    device: Device, registry: Registry | None = None, settings: Settings | None = None
) -> Handle:
    """Make a handle for a device that is open already, such as one with the caller's own queue."""
    registry = registry or _installed()
    return _handle(device, registry, settings or Settings.from_environment(), None)


def _handle(device: Device, registry: Registry, settings: Settings, name: str | None) -> Handle:
    """Make a handle for a device that was opened by a name, or by somebody else."""
    from convfind.find.isolation.child import Child

    if settings.log_level:
        show_messages(settings.log_level)
    folder = settings.user_db_path
    database = FindDb.open(None)
    if not settings.disable_find_db:
        packs = installed_packs(folder, *device.target.identities)
        database = FindDb.open(folder, (*packs, *registry.system_databases()))
    store = open_binaries(settings, registry, device.target)
    place = None if name is None else _place(name, device, registry, settings)
    kernels = KernelCache(
        device, store, settings.compile_parallel_level, _pool(device, place, settings)
    )
    child = None if place is None else Child(place)
    session = Session(device, registry, database, kernels, installed_models(folder), child)
    return Handle(session, settings)


def open_binaries(settings: Settings, registry: Registry, target: Target) -> BinaryStore:
    """Open the user's binaries, over packs of kernels of a device's compiler."""
    if settings.disable_binary_cache:
        return BinaryStore.open(None)
    folder = settings.user_db_path
    packs = installed_packs(folder, target.compiler)
    return BinaryStore.open(folder, (*packs, *registry.kernel_packs()))


def _installed() -> Registry:
    # Loading plugins needs importlib.metadata, which importing convfind alone does not.
    from convfind.plugins.registry import default_registry

    return default_registry()


def _place(name: str, device: Device, registry: Registry, settings: Settings) -> Place | None:
    """Return how a child opens a device as this process has opened it; None where none can."""
    from convfind.find.isolation.place import Place

    plugins = registry.selection_for(device.target)
    if plugins is None:
        return None
    return Place(name, device.target, plugins, settings.compile_parallel_level)


def _pool(device: Device, place: Place | None, settings: Settings) -> Compilers | None:
    """Return children for a compiler that would take programs in turn; none of them runs yet."""
    is_alone = settings.compile_parallel_level < 2 or settings.isolate is Isolate.NEVER
    if place is None or is_alone or not device.compiles_in_turn:
        return None
    from convfind.find.isolation.compilers import Compilers

    return Compilers(device, place)


def _open_device(name: str | None, registry: Registry) -> tuple[Device, str]:
    """Open a device; also return the name by which another process opens it."""
    if not registry.backends:
        command = pip_install("convfind-backend-opencl[cpu]")
        msg = f"no backend is installed; {command} gives a CPU device"
        raise BackendUnavailableError(msg)
    if name is not None:
        if not isinstance(name, str):
            msg = f"device {shown(name)} is no name of a device, such as 'opencl:0'"
            raise DeviceError(msg)
        backend, _, selector = name.partition(":")
        if backend not in registry.backends:
            names = ", ".join(registry.backends)
            msg = f"device {shown(name)}: no such backend is installed; installed: {names}"
            raise DeviceError(msg)
        return registry.backends[backend].open(selector), name
    failures = []
    for backend in registry.backends:
        try:
            return registry.backends[backend].open(""), f"{backend}:"
        except Exception as error:
            failures.append(f"{backend}: {_reason(error)}")
    raise BackendUnavailableError("; ".join(failures))


def _reason(error: Exception) -> str:
    """Return the reason of a failure in a backend, which may be anybody's code."""
    return str(error) if isinstance(error, ConvfindError) else f"{type(error).__name__}: {error}"
