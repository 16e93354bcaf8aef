"""`Workbench`: the tensors of one problem on a device, for running, checking and timing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from convfind.cached import cached_property
from convfind.checking.accuracy import Checked, ErrorReport
from convfind.checking.comparer import Comparer
from convfind.checking.device_rings import DeviceRings
from convfind.checking.draw import Assistant, Computed, Draw, Results, no_assistant
from convfind.checking.draws import first_draw, is_checked_quickly, timed_draw
from convfind.checking.fingerprints import Fingerprints
from convfind.checking.guards import POISON, Guarded, behind_guards
from convfind.checking.held import Held
from convfind.checking.oracle import oracle_for
from convfind.checking.pieces import Begun, copied
from convfind.checking.ring_copies import RingCopies
from convfind.checking.scratch import Scratch
from convfind.checking.tensor_set import LEAST_GUARD, TensorSet, has_contents
from convfind.device.target import DeviceKind
from convfind.errors import VerificationError
from convfind.problem.contract import Problem
from convfind.runtime.backend import Device, InvokeArgs, Invoker
from convfind.runtime.session import Session
from convfind.runtime.tensors import empty_memory
from convfind.solver import Solver, asking
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Memory, Recipe, memory_names

Array = np.ndarray[Any, Any]

#: Copies of the tensors together exceed the last-level cache this many times ...
_CACHE_TURNS = 2
#: ... but there are never more of them.
_MOST_SETS = 8


class Workbench:
    """Random tensors for a plain problem, and what is right for them.

    There are two draws. Candidates are checked on the first, the same in every find. They are timed
    on the second, which is new in every find, and what one more run on that writes is checked as
    well: so nobody is right for some data or some runs only. Where that second check would take
    a whole reference, too, both are on what is timed.
    """

    def __init__(self, problem: Problem, session: Session, *, constant_weights: bool) -> None:
        self._problem = problem
        self._session = session
        self._device = session.device
        self._constant_weights = constant_weights
        self._turn = 0
        self._scratch = Scratch.on(session)
        self._timed: Begun[Draw] | None = session.kept.pop(_ahead(problem), None)

    def make_ready(self, *, verify: bool) -> None:
        """Draw and upload data, and compute what is right, before anybody's kernel has run.

        Raises:
            DeviceError: the device has no memory for the tensors.
            MemoryError: the host has none.
        """
        if not verify:
            _ = self.sets
        elif self._is_on_gpu and self._copies and self._has_two_draws and self._timed is None:
            # The host draws these while the device computes what is right for the first.
            self._timed = Begun(_timed_draw(self._problem))
        if verify:
            _ = self._readback
            is_right = self.first.draw.make_ready(self._assistant(self.first))
            timed = self.sets[0]
            timed.draw.make_ready_again(self._assistant(timed) if is_right else no_assistant)
            for draw in {self.first.draw, self.sets[0].draw}:
                if self.comparer is not None and (right := draw.compared) is not None:
                    self.comparer.expect(right)

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
        guards = {name: memory.guard for name, memory in self.first.results.items()}
        if workspace is not None:
            guards[Memory.WORKSPACE] = workspace.guard
        for memory in packed.values():
            guards[Memory.PACKED] = memory.guard
        steps = solution.steps if is_bound else solution.unbound_steps
        invoker = self._device.invoker(behind_guards(steps, guards), loaded)
        candidate = Candidate(self, self._device, invoker, workspace, packed)
        if is_bound:
            prepare = self._device.invoker(behind_guards(solution.prepare, guards), loaded)
            candidate.pack(prepare, memory_names(solution.prepare))
        return candidate

    def _guarded(self, size: int) -> Guarded:
        allocate = self._device.allocate if self._scratch is None else self._scratch.allocate
        memory = Guarded.allocated(allocate, size, LEAST_GUARD)
        self._device.fill(memory.buffer, POISON)
        return memory

    # -- tensors ----------------------------------------------------------------------------------

    @cached_property
    def fingerprints(self) -> Fingerprints | None:
        """The fingerprints that tell a change on the device; None where the host reads memory."""
        return Fingerprints.on(self._session)

    @cached_property
    def comparer(self) -> Comparer | None:
        """The comparer of results on the device; None where the host compares."""
        operand = self._problem.operand(self._problem.writes[0])
        return Comparer.on(self._session, operand, self.fingerprints)

    @cached_property
    def first(self) -> TensorSet:
        """The tensors on which candidates are checked before anything is timed."""
        if self._copies and not self._has_two_draws:
            return self.sets[0]
        return self._set_of(first_draw(self._problem))

    @cached_property
    def sets(self) -> tuple[TensorSet, ...]:
        """Copies of the tensors, enough of them that no timed run finds its data in the cache.

        Where so few fit the device's memory that there is no room for others, the first ones.
        """
        copies = self._copies
        if not copies:
            return (self.first,)
        draw = _timed_draw(self._problem)() if self._timed is None else self._timed.result()
        # Those on which every candidate is checked are written anew in each find.
        own = 0 if self._has_two_draws else 1
        kept = [RingCopies.on(self._session, number) for number in range(own, copies)]
        return tuple(self._set_of(draw, one) for one in (*[None] * own, *kept))

    def _set_of(self, draw: Draw, copies: RingCopies | None = None) -> TensorSet:
        if self._is_on_gpu:
            draw.begin()
        how = self.fingerprints, self._rings, self._scratch, copies
        return TensorSet(self._device, draw, *how)

    @cached_property
    def _rings(self) -> DeviceRings | None:
        return DeviceRings.on(self._session, self.fingerprints)

    @property
    def _copies(self) -> int:
        traffic = max(int(self._problem.traffic), 1)
        target = self._session.target
        copies = min(_MOST_SETS, 1 + _CACHE_TURNS * target.cache // traffic)
        if target.global_memory:
            copies = min(copies, target.global_memory // (4 * traffic) - 1)
        return max(copies, 0)

    @property
    def _has_two_draws(self) -> bool:
        return is_checked_quickly(self._problem, has_assistant=self._is_on_gpu)

    def next_set(self) -> TensorSet:
        """The copy that was used longest ago, whichever candidate used it.

        With a turn of its own a candidate would find what another one has just left in the cache.
        """
        self._turn = (self._turn + 1) % len(self.sets)
        return self.sets[self._turn]

    # -- checking ---------------------------------------------------------------------------------

    def check(self, place: TensorSet, solver: Solver) -> ErrorReport:
        """Compare the results on the first draw with what is right; return their errors.

        Raises:
            VerificationError: one is wrong, or something was written around it.
            SolverError: the solver does not say what errors it may have.
        """
        error = self._error_there(place)
        if error is None:
            return place.draw.check(place.outcome(self._readback), solver)
        return place.draw.judge(error, solver)

    def check_again(self, place: TensorSet, solver: Solver) -> None:
        """Check the results on any draw, in a quick way. Raises as `check` does."""
        error = self._error_there(place)
        if error is None:
            place.draw.check_again(place.outcome(self._readback), solver)
        else:
            place.draw.judge_again(error, solver)

    def _error_there(self, place: TensorSet) -> ErrorReport | None:
        """Have the device say how far a result is off; None where the host has to see it."""
        right = place.draw.compared
        if self.comparer is None or right is None or not place.is_packed:
            return None
        place.check_around()
        (result,) = place.results.values()
        return self.comparer.compare(result, right)

    @cached_property
    def _readback(self) -> dict[str, Array]:
        """Memory for results; kept, because fresh pages cost as much as reading."""
        return {name: empty_memory(self._problem, name) for name in self._problem.writes}

    def _assistant(self, place: TensorSet) -> Assistant:
        """Return who computes on the device, if it is a GPU, what is right for some tensors."""

        def compute(problem: Problem, memory: Results | None = None) -> Computed | None:
            try:
                if memory is not None:
                    place.write(memory)
                computed = self._by_last_resort(problem, place)
                if memory is None:
                    place.check_reads()
                    return computed
            except asking.FAILURES:
                computed = None  # NumPy is slow here, and always right
            place.restore()
            return computed

        return compute if self._is_on_gpu else no_assistant

    @property
    def _is_on_gpu(self) -> bool:
        return self._session.target.kind is DeviceKind.GPU

    def _by_last_resort(self, problem: Problem, place: TensorSet) -> Computed | None:
        """Run a last resort, summing in double precision.

        The result stays on the device where candidates are compared with it there.
        """
        oracle = oracle_for(problem, self._session.target, self._session.registry)
        if oracle is None:
            return None
        solver, recipe = oracle
        candidate = self.candidate(recipe, self._session.kernels.load_or_raise(recipe.programs))
        candidate.run_on(place)
        candidate.check_memory()
        (name,) = problem.writes
        held = place.results[name]
        if (
            self.comparer is not None
            and self.fingerprints is not None
            and place.is_packed
            and self.comparer.holds(held.size)
        ):
            place.check_around()
            place.renew_result(name)
            operand = problem.operand(name)
            return Computed(Held(operand, self._device, held, self.fingerprints), solver)
        return Computed(copied(place.outcome(self._readback)[name]), solver)


@contextmanager
def drawn_ahead(problem: Problem, session: Session) -> Iterator[None]:
    """Have other threads draw what a find of a plain problem within the statement measures on."""
    make = _timed_draw(problem)

    def begun() -> Draw:
        draw = make()
        draw.begin()
        return draw

    session.kept[_ahead(problem)] = Begun(begun)
    try:
        yield
    finally:
        session.kept.pop(_ahead(problem), None)


def _ahead(problem: Problem) -> Hashable:
    """Return the name under which a session keeps a draw for a problem's next find."""
    return "drawn ahead", problem


