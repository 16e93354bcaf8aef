"""The environment variables that convfind reads: a table, `VARIABLES`, and values, `Settings`."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convfind.errors import SettingsError
from convfind.policy import Fallback, FindEnforce, FindMode, Isolate, Policy


@dataclass(frozen=True, slots=True)
class PluginSelection:
    """The installed plugins that are loaded, by name of entry point or distribution."""

    allow: frozenset[str] | None = None  # None: all
    deny: frozenset[str] = frozenset()
    deny_all: bool = False

    def selects(self, name: str, distribution: str) -> bool:
        """True where the plugin is to be loaded."""
        if self.deny_all or not self.deny.isdisjoint((name, distribution)):
            return False
        return self.allow is None or not self.allow.isdisjoint((name, distribution))


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _data_folder() -> Path:
    import platformdirs

    return platformdirs.user_data_path("convfind", appauthor=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings from the environment; see `VARIABLES` for the meaning of each field."""

    find_mode: FindMode | None = None  # None: nobody chose one
    find_enforce: FindEnforce = FindEnforce.NONE
    compile_parallel_level: int = field(default_factory=usable_cpus)
    immediate_fallback: Fallback = Fallback.AI
    user_db_path: Path = field(default_factory=_data_folder)
    disable_find_db: bool = False
    disable_binary_cache: bool = False
    find_time_budget: float | None = None
    workspace_limit: int | None = None
    isolate: Isolate = Isolate.AUTO
    device: str | None = None
    plugins: PluginSelection = PluginSelection()
    log_level: str | None = None
    verbose: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the variables, of this process where none are given; empty ones count as unset.

        Raises:
            SettingsError: a variable has an illegal value; names the variable and the legal values.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {"plugins": plugin_selection(environ)}
        for variable in VARIABLES:
            if variable.parse is None:
                continue
            # The first name that is set decides; what the others say is not even looked at.
            for name in variable.names:
                if environ.get(name, "").strip():
                    values[variable.field] = variable.parse(name, environ[name].strip())
                    break
        return cls(**values)

    @property
    def policy(self) -> Policy:
        """The policy of a find for which the caller says nothing, without `find_enforce`."""
        return Policy.for_mode(
            self.find_mode or FindMode.DYNAMIC_HYBRID,
            fallback=self.immediate_fallback,
            time_budget=self.find_time_budget,
            workspace_limit=self.workspace_limit,
            isolate=self.isolate,
        )


def plugin_selection(environ: Mapping[str, str]) -> PluginSelection:
    """Read CONVFIND_PLUGINS and CONVFIND_DISABLE_PLUGINS, which have no illegal values."""
    allow = _names(environ.get("CONVFIND_PLUGINS", ""))
    deny = _names(environ.get("CONVFIND_DISABLE_PLUGINS", "")) - {"0"}
    return PluginSelection(allow or None, deny, deny_all=not deny.isdisjoint(("all", "1")))


def parse_size(name: str, text: str) -> int:
    """Read a number of bytes: ``1048576``, ``1024K``, ``1M``, ``2G``; ``name`` is for the error."""
    match = re.fullmatch(r"(\d{1,18})([KMG]?)", text.strip().upper(), re.ASCII)
    if match is None:
        raise SettingsError(name, text, "bytes, or a number followed by K, M or G (powers of 1024)")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def _parse_seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise SettingsError(name, text, "seconds, 0 or more")
    return seconds


def _parse_count(name: str, text: str) -> int:
    if not re.fullmatch(r"0{,9}[1-9]\d{,8}", text, re.ASCII):
        raise SettingsError(name, text, "a whole number from 1")
    return int(text)


def _parse_switch(name: str, text: str) -> bool:
    switch = {"1": True, "true": True, "on": True, "yes": True}
    switch |= {"0": False, "false": False, "off": False, "no": False}
    if text.lower() not in switch:
        raise SettingsError(name, text, ", ".join(switch))
    return switch[text.lower()]


def _parse_word(*legal: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if text.lower() not in legal:
            raise SettingsError(name, text, ", ".join(legal))
        return text.lower()

    return parse


def _parse_fallback(name: str, text: str) -> Fallback:
    return Fallback(_parse_word(*Fallback)(name, text))


def _parse_isolate(name: str, text: str) -> Isolate:
    return Isolate(_parse_word(*Isolate)(name, text))


def _parse_mode(name: str, text: str) -> FindMode:
    return FindMode.parse(text, name)


def _parse_enforce(name: str, text: str) -> FindEnforce:
    return FindEnforce.parse(text, name)


def _parse_text(_name: str, text: str) -> str:
    return text


def _parse_path(_name: str, text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)  # the home of nobody: the database says so, and goes on in memory


def _names(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",")) - {""}


