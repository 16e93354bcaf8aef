"""The calls of MIOpen's three interfaces, by their meaning: find API, immediate mode, Find 2.0."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from convfind.errors import SettingsError, SolutionError
from convfind.find.solution import Solution
from convfind.policy import FindKeywords, Mode, Order
from convfind.problem import ConvProblem
from convfind.types import Algorithm

if TYPE_CHECKING:
    from convfind.handle.handle import Handle


@dataclass(frozen=True, slots=True)
class AlgorithmPerformance:
    """The best solution of one algorithm (``miopenConvAlgoPerf_t``): ms, bytes.

    A time that nobody measured is negative.
    """

    algorithm: Algorithm
    time_ms: float
    workspace: int
    solution: Solution


@dataclass(frozen=True, slots=True, kw_only=True)
class FindOptions:
    """Options of `MIOpenCalls.find_solutions` (``miopenFindOptions``)."""

    order: Order | str = Order.TIME
    workspace_limit: int | None = None  # bytes
    workspace: object = None  # device memory of the caller: its size is the limit
    tune: bool | None = None  # None: as the mode says
    attach_binaries: bool = False  # solutions carry their compiled kernels, also when saved:
    # `Solution.load` takes them on request
    mode: Mode | None = None
    policy: FindKeywords = field(default_factory=FindKeywords)


@dataclass(frozen=True, slots=True)
class MIOpenCalls:
    """MIOpen's calls on a handle: `Handle.miopen`; all go through its find, prepare and run."""

    handle: Handle

    # -- find API -------------------------------------------------------------------------------

    def workspace_size(self, problem: ConvProblem, **policy: Unpack[FindKeywords]) -> int:
        """Bytes that let every applicable solver run (``GetWorkSpaceSize``); measures nothing."""
        measured_nowhere: FindKeywords = {**policy, "use_db": False}
        estimates = self.handle.find(problem, "FAST", **measured_nowhere).solutions
        return max((solution.workspace for solution in estimates), default=0)

    def find_algorithms(
        self,
        problem: ConvProblem,
        *,
        request_count: int | None = None,
        exhaustive: bool = False,
        workspace: object = None,
        **policy: Unpack[FindKeywords],
    ) -> tuple[AlgorithmPerformance, ...]:
        """Return the best solution of each algorithm, fastest first (``Find*Algorithm``).

        Args:
            problem: the convolution.
            request_count: return at most so many.
            exhaustive: tune tunable solvers where no tuned config is recorded.
            workspace: device memory of the caller, or a number of bytes, as the limit.
            **policy: fields of `Policy`.
        """
        if request_count is not None and request_count < 1:
            raise SettingsError("request_count", request_count, "1 or more, or None")
        if exhaustive:
            policy.setdefault("enforce", "SEARCH")
        if workspace is not None:
            policy["workspace_limit"] = self._bytes_of(workspace)
        best: dict[Algorithm, AlgorithmPerformance] = {}
        for solution in self.handle.find(problem, **policy).solutions:
            if not solution.over_limit:
                best.setdefault(
                    solution.algorithm,
                    AlgorithmPerformance(
                        solution.algorithm, solution.signed_ms, solution.workspace, solution
                    ),
                )
        return tuple(best.values())[:request_count]

    def run_algorithm(
        self,
        problem: ConvProblem,
        algorithm: Algorithm | str,
        *,
        x: object = None,
        w: object = None,
        y: object = None,
        out: object = None,
        workspace: object = None,
    ) -> Any:
        """Run the fastest known solution of an algorithm (``Convolution*``), found here or earlier.

        Raises:
            SolutionError: none is known; run a find first.
        """
        for solution in self.solutions(problem):
            if solution.algorithm == algorithm and solution.time_origin.is_measured:
                return self.handle.run(solution, x=x, w=w, y=y, out=out, workspace=workspace)
        msg = f"no solution by {algorithm} is recorded for {problem}; call find_algorithms first"
        raise SolutionError(msg)

    # -- immediate mode -------------------------------------------------------------------------

    def solution_count(self, problem: ConvProblem, **policy: Unpack[FindKeywords]) -> int:
        """How many solutions `solutions` returns."""
        return len(self.solutions(problem, **policy))

    def solutions(
        self, problem: ConvProblem, count: int | None = None, **policy: Unpack[FindKeywords]
    ) -> tuple[Solution, ...]:
        """Return recorded solutions, else estimates, fastest first; nothing runs."""
        return self.handle.find(problem, "FAST", **policy).solutions[:count]

    def solution_workspace_size(self, problem: ConvProblem, solver_id: str) -> int:
        """Bytes that a solver needs. Raises `SolutionError` if it does not take the problem."""
        return self._solution_of(problem, solver_id).workspace

    def compile_solution(self, problem: ConvProblem, solver_id: str) -> None:
        """Make a solver ready for a problem, so that running it later compiles nothing."""
        self.handle.prepare(self._solution_of(problem, solver_id))

    def run_immediate(
        self,
        problem: ConvProblem,
        solver_id: str,
        *,
        x: object = None,
        w: object = None,
        y: object = None,
        out: object = None,
        workspace: object = None,
    ) -> Any:
        """Run a solver by id, without any find."""
        solution = self._solution_of(problem, solver_id)
        return self.handle.run(solution, x=x, w=w, y=y, out=out, workspace=workspace)

    # -- Find 2.0 -------------------------------------------------------------------------------

    def find_solutions(
        self,
        problem: ConvProblem,
        options: FindOptions | None = None,
        max_solutions: int | None = None,
    ) -> tuple[Solution, ...]:
        """Find with options (``FindSolutions``); ordered before it is cut to ``max_solutions``."""
        options = options or FindOptions()
        policy: FindKeywords = {"order": options.order, **options.policy}
        limits = [options.workspace_limit] if options.workspace_limit is not None else []
        if options.workspace is not None:
            limits.append(self._bytes_of(options.workspace))
        if limits:
            policy["workspace_limit"] = min(limits)
        if options.tune is not None:
            policy["tune"] = options.tune
        solutions = self.handle.find(problem, options.mode, **policy).solutions[:max_solutions]
        if not options.attach_binaries:
            return solutions
        kernels = self.handle.session.kernels
        return tuple(
            replace(found, binaries=kernels.binaries(self.handle.prepare(found).recipe.programs))
            for found in solutions
        )

    def run_solution(
        self,
        solution: Solution,
        *,
        x: object = None,
        w: object = None,
        y: object = None,
        bias: object = None,
        z: object = None,
        out: object = None,
        workspace: object = None,
    ) -> Any:
        """Run a solution, found here or loaded from a file (``RunSolution``)."""
        return self.handle.run(
            solution, x=x, w=w, y=y, bias=bias, z=z, out=out, workspace=workspace
        )

    # -- small parts ----------------------------------------------------------------------------

    def _solution_of(self, problem: ConvProblem, solver_id: str) -> Solution:
        self.handle.session.registry.solver(solver_id)  # an unknown id says which are similar
        found = self.handle.find(problem, "FAST", solvers=[solver_id], dynamic_only=False)
        for solution in found.solutions:
            if solution.solver == solver_id:
                return solution
        why = found.rejected.get(solver_id, "it is not for this device")
        msg = f"{solver_id} does not take {problem}: {why}"
        raise SolutionError(msg)

    def _bytes_of(self, workspace: object) -> int:
        if isinstance(workspace, int):
            return workspace
        buffer = getattr(workspace, "buffer", None) or self.handle.session.device.adopt(workspace)
        if buffer is None:
            raise SettingsError("workspace", type(workspace).__name__, "device memory or bytes")
        return int(buffer.size)
