"""`Registry`: the backends, problem types, solvers, heuristics and listeners of all plugins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from convfind.arguments import shown, similar
from convfind.cached import cached_property
from convfind.device.target import DeviceKind, Target
from convfind.errors import (
    PluginError,
    ProblemError,
    SettingsError,
    SolutionError,
)
from convfind.finddb.pack import is_of_kernels
from convfind.heuristics import Heuristic
from convfind.kit.completions import Completions, own_id, suffixes_for
from convfind.plugins.domain_index import DomainIndex
from convfind.plugins.layer_reader import LayerReader
from convfind.plugins.lazy_backends import LazyBackends
from convfind.plugins.manager import PluginFailure, PluginInfo, PluginManager
from convfind.plugins.registers import (
    BackendRegistry,
    Entries,
    HeuristicRegistry,
    Item,
    LayerReaderRegistry,
    ProblemTypeRegistry,
    SolverRegistry,
)
from convfind.problem import ConvProblem, Problem
from convfind.runtime.backend import Backend
from convfind.settings import PluginSelection, plugin_selection
from convfind.solver import Solver
from convfind.solver.applicability import Rejected

if TYPE_CHECKING:
    import click

    from convfind.find.result import FindResult
    from convfind.find.solution import Solution

__all__ = [
    "BackendRegistry",
    "HeuristicRegistry",
    "LayerReaderRegistry",
    "ProblemTypeRegistry",
    "Registry",
    "SolverRegistry",
    "default_registry",
]


#: The problem type that core brings.
_OWN_TYPES = {ConvProblem.kind: (ConvProblem, PluginInfo("convolutions", "convfind"))}


class Registry:
    """Everything that plugins register, in an order independent of how they were loaded.

    Families of solvers are ordered by name of distribution, each in its own order, best first;
    last resorts come after all others. Build one with `Registry.build`, which calls the hooks
    once. Later only listeners to finds are called; without listeners that costs nothing.
    """

    def __init__(self, manager: PluginManager) -> None:
        self._manager = manager
        backends = _collect(manager, "convfind_register_backends", BackendRegistry)
        types: Entries[type[Problem]] = {**_OWN_TYPES}
        _collect(manager, "convfind_register_problem_types", ProblemTypeRegistry, types)
        solvers = _collect(manager, "convfind_register_solvers", SolverRegistry)
        heuristics = _collect(manager, "convfind_register_heuristics", HeuristicRegistry)
        readers = _collect(manager, "convfind_register_layer_readers", LayerReaderRegistry)
        self._backends = backends
        self.backends: Mapping[str, Backend] = LazyBackends(backends)
        self.solvers: tuple[Solver, ...] = tuple(
            sorted((solver for solver, _ in solvers.values()), key=lambda s: s.is_last_resort)
        )
        self.heuristics: tuple[Heuristic, ...] = tuple(item for item, _ in heuristics.values())
        self.layer_readers: Mapping[str, LayerReader] = {
            f".{suffix}": item for suffix, (item, _) in readers.items()
        }
        self._solvers = {solver.solver_id: solver for solver in self.solvers}
        self._origins = {solver_id: info for solver_id, (_, info) in solvers.items()}
        self._types: dict[str, type[Problem]] = {kind: item for kind, (item, _) in types.items()}
        self._of_backend: dict[
            tuple[str, str], tuple[tuple[Solver, ...], Mapping[str, Rejected]]
        ] = {}
        self._indices: dict[tuple[str, str, tuple[str, ...]], DomainIndex] = {}
        shipped = tuple(_databases(manager))
        self._kernel_packs = tuple(path for path in shipped if is_of_kernels(path))
        self._databases = tuple(path for path in shipped if path not in self._kernel_packs)
        self._started = manager.hooks("convfind_find_started")
        self._measured = manager.hooks("convfind_candidate_measured")
        self._finished = manager.hooks("convfind_find_finished")

    @classmethod
    def build(
        cls,
        plugins: Iterable[object] = (),
        *,
        load_entry_points: bool = True,
        selection: PluginSelection | None = None,
    ) -> Registry:
        """Load plugins and call their hooks. A broken plugin never raises: see `failures`.

        Args:
            plugins: modules or objects with hooks, in addition to installed plugins.
            load_entry_points: whether to load installed plugins.
            selection: which of the installed plugins to load; None: as set by the environment.
        """
        manager = PluginManager()
        if load_entry_points:
            if selection is None:
                selection = plugin_selection(os.environ)
            manager.load_entry_points(selection)
        for plugin in plugins:
            manager.register(plugin)
        return cls(manager)

    @property
    def plugins(self) -> tuple[PluginInfo, ...]:
        """The plugins that were loaded."""
        return self._manager.plugins

    @property
    def disabled(self) -> tuple[PluginInfo, ...]:
        """The installed plugins that the selection excludes."""
        return tuple(self._manager.disabled)

    @property
    def failures(self) -> tuple[PluginFailure, ...]:
        """Failures of plugins so far."""
        return tuple(self._manager.failures)

    # -- problem types ----------------------------------------------------------------------------

    @property
    def problem_types(self) -> Mapping[str, type[Problem]]:
        """The problem types by kind: convolutions, and what packages bring."""
        return MappingProxyType(self._types)

    def problem_type(self, kind: str) -> Callable[..., Any]:
        """Return the problem type of a kind, to be called with its fields by keyword.

        Raises:
            ProblemError: no installed package brings it; names the kinds that there are.
        """
        found = self._types.get(kind)
        if found is None:
            legal = f"one of an installed package: {', '.join(sorted(self._types))}"
            raise ProblemError("kind", kind, legal)
        return found

    def problem_from_key(self, text: str) -> Problem:
        """Read a problem of any type from its key. Raises `ProblemError`."""
        kinds = (kind for kind in self._types if _begins_with(text, kind))
        found = self._types.get(max(kinds, key=len, default=""))
        if found is None or found is ConvProblem:
            return _convolution(text)
        read = getattr(found, "from_key", None)
        if read is None:
            raise ProblemError("key", text, f"another: {found.__name__} does not read its keys")
        problem: Problem = read(text)
        return problem

    def selection_for(self, target: Target) -> PluginSelection | None:
        """Return the plugins with which another process opens a device and checks results on it.

        None if its backend was not installed but given: other processes do not have it.
        """
        known = self._backends.get(target.backend)
        if known is None or (origin := known[1]) not in self._manager.installed:
            return None
        needed = {origin.name}
        if target.kind is DeviceKind.GPU:
            needed |= {
                self._origins[one.solver_id].name for one in self.solvers if one.is_last_resort
            }
        return PluginSelection(allow=frozenset(needed))

    # -- solvers --------------------------------------------------------------------------------

    def solvers_of(self, kind: str) -> tuple[Solver, ...]:
        """Return the solvers of one kind of problem, in order."""
        return self._of_kind.get(kind, ())

    @cached_property
    def _of_kind(self) -> Mapping[str, tuple[Solver, ...]]:
        found: dict[str, list[Solver]] = {}
        for solver in self.solvers:
            found.setdefault(solver.domain.problem, []).append(solver)
        return {kind: tuple(solvers) for kind, solvers in found.items()}

    def solver(self, solver_id: str) -> Solver:
        """Return a solver. Raises `SolutionError`, naming similar ids, if it is not installed."""
        found = self.find_solver(solver_id)
        if found is None:
            hint = self._hint(solver_id)
            raise SolutionError(f"no installed package brings solver {shown(solver_id)}; {hint}")
        return found

    def check_solvers(self, name: str, solver_ids: Iterable[str]) -> None:
        """Raise `SettingsError` for a solver that is not installed, naming similar ids.

        ``name`` is the field or option that lists the solvers.
        """
        for solver_id in sorted(set(solver_ids) - self._solvers.keys() - self._completed.keys()):
            legal = f"an installed solver; {self._hint(solver_id)}"
            raise SettingsError(name, solver_id, legal)

    def _hint(self, solver_id: str) -> str:
        near = similar(solver_id, self._solvers)[:3]
        return f"did you mean {' or '.join(near)}?" if near else "see `convfind solvers`"

    def find_solver(self, solver_id: str) -> Solver | None:
        """Return a solver, or None if it is not installed."""
        return self._solvers.get(solver_id) or self._completed.get(solver_id)

    @cached_property
    def _completed(self) -> Completions:
        """Solvers with steps of core's around their own, by their ids."""
        return Completions(self.solvers)

    def offered(self, problem: Problem) -> tuple[Solver, ...]:
        """Return the solvers that may take a problem, in order, each before what completes it."""
        solvers, suffixes = self.solvers_of(problem.kind), suffixes_for(problem)
        return self._completed.beside(solvers, suffixes) if suffixes else solvers

    def package_of(self, solver_id: str) -> str:
        """Return a solver's distribution and version: ``"convfind-solvers-fft 0.1.0"``."""
        self.solver(solver_id)
        return self._origins[own_id(solver_id)].package

    def solvers_for(
        self, target: Target, kind: str = ConvProblem.kind
    ) -> tuple[tuple[Solver, ...], Mapping[str, Rejected]]:
        """Return the solvers of a kind of problem, in order, and those that another backend needs.

        The second are refusals by id.
        """
        found = self._of_backend.get((target.backend, kind))
        if found is None:
            solvers = self.solvers_of(kind)
            asked = {solver.solver_id: solver.backend_refusal(target) for solver in solvers}
            rejected = {name: refused for name, refused in asked.items() if refused is not None}
            candidates = tuple(s for s in solvers if s.solver_id not in rejected)
            found = (candidates, MappingProxyType(rejected))
            self._of_backend[target.backend, kind] = found
        return found

    def candidates_for(
        self, problem: Problem, target: Target
    ) -> tuple[tuple[Solver, ...], Mapping[str, Rejected]]:
        """Return the solvers whose domain contains a problem, in order, and the other refusals."""
        suffixes = suffixes_for(problem)
        place = target.backend, problem.kind, suffixes
        index = self._indices.get(place)
        if index is None:
            solvers, refused = self.solvers_for(target, problem.kind)
            if suffixes:
                solvers = self._completed.beside(solvers, suffixes)
                both = {one + suffix: why for one, why in refused.items() for suffix in suffixes}
                known = {one: why for one, why in both.items() if one in self._completed}
                refused = {**refused, **known}
            index = self._indices[place] = DomainIndex(solvers, refused)
        return index.split(problem, target)

    # -- databases and commands -------------------------------------------------------------------

    def system_databases(self) -> tuple[Path, ...]:
        """Return the folders of read-only databases that packages ship."""
        return self._databases

    def kernel_packs(self) -> tuple[Path, ...]:
        """Return the packs of kernels that packages ship."""
        return self._kernel_packs

    def add_commands(self, cli: click.Group) -> None:
        """Let plugins add commands; a command with an existing name is refused."""
        for hook in self._manager.hooks("convfind_register_commands"):
            before = dict(cli.commands)
            hook(cli=cli)
            for name, command in before.items():
                if cli.commands.get(name) is not command:
                    cli.commands[name] = command
                    hook.fail(PluginError(f"command {name!r} exists already; choose another name"))

    # -- events -----------------------------------------------------------------------------------

    def find_started(self, problem: Problem, target: Target, candidates: int) -> None:
        """Tell listeners that a find begins to compile and measure."""
        for hook in self._started:
            hook(problem=problem, target=target, candidates=candidates)

    def candidate_measured(self, problem: Problem, target: Target, solution: Solution) -> None:
        """Tell listeners about a measured solution."""
        for hook in self._measured:
            hook(problem=problem, target=target, solution=solution)

    def find_finished(self, problem: Problem, target: Target, result: FindResult) -> None:
        """Tell listeners the result of a find."""
        for hook in self._finished:
            hook(problem=problem, target=target, result=result)


