"""`LineSolver`: reductions, softmax and norms, in one launch, or in two where lines are few."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Argument, Launch, Step, i32, i64
from convfind_operators.channel_groups import ChannelGroups
from convfind_operators.columns import Columns
from convfind_operators.element_type import ElementType
from convfind_operators.launching import (
    GROUP,
    IN_FOURS,
    Division,
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
from convfind_operators.lines import MOST_MORE, Lines, LineWalk
from convfind_operators.normalization import GroupNormProblem
from convfind_operators.slabs import STAGES, Slabs
from convfind_operators.solver import OperatorSolver, Planned, walkable
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
_LANES, _LEAST_TILE, _TILE, _LANES_OF_TILE = 4096, 2048, 8192, 32
#: Work-items that a core has: on GPUs so that memory is busy, on CPUs so that no core waits.
_BUSY, _SHARED_OUT = 2048, 4
#: Elements of a slab that are worth a number in memory: of a work-item, a group, a CPU's core.
_LEAST_SLAB, _LEAST_GROUP_SLAB, _LEAST_CORE_SLAB = 64, 4096, 2**15


class LineSolver(OperatorSolver):
    """One launch, or two.

    A line is read once for each number that its results need, and once for them; on GPUs one that
    registers can hold is read once.
    """

    family = Lines

    def countable(self, problem: Lines, target: Target) -> Applicability:
        """Take what kernels can count."""
        walk = problem.walk
        if len(walk.more.sizes) > MOST_MORE:
            return Rejected(Reason.SIZE_LIMIT, f"lines along {len(walk.more.sizes) + 1} axes")
        return walkable(walk.rows)

    def planned(self, problem: Lines, target: Target, limit: int | None) -> Planned:
        """Return the launches, and what lies between two of them."""
        return lines_planned(problem, target, limit)

    def steps(self, problem: Lines, target: Target) -> tuple[Step, ...]:
        """One launch."""
        return lines_planned(problem, target, 0)[0]


def lines_planned(problem: Lines, target: Target, limit: int | None) -> Planned:
    """Return the launches for lines: two, of slabs and of their results, where one is too few."""
    if isinstance(problem, GroupNormProblem):
        groups = ChannelGroups.of(problem, target)
        if groups is not None:
            return (groups.launch(target),), 0
    walk, arithmetic = problem.walk, problem.dtype.arithmetic
    stages = STAGES.get(problem.operation)
    count = 1 if stages is None else _slab_count(problem.operation, walk, arithmetic, target)
    slabs = Slabs.of(walk, count, arithmetic) if count > 1 else None
    if stages is None or slabs is None or (limit is not None and slabs.nbytes > limit):
        return (_launch(problem, problem.operation, walk, target),), 0
    launches = [_launch(problem, stages[0], part, target) for part in slabs.parts]
    return (*launches, _launch(problem, stages[1], slabs.last, target)), slabs.nbytes


def _columns(
    operation: str, walk: LineWalk, arithmetic: ElementType, target: Target
) -> Columns | None:
    """Return how work-groups of a GPU share neighbouring lines, where these are few."""
    is_busy = walk.rows.elements >= _BUSY * target.compute_units
    is_read_twice = operation == "LOG_SUM_EXP"
    if has_vectors(target) or walk.along or is_busy or is_read_twice:
        return None
    return Columns.of(walk, arithmetic, target)


def _slab_count(operation: str, walk: LineWalk, arithmetic: ElementType, target: Target) -> int:
    """Return in how many slabs lines are to be divided so that all cores have work."""
    columns = _columns(operation, walk, arithmetic, target)
    if columns is not None:
        return columns.slabs(walk, target)
    rows, length = walk.rows.rows, walk.rows.length
    line = walk.more.elements * (length if walk.along else 1)
    if has_vectors(target):
        items = rows if walk.along else rows * -(-length // _LANES)
        wanted, least = _SHARED_OUT * target.compute_units, _LEAST_CORE_SLAB
        if not walk.along:
            least = max(least // max(min(length, _LANES), 1), _LEAST_SLAB)
        if target.compute_units == 1:
            return 1
    elif walk.along:
        items, wanted = rows * GROUP, _BUSY * target.compute_units
        least = _LEAST_GROUP_SLAB
    else:
        items, wanted, least = rows * length, _BUSY * target.compute_units, _LEAST_SLAB
    return max(min(-(-wanted // items), line // least), 1)


def _launch(problem: Lines, operation: str, walk: LineWalk, target: Target) -> Launch:
    vectors, arithmetic = has_vectors(target), problem.dtype.arithmetic
    are_numbers = not problem.gives_lines
    shared = _columns(operation, walk, arithmetic, target) if are_numbers else None
    file = "lines"
    x, *others, y = walk.rows.views
    rows, length = walk.rows.rows, walk.rows.length
    line = walk.more.elements
    whole = line * (length if walk.along else 1)
    macros: dict[str, int | str] = {
        "OPERATION": operation,
        "ALONG": walk.along,
        "OUTER": len(walk.rows.sizes) - 1,
        "CF_ARITHMETIC": arithmetic.upper(),
        "X_TYPE": x.dtype.upper(),
        "X_IS": step_class(x) or 2,
        "Y_TYPE": y.dtype.upper(),
        "Y_IS": step_class(y) or 2,
    }
    if problem.gives_lines:
        macros["LINES"] = 1
    for view, word in zip(others, ("SCALE", "BIAS"), strict=False):
        macros["SCALED" if word == "SCALE" else "SHIFTED"] = 1
        macros[f"{word}_IS"] = step_class(view)
    if walk.along:
        division = Division.of(rows, 1, target, whole)
    else:
        division = Division.of(rows, length, target, line)
    if vectors:
        sizes: tuple[tuple[int, ...], tuple[int, ...]] = (division.global_size, (1, 1))
        if problem.gives_lines and arithmetic is ElementType.FLOAT32:
            macros |= streamed(y.dtype, rows * length * line, target)
    elif walk.along:
        team = _team(walk, arithmetic, target, gives_lines=problem.gives_lines)
        macros |= team
        group = int(team["GROUP"])
        teams = group // int(team["TEAM"])
        sizes = (min(-(-rows // teams), _MOST_GROUPS) * group,), (group,)
    elif shared is not None:
        file = "reduction_columns"
        macros |= {"GROUP": shared.group, "SIDE": shared.side, "FOUR": shared.four}
        macros |= {"MORE_AXES": len(walk.more.sizes)}
        sizes = (min(shared.groups, _MOST_GROUPS) * shared.group,), (shared.group,)
    else:
        if problem.gives_lines and arithmetic is ElementType.FLOAT32 and line <= _MOST_HELD_ALONE:
            held = -(-line // _HELD_BY) * _HELD_BY
            more_axes = len(walk.more.sizes)
            macros |= {"TEAM": 1, "HELD": held, "WHOLE": held == line, "MORE_AXES": more_axes}
        sizes = grid(rows * length, target)
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
    ]
    if vectors and _has_neighbours(problem, operation, walk):
        file = "lines_overlapped" if problem.gives_lines else "reduction_streams"
        macros = {word: value for word, value in macros.items() if word not in ("X_IS", "Y_IS")}
        if not problem.gives_lines:
            macros |= {"STRIP": _LANES, "MORE_AXES": len(walk.more.sizes)}
        elif not walk.along:
            macros["TILE"] = max(_power_of_two(line) * _LANES_OF_TILE, _LEAST_TILE)
        elif line == 1 and length <= _TILE:
            macros["TILE"] = _TILE
    return Launch(kernel(file, f"operators_{file}", target, macros), tuple(arguments), *sizes)


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


def _team(
    walk: LineWalk, arithmetic: ElementType, target: Target, *, gives_lines: bool
) -> dict[str, int | str]:
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
        while team < widest and rows * team < _BUSY * target.compute_units:
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
