"""`ResizeSolver`: interpolation along up to three axes at once."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Argument, Launch, ScalarArg, Step, i32, i64
from convfind_operators.element_type import ElementType
from convfind_operators.launching import (
    Division,
    arguments_of,
    grid,
    has_vectors,
    index_type,
    kernel,
    neighbours,
    number,
    row_sizes,
    streamed,
)
from convfind_operators.resize import Coordinates, ResizeProblem, Rounding
from convfind_operators.solver import OperatorSolver, walkable
from convfind_operators.walk import View, Walk

_MOST_AXES, _MOST_TAPS = 3, 32
#: Rows that share weights at most, if so many work-items are left for a core.
_MOST_ROWS, _ITEMS_PER_UNIT = 64, 4096
#: Elements that a work-item of a GPU loads before it stores the first that is made of them.
_AT_ONCE = 32
#: Columns of y that CPUs compute at a time, and of x in private memory, some of them beside those.
_CHUNK, _BUFFER, _BESIDE = 256, 4096, 16
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
        if has_vectors(target) and problem.axes:
            if walk.length > 1:
                return (_lanes(problem, walk, target),)
            if _has_columns(problem):
                return (_rows(problem, walk, target),)
        kind, arithmetic = _coordinate(target), problem.dtype.arithmetic
        macros = _macros(problem, walk, target)
        positions = math.prod(problem.sizes[resized.axis] for resized in problem.axes)
        four = _neighbours(problem, walk) if arithmetic is ElementType.FLOAT32 else 1
        macros |= {"FOUR": four, "WHOLE": not walk.length % four, "SINGLE": walk.length == 1}
        lanes = -(-walk.length // four)
        share = _share(positions * lanes, walk.rows, target)
        if not has_vectors(target):
            at_once = math.prod(map(problem.taps, problem.axes)) * four
            # Not more than there are, which would be read again; of few numbers, for few programs.
            macros["PARTS"] = max(min(_AT_ONCE // at_once, 1 << (share.bit_length() - 1)), 1)
        every = positions * lanes * -(-walk.rows // share)
        macros["INDEX"] = index_type(every)
        arguments = (
            *(argument for view in walk.views for argument in arguments_of(view)),
            *row_sizes(walk.sizes),
            i32(walk.length),
            *_axes(problem, kind),
            i64(every),
            i32(walk.rows),
            i32(share),
            ScalarArg(problem.cubic, kind),
            number(problem.outside, arithmetic),
        )
        spec = kernel("resize", "operators_resize", target, macros, scalar=True)
        return (Launch(spec, arguments, *grid(every, target)),)


def _macros(problem: ResizeProblem, walk: Walk, target: Target) -> dict[str, int | str]:
    return {
        "DTYPE": problem.dtype.upper(),
        "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
        "COORDINATE": "double" if _coordinate(target) == "float64" else "float",
        "OUTER": len(walk.sizes) - 1,
        "AXES": len(problem.axes),
        **_taps(problem),
        "INTERPOLATION": problem.interpolation.support,
        "ROUNDING": _ROUNDINGS[problem.rounding],
        "NORMALIZED": problem.exclude_outside or problem.antialias,
        "EXCLUDED": problem.exclude_outside,
        "CROPPED": problem.coordinates is Coordinates.CROP,
        **streamed(problem.result.dtype, problem.result.elements, target),
    }


def _coordinate(target: Target) -> str:
    """Return the type of coordinates."""
    return "float64" if target.has("fp64") else "float32"


def _has_columns(problem: ResizeProblem) -> bool:
    """Whether the last axis that changes is that of neighbours, and a row of it fits a buffer."""
    if not problem.axes or problem.coordinates is Coordinates.CROP:
        return False
    axis, (x, y) = problem.axes[-1], problem.operands
    span = min(axis.size, math.ceil(_CHUNK * axis.factor / axis.divisor) + _BESIDE)
    is_last = x.strides[axis.axis] == y.strides[axis.axis] == 1
    return is_last and problem.taps(axis) <= _BESIDE // 2 and span <= _BUFFER


def _rows(problem: ResizeProblem, walk: Walk, target: Target) -> Launch:
    """One row of y after the other."""
    *others, columns = problem.axes
    rows = walk.rows * math.prod(problem.sizes[axis.axis] for axis in others)
    width = problem.sizes[columns.axis]
    is_doubled = (
        (columns.factor, columns.divisor, width) == (1, 2, 2 * columns.size)
        and (columns.shift, columns.offset) in ((0.5, -0.5), (0.0, 0.0))
        and not problem.exclude_outside
    )
    division = Division.of(rows, 1, target, width * 4)
    kind = _coordinate(target)
    arguments = (
        *(argument for view in walk.views for argument in arguments_of(view)),
        *row_sizes(walk.sizes),
        *_axes(problem, kind),
        i64(rows),
        i64(division.rows),
        ScalarArg(problem.cubic, kind),
    )
    macros = {**_macros(problem, walk, target), "DOUBLED": is_doubled}
    spec = kernel("resize_rows", "operators_resize_rows", target, macros)
    return Launch(spec, arguments, division.global_size, (1, 1))


def _lanes(problem: ResizeProblem, walk: Walk, target: Target) -> Launch:
    """One row of y after the other, whose columns are vectors of lanes."""
    *others, columns = problem.axes
    rows = walk.rows * math.prod(problem.sizes[axis.axis] for axis in others)
    division = Division.of(rows, problem.sizes[columns.axis], target, walk.length * 4)
    kind = _coordinate(target)
    arguments = (
        *(argument for view in walk.views for argument in arguments_of(view)),
        *row_sizes(walk.sizes),
        i32(walk.length),
        *_axes(problem, kind),
        *map(i64, (rows, division.rows, division.columns)),
        ScalarArg(problem.cubic, kind),
        number(problem.outside, problem.dtype.arithmetic),
    )
    macros = _macros(problem, walk, target)
    spec = kernel("resize_lanes", "operators_resize_lanes", target, macros)
    return Launch(spec, arguments, division.global_size, (1, 1))


def _taps(problem: ResizeProblem) -> dict[str, int]:
    """Return the macros of three axes that say how many elements count along each."""
    taps = [1] * (_MOST_AXES - len(problem.axes)) + list(map(problem.taps, problem.axes))
    return {f"TAPS_{axis}": count for axis, count in zip("DHW", taps, strict=True)}


def _share(places: int, rows: int, target: Target) -> int:
    """Return for how many rows a work-item computes the weights of a place once."""
    spare = places * rows // (_ITEMS_PER_UNIT * max(target.compute_units, 1))
    return max(min(spare, rows, _MOST_ROWS), 1)


def _neighbours(problem: ResizeProblem, walk: Walk) -> int:
    """Return how many lanes come at a time on GPUs, wherever along the resized axes they lie."""
    four = neighbours(walk)
    steps = [one.strides[axis.axis] for one in problem.operands for axis in problem.axes]
    return next(
        count for count in (four, 4, 1) if count <= four and not any(s % count for s in steps)
    )


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
