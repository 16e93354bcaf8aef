"""`LineSolver`: reductions, softmax and norms, in one launch, or in two where lines are few."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Step
from convfind_operators.channel_groups import ChannelGroups
from convfind_operators.element_type import ElementType
from convfind_operators.launching import GROUP, has_vectors
from convfind_operators.line_launch import BUSY, LANES, columns_of, line_launch
from convfind_operators.lines import MOST_MORE, Lines, LineWalk
from convfind_operators.normalization import GroupNormProblem
from convfind_operators.shared_channel_groups import SharedChannelGroups
from convfind_operators.slabs import STAGES, Slabs
from convfind_operators.solver import OperatorSolver, Planned, walkable

#: Work-items that a core of a CPU has so that none waits.
_SHARED_OUT = 4
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
        shared = SharedChannelGroups.of(problem, target)
        if shared is not None and (limit is None or shared.nbytes <= limit):
            return shared.launches(target), shared.nbytes
    walk, arithmetic = problem.walk, problem.dtype.arithmetic
    stages = STAGES.get(problem.operation)
    count = 1 if stages is None else _slab_count(problem.operation, walk, arithmetic, target)
    slabs = Slabs.of(walk, count, arithmetic) if count > 1 else None
    if stages is None or slabs is None or (limit is not None and slabs.nbytes > limit):
        return (line_launch(problem, problem.operation, walk, target),), 0
    launches = [line_launch(problem, stages[0], part, target) for part in slabs.parts]
    return (*launches, line_launch(problem, stages[1], slabs.last, target)), slabs.nbytes


def _slab_count(operation: str, walk: LineWalk, arithmetic: ElementType, target: Target) -> int:
    """Return in how many slabs lines are to be divided so that all cores have work."""
    columns = columns_of(operation, walk, arithmetic, target)
    if columns is not None:
        return columns.slabs(walk, target)
    rows, length = walk.rows.rows, walk.rows.length
    line = walk.more.elements * (length if walk.along else 1)
    if has_vectors(target):
        items = rows if walk.along else rows * -(-length // LANES)
        wanted, least = _SHARED_OUT * target.compute_units, _LEAST_CORE_SLAB
        if not walk.along:
            least = max(least // max(min(length, LANES), 1), _LEAST_SLAB)
        if target.compute_units == 1:
            return 1
    elif walk.along:
        items, wanted = rows * GROUP, BUSY * target.compute_units
        least = _LEAST_GROUP_SLAB
    else:
        items, wanted, least = rows * length, BUSY * target.compute_units, _LEAST_SLAB
    return max(min(-(-wanted // items), line // least), 1)
