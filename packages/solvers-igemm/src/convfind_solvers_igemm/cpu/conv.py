"""Implicit GEMM on CPUs: windows gathered into the level-1 cache, weights packed into panels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import PRODUCT, Epilogue, Grid, Limit, RegisterTile, cpu_index, fill
from convfind.problem import ConvProblem
from convfind.solver.defines import Defines, make_defines
from convfind.solver.recipe import Argument, Memory, Recipe
from convfind_solvers_igemm.blocking import Product, cut, packed_at_once
from convfind_solvers_igemm.cpu.geometry import CpuGeometry, geometry
from convfind_solvers_igemm.cpu.solver import CACHED_FLOATS, VECTOR, CpuSolver
from convfind_solvers_igemm.programs import CPU

#: The share of the peak in a long sum.
_BEST_SHARE = 0.9
#: Products that are summed at a time channels first, at most.
_LONG = 1024
#: Phases of a data gradient that are written together, at most.
_MOST_FILLED = 8


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a float beside products, in operations at the peak."""

    source: float
    result: float
    gathered: float
    weight: float = 135.0  # packed in small pieces, and read again


#: Results lie a plane apart, or side by side.
FIRST_COSTS = Costs(source=30.0, result=120.0, gathered=30.0)
_LAST_COSTS = Costs(source=30.0, result=10.0, gathered=30.0)
#: The cost of a group's part of a position with channels last, where it is less than a vector.
_ROW_OF_GROUP = 1200.0


