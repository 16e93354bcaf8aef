"""`ResizeSolver`: interpolation along up to three axes at once."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Argument, Launch, ScalarArg, Step, i32, i64
from convfind_operators.launching import (
    Division,
    arguments_of,
    grid,
    has_vectors,
    kernel,
    number,
    row_sizes,
)
from convfind_operators.resize import Coordinates, ResizeProblem, Rounding
from convfind_operators.solver import OperatorSolver, walkable
from convfind_operators.walk import View, Walk

_MOST_AXES, _MOST_TAPS = 3, 32
_ROUNDINGS = {
    Rounding.PREFER_FLOOR: 0,
    Rounding.PREFER_CEIL: 1,
    Rounding.FLOOR: 2,
    Rounding.CEIL: 3,
}


class ResizeSolver(OperatorSolver):
    """One launch; coordinates are in float64 where the device has it."""

    family = ResizeProblem

    def countable(self, problem: ResizeProblem, target: Target) -> Applicability:
        """Take up to three axes, and shrinking by up to a factor of 16."""
        axes = problem.axes
        if len(axes) > _MOST_AXES:
            return Rejected(Reason.SPATIAL_RANK, f"{len(axes)} axes change")
        taps = max(map(problem.taps, axes), default=1)
        if taps > _MOST_TAPS:
            return Rejected(Reason.SIZE_LIMIT, f"{taps} elements along an axis count")
        return walkable(_others(problem))

    def steps(self, problem: ResizeProblem, target: Target) -> tuple[Step, ...]:
        """One launch."""
        walk = _others(problem)
        # Without neighbours that make a vector, a work-item has one element: compilers do the rest.
        vectors = has_vectors(target) and walk.length > 1
        kind = "float64" if target.has("fp64") else "float32"
        arithmetic = problem.dtype.arithmetic
        macros: dict[str, int | str] = {
            "DTYPE": problem.dtype.upper(),
            "CF_ARITHMETIC": arithmetic.upper(),
            "COORDINATE": "double" if kind == "float64" else "float",
            "OUTER": len(walk.sizes) - 1,
            "AXES": len(problem.axes),
            "INTERPOLATION": problem.interpolation.support,
            "ROUNDING": _ROUNDINGS[problem.rounding],
            "NORMALIZED": problem.exclude_outside or problem.antialias,
            "EXCLUDED": problem.exclude_outside,
            "CROPPED": problem.coordinates is Coordinates.CROP,
        }
        positions = 1
        for resized in problem.axes:
            positions *= problem.sizes[resized.axis]
        rows = walk.rows * positions
        # Half of 32 bits for the elements, half for the work-items beyond them.
        macros["INDEX"] = "int" if rows * walk.length <= 2**30 else "CF_LONG"
        division = Division.of(rows, 1, target, walk.length * 4)
        sizes: tuple[tuple[int, ...], tuple[int, ...]] = (division.global_size, (1, 1))
        if not vectors:
            sizes = grid(rows * walk.length, target)
        arguments = (
            *(argument for view in walk.views for argument in arguments_of(view)),
            *row_sizes(walk.sizes),
            i32(walk.length),
            *_axes(problem, kind),
            i64(rows),
            i64(division.rows),
            ScalarArg(problem.cubic, kind),
            number(problem.outside, arithmetic),
        )
        spec = kernel("resize", "operators_resize", target, macros, scalar=not vectors)
        return (Launch(spec, arguments, *sizes),)


def _others(problem: ResizeProblem) -> Walk:
    """Return the axes that do not change; the last has neighbours in both, or one element."""
    changed = {resized.axis for resized in problem.axes}
    rest = [axis for axis in range(len(problem.x)) if axis not in changed]
    views = tuple(View.of(operand) for operand in problem.operands)
    walk = Walk(problem.sizes, views).along(rest).simplified()
    if all(view.steps[-1] == 1 for view in walk.views):
        return walk
    with_lane = (View(view.name, view.dtype, view.start, (*view.steps, 1)) for view in walk.views)
    return Walk((*walk.sizes, 1), tuple(with_lane))


def _axes(problem: ResizeProblem, kind: str) -> tuple[Argument, ...]:
    """Return the arguments of ``AXIS`` for three axes; those that are missing have one element."""
    x, y = problem.operands
    arguments: list[Argument] = []
    for _ in range(_MOST_AXES - len(problem.axes)):
        arguments += [i32(1), i32(1), i64(0), i64(0)]
        arguments += [ScalarArg(value, kind) for value in (0.0, 0.0, 1.0, 0.0, 1.0)]
    for resized in problem.axes:
        at = resized.axis
        arguments += [i32(resized.size), i32(y.shape[at]), i64(x.strides[at]), i64(y.strides[at])]
        numbers = (resized.shift, resized.factor, resized.divisor, resized.offset)
        arguments += [ScalarArg(value, kind) for value in (*numbers, resized.narrowing)]
    return tuple(arguments)
