"""`Oracle`: who computes on a GPU what is right for candidates, and the programs for checking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from convfind.checking import comparer, device_rings, fingerprints
from convfind.device.target import Target
from convfind.plugins.registry import Registry
from convfind.problem import ConvProblem
from convfind.problem.contract import Problem
from convfind.solver import Solver, asking
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Recipe


class Oracle(NamedTuple):
    """A last resort that sums in the widest type, and how it runs."""

    solver: Solver
    recipe: Recipe


def oracle_for(problem: Problem, target: Target, registry: Registry) -> Oracle | None:
    """Return who computes on a device what is right for a problem, if anybody does.

    Raises:
        SolverError: the last resort fails.
    """
    solvers, _ = registry.solvers_for(target, problem.kind)
    last_resorts = (solver for solver in solvers if solver.is_last_resort)
    solver = next((s for s in last_resorts if asking.applicability(s, problem, target)), None)
    if solver is None:
        return None
    double = Config(accumulate="double") if target.has("fp64") else None
    return Oracle(solver, asking.recipe(solver, problem, target, double))


def programs_for(
    problems: Iterable[Problem], target: Target, registry: Registry
) -> frozenset[Program]:
    """Return the programs with which finds of plain problems check candidates on a target."""
    if not fingerprints.are_taken_on(target):
        return frozenset()
    programs = {fingerprints.program_for(target)}
    for problem in problems:
        if not isinstance(problem, ConvProblem):
            continue
        read = (problem.operand(name).dtype.numpy for name in problem.reads)
        programs |= {device_rings.program_for(dtype) for dtype in read}
        if target.has("fp64"):
            dtype = problem.operand(problem.writes[0]).dtype.value
            compared = ((dtype, dtype), (dtype, "float64"))
            programs |= {comparer.program_for(target, *types, types[-1]) for types in compared}
            if comparer.knows(problem.activation):
                programs.add(comparer.program_for(target, dtype, dtype, dtype, problem.activation))
        try:
            oracle = oracle_for(problem.without_activation(), target, registry)
        except asking.FAILURES:
            continue  # its own find says so
        programs |= set(() if oracle is None else oracle.recipe.programs)
    return frozenset(programs)
