"""Last layers on GPUs: few results a position of many channels, channels first and stride 1."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    bytes_of_parts,
    even_parts,
    gpu_index,
    has_room,
    memory_seconds,
    part_bytes,
    parts_within,
    peak_seconds,
)
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.recipe import Memory, Recipe
from convfind.solver.search_space import Constraint, SearchSpace
from convfind_solvers_direct.gpu.conv import PLAIN_FLOAT32, TILE_FITS, GpuSolver
from convfind_solvers_direct.gpu.last_tile import (
    FEWEST_ITEMS,
    MOST_FLOATS,
    copied_at_a_time,
    fits,
    groups_of,
    is_rolled,
    items_of,
    parameters,
    usual_tile,
)
from convfind_solvers_direct.gpu.sum import sum_of_parts
from convfind_solvers_direct.gpu.wide import copies_past_registers, zeros_before
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


class GpuLast(GpuSolver):
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
        if max(shape.taps) > _LARGEST_FILTER:
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
        if not (room := has_room(target, items=FEWEST_ITEMS, local_bytes=4 * MOST_FLOATS)):
            return room
        if _usual_tile(shape, target) is None:
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
        config = _usual_tile(window(problem), target)
        assert config is not None, "asked for a problem that it does not take"
        return config

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Shapes of tiles, teams and parts."""
        shape, most = window(problem), target.max_work_group
        tile = Constraint("tile", lambda config: fits(shape, config, most), TILE_FITS)
        return SearchSpace(parameters(stages=copies_past_registers(target)), (tile,))

    def recipe(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> Recipe:
        """One launch for the parts, and where there are some, one that adds them up."""
        shape = window(problem)
        parts, per_part = _parts(problem, config, limit)
        before = zeros_before(shape)
        epilogue = Epilogue.of(problem)
        macros = {
            **{name: value for name, value in shape.macros.items() if "CHANNELS" not in name},
            **config.without("parts").defines,
            "ROLLED": is_rolled(shape, config),
            "LEAD": -before[1] % 4,
            "X_WIDTH": copied_at_a_time(shape),
            "ASYNC": copies_past_registers(target),
            "SPLIT": parts > 1,
            "STORES_FOUR": shape.out[1] % 4 == 0,
        }
        program = GPU.program("gpu_last", macros, epilogue.defines)
        items = items_of(config)
        launch = Grid(program, "direct_gpu_last", parts * groups_of(shape, config), items)(
            *(shape.source, Memory.W, Memory.WORKSPACE if parts > 1 else shape.result),
            *epilogue.arguments,
            *(shape.images, shape.channels, *shape.size, *shape.out),
            *(*before, per_part),
        )
        sharers = 1 if parts < _SHARED_PARTS else 2
        adding = (sum_of_parts(problem, target, parts, sharers=sharers),) if parts > 1 else ()
        workspace = bytes_of_parts(problem, parts)
        return Recipe(self.solver_id, (launch, *adding), workspace=workspace, config=config)


def _usual_tile(shape: Window, target: Target) -> Config | None:
    stages = 2 if copies_past_registers(target) else 1
    return usual_tile(shape, target.compute_units, target.max_work_group, stages)


def _parts(problem: ConvProblem, config: Config, limit: int | None) -> tuple[int, int]:
    """Return the parts, as many as the limit leaves room for, and the channels of one."""
    parts = parts_within(limit, config.integer("parts"), part_bytes(problem))
    return even_parts(window(problem).channels, parts)
