"""FFT convolution of each channel by its own filter on CPUs: forward and the data gradient."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, round_up
from convfind.kit.plane_geometry import plane_geometry
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config
from convfind.solver.recipe import Memory, Recipe, i64
from convfind_solvers_fft.applicability import judge_depthwise
from convfind_solvers_fft.cpu import VECTOR, CpuSolver, transform_operations
from convfind_solvers_fft.geometry import Tiling, tiling_of
from convfind_solvers_fft.programs import CPU

ITEMS_PER_CORE = 4
#: The share of the peak that transforms in the cache reach.
_TRANSFORM_SHARE = 0.35


class CpuDepthwise(CpuSolver):
    """The common part of all directions."""

    prefix = "fft-depthwise-cpu"
    direct_share = 0.5

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what has one channel and one filter in each group, else as `CpuSolver`."""
        return judge_depthwise(problem) and super().applicability(problem, target)

    def _operations(self, problem: ConvProblem, target: Target, tiling: Tiling) -> float:
        """Two transforms of each tile, one of each filter."""
        lanes = round_up(problem.groups, VECTOR)
        operations = transform_operations(tiling.tile) * lanes * (2 * tiling.tiles + 1)
        return operations / _TRANSFORM_SHARE


class CpuDepthwiseSolver(CpuDepthwise):
    """A float32 depthwise convolution to x or y, in one family of layouts."""

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the weights, and one for all the rest."""
        shape, tiling = plane_geometry(problem), tiling_of(problem, config.integer("tile"))
        epilogue = Epilogue.of(problem)
        program = CPU.program(
            "cpu_depthwise", epilogue.defines, TILE=tiling.tile, CHANNELS_LAST=self.channels_last
        )
        blocks = -(-shape.groups // VECTOR)
        w_channel, _, _, w_tap = shape.weight_steps
        share = -(-tiling.tiles * blocks // (ITEMS_PER_CORE * target.compute_units))
        share = min(share, tiling.tiles)
        pack = Grid(program, "fft_cpu_filter", blocks)(
            *(Memory.W, Memory.PACKED),
            *(shape.groups, *shape.window),
            *map(i64, (w_channel, w_tap)),
            shape.flipped,
        )
        run = Grid(program, "fft_cpu_depthwise", (-(-tiling.tiles // share), blocks))(
            *(shape.source, Memory.PACKED, shape.result),
            *(shape.images, shape.groups, *shape.size, *shape.out),
            *(*tiling.tiles_of_image, *tiling.step, *shape.padding),
            *epilogue.arguments,
            share,
        )
        return Recipe(
            self.solver_id,
            (run,),
            prepare=(pack,),
            packed=spectra_bytes(tiling),
            config=config,
        )


def spectra_bytes(tiling: Tiling) -> int:
    """Bytes of the spectra of one tile of each channel."""
    return 4 * 2 * tiling.points * round_up(tiling.shape.groups, VECTOR)
