"""Last layers on GPUs: few results a position of many channels, channels first and stride 1."""

from __future__ import annotations

import math
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    Limit,
    bytes_of_parts,
    copies_past_registers,
    even_parts,
    gpu_index,
    has_room,
    memory_seconds,
    parts_of_result,
    peak_seconds,
)
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import SearchSpace
from convfind_solvers_direct.gpu import last_tile
from convfind_solvers_direct.gpu.conv import MOST_FLOATS, PLAIN_FLOAT32, TileSolver
from convfind_solvers_direct.gpu.first import tiles_of
from convfind_solvers_direct.gpu.sum import sum_of_parts
from convfind_solvers_direct.programs import GPU
from convfind_solvers_direct.window import Window, judge_image, window

#: Results a position, and channels of the source from which on this pays.
_MOST_RESULTS, _FEWEST_CHANNELS = 4, 5
_LARGEST_FILTER = 15
#: The shares of the peak that the sums reach, and of the bandwidth; of sums or memory, what is
#: quicker, the share of its time that the other does not hide; seconds of a launch.
_ARITHMETIC_SHARE, _BANDWIDTH_SHARE, _SHOWING, _LAUNCH_SECONDS = 0.7, 0.825, 0.3, 5e-6
#: Parts from which on two items share the sum of those of a result.
_SHARED_PARTS = 8


class GpuLast(TileSolver):
    """Forward or backward-data."""

    prefix = "direct-gpu-last"
    channels_last = False
    domain = PLAIN_FLOAT32.without(Trait.GROUPS)
    is_dynamic = False  # how rows are copied and stored follows their length

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few results a position."""
        shape = window(problem)
        if shape.filters > _MOST_RESULTS or shape.channels < _FEWEST_CHANNELS:
            most, fewest = _MOST_RESULTS, _FEWEST_CHANNELS
            return Rejected(
                Reason.CHANNELS, f"at most {most} results, of {fewest} or more channels"
            )
        if max(shape.window) > _LARGEST_FILTER:
            return Rejected(Reason.FILTER_SIZE, f"at most {_LARGEST_FILTER} taps along an axis")
        return self._judge_sizes(problem, shape, target)

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        """Judge what the kernel counts in 32 bits, and the device."""
        if not (answer := judge_image(problem)):
            return answer
        if shape.images * math.prod(shape.out) >= 2**31:
            return Rejected(Reason.SIZE_LIMIT, "positions of all images")
        if problem.elements("w") >= 2**31:
            return Rejected(Reason.SIZE_LIMIT, "weights")
        room = has_room(target, items=last_tile.FEWEST_ITEMS, local_bytes=4 * MOST_FLOATS)
        if not room:
            return room
        if last_tile.usual_tile(shape, target) is None:
            return Rejected(Reason.FILTER_SIZE, "what a tile takes does not fit local memory")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """The sums or all tensors moved once, a share of the quicker of the two, the launches."""
        sums = peak_seconds(problem.flops, target) / _ARITHMETIC_SHARE
        memory = memory_seconds(problem.traffic, target, _BANDWIDTH_SHARE)
        launches = 2 if self.default_config(problem, target).integer("parts") > 1 else 1
        hidden = max(sums, memory) + _SHOWING * min(sums, memory)
        return gpu_index(problem, target, hidden + launches * _LAUNCH_SECONDS)

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Return the usual tile."""
        config = last_tile.usual_tile(window(problem), target)
        assert config is not None, "asked for a problem that it does not take"
        return config

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Shapes of tiles, teams and parts."""
        space = super().search_space(problem, target)
        return replace(space, parameters=last_tile.parameters(target))

    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether a config's tile fits."""
        return last_tile.fits(shape, target, config)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the parts, and where there are some, one that adds them up."""
        shape = window(problem)
        parts = parts_of_result(problem, config.integer("parts"), limit)
        parts, per_part = even_parts(shape.channels, parts)
        before = shape.zeros_before
        epilogue = Epilogue.of(problem)
        macros = {
            **{name: value for name, value in shape.macros.items() if "CHANNELS" not in name},
            **config.without("parts").defines,
            "ROLLED": last_tile.is_rolled(shape, config),
            "LEAD": -before[1] % 4,
            "X_WIDTH": last_tile.copied_at_a_time(shape),
            "ASYNC": copies_past_registers(target),
            "SPLIT": parts > 1,
            "STORES_FOUR": shape.out[1] % 4 == 0,
        }
        program = GPU.program("gpu_last", macros, epilogue.defines)
        groups = parts * tiles_of(shape, config)
        launch = Grid(program, "direct_gpu_last", groups, last_tile.items_of(config))(
            *(shape.source, Memory.W, Memory.WORKSPACE if parts > 1 else shape.result),
            *epilogue.arguments,
            *(shape.images, shape.channels, *shape.size, *shape.out),
            *(*before, per_part),
        )
        sharers = 1 if parts < _SHARED_PARTS else 2
        adding = (sum_of_parts(problem, target, parts, sharers=sharers),) if parts > 1 else ()
        workspace = bytes_of_parts(problem, parts)
        return Recipe(self.solver_id, (launch, *adding), workspace=workspace, config=config)
