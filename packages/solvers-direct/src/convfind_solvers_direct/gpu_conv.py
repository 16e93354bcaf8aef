"""Few channels a group on GPUs: forward and backward-data."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.config import Config
from convfind.defines import DefineValue, make_defines
from convfind.kernel_source import KernelSource
from convfind.kernel_spec import KernelSpec, Program
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.search_space import Constraint, Parameter, SearchSpace
from convfind.solution import BufferArg, ConvSolution, Launch, Memory, ScalarArg, f32, i32, i64
from convfind.solver import TunableSolver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_direct.planes_tile import planes_tile, reciprocal
from convfind_solvers_direct.window import Window, judge, window

PACKAGE = "convfind_solvers_direct"
_DTYPES = (DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16)
#: Weights that an item keeps in registers.
MOST_WEIGHTS = 81
#: The same where hiprtc compiles: of more it spills some, and takes minutes over that.
_MOST_WEIGHTS_HIP = 49
#: Source rows that a walk is unrolled over.
_LONGEST_WALK = 48
#: Floats of local memory that devices with 48 KiB have room for.
_MOST_FLOATS = 12032
#: Floats of a plane of which some share a tile.
_SMALL_PLANE = 1024
_MOST_ALONG_AXIS = 65535
#: Of one unit of an H200: FLOP/s at the peak, and bytes/s of memory.
_UNIT_PEAK = 507e9
_UNIT_BANDWIDTH = 32e9

_FEWEST_ITEMS = 32
ROWS = Parameter("rows", tuple(range(1, 17)), "rows of the result of an item")
ITEMS = Parameter("items", (_FEWEST_ITEMS, 64, 128, 256), "of a work-group")


class GpuDirect(TunableSolver):
    """A convolution with few channels a group in one direction and one family of layouts."""

    direction: ClassVar[Direction]
    channels_last: ClassVar[bool]
    arithmetic_share: ClassVar[float] = 0.3  # of the peak, which window sums reach
    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends = ("opencl", "hip")

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take packed tensors of few channels a group in the solver's layout, on GPUs."""
        if target.kind is DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for GPUs")
        if problem.direction is not self.direction:
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not {self.direction}")
        if problem.dtype not in _DTYPES:
            return Rejected(Reason.DTYPE, f"not {problem.dtype}")
        if not (answer := judge(problem, channels_last=self.channels_last)):
            return answer
        if target.max_work_group < _FEWEST_ITEMS:
            return Rejected(Reason.WORK_GROUP, f"needs {_FEWEST_ITEMS} work-items")
        return self._judge_sizes(problem, window(problem), target)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """All tensors moved once, or the sums where these take longer."""
        memory = problem.traffic / _UNIT_BANDWIDTH
        peak = problem.flops / _UNIT_PEAK
        return max(0.8 * peak / max(memory, peak / self.arithmetic_share), 0.02)

    @abstractmethod
    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        """Judge what depends on the layout."""


class GpuConv(GpuDirect):
    """Forward and backward-data."""

    _file: ClassVar[str]

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> ConvSolution:
        """One launch, no workspace."""
        chosen = config or self.default_config(problem, target)
        shape = window(problem)
        macros: dict[str, DefineValue] = {
            "DTYPE": problem.dtype.upper(),
            **shape.macros,
            "UNROLLED": _is_unrolled(shape, chosen, most_weights(target)),
            **{name.upper(): value for name, value in chosen.items()},
            **self._macros(shape),
        }
        program = Program(
            KernelSource(PACKAGE, f"kernels/{self._file}.cl"), defines=make_defines(macros)
        )
        sizes, groups = self._launch(shape, chosen)
        launch = Launch(
            KernelSpec(program, f"direct_{self._file}"),
            (
                BufferArg(shape.source),
                BufferArg(Memory.W),
                BufferArg(shape.result),
                f32(problem.alpha),
                f32(problem.beta),
                *sizes,
            ),
            (groups[0] * chosen.integer("items"), *groups[1:]),
            (chosen.integer("items"), *(1 for _ in groups[1:])),
        )
        return ConvSolution(self.solver_id, (launch,), config=chosen)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Rows and columns of an item, and work-groups."""
        shape = window(problem)
        constraints = [
            Constraint(
                "size",
                lambda config: config.integer("items") <= target.max_work_group,
                f"at most {target.max_work_group} items",
            ),
            *self._constraints(shape),
        ]
        if shape.is_gradient:
            constraints.append(
                Constraint(
                    "rows",
                    lambda config: config.integer("rows") % shape.stride[0] == 0,
                    "whole strides",
                )
            )
        return SearchSpace((ROWS, ITEMS, *self._parameters(shape)), tuple(constraints))

    @abstractmethod
    def _macros(self, shape: Window) -> dict[str, DefineValue]:
        """The kernel's macros beside those of gpu_window.h and the config."""

    @abstractmethod
    def _launch(
        self, shape: Window, config: Config
    ) -> tuple[tuple[ScalarArg, ...], tuple[int, ...]]:
        """Return the arguments behind beta, and the work-groups along each axis."""

    @abstractmethod
    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        """The parameters beside rows and items."""

    @abstractmethod
    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        """The constraints beside those of all."""


