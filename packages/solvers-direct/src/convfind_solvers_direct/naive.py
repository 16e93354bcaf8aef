"""The naive solvers: the direct formula, one work-item for each element of the result.

They take nearly every problem, slowly, and are the reference on the device.
"""

from __future__ import annotations

import math

from convfind.device.target import DeviceKind, Target
from convfind.errors import SettingsError
from convfind.kit.blocks import Epilogue, Grid, ceil_div, cpu_index, in_3d, work_group
from convfind.problem import ConvProblem
from convfind.solver import APPLICABLE, Applicability, Config, Domain, Reason, Rejected, Solver
from convfind.solver.recipe import Argument, Memory, Recipe, i32, i64
from convfind.types import Algorithm, DataType, Direction
from convfind_solvers_direct.programs import GPU

#: Share of the peak that is promised: behind everything else.
_SHARE = 0.01
#: Kernels count positions along one axis, padding included, and channels in 32 bits.
_LARGEST_AXIS = 2**31 - 1
_MOST_CHANNELS = 2**30
#: Launch limits that every runtime keeps; kernels loop over what is beyond them.
_MOST_ITEMS = (2**30, 2**15, 2**15)
_GROUP_ITEMS = 64

_ACCUMULATORS = {"float": DataType.FLOAT32, "double": DataType.FLOAT64}


class NaiveSolver(Solver):
    """The direct formula in one direction.

    ``Config(accumulate="double")`` sums in double precision on devices that have it: the reference
    that results of other solvers are compared with.
    """

    algorithm = Algorithm.DIRECT
    is_dynamic = True
    is_last_resort = True

    def __init__(self, direction: Direction) -> None:
        self.direction = direction
        self.solver_id = f"direct-naive-{direction.short}"
        self.domain = Domain(directions=(direction,))
        if direction is not Direction.BACKWARD_WEIGHTS:
            self.domain = self.domain.with_epilogue()

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take every problem whose element type the device has and whose axes an int can count."""
        if problem.dtype is DataType.FLOAT64 and not target.has("fp64"):
            return Rejected(Reason.FEATURE, "float64 needs fp64")
        for size, begin, end in zip(
            problem.x_shape[2:], problem.padding, problem.padding_end, strict=True
        ):
            if size + begin + end > _LARGEST_AXIS:
                return Rejected(Reason.SIZE_LIMIT, f"an axis of {size + begin + end} with padding")
        if max(problem.x_shape[0], problem.x_shape[1], problem.w_shape[0]) > _MOST_CHANNELS:
            return Rejected(Reason.SIZE_LIMIT, f"batch or channels over {_MOST_CHANNELS}")
        return APPLICABLE

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """A hundredth of the peak, and on CPUs what a launch costs tiny problems."""
        if target.kind is DeviceKind.CPU:
            return cpu_index(problem, target, problem.flops / _SHARE)
        return _SHARE

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch, no workspace."""
        accumulator = self._accumulator(problem, target, config)
        arithmetic = problem.y_dtype if problem.dtype is DataType.INT8 else accumulator
        epilogue = Epilogue.of(problem, arithmetic)
        channels_last = problem.tensor_layout(self.direction.writes).channels_last
        program = GPU.program(
            f"naive_{self._stem}",
            epilogue.defines,
            DTYPE=problem.dtype.upper(),
            Y_DTYPE=problem.y_dtype.upper(),
            ACCUMULATOR=accumulator.upper(),
            CHANNELS_LAST=channels_last,
        )
        items = self._items(problem, channels_last)
        group = work_group(items, min(_GROUP_ITEMS, target.max_work_group))
        work_groups = tuple(map(ceil_div, map(min, items, _MOST_ITEMS), group))
        launch = Grid(program, f"direct_naive_{self._stem}", work_groups, group)(
            *(Memory.X, Memory.W, Memory.Y), *_geometry(problem), *epilogue.arguments
        )
        return Recipe(self.solver_id, (launch,), config=config)

    @property
    def _stem(self) -> str:
        return self.direction.short.replace("-", "_")

    @staticmethod
    def _accumulator(problem: ConvProblem, target: Target, config: Config | None) -> DataType:
        if problem.dtype is DataType.INT8:
            return DataType.INT32
        if problem.dtype is DataType.FLOAT64:
            return DataType.FLOAT64
        word = (config or Config()).get("accumulate", "float")
        if word not in _ACCUMULATORS:
            raise SettingsError("accumulate", word, ", ".join(_ACCUMULATORS))
        if word == "double" and not target.has("fp64"):
            raise SettingsError("accumulate", word, f"float: {target.name} has no fp64")
        return _ACCUMULATORS[str(word)]

    def _items(self, problem: ConvProblem, channels_last: bool) -> tuple[int, int, int]:
        """Work-items along each axis: one for each element of the result."""
        if self.direction is Direction.BACKWARD_WEIGHTS:
            return math.prod(problem.w_shape[1:]), problem.w_shape[0], 1
        batch, channels, *spatial = problem.shape(self.direction.writes)
        positions = math.prod(spatial)
        return (channels, positions, batch) if channels_last else (positions, channels, batch)


def _clamped(steps: tuple[int, ...]) -> tuple[int, ...]:
    """A step beyond the largest axis is never taken twice, so its size does not matter."""
    return tuple(min(step, _LARGEST_AXIS) for step in steps)


def _geometry(problem: ConvProblem) -> tuple[Argument, ...]:
    """The kernels' scalar arguments up to the epilogue's, in their order."""
    strides = []
    for tensor in ("x", "w", "y"):
        outer, channel, *spatial = problem.strides(tensor)
        strides += [outer, channel, *in_3d(tuple(spatial), 0)]
    groups = problem.groups
    sizes = (
        problem.x_shape[0],
        groups,
        problem.w_shape[1],
        problem.w_shape[0] // groups,
        *in_3d(problem.x_shape[2:], 1),
        *in_3d(problem.filter, 1),
        *in_3d(problem.y_shape[2:], 1),
        *in_3d(_clamped(problem.stride), 1),
        *in_3d(_clamped(problem.dilation), 1),
        *in_3d(problem.padding, 0),
    )
    return (*map(i64, strides), *map(i32, sizes))