def _words(kind: type[FindMode] | type[FindEnforce]) -> str:
    return ", ".join(f"{member.name} or {member.value}" for member in kind)


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting: the variables that it is read from, first come first served, and its meaning."""

    names: tuple[str, ...]
    field: str
    values: str
    default: str
    meaning: str
    parse: Callable[[str, str], object] | None


VARIABLES = (
    Variable(
        ("CONVFIND_FIND_MODE", "MIOPEN_FIND_MODE"),
        "find_mode",
        _words(FindMode),
        "DYNAMIC_HYBRID; HYBRID on GPUs where sizes are known not to change",
        "how finds use the database and measure",
        _parse_mode,
    ),
    Variable(
        ("CONVFIND_FIND_ENFORCE", "MIOPEN_FIND_ENFORCE"),
        "find_enforce",
        _words(FindEnforce),
        "NONE",
        "what every find does beyond its mode",
        _parse_enforce,
    ),
    Variable(
        ("CONVFIND_COMPILE_PARALLEL_LEVEL", "MIOPEN_COMPILE_PARALLEL_LEVEL"),
        "compile_parallel_level",
        "a whole number from 1",
        "number of usable CPUs",
        "how many kernels are compiled at a time",
        _parse_count,
    ),
    Variable(
        ("CONVFIND_IMMEDIATE_FALLBACK",),
        "immediate_fallback",
        ", ".join(Fallback),
        "ai",
        "how immediate mode estimates without a record: heuristic, else forecasts, then "
        "throughput index, then GEMM; wti and gemm start there",
        _parse_fallback,
    ),
    Variable(
        ("CONVFIND_USER_DB_PATH",),
        "user_db_path",
        "a folder",
        "the platform's folder for user data",
        "where the find database and the binary cache are stored",
        _parse_path,
    ),
    Variable(
        ("CONVFIND_DISABLE_FIND_DB",),
        "disable_find_db",
        "0 or 1",
        "0",
        "1: finds neither read nor write the database on disk",
        _parse_switch,
    ),
    Variable(
        ("CONVFIND_DISABLE_BINARY_CACHE",),
        "disable_binary_cache",
        "0 or 1",
        "0",
        "1: compiled kernels are neither read from disk nor written there",
        _parse_switch,
    ),
    Variable(
        ("CONVFIND_FIND_TIME_BUDGET",),
        "find_time_budget",
        "seconds, 0 or more",
        "no limit",
        "time for one find; at least one solver is measured",
        _parse_seconds,
    ),
    Variable(
        ("CONVFIND_WORKSPACE_LIMIT",),
        "workspace_limit",
        "bytes, or a number with K, M or G",
        "no limit",
        "scratch memory that a chosen solution may need",
        parse_size,
    ),
    Variable(
        ("CONVFIND_ISOLATE",),
        "isolate",
        ", ".join(Isolate),
        "auto",
        "which candidates run in a child process, so that a crash or an endless kernel costs them "
        "alone: auto is all of a find with a solver that is not of this project",
        _parse_isolate,
    ),
    Variable(
        ("CONVFIND_DEVICE",),
        "device",
        "a device name such as `opencl:0`",
        "the best device present",
        "the device that is opened when none is named",
        _parse_text,
    ),
    Variable(
        ("CONVFIND_PLUGINS",),
        "plugins",
        "names separated by commas",
        "all",
        "load only these installed plugins (entry point or distribution)",
        None,  # read together with the next one, by plugin_selection
    ),
    Variable(
        ("CONVFIND_DISABLE_PLUGINS",),
        "plugins",
        "names separated by commas, or all",
        "none",
        "do not load these installed plugins",
        None,
    ),
    Variable(
        ("CONVFIND_LOG_LEVEL",),
        "log_level",
        "debug, info, warning, error",
        "nothing from the library, warning from the program",
        "messages on standard error, from this severity on",
        _parse_word("debug", "info", "warning", "error"),
    ),
    Variable(
        ("CONVFIND_VERBOSE",),
        "verbose",
        "0 or 1",
        "0",
        "1: a line on standard error for each convolution that runs",
        _parse_switch,
    ),
)
