"""FFT convolution of each channel by its own filter on GPUs: forward and the data gradient."""

from __future__ import annotations

from dataclasses import replace
from math import log2
from types import MappingProxyType

from convfind.device.target import Target
from convfind.kit.blocks import NO_EPILOGUE, Epilogue, Grid, Limit, round_up
from convfind.problem import ConvProblem
from convfind.solver import Applicability, Config
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, Recipe, i32
from convfind.solver.search_space import Parameter, SearchSpace
from convfind_solvers_fft.applicability import judge_depthwise
from convfind_solvers_fft.geometry import Tiling, tiling_of
from convfind_solvers_fft.gpu import GpuSolver
from convfind_solvers_fft.programs import GPU
from convfind_solvers_fft.view import View

#: Share of the peak that transforms of a size reached on an H200.
_TRANSFORM_SHARES = {16: 0.3, 24: 0.3, 32: 0.38, 48: 0.26, 64: 0.18}


class GpuDepthwise(GpuSolver):
    """The common part of all directions."""

    prefix = "fft-depthwise-gpu"
    file: str  # of the kernels

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take what has one channel and one filter in each group, else as `GpuSolver`."""
        return judge_depthwise(problem) and super().applicability(problem, target)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Sizes of tiles."""
        return SearchSpace((Parameter("tile", self._tiles(problem, target), "side of a tile"),))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The tile that is expected to take least time."""
        return Config(tile=self._best_tile(problem, target))

    def views(self, problem: ConvProblem, tiling: Tiling) -> tuple[View, View, View]:
        """As `GpuSolver`, of one group of all channels; of the weights all are units."""

        def joined(view: View) -> View:
            image, channel, _ = view.steps
            if view.tiling is not None:
                return replace(view, channels=problem.groups, steps=(image, 0, channel))
            images, channels = (1, problem.groups) if self.channels_last else (problem.groups, 1)
            steps = (channel, 0, channel)
            return replace(view, images=images, channels=channels, steps=steps)

        first, second, third = super().views(problem, tiling)
        return joined(first), joined(second), joined(third)

    def lines_and_units(self, problem: ConvProblem, tiling: Tiling) -> tuple[int, int]:
        """Return tiles and channels, those last that neighbouring units are."""
        sizes = (tiling.tiles, problem.groups)
        return sizes if self.channels_last else sizes[::-1]

    def channels(self, problem: ConvProblem, tile: int) -> int:
        """Return the channels, where they are units filled up."""
        units = self.units[tile]
        return round_up(problem.groups, units) if self.channels_last else problem.groups

    def launch(
        self,
        entry: str,
        tile: int,
        groups: int,
        *arguments: Argument | str | int,
        epilogue: Epilogue = NO_EPILOGUE,
    ) -> Launch:
        """Return a launch of so many work-groups."""
        units = self.units[tile]
        program = GPU.program(
            *(self.file, epilogue.defines),
            TILE=tile,
            UNITS=units,
            CHANNELS_LAST=self.channels_last,
        )
        return Grid(program, entry, groups, units * tile // 2)(*arguments)

    def _cost(self, problem: ConvProblem, tile: int) -> tuple[float, float, int]:
        transforms = problem.groups * (2 * tiling_of(problem, tile).tiles + 1)
        operations = 2.5 * tile**2 * log2(tile**2) * transforms / _TRANSFORM_SHARES[tile]
        return operations, problem.traffic + 2 * spectra_bytes(problem.groups, tile), 2


class GpuDepthwiseSolver(GpuDepthwise):
    """A float32 depthwise convolution to x or y, in one family of layouts."""

    units = MappingProxyType({16: 8, 24: 8, 32: 8, 48: 4, 64: 2})
    file = "gpu_depthwise"

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the weights, and one for all the rest."""
        tile = config.integer("tile")
        tiling, units = tiling_of(problem, tile), self.units[tile]
        data, weights, result = self.views(problem, tiling)
        pack = self.launch(
            "fft_gpu_filter",
            tile,
            -(-problem.groups // units),
            *(BufferArg(Memory.W), BufferArg(Memory.PACKED)),
            *(*weights.arguments, i32(problem.groups)),
        )
        epilogue = Epilogue.of(problem)
        lines, others = self.lines_and_units(problem, tiling)
        run = self.launch(
            "fft_gpu_depthwise",
            tile,
            lines * -(-others // units),
            *map(BufferArg, (data.memory, Memory.PACKED, result.memory)),
            *(*data.arguments, *result.arguments, *data.tiles(0, tiling.tiles)),
            *epilogue.arguments,
            epilogue=epilogue,
        )
        return Recipe(
            self.solver_id,
            (run,),
            prepare=(pack,),
            packed=spectra_bytes(self.channels(problem, tile), tile),
            config=config,
        )


def spectra_bytes(channels: int, tile: int) -> int:
    """Bytes of the spectra of so many tiles."""
    return 4 * channels * 2 * tile * (tile // 2 + 1)
