"""The measuring part of a find: build candidates, compile, check, time, tune, decide."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, as_completed
from typing import Any, TypeGuard

from convfind.checking.measuring import QUICK, USUAL, Measurement, measure
from convfind.device.target import DeviceKind
from convfind.errors import DeviceError, KernelBuildError
from convfind.find.bench import KNOWN, Bench, Candidate
from convfind.find.budget import Budget
from convfind.find.final import run_final
from convfind.find.forecast import Forecast
from convfind.find.isolation.choice import bench_for
from convfind.find.lessons import learn
from convfind.find.lineup import Lineup, recorded_config
from convfind.find.race import Race
from convfind.find.recorded import outrun_id
from convfind.find.recording import quarantine
from convfind.find.screening import Screening
from convfind.find.solution import Solution
from convfind.find.solver_tuning import tune
from convfind.find.trial import NOT_RUN, FinalistError, SearchOutcome, Trial, refusal
from convfind.log import logger
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.reasons import Reason
from convfind.runtime.disturbance import Disturbance, is_disturbed
from convfind.runtime.session import Progress, Session
from convfind.solver import Solver, TunableSolver, asking, versioned_id
from convfind.solver.applicability import Rejected
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Recipe

#: Refusals that later finds of the problem do not try again.
_QUARANTINING = (Reason.WRONG_RESULT, Reason.CRASHED, Reason.HUNG)

Jobs = Mapping[Program, Future[Any]]


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
        self.problem = problem
        self.session = session
        self.policy = policy
        self._progress = progress
        self._configs = configs or {}
        self._sampling = QUICK if policy.quick else USUAL
        self._outcome = SearchOutcome()
        self._budget = Budget(policy.time_budget) if budget is None else budget

    def run(self, screening: Screening) -> SearchOutcome:
        """Measure the candidates; the last resorts only where nothing else ran.

        Raises:
            DeviceError: the host has no memory for the tensors or for their reference, or no child
                process can be had where the policy asks for one.
        """
        self.bench: Bench
        self.bench, screening = bench_for(
            self.problem, self.session, self.policy, self._budget, screening
        )
        try:
            return self._run(screening)
        except MemoryError as exc:
            msg = (
                f"the host has no memory to measure {self.problem}, {self.problem.traffic} bytes "
                f"({exc}); take a smaller batch, or mode FAST, which estimates"
            )
            raise DeviceError(msg) from exc
        finally:
            self.bench.close()

    def _run(self, screening: Screening) -> SearchOutcome:
        ordinary = [solver for solver in screening.candidates if not solver.is_last_resort]
        last_resorts = [solver for solver in screening.candidates if solver.is_last_resort]
        logger.info(
            "%s on %s: %d candidates, %d refused",
            *(self.problem.key, self.session.target.name),
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
        """Take over what was refused before; refusals by the policy, or for now, settle nothing."""
        unsettled = (Reason.DENIED, Reason.NOT_DYNAMIC, Reason.QUARANTINED, Reason.NO_CHILD)
        for solver_id, why in rejected.items():
            logger.debug("%s: %s", solver_id, why)
            self._outcome.rejected[solver_id] = why
            solver = self.session.registry.find_solver(solver_id)
            if solver is not None and why.reason not in unsettled:
                self._outcome.considered.add(versioned_id(solver))

    def _race(self, solvers: Sequence[Solver]) -> None:
        forecasts = self._measure_all(solvers)
        self._tune_all()
        self._run_final()
        if self.policy.races:
            latest = self.session.disturbances
            latest.append(Disturbance.of(trial.timed for trial in self._outcome.trials))
            self._outcome.is_disturbed = is_disturbed(latest)
        # Forecasts are of default configs, and what other work did to times is no lesson.
        if not (self.policy.tune or self._outcome.is_disturbed):
            lessons, constant = self.session.lessons, self.policy.constant_weights
            learn(lessons, self.problem, forecasts, self._times, constant_weights=constant)

    def _measure_all(self, solvers: Sequence[Solver]) -> Mapping[str, Forecast]:
        """Compile and measure who can win, or everybody, as far as the budget goes.

        The most promising come first: they set the mark at which the others are abandoned.

        Returns:
            The forecasts of those who start.
        """
        lineup = Lineup.of(
            *(solvers, self.problem, self.session, self.policy),
            configs=self._configs,
            is_ready=self.bench.is_ready,
        )
        for solver, why, is_settled in lineup.refused:
            self._reject(solver, why, settled=is_settled)
        trials, race, waiting = lineup.trials, lineup.race, list(lineup.order)
        total, outrun = len(waiting), dict[str, Rejected]()
        while waiting and not self._is_over:
            able = waiting
            if self.policy.races:
                able, outrun = race.contenders(waiting, self._least_times)
                # Where nobody that was to win has run, everybody may.
                able = able or ([] if self._outcome.trials else waiting)
                if not self._times_beside_compiling:
                    # By their times fewer of the others may be worth compiling.
                    is_ready = self.bench.is_ready
                    able = [s for s in able if is_ready(trials[s.solver_id].programs)] or able
            if not able:
                break
            batch = able[: self._budget.batch(self.bench.parallel_level)]
            self._measure_batch([trials[solver.solver_id] for solver in batch], race, total)
            waiting = [solver for solver in waiting if solver not in batch]
        for solver in waiting:
            if solver.solver_id in outrun and not self._is_over:
                self._leave_out(solver, outrun[solver.solver_id])
            else:
                self._put_off(solver)
        if solvers:
            self._progress("measure", len(solvers), len(solvers), "")
        return lineup.forecasts

    def _measure_batch(self, trials: Sequence[Trial], race: Race, total: int) -> None:
        """Compile trials, and measure those that can still win when their turn comes.

        A GPU times one while the host compiles the next; a CPU that compiles times nothing well.
        """
        jobs = self.bench.compile(program for trial in trials for program in trial.programs)
        is_beside = self._times_beside_compiling
        if not is_beside:
            self._wait(trials, jobs)
        if is_beside or any(_failure(trial.recipe, jobs) is None for trial in trials):
            self.bench.make_ready(verify=self.policy.verify)
        for trial in trials:
            solver = trial.solver
            self._progress("measure", len(self._outcome.trials), total, solver.solver_id)
            outrun = race.contenders([solver], self._least_times)[1] if self.policy.races else {}
            if self._is_over:
                self._put_off(solver)
            elif self._outcome.trials and solver.solver_id in outrun:
                self._leave_out(solver, outrun[solver.solver_id])
            elif (failure := _failure(trial.recipe, jobs)) is not None:
                self._refuse(trial, failure)
            else:
                self._try(trial)

    def _wait(self, trials: Sequence[Trial], jobs: Jobs) -> None:
        """Wait until all jobs are done, and tell the budget how long that took."""
        began = time.monotonic()
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

    def _try(self, trial: Trial) -> None:
        """Check and time one candidate."""
        try:
            if self.policy.races:
                self._time_briefly(trial)
            else:
                self.time(trial)
                self.confirm(trial)
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

    def time(self, trial: Trial) -> None:
        """Check a candidate and time it. Raises what is a refusal of its solver."""
        candidate, _ = self._checked(trial)
        trial.measurement = measure(candidate.sample, self._outcome.best_ms, self._sampling)

    def confirm(self, trial: Trial) -> None:
        """Check a trial after it was timed. Raises `VerificationError`."""
        if self.policy.verify and trial.candidate is not None:
            trial.candidate.confirm(trial.solver)

    def _checked(self, trial: Trial) -> tuple[Candidate, float]:
        """Put a trial on the bench and check it; return it, and the milliseconds of that run.

        Raises what is a refusal of its solver.
        """
        candidate = trial.candidate = self.bench.candidate(trial.recipe)
        if not self.policy.verify:
            return candidate, candidate.run_once()
        checked = candidate.verify(trial.solver)
        trial.error = checked.error.max_error
        return candidate, checked.time_ms

    def _time_briefly(self, trial: Trial) -> None:
        """Check a candidate and time it once: two samples show who may be close to the best.

        The run that is checked is the first of them. It is often slow, as caches and cores of a CPU
        are the host's. Results on the data that are timed are checked of the winner, at the end.
        """
        _, first = self._checked(trial)
        trial.measurement = Measurement((first, trial.sample()))

    def _fail(self, trial: Trial, error: BaseException) -> None:
        """Refuse a trial; what it may have done to the tensors is undone for the others."""
        self.bench.restore()
        self._refuse(trial, error)

    def _lose(self, trial: Trial, error: BaseException) -> None:
        """Refuse one that was among those measured."""
        self._outcome.trials.remove(trial)
        self._fail(trial, error)

    def _refuse(self, trial: Trial, error: BaseException) -> None:
        """Refuse a trial; one that harmed others, or whose result is wrong, not only this time."""
        why = refusal(error)
        if why.reason in _QUARANTINING and self.policy.write_back:
            quarantine(self.problem, self.session, trial, why)
        self._reject(trial.solver, why, settled=why.reason not in NOT_RUN)

    def _tune_all(self) -> None:
        """Tune what was measured, the fastest first: that is where a budget is worth most."""
        for trial in sorted(self._outcome.trials, key=lambda trial: trial.median):
            if not self._is_to_tune(trial.solver):
                continue
            try:
                is_settled = tune(trial, trial.solver, self, self._budget, self._progress)
            except asking.FAILURES as error:
                self._lose(trial, error)
                continue
            if not is_settled and self.policy.retune:
                # The configs of an earlier search may still be better.
                self._outcome.considered.discard(versioned_id(trial.solver))
            self._tell(trial)

    def _run_final(self) -> None:
        """Let those that are close to the best run against each other, until one wins rightly."""
        trials = self._outcome.trials
        while trials:
            try:
                run_final(trials, self._sampling, self._budget, races=self.policy.races)
            except FinalistError as error:
                self._lose(error.trial, error.__cause__ or error)
                continue
            best = min(trials, key=lambda trial: trial.median)
            try:
                self.confirm(best)
                return
            except asking.FAILURES as error:
                self._lose(best, error)

    # -- small parts ------------------------------------------------------------------------------

    @property
    def _times_beside_compiling(self) -> bool:
        return self.session.target.kind is not DeviceKind.CPU and not self._budget.is_limited

    @property
    def _is_over(self) -> bool:
        """True where the budget is spent; at least one solver runs before."""
        return bool(self._outcome.trials) and self._budget.is_spent

    def _is_to_tune(self, solver: Solver) -> TypeGuard[TunableSolver]:
        """True for tunable solvers that were not tuned earlier."""
        return (
            self.policy.tune
            and isinstance(solver, TunableSolver)
            and recorded_config(solver, self.problem, self.session, self.policy) is None
        )

    def _tell(self, trial: Trial) -> None:
        """Tell the listeners that a candidate was measured."""
        self.session.registry.candidate_measured(
            self.problem, self.session.target, self._solution_of(trial)
        )

    def _is_limited(self, trial: Trial) -> bool:
        """True where the solver would do better with the workspace that the limit denies."""
        if self.policy.workspace_limit is None:
            return False
        full = asking.workspace_size(trial.solver, self.problem, self.session.target)
        return full > trial.recipe.total_workspace

    @property
    def _times(self) -> dict[str, float]:
        """The times so far, by solver id."""
        return {trial.solver.solver_id: trial.median for trial in self._outcome.trials}

    @property
    def _least_times(self) -> dict[str, float]:
        """The fastest samples so far, by solver id: other work makes two samples slow at once."""
        return {trial.solver.solver_id: trial.least for trial in self._outcome.trials}

    def _leave_out(self, solver: Solver, why: Rejected) -> None:
        """Refuse who cannot win: decided for finds that race, and open to all others."""
        self._reject(solver, why, settled=False)
        self._outcome.considered.add(outrun_id(solver))

    def _put_off(self, solver: Solver) -> None:
        self._reject(solver, Rejected(Reason.BUDGET), settled=False)

    def _reject(self, solver: Solver, why: Rejected, *, settled: bool = True) -> None:
        logger.info("%s: %s", solver.solver_id, why)
        self._outcome.rejected[solver.solver_id] = why
        if settled:
            self._outcome.considered.add(versioned_id(solver))

    def _solution_of(self, trial: Trial) -> Solution:
        """Return what the user gets of a measured trial."""
        return trial.solution(
            self.problem, self.session.target, constant_weights=self.policy.constant_weights
        )


def _failure(recipe: Recipe, jobs: Jobs) -> KernelBuildError | None:
    """Return what keeps a recipe from running, once its jobs are done; waits for them."""
    errors = (jobs[program].exception() for program in recipe.programs)
    return next((error for error in errors if isinstance(error, KernelBuildError)), None)
