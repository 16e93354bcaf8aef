"""Solvers for the `MockBackend`, each with one property that a find must handle.

Best first, with their virtual times: ``mock-wrong`` (10 us, wrong result), ``mock-broken`` (20 us,
does not build), ``mock-hungry`` (30 us, needs workspace), ``mock-packing`` (40 us and 40 us more to
pack), ``mock-tunable`` (400 us by default, 50 us tuned), ``mock-static`` (60 us, not dynamic),
``mock-dynamic`` (100 us), ``mock-last-resort`` (10 ms).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver import Domain, Solver, TunableSolver
from convfind.solver.applicability import APPLICABLE, Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.defines import make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.solver.recipe import Argument, BufferArg, Launch, Memory, Recipe, Step, i64
from convfind.solver.search_space import Constraint, Parameter, SearchSpace
from convfind.testing.mock_functions import problem_arguments
from convfind.types import Algorithm, Direction

_SOURCE = KernelSource("convfind.testing", "kernels/mock.cl")
_MEMORY = (BufferArg(Memory.X), BufferArg(Memory.W), BufferArg(Memory.Y))


class MockSolver(Solver):
    """Takes every problem and computes it with the reference, in a fixed virtual time."""

    algorithm = Algorithm.DIRECT
    backends = ("mock",)
    entry: ClassVar[str] = "mock_convolution"
    microseconds: ClassVar[int] = 100

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take everything."""
        return APPLICABLE

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch."""
        return Recipe(self.solver_id, (self._launch(problem, self.microseconds),))

    def _launch(
        self,
        problem: ConvProblem,
        microseconds: int,
        *,
        first: tuple[Argument, ...] = _MEMORY,
        defines: Mapping[str, int] | None = None,
    ) -> Launch:
        program = Program(_SOURCE, defines=make_defines(defines or {}, MICROSECONDS=microseconds))
        arguments = (*first, *problem_arguments(problem))
        return Launch(KernelSpec(program, self.entry), arguments, (1,), (1,))


class MockTimed(MockSolver):
    """Takes some microseconds, and expects a share of the device's peak, or says nothing of it."""

    is_dynamic = True

    def __init__(self, name: str, microseconds: int, index: float | None = None) -> None:
        self.solver_id = name
        self._microseconds = microseconds
        self._index = index

    @property
    def microseconds(self) -> int:  # type: ignore[override]  # of each its own
        """Microseconds of a run."""
        return self._microseconds

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Return that share."""
        return self._index


class MockDynamic(MockSolver):
    """One program for every problem."""

    solver_id = "mock-dynamic"
    is_dynamic = True

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Return an estimate; besides the last resort no other mock solver has one."""
        return 0.5


class MockStatic(MockSolver):
    """A program for each batch size and image size."""

    solver_id = "mock-static"
    microseconds = 60

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch of a program with the sizes compiled in."""
        batch, _, *spatial = problem.x_shape
        sizes = {"N": batch, **dict(zip("WHD", reversed(spatial), strict=False))}
        launch = self._launch(problem, self.microseconds, defines=sizes)
        return Recipe(self.solver_id, (launch,))


class MockTunable(TunableSolver, MockSolver):
    """Faster with larger tiles, the largest of which is illegal."""

    solver_id = "mock-tunable"
    is_dynamic = True

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        """Return tiles of 1 to 16 with a constraint of at most 8."""
        return SearchSpace(
            (Parameter("tile", (1, 2, 4, 8, 16), "divides the time"),),
            (Constraint("tile fits", lambda config: config.integer("tile") <= 8, "8 at most"),),
        )

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        """The slowest."""
        return Config(tile=1)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch, 400 us through the tile."""
        config = config if config is not None else self.default_config(problem, target)
        tile = config.integer("tile")
        launch = self._launch(problem, 400 // tile, defines={"TILE": tile})
        return Recipe(self.solver_id, (launch,), config=config)


class MockWrong(MockSolver):
    """The fastest, and wrong."""

    solver_id = "mock-wrong"
    is_dynamic = True
    entry = "mock_wrong"
    microseconds = 10


class MockBroken(MockSolver):
    """Its program does not build."""

    solver_id = "mock-broken"
    is_dynamic = True
    microseconds = 20

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch of a program that is told to fail."""
        launch = self._launch(problem, self.microseconds, defines={"BUILD_FAILS": 1})
        return Recipe(self.solver_id, (launch,))


class MockHungry(MockSolver):
    """Needs a mebibyte of workspace and cannot use less."""

    solver_id = "mock-hungry"
    is_dynamic = True
    entry = "mock_scratch"
    microseconds = 30
    workspace: ClassVar[int] = 2**20

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Always the same."""
        return self.workspace

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch that overwrites the workspace."""
        first = (*_MEMORY, BufferArg(Memory.WORKSPACE), i64(self.workspace))
        launch = self._launch(problem, self.microseconds, first=first)
        return Recipe(self.solver_id, (launch,), workspace=self.workspace)


class MockPacking(MockSolver):
    """Copies the weights first, which constant weights avoid."""

    solver_id = "mock-packing"
    is_dynamic = True
    microseconds = 40

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Take the directions that read weights."""
        if problem.direction is Direction.BACKWARD_WEIGHTS:
            return Rejected(Reason.DIRECTION, "packs weights, and backward-weights writes them")
        return APPLICABLE

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """The copy."""
        return problem.nbytes("w")

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """A launch that copies, and one that computes with the copy."""
        size = problem.nbytes("w")
        packed = BufferArg(Memory.PACKED)
        compute = self._launch(
            problem, self.microseconds, first=(BufferArg(Memory.X), packed, BufferArg(Memory.Y))
        )
        pack: Step = Launch(
            KernelSpec(compute.kernel.program, "mock_pack"),
            (BufferArg(Memory.W), packed, i64(size)),
            (1,),
            (1,),
        )
        return Recipe(self.solver_id, (compute,), prepare=(pack,), packed=size)


class MockFused(MockSolver):
    """Knows bias, added tensors and activations; not one of `mock_solvers`."""

    solver_id = "mock-fused"
    is_dynamic = True
    entry = "mock_fused"
    domain = Domain().with_epilogue()

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """One launch with all operands."""
        first = (*_MEMORY, *map(BufferArg, problem.reads[2:]))
        return Recipe(self.solver_id, (self._launch(problem, self.microseconds, first=first),))


class MockLastResort(MockSolver):
    """Slow."""

    solver_id = "mock-last-resort"
    is_dynamic = True
    is_last_resort = True
    microseconds = 10_000

    def wti(self, problem: ConvProblem, target: Target) -> float | None:
        """Very little."""
        return 0.01


def mock_solvers() -> list[Solver]:
    """Return one of each, in the order of the list above."""
    return [
        MockWrong(),
        MockBroken(),
        MockHungry(),
        MockPacking(),
        MockTunable(),
        MockStatic(),
        MockDynamic(),
        MockLastResort(),
    ]
