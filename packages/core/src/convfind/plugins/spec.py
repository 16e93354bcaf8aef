"""Every hook, typed and documented. A plugin implements any of them; see ``docs/hooks.md``.

All hooks except the events are called once, when a registry is built, one plugin after the other:
installed packages in order of distribution and entry-point name, then those given in code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from convfind.device.target import Target
    from convfind.find.result import FindResult
    from convfind.find.solution import Solution
    from convfind.plugins.registry import (
        BackendRegistry,
        HeuristicRegistry,
        LayerReaderRegistry,
        ProblemTypeRegistry,
        SolverRegistry,
    )
    from convfind.problem.contract import Problem

PROJECT = "convfind"
hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def convfind_register_backends(register: BackendRegistry) -> None:
    """Call ``register.add(BackendClass)``. Import no runtime and touch no device."""


@hookspec
def convfind_register_solvers(register: SolverRegistry) -> None:
    """Call ``register.extend([solver, ...])``, best first. Touch no device."""


@hookspec
def convfind_register_problem_types(register: ProblemTypeRegistry) -> None:
    """Call ``register.add(ProblemType)`` for each `Problem` that is no convolution."""


@hookspec
def convfind_register_heuristics(register: HeuristicRegistry) -> None:
    """Call ``register.add(heuristic)``. Load models lazily, at the first prediction."""


@hookspec
def convfind_register_layer_readers(register: LayerReaderRegistry) -> None:
    """Call ``register.add(LayerReader(suffix, read))`` for each kind of file with layers."""


@hookspec
def convfind_system_databases() -> Sequence[Path]:  # type: ignore[empty-body]
    """Return what the package ships: folders of find databases, and packs, of kernels too.

    They are only read; the most specific come first.
    """


@hookspec
def convfind_register_commands(cli: click.Group) -> None:
    """Add commands to the ``convfind`` program. Called when the program starts."""


@hookspec
def convfind_find_started(problem: Problem, target: Target, candidates: int) -> None:
    """Receive the number of candidates that a find is about to compile and measure."""


@hookspec
def convfind_candidate_measured(problem: Problem, target: Target, solution: Solution) -> None:
    """Receive each solution as soon as it is measured and verified."""


@hookspec
def convfind_find_finished(problem: Problem, target: Target, result: FindResult) -> None:
    """Receive the result of every finished find, including database hits."""
