"""Few channels a group on GPUs, channels first: forward and backward-data."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import i64
from convfind.solver.search_space import Constraint, Parameter
from convfind_solvers_direct.gpu.conv import (
    MOST_WEIGHTS,
    GpuConv,
    Groups,
    Numbers,
    is_unrolled,
    rows_of,
    slots_of,
)
from convfind_solvers_direct.gpu.planes_tile import planes_tile, reciprocal
from convfind_solvers_direct.window import Window, window

#: Floats of local memory that devices with 48 KiB have room for.
_MOST_FLOATS = 12032
#: Floats of a plane of which some share a tile.
_SMALL_PLANE = 1024


class PlanesConv(GpuConv):
    """Channels first."""

    channels_last = False
    version = 2
    _file = "gpu_planes"

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Rows that divide most images, result channels as many as registers hold weights of."""
        shape = window(problem)
        slots = math.prod((shape.window[0], slots_of(shape)[0]))
        results = max(1, min(shape.filters, 4, MOST_WEIGHTS // slots))
        items = min(128, target.max_work_group)
        rows = rows_of(shape, 14 if shape.channels == 1 and shape.out[0] >= 14 else 7)
        small = math.prod(shape.size) <= _SMALL_PLANE
        floats = 8192 if shape.channels > 1 else 2048 if small else 4096
        config = Config(rows=rows, items=items, results=results, tile_floats=floats)
        # Where these rows do not fit, more memory or fewer rows do.
        others = (
            config.replace(tile_floats=room, rows=count)
            for room in (floats, 8192, _MOST_FLOATS)
            for count in (rows, rows_of(shape, 7), rows_of(shape, 4), rows_of(shape, 1))
        )
        constraints = self._constraints(shape)
        return next(c for c in others if all(constraint.holds(c) for constraint in constraints))

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        config = Config(rows=rows_of(shape, 1), tile_floats=_MOST_FLOATS)
        if target.local_memory < 4 * _MOST_FLOATS:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * _MOST_FLOATS} bytes")
        if planes_tile(shape, config) is None:
            return Rejected(Reason.FILTER_SIZE, "what a result takes does not fit local memory")
        return APPLICABLE

    def _macros(self, shape: Window) -> dict[str, DefineValue]:
        slots, tap_step, slot_step = slots_of(shape)
        return {"SLOTS": slots, "TAP_STEP": tap_step, "SLOT_STEP": slot_step}

    def _launch(self, shape: Window, config: Config) -> tuple[Numbers, Groups]:
        tile = planes_tile(shape, config)
        assert tile is not None
        sets = shape.images * shape.groups
        strips = tile.band // config.integer("rows")
        numbers: Numbers = (
            i64(sets),
            *(shape.groups, *shape.size, *shape.out, *shape.padding, shape.shift[0]),
            *(tile.sets, tile.bands, tile.band, tile.tiles, tile.tile, tile.tile_source),
            *(reciprocal(strips), reciprocal(tile.tile)),
        )
        return numbers, -(-sets // tile.sets) * tile.bands * tile.tiles

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        results = tuple(range(1, shape.filters + 1))
        return (
            Parameter("results", results, "result channels of an item"),
            Parameter("tile_floats", (2048, 4096, 8192, _MOST_FLOATS), "floats in local memory"),
        )

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        weights = shape.window[0] * slots_of(shape)[0]

        def has_registers(config: Config) -> bool:
            rows, results = config.integers("rows", "results")
            if is_unrolled(shape, config) and results * weights > MOST_WEIGHTS:
                return False
            return rows * results <= 64

        return (
            Constraint("registers", has_registers, "sums and weights have to fit them"),
            Constraint(
                "tile",
                lambda config: planes_tile(shape, config) is not None,
                "what the rows of an item take has to fit local memory",
            ),
        )
