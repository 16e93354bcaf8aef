"""First layers on CPUs: few input channels, all of them in the sum of every result."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, even_parts, fill, has_many_registers, round_up
from convfind.kit.recipe_solver import Limit
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.types import Direction
from convfind_solvers_direct.cpu.conv import row_floats
from convfind_solvers_direct.cpu.solver import VECTOR, CpuSolver, items_wanted, program_of
from convfind_solvers_direct.window import LARGEST, LARGEST_STRIDE, Window, window

#: With more channels an implicit GEMM is as fast.
MOST_CHANNELS = 4
#: Products of a sum, so that weights of a block of filters stay in the level-1 cache.
_MOST_PRODUCTS = 512
#: Channels last, where the level-2 cache does and strides cost nothing: patches of 16 x 16.
_MOST_OF_PATCHES, _LARGEST_PATCH = 1024, 32
#: Floats of the copied rows: what is soon fetched from the level-2 cache again, and at most.
_ROOM, _STRIP_FLOATS = 12288, 16384
#: The share of the peak that leaves the edges out.
_BEST_SHARE = 0.95
#: Channels first, vectors of pixels and filters of a register tile, of 32 registers of 16 floats
#: and of 16 of 8; channels last, pixels of one vector of filters in the latter.
_MANY_SUMS, _FEW_SUMS, _FEW_PIXELS = (3, 8), (1, 6), 6


class CpuFirst(CpuSolver):
    """Forward in one family of layouts; channels last filters are the vectors, else pixels."""

    prefix = "direct-cpu-first"
    direction = Direction.FORWARD
    domain = CpuSolver.domain.without(Trait.GROUPS)

    @property
    def from_planes(self) -> bool:
        """Whether x and w lie channels first."""
        return not self.channels_last

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels."""
        limits = (_MOST_OF_PATCHES, _LARGEST_PATCH) if self.channels_last else ()
        if not (answer := judge_first(problem, *limits)):
            return answer
        shape = window(problem)
        if max(self._strip_floats(shape, 1, many) for many in (False, True)) > _STRIP_FLOATS:
            return Rejected(Reason.SIZE_LIMIT, "rows that a result takes do not fit the cache")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole tiles, and memory."""
        shape = window(problem)
        tile = self._tile(shape, has_many_registers(target))
        pixels = tile.get("PIXELS", VECTOR)
        filled = fill(shape.filters, self._block(tile)) * fill(shape.out[1], pixels)
        products = problem.flops / (_BEST_SHARE * filled)
        return self.first_layer_index(problem, target, products)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that puts the weights in order, and one that computes."""
        shape, many = window(problem), has_many_registers(target)
        tile = self._tile(shape, many)
        name = "pixels" if self.channels_last else "planes"
        epilogue = Epilogue.of(problem)
        program = program_of(
            f"cpu_first_{name}",
            replace(shape, filters=1),
            STRIP_FLOATS=_STRIP_FLOATS,
            **tile,
            **epilogue.defines,
        )
        block = self._block(tile)
        pack = Grid(program, "direct_cpu_first_pack", -(-shape.filters // block))(
            *(Memory.W, Memory.PACKED, shape.filters)
        )
        band = self._band(shape, many)
        bands = -(-shape.out[0] // band)
        runs, share = even_parts(bands, -(-items_wanted(target) // shape.images))
        compute = Grid(program, f"direct_cpu_first_{name}", (shape.images, runs))(
            *(Memory.X, Memory.PACKED, Memory.Y),
            *epilogue.arguments,
            *(shape.filters, *shape.size, *shape.out, *shape.padding),
            *(share, band, self._pitch(shape, many)),
        )
        packed = 4 * round_up(shape.filters, block) * shape.channels * shape.taps
        return Recipe(self.solver_id, (compute,), prepare=(pack,), packed=packed)

    def _tile(self, shape: Window, many_registers: bool) -> dict[str, int]:
        """The macros of the register tile."""
        if not self.channels_last:
            vectors, filters = _MANY_SUMS if many_registers else _FEW_SUMS
            return {"VECTORS": vectors, "FILTERS_AT_ONCE": filters}
        tile = {"FROM_PLANES": int(self.from_planes)}
        if not many_registers:
            return {**tile, "VECTORS": 1, "PIXELS": _FEW_PIXELS, "STREAMS": 0}  # no gain on Zen 3
        return {**tile, "VECTORS": min(-(-shape.filters // VECTOR), 2), "PIXELS": 14, "STREAMS": 1}

    def _block(self, tile: dict[str, int]) -> int:
        """Filters of a register tile."""
        return tile["VECTORS"] * VECTOR if self.channels_last else tile["FILTERS_AT_ONCE"]

    def _band(self, shape: Window, many_registers: bool) -> int:
        """Rows of y whose rows of x fit the cache; channels first, such that tiles are filled."""
        most, room = 1, _ROOM if self.channels_last else _STRIP_FLOATS
        while most < shape.out[0] and self._strip_floats(shape, most + 1, many_registers) <= room:
            most += 1
        if self.channels_last:
            return most
        vectors = self._tile(shape, many_registers)["VECTORS"]
        per_row = -(-shape.out[1] // VECTOR)
        return max(range(1, most + 1), key=lambda band: (fill(band * per_row, vectors), band))

    def _pitch(self, shape: Window, many_registers: bool) -> int:
        """Floats of a copied row (from channels first to channels first: of a phase of it)."""
        if not self.channels_last:
            return row_floats(shape)
        pixels = self._tile(shape, many_registers)["PIXELS"]
        last = -(-shape.out[1] // pixels) * pixels - 1
        read = last * shape.stride[1] + shape.window[1]
        pixel = 1 if self.from_planes else shape.channels
        floats = pixel * max(read, shape.padding[1] + shape.size[1])
        return -(-floats // VECTOR) * VECTOR

    def _strip_floats(self, shape: Window, band: int, many_registers: bool) -> int:
        """Floats of the rows of x that a band of y takes."""
        planes = shape.channels if self.from_planes else 1
        phases = 1 if self.channels_last else shape.stride[1]
        return shape.span(band, 0) * planes * phases * self._pitch(shape, many_registers)


class CpuFirstFromPlanes(CpuFirst):
    """Forward from channels first to channels last: a network's first layer needs no copy."""

    from_planes = True

    def __init__(self) -> None:
        super().__init__(channels_last=True)
        self.domain = replace(self.domain, channels_last=None)
        self.solver_id = "direct-cpu-first-nchw-to-nhwc-fwd"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take x and w channels first, and y channels last."""
        if problem.y_layout.channels_last and not (
            problem.x_layout.channels_last or problem.w_layout.channels_last
        ):
            return super().applicability(problem, target)
        return Rejected(Reason.LAYOUT, "x and w must be channels first, and y channels last")


def judge_first(
    problem: ConvProblem,
    most_products: int = _MOST_PRODUCTS,
    largest_stride: int = LARGEST_STRIDE,
    *,
    last: bool = False,
) -> Applicability:
    """Judge what all solvers for first layers, or last ones, of few filters, have in common."""
    few = problem.w_shape[0] if last else problem.x_shape[1]
    if few > MOST_CHANNELS:
        return Rejected(Reason.CHANNELS, f"at most {MOST_CHANNELS}, not {few}")
    if few * math.prod(problem.filter) > most_products:
        return Rejected(Reason.FILTER_SIZE, f"at most {most_products} taps of all channels")
    if max(problem.stride) > largest_stride:
        return Rejected(Reason.STRIDE, f"at most {largest_stride}")
    steps = zip(problem.dilation, problem.filter, strict=True)
    if any(step > 1 and taps > 1 for step, taps in steps):
        return Rejected(Reason.DILATION, "neighbouring taps only")
    image = max(math.prod(problem.x_shape[1:]), math.prod(problem.y_shape[1:]))
    if max(image, *problem.padding, problem.w_shape[0]) > LARGEST:
        return Rejected(Reason.SIZE_LIMIT, f"an image of {image} elements, or its padding")
    if (rows := problem.x_shape[0] * problem.y_shape[2]) > LARGEST:
        return Rejected(Reason.SIZE_LIMIT, f"{rows} rows of all images")
    return APPLICABLE
