"""`Workbench`: the tensors of one problem on a device, for running, checking and timing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import (
    ErrorReport,
    bound_of,
    check_error,
    measure_error,
    spread_magnitude,
)
from convfind.checking.checksum import Checksum, loosened
from convfind.checking.draw import Draw
from convfind.checking.guards import Guarded, behind_guards
from convfind.checking.reference import Right
from convfind.checking.tensor_set import LEAST_GUARD, TensorSet, same_bytes
from convfind.device.target import DeviceKind
from convfind.errors import VerificationError
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs, Invoker
from convfind.runtime.session import Session
from convfind.runtime.tensors import empty_memory, tensor_view
from convfind.solver import Solver, asking
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Memory, Recipe

Array = np.ndarray[Any, Any]

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
    """Random tensors for a plain problem, and what is right for them.

    There are two draws. Candidates are checked on the first, the same in every find, against a
    reference. They are timed on the second, which is new in every find, and what the last of those
    runs wrote is compared with a checksum: so nobody is right for some data or some runs only.
    """

    def __init__(self, problem: ConvProblem, session: Session, *, constant_weights: bool) -> None:
        self._problem = problem
        self._session = session
        self._device = session.device
        self._constant_weights = constant_weights
        self._turn = 0
        self._right: dict[Draw, Right] = {}
        self.writes = problem.direction.writes

    def make_ready(self, *, verify: bool) -> None:
        """Draw and upload data, and compute what is right, before anybody's kernel has run.

        Raises:
            DeviceError: the device has no memory for the tensors.
            MemoryError: the host has none.
        """
        _ = self.sets
        if verify:
            _ = self._readback, self._right_of(self.first), self._magnitude
            if self._problem.activation is None:
                _ = self.sets[0].draw.checksum
            else:
                _ = self._right_of(self.sets[0])

    def restore(self) -> None:
        """Make all tensors what they were, whatever a candidate has done to them."""
        for place in {*self.sets, self.first}:
            place.restore()

    # -- candidates -----------------------------------------------------------------------------

    def candidate(self, solution: Recipe, loaded: Mapping[Program, object]) -> Candidate:
        """Make a solution ready to be checked and timed. Raises `LaunchError`."""
        is_bound = self._constant_weights and bool(solution.packed)
        size = solution.workspace if is_bound else solution.total_workspace
        workspace = self._guarded(size) if size else None
        draws = {place.draw for place in (self.first, *self.sets)} if is_bound else ()
        packed = {draw: self._guarded(solution.packed) for draw in draws}
        guards = {self.writes: self.first.result.guard}
        if workspace is not None:
            guards[Memory.WORKSPACE] = workspace.guard
        for memory in packed.values():
            guards[Memory.PACKED] = memory.guard
        steps = solution.steps if is_bound else solution.unbound_steps
        invoker = self._device.invoker(behind_guards(steps, guards), loaded)
        candidate = Candidate(self, self._device, invoker, workspace, packed)
        if is_bound:
            candidate.pack(self._device.invoker(behind_guards(solution.prepare, guards), loaded))
        return candidate

    def _guarded(self, size: int) -> Guarded:
        return Guarded.allocated(self._device, size, LEAST_GUARD)

    # -- tensors ----------------------------------------------------------------------------------

    @cached_property
    def first(self) -> TensorSet:
        """The tensors on which candidates are checked before anything is timed."""
        return TensorSet(self._device, Draw(self._problem, _SEED, "uniform"))

    @cached_property
    def sets(self) -> tuple[TensorSet, ...]:
        """Copies of the tensors, enough of them that no timed run finds its data in the cache.

        Where so few fit the device's memory that there is no room for others, the first ones.
        """
        traffic = max(self._problem.traffic, 1)
        target = self._session.target
        copies = min(_MOST_SETS, 1 + _CACHE_TURNS * target.cache // traffic)
        if target.global_memory:
            copies = min(copies, target.global_memory // (4 * traffic) - 1)
        if copies < 1:
            return (self.first,)
        seed = int(np.random.default_rng().integers(2**32))
        draw = Draw(self._problem, seed, "clipped")
        return tuple(TensorSet(self._device, draw) for _ in range(copies))

    def next_set(self) -> TensorSet:
        """The copy that was used longest ago, whichever candidate used it.

        With a turn of its own a candidate would find what another one has just left in the cache.
        """
        self._turn = (self._turn + 1) % len(self.sets)
        return self.sets[self._turn]

    # -- checking ---------------------------------------------------------------------------------

    def check(self, place: TensorSet, solver: Solver) -> ErrorReport:
        """Compare a result of the first draw with the reference.

        Raises:
            VerificationError: it is wrong, or something was written around it.
            SolverError: the solver does not say what errors it may have.
        """
        right = self._right_of(place)
        bound = bound_of(solver, self._problem, rounded_reference=right.is_rounded)
        result = place.outcome(self._readback)
        magnitude = self._magnitude
        if magnitude is not None:
            last = self._problem.tensor_layout(self.writes).channels_last
            reach = asking.error_reach(solver, self._problem)
            magnitude = spread_magnitude(magnitude, reach, channels_last=last)
        report = measure_error(result, right.result, magnitude, right.yardstick)
        if not check_error(report, bound):
            msg = (
                f"error {report.max_error:.3g} (rms {report.rms_error:.3g}) exceeds the bound "
                f"{bound.max_error:.3g} (rms {bound.rms_error:.3g})"
            )
            raise VerificationError(msg)
        return report

    def check_sums(self, place: TensorSet, solver: Solver) -> None:
        """Compare a result of any draw with what it must add up to. Raises as `check` does.

        Behind an activation nothing adds up: there the whole result is compared.
        """
        if self._problem.activation is None:
            self._check_sum(place, place.draw.checksum, bound_of(solver, self._problem))
            return
        right = self._right_of(place)
        bound = bound_of(solver, self._problem, rounded_reference=right.is_rounded)
        error = measure_error(place.outcome(self._readback), right.result, None, right.yardstick)
        if not check_error(error, loosened(bound, right.result.size)):
            raise _wrong_when_timed(place, f"error {error.max_error:.3g}")

    def _check_sum(self, place: TensorSet, checksum: Checksum, bound: ErrorReport) -> None:
        error = checksum.error_of(place.outcome(self._readback))
        if not checksum.allows(error, bound):
            raise _wrong_when_timed(place, f"error {error.max_error:.3g} of the channels' sum")

    @cached_property
    def _readback(self) -> Array:
        """Memory for results; kept, because fresh pages cost as much as reading."""
        return empty_memory(self._problem, self.writes)

    @cached_property
    def _magnitude(self) -> Array | None:
        """What errors are relative to in small results, whose values may all be nearly zero."""
        is_small = math.prod(self._problem.shape(self.writes)) <= _FEW_RESULTS
        return self.first.draw.magnitude if is_small else None

    def _right_of(self, place: TensorSet) -> Right:
        """The right result of a draw: by NumPy, or by a GPU if it is large."""
        found = self._right.get(place.draw)
        if found is None:
            found = self._right[place.draw] = self._right_by_device(place) or place.draw.right
        return found

    def _right_by_device(self, place: TensorSet) -> Right | None:
        """The right result of a large problem by a GPU, in the type of the result."""
        on_device = self._session.target.kind is DeviceKind.GPU
        if not on_device or self._problem.macs <= _HOST_REFERENCE_MACS:
            return None
        try:
            convolved = self._convolved_by_device(place)
        except asking.FAILURES:
            place.restore()
            return None  # NumPy is slow here, and always right
        return None if convolved is None else place.draw.right_of(convolved)

    def _convolved_by_device(self, place: TensorSet) -> Array | None:
        """Run a last resort, which is the direct formula, without the epilogue, in doubles.

        It is believed as far as anybody: if it leaves its tensors as they are, and if NumPy's
        checksum says so.
        """
        target = self._session.target
        solvers, _ = self._session.registry.solvers_for(target)
        problem = self._problem.without_epilogue()
        taking = (s for s in solvers if s.is_last_resort)
        oracle = next((s for s in taking if asking.applicability(s, problem, target)), None)
        if oracle is None:
            return None
        double = Config(accumulate="double") if target.has("fp64") else None
        recipe = asking.recipe(oracle, problem, target, double)
        candidate = self.candidate(recipe, self._session.kernels.load_or_raise(recipe.programs))
        candidate.run_on(place)
        place.check_reads()
        candidate.check_memory()
        self._check_sum(place, place.draw.convolved_checksum, bound_of(oracle, problem))
        return tensor_view(problem, self.writes, self._readback.copy())


def _wrong_when_timed(place: TensorSet, error: str) -> VerificationError:
    msg = f"right at first, and wrong when it was timed: {error}"
    return VerificationError(f"{msg}, with data of seed {place.draw.seed}")


@dataclass(frozen=True, slots=True)
class _Packed:
    """Weights of one draw as a solver packed them: on the device, and what they were."""

    device: Guarded
    host: Array


class Candidate:
    """A solution on the bench."""

    def __init__(
        self,
        bench: Workbench,
        device: Device,
        invoker: Invoker,
        workspace: Guarded | None,
        packed: Mapping[Draw, Guarded],
    ) -> None:
        self._bench = bench
        self._device = device
        self._invoker = invoker
        self._workspace = workspace
        self._packed = {draw: _Packed(memory, np.empty(0)) for draw, memory in packed.items()}
        self._args: dict[TensorSet, InvokeArgs] = {}
        self._last: TensorSet | None = None

    def pack(self, prepare: Invoker) -> None:
        """Pack the weights of each draw, once."""
        for place in (self._bench.first, self._bench.sets[0]):
            prepare(self._args_of(place))
            memory = self._packed[place.draw].device
            host = np.empty(memory.size, np.uint8)
            self._device.read(memory.buffer, host, memory.guard)
            self._packed[place.draw] = _Packed(memory, host)

    # -- running ----------------------------------------------------------------------------------

    def sample(self) -> float:
        """Run once on the next copy of the tensors; return milliseconds of device time."""
        self._last = self._bench.next_set()
        return self._invoker.timed(self._args_of(self._last))

    def run_once(self) -> float:
        """Run on a poisoned result, as a check needs it; return milliseconds of device time."""
        return self.run_on(self._bench.first)

    def run_on(self, place: TensorSet) -> float:
        """Do the same on some of the tensors."""
        place.reset_result()
        return self._invoker.timed(self._args_of(place))

    # -- checking ---------------------------------------------------------------------------------

    def verify(self, solver: Solver) -> ErrorReport:
        """Run once and check everything that was written, or should not have been.

        Raises:
            VerificationError: the result is wrong, or something else was written.
            SolverError: the solver does not say what errors it may have.
        """
        self.run_once()
        self._bench.first.check_reads()
        report = self._bench.check(self._bench.first, solver)
        self.check_memory()
        # What others have left in the results must not be taken for this one's.
        for place in self._bench.sets:
            if place is not self._bench.first:
                place.reset_result()
        return report

    def confirm(self, solver: Solver, *, again: bool = False) -> None:
        """Check what the last timed run wrote, or another run if ``again``. Raises as `verify`."""
        place = self._last
        if place is None:
            return
        # A result that is added to is right after the first run only.
        if again or place.draw.problem.reads_result:
            self.run_on(place)
        if place.changed():
            # By an earlier candidate, in a run that nobody looked at? Then it does not recur.
            self._bench.restore()
            self.run_on(place)
            place.check_reads()
        self._bench.check_sums(place, solver)
        self.check_memory()

    def check_memory(self) -> None:
        """Raise `VerificationError` if something beside the tensors was written."""
        if self._workspace is not None and (why := self._workspace.complaint(self._device)):
            raise VerificationError(f"{why} the workspace")
        for packed in self._packed.values():
            if why := packed.device.complaint(self._device):
                raise VerificationError(f"{why} the packed weights")
            now = np.empty_like(packed.host)
            self._device.read(packed.device.buffer, now, packed.device.guard)
            if not same_bytes(now, packed.host):
                raise VerificationError("changed the packed weights, which it only reads")

    def _args_of(self, place: TensorSet) -> InvokeArgs:
        args = self._args.get(place)
        if args is None:
            workspace = None if self._workspace is None else self._workspace.buffer
            packed = self._packed[place.draw].device.buffer if self._packed else None
            args = InvokeArgs(**vars(place.args), workspace=workspace, packed=packed)
            self._args[place] = args
        return args
