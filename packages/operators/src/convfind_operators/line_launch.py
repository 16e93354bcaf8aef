"""`line_launch`: a launch that reduces or normalises lines, by the best kernel for them."""

from __future__ import annotations

from dataclasses import dataclass

from convfind.device.target import Target
from convfind.solver.recipe import Argument, Launch, i32, i64
from convfind_operators.columns import Columns
from convfind_operators.element_type import ElementType
from convfind_operators.launching import (
    GROUP,
    IN_FOURS,
    Division,
    activated,
    arguments_of,
    grid,
    has_vectors,
    kernel,
    neighbours,
    number,
    row_sizes,
    step_class,
    streamed,
)
from convfind_operators.lines import Lines, LineWalk
from convfind_operators.walk import View

#: Work-items of the smallest group on GPUs.
_LEAST_GROUP = 32
#: Work-groups of a launch, which loop over what is beyond them.
_MOST_GROUPS = 2**20
#: Numbers of a line that a work-item of a GPU holds in registers: of one that its team shares, of a
#: long one, whose team is a group, and of one that it has for itself.
_MOST_HELD, _MOST_HELD_OF_LONG, _MOST_HELD_ALONE = 16, 64, 64
#: Lines of so many more elements have the same program.
_HELD_BY = 8
#: Elements of a long line, for which a group is as large as it may be.
_LONG, _LARGEST_GROUP = 2**14, 512
#: Lanes that CPUs reduce at a time; numbers in private memory, and lanes of lines that are there.
LANES, _LEAST_TILE, _TILE, _LANES_OF_TILE = 4096, 2048, 8192, 32
#: Work-items that a core of a GPU has so that memory is busy.
BUSY = 2048

_Macros = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class _Way:
    """A kernel for lines: its file, its own macros, the work-items of a launch and of a group."""

    file: str
    macros: _Macros
    sizes: tuple[tuple[int, ...], tuple[int, ...]]


def line_launch(problem: Lines, operation: str, walk: LineWalk, target: Target) -> Launch:
    """Return the launch for a walk along lines of a problem."""
    _, *others, _ = walk.rows.views
    rows, length, line = walk.rows.rows, walk.rows.length, walk.more.elements
    if walk.along:
        division = Division.of(rows, 1, target, line * length)
    else:
        division = Division.of(rows, length, target, line)
    way = (_on_cpu if has_vectors(target) else _on_gpu)(problem, operation, walk, target, division)
    arithmetic = problem.dtype.arithmetic
    applied, numbers = activated(problem.activation_of_lines, arithmetic)
    macros = {**_common_macros(problem, operation, walk), **way.macros, **applied}
    for view, (is_there, steps) in zip(
        others, (("SCALED", "SCALE_IS"), ("SHIFTED", "BIAS_IS")), strict=False
    ):
        macros |= {is_there: 1, steps: step_class(view)}
    arguments: list[Argument] = []
    for at, view in enumerate(walk.rows.views):
        arguments += [*arguments_of(view), *map(i64, walk.more_steps(at))]
    arguments += [
        *row_sizes(walk.rows.sizes),
        i32(length),
        *map(i32, walk.more_sizes),
        i64(rows),
        i64(division.rows),
        i64(division.columns),
        number(problem.elements_of_line, arithmetic),
        number(problem.epsilon_of_lines, arithmetic),
        *numbers,
    ]
    spec = kernel(way.file, f"operators_{way.file}", target, macros)
    return Launch(spec, tuple(arguments), *way.sizes)


def columns_of(
    operation: str, walk: LineWalk, arithmetic: ElementType, target: Target
) -> Columns | None:
    """Return how work-groups of a GPU share neighbouring lines, where these are few."""
    is_busy = walk.rows.elements >= BUSY * target.compute_units
    is_read_twice = operation == "LOG_SUM_EXP"
    if has_vectors(target) or walk.along or is_busy or is_read_twice:
        return None
    return Columns.of(walk, arithmetic, target)


def _common_macros(problem: Lines, operation: str, walk: LineWalk) -> _Macros:
    macros: _Macros = {
        "OPERATION": operation,
        "ALONG": walk.along,
        "OUTER": len(walk.rows.sizes) - 1,
        "CF_ARITHMETIC": problem.dtype.arithmetic.upper(),
        "X_TYPE": walk.rows.views[0].dtype.upper(),
        "Y_TYPE": walk.rows.views[-1].dtype.upper(),
    }
    return macros | {"LINES": 1} if problem.gives_lines else macros


def _steps(walk: LineWalk) -> _Macros:
    """Return macros: how elements of x and of y lie."""
    x, *_, y = walk.rows.views
    return {"X_IS": step_class(x) or 2, "Y_IS": step_class(y) or 2}


def _on_cpu(
    problem: Lines, operation: str, walk: LineWalk, target: Target, division: Division
) -> _Way:
    length, line = walk.rows.length, walk.more.elements
    macros: _Macros = {}
    if problem.gives_lines and problem.dtype.arithmetic is ElementType.FLOAT32:
        elements = walk.rows.rows * length * line
        macros |= streamed(walk.rows.views[-1].dtype, elements, target)
    sizes = division.global_size, (1, 1)
    if not _has_neighbours(problem, operation, walk):
        return _Way("lines", macros | _steps(walk), sizes)
    if not problem.gives_lines:
        macros |= {"STRIP": LANES, "MORE_AXES": len(walk.more.sizes)}
        return _Way("reduction_streams", macros, sizes)
    if not walk.along:
        macros["TILE"] = max(_power_of_two(line) * _LANES_OF_TILE, _LEAST_TILE)
    elif line == 1 and length <= _TILE:
        macros["TILE"] = _TILE
    return _Way("lines_overlapped", macros, sizes)


