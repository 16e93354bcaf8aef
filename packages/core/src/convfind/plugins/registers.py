"""The register objects that hooks receive: they validate items and refuse duplicates."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Generic, TypeVar

from convfind.errors import DuplicateIdError, PluginError
from convfind.heuristics import Heuristic
from convfind.plugins.layer_reader import LayerReader
from convfind.plugins.manager import PluginInfo
from convfind.problem.contract import Problem
from convfind.runtime.backend import Backend
from convfind.solver import ProblemDomain, Solver
from convfind.types import Algorithm

Item = TypeVar("Item")
#: The item under each id, and the plugin that registered it.
Entries = dict[str, tuple[Item, PluginInfo]]

_KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class _Register(ABC, Generic[Item]):
    """Collects the items that one plugin registers in one hook."""

    _kind: ClassVar[str]

    def __init__(self, plugin: PluginInfo, entries: Entries[Item]) -> None:
        self._plugin = plugin
        self._entries = entries

    def add(self, item: Item) -> None:
        """Register one item.

        Raises:
            PluginError: the item breaks its contract.
            DuplicateIdError: another item, which stays, has the same id.
        """
        identifier = self._id_of(item)
        if not isinstance(identifier, str) or not _KEBAB_CASE.fullmatch(identifier):
            raise PluginError(f"{self._kind} id {identifier!r} of {item!r} is not in kebab case")
        if identifier in self._entries:
            first = self._entries[identifier][1]
            raise DuplicateIdError(self._kind, identifier, first.package, self._plugin.package)
        self._entries[identifier] = (item, self._plugin)

    def extend(self, items: Iterable[Item]) -> None:
        """Register several items; errors are raised after all others are registered."""
        errors: list[PluginError] = []
        for item in items:
            try:
                self.add(item)
            except PluginError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise PluginError("; ".join(map(str, errors)))

    @abstractmethod
    def _id_of(self, item: Item) -> object:
        """Return the id of an item of the right type. Raises `PluginError` for any other."""


class BackendRegistry(_Register[type[Backend] | Backend]):
    """Register of backends: classes that are constructed at first use, or instances."""

    _kind = "backend"

    def _id_of(self, item: type[Backend] | Backend) -> object:
        kind = item if isinstance(item, type) else type(item)
        if not issubclass(kind, Backend):
            raise PluginError(f"{item!r} is not a subclass of convfind.runtime.backend.Backend")
        if inspect.isabstract(kind):
            missing = ", ".join(sorted(kind.__abstractmethods__))
            raise PluginError(f"backend {kind.__name__} lacks {missing}")
        return getattr(item, "name", None)


class SolverRegistry(_Register[Solver]):
    """Register of solver instances, best first."""

    _kind = "solver"

    def _id_of(self, item: Solver) -> object:
        if isinstance(item, type):
            raise PluginError(f"{item.__name__} is a class; register an instance of the solver")
        if not isinstance(item, Solver):
            raise PluginError(f"{item!r} is not an instance of convfind.solver.Solver")
        identifier = getattr(item, "solver_id", None)
        version = item.version
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise PluginError(
                f"version {version!r} of solver {identifier!r} is no number from 1 on"
            )
        algorithm = getattr(item, "algorithm", None)
        if not isinstance(algorithm, Algorithm):
            legal = ", ".join(f"Algorithm.{member.name}" for member in Algorithm)
            raise PluginError(
                f"algorithm {algorithm!r} of solver {identifier!r} is not one of {legal}"
            )
        for flag in ("is_dynamic", "is_last_resort"):
            if not isinstance(getattr(item, flag), bool):
                raise PluginError(f"{flag} of solver {identifier!r} is neither True nor False")
        backends = item.backends
        if not isinstance(backends, tuple) or not all(isinstance(name, str) for name in backends):
            raise PluginError(
                f"backends {backends!r} of solver {identifier!r} is no tuple of names"
            )
        if not isinstance(item.domain, ProblemDomain):
            raise PluginError(f"domain {item.domain!r} of solver {identifier!r} is no Domain")
        return identifier


class ProblemTypeRegistry(_Register[type[Problem]]):
    """Register of problem types, by their kind."""

    _kind = "problem type"

    def _id_of(self, item: type[Problem]) -> object:
        if not isinstance(item, type):
            raise PluginError(f"{item!r} is no class; register the type of the problems")
        if not isinstance(getattr(item, "is_measured", None), bool):
            raise PluginError(f"is_measured of {item.__name__} is neither True nor False")
        names = (name for name in _MEMBERS if not hasattr(item, name))
        if missing := ", ".join(sorted(names)):
            raise PluginError(f"problem type {item.__name__} lacks {missing}")
        return getattr(item, "kind", None)


#: Members that every problem type has as a property or method; dataclass fields may be the others.
_MEMBERS = ("plain", "operand")


class HeuristicRegistry(_Register[Heuristic]):
    """Register of heuristics; earlier ones are consulted first."""

    _kind = "heuristic"

    def _id_of(self, item: Heuristic) -> object:
        if isinstance(item, type) or not callable(getattr(item, "predict", None)):
            raise PluginError(f"{item!r} is not an object with a method predict")
        return getattr(item, "name", None)


class LayerReaderRegistry(_Register[LayerReader]):
    """Register of readers of layers, by the suffix of their files."""

    _kind = "layer reader"

    def _id_of(self, item: LayerReader) -> object:
        if not isinstance(item, LayerReader):
            raise PluginError(f"{item!r} is no LayerReader of convfind.plugins.layer_reader")
        return item.suffix
