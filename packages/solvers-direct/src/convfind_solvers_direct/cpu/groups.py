"""Groups of some channels on CPUs, channels last: forward."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.kit.blocks import (
    OCTET_ROWS,
    Epilogue,
    Grid,
    Limit,
    cpu_index,
    even_parts,
    fill,
    has_many_registers,
    judge_octets,
    vectors_of_filters,
)
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_direct.cpu.solver import BALANCE, CpuSolver, items_wanted, program_of
from convfind_solvers_direct.window import LARGEST, Window, window

#: Room for the copied source of a block, in floats.
_STRIP_FLOATS = 16384
#: The share of the peak that register tiles reach, by their vectors of filters.
_BEST_SHARE = {3: 0.75, 2: 0.7, 1: 0.6}


class CpuGroups(CpuSolver):
    """Vectors along filters, and some results at a time, wherever they lie in the image."""

    direction = Direction.FORWARD
    channels_last = True
    prefix = "direct-cpu-groups"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take groups of whole vectors of channels and filters."""
        shape = window(problem)
        if problem.groups == 1:
            return Rejected(Reason.GROUPS, "channels must be in groups")
        if not (answer := judge_octets(shape.channels, shape.filters)):
            return answer
        if _floats(shape, 1, 1) > _STRIP_FLOATS:
            return Rejected(Reason.SIZE_LIMIT, "the source under a result does not fit the cache")
        image = max(math.prod(problem.x_shape[1:]), math.prod(problem.y_shape[1:]))
        if max(image, *problem.padding, shape.images * math.prod(shape.out)) > LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"{shape.images} images of {image} elements")
        if max(map(shape.span, shape.out, (0, 1))) > LARGEST:
            return Rejected(Reason.SIZE_LIMIT, "padded planes with more places than an int counts")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The peak's share of whole tiles, and all tensors moved once."""
        shape = window(problem)
        vectors = vectors_of_filters(shape.filters)
        height, width = _block(shape, target)
        filled = fill(height * width, OCTET_ROWS[vectors])
        operations = problem.flops / (_BEST_SHARE[vectors] * filled) + BALANCE * problem.traffic
        if has_many_registers(target):
            operations *= 2  # half of a register of 16 is used
        return cpu_index(problem, target, operations)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that puts the weights in order, and one that computes."""
        shape = window(problem)
        vectors = vectors_of_filters(shape.filters)
        epilogue = Epilogue.of(problem)
        program = program_of(
            "cpu_groups",
            shape,
            MR=OCTET_ROWS[vectors],
            VECTORS=vectors,
            STRIP_FLOATS=_STRIP_FLOATS,
            **epilogue.defines,
        )
        rows, columns = _block(shape, target)
        blocks = shape.images * -(-shape.out[0] // rows) * -(-shape.out[1] // columns)
        runs, share = even_parts(blocks, -(-items_wanted(target) // shape.groups))
        compute = Grid(program, "direct_cpu_groups", (runs, shape.groups))(
            *(shape.source, Memory.PACKED, shape.result),
            *epilogue.arguments,
            *(shape.groups, *shape.size, *shape.out, *shape.padding),
            *(rows, columns, blocks, share),
        )
        pack = Grid(program, "direct_cpu_groups_pack", (shape.taps, shape.groups))(
            *(Memory.W, Memory.PACKED)
        )
        return Recipe(self.solver_id, (compute,), prepare=(pack,), packed=problem.nbytes("w"))


def _floats(shape: Window, rows: int, columns: int) -> int:
    """Floats of the copied source of a block."""
    return shape.span(rows, 0) * shape.span(columns, 1) * shape.channels


def _block(shape: Window, target: Target) -> tuple[int, int]:
    """Return rows and columns of a block that fits, with enough of them for all cores."""
    height, width = shape.out
    columns = next(n for n in range(width, 0, -1) if _floats(shape, 1, n) <= _STRIP_FLOATS)
    columns = -(-width // -(-width // columns))
    rows = next(n for n in range(height, 0, -1) if _floats(shape, n, columns) <= _STRIP_FLOATS)
    wanted = -(-items_wanted(target) // (shape.groups * shape.images))
    bands = max(-(-height // rows), min(wanted, height))
    return -(-height // bands), columns
