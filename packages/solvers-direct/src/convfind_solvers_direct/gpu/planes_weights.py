"""Few channels a group on GPUs, channels first: the weight gradient."""

from __future__ import annotations

import math

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, ConfigValue, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import i32
from convfind.solver.search_space import Constraint, Parameter
from convfind.types import DataType
from convfind_solvers_direct.gpu.planes_tile import reciprocal
from convfind_solvers_direct.gpu.weights import GpuWeights, Split
from convfind_solvers_direct.window import Window, window

_TILES = (4096, 12032)
#: With more taps in a row halves need the registers for them.
_LONG = 24


class PlanesWeights(GpuWeights):
    """Channels first."""

    channels_last = False

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if target.local_memory < 4 * _TILES[-1]:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * _TILES[-1]} bytes")
        items = min(128, target.max_work_group)
        if shape.channels * shape.filters > items:
            return Rejected(Reason.WORK_GROUP, f"needs {shape.channels * shape.filters} items")
        if _band(shape, 1, _TILES[-1]) is None:
            return Rejected(Reason.SIZE_LIMIT, "rows do not fit local memory")
        return APPLICABLE

    def _is_squeezed(self, problem: ConvProblem, target: Target) -> bool:
        shape = window(problem)
        return problem.dtype is not DataType.FLOAT32 and (shape.channels > 1 or _is_long(shape))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Fewer rows where halves need the registers for a long row of taps."""
        config = super().default_config(problem, target)
        if problem.dtype is not DataType.FLOAT32 and _is_long(window(problem)):
            return config.replace(rows=min(config.integer("rows"), 4))
        return config

    def _macros(self, shape: Window, config: Config, target: Target) -> dict[str, DefineValue]:
        return {"CHANNELS_LAST": False, "CHUNK": self._chunk(shape, target)}

    def _split(self, shape: Window, config: Config) -> Split:
        rows, items = config.integer("rows"), config.integer("items")
        room = config.integer("tile_floats")
        pairs, band = shape.channels * shape.filters, _band(shape, rows, room)
        assert band is not None
        plane, strips = math.prod(shape.size), band // rows
        bands = -(-shape.out[0] // band)
        sets = 1
        if bands == 1:
            # As many groups as there are items for, at as many positions as there are.
            most = (room - 8) // (shape.channels * plane)
            useful = min(items // pairs, strips * shape.out[1])
            sets = max(1, min(most, shape.groups, items // (pairs * max(useful, 1))))
        arguments = (
            *map(i32, (sets, items // (sets * pairs), bands, band)),
            i32(reciprocal(shape.out[1])),
        )
        return Split(-(-shape.groups // sets), shape.images * bands, arguments)

    def _extra(self, shape: Window) -> dict[str, ConfigValue]:
        return {"tile_floats": _TILES[0 if _band(shape, 1, _TILES[0]) else 1]}

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        return (Parameter("tile_floats", _TILES, "floats in local memory"),)

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        return (
            Constraint.among(
                *("tile", ("rows", "items", "tile_floats")),
                lambda rows, items, room: (
                    _band(shape, rows, room) is not None and shape.window[1] * items <= room
                ),
                "what the rows of an item take has to fit local memory",
            ),
            Constraint.among(
                *("pairs", ("items",), lambda items: items >= shape.channels * shape.filters),
                "an item or more for each channel of the weights",
            ),
        )


def _is_long(shape: Window) -> bool:
    return shape.window[1] > _LONG


def _band(shape: Window, rows: int, room: int) -> int | None:
    """Rows of y, a multiple of an item's, whose rows of x fit local memory; None if none do."""
    strips = -(-shape.out[0] // rows)
    if shape.channels * math.prod(shape.size) + 8 <= room:
        return strips * rows
    for bands in range(2, strips + 1):
        band = -(-strips // bands) * rows
        held = min(shape.span(band, 0), shape.size[0]) * shape.size[1]
        if shape.channels * (held + 8) <= room:
            return band
    return None
