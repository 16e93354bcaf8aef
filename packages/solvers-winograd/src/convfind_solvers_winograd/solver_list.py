"""The solvers of the family, best first."""

from __future__ import annotations

from convfind.solver import Solver
from convfind.types import Direction
from convfind_solvers_winograd.algorithms import F4X3, F6X3
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.cpu import CpuSolver


def solvers() -> list[Solver]:
    """Return one instance of each solver, in order of preference."""
    return [
        _cpu_solver(transform, direction, channels_last=last, packs_ahead=ahead)
        for transform, ways in ((F4X3, (True, False)), (F6X3, (True,)))
        for direction in (Direction.FORWARD, Direction.BACKWARD_DATA)
        for last in (False, True)
        for ahead in ways
    ]


def _cpu_solver(
    transform: Transform, direction: Direction, *, channels_last: bool, packs_ahead: bool
) -> Solver:
    layout = "nhwc" if channels_last else "nchw"
    inline = "" if packs_ahead else "-inline"
    name = f"winograd-f{transform.m}x{transform.r}-cpu-{layout}-{direction.short}{inline}"
    cls = type(
        name,
        (CpuSolver,),
        {
            "solver_id": name,
            "direction": direction,
            "channels_last": channels_last,
            "transform": transform,
            "packs_ahead": packs_ahead,
            "__doc__": f"Fused Winograd F({transform.m}, {transform.r}), {layout}, {direction}.",
        },
    )
    solver: Solver = cls()
    return solver
