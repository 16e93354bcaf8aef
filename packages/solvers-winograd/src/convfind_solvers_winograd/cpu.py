"""What the Winograd solvers for CPUs have in common."""

from __future__ import annotations

from convfind.applicability import APPLICABLE, Applicability, Rejected
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import TunableSolver
from convfind.target import DeviceKind, Target
from convfind.types import Algorithm, Direction
from convfind_solvers_winograd.applicability import error_bound, error_reach, judge
from convfind_solvers_winograd.cook_toom import Transform
from convfind_solvers_winograd.geometry import geometry

VECTOR = 16
#: Private memory of a work-item; more than this overruns stacks.
MOST_PRIVATE = 3 << 20
#: Vector operations of a data and result transform beside a product's 1 for each point.
TRANSFORM_COST = 4.0
#: Share of the arithmetic peak that products reach.
BEST_SHARE = 0.75
ITEMS_PER_CORE = 4
#: The kernels count tiles and elements of an image in 32 bits.
_LARGEST = 2**30


class CpuSolver(TunableSolver):
    """A float32 convolution by one transform, in one direction and one family of layouts."""

    algorithm = Algorithm.WINOGRAD
    is_dynamic = True
    backends = ("opencl",)

    def __init__(self, transform: Transform, direction: Direction, *, channels_last: bool) -> None:
        """Take the variant, which gives the solver its id."""
        self.transform = transform
        self.direction = direction
        self.channels_last = channels_last
        layout = "nhwc" if channels_last else "nchw"
        size = f"f{transform.m}x{transform.r}"
        self.solver_id = f"winograd-{size}-cpu-{layout}-{direction.short}"

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take 3x3 filters of stride 1 on packed float32 tensors, on CPUs."""
        if target.kind is not DeviceKind.CPU:
            return Rejected(Reason.DEVICE_KIND, "is for CPUs")
        answer = judge(problem, self.direction, self.transform, channels_last=self.channels_last)
        if not answer:
            return answer
        shape = geometry(problem)
        tile = self.transform.n - problem.filter[0] + 1
        largest = max(problem.elements(name) for name in "xy") // shape.images
        if max(largest, shape.tiles(tile), *map(abs, shape.padding)) > _LARGEST:
            return Rejected(Reason.SIZE_LIMIT, f"an image of {largest} elements")
        return APPLICABLE

    def error_bound(self, problem: ConvProblem) -> float:
        """The growth of errors by the transform."""
        return error_bound(self.transform, problem)

    def error_reach(self, problem: ConvProblem) -> int:
        """A tile's."""
        return error_reach(self.transform)
