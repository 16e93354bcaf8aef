"""FFT convolution of each channel by its own filter on GPUs: the weight gradient."""

from __future__ import annotations

from types import MappingProxyType

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Limit, even_parts, parts_within
from convfind.problem import ConvProblem
from convfind.solver import Config
from convfind.solver.recipe import BufferArg, Memory, Recipe, i32
from convfind_solvers_fft.geometry import tiling_of
from convfind_solvers_fft.gpu_depthwise import GpuDepthwise, spectra_bytes

#: Work-groups for each unit of a GPU: enough to be busy whatever they need of local memory.
_GROUPS_PER_UNIT = 16


class GpuDepthwiseWeightsSolver(GpuDepthwise):
    """w from x and y of a float32 depthwise convolution, in one family of layouts."""

    #: A work-group has tiles of x and of y.
    buffers = 2
    units = MappingProxyType({16: 8, 24: 8, 32: 4, 48: 2, 64: 1})
    file = "gpu_depthwise_weights"

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the sums of runs of tiles, one for those of all, one for the weights."""
        tile = config.integer("tile")
        tiling, units = tiling_of(problem, tile), self.units[tile]
        data, gradient, weights = self.views(problem, tiling)
        channels = -(-problem.groups // units) if self.channels_last else problem.groups
        turns = tiling.tiles if self.channels_last else -(-tiling.tiles // units)
        run_bytes = channels * spectra_bytes(units, tile)
        runs = min(turns, -(-_GROUPS_PER_UNIT * target.compute_units // channels))
        runs, share = even_parts(turns, parts_within(limit, runs, run_bytes))
        sums = BufferArg(Memory.WORKSPACE)
        summed = self.launch(
            "fft_gpu_depthwise_sum",
            tile,
            channels * runs,
            *(BufferArg(Memory.X), BufferArg(Memory.Y), sums),
            *(*data.arguments, *gradient.arguments, *data.tiles(0, tiling.tiles)),
            *(i32(runs), i32(share)),
        )
        group = units * tile // 2
        added = self.launch(
            "fft_gpu_add_runs",
            tile,
            channels * (spectra_bytes(units, tile) // 4 // group),
            sums,
            i32(runs),
        )
        result = self.launch(
            "fft_gpu_weights",
            tile,
            -(-problem.groups // units),
            *(sums, BufferArg(Memory.W)),
            *(*weights.arguments, i32(problem.groups), i32(runs)),
            *Epilogue.of(problem).arguments,
        )
        steps = (summed, added, result) if runs > 1 else (summed, result)
        return Recipe(self.solver_id, steps, workspace=runs * run_bytes, config=config)
