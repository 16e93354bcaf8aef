"""`KernelCache`: compiled programs of one device: in memory, on disk, else compiled in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from convfind.errors import ConvfindError, KernelBuildError
from convfind.finddb import BinaryStore
from convfind.runtime.backend import Device
from convfind.solver.kernel_spec import Program

Loaded = dict[Program, object]
Failures = dict[Program, KernelBuildError]


class KernelCache:
    """Programs made ready for one device, each compiled at most once for a source and compiler."""

    def __init__(self, device: Device, store: BinaryStore, parallel_level: int) -> None:
        self._device = device
        self._store = store
        self._level = max(1, parallel_level)
        self._loaded: Loaded = {}
        self.compiled = 0  # programs that a compiler translated for this cache

    def load(
        self, programs: Iterable[Program], done: Callable[[], None] | None = None
    ) -> tuple[Loaded, Failures]:
        """Make programs ready; ``done`` is called after each. Failures are returned, not raised."""
        wanted = list(dict.fromkeys(programs))
        failures: Failures = {}
        missing = [program for program in wanted if program not in self._loaded]
        to_compile = [program for program in missing if not self._load_stored(program)]
        for program, outcome in self._compile(to_compile):
            if isinstance(outcome, KernelBuildError):
                failures[program] = outcome
            else:
                try:
                    self._loaded[program] = self._device.load(program, outcome)
                    self._store.put(self._key(program), outcome)
                except KernelBuildError as error:
                    failures[program] = error
            if done is not None:
                done()
        return {p: self._loaded[p] for p in wanted if p in self._loaded}, failures

    def load_or_raise(self, programs: Iterable[Program]) -> Loaded:
        """Make programs ready. Raises `KernelBuildError` for the first that fails."""
        loaded, failures = self.load(programs)
        for error in failures.values():
            raise error
        return loaded

    def binaries(self, programs: Iterable[Program]) -> tuple[tuple[str, bytes], ...]:
        """Return compiled programs by key, as `accept` takes them, on this machine or another."""
        self.load_or_raise(programs)
        keys = [self._key(program) for program in programs]
        return tuple((key, binary) for key in keys if (binary := self._store.get(key)) is not None)

    def accept(self, binaries: Iterable[tuple[str, bytes]]) -> None:
        """Keep compiled programs that came with a solution."""
        for key, binary in binaries:
            if self._store.get(key) is None:
                self._store.put(key, binary)

    def pending(self, programs: Iterable[Program]) -> int:
        """How many of the programs are not in memory."""
        return sum(program not in self._loaded for program in dict.fromkeys(programs))

    def _key(self, program: Program) -> str:
        return program.key(self._device.target.compiler)

    def _load_stored(self, program: Program) -> bool:
        binary = self._store.get(self._key(program))
        if binary is None:
            return False
        try:
            self._loaded[program] = self._device.load(program, binary)
        except KernelBuildError:
            return False  # a runtime may refuse yesterday's binary; compiling mends it
        return True

    def _compile(
        self, programs: list[Program]
    ) -> Iterable[tuple[Program, bytes | KernelBuildError]]:
        if not programs:
            return
        from concurrent.futures import ThreadPoolExecutor, as_completed

        with ThreadPoolExecutor(min(self._level, len(programs))) as pool:
            futures = {pool.submit(self._compile_one, program): program for program in programs}
            for future in as_completed(futures):
                self.compiled += 1
                yield futures[future], future.result()

    def _compile_one(self, program: Program) -> bytes | KernelBuildError:
        try:
            return self._device.compile(program)
        except KernelBuildError as error:
            return error
        except (ConvfindError, OSError, ValueError) as error:
            # Missing source files and impossible macros are the solver's fault, not the find's end.
            return KernelBuildError(str(program.source), program.options, f"error: {error}")
