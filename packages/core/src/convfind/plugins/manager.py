"""`PluginManager`: finds and loads plugins, calls their hooks, and isolates their failures."""

from __future__ import annotations

import importlib.metadata
import logging
import re
from dataclasses import dataclass
from typing import Any

import pluggy

from convfind.errors import PluginError
from convfind.log import logger
from convfind.plugins import spec
from convfind.settings import PluginSelection

#: Exceptions of plugins that stop nothing; KeyboardInterrupt stops everything.
_SURVIVED = (Exception, SystemExit)


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """Identity of a plugin: the name of its entry point, and its distribution."""

    name: str
    distribution: str
    version: str = ""

    @property
    def package(self) -> str:
        """Distribution and version, as used in records and messages."""
        return f"{self.distribution} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A failure of a plugin; ``stage`` is import, validation, selection or a hook's name."""

    name: str
    distribution: str
    stage: str
    error: str

    def __str__(self) -> str:
        return f"plugin {self.name} of {self.distribution} failed in {self.stage}: {self.error}"


@dataclass(frozen=True, slots=True)
class PluginHook:
    """A hook as one plugin implements it."""

    manager: PluginManager
    info: PluginInfo
    name: str
    caller: pluggy.HookCaller

    def __call__(self, **arguments: object) -> list[Any]:
        """Call the hook and return its result unless that is None; an error is recorded."""
        try:
            results: list[Any] = self.caller(**arguments)
        except _SURVIVED as error:
            self.manager.record(self.info, self.name, error, once=True)
            return []
        return results

    def fail(self, error: BaseException) -> None:
        """Record that the plugin broke the contract of this hook."""
        self.manager.record(self.info, self.name, error)


class PluginManager:
    """The loaded plugins, in order, and all failures.

    Each plugin has a pluggy manager of its own. So a plugin that pluggy refuses leaves no traces,
    one plugin's error does not stop the others, and convfind, not pluggy, orders the calls.
    """

    def __init__(self) -> None:
        self.failures: list[PluginFailure] = []
        self.disabled: list[PluginInfo] = []
        self.installed: set[PluginInfo] = set()
        self._plugins: list[tuple[PluginInfo, pluggy.PluginManager]] = []

    @property
    def plugins(self) -> tuple[PluginInfo, ...]:
        """The plugins that were loaded."""
        return tuple(info for info, _ in self._plugins)

    def load_entry_points(self, selection: PluginSelection) -> None:
        """Load the plugins of installed distributions, in order of distribution and name."""
        found = self._entry_points()
        for info, entry_point in found:
            if not selection.selects(info.name, info.distribution):
                self.disabled.append(info)
                continue
            try:
                plugin = entry_point.load()
            except _SURVIVED as error:
                self.record(info, "import", error)
            else:
                self.installed.add(info)
                self.register(plugin, info)
        installed = {word for info, _ in found for word in (info.name, info.distribution)}
        for name in sorted((selection.allow or frozenset()) - installed):
            there_are = ", ".join(info.name for info, _ in found) or "none"
            missing = PluginError(f"allowed, but not installed; there are: {there_are}")
            self.record(PluginInfo(name, name), "selection", missing)

    def register(self, plugin: object, info: PluginInfo | None = None) -> None:
        """Take a module or object as a plugin; one that pluggy refuses is recorded, not raised."""
        info = info or _info_of(plugin)
        manager = pluggy.PluginManager(spec.PROJECT)
        manager.add_hookspecs(spec)
        try:
            manager.register(plugin, info.name)
            manager.check_pending()
            if not manager.get_hookcallers(plugin):
                raise PluginError(f"{plugin!r} has no function decorated with hookimpl")
        except _SURVIVED as error:
            self.record(info, "validation", error)
        else:
            self._plugins.append((info, manager))

    def hooks(self, name: str) -> tuple[PluginHook, ...]:
        """Return the named hook of each plugin that implements it."""
        hooks = [(info, getattr(manager.hook, name)) for info, manager in self._plugins]
        return tuple(
            PluginHook(self, info, name, caller) for info, caller in hooks if caller.get_hookimpls()
        )

    def record(
        self, info: PluginInfo, stage: str, error: BaseException, *, once: bool = False
    ) -> None:
        """Record and log a failure; with ``once`` only the plugin's first in this stage."""
        if once and any(
            (known.name, known.distribution, known.stage) == (info.name, info.distribution, stage)
            for known in self.failures
        ):
            return
        what = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        failure = PluginFailure(info.name, info.distribution, stage, what)
        self.failures.append(failure)
        trace = error if logger.isEnabledFor(logging.DEBUG) else None
        logger.warning("%s; see `convfind doctor`", failure, exc_info=trace)

    def _entry_points(self) -> list[tuple[PluginInfo, importlib.metadata.EntryPoint]]:
        """List the entry points; a distribution that is installed twice counts once, the first."""
        found: dict[tuple[str, str], tuple[PluginInfo, importlib.metadata.EntryPoint]] = {}
        seen: dict[str, object] = {}
        for distribution in importlib.metadata.distributions():
            try:
                # Most distributions are no plugins: checking the text first is cheaper, and
                # their faults do not matter.
                text = distribution.read_text("entry_points.txt") or ""
                if f"[{spec.PROJECT}]" not in text:
                    continue
                name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
                if seen.setdefault(name, distribution) is not distribution:
                    continue
                for entry_point in distribution.entry_points.select(group=spec.PROJECT):
                    info = PluginInfo(entry_point.name, name, distribution.version)
                    found[name, entry_point.name] = (info, entry_point)
            except _SURVIVED as error:
                path = str(getattr(distribution, "_path", "unknown"))
                self.record(PluginInfo(path.rpartition("/")[2], path), "import", error)
        return [found[key] for key in sorted(found)]


def _info_of(plugin: object) -> PluginInfo:
    """Name a plugin that was given in code after its module or class."""
    name = getattr(plugin, "__name__", type(plugin).__name__)
    return PluginInfo(str(name), str(name), str(getattr(plugin, "__version__", "")))
