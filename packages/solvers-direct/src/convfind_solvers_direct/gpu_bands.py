"""One channel a group and stride 1 on GPUs, channels first: bands of rows of small planes."""

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
from convfind_solvers_direct.gpu_lines import MOST_FLOATS, judge_rows
from convfind_solvers_direct.gpu_wide import copies_past_registers, zeros_before
from convfind_solvers_direct.window import Window, window

#: Registers of an item for sums, a row of values and weights, and its multiply-adds, all of them
#: straight code; where hiprtc compiles, which spills sooner, fewer.
_MOST_REGISTERS, _LONGEST_CODE = 150, 2800
_MOST_REGISTERS_HIP, _LONGEST_CODE_HIP = 100, 1400
#: Rows, and columns, of the largest planes.
_LARGEST = 31
#: Planes that the kernel counts in 32 bits.
_MOST_PLANES = 2**28
#: Rows of so many floats begin in the same banks of local memory.
_BANKS = 16
#: Results of an item, by whether the filter is small: with more, registers leave room for fewer
#: items, and with fewer more of what is read is read twice.
_USUAL_RESULTS = {True: 32, False: 49}
_SMALL_TAPS = 9
ITEMS = Parameter("items", (32, 64, 128, 256), "of a work-group")
ROWS = Parameter("rows", (1, 2, 3, 4, 5, 7, 8), "rows of an item")


class BandsConv(GpuDirect):
    """Forward and backward-data.

    A work-group copies neighbouring planes as they lie in memory, all at once. Each item has some
    rows of one in registers; the results take the source's place, and the work-group copies them
    away. The sizes of a plane are compiled in.
    """

    channels_last = False
    prefix = "direct-gpu-bands"
    version = 1
    arithmetic_share = 0.47
    is_dynamic = False

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Two waves, and few results an item; odd rows where even ones meet in memory banks."""
        shape, items = window(problem), min(64, target.max_work_group)
        width, is_small = shape.size[1], math.prod(shape.taps) <= _SMALL_TAPS
        wanted = max(_USUAL_RESULTS[is_small] // width, 1)
        wanted -= width % 8 == 0 and wanted % 2 == 0

        def distance(config: Config) -> tuple[int, int]:
            return abs(config.integer("rows") - wanted), abs(config.integer("items") - items)

        return min(self.search_space(problem, target), key=distance)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Rows and work-groups."""
        shape = window(problem)
        return SearchSpace(
            (ITEMS, ROWS),
            (
                Constraint(
                    "tile",
                    lambda config: _is_legal(shape, target, config),
                    "it has to fit plane, work-group, registers and local memory",
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
        items, held = chosen.integer("items"), _planes(shape, chosen)
        above, before = zeros_before(shape)
        macros = {
            **shape.macros,
            "BEFORE": before,
            "ABOVE": above,
            "HEIGHT": shape.size[0],
            "WIDTH": shape.size[1],
            "ITEMS": items,
            "ROWS": chosen.integer("rows"),
            "PLANES": held,
            "VECTOR": math.gcd(shape.size[1], 4),
            "ASYNC": copies_past_registers(target),
        }
        program = Program(
            KernelSource(PACKAGE, "kernels/gpu_bands.cl"), defines=make_defines(macros)
        )
        planes = shape.images * shape.groups
        launch = Launch(
            KernelSpec(program, "direct_gpu_bands"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.W),
                BufferArg(shape.result),
                f32(problem.alpha),
                f32(problem.beta),
                i32(planes),
                i32(shape.groups),
            ),
            (-(-planes // held) * items,),
            (items,),
        )
        return ConvSolution(self.solver_id, (launch,), config=chosen)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if not (answer := judge_rows(problem, shape, target)):
            return answer
        if min(zeros_before(shape)) < 0 or shape.size != shape.out:
            return Rejected(Reason.PADDING, "source and result must be equally large")
        if max(shape.size) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"planes beyond {_LARGEST} x {_LARGEST}")
        if shape.size[1] == _BANKS:
            return Rejected(Reason.SIZE_LIMIT, f"rows of {_BANKS} meet in the same memory banks")
        if shape.images * shape.groups > _MOST_PLANES:
            return Rejected(Reason.SIZE_LIMIT, f"more than {_MOST_PLANES} planes")
        if next(iter(self.search_space(problem, target)), None) is None:
            return Rejected(Reason.SIZE_LIMIT, "no band of rows fits registers and code")
        return APPLICABLE


def _planes(shape: Window, config: Config) -> int:
    """Planes of a work-group, which begins at a whole four."""
    held = config.integer("items") // -(-shape.size[0] // config.integer("rows"))
    return held - held % (4 // math.gcd(math.prod(shape.size), 4))


def _is_legal(shape: Window, target: Target, config: Config) -> bool:
    rows, width = config.integer("rows"), shape.size[1]
    held = _planes(shape, config)
    registers = (rows + 1) * width + math.prod(shape.taps)
    code = rows * width * math.prod(shape.taps)
    is_hip = target.backend == "hip"
    return (
        config.integer("items") <= target.max_work_group
        and rows <= shape.size[0]
        and 0 < held * math.prod(shape.size) <= MOST_FLOATS - width
        and registers <= (_MOST_REGISTERS_HIP if is_hip else _MOST_REGISTERS)
        and code <= (_LONGEST_CODE_HIP if is_hip else _LONGEST_CODE)
    )
