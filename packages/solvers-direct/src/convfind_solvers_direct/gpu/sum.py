"""The sum of the parts of a result on GPUs: the second launch."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, channel_of_place, even_parts, parts_of_result
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.recipe import Launch, Memory, i64
from convfind_solvers_direct.programs import GPU

#: Items of a work-group, of which some share a result.
_ITEMS, _SHARERS = 128, 8


def is_split(problem: ConvProblem, config: Config, limit: Limit) -> bool:
    """Return whether there are parts of a weight gradient, which a limit leaves room for."""
    fits = limit is None or limit >= 8 * problem.elements("w")
    return config.integer("parts") > 1 and fits


def parts_of_weights(
    problem: ConvProblem, config: Config, limit: Limit, steps: int
) -> tuple[int, int]:
    """Return the parts of so many steps, as many as fit the limit, and the steps of one."""
    return even_parts(steps, parts_of_result(problem, config.integer("parts"), limit))


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
    program = GPU.program(
        "gpu_sum",
        {"DTYPE": problem.dtype.upper(), "ITEMS": items, "SHARERS": sharers},
        epilogue.defines,
    )
    return Grid(program, "direct_gpu_sum", -(-size // (items // sharers)), items)(
        *(Memory.WORKSPACE, writes),
        *epilogue.arguments,
        *(i64(size), parts),
        *channel_of_place(problem),
    )
