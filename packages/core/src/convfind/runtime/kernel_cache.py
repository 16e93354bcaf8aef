"""`KernelCache`: programs of one device, from memory, from disk, or compiled in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from convfind.cached import RecentlyUsed
from convfind.errors import KernelBuildError
from convfind.finddb import BinaryStore
from convfind.runtime.backend import Device
from convfind.solver import asking
from convfind.solver.kernel_spec import Program

Loaded = dict[Program, object]
Failures = dict[Program, KernelBuildError]
#: Compiled programs by key: address of source, options and compiler.
Binaries = Iterable[tuple[str, bytes]]

#: Loaded programs that a cache keeps: some are made for a single shape. The store has them all.
_MOST_LOADED = 2048


class KernelCache:
    """Loaded programs of one device, each compiled at most once per source and compiler."""

    def __init__(self, device: Device, store: BinaryStore, parallel_level: int) -> None:
        self._device = device
        self._store = store
        self.parallel_level = max(1, parallel_level)  # programs that are compiled at once
        self._loaded = RecentlyUsed[Program, object](_MOST_LOADED)
        self.compiled = 0  # programs that a compiler translated for this cache

    def load(
        self, programs: Iterable[Program], done: Callable[[], None] | None = None
    ) -> tuple[Loaded, Failures]:
        """Load programs; ``done`` is called after each. Failures are returned, not raised."""
        wanted = list(dict.fromkeys(programs))
        ready: Loaded = {}
        failures: Failures = {}
        for program in wanted:
            loaded = self._loaded.get(program)
            loaded = self._load_stored(program) if loaded is None else loaded
            if loaded is not None:
                ready[program] = loaded
        to_compile = [program for program in wanted if program not in ready]
        for program, outcome in self._compile(to_compile):
            if isinstance(outcome, KernelBuildError):
                failures[program] = outcome
            else:
                try:
                    ready[program] = self._device.load(program, outcome)
                    self._loaded.put(program, ready[program])
                    self._store.put(self._key(program), outcome)
                except asking.FAILURES as error:
                    failures[program] = _failure(program, error)
            if done is not None:
                done()
        return ready, failures

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
        for key, binary in binaries:
            if self._store.get(key) is None:
                self._store.put(key, binary)

    def pending(self, programs: Iterable[Program]) -> int:
        """Return the number of programs that are not in memory."""
        return sum(program not in self._loaded for program in dict.fromkeys(programs))

    def _key(self, program: Program) -> str:
        return program.key(self._device.target.compiler)

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

    def _compile(
        self, programs: list[Program]
    ) -> Iterable[tuple[Program, bytes | KernelBuildError]]:
        if not programs:
            return
        from concurrent.futures import ThreadPoolExecutor, as_completed

        with ThreadPoolExecutor(min(self.parallel_level, len(programs))) as pool:
            futures = {pool.submit(self._compile_one, program): program for program in programs}
            for future in as_completed(futures):
                self.compiled += 1
                yield futures[future], future.result()

    def _compile_one(self, program: Program) -> bytes | KernelBuildError:
        try:
            return self._device.compile(program)
        except asking.FAILURES as error:
            return _failure(program, error)


def _failure(program: Program, error: BaseException) -> KernelBuildError:
    """Return what kept a program from being built: whatever it was, the others go on."""
    if isinstance(error, KernelBuildError):
        return error
    return KernelBuildError(str(program.source), program.options, f"error: {asking.told(error)}")
