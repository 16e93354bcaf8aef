"""One channel a group and stride 1 on GPUs, channels first: small planes as a whole."""

from __future__ import annotations

import math

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32
from convfind.target import Target
from convfind_solvers_direct.gpu_conv import PACKAGE, GpuDirect
from convfind_solvers_direct.gpu_lines import MOST_FLOATS, judge_walk
from convfind_solvers_direct.gpu_wide import copies_past_registers, zeros_before
from convfind_solvers_direct.window import Window, window

#: Rows, and columns, of the largest planes.
_LARGEST = 16
#: Registers of an item for sums, values and weights.
_MOST_REGISTERS = 190
#: Planes up to this width have one item each.
_NARROW = 8
#: Planes that the kernel counts in 32 bits.
_MOST_PLANES = 2**28
ITEMS = Parameter("items", (32, 64, 128, 256), "of a work-group")
COLUMNS = Parameter("columns", (2, 4, 7, 8, 14), "columns of an item")


class WholeConv(GpuDirect):
    """Forward and backward-data.

    A work-group copies neighbouring planes as they lie in memory, all at once. Each item walks down
    the rows of some columns of one; with one item a plane the results take the source's place, and
    the work-group copies them away. The sizes of a plane are compiled in.
    """

    channels_last = False
    prefix = "direct-gpu-whole"
    version = 1
    arithmetic_share = 0.38
    is_dynamic = False

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Whole narrow rows, else two columns; small work-groups."""
        width = window(problem).size[1]
        wanted, usual = (width, 64) if width <= _NARROW else (2, 128)

        def distance(config: Config) -> tuple[int, int]:
            items, columns = config.integer("items"), config.integer("columns")
            return abs(columns - wanted), abs(items - usual)

        return min(self.search_space(problem, target), key=distance)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Columns and work-groups."""
        shape = window(problem)
        return SearchSpace(
            (ITEMS, COLUMNS),
            (
                Constraint(
                    "tile",
                    lambda config: _is_legal(shape, target, config),
                    "it has to fit rows, work-group, registers and local memory",
                ),
            ),
        )

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch, no workspace."""
        shape = window(problem)
        chosen = config or self.default_config(problem, target)
        items, columns = chosen.integer("items"), chosen.integer("columns")
        lanes = shape.size[1] // columns
        above, before = zeros_before(shape)
        macros = {
            **shape.macros,
            "BEFORE": before,
            "ABOVE": above,
            "HEIGHT": shape.size[0],
            "ITEMS": items,
            "COLUMNS": columns,
            "LANES": lanes,
            # Floats that lie aligned where every item's columns begin.
            "VECTOR": math.gcd(columns, 4),
            "ASYNC": copies_past_registers(target),
        }
        program = Program(
            KernelSource(PACKAGE, "kernels/gpu_whole.cl"), defines=make_defines(macros)
        )
        planes = shape.images * shape.groups
        launch = Launch(
            KernelSpec(program, "direct_gpu_whole"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.W),
                BufferArg(shape.result),
                f32(problem.alpha),
                f32(problem.beta),
                i32(planes),
                i32(shape.groups),
            ),
            (-(-planes // (items // lanes)) * items,),
            (items,),
        )
        return ConvSolution(self.solver_id, (launch,), config=chosen)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if not (answer := judge_walk(problem, shape, target)):
            return answer
        if min(zeros_before(shape)) < 0 or shape.size != shape.out:
            return Rejected(Reason.PADDING, "source and result must be equally large")
        if max(shape.size) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"planes beyond {_LARGEST} x {_LARGEST}")
        if shape.images * shape.groups > _MOST_PLANES:
            return Rejected(Reason.SIZE_LIMIT, f"more than {_MOST_PLANES} planes")
        if next(iter(self.search_space(problem, target)), None) is None:
            return Rejected(Reason.SIZE_LIMIT, f"rows of {shape.size[1]} do not fit the items")
        return APPLICABLE


def _is_legal(shape: Window, target: Target, config: Config) -> bool:
    items, columns = config.integer("items"), config.integer("columns")
    width, plane = shape.size[1], math.prod(shape.size)
    if width % columns or items > target.max_work_group:
        return False
    floats = items // (width // columns) * plane
    registers = math.prod(shape.taps) + (shape.taps[0] + 1) * columns + shape.taps[1]
    # Work-groups begin at whole fours.
    return floats % 4 == 0 and floats <= MOST_FLOATS and registers <= _MOST_REGISTERS