class PlanesConv(GpuConv):
    """Channels first."""

    channels_last = False
    _file = "gpu_planes"

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Rows that divide most images, result channels as many as registers hold weights of."""
        shape = window(problem)
        slots = math.prod((shape.taps[0], _slots(shape)[0]))
        results = max(1, min(shape.filters, 4, MOST_WEIGHTS // slots))
        items = min(128, target.max_work_group)
        rows = _rows(shape, 14 if shape.channels == 1 and shape.out[0] >= 14 else 7)
        small = math.prod(shape.size) <= _SMALL_PLANE
        floats = 8192 if shape.channels > 1 else 2048 if small else 4096
        config = Config(rows=rows, items=items, results=results, tile_floats=floats)
        # Where these rows do not fit, more memory or fewer rows do.
        others = (
            config.replace(tile_floats=room, rows=count)
            for room in (floats, 8192, _MOST_FLOATS)
            for count in (rows, _rows(shape, 7), _rows(shape, 4), _rows(shape, 1))
        )
        constraints = self._constraints(shape)
        return next(c for c in others if all(constraint.holds(c) for constraint in constraints))

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        config = Config(rows=_rows(shape, 1), tile_floats=_MOST_FLOATS)
        if target.local_memory < 4 * _MOST_FLOATS:
            return Rejected(Reason.LOCAL_MEMORY, f"needs {4 * _MOST_FLOATS} bytes")
        if planes_tile(shape, config) is None:
            return Rejected(Reason.FILTER_SIZE, "what a result takes does not fit local memory")
        return APPLICABLE

    def _macros(self, shape: Window) -> dict[str, DefineValue]:
        slots, tap_step, slot_step = _slots(shape)
        return {"SLOTS": slots, "TAP_STEP": tap_step, "SLOT_STEP": slot_step}

    def _launch(
        self, shape: Window, config: Config
    ) -> tuple[tuple[ScalarArg, ...], tuple[int, ...]]:
        tile = planes_tile(shape, config)
        assert tile is not None
        sets = shape.images * shape.groups
        strips = tile.band // config.integer("rows")
        arguments = (
            i64(sets),
            i32(shape.groups),
            *map(i32, (*shape.size, *shape.out, *shape.padding, shape.shift[0])),
            *map(i32, (tile.sets, tile.bands, tile.band, tile.tiles, tile.tile, tile.tile_source)),
            i64(reciprocal(strips)),
            i64(reciprocal(tile.tile)),
        )
        return arguments, (-(-sets // tile.sets) * tile.bands * tile.tiles,)

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        results = tuple(range(1, shape.filters + 1))
        return (
            Parameter("results", results, "result channels of an item"),
            Parameter("tile_floats", (2048, 4096, 8192, _MOST_FLOATS), "floats in local memory"),
        )

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        return (
            Constraint(
                "registers",
                lambda config: (
                    config.integer("rows") * config.integer("results") <= 64
                    and (
                        not _is_unrolled(shape, config)
                        or config.integer("results") * shape.taps[0] * _slots(shape)[0]
                        <= MOST_WEIGHTS
                    )
                ),
                "sums and weights have to fit them",
            ),
            Constraint(
                "tile",
                lambda config: planes_tile(shape, config) is not None,
                "what the rows of an item take has to fit local memory",
            ),
        )


class PixelsConv(GpuConv):
    """Channels last."""

    channels_last = True
    _file = "gpu_pixels"

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """Four channels of few results with small filters; else one channel of many."""
        shape = window(problem)
        step = shape.stride[1] if shape.is_gradient else 1
        wide = self._can_be_wide(shape, problem.dtype) and math.prod(shape.taps) <= 9
        strided = max(shape.stride) > 1
        if wide:
            tall = strided and (shape.is_gradient or shape.out[0] <= 14)
            rows, columns = 8 if tall else 4, 2 if strided else 4
        elif shape.channels > 1:
            rows, columns = 4, 2
        else:
            taps = min(math.prod(shape.taps), MOST_WEIGHTS)
            rows, columns = 8 if 49 <= taps <= most_weights(target) else 4, 4
        return Config(
            rows=_rows(shape, rows),
            items=min(128, target.max_work_group),
            columns=-(-columns // step) * step,
            lanes=4 if wide else 1,
        )

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """As all, and lanes only for float32."""
        space = super().search_space(problem, target)
        wide = self._can_be_wide(window(problem), problem.dtype)
        lanes = Constraint(
            "lanes",
            lambda config: wide or config.integer("lanes") == 1,
            "four channels of float32 with weights of their own each",
        )
        return SearchSpace(space.parameters, (*space.constraints, lanes))

    @staticmethod
    def _can_be_wide(shape: Window, dtype: DataType) -> bool:
        return (
            dtype is DataType.FLOAT32
            and shape.channels == shape.filters == 1
            and shape.groups % 4 == 0
        )

    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        if max(shape.images, shape.out[0] + 64) > _MOST_ALONG_AXIS:
            return Rejected(Reason.SIZE_LIMIT, f"{shape.images} images, {shape.out[0]} rows")
        return APPLICABLE

    def _macros(self, shape: Window) -> dict[str, DefineValue]:
        return {}

    def _launch(
        self, shape: Window, config: Config
    ) -> tuple[tuple[ScalarArg, ...], tuple[int, ...]]:
        rows, columns = config.integer("rows"), config.integer("columns")
        units = shape.groups * shape.filters // config.integer("lanes")
        items = units * -(-(shape.out[1] + shape.shift[1]) // columns)
        arguments = map(i32, (shape.groups, *shape.size, *shape.out, *shape.padding, *shape.shift))
        groups = (
            -(-items // config.integer("items")),
            -(-(shape.out[0] + shape.shift[0]) // rows),
            shape.images,
        )
        return tuple(arguments), groups

    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        return (
            Parameter("columns", (1, 2, 3, 4, 5, 6, 7, 8), "columns of the result of an item"),
            Parameter("lanes", (1, 4), "channels of an item"),
        )

    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        return (
            Constraint(
                "columns",
                lambda config: (
                    not shape.is_gradient or config.integer("columns") % shape.stride[1] == 0
                ),
                "whole strides",
            ),
            Constraint(
                "registers",
                lambda config: (
                    config.integer("lanes") * config.integer("rows") * config.integer("columns")
                    <= 64
                    and (
                        not _is_unrolled(shape, config)
                        or config.integer("lanes") * math.prod(shape.taps) <= MOST_WEIGHTS
                    )
                ),
                "sums and weights have to fit them",
            ),
        )


def most_weights(target: Target) -> int:
    """Weights that an item keeps in registers."""
    return _MOST_WEIGHTS_HIP if target.backend == "hip" else MOST_WEIGHTS


def _is_unrolled(shape: Window, config: Config, most: int = MOST_WEIGHTS) -> bool:
    """Whether taps are unrolled, with their weights in registers."""
    weights = shape.taps[0] * _slots(shape)[0]
    return weights <= most and shape.span(config.integer("rows"), 0) <= _LONGEST_WALK


def _slots(shape: Window) -> tuple[int, int, int]:
    """Taps of a row that a result has, and the steps from one to the next in filter and source."""
    if not shape.is_gradient:
        return shape.taps[1], 1, shape.dilation[1]
    gcd = math.gcd(shape.stride[1], shape.dilation[1])
    step = shape.stride[1] // gcd
    return -(-shape.taps[1] // step), step, -(shape.dilation[1] // gcd)


def _rows(shape: Window, wanted: int) -> int:
    """Rows of an item: whole strides of a gradient, one where there is no height."""
    step = shape.stride[0] if shape.is_gradient else 1
    if shape.taps[0] == 1 and step == 1:
        return 1
    return -(-wanted // step) * step


class PlanesForward(PlanesConv):
    """y from x and w, channels first."""

    solver_id = "direct-gpu-nchw-fwd"
    direction = Direction.FORWARD


class PlanesBackwardData(PlanesConv):
    """x from y and w, channels first."""

    solver_id = "direct-gpu-nchw-bwd-data"
    direction = Direction.BACKWARD_DATA


class PixelsForward(PixelsConv):
    """y from x and w, channels last."""

    solver_id = "direct-gpu-nhwc-fwd"
    direction = Direction.FORWARD


class PixelsBackwardData(PixelsConv):
    """x from y and w, channels last."""

    solver_id = "direct-gpu-nhwc-bwd-data"
    direction = Direction.BACKWARD_DATA


#: The solvers of forward and backward-data, best first.
CONV_SOLVERS: tuple[type[GpuConv], ...] = (
    PlanesForward,
    PixelsForward,
    PlanesBackwardData,
    PixelsBackwardData,
)
