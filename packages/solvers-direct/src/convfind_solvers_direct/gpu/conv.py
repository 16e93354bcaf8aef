"""Few channels a group on GPUs: what the solvers have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import (
    Epilogue,
    Grid,
    TunableVariant,
    memory_seconds,
    peak_seconds,
    register_limit,
)
from convfind.kit.recipe_solver import Limit
from convfind.problem import PACKED_TRAITS, ConvProblem, Trait
from convfind.solver import GPUS, Applicability, Config, Domain, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Memory, Recipe, ScalarArg, TensorMapArg
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import Algorithm, DataType
from convfind_solvers_direct.programs import GPU
from convfind_solvers_direct.window import Window, judge, window

#: Floats of local memory that all devices have room for: 48 KiB.
MOST_FLOATS = 12288
#: Weights that an item keeps in registers.
MOST_WEIGHTS = 81
#: The same where hiprtc compiles: of more it spills some, and takes minutes over that.
_MOST_WEIGHTS_AMD = 49
#: Source rows that a walk is unrolled over.
_LONGEST_WALK = 48
_BANDWIDTH_SHARE = 0.88

_FEWEST_ITEMS = 32
ROWS = Parameter("rows", tuple(range(1, 17)), "rows of the result of an item")
ITEMS = Parameter("items", (_FEWEST_ITEMS, 64, 128, 256), "of a work-group")
#: Why a tile is not legal.
TILE_FITS = "it has to fit work-group, registers and local memory"


class GpuSolver(TunableVariant):
    """A convolution in one direction and one family of layouts."""

    algorithm = Algorithm.DIRECT
    is_dynamic = True
    backends: tuple[str, ...] = ("opencl", "hip", "cuda")
    domain = Domain(
        kinds=GPUS,
        dtypes=(DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16),
        ranks=(1, 2),
        traits=PACKED_TRAITS,
    )


class TileSolver(GpuSolver):
    """One whose configs are tiles, any of which is legal that fits a device."""

    parameters: ClassVar[tuple[Parameter, ...]] = ()  # of any device

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Tiles that fit."""
        fits = partial(self.fits, window(problem), target)
        return SearchSpace(self.parameters, (Constraint("tile", fits, TILE_FITS),))

    @abstractmethod
    def fits(self, shape: Window, target: Target, config: Config) -> bool:
        """Return whether a config's tile fits work-group, registers and local memory."""


class GpuDirect(GpuSolver):
    """One with few channels a group."""

    prefix = "direct-gpu"
    arithmetic_share: ClassVar[float] = 0.3  # of the peak, which window sums reach

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take few channels a group."""
        if not (answer := judge(problem)):
            return answer
        if target.max_work_group < _FEWEST_ITEMS:
            return Rejected(Reason.WORK_GROUP, f"needs {_FEWEST_ITEMS} work-items")
        return self._judge_sizes(problem, window(problem), target)

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """All tensors moved once, or the sums where these take longer."""
        memory = memory_seconds(problem.traffic, target, self._bandwidth_share(problem))
        peak = peak_seconds(problem.flops, target)
        return max(0.8 * peak / max(memory, peak / self.arithmetic_share), 0.02)

    def _bandwidth_share(self, problem: ConvProblem) -> float:
        """Return the share of memory's bandwidth that tensors are moved at."""
        return _BANDWIDTH_SHARE

    @abstractmethod
    def _judge_sizes(self, problem: ConvProblem, shape: Window, target: Target) -> Applicability:
        """Judge what depends on the layout."""


#: The domain of those that are for float32 with strides and dilations of 1.
PLAIN_FLOAT32 = replace(
    GpuDirect.domain.without(Trait.STRIDE, Trait.DILATION), dtypes=(DataType.FLOAT32,)
)

#: Numbers among a kernel's arguments, and work-groups along each axis, or along the only one.
Numbers = tuple[ScalarArg | int, ...]
Groups = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """The differences between launches of one kind.

    Attributes:
        macros: those of its file beside the ones of gpu_window.h and of the epilogue.
        numbers: arguments behind the epilogue's.
        groups: work-groups along each axis, or along the only one.
        options: of the compiler.
    """

    macros: Mapping[str, DefineValue]
    numbers: Numbers
    groups: Groups
    items: int
    options: tuple[str, ...] = ()


