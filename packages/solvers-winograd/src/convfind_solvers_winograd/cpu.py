"""Fused Winograd convolution on CPUs: transforms and products of some tiles stay in the cache."""

from __future__ import annotations

from typing import ClassVar

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32, i64
from convfind.solver import TunableSolver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, Direction
from convfind_solvers_winograd.applicability import error_factor, error_reach, judge
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.geometry import Geometry, geometry

_VECTOR = 16
#: The register tile that fills the registers: 32 of 16 floats, 16 of 8; else 32 of 4.
_REGISTER_TILES = {"x86-64-avx512": (12, 2), "x86-64-avx2": (6, 1)}
_OTHER_REGISTER_TILE = (4, 1)
#: Private memory of a work-item; more than this overruns stacks.
_MOST_PRIVATE = 3 << 20
#: The kernels count tiles and elements of an image in 32 bits.
_LARGEST = 2**30
_ITEMS_PER_CORE = 4
#: Vector operations of a data and result transform beside a product's 1 for each point.
_TRANSFORM_COST = 4.0


class CpuSolver(TunableSolver):
    """A float32 convolution by one transform, in one direction and one family of layouts."""

    direction: ClassVar[Direction]
    channels_last: ClassVar[bool]
    transform: ClassVar[Transform]
    #: Weights are transformed before the run, once where they are constant; else by work-items.
    packs_ahead: ClassVar[bool]
    algorithm = Algorithm.WINOGRAD
    is_dynamic = True
    backends = ("opencl",)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take 3x3 filters of stride 1 on packed float32 tensors, on CPUs."""
        if target.kind is not DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for CPUs")
        answer = judge(problem, self.direction, self.transform, channels_last=self.channels_last)
        if not answer:
            return answer
        shape = geometry(problem)
        largest = max(problem.elements(name) for name in "xy") // shape.images
        if max(largest, shape.tiles(self.transform.m), max(map(abs, shape.padding))) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image of {largest} elements")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """The growth of errors by the transform."""
        return error_factor(self.transform)

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile's."""
        return error_reach(self.transform)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the transformed weights."""
        if not self.packs_ahead:
            return 0
        return self._packed_bytes(geometry(problem), target, self.default_config(problem, target))

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Multiplications saved, times the part of tiles filled, less what transforms cost."""
        shape, t = geometry(problem), self.transform
        saved = (t.m * t.r) ** 2 / t.n**2
        each_way = _TRANSFORM_COST * (_VECTOR / shape.filters + _VECTOR / shape.channels)
        weights = _TRANSFORM_COST * _VECTOR / shape.tiles(t.m)
        if self.packs_ahead:
            weights *= 2
        return 0.75 * saved * shape.fill(t.m) / (1 + each_way + weights)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Blocks of tiles, channels and filters."""
        rows, vectors = _tile(target)
        return SearchSpace(
            (
                Parameter("tiles", tuple(rows * n for n in (1, 2, 3, 4, 8)), "tiles at a time"),
                Parameter("channels", (16, 32, 64, 128, 256), "block of the reduction"),
                Parameter("filters", (32, 64, 128, 256), "block of filters"),
            ),
            (
                Constraint(
                    "private memory",
                    lambda config: self._private_bytes(config, vectors) <= _MOST_PRIVATE,
                    f"a work-item has {_MOST_PRIVATE} bytes",
                ),
            ),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Blocks that leave room for each other in a level-2 cache."""
        shape = geometry(problem)
        rows, _ = _tile(target)
        channels = 64 if shape.channels > 32 else 32 if shape.channels > 16 else 16
        filters = 64 if shape.filters > 32 else 32
        tiles = 2 * rows
        if self.packs_ahead and shape.filters > 64:
            filters = 128  # data is transformed anew for each block of filters
        if not self.packs_ahead and self.transform.m < 6:
            tiles = 4 * rows  # weights are transformed anew for each run of tiles
        return Config(tiles=tiles, channels=channels, filters=filters)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch that transforms the weights, if ahead, and one that does all the rest."""
        shape = geometry(problem)
        config = config or self.default_config(problem, target)
        rows, vectors = _tile(target)
        width = vectors * _VECTOR
        t = self.transform
        program = Program(
            KernelSource("convfind_solvers_winograd", f"kernels/cpu_f{t.m}x{t.r}.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(
                CHANNELS_LAST=self.channels_last,
                PACKED=self.packs_ahead,
                MR=rows,
                VECTORS=vectors,
                TILES=config.integer("tiles"),
                CHANNELS=config.integer("channels"),
                FILTERS=config.integer("filters"),
            ),
        )
        weights = (*map(i64, shape.weight_steps), i32(int(shape.flipped)))
        share, strip = self._cut(shape, config, target.compute_units)
        fused = Launch(
            KernelSpec(program, "winograd_cpu_fused"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.PACKED if self.packs_ahead else Memory.W),
                BufferArg(shape.result),
                *map(i32, (shape.images, shape.groups, shape.channels, shape.filters)),
                *map(i32, (*shape.size, *shape.out, *shape.padding)),
                f32(problem.alpha),
                f32(problem.beta),
                i32(share),
                i32(strip),
                *weights,
            ),
            (-(-shape.tiles(t.m) // share), -(-shape.filters // strip), shape.groups),
            (1, 1, 1),
        )
        if not self.packs_ahead:
            return ConvSolution(self.solver_id, (fused,), config=config)
        pack = Launch(
            KernelSpec(program, "winograd_cpu_pack"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                i32(shape.filters),
                i32(shape.channels),
                *weights,
            ),
            (
                -(-shape.filters // width),
                -(-shape.channels // config.integer("channels")),
                shape.groups,
            ),
            (1, 1, 1),
        )
        return ConvSolution(
            self.solver_id,
            (fused,),
            prepare=(pack,),
            packed=self._packed_bytes(shape, target, config),
            config=config,
        )

    def _cut(self, shape: Geometry, config: Config, cores: int) -> tuple[int, int]:
        """Tiles and filters of a work-item: enough items for all cores, few of them partial."""
        unit, block = config.integer("tiles"), config.integer("filters")
        tiles = shape.tiles(self.transform.m)
        wanted = 1 if cores == 1 else -(-_ITEMS_PER_CORE * cores // shape.groups)
        if tiles >= wanted * unit:
            share = -(-tiles // wanted)
            return -(-share // unit) * unit, -(-shape.filters // block) * block
        runs = -(-tiles // unit)
        strips = min(-(-wanted // runs), -(-shape.filters // 32))
        strip = -(-shape.filters // strips)
        return unit, -(-strip // 32) * 32

    def _packed_bytes(self, shape: Geometry, target: Target, config: Config) -> int:
        width = _tile(target)[1] * _VECTOR
        block = config.integer("channels")
        filters = -(-shape.filters // width) * width
        blocks = -(-shape.channels // block)
        return shape.groups * filters * blocks * (block + 1) * self.transform.n**2 * 4

    def _private_bytes(self, config: Config, vectors: int) -> int:
        tiles, channels, filters = (config.integer(n) for n in ("tiles", "channels", "filters"))
        floats = tiles * (channels + _VECTOR) + tiles * filters
        if not self.packs_ahead:
            floats += (channels + 1) * filters
        return self.transform.n**2 * floats * 4


def _tile(target: Target) -> tuple[int, int]:
    """Rows and vectors of the register tile."""
    return _REGISTER_TILES.get(target.arch, _OTHER_REGISTER_TILE)
