"""The measuring part of a find: build candidates, compile, check, time, tune, decide."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from typing import TypeGuard

from convfind.checking.measuring import (
    FINALIST_FACTOR,
    QUICK,
    USUAL,
    measure,
    measure_finalists,
)
from convfind.errors import DeviceError, KernelBuildError, SolverError
from convfind.find.bench import KNOWN, Bench
from convfind.find.budget import Budget
from convfind.find.immediate import ask_heuristics
from convfind.find.isolation.choice import bench_for
from convfind.find.screening import Screening
from convfind.find.solution import Solution, TimeOrigin
from convfind.find.trial import SearchOutcome, Trial, refusal
from convfind.find.tuning import tuned_config
from convfind.finddb import QuarantineRecord
from convfind.log import logger
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.session import Progress, Session
from convfind.solver import Solver, TunableSolver, asking, versioned_id
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Recipe

#: Refusals that later finds of the problem do not try again.
_QUARANTINING = (Reason.WRONG_RESULT, Reason.CRASHED, Reason.HUNG)


class Search:
    """One search for one plain problem; `run` does it.

    ``configs`` fixes the configs of solvers by id; others get their recorded or default ones. The
    ``budget`` is the policy's from now on, where none is given that runs already.
    """

    def __init__(
        self,
        problem: Problem,
        session: Session,
        policy: Policy,
        progress: Progress,
        configs: Mapping[str, Config] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._problem = problem
        self._session = session
        self._policy = policy
        self._progress = progress
        self._configs = configs or {}
        self._sampling = QUICK if policy.quick else USUAL
        self._outcome = SearchOutcome()
        self._budget = Budget(policy.time_budget) if budget is None else budget

    def run(self, screening: Screening) -> SearchOutcome:
        """Measure the candidates; the last resorts only where nothing else ran.

        Raises:
            DeviceError: the host has no memory for the tensors or for their reference.
        """
        self._bench: Bench = bench_for(
            self._problem, self._session, self._policy, self._budget, screening.candidates
        )
        try:
            return self._run(screening)
        except MemoryError as exc:
            msg = (
                f"the host has no memory to measure {self._problem}, {self._problem.traffic} bytes "
                f"({exc}); take a smaller batch, or mode FAST, which estimates"
            )
            raise DeviceError(msg) from exc
        finally:
            self._bench.close()

    def _run(self, screening: Screening) -> SearchOutcome:
        ordinary = [solver for solver in screening.candidates if not solver.is_last_resort]
        last_resorts = [solver for solver in screening.candidates if solver.is_last_resort]
        logger.info(
            "%s on %s: %d candidates, %d refused",
            *(self._problem.key, self._session.target.name),
            *(len(screening.candidates), len(screening.rejected)),
        )
        self._settle(screening.rejected)
        self._race(ordinary)
        if self._outcome.trials:
            for solver in last_resorts:
                self._reject(solver, Rejected(Reason.LAST_RESORT), settled=False)
        else:
            self._race(last_resorts)
        self._outcome.solutions = tuple(self._solution_of(trial) for trial in self._outcome.trials)
        return self._outcome

    # -- stages -----------------------------------------------------------------------------------

    def _settle(self, rejected: Mapping[str, Rejected]) -> None:
        """Take over what screening refused; refusals by the policy settle nothing."""
        by_policy = (Reason.DENIED, Reason.NOT_DYNAMIC, Reason.QUARANTINED)
        for solver_id, why in rejected.items():
            logger.debug("%s: %s", solver_id, why)
            self._outcome.rejected[solver_id] = why
            solver = self._session.registry.find_solver(solver_id)
            if solver is not None and why.reason not in by_policy:
                self._outcome.considered.add(versioned_id(solver))

    def _race(self, solvers: Sequence[Solver]) -> None:
        self._measure_all(solvers)
        self._tune_all()
        self._run_final()

    def _measure_all(self, solvers: Sequence[Solver]) -> None:
        """Compile and measure, all at once or as far as the budget goes.

        The most promising come first: they set the mark at which the others are abandoned.
        """
        waiting, done = self._by_promise(solvers), 0
        while waiting:
            if self._is_over:
                for solver in waiting:
                    self._put_off(solver)
                return
            size = self._budget.batch(self._bench.parallel_level)
            batch, waiting = waiting[:size], waiting[size:]
            trials = list(self._built(batch))
            failures = self._compile(trials)
            if any(_failure(trial.recipe, failures) is None for trial in trials):
                self._bench.make_ready(verify=self._policy.verify)
            for trial in trials:
                self._progress("measure", done, len(solvers), trial.solver.solver_id)
                done += 1
                if self._is_over:
                    self._put_off(trial.solver)
                elif (failure := _failure(trial.recipe, failures)) is not None:
                    self._refuse(trial, failure)
                else:
                    self._try(trial)
        if solvers:
            self._progress("measure", len(solvers), len(solvers), "")

    def _by_promise(self, solvers: Sequence[Solver]) -> list[Solver]:
        """Order solvers by what a heuristic predicts, then by their throughput index."""
        advice = ask_heuristics(self._problem, self._session, solvers, self._policy.fallback)
        predicted = {prediction.solver: prediction.time_ms for prediction in advice.predictions}
        ranked: list[tuple[float, float, int]] = []
        for place, solver in enumerate(solvers):
            try:
                index = asking.wti(solver, self._problem, self._session.target) or 0.0
                ranked.append((predicted.get(solver.solver_id, math.inf), -index, place))
            except SolverError as error:
                self._reject(solver, refusal(error))
        return [solvers[place] for *_, place in sorted(ranked)]

    def _built(self, solvers: Sequence[Solver]) -> Iterator[Trial]:
        limit = self._policy.workspace_limit
        for solver in solvers:
            try:
                config = self._configs.get(solver.solver_id) or self._recorded_config(solver)
                recipe = asking.recipe(solver, self._problem, self._session.target, config, limit)
                if config is not None and self._is_too_large(recipe):
                    recipe = asking.recipe(solver, self._problem, self._session.target, None, limit)
            except SolverError as error:
                self._reject(solver, refusal(error))
                continue
            if self._is_too_large(recipe):
                detail = f"{recipe.total_workspace} bytes of {limit}"
                self._reject(solver, Rejected(Reason.WORKSPACE, detail), settled=False)
                continue
            yield Trial(solver, recipe)

    def _compile(self, trials: Sequence[Trial]) -> Mapping[Program, KernelBuildError]:
        """Compile what trials need, and return what failed."""
        began = time.monotonic()
        jobs = self._bench.compile(program for trial in trials for program in trial.recipe.programs)
        pending = [job for job in jobs.values() if job is not KNOWN]
        for done, _ in enumerate(as_completed(pending), 1):
            self._progress("compile", done, len(pending), "")
        seconds = time.monotonic() - began
        logger.info(
            "%d programs made ready in %.2f s, %d of them compiled",
            *(len(jobs), seconds, len(pending)),
        )
        if pending:
            self._budget.compiled(min(len(trials), len(pending)), seconds)
        errors = {program: job.exception() for program, job in jobs.items()}
        return {p: error for p, error in errors.items() if isinstance(error, KernelBuildError)}

    def _try(self, trial: Trial) -> None:
        """Check and time one candidate."""
        try:
            self._time(trial)
            self._confirm(trial)
            is_limited = self._is_limited(trial)
        except asking.FAILURES as error:
            self._fail(trial, error)
            return
        self._outcome.trials.append(trial)
        logger.info("%s: %s", trial.solver.solver_id, trial)
        if not is_limited:
            self._outcome.considered.add(versioned_id(trial.solver))
        if not self._is_to_tune(trial.solver):
            self._tell(trial)

    def _time(self, trial: Trial) -> None:
        candidate = trial.candidate = self._bench.candidate(trial.recipe)
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
        self._refuse(trial, error)

    def _refuse(self, trial: Trial, error: BaseException) -> None:
        """Refuse a trial; one that harmed others, or whose result is wrong, not only this time."""
        why = refusal(error)
        if why.reason in _QUARANTINING:
            self._quarantine(trial, why)
        self._reject(trial.solver, why, settled=why.reason is not Reason.BUDGET)

    def _tune_all(self) -> None:
        """Tune what was measured, the fastest first: that is where a budget is worth most."""
        for trial in sorted(self._outcome.trials, key=lambda trial: trial.median):
            if not self._is_to_tune(trial.solver):
                continue
            try:
                self._tune(trial.solver, trial)
            except asking.FAILURES as error:
                self._outcome.trials.remove(trial)
                self._fail(trial, error)
            else:
                self._tell(trial)

    def _tune(self, solver: TunableSolver, trial: Trial) -> None:
        all_fit = True

        def time_config(config: Config) -> float | None:
            nonlocal all_fit
            limit = self._policy.workspace_limit
            recipe = asking.recipe(solver, self._problem, self._session.target, config, limit)
            if self._is_too_large(recipe):
                all_fit = False
                return None
            attempt = Trial(solver, recipe)
            try:
                self._time(attempt)
                is_better = attempt.median < trial.median
                if is_better:
                    self._confirm(attempt)
            except KernelBuildError:
                return None
            except asking.FAILURES:
                self._bench.restore()
                return None  # a config that fails is no candidate; the default one is still there
            logger.debug("%s: %s with %s", solver.solver_id, attempt, config)
            if is_better:
                trial.recipe, trial.candidate = attempt.recipe, attempt.candidate
                trial.measurement, trial.error = attempt.measurement, attempt.error
            return attempt.median

        tuned = tuned_config(
            asking.search_space(solver, self._problem, self._session.target),
            asking.default_config(solver, self._problem, self._session.target),
            time_config,
            budget=self._budget,
            progress=self._progress,
        )
        if tuned.is_complete and all_fit and tuned.config is not None:
            self._session.database.store_config(
                self._session.target,
                self._problem,
                solver.solver_id,
                solver.version,
                tuned.config,
                trial.median,
            )
        elif self._policy.retune:
            # The configs of an earlier search may still be better.
            self._outcome.considered.discard(versioned_id(solver))

    def _run_final(self) -> None:
        """Let those that are close to the best run against each other, until one wins rightly."""
        trials = self._outcome.trials
        while trials:
            self._measure_closest()
            best = min(trials, key=lambda trial: trial.median)
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
        measurements = measure_finalists(samples, self._sampling, lambda: self._budget.is_spent)
        if measurements is None:
            return
        for trial, measurement in zip(finalists, measurements, strict=True):
            trial.measurement = measurement
            logger.info("%s: %s among %d finalists", trial.solver.solver_id, trial, len(finalists))

    # -- small parts ------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        """True where the budget is spent; at least one solver runs before."""
        return bool(self._outcome.trials) and self._budget.is_spent

    def _is_too_large(self, recipe: Recipe) -> bool:
        limit = self._policy.workspace_limit
        return limit is not None and recipe.total_workspace > limit

    def _is_to_tune(self, solver: Solver) -> TypeGuard[TunableSolver]:
        """True for tunable solvers that were not tuned earlier."""
        return (
            self._policy.tune
            and isinstance(solver, TunableSolver)
            and self._recorded_config(solver) is None
        )

    def _tell(self, trial: Trial) -> None:
        """Tell the listeners that a candidate was measured."""
        self._session.registry.candidate_measured(
            self._problem, self._session.target, self._solution_of(trial)
        )

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

    def _put_off(self, solver: Solver) -> None:
        self._reject(solver, Rejected(Reason.BUDGET), settled=False)

    def _reject(self, solver: Solver, why: Rejected, *, settled: bool = True) -> None:
        logger.info("%s: %s", solver.solver_id, why)
        self._outcome.rejected[solver.solver_id] = why
        if settled:
            self._outcome.considered.add(versioned_id(solver))

    def _quarantine(self, trial: Trial, why: Rejected) -> None:
        if not self._policy.write_back:
            return
        record = QuarantineRecord(
            solver=trial.solver.solver_id,
            solver_version=trial.solver.version,
            source_hash=trial.recipe.source_hash,
            driver=self._session.target.driver,
            reason=why.reason.value,
            detail=why.detail,
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
            time_ms=trial.median,
            time_origin=TimeOrigin.MEASURED,
            workspace=trial.recipe.total_workspace,
            error=trial.error,
            config=trial.recipe.config,
            samples=len(trial.measurement.samples),
            spread=trial.measurement.spread,
            constant_weights=self._policy.constant_weights,
        )


def _failure(
    recipe: Recipe, failures: Mapping[Program, KernelBuildError]
) -> KernelBuildError | None:
    return next((failures[program] for program in recipe.programs if program in failures), None)
