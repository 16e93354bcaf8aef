"""`LineSolver`: reductions, softmax and norms: a pass over a line for each number that it needs."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Argument, Launch, Step, i32, i64
from convfind_operators.launching import (
    GROUP,
    Division,
    arguments_of,
    grid,
    has_vectors,
    kernel,
    number,
    row_sizes,
    step_class,
)
from convfind_operators.lines import MOST_MORE, Lines
from convfind_operators.solver import OperatorSolver, walkable

#: Work-items of the smallest group on GPUs.
_LEAST_GROUP = 32
#: Work-groups of a launch, which loop over what is beyond them.
_MOST_GROUPS = 2**20


class LineSolver(OperatorSolver):
    """One launch; a line is read once for each number that its results need, and once for them."""

    family = Lines

    def countable(self, problem: Lines, target: Target) -> Applicability:
        """Take what kernels can count."""
        walk = problem.walk
        if len(walk.more.sizes) > MOST_MORE:
            return Rejected(Reason.SIZE_LIMIT, f"lines along {len(walk.more.sizes) + 1} axes")
        return walkable(walk.rows)

    def steps(self, problem: Lines, target: Target) -> tuple[Step, ...]:
        """One launch."""
        return line_steps(problem, target)


def line_steps(problem: Lines, target: Target) -> tuple[Step, ...]:
    """Return the only launch for lines."""
    walk, vectors = problem.walk, has_vectors(target)
    arithmetic = problem.dtype.arithmetic
    x, *others, y = walk.rows.views
    group = min(GROUP, 1 << (target.max_work_group.bit_length() - 1))
    macros: dict[str, int | str] = {
        "OPERATION": problem.operation,
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
    if not vectors:
        whole = walk.more.elements * walk.rows.length if walk.along else group
        # Work-items beyond the elements of a line would only wait.
        group = min(group, max(_LEAST_GROUP, 1 << (whole - 1).bit_length()))
        macros["GROUP"] = group
        macros["FLAT"] = walk.along and walk.rows.length < group and whole < 2**31
    arguments: list[Argument] = []
    for at, view in enumerate(walk.rows.views):
        arguments += [*arguments_of(view), *map(i64, walk.more_steps(at))]
    rows, length = walk.rows.rows, walk.rows.length
    line = walk.more.elements
    if walk.along:
        division = Division.of(rows, 1, target, line * length)
    else:
        division = Division.of(rows, length, target, line)
    arguments += [
        *row_sizes(walk.rows.sizes),
        i32(length),
        *map(i32, walk.more_sizes),
        i64(rows),
        i64(division.rows),
        i64(division.columns),
        number(problem.epsilon_of_lines, arithmetic),
    ]
    if vectors:
        sizes: tuple[tuple[int, ...], tuple[int, ...]] = (division.global_size, (1, 1))
    elif walk.along:
        sizes = (min(rows, _MOST_GROUPS) * group,), (group,)
    else:
        sizes = grid(rows * length, target)
    spec = kernel("lines", "operators_lines", target, macros)
    return (Launch(spec, tuple(arguments), *sizes),)
