"""The measuring part of a find: build candidates, compile, check, time, tune, decide."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from convfind.checking.measuring import (
    FINALIST_FACTOR,
    QUICK,
    USUAL,
    Measurement,
    measure,
    measure_finalists,
)
from convfind.checking.workbench import Candidate, Workbench
from convfind.errors import (
    ConvfindError,
    DeviceError,
    KernelBuildError,
    SolverError,
    VerificationError,
)
from convfind.find.screening import Screening
from convfind.find.solution import Solution, TimeOrigin
from convfind.find.tuning import tuned_config
from convfind.finddb import QuarantineRecord
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.runtime.kernel_cache import Failures, Loaded
from convfind.runtime.session import Progress, Session
from convfind.solver import Solver, TunableSolver, asking, versioned_id
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe


@dataclass(slots=True)
class Trial:
    """A solver on its way through the search."""

    solver: Solver
    recipe: Recipe
    index: float = 0.0  # the throughput that it is expected to reach
    candidate: Candidate | None = None
    measurement: Measurement | None = None
    error: float | None = None


@dataclass(slots=True)
class SearchOutcome:
    """What a search found. ``considered`` lists the solvers about which it decided for good."""

    trials: list[Trial] = field(default_factory=list)
    solutions: tuple[Solution, ...] = ()
    rejected: dict[str, Rejected] = field(default_factory=dict)
    considered: set[str] = field(default_factory=set)

    @property
    def best_ms(self) -> float | None:
        """The least time so far."""
        times = [trial.measurement.median for trial in self.trials if trial.measurement]
        return min(times, default=None)


class Search:
    """One search for one plain problem; `run` does it.

    ``configs`` fixes the configs of solvers by id; others get their recorded or default ones.
    """

    def __init__(
        self,
        problem: ConvProblem,
        session: Session,
        policy: Policy,
        progress: Progress,
        configs: Mapping[str, Config] | None = None,
    ) -> None:
        self._problem = problem
        self._session = session
        self._policy = policy
        self._progress = progress
        self._configs = configs or {}
        self._sampling = QUICK if policy.quick else USUAL
        self._bench = Workbench(problem, session, constant_weights=policy.constant_weights)
        self._outcome = SearchOutcome()
        self._deadline = (
            None if policy.time_budget is None else time.monotonic() + policy.time_budget
        )

    def run(self, screening: Screening) -> SearchOutcome:
        """Measure the candidates; the last resorts only where nothing else ran.

        Raises:
            DeviceError: the host has no memory for the tensors or for their reference.
        """
        try:
            return self._run(screening)
        except MemoryError as exc:
            msg = (
                f"the host has no memory to measure {self._problem}, {self._problem.traffic} bytes "
                f"({exc}); take a smaller batch, or mode FAST, which estimates"
            )
            raise DeviceError(msg) from exc

    def _run(self, screening: Screening) -> SearchOutcome:
        ordinary = [solver for solver in screening.candidates if not solver.is_last_resort]
        last_resorts = [solver for solver in screening.candidates if solver.is_last_resort]
        self._settle(screening.rejected)
        self._measure_all(ordinary)
        self._run_final()
        if self._outcome.trials:
            for solver in last_resorts:
                self._reject(solver, Rejected(Reason.LAST_RESORT))
        else:
            self._measure_all(last_resorts)
            self._run_final()
        self._outcome.solutions = tuple(self._solution_of(trial) for trial in self._outcome.trials)
        return self._outcome

    # -- stages -----------------------------------------------------------------------------------

    def _settle(self, rejected: Mapping[str, Rejected]) -> None:
        """Take over what screening refused; refusals by the policy settle nothing."""
        by_policy = (Reason.DENIED, Reason.NOT_DYNAMIC, Reason.QUARANTINED)
        for solver_id, why in rejected.items():
            self._outcome.rejected[solver_id] = why
            solver = self._session.registry.find_solver(solver_id)
            if solver is not None and why.reason not in by_policy:
                self._outcome.considered.add(versioned_id(solver))

    def _measure_all(self, solvers: Sequence[Solver]) -> None:
        trials = list(self._built(solvers))
        loaded, failures = self._compile(trials)
        # The most promising first: it sets the mark at which the others are abandoned.
        trials.sort(key=lambda trial: -trial.index)
        if any(self._failure(trial.recipe, failures) is None for trial in trials):
            self._bench.make_ready(verify=self._policy.verify)
        for number, trial in enumerate(trials):
            self._progress("measure", number, len(trials), trial.solver.solver_id)
            if self._out_of_time and self._outcome.trials:
                self._reject(trial.solver, Rejected(Reason.BUDGET), settled=False)
            elif (failure := self._failure(trial.recipe, failures)) is not None:
                self._reject(trial.solver, failure)
            else:
                self._try(trial, loaded)
        if trials:
            self._progress("measure", len(trials), len(trials), "")

    def _built(self, solvers: Sequence[Solver]) -> Iterator[Trial]:
        limit = self._policy.workspace_limit
        for solver in solvers:
            try:
                config = self._configs.get(solver.solver_id) or self._recorded_config(solver)
                recipe = asking.recipe(solver, self._problem, self._session.target, config, limit)
                index = asking.wti(solver, self._problem, self._session.target) or 0.0
            except SolverError as error:
                self._reject(solver, refusal(error))
                continue
            if limit is not None and recipe.total_workspace > limit:
                detail = f"{recipe.total_workspace} bytes of {limit}"
                self._reject(solver, Rejected(Reason.WORKSPACE, detail), settled=False)
                continue
            yield Trial(solver, recipe, index)

    def _compile(self, trials: Sequence[Trial]) -> tuple[Loaded, Failures]:
        programs = [program for trial in trials for program in trial.recipe.programs]
        total = self._session.kernels.pending(programs)
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            self._progress("compile", done, total, "")

        return self._session.kernels.load(programs, count)

    def _try(self, trial: Trial, loaded: Loaded) -> None:
        """Check, time and, where asked, tune one candidate."""
        try:
            self._time(trial, loaded)
            self._confirm(trial)
            if self._policy.tune and isinstance(trial.solver, TunableSolver):
                self._tune(trial.solver, trial)
            is_limited = self._is_limited(trial)
        except asking.FAILURES as error:
            self._fail(trial, error)
            return
        self._outcome.trials.append(trial)
        if not is_limited:
            self._outcome.considered.add(versioned_id(trial.solver))
        self._session.registry.candidate_measured(
            self._problem, self._session.target, self._solution_of(trial)
        )

    def _time(self, trial: Trial, loaded: Loaded) -> None:
        candidate = trial.candidate = self._bench.candidate(trial.recipe, loaded)
        if self._policy.verify:
            trial.error = candidate.verify(trial.solver).max_error
        else:
            candidate.run_once()
        trial.measurement = measure(candidate.sample, self._outcome.best_ms, self._sampling)

    def _confirm(self, trial: Trial, *, again: bool = False) -> None:
        """Check a trial after it was timed. Raises `VerificationError`."""
        if self._policy.verify and trial.candidate is not None:
            trial.candidate.confirm(trial.solver, again=again)

    def _fail(self, trial: Trial, error: BaseException) -> None:
        """Refuse a trial; what it may have done to the tensors is undone for the others."""
        self._bench.restore()
        if isinstance(error, VerificationError):
            self._quarantine(trial, str(error))
        self._reject(trial.solver, refusal(error))

    def _tune(self, solver: TunableSolver, trial: Trial) -> None:
        if self._recorded_config(solver) is not None:
            return  # tuned earlier

        def time_config(config: Config) -> float | None:
            limit = self._policy.workspace_limit
            recipe = asking.recipe(solver, self._problem, self._session.target, config, limit)
            if limit is not None and recipe.total_workspace > limit:
                return None
            attempt = Trial(solver, recipe)
            try:
                loaded, failures = self._session.kernels.load(recipe.programs)
                if failures:
                    return None
                self._time(attempt, loaded)
                assert attempt.measurement is not None
                assert trial.measurement is not None
                is_better = attempt.measurement.median < trial.measurement.median
                if is_better:
                    self._confirm(attempt)
            except asking.FAILURES:
                self._bench.restore()
                return None  # a config that fails is no candidate; the default one is still there
            if is_better:
                trial.recipe, trial.candidate = attempt.recipe, attempt.candidate
                trial.measurement, trial.error = attempt.measurement, attempt.error
            return attempt.measurement.median

        best = tuned_config(
            asking.search_space(solver, self._problem, self._session.target),
            asking.default_config(solver, self._problem, self._session.target),
            time_config,
            deadline=self._deadline,
            progress=self._progress,
        )
        assert trial.measurement is not None
        if best is not None:
            self._session.database.store_config(
                self._session.target,
                self._problem,
                solver.solver_id,
                solver.version,
                best,
                trial.measurement.median,
            )

    def _run_final(self) -> None:
        """Let those that are close to the best run against each other, until one wins rightly."""
        trials = self._outcome.trials
        while trials:
            self._measure_closest()
            best = min(trials, key=lambda trial: trial.measurement.median)  # type: ignore[union-attr]
            try:
                self._confirm(best, again=True)
                return
            except asking.FAILURES as error:
                trials.remove(best)
                self._fail(best, error)

    def _measure_closest(self) -> None:
        best = self._outcome.best_ms
        assert best is not None
        finalists = [
            trial
            for trial in self._outcome.trials
            if trial.measurement and trial.measurement.least <= FINALIST_FACTOR * best
        ]
        if len(finalists) < 2:
            return
        samples = [trial.candidate.sample for trial in finalists if trial.candidate]
        measurements = measure_finalists(samples, self._sampling)
        for trial, measurement in zip(finalists, measurements, strict=True):
            trial.measurement = measurement

    # -- small parts ------------------------------------------------------------------------------

    @property
    def _out_of_time(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _recorded_config(self, solver: Solver) -> Config | None:
        """The tuned config of an earlier search, if it is still legal."""
        if self._policy.retune or not isinstance(solver, TunableSolver):
            return None
        config = self._session.database.config(
            self._session.target, self._problem, solver.solver_id, solver.version
        )
        why = asking.config_fault(solver, self._problem, self._session.target, config)
        return config if why is None else None

    def _is_limited(self, trial: Trial) -> bool:
        """True where the solver would do better with the workspace that the limit denies."""
        if self._policy.workspace_limit is None:
            return False
        full = asking.workspace_size(trial.solver, self._problem, self._session.target)
        return full > trial.recipe.total_workspace

    @staticmethod
    def _failure(recipe: Recipe, failures: Failures) -> Rejected | None:
        for program in recipe.programs:
            if program in failures:
                return Rejected(Reason.BUILD_FAILED, str(failures[program]))
        return None

    def _reject(self, solver: Solver, why: Rejected, *, settled: bool = True) -> None:
        self._outcome.rejected[solver.solver_id] = why
        if settled:
            self._outcome.considered.add(versioned_id(solver))

    def _quarantine(self, trial: Trial, detail: str) -> None:
        if not self._policy.write_back:
            return
        record = QuarantineRecord(
            solver=trial.solver.solver_id,
            solver_version=trial.solver.version,
            source_hash=trial.recipe.source_hash,
            driver=self._session.target.driver,
            reason=Reason.WRONG_RESULT.value,
            detail=detail,
            created=int(time.time()),
            config=None if trial.recipe.config is None else dict(trial.recipe.config),
        )
        self._session.database.quarantine(self._session.target, self._problem, record)

    def _solution_of(self, trial: Trial) -> Solution:
        """Return what the user gets of a measured trial."""
        assert trial.measurement is not None
        return Solution(
            solver=trial.solver.solver_id,
            algorithm=trial.solver.algorithm,
            problem=self._problem.key,
            device=self._session.target.identity,
            time_ms=trial.measurement.median,
            time_origin=TimeOrigin.MEASURED,
            workspace=trial.recipe.total_workspace,
            error=trial.error,
            config=trial.recipe.config,
            samples=len(trial.measurement.samples),
            spread=trial.measurement.spread,
            constant_weights=self._policy.constant_weights,
        )


def refusal(error: BaseException) -> Rejected:
    """Return what an error of a candidate says of its solver."""
    if isinstance(error, VerificationError):
        return Rejected(Reason.WRONG_RESULT, str(error))
    if isinstance(error, SolverError):
        return Rejected(Reason.SOLVER_ERROR, error.detail)
    if isinstance(error, KernelBuildError):
        return Rejected(Reason.BUILD_FAILED, str(error))
    if isinstance(error, ConvfindError):
        return Rejected(Reason.LAUNCH_FAILED, str(error))
    return Rejected(Reason.SOLVER_ERROR, asking.told(error))
