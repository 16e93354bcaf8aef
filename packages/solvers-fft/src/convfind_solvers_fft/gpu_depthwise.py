"""FFT convolution of each channel by its own filter on GPUs: forward and the data gradient."""

from __future__ import annotations

from math import log2
from types import MappingProxyType

from convfind.applicability import Applicability
from convfind.config import Config
from convfind.defines import make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.search_space import Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, f32, i32
from convfind.target import Target
from convfind_solvers_fft.applicability import judge_depthwise
from convfind_solvers_fft.geometry import Tiling, geometry
from convfind_solvers_fft.gpu import GpuSolver

#: Share of the peak that transforms of a size reached on an H200.
_TRANSFORM_SHARES = {16: 0.3, 24: 0.3, 32: 0.38, 48: 0.26, 64: 0.18}


class GpuDepthwiseSolver(GpuSolver):
    """A float32 depthwise convolution in one direction, channels first."""

    kind = "depthwise-gpu"
    units = MappingProxyType({16: 8, 24: 8, 32: 8, 48: 4, 64: 2})

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what has one channel and one filter in each group, else as `GpuSolver`."""
        return judge_depthwise(problem) and super().applicability(problem, target)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the transformed weights."""
        return _packed_bytes(problem, self._best_tile(problem, target))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Sizes of tiles."""
        return SearchSpace((Parameter("tile", self._tiles(problem), "side of a tile"),))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that is expected to take least time."""
        return Config(tile=self._best_tile(problem, target))

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch for the weights, and one for all the rest."""
        config = config or self.default_config(problem, target)
        tile = config.integer("tile")
        shape, tiling, units = geometry(problem), _tiling(problem, tile), self.units[tile]
        group = units * tile // 2
        program = Program(
            KernelSource("convfind_solvers_fft", "kernels/gpu_depthwise.cl"),
            defines=make_defines(TILE=tile, UNITS=units),
        )
        pack = Launch(
            KernelSpec(program, "fft_gpu_filter"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                *map(i32, (shape.groups, *shape.window, int(shape.flipped))),
            ),
            (group, -(-shape.groups // units)),
            (group, 1),
        )
        run = Launch(
            KernelSpec(program, "fft_gpu_depthwise"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.PACKED),
                BufferArg(shape.result),
                *map(i32, (shape.groups, *shape.size, *shape.out)),
                *map(i32, (tiling.tiles, *tiling.tiles_of_image, *tiling.step, *shape.padding)),
                f32(problem.alpha),
                f32(problem.beta),
            ),
            (-(-tiling.tiles // units) * group, shape.groups),
            (group, 1),
        )
        return ConvSolution(
            self.solver_id,
            (run,),
            prepare=(pack,),
            packed=_packed_bytes(problem, tile),
            config=config,
        )

    def _cost(self, problem: ConvProblem, tile: int) -> tuple[float, float, int]:
        transforms = problem.groups * (2 * _tiling(problem, tile).tiles + 1)
        operations = 2.5 * tile**2 * log2(tile**2) * transforms / _TRANSFORM_SHARES[tile]
        return operations, problem.traffic + 2 * _packed_bytes(problem, tile), 2


def _tiling(problem: ConvProblem, tile: int) -> Tiling:
    shape = geometry(problem)
    return Tiling(tile, shape.window, shape.out, shape.images)


def _packed_bytes(problem: ConvProblem, tile: int) -> int:
    return 4 * problem.groups * 2 * tile * (tile // 2 + 1)
