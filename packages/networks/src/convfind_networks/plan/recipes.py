"""Recipes of a plan's tasks, and their steps in the plan's memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.solver import asking
from convfind.solver.recipe import (
    WORKSPACE_ALIGNMENT,
    Fill,
    Recipe,
    Step,
    memory_names,
    relocated,
)
from convfind_networks.errors import PlanError
from convfind_networks.plan.schedule import CONSTANTS, Place, Task


def recipe_of(handle: Handle, problem: Any, solution: Solution) -> Recipe:
    """Return the recipe of a solution on a handle's device.

    Raises:
        SolutionError: the solver is not installed.
        SolverError: the solver fails.
        PlanError: the solver does not take the problem, or not with that config.
    """
    solver, target = handle.registry.solver(solution.solver), handle.target
    answer = asking.applicability(solver, problem, target)
    if not answer:
        raise PlanError(f"{solution.solver} does not take {problem}: {answer}; compile again")
    given = (solution.config, solution.workspace)
    if fault := asking.config_fault(solver, problem, target, *given):
        raise PlanError(f"config of {solution.solver} is not legal: {fault}; compile again")
    return asking.remembered_recipe(solver, problem, target, *given)


def steps_of(task: Task, recipe: Recipe, sizes: Mapping[str, int]) -> tuple[Step, ...]:
    """Return a task's steps, in the plan's memory, whose sizes are given by name.

    Raises:
        PlanError: something has no place, or lies outside of its memory.
    """
    steps = recipe.unbound_steps if task.packs_itself else recipe.steps
    steps = tuple(
        one for one in steps if task.in_place.isdisjoint(memory_names([one])) and not _is_empty(one)
    )
    for name in memory_names(steps):
        place = task.places.get(name)
        if place is None:
            raise PlanError(f"{task.node}: {name} has no place")
        if name in task.problem.writes and _is_read_only(place):
            raise PlanError(f"{task.node}: {name} is written, and {place.memory} must not be")
        end = place.offset + _size(task, recipe, name)
        if place.offset % _alignment(task, name) or not 0 <= place.offset <= end <= sizes.get(
            place.memory, -1
        ):
            raise PlanError(f"{task.node}: {name} lies outside of {place.memory}")
    return tuple(relocated(step, _in(task.places)) for step in steps)


def _alignment(task: Task, name: str) -> int:
    """Return what a place is a multiple of: more where it is not between others' channels."""
    if name in ("workspace", "packed"):
        return WORKSPACE_ALIGNMENT
    operand = task.problem.operand(name)
    is_packed = operand.span == operand.elements
    return WORKSPACE_ALIGNMENT if is_packed else int(operand.dtype.size)


def _is_empty(step: Step) -> bool:
    return isinstance(step, Fill) and not step.size


def _is_read_only(place: Place) -> bool:
    """Tell whether memory is a caller's input, or what all runs share."""
    return place.memory == CONSTANTS or place.memory.startswith("input")


def _size(task: Task, recipe: Recipe, name: str) -> int:
    if name == "workspace":
        return recipe.total_workspace if task.packs_itself else recipe.workspace
    return recipe.packed if name == "packed" else task.problem.operand(name).nbytes


def _in(places: Mapping[str, Place]) -> Any:
    def place(memory: str, offset: int) -> tuple[str, int]:
        found = places[memory]
        return found.memory, found.offset + offset

    return place
