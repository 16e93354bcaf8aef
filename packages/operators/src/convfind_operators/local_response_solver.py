"""`LocalResponseNormSolver`: squares of neighbouring channels, added anew for each element."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Launch, Step, i32, i64
from convfind_operators.launching import (
    Division,
    arguments_of,
    grid,
    has_vectors,
    kernel,
    number,
    row_sizes,
    step_class,
)
from convfind_operators.local_response import LocalResponseNormProblem
from convfind_operators.solver import OperatorSolver, walkable
from convfind_operators.walk import View, Walk


class LocalResponseNormSolver(OperatorSolver):
    """One launch."""

    family = LocalResponseNormProblem

    def countable(self, problem: LocalResponseNormProblem, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(_walk(problem)[0])

    def steps(self, problem: LocalResponseNormProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        walk, lanes_are_channels = _walk(problem)
        x, y = walk.views
        channels = problem.x[1]
        arithmetic = problem.dtype.arithmetic
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": arithmetic.upper(),
            "OUTER": len(walk.sizes) - 1,
            "X_IS": step_class(x) or 2,
            "Y_IS": step_class(y) or 2,
            "CHANNEL_LANES": lanes_are_channels,
        }
        rows = walk.rows if lanes_are_channels else walk.rows * channels
        division = Division.of(rows, 1, target, walk.length * problem.size)
        arguments = (
            *arguments_of(x),
            *arguments_of(y),
            *row_sizes(walk.sizes),
            i32(walk.length),
            i64(rows),
            i64(division.rows),
            i32(channels),
            i64(problem.operand("x").strides[1]),
            i64(problem.result.strides[1]),
            i32(problem.before),
            i32(problem.after),
            number(problem.alpha / problem.size, arithmetic),
            number(problem.beta, arithmetic),
            number(problem.bias, arithmetic),
        )
        sizes: tuple[tuple[int, ...], tuple[int, ...]] = (division.global_size, (1, 1))
        if not has_vectors(target):
            sizes = grid(rows * walk.length, target)
        spec = kernel("local_response", "operators_local_response", target, macros)
        return (Launch(spec, arguments, *sizes),)


def _walk(problem: LocalResponseNormProblem) -> tuple[Walk, bool]:
    """Return all axes but that of the channels; or all, where channels are the lanes."""
    walk = Walk(problem.x, tuple(View.of(operand) for operand in problem.operands))
    if all(view.steps[1] == 1 for view in walk.views):
        others = [axis for axis in range(len(problem.x)) if axis != 1 and problem.x[axis] != 1]
        outside = walk.along(others).merged()
        sizes = outside.sizes if outside.elements > 1 else ()
        views = tuple(
            View(view.name, view.dtype, 0, (*view.steps[: len(sizes)], 1)) for view in outside.views
        )
        return Walk((*sizes, problem.x[1]), views), True
    others = [axis for axis in range(len(problem.x)) if axis != 1]
    return walk.along(others).simplified(), False