def _on_gpu(
    problem: Lines, operation: str, walk: LineWalk, target: Target, division: Division
) -> _Way:
    arithmetic, gives_lines = problem.dtype.arithmetic, problem.gives_lines
    rows, length, line = walk.rows.rows, walk.rows.length, walk.more.elements
    macros, more_axes = _steps(walk), len(walk.more.sizes)
    if walk.along:
        team = _team(walk, arithmetic, target, gives_lines=gives_lines)
        group = int(team["GROUP"])
        groups = -(-rows // (group // int(team["TEAM"])))
        return _Way("lines", macros | team, ((min(groups, _MOST_GROUPS) * group,), (group,)))
    columns = None if gives_lines else columns_of(operation, walk, arithmetic, target)
    if columns is not None:
        group = columns.group
        macros |= {"GROUP": group, "SIDE": columns.side, "FOUR": columns.four}
        macros["MORE_AXES"] = more_axes
        sizes = (min(columns.groups, _MOST_GROUPS) * group,), (group,)
        return _Way("reduction_columns", macros, sizes)
    if gives_lines and arithmetic is ElementType.FLOAT32 and line <= _MOST_HELD_ALONE:
        held = -(-line // _HELD_BY) * _HELD_BY
        macros |= {"TEAM": 1, "HELD": held, "WHOLE": held == line, "MORE_AXES": more_axes}
    return _Way("lines", macros, grid(rows * length, target))


def _has_neighbours(problem: Lines, operation: str, walk: LineWalk) -> bool:
    """Return whether CPUs take lines in streams, or some while they write others."""
    if problem.gives_lines:
        numbers = walk.more.elements * _LANES_OF_TILE * problem.dtype.arithmetic.size
        is_possible = walk.along or numbers <= _TILE * ElementType.FLOAT32.size
    else:
        is_possible = operation != "LOG_SUM_EXP"  # which reads twice
    results = walk.rows.views[-1].steps[-1]
    are_numbers = walk.along and not problem.gives_lines
    return is_possible and walk.rows.views[0].steps[-1] == 1 and (are_numbers or results == 1)


def _team(walk: LineWalk, arithmetic: ElementType, target: Target, *, gives_lines: bool) -> _Macros:
    """Return macros: how many work-items of a GPU share a line, and what they hold of it."""
    rows, length, line = walk.rows.rows, walk.rows.length, walk.more.elements
    group = min(GROUP, 1 << (target.max_work_group.bit_length() - 1))
    x, y = walk.rows.views[0], walk.rows.views[-1]
    are_vectors = x.steps[-1] == 1 and y.steps[-1] in (0, 1)
    is_float = arithmetic is ElementType.FLOAT32
    four = neighbours(walk.rows) if is_float and are_vectors else 1
    pieces = -(-length // four)
    if line == 1 and pieces <= group * (_MOST_HELD // four):
        widest = min(group, _power_of_two(pieces))
        team = _power_of_two(-(-pieces // (_MOST_HELD // four)))
        while team < widest and rows * team < BUSY * target.compute_units:
            team *= 2
        held = -(-pieces // team)
        is_whole = length == held * team * four
        return {
            "GROUP": group,
            "TEAM": team,
            "HELD": held,
            "FOUR": four,
            "WHOLE": is_whole,
            "MORE_AXES": 0,
        }
    whole = line * length
    # Views with one number for all lanes are not loaded in fours.
    pairs = zip(walk.rows.views, walk.more.views, strict=True)
    moving = tuple(more for row, more in pairs if row.steps[-1])
    is_in_fours = four > 1 and not length % four and not _are_crooked(moving, four)
    four = four if is_in_fours else 1
    largest = _power_of_two(target.max_work_group + 1) // 2
    if gives_lines and is_float and whole <= largest * _MOST_HELD_OF_LONG:
        widest = min(largest, GROUP, max(_LEAST_GROUP, _power_of_two(whole // four)))
        group = max(_power_of_two(-(-whole // _MOST_HELD_OF_LONG)), widest)
        held = -(-whole // (group * four))
        return {
            "GROUP": group,
            "TEAM": group,
            "HELD": held,
            "FOUR": four,
            "WHOLE": whole == held * group * four,
            "MORE_AXES": len(walk.more.sizes) if line > 1 else 0,
        }
    # Work-items beyond the elements of a line would only wait. Where more of them share a long one,
    # fewer lines are at work, which the cache then holds until they are read again.
    widest = _LARGEST_GROUP if whole >= _LONG else GROUP
    group = min(largest, widest, max(_LEAST_GROUP, _power_of_two(whole)))
    return {
        "GROUP": group,
        "TEAM": group,
        "FLAT": length < group and whole < 2**31,
        "FOUR": four,
        "MORE_AXES": len(walk.more.sizes),
    }


def _are_crooked(views: tuple[View, ...], four: int) -> bool:
    """Return whether loads of so many elements do not begin at multiples everywhere along axes."""
    steps = (step for view in views for step in view.steps)
    return any(view.dtype not in IN_FOURS for view in views) or any(step % four for step in steps)


def _power_of_two(count: int) -> int:
    """Return the smallest power of two from a number on."""
    return 1 << (count - 1).bit_length()
