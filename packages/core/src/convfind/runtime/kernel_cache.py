"""`KernelCache`: programs of one device, from memory, from disk, or compiled in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from convfind.cached import RecentlyUsed
from convfind.errors import KernelBuildError
from convfind.finddb import BinaryStore, Gathered
from convfind.runtime.backend import Device
from convfind.solver import asking
from convfind.solver.kernel_spec import Program

if TYPE_CHECKING:
    from concurrent.futures import Future

Loaded = dict[Program, object]
Failures = dict[Program, KernelBuildError]
#: Compiled programs by key: address of source, options and compiler.
Binaries = Iterable[tuple[str, bytes]]

#: Loaded programs that a cache keeps: some are made for a single shape. The store has them all.
_MOST_LOADED = 2048


class CompilerPool(Protocol):
    """Compiles programs for a device in more processes than this one."""

    def expect(self, count: int) -> None:
        """Be told that so many programs are about to come, side by side as far as possible."""

    def compile(self, program: Program) -> bytes:
        """Compile a program; several threads may do so at once. Raises `KernelBuildError`."""

    def close(self) -> None:
        """End the other processes."""


class KernelCache:
    """Loaded programs of one device, each compiled at most once per source and compiler."""

    def __init__(
        self,
        device: Device,
        store: BinaryStore,
        parallel_level: int,
        pool: CompilerPool | None = None,
    ) -> None:
        """Begin with what is in the store; without a pool the device compiles."""
        self._device = device
        self._pool = pool
        self._store = store
        self.parallel_level = max(1, parallel_level)  # programs that are compiled at once
        self._loaded = RecentlyUsed[Program, object](_MOST_LOADED)
        self.compiled = 0  # programs that a compiler translated for this cache
        self._counting = threading.Lock()
        self._underway: dict[Program, Future[bytes]] = {}

    def load(
        self,
        programs: Iterable[Program],
        done: Callable[[], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> tuple[Loaded, Failures]:
        """Load programs; ``done`` is called after each. Failures are returned, not raised.

        Programs that are not begun when it ``is_over`` are neither loaded nor failures.
        Compiled programs are stored several at a time.
        """
        wanted = list(dict.fromkeys(programs))
        known = {program: self.known(program) for program in wanted}
        ready: Loaded = {program: one for program, one in known.items() if one is not None}
        failures: Failures = {}
        missing = [program for program in wanted if program not in ready]
        with Gathered(self._store) as store:
            for program, job in self._compiled(missing, is_over):
                try:
                    ready[program] = self._fitted(program, job.result())
                    store.put(self._key(program), job.result())
                except KernelBuildError as error:
                    # Without the frames it came through, which would keep the memory of callers.
                    failures[program] = error.with_traceback(None)
                if done is not None:
                    done()
        return ready, failures

    def known(self, program: Program) -> object | None:
        """Return a program from memory or from the store; None where it is to be compiled."""
        loaded = self._loaded.get(program)
        return self._load_stored(program) if loaded is None else loaded

    def is_ready(self, program: Program) -> bool:
        """Return whether a program is in memory or in the store."""
        return program in self._loaded or bool(self.stored(program))

    def expect(self, count: int) -> None:
        """Tell whoever compiles that so many programs are about to come."""
        if self._pool is not None:
            self._pool.expect(count)

    def compile(self, program: Program) -> bytes:
        """Compile a program; safe to call from several threads. Raises `KernelBuildError`.

        One that is `compiling` is waited for, unless nobody has begun with it.
        """
        job = self._underway.get(program)
        if job is not None and not job.cancel():
            return job.result()
        return self._translated(program)

    @contextmanager
    def compiling(self, programs: Iterable[Program]) -> Iterator[None]:
        """Compile programs side by side, in this order, while the ``with`` statement goes on.

        They are loaded when somebody asks for them. Failures are his who does. At the end nothing
        more is begun, and what nobody has asked for is stored. Programs that another such
        statement compiles, in this thread or another, are left to that.
        """
        missing = [one for one in dict.fromkeys(programs) if not self.is_ready(one)]
        if not missing:
            yield
            return
        from concurrent.futures import ThreadPoolExecutor

        self.expect(len(missing))
        pool = ThreadPoolExecutor(min(self.parallel_level, len(missing)))
        with self._counting:
            jobs = {
                one: pool.submit(self._translated, one)
                for one in missing
                if one not in self._underway
            }
            self._underway |= jobs
        try:
            yield
        finally:
            # Not by the pool, which tells nobody who waits in another thread.
            for job in jobs.values():
                job.cancel()
            pool.shutdown(wait=False)
            with self._counting:
                for one in jobs:
                    del self._underway[one]
            self.store_all(
                {
                    program: job.result()
                    for program, job in jobs.items()
                    if job.done() and not job.cancelled() and job.exception() is None
                    if program not in self._loaded
                }
            )

    def is_underway(self, program: Program) -> bool:
        """Return whether a program is `compiling`, and not done."""
        job = self._underway.get(program)
        return job is not None and not job.done()

    def underway(self) -> list[Future[bytes]]:
        """Return the jobs of the programs that are `compiling`, and not done."""
        with self._counting:
            return [job for job in self._underway.values() if not job.done()]

    def is_begun(self, program: Program) -> bool:
        """Return whether nobody has to begin to compile a program: it is ready, or `compiling`."""
        job = self._underway.get(program)
        if job is None or job.cancelled() or (job.done() and job.exception() is not None):
            return self.known(program) is not None
        return True

    def _translated(self, program: Program) -> bytes:
        with self._counting:
            self.compiled += 1
        with _told_as_failure(program):
            return (self._pool or self._device).compile(program)

    def take(self, program: Program, binary: bytes) -> object:
        """Load, keep and store a program that `compile` has made. Raises `KernelBuildError`."""
        loaded = self._fitted(program, binary)
        self.store(program, binary)
        return loaded

    def load_or_raise(self, programs: Iterable[Program]) -> Loaded:
        """Load programs. Raises `KernelBuildError` for the first that fails."""
        loaded, failures = self.load(programs)
        for error in failures.values():
            raise error
        return loaded

    def load_given(self, programs: Iterable[Program], binaries: Binaries) -> Loaded:
        """Load programs for one caller, from the given binaries if there are any.

        These are used by this caller only and are not stored. Binaries of other programs are
        ignored. Raises `KernelBuildError` as `load_or_raise` does.
        """
        given = dict(binaries)
        wanted = list(dict.fromkeys(programs))
        loaded: Loaded = {}
        for program in wanted if given else ():
            binary = given.get(self._key(program))
            if binary is not None:
                with suppress(KernelBuildError):  # made by another runtime: compile again
                    loaded[program] = self._device.load(program, binary)
        return loaded | self.load_or_raise(p for p in wanted if p not in loaded)

    def binaries(self, programs: Iterable[Program]) -> tuple[tuple[str, bytes], ...]:
        """Return compiled programs by key, as `load_given` and `accept` take them."""
        self.load_or_raise(programs)
        keys = [self._key(program) for program in programs]
        return tuple((key, binary) for key in keys if (binary := self._store.get(key)) is not None)

    def accept(self, binaries: Binaries) -> None:
        """Store binaries compiled by another process of the same user, never from a file."""
        self._store.put_all((key, one) for key, one in binaries if self._store.get(key) is None)

    def stored(self, program: Program) -> Binaries:
        """Return a program that was compiled before, by key; nothing where it was not."""
        key = self._key(program)
        binary = self._store.get(key)
        return () if binary is None else ((key, binary),)

    def keep(self, program: Program, binary: bytes) -> None:
        """Store a program that another process has compiled for this one."""
        with self._counting:
            self.compiled += 1
        self.store(program, binary)

    def store(self, program: Program, binary: bytes) -> None:
        """Store a program that `compile` has made, for whoever needs it."""
        self._store.put(self._key(program), binary)

    def store_all(self, binaries: Mapping[Program, bytes]) -> None:
        """Store programs that `compile` has made; the disk is waited for once."""
        self._store.put_all((self._key(program), one) for program, one in binaries.items())

    def close(self) -> None:
        """Forget what is loaded, and end other processes that compile."""
        self._loaded.clear()
        if self._pool is not None:
            self._pool.close()

    def pending(self, programs: Iterable[Program]) -> int:
        """Return the number of programs that are not in memory."""
        return sum(program not in self._loaded for program in dict.fromkeys(programs))

    def _key(self, program: Program) -> str:
        return program.key(self._device.target.compiler)

    def _fitted(self, program: Program, binary: bytes) -> object:
        """Load a compiled program, and keep it. Raises `KernelBuildError`."""
        with _told_as_failure(program):
            loaded = self._device.load(program, binary)
        self._loaded.put(program, loaded)
        return loaded

    def _load_stored(self, program: Program) -> object | None:
        try:
            binary = self._store.get(self._key(program))
            if binary is None:
                return None
            loaded = self._device.load(program, binary)
        except asking.FAILURES:
            return None  # refused by the runtime: compiling again helps, or reports why
        self._loaded.put(program, loaded)
        return loaded

    def _compiled(
        self, programs: Sequence[Program], is_over: Callable[[], bool]
    ) -> Iterator[tuple[Program, Future[bytes]]]:
        """Compile programs side by side; each comes with its future when that is done."""
        if not programs or is_over():
            return
        from concurrent.futures import ThreadPoolExecutor, as_completed

        self.expect(len(programs))
        with ThreadPoolExecutor(min(self.parallel_level, len(programs))) as pool:
            jobs = {pool.submit(self.compile, program): program for program in programs}
            for job in as_completed(jobs):
                if not job.cancelled():
                    yield jobs[job], job
                if is_over():
                    for other in jobs:
                        other.cancel()


@contextmanager
def _told_as_failure(program: Program) -> Iterator[None]:
    """Raise whatever keeps a program from being built as `KernelBuildError`: the others go on."""
    try:
        yield
    except KernelBuildError:
        raise
    except asking.FAILURES as error:
        log = f"error: {asking.told(error)}"
        raise KernelBuildError(str(program.source), program.options, log) from error
