"""A problem type that no package knows: ``y = a + scale * b``, with two solvers on any device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from convfind.cached import cached_property
from convfind.device.target import Target
from convfind.errors import ProblemError
from convfind.plugins import hookimpl
from convfind.problem import TensorSpec
from convfind.reasons import Reason
from convfind.solver import ProblemDomain, Solver
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import BufferArg, Launch, Recipe, f32
from convfind.types import Algorithm, DataType

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SumProblem:
    """Elementwise sums of two float32 tensors of one shape, the second of them scaled."""

    kind: ClassVar[str] = "sum"
    is_measured: ClassVar[bool] = True

    shape: tuple[int, ...]
    scale: float = 1.0

    reads: ClassVar[tuple[str, ...]] = ("a", "b")
    writes: ClassVar[tuple[str, ...]] = ("y",)

    @classmethod
    def from_key(cls, text: str) -> SumProblem:
        """Read a key."""
        _, sizes, scale = text.split("-", 2)
        problem = cls(tuple(map(int, sizes.split("x"))), float(scale))
        if problem.key != text:
            raise ProblemError("key", text, problem.key)
        return problem

    @property
    def key(self) -> str:
        """The kind, the shape and the scale."""
        return f"sum-{'x'.join(map(str, self.shape))}-{self.scale!r}"

    @property
    def text(self) -> str:
        """The key."""
        return self.key

    @cached_property
    def operands(self) -> tuple[TensorSpec, ...]:
        """Two summands and the sum."""
        return tuple(TensorSpec.packed(name, self.shape, DataType.FLOAT32) for name in "aby")

    def operand(self, name: str) -> TensorSpec:
        """Return one of them."""
        return next(operand for operand in self.operands if operand.name == name)

    @property
    def traits(self) -> frozenset[str]:
        """Whether there is a scale."""
        return frozenset({"scale"} if self.scale != 1 else ())

    @property
    def domain_key(self) -> frozenset[str]:
        """There is one type."""
        return self.traits

    @property
    def flops(self) -> float:
        """A product and a sum."""
        return 2.0 * math.prod(self.shape)

    @property
    def traffic(self) -> float:
        """All tensors, once."""
        return float(sum(operand.nbytes for operand in self.operands))

    def plain(self) -> SumProblem:
        """Solvers see it as it is."""
        return self

    def plain_name(self, tensor: str) -> str:
        """And its tensors, too."""
        return tensor

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw normally distributed numbers."""
        return {name: rng.standard_normal(self.shape, np.float32) for name in self.reads}

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Add them up."""
        return {"y": inputs["a"] + self.scale * inputs["b"]}

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Allow for the rounding of the product, and of the sum's summands."""
        return {"y": 2.0**-23 * (np.abs(inputs["a"]) + np.abs(self.scale * inputs["b"]))}


class QuickSumProblem(SumProblem):
    """The same, of which nothing is ever measured."""

    kind = "quick-sum"
    is_measured = False

    @property
    def key(self) -> str:
        """The same behind another kind."""
        return f"quick-{super().key}"


@dataclass(frozen=True, slots=True)
class _Text(KernelSource):
    """A kernel file of its own making."""

    @property
    def text(self) -> str:
        """Sums of WIDTH neighbours each."""
        return """
kernel void add(global const float* a, global const float* b, global float* y, float scale)
{
    const size_t first = get_global_id(0) * WIDTH;
    for (int i = 0; i < WIDTH; i++)
        y[first + i] = a[first + i] + scale * b[first + i];
}
"""


class SumSolver(Solver):
    """Neighbours that each work-item adds up."""

    algorithm = Algorithm.DIRECT
    is_dynamic = True

    def __init__(self, kind: str, width: int, solver_id: str, takes: frozenset[str]) -> None:
        self.solver_id = solver_id
        self.domain = ProblemDomain(problem=kind, traits=takes)
        self._width = width

    def applicability(self, problem: SumProblem, target: Target) -> Applicability:
        """Take what is a multiple of the width."""
        if math.prod(problem.shape) % self._width:
            return Rejected(Reason.SIZE_LIMIT, f"no multiple of {self._width}")
        return APPLICABLE

    def solution(
        self,
        problem: SumProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch."""
        macros = make_defines(WIDTH=self._width, MICROSECONDS=100 // self._width)
        memory = (BufferArg("a"), BufferArg("b"), BufferArg("y"))
        items = math.prod(problem.shape) // self._width
        kernel = KernelSpec(Program(_Text("tests", "sums.cl"), defines=macros), "add")
        launch = Launch(kernel, (*memory, f32(problem.scale)), (items,), (1,))
        return Recipe(self.solver_id, (launch,))


class WrongSumSolver(SumSolver):
    """Subtracts."""

    def solution(
        self,
        problem: SumProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch."""
        return super().solution(SumProblem(problem.shape, -problem.scale), target)


def mock_add(a: Array, b: Array, y: Array, scale: np.float32) -> None:
    """Do what the kernel does, on the mock backend."""
    y[: a.size].view(np.float32)[...] = a.view(np.float32) + scale * b.view(np.float32)


class SumPlugin:
    """What a package with this problem type registers."""

    def __init__(self, *more: Solver) -> None:
        self._more = more

    @hookimpl
    def convfind_register_problem_types(self, register: Any) -> None:
        """Two types."""
        register.extend([SumProblem, QuickSumProblem])

    @hookimpl
    def convfind_register_solvers(self, register: Any) -> None:
        """Two solvers for each."""
        for kind in ("sum", "quick-sum"):
            any_scale = frozenset({"scale"})
            register.add(SumSolver(kind, 4, f"{kind}-by-four", frozenset()))
            register.add(SumSolver(kind, 1, f"{kind}-by-one", any_scale))
        register.extend(self._more)
