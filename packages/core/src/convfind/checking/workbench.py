"""`Workbench`: the tensors of one problem on a device, for running, checking and timing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from convfind.checking.accuracy import (
    ErrorReport,
    check_error,
    error_bound,
    measure_error,
    random_data,
    spread_magnitude,
)
from convfind.checking.reference import reference_convolution, reference_magnitude
from convfind.device.target import DeviceKind
from convfind.errors import ConvfindError, VerificationError
from convfind.problem import ConvProblem
from convfind.runtime.backend import DeviceBuffer, InvokeArgs, Invoker
from convfind.runtime.session import Session
from convfind.runtime.tensors import empty_memory, memory_of, tensor_view
from convfind.solver import Solver
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Recipe

Array = np.ndarray[Any, Any]

#: Bytes behind the result and the workspace that no kernel may touch.
_GUARD = 512
#: Repeated, this byte is a NaN in every floating type and -1 as an integer.
_POISON = 0xFF
#: Copies of the tensors together exceed the last-level cache this many times ...
_CACHE_TURNS = 2
#: ... but there are never more of them.
_MOST_SETS = 8
#: From so many multiply-accumulates on a GPU computes the reference faster than NumPy does.
_HOST_REFERENCE_MACS = 2 * 10**9
#: Up to so many results the reference's largest value says little about rounding.
_FEW_RESULTS = 4096
_SEED = 20240613


class Workbench:
    """Random tensors for a plain problem, and the reference to compare results with."""

    def __init__(self, problem: ConvProblem, session: Session, *, constant_weights: bool) -> None:
        self._problem = problem
        self._session = session
        self._device = session.device
        self._constant_weights = constant_weights
        self._turn = 0
        self.writes = problem.direction.writes

    # -- candidates -----------------------------------------------------------------------------

    def candidate(self, solution: Recipe, loaded: Mapping[Program, object]) -> Candidate:
        """Make a solution ready to be checked and timed. Raises `LaunchError`."""
        if not (self._constant_weights and solution.packed):
            workspace = self._workspace(solution.total_workspace)
            invoker = self._device.invoker(solution.unbound_steps, loaded)
            return Candidate(self, invoker, solution.total_workspace, workspace, None)
        workspace = self._workspace(solution.workspace)
        packed = self._device.allocate(solution.packed)
        prepare = self._device.invoker(solution.prepare, loaded)
        prepare(replace(self.sets[0], workspace=workspace, packed=packed))
        invoker = self._device.invoker(solution.steps, loaded)
        return Candidate(self, invoker, solution.workspace, workspace, packed)

    def _workspace(self, size: int) -> DeviceBuffer | None:
        if not size:
            return None
        buffer = self._device.allocate(size + _GUARD)
        self._device.fill(buffer, _POISON)
        return buffer

    # -- tensors ----------------------------------------------------------------------------------

    @cached_property
    def _host(self) -> dict[str, Array]:
        """Memory of the tensors that are read, and of the result's previous contents."""
        problem = self._problem
        first, second = problem.direction.reads
        a, b = random_data(problem, _SEED)
        host = {first: memory_of(problem, first, a), second: memory_of(problem, second, b)}
        before = empty_memory(problem, self.writes)
        if problem.beta:
            generator = np.random.default_rng(_SEED + 1)
            view = tensor_view(problem, self.writes, before)
            view[...] = generator.random(view.shape)
        host[self.writes] = before
        return host

    @cached_property
    def sets(self) -> tuple[InvokeArgs, ...]:
        """Copies of the tensors, enough of them that no run finds its data in the cache."""
        traffic = max(self._problem.traffic, 1)
        target = self._session.target
        copies = min(_MOST_SETS, 1 + _CACHE_TURNS * target.cache // traffic)
        if target.global_memory:
            copies = max(1, min(copies, target.global_memory // (4 * traffic)))
        return tuple(self._new_set(number) for number in range(copies))

    def next_set(self) -> int:
        """The copy that was used longest ago, whichever candidate used it.

        With a turn of its own a candidate would find what another one has just left in the cache.
        """
        self._turn = (self._turn + 1) % len(self.sets)
        return self._turn

    def _new_set(self, number: int) -> InvokeArgs:
        buffers: dict[str, DeviceBuffer] = {}
        for name in self._problem.direction.reads:
            # A copy each: zero-copy devices would otherwise share one array among the sets.
            array = self._host[name] if number == 0 else self._host[name].copy()
            buffers[name] = self._device.upload(array)
        size = self._host[self.writes].nbytes
        buffers[self.writes] = self._device.allocate(size + _GUARD)
        self.reset_result(buffers[self.writes])
        return InvokeArgs(**buffers)

    def reset_result(self, buffer: DeviceBuffer) -> None:
        """Poison the result, or restore its previous contents where beta reads them."""
        self._device.fill(buffer, _POISON)
        if self._problem.beta:
            self._device.write(buffer, self._host[self.writes])

    # -- checking ---------------------------------------------------------------------------------

    def verify(self, buffer: DeviceBuffer, solver: Solver) -> ErrorReport:
        """Compare a solver's result with the reference; `VerificationError` if it is wrong."""
        self._check_guard(buffer, self._readback.nbytes, self.writes)
        self._device.read(buffer, self._readback)
        result = tensor_view(self._problem, self.writes, self._readback)
        magnitude = self._magnitude
        if magnitude is not None:
            last = self._problem.tensor_layout(self.writes).channels_last
            reach = solver.error_reach(self._problem)
            magnitude = spread_magnitude(magnitude, reach, channels_last=last)
        report = measure_error(result, self.reference, magnitude)
        bound = error_bound(
            self._problem,
            solver.error_bound(self._problem),
            rounded_reference=self._rounded_reference is not None,
        )
        if not check_error(report, bound):
            msg = (
                f"error {report.max_error:.3g} (rms {report.rms_error:.3g}) exceeds the bound "
                f"{bound.max_error:.3g} (rms {bound.rms_error:.3g})"
            )
            raise VerificationError(msg)
        return report

    def check_workspace(self, buffer: DeviceBuffer, size: int) -> None:
        """Raise `VerificationError` if something was written behind the workspace."""
        self._check_guard(buffer, size, "the workspace")

    def _check_guard(self, buffer: DeviceBuffer, size: int, name: str) -> None:
        guard = np.empty(_GUARD, np.uint8)
        self._device.read(buffer, guard, offset=size)
        if (guard != _POISON).any():
            msg = f"wrote behind the end of {name}"
            raise VerificationError(msg)

    @cached_property
    def _readback(self) -> Array:
        """Memory for results; kept, because fresh pages cost as much as reading."""
        return empty_memory(self._problem, self.writes)

    @cached_property
    def _magnitude(self) -> Array | None:
        """What errors are relative to in small results, whose values may all be nearly zero."""
        if self.reference.size > _FEW_RESULTS:
            return None
        return reference_magnitude(self._problem, *self._read_tensors, self._before)

    @property
    def _read_tensors(self) -> tuple[Array, Array]:
        first, second = self._problem.direction.reads
        return (
            tensor_view(self._problem, first, self._host[first]),
            tensor_view(self._problem, second, self._host[second]),
        )

    @property
    def _before(self) -> Array:
        return tensor_view(self._problem, self.writes, self._host[self.writes])

    @cached_property
    def reference(self) -> Array:
        """The right result, axes in the order of its layout: by NumPy, or a GPU if it is large."""
        rounded = self._rounded_reference
        if rounded is not None:
            return rounded
        return reference_convolution(self._problem, *self._read_tensors, self._before)

    @cached_property
    def _rounded_reference(self) -> Array | None:
        """The right result of a large problem by a GPU, in the type of the result."""
        on_device = self._session.target.kind is DeviceKind.GPU
        if not on_device or self._problem.macs <= _HOST_REFERENCE_MACS:
            return None
        try:
            return self._device_reference()
        except ConvfindError:
            return None  # NumPy is slow here, and always right

    def _device_reference(self) -> Array | None:
        """Run a last resort, which is the direct formula, summing in double precision."""
        target = self._session.target
        solvers, _ = self._session.registry.solvers_for(target)
        oracle = next((s for s in solvers if self._is_oracle(s)), None)
        if oracle is None:
            return None
        double = Config(accumulate="double") if target.has("fp64") else None
        solution = oracle.solution(self._problem, target, double)
        loaded = self._session.kernels.load_or_raise(solution.programs)
        args = self.sets[0]
        result: DeviceBuffer = getattr(args, self.writes)
        self.reset_result(result)
        self._device.invoker(solution.steps, loaded)(args)
        memory = empty_memory(self._problem, self.writes)
        self._device.read(result, memory)
        return tensor_view(self._problem, self.writes, memory)

    def _is_oracle(self, solver: Solver) -> bool:
        return solver.is_last_resort and bool(solver.takes(self._problem, self._session.target))


class Candidate:
    """A solution on the bench."""

    def __init__(
        self,
        bench: Workbench,
        invoker: Invoker,
        workspace_size: int,
        workspace: DeviceBuffer | None,
        packed: DeviceBuffer | None,
    ) -> None:
        self._bench = bench
        self._invoker = invoker
        self._workspace_size = workspace_size
        self._workspace = workspace
        self._sets = tuple(replace(args, workspace=workspace, packed=packed) for args in bench.sets)

    def sample(self) -> float:
        """Run once on the next copy of the tensors; return milliseconds of device time."""
        return self._invoker.timed(self._sets[self._bench.next_set()])

    def run_once(self) -> float:
        """Run on a poisoned result, as a check needs it; return milliseconds of device time."""
        result = getattr(self._sets[0], self._bench.writes)
        self._bench.reset_result(result)
        return self._invoker.timed(self._sets[0])

    def verify(self, solver: Solver) -> ErrorReport:
        """Run once and check result and workspace. Raises `VerificationError`."""
        self.run_once()
        report = self._bench.verify(getattr(self._sets[0], self._bench.writes), solver)
        if self._workspace is not None:
            self._bench.check_workspace(self._workspace, self._workspace_size)
        return report
