"""Few channels a group on GPUs: the weight gradient."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.epilogue import Epilogue
from convfind.kit.parts import even_parts, parts_within
from convfind.kit.register_limit import register_limit
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config, ConfigValue
from convfind.solver.defines import DefineValue, make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, ScalarArg, i32
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import DataType, Direction
from convfind_solvers_direct.gpu.conv import (
    ITEMS,
    MOST_WEIGHTS,
    PACKAGE,
    ROWS,
    GpuDirect,
    most_weights,
)
from convfind_solvers_direct.gpu.planes_tile import reciprocal
from convfind_solvers_direct.gpu.sum import is_split, sum_of_parts
from convfind_solvers_direct.window import Window, window

_UNITS = 32
_TILES = (4096, 12032)
_PARTS = (*range(1, 16), *(part << i for i in range(8) for part in range(16, 32, 4)), 4096)
#: Work-groups that fill a unit several times; fewer where each writes many sums.
_GROUPS_A_UNIT = 16
_FEW_GROUPS_A_UNIT = 4
#: The same where items have channels in fours, which they do where the taps are few.
_LANES, _MOST_WIDE_TAPS, _WIDE_GROUPS_A_UNIT = 4, 9, 3

#: Sums that an item keeps, channels last, of filters with more taps in a row than these.
_MOST_WIDE_SUMS, _NARROW = 48, 16
#: Sums, gradients and a row of x of an item, channels last; so many gradients always fit.
_MOST_KEPT, _FEW_GRADIENTS = 128, 28


@dataclass(frozen=True, slots=True)
class Split:
    """How the sum over images and positions is cut."""

    groups: int  # work-groups along the weights, without chunks
    steps: int
    arguments: tuple[ScalarArg, ...]  # behind per_part


class GpuWeights(GpuDirect):
    """w from x and y: sums of parts, added up by a second launch in a fixed order."""

    version = 2
    _file: ClassVar[str] = "gpu_weights"

    def __init__(self) -> None:
        super().__init__(Direction.BACKWARD_WEIGHTS)

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Bytes of the parts; none under a limit of 0."""
        config = self.default_config(problem, target)
        parts, _ = self._parts(problem, config, limit)
        return 4 * parts * problem.elements("w") if is_split(problem, config, limit) else 0

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Enough parts to fill the device."""
        shape = window(problem)
        config = Config(
            self._extra(shape),
            rows=self._rows(shape),
            items=min(128, target.max_work_group),
            parts=1,
        )
        if not all(constraint.holds(config) for constraint in self._constraints(shape)):
            config = config.replace(rows=1)
        groups = _FEW_GROUPS_A_UNIT if math.prod(shape.taps) > 9 else _GROUPS_A_UNIT
        if self.channels_last and math.prod(shape.taps) <= 9:
            groups //= 2  # each of them writes the sums of 32 channels
        wanted = -(-groups * target.compute_units // self._groups(shape, config, target))
        return config.replace(parts=parts_of(wanted))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Places that an item takes at a time, work-groups, parts."""
        shape = window(problem)
        size = Constraint(
            "size",
            lambda config: config.integer("items") <= target.max_work_group,
            f"at most {target.max_work_group} items",
        )
        parts = Parameter("parts", _PARTS, "parts of the sum")
        return SearchSpace(
            (ROWS, ITEMS, parts, *self._parameters(shape)), (size, *self._constraints(shape))
        )

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch for the parts, and one that adds them up."""
        chosen = config or self.default_config(problem, target)
        shape = window(problem)
        parts, per_part = self._parts(problem, chosen, workspace_limit)
        has_parts = is_split(problem, chosen, workspace_limit)
        split, items = self._split(shape, chosen), chosen.integer("items")
        chunks = -(-shape.taps[0] // self._chunk(shape, target))
        macros: dict[str, DefineValue] = {
            "DTYPE": problem.dtype.upper(),
            **shape.macros,
            "SPLIT": has_parts,
            **{name.upper(): value for name, value in chosen.items() if name != "parts"},
            **self._macros(shape, chosen, target),
            **({"STEPPED": True} if self._is_stepped(problem) else {}),
        }
        program = Program(
            KernelSource(PACKAGE, f"kernels/{self._file}.cl"),
            defines=make_defines(macros),
            options=register_limit(target) if self._is_squeezed(problem, target) else (),
        )
        launch = Launch(
            KernelSpec(program, f"direct_{self._file}"),
            (
                BufferArg(Memory.X),
                BufferArg(Memory.Y),
                BufferArg(Memory.WORKSPACE if has_parts else Memory.W),
                *Epilogue.of(problem).arguments,
                *map(i32, (shape.images, shape.groups, *shape.size, *shape.out)),
                *map(i32, (*shape.padding, per_part)),
                *split.arguments,
            ),
            (split.groups * items, chunks, parts),
            (items, 1, 1),
        )
        if not has_parts:
            return Recipe(self.solver_id, (launch,), config=chosen)
        workspace = 4 * parts * problem.elements("w")
        launches = (launch, sum_of_parts(problem, target, parts))
        return Recipe(self.solver_id, launches, workspace=workspace, config=chosen)

    @abstractmethod
    def _macros(self, shape: Window, config: Config, target: Target) -> dict[str, DefineValue]:
        """The kernel's macros beside the config and those of gpu_window.h."""

    @abstractmethod
    def _split(self, shape: Window, config: Config) -> Split:
        """Work-groups, steps, and the arguments that depend on the layout."""

    @abstractmethod
    def _extra(self, shape: Window) -> dict[str, ConfigValue]:
        """Defaults of the parameters beside those of both layouts."""

    @abstractmethod
    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        """The parameters beside those of both layouts."""

    @abstractmethod
    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        """The constraints beside those of both layouts."""

    def _is_stepped(self, problem: ConvProblem) -> bool:
        """Return whether pointers go from place to place."""
        return False

    def _is_squeezed(self, problem: ConvProblem, target: Target) -> bool:
        """Whether NVIDIA's assembler may spill registers to run more work-groups at a time."""
        return False

    def _rows(self, shape: Window) -> int:
        """Rows of y that an item takes at a time."""
        if shape.taps[0] == 1:
            return 1
        if self.channels_last:
            return 2 if shape.stride[1] > 1 else 7
        # More taps leave no registers for so many rows.
        return 14 if math.prod(shape.taps) < MOST_WEIGHTS and shape.out[0] >= 14 else 7

    def _groups(self, shape: Window, config: Config, target: Target) -> int:
        return self._split(shape, config).groups * -(-shape.taps[0] // self._chunk(shape, target))

    def _chunk(self, shape: Window, target: Target) -> int:
        """Filter rows whose sums an item keeps in registers."""
        height, width = shape.taps
        most = most_weights(target)
        if height * width <= most:
            return height
        return max(1, min(most, 64) // width)

    def _parts(self, problem: ConvProblem, config: Config, limit: int | None) -> tuple[int, int]:
        """Return the parts, as many as fit the limit, and the steps of one."""
        parts = 1
        if is_split(problem, config, limit):
            parts = parts_within(limit, config.integer("parts"), 4 * problem.elements("w"))
        return even_parts(self._split(window(problem), config).steps, parts)


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
            Constraint(
                "tile",
                lambda config: (
                    _band(shape, config.integer("rows"), config.integer("tile_floats")) is not None
                    and shape.taps[1] * config.integer("items") <= config.integer("tile_floats")
                ),
                "what the rows of an item take has to fit local memory",
            ),
            Constraint(
                "pairs",
                lambda config: config.integer("items") >= shape.channels * shape.filters,
                "an item or more for each channel of the weights",
            ),
        )


class PixelsWeights(GpuWeights):
    """Channels last."""

    channels_last = True

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if target.local_memory < 4 * 256 * shape.taps[1]:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * 256 * shape.taps[1]} bytes")
        if shape.images * math.prod(shape.out) >= 2**31:
            return Rejected(Reason.SIZE_LIMIT, "positions of all images")
        return APPLICABLE

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Four channels an item where their sums fit registers."""
        config = super().default_config(problem, target)
        shape = window(problem)
        if not _can_be_wide(shape, problem.dtype):
            return config
        rows = 2 if shape.stride[1] > 1 else 4
        config = config.replace(lanes=_LANES, rows=min(rows, shape.out[0]), columns=2)
        wanted = _WIDE_GROUPS_A_UNIT * target.compute_units // self._split(shape, config).groups
        return config.replace(parts=parts_of(wanted))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """As all, and lanes only for float32."""
        space = super().search_space(problem, target)
        is_wide = _can_be_wide(window(problem), problem.dtype)
        lanes = Constraint(
            "lanes",
            lambda config: is_wide or config.integer("lanes") == 1,
            "four channels of float32 with few weights of their own each",
        )
        sums = (width := window(problem).taps[1]) * self._chunk(window(problem), target)
        kept = Constraint(
            "sums",
            lambda config: (
                not self._is_stepped(problem)
                or config.integer("rows") * config.integer("columns")
                <= max(_FEW_GRADIENTS, _MOST_KEPT - sums - width - config.integer("columns"))
            ),
            "sums, gradients and x have to fit registers together",
        )
        return SearchSpace(space.parameters, (*space.constraints, lanes, kept))

    def _is_stepped(self, problem: ConvProblem) -> bool:
        # Floats with few taps leave room for the offsets, and were measured so.
        few = math.prod(window(problem).taps) <= _MOST_WIDE_TAPS
        return not few or problem.dtype is not DataType.FLOAT32

    def _chunk(self, shape: Window, target: Target) -> int:
        rows = super()._chunk(shape, target)
        width = shape.taps[1]
        return rows if width <= _NARROW else min(rows, max(1, _MOST_WIDE_SUMS // width))

    def _macros(self, shape: Window, config: Config, target: Target) -> dict[str, DefineValue]:
        units = _UNITS // config.integer("lanes")
        return {"CHANNELS_LAST": True, "CHUNK": self._chunk(shape, target), "UNITS": units}

    def _split(self, shape: Window, config: Config) -> Split:
        units = shape.groups * shape.filters * shape.channels
        steps = -(-shape.out[0] // config.integer("rows"))
        steps *= -(-shape.out[1] // config.integer("columns"))
        return Split(-(-units // _UNITS), shape.images * steps, ())

    def _extra(self, shape: Window) -> dict[str, ConfigValue]:
        return {"columns": 7 if shape.stride[1] > 1 else 4, "lanes": 1}

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        return (
            Parameter("columns", (1, 2, 4, 7, 8), "columns of y that an item takes at a time"),
            Parameter("lanes", (1, _LANES), "channels of an item"),
        )

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        return (
            Constraint(
                "registers",
                lambda config: (
                    config.integer("rows") * config.integer("columns") * config.integer("lanes")
                    <= 64
                ),
                "what is multiplied has to fit them",
            ),
        )


def _is_long(shape: Window) -> bool:
    return shape.taps[1] > _MOST_WIDE_SUMS // 2


def _can_be_wide(shape: Window, dtype: DataType) -> bool:
    return (
        dtype is DataType.FLOAT32
        and shape.channels == shape.filters == 1
        and shape.groups % _LANES == 0
        and math.prod(shape.taps) <= _MOST_WIDE_TAPS
    )


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


def parts_of(wanted: int) -> int:
    """Return the most parts of the search space that are not more than wanted."""
    return max((parts for parts in _PARTS if parts <= wanted), default=1)


#: The solvers of backward-weights, best first.
WEIGHTS_SOLVERS: tuple[type[GpuWeights], ...] = (PlanesWeights, PixelsWeights)
