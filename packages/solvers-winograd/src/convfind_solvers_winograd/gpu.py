"""The base of the Winograd solvers for GPUs."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.blocks import Grid, even_length, memory_seconds, peak_seconds
from convfind.problem import ConvProblem, Trait
from convfind.solver import APPLICABLE, GPUS, Applicability, Reason, Rejected
from convfind.solver.defines import DefineValue
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import BufferArg, Memory, align
from convfind.solver.search_space import Parameter
from convfind.types import DataType
from convfind_solvers_winograd.applicability import DOMAIN, judge
from convfind_solvers_winograd.geometry import geometry
from convfind_solvers_winograd.gpu_product import SMALLEST
from convfind_solvers_winograd.gpu_sizes import ConvSizes, FilterOrder
from convfind_solvers_winograd.programs import GPU
from convfind_solvers_winograd.solver import WinogradSolver

#: The kernels count elements of an image, of a matrix and of a point in 32 bits.
_LARGEST = 2**30
_GROUP = 128
BANDWIDTH_SHARE = 0.825
#: A launch, and the end of the one before it.
_LAUNCH_SECONDS = 3e-6
CHUNK = Parameter("chunk_mib", (32, 64, 128, 256, 512, 1024), "most memory of a part of the batch")
DEFAULT_CHUNK = 512


class GpuSolver(WinogradSolver):
    """A convolution by one transform, in one direction and one family of layouts."""

    device = "gpu"
    backends: tuple[str, ...] = ("opencl", "hip", "cuda")
    domain = replace(DOMAIN.without(Trait.DILATION), kinds=GPUS)

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take filters of the transform's size, on devices that have room for a tile."""
        if not (answer := judge(problem, self.direction, self.transform, self.axes)):
            return answer
        if target.max_work_group < max(_GROUP, 32 * self.transform.n):
            return Rejected(Reason.WORK_GROUP, f"needs {32 * self.transform.n} work-items")
        if not SMALLEST.fits(target):
            return Rejected(Reason.LOCAL_MEMORY, f"needs {SMALLEST.local_bytes} bytes")
        if (largest := self._largest(problem)) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image or a matrix of {largest} elements")
        return APPLICABLE

    # -- what the directions differ in -----------------------------------------------------------

    @abstractmethod
    def _largest(self, problem: ConvProblem) -> int:
        """The largest of the sizes that are counted in 32 bits, with one image at a time."""

    # -- what they share -------------------------------------------------------------------------

    def _transforms(self, dtype: DataType = DataType.FLOAT32, /, **macros: DefineValue) -> Program:
        name = f"f{self.transform.m}x{self.transform.r}"
        return GPU.program(
            f"gpu_{name}", macros, CHANNELS_LAST=self.channels_last, DTYPE=dtype.upper()
        )

    @staticmethod
    def _elementwise(program: Program, entry: str, count: int) -> Grid:
        """Return the grid of one work-item an element."""
        return Grid(program, entry, -(-count // _GROUP), _GROUP)


class OneLaunchSolver(GpuSolver):
    """One that transforms data and results, of the whole batch, inside of one launch."""

    filter_order = FilterOrder.PLAIN

    def _sizes(self, problem: ConvProblem) -> ConvSizes:
        shape = geometry(problem)
        return ConvSizes(
            *(shape, self.transform, shape.images, self.channels_last, self.filter_order)
        )

    def _largest(self, problem: ConvProblem) -> int:
        sizes = self._sizes(problem)
        image = max(problem.elements(name) for name in "xy") // sizes.shape.images
        padding = max(map(abs, sizes.shape.padding))
        return max(image, problem.elements("w"), sizes.tiles, padding)


def index(
    problem: ConvProblem, target: Target, products: float, moved: int, launches: int
) -> float:
    """Return direct multiplications over the time of products, transforms and launches.

    The products take so many seconds, and the transforms move so many bytes.
    """
    seconds = products + launches * _LAUNCH_SECONDS
    seconds += memory_seconds(moved, target, BANDWIDTH_SHARE)
    return peak_seconds(problem.flops, target) / seconds


def chunk_images(images: int, budget: int, size: Callable[[int], int]) -> int:
    """Return how many images at a time need at most ``budget`` bytes, evenly shared; 1 at least."""
    most = max(1, bisect_right(range(1, images + 1), budget, key=size))
    return even_length(images, most)


def regions(*sizes: int) -> tuple[list[BufferArg], int]:
    """Lay regions of so many bytes out in a workspace; return them and the end."""
    found, end = [], 0
    for size in sizes:
        found.append(BufferArg(Memory.WORKSPACE, end))
        end += align(size)
    return found, end
