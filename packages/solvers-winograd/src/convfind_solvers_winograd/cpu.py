"""The base of the Winograd solvers for CPUs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from math import prod

from convfind.device.target import Target
from convfind.kit.blocks import Axes, TunableVariant, cpu_index, round_up
from convfind.kit.pixel_pitch import has_only_pitch, result_pitch
from convfind.kit.plane_geometry import PlaneGeometry
from convfind.problem import ConvProblem
from convfind.solver import CPUS, Applicability, Config, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import ScalarArg, i32
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.types import DataType, Direction
from convfind_solvers_winograd.applicability import DOMAIN, MOST_DILATION, judge
from convfind_solvers_winograd.cook_toom import Spread
from convfind_solvers_winograd.geometry import count_tiles, filled, geometry
from convfind_solvers_winograd.programs import CPU
from convfind_solvers_winograd.solver import WinogradSolver

VECTOR = 16
#: Private memory of a work-item; more than this overruns stacks.
_MOST_PRIVATE = 3 << 20
#: The cost of transforms, in products of a channel and a filter: fits of one core's times.
TRANSFORM_COST = 12.0
#: Share of the arithmetic peak that products reach.
_BEST_SHARE = 0.75
#: Floating-point operations in the time that a byte of memory takes.
_BALANCE = 10
ITEMS_PER_CORE = 4
#: The kernels count tiles and elements of an image in 32 bits.
_LARGEST = 2**30


class CpuSolver(WinogradSolver, TunableVariant):
    """A convolution by one transform, in one direction and one family of layouts, in float32."""

    device = "cpu"
    backends = ("opencl",)
    domain = replace(DOMAIN, kinds=CPUS)
    kernels = ""  # end of the name of the file, behind that of the transform

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take filters of the transform's size and stride."""
        if not (answer := judge(problem, self.direction, self.transform, self.axes)):
            return answer
        if self.transform.spread is Spread.DATA and not all(pad % 2 for pad in problem.padding):
            return Rejected(Reason.PADDING, "data gradients of stride 2 are for odd padding")
        shape = geometry(problem)
        largest = max(prod(problem.x_shape[1:]), prod(problem.y_shape[1:]))
        tiles = count_tiles(shape, self.tile(problem))
        if max(largest, tiles, *map(abs, shape.padding)) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image of {largest} elements")
        return has_only_pitch(problem)

    def pitch(self, problem: ConvProblem) -> ScalarArg:
        """Return the argument for the elements from one pixel of the result to the next.

        Channels first it has no meaning.
        """
        return i32(result_pitch(problem) or 0)

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Blocks that fit the memory of a work-item."""
        fits = Constraint(
            "private memory",
            lambda config: self._private_bytes(problem, target, config) <= _MOST_PRIVATE,
            f"a work-item has {_MOST_PRIVATE} bytes",
        )
        return SearchSpace(self._parameters(target), (fits,))

    @abstractmethod
    def _parameters(self, target: Target) -> tuple[Parameter, ...]:
        """Return the sizes of blocks."""

    @abstractmethod
    def _private_bytes(self, problem: ConvProblem, target: Target, config: Config) -> int:
        """Return the bytes of a block's data, sums and the like."""

    def index(self, problem: ConvProblem, target: Target, work: float, memory: float) -> float:
        """The throughput index of so much work a tile, in products, and so many bytes moved."""
        shape = geometry(problem)
        each = work / (shape.channels * shape.filters)
        best = _BEST_SHARE * self.saved * filled(shape, self.tile(problem))
        operations = problem.flops * each / best + _BALANCE * memory
        return cpu_index(problem, target, operations, launches=2)

    @property
    def filter_points(self) -> int:
        """Values of a transformed filter."""
        return int(self.transform.filter_points**self.axes)

    @property
    def saved(self) -> float:
        """Multiplications of the direct formula for each product."""
        direct = self.transform.m * self.transform.r
        if self.transform.spread is Spread.DATA:  # a result meets every second tap
            direct //= 2
        return float(direct**self.axes / self.points)

    def tile(self, problem: ConvProblem) -> Axes:
        """Rows and columns of results behind a tile; in weight gradients of y."""
        of_y = self.direction is Direction.BACKWARD_WEIGHTS
        size = self.transform.r if of_y else self.transform.m
        height, width = problem.filter[-2:]
        return size if height > 1 else 1, size if width > 1 else 1

    def program(self, problem: ConvProblem, **defines: DefineValue) -> Program:
        """Return the kernels of the transform along the axes of a problem's filters."""
        along_h, along_w = (taps > 1 for taps in problem.filter[-2:])
        return CPU.program(
            *(f"cpu_{self.transform.name}{self.kernels}", defines),
            CHANNELS_LAST=self.channels_last,
            ALONG_H=along_h,
            ALONG_W=along_w,
            HALF=problem.dtype is DataType.FLOAT16,
            DILATED=max(problem.dilation[-2:]) > 1,
            MOST_DILATION=MOST_DILATION,
        )


def cut(shape: PlaneGeometry, tiles: int, unit: int, block: int, cores: int) -> tuple[int, int]:
    """Return tiles, whole units, and filters, whole blocks or a part of one, of a work-item.

    There are enough items for all cores, and few of them are partial.
    """
    wanted = 1 if cores == 1 else -(-ITEMS_PER_CORE * cores // shape.groups)
    if tiles >= wanted * unit:
        return round_up(-(-tiles // wanted), unit), round_up(shape.filters, block)
    strips = min(-(-wanted // -(-tiles // unit)), -(-shape.filters // 32))
    return unit, round_up(-(-shape.filters // strips), 32)
