"""Few channels a group on GPUs: what both orders of the weight gradient have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from convfind.device.target import Target
from convfind.kit.blocks import Epilogue, Grid, Limit, part_bytes, register_limit
from convfind.problem import ConvProblem
from convfind.solver import Config, ConfigValue
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Memory, Recipe, ScalarArg
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import Direction
from convfind_solvers_direct.gpu.conv import (
    ITEMS,
    MOST_WEIGHTS,
    ROWS,
    GpuDirect,
    most_weights,
    size_constraint,
)
from convfind_solvers_direct.gpu.sum import is_split, parts_of_weights, sum_of_parts
from convfind_solvers_direct.programs import GPU
from convfind_solvers_direct.window import Window, window

_PARTS = (*range(1, 16), *(part << i for i in range(8) for part in range(16, 32, 4)), 4096)
#: Work-groups that fill a unit several times; fewer where each writes many sums.
_GROUPS_A_UNIT = 16
_FEW_GROUPS_A_UNIT = 4


@dataclass(frozen=True, slots=True)
class Split:
    """How the sum over images and positions is cut."""

    groups: int  # work-groups along the weights, without chunks
    steps: int
    arguments: tuple[ScalarArg, ...]  # behind per_part


class GpuWeights(GpuDirect):
    """w from x and y: sums of parts, added up by a second launch in a fixed order."""

    direction = Direction.BACKWARD_WEIGHTS
    version = 2
    _file: ClassVar[str] = "gpu_weights"

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
        groups = _FEW_GROUPS_A_UNIT if shape.taps > 9 else _GROUPS_A_UNIT
        if self.channels_last and shape.taps <= 9:
            groups //= 2  # each of them writes the sums of 32 channels
        wanted = -(-groups * target.compute_units // self._groups(shape, config, target))
        return config.replace(parts=parts_of(wanted))

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Places that an item takes at a time, work-groups, parts."""
        shape = window(problem)
        parts = Parameter("parts", _PARTS, "parts of the sum")
        constraints = (size_constraint(target), *self._constraints(shape))
        return SearchSpace((ROWS, ITEMS, parts, *self._parameters(shape)), constraints)

    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """One launch for the parts, and one that adds them up."""
        shape = window(problem)
        split, items = self._split(shape, config), config.integer("items")
        has_parts = is_split(problem, config, limit)
        parts, per_part = parts_of_weights(problem, config, limit, split.steps)
        chunks = -(-shape.window[0] // self._chunk(shape, target))
        macros: dict[str, DefineValue] = {
            "DTYPE": problem.dtype.upper(),
            **shape.macros,
            "SPLIT": has_parts,
            **config.without("parts").defines,
            **self._macros(shape, config, target),
            **({"STEPPED": True} if self._is_stepped(problem) else {}),
        }
        program = GPU.program(
            self._file,
            macros,
            options=register_limit(target) if self._is_squeezed(problem, target) else (),
        )
        launch = Grid(program, f"direct_{self._file}", (split.groups, chunks, parts), items)(
            *(Memory.X, Memory.Y, Memory.WORKSPACE if has_parts else Memory.W),
            *Epilogue.of(problem).arguments,
            *(shape.images, shape.groups, *shape.size, *shape.out),
            *(*shape.padding, per_part),
            *split.arguments,
        )
        adding = (sum_of_parts(problem, target, parts),) if has_parts else ()
        workspace = parts * part_bytes(problem) if has_parts else 0
        return Recipe(self.solver_id, (launch, *adding), workspace=workspace, config=config)

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
        if shape.window[0] == 1:
            return 1
        if self.channels_last:
            return 2 if shape.stride[1] > 1 else 7
        # More taps leave no registers for so many rows.
        return 14 if shape.taps < MOST_WEIGHTS and shape.out[0] >= 14 else 7

    def _groups(self, shape: Window, config: Config, target: Target) -> int:
        return self._split(shape, config).groups * -(-shape.window[0] // self._chunk(shape, target))

    def _chunk(self, shape: Window, target: Target) -> int:
        """Filter rows whose sums an item keeps in registers."""
        height, width = shape.window
        most = most_weights(target)
        if height * width <= most:
            return height
        return max(1, min(most, 64) // width)


def parts_of(wanted: int) -> int:
    """Return the most parts of the search space that are not more than wanted."""
    return max((parts for parts in _PARTS if parts <= wanted), default=1)
