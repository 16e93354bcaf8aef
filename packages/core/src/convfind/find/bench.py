"""`Bench`: where a search has candidates compiled, checked and timed; `LocalBench` is this process.

A search talks to nothing else of the device, so that candidates may run anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol

from convfind.checking.workbench import Workbench

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from convfind.checking.accuracy import Checked
    from convfind.problem.contract import Problem
    from convfind.runtime.session import Session
    from convfind.solver import Solver
    from convfind.solver.kernel_spec import Program
    from convfind.solver.recipe import Recipe

#: The job of every program that need not be compiled: it is done.
KNOWN: Final[Future[Any]] = Future()
KNOWN.set_result(None)


class Candidate(Protocol):
    """A recipe on the bench. Its methods raise what is a refusal of the solver."""

    def verify(self, solver: Solver) -> Checked:
        """Run once and check everything that was written, or should not have been.

        Raises:
            VerificationError: the result is wrong, or something else was written.
            SolverError: the solver does not say what errors it may have.
        """

    def run_once(self) -> float:
        """Run once, without a check; return milliseconds of device time."""

    def sample(self) -> float:
        """Run once on the next copy of the tensors; return milliseconds of device time."""

    def confirm(self, solver: Solver) -> float:
        """Run once more, on what is timed, and check that; return milliseconds of device time.

        Raises as `verify` does.
        """


class Bench(Protocol):
    """The tensors of one problem and a compiler, for candidates one after the other."""

    @property
    def parallel_level(self) -> int:
        """How many programs are compiled at once."""

    def is_ready(self, programs: Iterable[Program]) -> bool:
        """Return whether there is nothing to compile for these programs."""

    def compile(self, programs: Iterable[Program]) -> Mapping[Program, Future[Any]]:
        """Begin to compile programs, and do not wait.

        Returns:
            A job for each program. It is `KNOWN` where there is nothing to do; else it is done once
            the program is compiled, or has failed with a `KernelBuildError` as its exception. It
            may be cancelled, which costs nothing before it began.
        """

    def make_ready(self, *, verify: bool) -> None:
        """Draw and upload data, and compute what is right, before anybody's kernel has run.

        Raises:
            DeviceError: the device has no memory for the tensors.
            MemoryError: the host has none.
        """

    def candidate(self, recipe: Recipe) -> Candidate:
        """Make a recipe ready to be checked and timed; what is not compiled yet is waited for.

        Raises:
            KernelBuildError: a kernel of it does not build.
            LaunchError: the device refuses a step.
        """

    def restore(self) -> None:
        """Make all tensors what they were, whatever a candidate has done to them."""

    def close(self) -> None:
        """Forget what has not begun to compile, and release what the bench holds."""


class LocalBench:
    """The bench in this process: a crash or an endless kernel ends or holds up all of it."""

    def __init__(self, problem: Problem, session: Session, *, constant_weights: bool) -> None:
        self._kernels = session.kernels
        self._workbench = Workbench(problem, session, constant_weights=constant_weights)
        self._jobs: dict[Program, Future[Any]] = {}
        self._executor: Executor | None = None

    @property
    def parallel_level(self) -> int:
        """How many programs are compiled at once."""
        return self._kernels.parallel_level

    def is_ready(self, programs: Iterable[Program]) -> bool:
        """Return whether all these programs are in memory or in the store, or on their way."""
        return all(map(self._kernels.is_begun, programs))

    def compile(self, programs: Iterable[Program]) -> Mapping[Program, Future[Any]]:
        """Begin to compile programs in threads."""
        programs = tuple(dict.fromkeys(programs))
        self._kernels.expect(sum(not self._kernels.is_begun(program) for program in programs))
        return {program: self._begun(program) for program in programs}

    def make_ready(self, *, verify: bool) -> None:
        """Draw and upload data, and compute what is right."""
        self._workbench.make_ready(verify=verify)

    def candidate(self, recipe: Recipe) -> Candidate:
        """Load the kernels of a recipe and make it ready."""
        loaded = {program: self._loaded(program) for program in recipe.programs}
        return self._workbench.candidate(recipe, loaded)

    def restore(self) -> None:
        """Make all tensors what they were."""
        self._workbench.restore()

    def close(self) -> None:
        """Forget what has not begun to compile, and keep what nobody has run: others may."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._kernels.store_all(
            {
                program: job.result()
                for program, job in self._jobs.items()
                if job.done() and not job.cancelled() and job.exception() is None
            }
        )
        self._jobs.clear()

    def _begun(self, program: Program) -> Future[Any]:
        if self._kernels.known(program) is not None:
            return KNOWN
        job = self._jobs.get(program)
        if job is None or job.cancelled():
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor

                self._executor = ThreadPoolExecutor(self._kernels.parallel_level)
            job = self._jobs[program] = self._executor.submit(self._kernels.compile, program)
        return job

    def _loaded(self, program: Program) -> object:
        job = self._begun(program)
        if job is KNOWN:
            return self._kernels.known(program)
        loaded = self._kernels.take(program, job.result())
        del self._jobs[program]
        return loaded
