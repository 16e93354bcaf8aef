"""FFT convolution of each channel by its own filter on CPUs: forward and the data gradient."""

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
from convfind_solvers_fft.cpu import VECTOR, CpuSolver, transform_operations
from convfind_solvers_fft.geometry import Tiling, tiling_of

ITEMS_PER_CORE = 4
#: The share of the peak that transforms in the cache reach.
TRANSFORM_SHARE = 0.35


class CpuDepthwiseSolver(CpuSolver):
    """A float32 depthwise convolution in one direction and one family of layouts."""

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
        """One launch for the weights, and one for all the rest."""
        config = config or self.default_config(problem, target)
        shape, tiling = plane_geometry(problem), tiling_of(problem, config.integer("tile"))
        epilogue = Epilogue.of(problem)
        program = Program(
            KernelSource("convfind_solvers_fft", "kernels/cpu_depthwise.cl"),
            KernelLanguage.OPENCL_C,
            make_defines(epilogue.defines, TILE=tiling.tile, CHANNELS_LAST=self.channels_last),
        )
        blocks = round_up(shape.groups, VECTOR) // VECTOR
        w_channel, _, _, w_tap = shape.weight_steps
        share = -(-tiling.tiles * blocks // (ITEMS_PER_CORE * target.compute_units))
        share = min(share, tiling.tiles)
        pack = Launch(
            KernelSpec(program, "fft_cpu_filter"),
            (
                BufferArg(Memory.W),
                BufferArg(Memory.PACKED),
                *map(i32, (shape.groups, *shape.window)),
                *map(i64, (w_channel, w_tap)),
                i32(int(shape.flipped)),
            ),
            (blocks,),
            (1,),
        )
        run = Launch(
            KernelSpec(program, "fft_cpu_depthwise"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.PACKED),
                BufferArg(shape.result),
                *map(i32, (shape.images, shape.groups, *shape.size, *shape.out)),
                *map(i32, (*tiling.tiles_of_image, *tiling.step, *shape.padding)),
                *epilogue.arguments,
                i32(share),
            ),
            (-(-tiling.tiles // share), blocks),
            (1, 1),
        )
        return Recipe(
            self.solver_id,
            (run,),
            prepare=(pack,),
            packed=_packed_bytes(problem, config),
            config=config,
        )

    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        return depthwise_operations(problem, tiling) / TRANSFORM_SHARE


def depthwise_operations(problem: ConvProblem, tiling: Tiling) -> float:
    """Operations of the transforms: two of each tile, one of each filter."""
    lanes = round_up(problem.groups, VECTOR)
    return transform_operations(tiling.tile) * lanes * (2 * tiling.tiles + 1)


def _packed_bytes(problem: ConvProblem, config: Config) -> int:
    points = tiling_of(problem, config.integer("tile")).points
    return 4 * 2 * points * round_up(problem.groups, VECTOR)
