"""`IsolatedBench`: the bench in a child process; who ends it, or never ends, is lost and named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from convfind.errors import DeviceError, LaunchError, LostError
from convfind.find.bench import KNOWN, Candidate, LocalBench
from convfind.find.isolation.candidate import IsolatedCandidate
from convfind.find.isolation.child import Child
from convfind.find.isolation.compilation import compiled
from convfind.find.isolation.limits import Limits
from convfind.find.isolation.process import EndedError, OverdueError
from convfind.find.isolation.wire import ForeignError
from convfind.log import logger
from convfind.reasons import Reason

if TYPE_CHECKING:
    from convfind.find.budget import Budget
    from convfind.problem.contract import Problem
    from convfind.runtime.session import Session
    from convfind.solver.kernel_spec import Program
    from convfind.solver.recipe import Recipe

T = TypeVar("T")

#: Children that are started for a bench, one after the other: somebody may end one as it starts.
_STARTS = 3


class IsolatedBench:
    """A bench in a session's child.

    A solver that runs while the child ends is asked again in the next one, alone there: only if
    that ends, too, it was this solver. Solvers that the child cannot import, such as those
    of an interactive session, run in this process.
    """

    def __init__(
        self,
        child: Child,
        problem: Problem,
        session: Session,
        budget: Budget,
        *,
        constant_weights: bool,
    ) -> None:
        """Begin a bench.

        Raises `DeviceError`, `LostError` or `ForeignError` where the child cannot have it.
        """
        self.child = child
        self.limits = Limits(problem, budget)
        self.forgotten: list[int] = []  # candidates that nobody has any more
        self._problem = problem
        self._session = session
        self._constant_weights = constant_weights
        self._jobs: dict[Program, Future[Any]] = {}
        self._executor: Executor | None = None
        self._is_closed = False
        self._local: LocalBench | None = None
        self._wanted: bool | None = None  # whether it is to be ready for checks; None: not at all
        self._life = 0  # of the child, in which it is ...
        self._number = 0  # by this number ...
        self._ready: bool | None = None  # and as ready as this
        self._sent: set[Program] = set()
        self.attempt(lambda: None)

    @property
    def parallel_level(self) -> int:
        """How many programs are compiled at once."""
        return self._session.kernels.parallel_level

    def compile(self, programs: Iterable[Program]) -> Mapping[Program, Future[Any]]:
        """Begin to compile programs in the child."""
        return {program: self._begun(program) for program in programs}

    def is_ready(self, programs: Iterable[Program]) -> bool:
        """Return whether all these programs are in the store."""
        return all(self._session.kernels.stored(program) for program in programs)

    def make_ready(self, *, verify: bool) -> None:
        """Draw and upload data, and compute what is right."""
        self._wanted = verify
        self.attempt(lambda: None)

    def candidate(self, recipe: Recipe) -> Candidate:
        """Make a recipe ready in the child, or here where its solver is unknown there."""
        for job in self.compile(recipe.programs).values():
            job.result()
        self._keep_compiled()
        solver = self._session.registry.solver(recipe.solver)
        try:
            return IsolatedCandidate(self, recipe, solver)
        except ForeignError as error:
            logger.info("%s runs in this process: the child %s", solver.solver_id, error)
            return self._here().candidate(recipe)

    def restore(self) -> None:
        """Make all tensors what they were; in a new child where the device fails in this one."""
        if self._local is not None:
            self._local.restore()
        if not self._is_there:
            return
        try:
            self.ask("restore", self._number)
        except (DeviceError, LaunchError, EndedError) as error:
            logger.info("a new child takes the place of one whose device fails: %s", error)
            self.child.kill()

    def close(self) -> None:
        """Forget what has not begun to compile, and release what the bench holds."""
        self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._keep_compiled()
        if self._local is not None:
            self._local.close()
        if any(not job.done() for job in self._jobs.values()):
            self.child.kill()  # nobody waits for them
        elif self._is_there:
            try:
                self.ask("close", self._number)
            except Exception as error:
                logger.info("the child does not close its bench: %s", error)
                self.child.kill()

    # -- what its candidates need -----------------------------------------------------------------

    @property
    def number(self) -> int:
        """The bench in this life of the child."""
        return self._number

    @property
    def verifies(self) -> bool:
        """True if candidates are checked."""
        return bool(self._wanted)

    def attempt(self, work: Callable[[], T]) -> T:
        """Do something in the child, where this bench is; once more, alone, if it ends meanwhile.

        Raises:
            LostError: it has ended the child, twice, or does not end itself; or no child lives long
                enough to have the bench.
            DeviceError: the child cannot have the bench.
        """
        try:
            with self.child.gate.together():
                self.settle()
                return work()
        except EndedError as error:
            if isinstance(error, OverdueError) and self.limits.is_by_budget:
                raise LostError(Reason.BUDGET, str(error)) from error
            logger.info("the child in which candidates run has ended: %s; once more", error)
        with self.child.gate.alone():
            self._settle_somehow()
            try:
                return work()
            except EndedError as error:
                raise LostError(self.limits.blamed(error), str(error)) from error

    def _settle_somehow(self) -> None:
        """Do so in a child that may be ended as it starts: by whom, if not by a candidate?"""
        for left in reversed(range(_STARTS)):
            try:
                self.settle()
                return
            except EndedError as error:
                if not left:
                    msg = f"the child in which candidates run ends before one does: {error}"
                    raise LostError(Reason.NO_CHILD, msg) from error

    def settle(self) -> int:
        """Have this bench in the child that lives now; return the number of its life."""
        life = self.child.life()
        if life != self._life:
            self._number = next(self.child.numbers)
            self._sent.clear()
            self.forgotten.clear()
            self.ask("bench", self._number, self._problem, self._constant_weights)
            self._life, self._ready = life, None
        if self._wanted != self._ready:
            self.ask("make_ready", self._number, self._wanted)
            self._ready = self._wanted
        return life

    def send(self, programs: Iterable[Program]) -> None:
        """Let the child know compiled programs."""
        fresh = [program for program in programs if program not in self._sent]
        if fresh:
            binaries = [one for program in fresh for one in self._session.kernels.stored(program)]
            self.ask("accept", binaries)
            self._sent.update(fresh)

    def ask(self, method: str, *arguments: object) -> Any:
        """Ask the child for what no candidate has a part in."""
        return self.child.call(method, *arguments, limit=self.limits.ready)

    # -- small parts ------------------------------------------------------------------------------

    @property
    def _is_there(self) -> bool:
        return self.child.pid is not None and self.child.life() == self._life

    def _begun(self, program: Program) -> Future[Any]:
        job = self._jobs.get(program)
        if job is not None and not job.cancelled():
            return job
        if self._session.kernels.stored(program):
            return KNOWN
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.parallel_level)
        job = self._jobs[program] = self._executor.submit(
            compiled, program, self.child, self.limits, lambda: self._is_closed
        )
        return job

    def _keep_compiled(self) -> None:
        """Keep what was compiled, in the thread of the search."""
        for program, job in list(self._jobs.items()):
            if job.done() and not job.cancelled() and job.exception() is None:
                self._session.kernels.keep(program, job.result())
                del self._jobs[program]

    def _here(self) -> LocalBench:
        if self._local is None:
            self._local = LocalBench(
                self._problem, self._session, constant_weights=self._constant_weights
            )
            if self._wanted is not None:
                self._local.make_ready(verify=self._wanted)
        return self._local
