"""FFT convolution of each channel by its own filter on CPUs: the weight gradient."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, even_parts, parts_within
from convfind.kit.plane_geometry import plane_geometry
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.recipe import Memory, Recipe, i64
from convfind_solvers_fft.cpu import VECTOR
from convfind_solvers_fft.cpu_depthwise import ITEMS_PER_CORE, CpuDepthwise, spectra_bytes
from convfind_solvers_fft.geometry import tiling_of
from convfind_solvers_fft.programs import CPU


class CpuDepthwiseWeightsSolver(CpuDepthwise):
    """w from x and y of a float32 depthwise convolution, in one family of layouts."""

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the sums of runs of tiles, and one for the weights."""
        tile = config.integer("tile")
        shape, tiling = plane_geometry(problem), tiling_of(problem, tile)
        program = CPU.program("cpu_depthwise_weights", TILE=tile, CHANNELS_LAST=self.channels_last)
        blocks = -(-shape.groups // VECTOR)
        runs = min(tiling.tiles, -(-ITEMS_PER_CORE * target.compute_units // blocks))
        runs = parts_within(limit, runs, spectra_bytes(tiling))
        runs, share = even_parts(tiling.tiles, runs)
        w_channel, _, _, w_tap = shape.weight_steps
        summed = Grid(program, "fft_cpu_depthwise_sum", (runs, blocks))(
            *(Memory.X, Memory.Y, Memory.WORKSPACE),
            *(shape.images, shape.groups, *shape.size, *shape.out),
            *(*tiling.tiles_of_image, *tiling.step, *shape.padding, share),
        )
        weights = Grid(program, "fft_cpu_weights", blocks)(
            *(Memory.WORKSPACE, Memory.W),
            *Epilogue.of(problem).arguments,
            *(runs, shape.groups, *shape.window),
            *map(i64, (w_channel, w_tap)),
        )
        workspace = runs * spectra_bytes(tiling)
        return Recipe(self.solver_id, (summed, weights), workspace=workspace, config=config)
