"""The base of the implicit GEMM solvers for GPUs."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import (
    ALL_REGISTERS,
    Epilogue,
    Grid,
    Limit,
    bytes_of_parts,
    channel_of_place,
    memory_seconds,
    parts_of_result,
    product_index,
    register_limit,
)
from convfind.problem import PACKED_TRAITS, ConvProblem
from convfind.solver import APPLICABLE, GPUS, Applicability, Config, Domain, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Launch, Memory, Recipe, ScalarArg, i64
from convfind.solver.search_space import SearchSpace
from convfind.types import DataType, Direction
from convfind_solvers_igemm.gpu import tiles
from convfind_solvers_igemm.gpu.geometry import GpuGeometry, gpu_geometry
from convfind_solvers_igemm.gpu.sized import SizedVariant
from convfind_solvers_igemm.gpu.tiles import Tile
from convfind_solvers_igemm.programs import GPU

_SMALLEST = Tile(32, 32, 16, 8, 8)
_SUM_GROUP = 64
_MOST_GROUPS = 2**31 - 1
_BANDWIDTH_SHARE = 0.88
#: A second launch, and the end of the first.
_SUM_SECONDS = 5e-6


class GpuSolver(SizedVariant):
    """A convolution in one direction and one family of layouts."""

    prefix = "igemm-gpu"
    version = 3
    backends = ("opencl", "hip", "cuda")
    domain = Domain(
        kinds=GPUS,
        dtypes=(DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT8),
        traits=PACKED_TRAITS,
    )

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take sizes that the kernels can count, on devices that have room for a tile."""
        if _SMALLEST.threads > target.max_work_group:
            return Rejected(Reason.WORK_GROUP, f"needs {_SMALLEST.threads} work-items")
        if not tiles.fits(_SMALLEST, target):
            return Rejected(Reason.LOCAL_MEMORY, f"needs {_SMALLEST.local_bytes} bytes")
        shape = self._geometry(problem)
        if (size := shape.too_large) is not None:
            return Rejected(Reason.SIZE_LIMIT, f"a size of {size}")
        if (groups := self._most_groups(shape)) > _MOST_GROUPS:
            return Rejected(Reason.SIZE_LIMIT, f"{groups} work-groups")
        return APPLICABLE

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit registers, local memory, work-group size and the kernel's reads."""
        shape, limit, wave = self._geometry(problem), target.max_work_group, target.wave_size
        can_read = partial(self._can_read, shape)
        has_depth = partial(tiles.fills_depth, problem.dtype)
        found = filter(can_read, tiles.fitting(target, problem.dtype))
        groups = {tile: self._count(shape, tile) for tile in found}
        return SearchSpace(
            (
                *tiles.PARAMETERS,
                *((tiles.MATRIX_PARAMETER,) if tiles.uses_matrices(target, problem.dtype) else ()),
                tiles.parts_parameter(groups, target.compute_units),
            ),
            (
                *tiles.CONSTRAINTS,
                Tile.constraint("size", lambda t: t.threads <= limit, f"at most {limit} items"),
                Tile.constraint("waves", lambda t: t.threads % wave == 0, f"waves of {wave}"),
                Tile.constraint("depth", has_depth, "whole matrix instructions"),
                Tile.constraint("reads", can_read, "work-items share what is read evenly"),
            ),
            lambda config: Tile.of(config).local_bytes,
            tiles.local_memory(target),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The measured tile, and the number of parts, that are expected to be quickest."""
        tile, parts, _ = self._best(problem, target)
        return Config(tile.values, parts=parts)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The index of the best tile, or of memory where that is slower."""
        return product_index(problem, target, self._best(problem, target)[2], _BANDWIDTH_SHARE)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch, and one that adds up the parts of a split sum."""
        shape, tile = self._geometry(problem), Tile.of(config)
        parts = parts_of_result(problem, config.integer("parts"), limit)
        program = self._program(problem, target, tile, split=parts > 1)
        writes = self.direction.writes
        launch = Grid(program, self._entry, self._count(shape, tile) * parts, tile.threads)(
            *self._reads(shape),
            writes if parts == 1 else Memory.WORKSPACE,
            *Epilogue.of(problem).arguments,
            *self._tiling(shape, tile, parts),
            *shape.arguments,
        )
        adding = (self._sum(problem, shape, program, parts, target),) if parts > 1 else ()
        workspace = bytes_of_parts(problem, parts)
        return Recipe(self.solver_id, (launch, *adding), workspace=workspace, config=config)

    # -- what the directions differ in -----------------------------------------------------------

    def _geometry(self, problem: ConvProblem) -> GpuGeometry:
        """The geometry that the kernel computes."""
        return gpu_geometry(self._seen(problem))

    def _elements(self, problem: ConvProblem, target: Target) -> dict[str, DefineValue]:
        """Elements that the kernel reads: macros of convfind_gpu_tile.h."""
        return {"DTYPE": problem.dtype.upper(), "INTEGER": problem.dtype is DataType.INT8}

    #: The kernel, and the file that it is in.
    _entry: ClassVar[str]
    _file: ClassVar[str]

    @abstractmethod
    def _reads(self, shape: GpuGeometry) -> tuple[str, str]:
        """The tensors read, in the kernel's order."""

    @abstractmethod
    def _macros(self, problem: ConvProblem, target: Target, tile: Tile) -> dict[str, DefineValue]:
        """How the kernel reads: macros beside those of convfind_gpu_tile.h and gpu_geometry.h."""

    @abstractmethod
    def _can_read(self, shape: GpuGeometry, tile: Tile) -> bool:
        """Return whether the items share what a tile reads evenly."""

    @abstractmethod
    def _tiling(self, shape: GpuGeometry, tile: Tile, parts: int) -> tuple[ScalarArg, ...]:
        """The arguments before GEOMETRY."""

    @abstractmethod
    def _count(self, shape: GpuGeometry, tile: Tile) -> int:
        """Work-groups of a part."""

    @abstractmethod
    def _steps(self, shape: GpuGeometry) -> float:
        """Products of a result's sum, on average."""

    @abstractmethod
    def _most_parts(self, shape: GpuGeometry, tile: Tile, target: Target) -> int:
        """The most parts that a sum should be split into."""

    @abstractmethod
    def _efficiency(self, shape: GpuGeometry, tile: Tile) -> float:
        """The share that is left of the speed of a plain product."""

    # -- what they share -------------------------------------------------------------------------

    def _spreads(self, shape: GpuGeometry, tile: Tile) -> bool:
        """Return whether to tell the assembler that it may take all registers.

        Where gradients are computed with sizes as arguments, it takes enough anyway.
        """
        return tile.squeezed and (self.fixed or self.direction is Direction.FORWARD)

    def _has_all_registers(self, problem: ConvProblem, shape: GpuGeometry, tile: Tile) -> bool:
        """Whether to tell the assembler of all registers: for speed, or as it spills some else.

        No narrow tile has spilled for 1-D or 2-D float32.
        """
        is_float = problem.dtype is DataType.FLOAT32
        if tile.crowded or (is_float and self._spreads(shape, tile)):
            return True
        return tile.narrow and (not is_float or problem.spatial_rank > 2)

    def _most_registers(self, problem: ConvProblem, target: Target, tile: Tile) -> int | None:
        """The limit of an item's registers to tell NVIDIA's assembler, if any."""
        shape = self._geometry(problem)
        return ALL_REGISTERS if self._has_all_registers(problem, shape, tile) else None

    def _most_groups(self, shape: GpuGeometry) -> int:
        return self._count(shape, _SMALLEST)

    def _best(self, problem: ConvProblem, target: Target) -> tuple[Tile, int, float]:
        """The tile and the number of parts that take the fewest seconds, and these."""
        shape, units = self._geometry(problem), target.compute_units
        steps, size = self._steps(shape), problem.nbytes(self.direction.writes)
        best: tuple[Tile, int, float] | None = None
        for tile in tiles.fitting(target, problem.dtype):
            if not self._can_read(shape, tile):
                continue
            count, efficiency = self._count(shape, tile), self._efficiency(shape, tile)
            most = self._most_parts(shape, tile, target)
            for parts in tiles.parts_filling(tile, count, most, units):
                rate = tiles.ALL_RATES[tile]
                needed = rate.seconds(tile, steps / parts, count * parts, units) / efficiency
                if parts > 1:
                    moved = (2 * parts + 1) * size
                    needed += _SUM_SECONDS + memory_seconds(moved, target, _BANDWIDTH_SHARE)
                if best is None or needed < best[2]:
                    best = (tile, parts, needed)
        assert best is not None
        return best

    def _program(self, problem: ConvProblem, target: Target, tile: Tile, *, split: bool) -> Program:
        shape = self._geometry(problem)
        written = problem.tensor_dtype(self.direction.writes)
        macros: dict[str, DefineValue] = {
            **{name.upper(): value for name, value in tile.values.items()},
            "CHANNELS_LAST": shape.channels_last,
            "RESULT_DTYPE": written.upper(),
            "SPLIT": split,
            "STORES_FOUR": split or written is DataType.FLOAT32,
            **self._elements(problem, target),
            **self._macros(problem, target, tile),
            **Epilogue.of(problem).defines,
        }
        limit = self._most_registers(problem, target, tile)
        options = () if limit is None else register_limit(target, limit)
        return GPU.program(self._file, macros, self._compiled_in(shape), options=options)

    def _sum(
        self,
        problem: ConvProblem,
        shape: GpuGeometry,
        program: Program,
        parts: int,
        target: Target,
    ) -> Launch:
        size = problem.elements(self.direction.writes)
        # Parts of the weight gradient lie in the order in which it is computed.
        moved = self.direction is Direction.BACKWARD_WEIGHTS and not shape.channels_last
        group = min(_SUM_GROUP, target.max_work_group)
        return Grid(program, "igemm_gpu_sum", -(-size // group), group)(
            *(Memory.WORKSPACE, self.direction.writes),
            *Epilogue.of(problem).arguments,
            *(i64(size), parts, shape.channels, shape.taps if moved else 1),
            *channel_of_place(problem),
        )