class OneLaunch(GpuDirect):
    """Forward and backward-data in one launch, from source and weights to the result."""

    _file: ClassVar[str]  # that has the kernel, of the same name

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch, no workspace."""
        shape, epilogue = window(problem), Epilogue.of(problem)
        work = self._work(problem, shape, target, config)
        macros = (shape.macros, work.macros, epilogue.defines)
        program = GPU.program(self._file, *macros, options=work.options)
        launch = Grid(program, f"direct_{self._file}", work.groups, work.items)(
            *(self._source(problem, shape, target, config), Memory.W, shape.result),
            *epilogue.arguments,
            *work.numbers,
        )
        return Recipe(self.solver_id, (launch,), config=config)

    def _source(
        self, problem: ConvProblem, shape: Window, target: Target, config: Config
    ) -> str | TensorMapArg:
        """Return the first argument: the source's memory, or a map that tells of it."""
        return shape.source

    @abstractmethod
    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        """Return what the launch differs in."""


class GpuConv(OneLaunch):
    """With any stride and dilation."""

    def _work(self, problem: ConvProblem, shape: Window, target: Target, config: Config) -> Work:
        macros = {
            "DTYPE": problem.dtype.upper(),
            "UNROLLED": is_unrolled(shape, config, most_weights(target)),
            **config.defines,
            **self._macros(shape),
        }
        numbers, groups = self._launch(shape, config)
        options = register_limit(target) if self._is_squeezed(problem, config) else ()
        return Work(macros, numbers, groups, config.integer("items"), options)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Rows and columns of an item, and work-groups."""
        shape = window(problem)
        constraints = (size_constraint(target), *self._constraints(shape))
        if shape.is_gradient:
            step = shape.stride[0]
            whole = Constraint("rows", lambda c: c.integer("rows") % step == 0, "whole strides")
            constraints += (whole,)
        return SearchSpace((ROWS, ITEMS, *self._parameters(shape)), constraints)

    def _is_squeezed(self, problem: ConvProblem, config: Config) -> bool:
        """Whether NVIDIA's assembler may spill registers to run more work-groups at a time."""
        return False

    def _macros(self, shape: Window) -> dict[str, DefineValue]:
        """The kernel's macros beside the config."""
        return {}

    @abstractmethod
    def _launch(self, shape: Window, config: Config) -> tuple[Numbers, Groups]:
        """Return the arguments behind the epilogue's, and the work-groups along each axis."""

    @abstractmethod
    def _parameters(self, shape: Window) -> tuple[Parameter, ...]:
        """The parameters beside rows and items."""

    @abstractmethod
    def _constraints(self, shape: Window) -> tuple[Constraint, ...]:
        """The constraints beside those of all."""


def size_constraint(target: Target) -> Constraint:
    """Return the condition that a device runs work-groups of so many items."""
    most = target.max_work_group
    return Constraint("size", lambda c: c.integer("items") <= most, f"at most {most} items")


def most_weights(target: Target) -> int:
    """Weights that an item keeps in registers."""
    return _MOST_WEIGHTS_AMD if target.is_amd else MOST_WEIGHTS


def is_unrolled(shape: Window, config: Config, most: int = MOST_WEIGHTS) -> bool:
    """Return whether taps are unrolled, with their weights in registers."""
    weights = shape.window[0] * slots_of(shape)[0]
    return weights <= most and shape.span(config.integer("rows"), 0) <= _LONGEST_WALK


def rows_of(shape: Window, wanted: int) -> int:
    """Rows of an item: whole strides of a gradient, one where there is no height."""
    step = shape.stride[0] if shape.is_gradient else 1
    if shape.window[0] == 1 and step == 1:
        return 1
    return -(-wanted // step) * step


def slots_of(shape: Window) -> tuple[int, int, int]:
    """Taps of a row that a result has, and the steps from one to the next in filter and source."""
    if not shape.is_gradient:
        return shape.window[1], 1, shape.dilation[1]
    gcd = math.gcd(shape.stride[1], shape.dilation[1])
    step = shape.stride[1] // gcd
    return -(-shape.window[1] // step), step, -(shape.dilation[1] // gcd)