def _timed_draw(problem: Problem) -> Callable[[], Draw]:
    """Return what draws; it does not hold the workbench, whose memory would outlive its use."""
    return partial(timed_draw, problem, int(np.random.default_rng().integers(2**32)))


@dataclass(frozen=True, slots=True)
class _Packed:
    """Weights of one draw as a solver packed them, and what they were: bytes or fingerprint."""

    memory: Guarded
    before: Array | int = 0


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
        self._packed = {draw: _Packed(memory) for draw, memory in packed.items()}
        self._args: dict[TensorSet, InvokeArgs] = {}

    def pack(self, prepare: Invoker, names: Iterable[str]) -> None:
        """Pack the weights of each draw, once.

        Kernels that ran before, in earlier finds, too, may have written into the tensors of these
        ``names``, which it reads; nobody packs that.
        """
        for place in {self._bench.first, self._bench.sets[0]}:
            place.renew(names)
            prepare(self._args_of(place))
            memory = self._packed[place.draw].memory
            self._packed[place.draw] = _Packed(memory, self._contents(memory))

    # -- running ----------------------------------------------------------------------------------

    def sample(self) -> float:
        """Run once on the next copy of the tensors; return milliseconds of device time."""
        return self._invoker.timed(self._args_of(self._bench.next_set()))

    def run_once(self) -> float:
        """Run on a poisoned result, as a check needs it; return milliseconds of device time."""
        return self.run_on(self._bench.first)

    def run_on(self, place: TensorSet) -> float:
        """Do the same on some of the tensors."""
        place.reset_results()
        return self._invoker.timed(self._args_of(place))

    # -- checking ---------------------------------------------------------------------------------

    def verify(self, solver: Solver) -> Checked:
        """Run once and check everything that was written, or should not have been.

        Raises:
            VerificationError: the result is wrong, or something else was written.
            SolverError: the solver does not say what errors it may have.
        """
        milliseconds = self.run_once()
        self._bench.first.check_reads()
        report = self._bench.check(self._bench.first, solver)
        self.check_memory()
        return Checked(report, milliseconds)

    def confirm(self, solver: Solver) -> float:
        """Run once more, on what is timed, and check that; return milliseconds of device time.

        Raises as `verify` does.
        """
        place = self._bench.next_set()
        milliseconds = self.run_on(place)
        if place.changed():
            # By an earlier candidate, in a run that nobody looked at? Then it does not recur.
            self._bench.restore()
            milliseconds = self.run_on(place)
            place.check_reads()
        self._bench.check_again(place, solver)
        self.check_memory()
        return milliseconds

    def check_memory(self) -> None:
        """Raise `VerificationError` if something beside the tensors was written."""
        if self._workspace is not None and (why := self._workspace.complaint(self._device)):
            raise VerificationError(f"{why} the workspace")
        for packed in self._packed.values():
            if why := packed.memory.complaint(self._device):
                raise VerificationError(f"{why} the packed weights")
            if not self._is_unchanged(packed):
                raise VerificationError("changed the packed weights, which it only reads")

    def _contents(self, memory: Guarded) -> Array | int:
        """Return the bytes of guarded memory, or their fingerprint."""
        if (fingerprints := self._bench.fingerprints) is not None:
            return fingerprints.of(memory.buffer, memory.size, memory.guard)
        contents = np.empty(memory.size, np.uint8)
        self._device.read(memory.buffer, contents, memory.guard)
        return contents

    def _is_unchanged(self, packed: _Packed) -> bool:
        memory, before = packed.memory, packed.before
        if isinstance(before, int):
            return self._contents(memory) == before
        return has_contents(self._device, memory.buffer, before, memory.guard)

    def _args_of(self, place: TensorSet) -> InvokeArgs:
        args = self._args.get(place)
        if args is None:
            workspace = None if self._workspace is None else self._workspace.buffer
            packed = self._packed[place.draw].memory.buffer if self._packed else None
            args = InvokeArgs(**vars(place.args), workspace=workspace, packed=packed)
            self._args[place] = args
        return args
