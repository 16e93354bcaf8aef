"""`Trial`: a solver on its way through a search, and what becomes of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from convfind.checking.measuring import Measurement
from convfind.device.target import Target
from convfind.errors import (
    ConvfindError,
    KernelBuildError,
    LostBuildError,
    LostError,
    SolverError,
    VerificationError,
)
from convfind.find.bench import Candidate
from convfind.find.solution import Solution, TimeOrigin
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.solver import Solver, asking
from convfind.solver.applicability import Rejected
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Recipe


class FinalistError(Exception):
    """An error of a trial in the final, where several run in turns; the cause says why."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial.solver.solver_id)
        self.trial = trial


@dataclass(slots=True)
class Trial:
    """A solver on its way through the search."""

    solver: Solver
    recipe: Recipe
    candidate: Candidate | None = None
    measurement: Measurement | None = None
    error: float | None = None
    timed: list[float] = field(default_factory=list)  # ms of all runs that were only timed

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that have to be compiled before it runs."""
        return self.recipe.programs

    @property
    def measured(self) -> Measurement:
        """The measurement of a trial that was measured."""
        assert self.measurement is not None
        return self.measurement

    @property
    def median(self) -> float:
        """The time that counts, of a trial that was measured."""
        return self.measured.median

    @property
    def least(self) -> float:
        """The fastest sample in ms, of a trial that was measured."""
        return self.measured.least

    @property
    def is_believed(self) -> bool:
        """True where the samples of a trial that was measured agree."""
        return self.measured.is_believed

    def sample_once_more(self) -> float:
        """Time a trial once more; the sample counts with the earlier ones."""
        again = self.sample_again()
        self.measurement = replace(self.measured, samples=(*self.measured.samples, again))
        return again

    def sample(self) -> float:
        """Time a trial that is on the bench. Raises what is a refusal of its solver."""
        assert self.candidate is not None
        took = self.candidate.sample()
        self.timed.append(took)
        return took

    def sample_again(self) -> float:
        """Time a trial that was measured once more. Raises `FinalistError`."""
        try:
            return self.sample()
        except asking.FAILURES as error:
            raise FinalistError(self) from error

    def solution(self, problem: Problem, target: Target, *, constant_weights: bool) -> Solution:
        """Return what the user gets of a trial that was measured."""
        assert self.measurement is not None
        return Solution(
            solver=self.solver.solver_id,
            algorithm=self.solver.algorithm,
            problem=problem.key,
            device=target.identity,
            time_ms=self.median,
            time_origin=TimeOrigin.MEASURED,
            workspace=self.recipe.total_workspace,
            error=self.error,
            config=self.recipe.config,
            samples=len(self.measurement.samples),
            spread=self.measurement.spread,
            constant_weights=constant_weights,
        )

    def __str__(self) -> str:
        """Say how it went."""
        if self.measurement is None:
            return "not measured"
        error = "not verified" if self.error is None else f"error {self.error:.1e}"
        samples = f"{len(self.measurement.samples)} samples"
        if self.measurement.abandoned:
            samples += ", then abandoned"
        return f"{self.measurement.median:.4g} ms, {samples}, {error}"


@dataclass(slots=True)
class SearchOutcome:
    """The result of a search. ``considered`` lists the solvers about which it decided for good."""

    trials: list[Trial] = field(default_factory=list)
    solutions: tuple[Solution, ...] = ()
    rejected: dict[str, Rejected] = field(default_factory=dict)
    considered: set[str] = field(default_factory=set)
    is_disturbed: bool = False  # other work on the machine may have decided

    @property
    def best_ms(self) -> float | None:
        """The least time so far."""
        times = [trial.measurement.median for trial in self.trials if trial.measurement]
        return min(times, default=None)


#: Refusals that say nothing about a solver: it has not run.
NOT_RUN = (Reason.BUDGET, Reason.NO_CHILD)


def refusal(error: BaseException) -> Rejected:
    """Return what an error of a candidate says of its solver."""
    if isinstance(error, VerificationError):
        return Rejected(Reason.WRONG_RESULT, str(error))
    if isinstance(error, SolverError):
        return Rejected(Reason.SOLVER_ERROR, error.detail)
    if isinstance(error, (LostError, LostBuildError)):
        return Rejected(error.reason, error.detail)
    if isinstance(error, KernelBuildError):
        return Rejected(Reason.BUILD_FAILED, str(error))
    if isinstance(error, ConvfindError):
        return Rejected(Reason.LAUNCH_FAILED, str(error))
    return Rejected(Reason.SOLVER_ERROR, asking.told(error))
