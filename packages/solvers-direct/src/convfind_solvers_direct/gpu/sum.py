"""The sum of the parts of a result on GPUs: the second launch."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue, channel_of_place
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, i32, i64
from convfind_solvers_direct.gpu.conv import PACKAGE

#: Items of a work-group, of which some share a result.
_ITEMS, _SHARERS = 128, 8


def is_split(problem: ConvProblem, config: Config, limit: int | None) -> bool:
    """Return whether there are parts of a weight gradient, which a limit leaves room for."""
    fits = limit is None or limit >= 8 * problem.elements("w")
    return config.integer("parts") > 1 and fits


def sum_of_parts(
    problem: ConvProblem,
    target: Target,
    parts: int,
    wanted_items: int = _ITEMS,
    sharers: int = _SHARERS,
) -> Launch:
    """Return the launch that adds up what the first one left in the workspace."""
    writes = problem.direction.writes
    size, items = problem.elements(writes), min(wanted_items, target.max_work_group)
    epilogue = Epilogue.of(problem)
    program = Program(
        KernelSource(PACKAGE, "kernels/gpu_sum.cl"),
        defines=make_defines(
            {"DTYPE": problem.dtype.upper(), "ITEMS": items, "SHARERS": sharers}, epilogue.defines
        ),
    )
    return Launch(
        KernelSpec(program, "direct_gpu_sum"),
        (
            BufferArg(Memory.WORKSPACE),
            BufferArg(writes),
            *epilogue.arguments,
            i64(size),
            i32(parts),
            *channel_of_place(problem),
        ),
        (-(-size // (items // sharers)) * items,),
        (items,),
    )
