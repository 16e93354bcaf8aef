"""FFT convolution of each channel by its own filter on CPUs: the weight gradient."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.plane_geometry import plane_geometry
from convfind.kit.sizes import round_up
from convfind.problem import ConvProblem
from convfind.solver.applicability import Applicability
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, i32, i64
from convfind_solvers_fft.applicability import judge_depthwise
from convfind_solvers_fft.cpu import VECTOR, CpuSolver
from convfind_solvers_fft.cpu_depthwise import (
    ITEMS_PER_CORE,
    TRANSFORM_SHARE,
    depthwise_operations,
)
from convfind_solvers_fft.geometry import Tiling, tiling_of


class CpuDepthwiseWeightsSolver(CpuSolver):
    """w from x and y of a float32 depthwise convolution, in one family of layouts."""

    kind = "depthwise-cpu"
    direct_share = 0.5

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what has one channel and one filter in each group, else as `CpuSolver`."""
        return judge_depthwise(problem) and super().applicability(problem, target)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch for the sums of runs of tiles, and one for the weights."""
        config = config or self.default_config(problem, target)
        tile = config.integer("tile")
        shape, tiling = plane_geometry(problem), tiling_of(problem, tile)
        program = Program(
            KernelSource("convfind_solvers_fft", "kernels/cpu_depthwise_weights.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(TILE=tile, CHANNELS_LAST=self.channels_last),
        )
        blocks = round_up(shape.groups, VECTOR) // VECTOR
        share = _share(problem, target, tile, workspace_limit)
        runs = -(-tiling.tiles // share)
        w_channel, _, _, w_tap = shape.weight_steps
        summed = Launch(
            KernelSpec(program, "fft_cpu_depthwise_sum"),
            (
                BufferArg(Memory.X),
                BufferArg(Memory.Y),
                BufferArg(Memory.WORKSPACE),
                *map(i32, (shape.images, shape.groups, *shape.size, *shape.out)),
                *map(i32, (*tiling.tiles_of_image, *tiling.step, *shape.padding, share)),
            ),
            (runs, blocks),
            (1, 1),
        )
        weights = Launch(
            KernelSpec(program, "fft_cpu_weights"),
            (
                BufferArg(Memory.WORKSPACE),
                BufferArg(Memory.W),
                *Epilogue.of(problem).arguments,
                *map(i32, (runs, shape.groups, *shape.window)),
                *map(i64, (w_channel, w_tap)),
            ),
            (blocks,),
            (1,),
        )
        workspace = runs * _run_bytes(problem, tile)
        return Recipe(self.solver_id, (summed, weights), workspace=workspace, config=config)

    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        return depthwise_operations(problem, tiling) / TRANSFORM_SHARE


def _share(problem: ConvProblem, target: Target, tile: int, limit: int | None) -> int:
    """Tiles of a run: enough runs for all cores, few enough for the workspace."""
    tiles = tiling_of(problem, tile).tiles
    blocks = round_up(problem.groups, VECTOR) // VECTOR
    runs = min(tiles, -(-ITEMS_PER_CORE * target.compute_units // blocks))
    if limit is not None:
        runs = max(1, min(runs, limit // _run_bytes(problem, tile)))
    return -(-tiles // runs)


def _run_bytes(problem: ConvProblem, tile: int) -> int:
    return 4 * 2 * tiling_of(problem, tile).points * round_up(problem.groups, VECTOR)
