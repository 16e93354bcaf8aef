"""The child's program: a loop over requests on standard input, one after the other.

Only programs are compiled beside that. Answers go to what was standard output; whatever solvers,
compilers and runtimes print goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from typing import IO, Any, TypeAlias

from convfind.errors import DeviceError
from convfind.find.bench import Candidate, LocalBench
from convfind.find.isolation import wire
from convfind.find.isolation.place import Place
from convfind.finddb import BinaryStore, FindDb
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session
from convfind.solver import Solver, asking

#: Seconds without a request after which a child ends; the next request starts another one.
_IDLE = 60.0
_PR_SET_PDEATHSIG = 1

#: A number, the name of a method, and its pickled arguments.
Message: TypeAlias = tuple[int, str, bytes]
Requests: TypeAlias = "queue.SimpleQueue[Message]"


class Server:
    """The benches of one device, and the candidates on them, by numbers of the parent's."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._benches: dict[int, LocalBench] = {}
        self._candidates: dict[int, tuple[int, Candidate, Solver]] = {}
        self._compiling = set[int]()  # requests that are answered later

    def next_of(self, requests: Requests, idle: float) -> Message | None:
        """Wait for a request; None where none has come for so many seconds and none is under way.

        A program may take as long as it likes: the parent has a limit for it.
        """
        while True:
            try:
                return requests.get(timeout=idle)
            except queue.Empty:
                if not self._compiling:
                    return None

    def serve(self, message: Message) -> None:
        """Do what a request asks for, and answer."""
        serial, method, packed = message
        try:
            arguments = wire.unpacked(packed)
            if method == "compile":
                self._compile(serial, *arguments)
                return
            value = getattr(self, method)(*arguments)
        except asking.FAILURES as error:
            self._answer(serial, False, error)
        else:
            self._answer(serial, True, value)

    # -- requests ---------------------------------------------------------------------------------

    def open(self, place: Place) -> None:
        """Open the device. Raises `DeviceError` where it is another one."""
        from convfind.plugins.registry import Registry

        registry = Registry.build(selection=place.plugins)
        backend, _, selector = place.name.partition(":")
        device = registry.backends[backend].open(selector)
        # How much memory a runtime counts may depend on what others use.
        here = replace(device.target, global_memory=place.target.global_memory)
        if here != place.target:
            what = [one.name for one in fields(here) if one.compare]
            other = [name for name in what if getattr(here, name) != getattr(place.target, name)]
            msg = f"{place.name} is another device there, with another {' and '.join(other)}"
            raise DeviceError(msg)
        # The parent keeps what is compiled: a file must not depend on who may be killed.
        store = BinaryStore.open(None)
        self._kernels = KernelCache(device, store, place.parallel_level)
        self._session = Session(device, registry, FindDb.open(None), self._kernels)
        self._compilers = ThreadPoolExecutor(place.parallel_level)

    def bench(self, bench: int, problem: Any, constant_weights: bool) -> None:
        """Begin a bench."""
        self._benches[bench] = LocalBench(problem, self._session, constant_weights=constant_weights)

    def make_ready(self, bench: int, verify: bool) -> None:
        """Draw data and compute what is right."""
        self._benches[bench].make_ready(verify=verify)

    def restore(self, bench: int) -> None:
        """Make a bench's tensors what they were."""
        self._benches[bench].restore()

    def close(self, bench: int) -> None:
        """End a bench."""
        self._candidates = {n: one for n, one in self._candidates.items() if one[0] != bench}
        self._benches.pop(bench).close()

    def accept(self, binaries: Iterable[tuple[str, bytes]]) -> None:
        """Take over programs that the parent knows."""
        self._kernels.accept(binaries)

    def candidate(self, bench: int, candidate: int, recipe: Any, solver: Solver) -> None:
        """Put a recipe on a bench."""
        self._candidates[candidate] = bench, self._benches[bench].candidate(recipe), solver

    def forget(self, candidates: Iterable[int]) -> None:
        """Drop candidates."""
        for candidate in candidates:
            self._candidates.pop(candidate, None)

    def verify(self, candidate: int) -> Any:
        """Check a candidate."""
        _, on_bench, solver = self._candidates[candidate]
        return on_bench.verify(solver)

    def run_once(self, candidate: int) -> float:
        """Run a candidate."""
        return self._candidates[candidate][1].run_once()

    def sample(self, candidate: int) -> float:
        """Time a candidate."""
        return self._candidates[candidate][1].sample()

    def confirm(self, candidate: int) -> float:
        """Check a candidate on what is timed."""
        _, on_bench, solver = self._candidates[candidate]
        return on_bench.confirm(solver)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function with the session."""
        return function(self._session, *arguments)

    # -- answers ----------------------------------------------------------------------------------

    def _compile(self, serial: int, program: Any) -> None:
        self._compiling.add(serial)

        def done(job: Future[bytes]) -> None:
            error = job.exception()
            if error is None:
                self._kernels.keep(program, job.result())
            self._answer(serial, error is None, job.result() if error is None else error)
            self._compiling.discard(serial)

        self._compilers.submit(self._kernels.compile, program).add_done_callback(done)

    def _answer(self, serial: int, is_right: bool, value: object) -> None:
        try:
            answer = pickle.dumps(value)
            if isinstance(value, BaseException):
                pickle.loads(answer)  # errors that take other arguments than they keep do not
        except asking.FAILURES as error:
            told = value if isinstance(value, BaseException) else error
            is_right, answer = False, pickle.dumps(RuntimeError(asking.told(told)))
        with self._lock:
            wire.send(self._answers, (serial, is_right, answer))


def main(parent: int) -> None:
    """Serve until the parent is gone, or has nothing to ask for long."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and decides
    requests = os.fdopen(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # whoever reads standard input would take requests away
    server = Server(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    todo: Requests = queue.SimpleQueue()

    def hear() -> None:
        try:
            while True:
                todo.put(wire.receive(requests))
        except (EOFError, OSError):
            os._exit(0)  # whatever is running: nobody waits for it

    threading.Thread(target=hear, daemon=True).start()
    while (message := server.next_of(todo, _IDLE)) is not None:
        server.serve(message)
    os._exit(0)


def _end_with(parent: int) -> None:
    """Have the system end this process with its parent, also while it hears nobody."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