@cache
def default_registry() -> Registry:
    """Return the registry of the installed plugins, built at the first call."""
    return Registry.build()


def _collect(
    manager: PluginManager,
    hook_name: str,
    register: Callable[[PluginInfo, Entries[Item]], object],
    entries: Entries[Item] | None = None,
) -> Entries[Item]:
    """Call a registering hook in every plugin; items are added to the ``entries``."""
    entries = {} if entries is None else entries
    for hook in manager.hooks(hook_name):
        for returned in hook(register=register(hook.info, entries)):
            hook.fail(PluginError(f"returned {returned!r}; call register.add or register.extend"))
    return entries


@lru_cache(maxsize=4096)
def _convolution(text: str) -> ConvProblem:
    return ConvProblem.from_key(text)


def _begins_with(key: str, kind: str) -> bool:
    return key.startswith(kind) and not key[len(kind) : len(kind) + 1].isalnum()


def _databases(manager: PluginManager) -> Iterator[Path]:
    for hook in manager.hooks("convfind_system_databases"):
        for returned in hook():
            if not isinstance(returned, Sequence) or isinstance(returned, str):
                hook.fail(PluginError(f"returned {returned!r}; return a list of pathlib.Path"))
                continue
            for path in returned:
                if isinstance(path, Path) and path.exists():
                    yield path
                else:
                    hook.fail(PluginError(f"returned {path!r}, which is no Path of a database"))
