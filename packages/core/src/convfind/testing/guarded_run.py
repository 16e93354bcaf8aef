"""Running a solution between guard bytes, which reveal out-of-bounds reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from convfind.cached import cached_property
from convfind.checking.guards import (
    POISON,
    Guarded,
    behind_guards,
    guard_size,
    is_poisoned,
    poisoned,
)
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, InvokeArgs, Invoker
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import WORKSPACE_ALIGNMENT, Recipe, Step
from convfind.testing.tensors import Bytes, gap_mask

__all__ = ["POISON", "GuardedMemory", "GuardedRunner", "Outcome"]

#: Fewest guard bytes before and after each buffer: many small problems run here.
LEAST_GUARD = 8 * WORKSPACE_ALIGNMENT

#: Compiled programs of each device: solvers share programs, and compiling takes longest.
_loaded_on: WeakKeyDictionary[Device, dict[Program, object]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result tensor's memory after a run, and the run's violations."""

    result: Bytes
    complaints: list[str]


class GuardedRunner:
    """Runs solutions on one device; each program is compiled once per process."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded = _loaded_on.setdefault(device, {})

    def load(self, solution: Recipe) -> None:
        """Compile new programs. Raises `KernelBuildError`."""
        for program in solution.programs:
            if program not in self._loaded:
                binary = self._device.compile(program)
                self._loaded[program] = self._device.load(program, binary)

    def memory(self, problem: ConvProblem, solution: Recipe) -> GuardedMemory:
        """Return memory for runs of a solution."""
        return GuardedMemory(self._device, self, problem, solution)

    def invoker(self, solution: Recipe, steps: tuple[Step, ...]) -> Invoker:
        """Prepare steps of a solution. Raises `KernelBuildError` and `LaunchError`."""
        self.load(solution)
        return self._device.invoker(steps, self._loaded)

    def run(self, problem: ConvProblem, solution: Recipe, tensors: Mapping[str, Bytes]) -> Outcome:
        """Run a solution once; see `GuardedMemory.run`."""
        return self.memory(problem, solution).run(tensors)


class GuardedMemory:
    """The memory of one solution on a device, for one run after another.

    Every buffer lies between guards, and steps are shifted past the first guard. Tensors that a run
    left as they were are not written again.
    """

    def __init__(
        self,
        device: Device,
        runner: GuardedRunner,
        problem: ConvProblem,
        solution: Recipe,
    ) -> None:
        self._device = device
        self._runner = runner
        self._problem = problem
        self._solution = solution
        self._tensors = (*problem.reads, problem.direction.writes)
        #: Content and memory with guards of each tensor that is known to be on the device.
        self._written: dict[str, tuple[Bytes, Bytes]] = {}

    def run(self, tensors: Mapping[str, Bytes]) -> Outcome:
        """Run on tensors given as memory, scratch memory poisoned; so is the result if not given.

        Raises:
            DeviceError: there is no memory, or the device failed.
            KernelBuildError: a program does not compile.
            LaunchError: a step cannot be launched.
        """
        self._poison("packed")
        self._poison("workspace")
        return self._run(self._every_step, tensors)

    def run_packed(self, tensors: Mapping[str, Bytes]) -> Outcome:
        """Run on the weights that the last run packed, as with constant weights."""
        self._poison("workspace")
        return self._run(self._steps, tensors)

    def run_after(self, tensors: Mapping[str, Bytes]) -> Outcome:
        """Run with scratch memory as the last run left it."""
        return self._run(self._every_step, tensors)

    def run_in_place(self, tensors: Mapping[str, Bytes]) -> Outcome:
        """Run as `run` does, what is added lying in the result."""
        writes = self._problem.direction.writes
        memory = self._buffers[writes]
        invoker = self._invoker((*self._solution.prepare, *self._solution.steps), z=memory.guard)
        self._poison("packed")
        self._poison("workspace")
        self._write({writes: tensors["z"], **{n: t for n, t in tensors.items() if n != "z"}})
        invoker(InvokeArgs(**{**vars(self._args), "z": memory.buffer}))
        return self._outcome()

    @cached_property
    def _buffers(self) -> dict[str, Guarded]:
        sizes = {name: self._problem.nbytes(name) for name in self._tensors}
        sizes |= {"workspace": self._solution.workspace, "packed": self._solution.packed}
        guards = {name: guard_size(size, LEAST_GUARD) for name, size in sizes.items() if size}
        return {
            name: Guarded(self._device.allocate(sizes[name] + 2 * guard), sizes[name], guard)
            for name, guard in guards.items()
        }

    @cached_property
    def _args(self) -> InvokeArgs:
        return InvokeArgs(**{name: memory.buffer for name, memory in self._buffers.items()})

    @cached_property
    def _every_step(self) -> Invoker:
        return self._invoker((*self._solution.prepare, *self._solution.steps))

    @cached_property
    def _steps(self) -> Invoker:
        return self._invoker(self._solution.steps)

    def _invoker(self, steps: tuple[Step, ...], **shifts: int) -> Invoker:
        guards = {name: memory.guard for name, memory in self._buffers.items()}
        return self._runner.invoker(self._solution, behind_guards(steps, guards | shifts))

    @cached_property
    def _gaps(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return gap_mask(self._problem, self._problem.direction.writes)

    def _poison(self, name: str) -> None:
        self._written.pop(name, None)
        if memory := self._buffers.get(name):
            self._device.fill(memory.buffer, POISON)

    def _run(self, invoker: Invoker, tensors: Mapping[str, Bytes]) -> Outcome:
        self._write(tensors)
        invoker(self._args)
        return self._outcome()

    def _write(self, tensors: Mapping[str, Bytes]) -> None:
        """Write the tensors that are not there yet, and poison those that are not given."""
        for name in self._tensors:
            if name not in tensors:
                self._poison(name)
                continue
            content = tensors[name]
            known = self._written.get(name)
            if known is None or known[0] is not content:
                memory = self._buffers[name]
                guard = poisoned(memory.guard)
                image = np.concatenate([guard, content, guard])
                self._device.write(memory.buffer, image)
                self._written[name] = content, image

    def _outcome(self) -> Outcome:
        complaints = []
        result = np.empty(0, np.uint8)
        writes = self._problem.direction.writes
        for name, memory in self._buffers.items():
            if name not in self._tensors:
                if complaint := memory.complaint(self._device):
                    complaints.append(f"{complaint} {name}")
                continue
            after = np.empty(memory.size + 2 * memory.guard, np.uint8)
            self._device.read(memory.buffer, after)
            if not is_poisoned(after[: memory.guard]):
                complaints.append(f"wrote before the start of {name}")
            if not is_poisoned(after[-memory.guard :]):
                complaints.append(f"wrote behind the end of {name}")
            inside = slice(memory.guard, -memory.guard)
            if name == writes:
                self._written.pop(name, None)
                result = after[inside]
                if (result[self._gaps] != POISON).any():
                    complaints.append(f"wrote into the gaps of {name}")
            elif name in self._written and not np.array_equal(after, self._written[name][1]):
                _, before = self._written.pop(name)
                if not np.array_equal(after[inside], before[inside]):
                    complaints.append(f"changed {name}, which it only reads")
        return Outcome(result, complaints)