class CpuProduct(CpuSolver):
    """The directions in which weights are one operand, packed into panels."""

    _kernel: ClassVar[str]  # the name of the file; the kernel's own starts with igemm
    #: The register tile.
    _tile: ClassVar[RegisterTile] = PRODUCT
    #: Weights are packed before the run, once where they are constant; else by each work-item.
    packs_ahead: bool = True
    #: Floats of the weights that stay in a cache while others change.
    _cached: ClassVar[int] = CACHED_FLOATS
    #: Panels of weights for each part of the filters.
    _products: ClassVar[int] = 1
    #: The cost that the throughput index counts beside products.
    _costs: Costs

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Products of whole tiles, what is gathered for them, packed weights and memory."""
        shape = geometry(problem)
        result = problem.direction.writes
        source = "y" if result == "x" else "x"
        operations = problem.flops / self._share(shape, target)
        operations += self._costs.source * problem.elements(source)
        operations += self._costs.result * problem.elements(result)
        if self.channels_last and shape.groups > 1 and shape.filters < VECTOR:
            operations += _ROW_OF_GROUP * shape.groups * shape.positions
        operations += self._costs.gathered * shape.groups * shape.positions * shape.reduction
        operations += self._costs.weight * problem.elements("w")
        return cpu_index(problem, target, operations, launches=1 + self.packs_ahead)

    def _share(self, shape: CpuGeometry, target: Target) -> float:
        """The share of the peak that products reach."""
        positions, filters = (4, VECTOR) if self.channels_last else (VECTOR, 4)
        return _BEST_SHARE * fill(shape.positions, positions) * fill(shape.filters, filters)

    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """One launch that packs the weights, and one that computes."""
        shape = self._geometry(problem)
        epilogue = Epilogue.of(problem)
        program = CPU.program(self._kernel, dict(self._defines(shape, target)), epilogue.defines)
        panels = -(-shape.filters // self._panel_width(target))
        at_once = packed_at_once(panels, shape.groups, target.compute_units)
        pack = Grid(program, "igemm_cpu_pack", (-(-panels // at_once), shape.groups))(
            *(Memory.W, Memory.PACKED),
            *shape.arguments,
            at_once,
        )
        product = self._product(shape, target)
        pieces = cut(product, target.compute_units)
        groups = (
            *self._runs(
                -(-product.positions // pieces.positions), -(-shape.filters // pieces.filters)
            ),
            shape.groups * (shape.phases // self._joined(shape)),
        )
        compute = Grid(program, f"igemm_{self._kernel}", groups)(
            *(shape.source, Memory.PACKED if self.packs_ahead else Memory.W, shape.result),
            *shape.arguments,
            *epilogue.arguments,
            *(pieces.positions // self._counted_in(product), pieces.filters),
            *self._more_arguments(problem),
        )
        if not self.packs_ahead:
            return Recipe(self.solver_id, (compute,))
        packed = self._packed_bytes(shape, target)
        return Recipe(self.solver_id, (compute,), prepare=(pack,), packed=packed)

    def _runs(self, positions: int, filters: int) -> tuple[int, int]:
        """The first two global sizes: so many runs of positions and of filters."""
        return positions, filters

    def _more_arguments(self, problem: ConvProblem) -> tuple[Argument, ...]:
        """Arguments behind those that all kernels have."""
        return ()

    def _packed_bytes(self, shape: CpuGeometry, target: Target) -> int:
        width = self._panel_width(target)
        panels = shape.groups * -(-shape.filters // width) * self._products
        return panels * width * shape.reduction * 4

    def _geometry(self, problem: ConvProblem) -> CpuGeometry:
        """The convolution that the kernels see."""
        return geometry(problem)

    def _defines(self, shape: CpuGeometry, target: Target) -> Defines:
        """The program's macros."""
        rows, vectors = self._tile.of(target)
        return make_defines(
            MR=rows,
            VECTORS=vectors,
            DEPTH=self._depth(shape),
            GRADIENT=shape.is_gradient,
            PACKED=self.packs_ahead,
        )

    def _product(self, shape: CpuGeometry, target: Target) -> Product:
        """The product that is cut into work-items."""
        positions, filters = self._units(target)
        return Product(
            shape.positions,
            shape.filters,
            shape.groups * -(-shape.reached_phases // self._joined(shape)),
            positions,
            filters,
            max(1, self._cached // self._depth(shape) // filters) * filters,
        )

    def _depth(self, shape: CpuGeometry) -> int:
        """Products that are summed at a time."""
        return 256

    def _joined(self, shape: CpuGeometry) -> int:
        """Phases that a work-item computes together."""
        return 1

    def _counted_in(self, product: Product) -> int:
        """Positions that the kernel counts as one."""
        return 1

    def _panel_width(self, target: Target) -> int:
        """Filters of a panel of weights: those of the vectors of a register tile."""
        return self._tile.of(target)[1] * VECTOR

    def _units(self, target: Target) -> tuple[int, int]:
        """Positions and filters that a register tile takes, of which one are vectors."""
        rows, vectors = self._tile.of(target)
        return rows, vectors * VECTOR


class ChannelsFirst(CpuProduct):
    """Vectors along positions, panels of MR filters."""

    channels_last = False
    _kernel = "cpu_nchw"
    _costs = FIRST_COSTS
    _cached = 2**20

    def _defines(self, shape: CpuGeometry, target: Target) -> Defines:
        # One program for all sums: no block of a short one is as long as those of a long one.
        return make_defines(dict(super()._defines(shape, target)), DEPTH=_LONG)

    def _depth(self, shape: CpuGeometry) -> int:
        # Long sums read and write results less often.
        return _LONG if shape.taps > 1 or shape.channels > 512 else 512

    def _joined(self, shape: CpuGeometry) -> int:
        joins = shape.stride[2] == 2 and shape.out[2] > 1 and shape.taps <= self._depth(shape)
        return 2 if shape.is_gradient and joins else 1

    def _panel_width(self, target: Target) -> int:
        return self._tile.of(target)[0]

    def _units(self, target: Target) -> tuple[int, int]:
        rows, vectors = self._tile.of(target)
        return vectors * VECTOR, rows


class ChannelsLast(CpuProduct):
    """Vectors along filters, panels of one or two vectors of them."""

    channels_last = True
    _kernel = "cpu_nhwc"
    _costs = _LAST_COSTS

    def _depth(self, shape: CpuGeometry) -> int:
        # A sum of one block never goes to memory and back; longer ones stay near in short blocks.
        short = super()._depth(shape)
        return 2 * short if short < shape.reduction <= 2 * short else short

    def _joined(self, shape: CpuGeometry) -> int:
        return shape.phases if _fills(shape) else 1


class ChannelsLastInline(ChannelsLast):
    """The same without workspace: each work-item packs its weights."""

    packs_ahead = False
    form = "inline"


def _fills(shape: CpuGeometry) -> bool:
    """Whether each result that nothing reaches lies right behind one that a single tap reaches."""
    reached = tuple(-(-size // step) for size, step in zip(shape.out, shape.stride, strict=True))
    return (
        shape.is_gradient
        and shape.taps == 1
        and shape.size == reached
        and not any(shape.padding)
        and 1 < shape.phases <= _MOST_FILLED
    )
