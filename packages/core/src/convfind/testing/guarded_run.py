"""Running a solution between guard bytes, which reveal out-of-bounds reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from convfind.checking.guards import POISON, behind_guards, guard_size, is_poisoned, poisoned
from convfind.problem import ConvProblem
from convfind.runtime.backend import Device, DeviceBuffer, InvokeArgs, Invoker
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import WORKSPACE_ALIGNMENT, Recipe, Step
from convfind.testing.tensors import Bytes, gap_mask

__all__ = ["POISON", "GuardedRunner", "Outcome"]

#: Fewest guard bytes before and after each buffer: many small problems run here.
LEAST_GUARD = 8 * WORKSPACE_ALIGNMENT

#: Compiled programs of each device: solvers share programs, and compiling takes longest.
_loaded_on: WeakKeyDictionary[Device, dict[Program, object]] = WeakKeyDictionary()


@dataclass(slots=True)
class Outcome:
    """The result tensor's memory after a run, and the run's violations."""

    result: Bytes
    complaints: list[str] = field(default_factory=list)


class GuardedRunner:
    """Runs solutions on one device; each program is compiled once per process."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded = _loaded_on.setdefault(device, {})
        self._invokers: dict[tuple[Step, ...], Invoker] = {}

    def load(self, solution: Recipe) -> None:
        """Compile new programs. Raises `KernelBuildError`."""
        for program in solution.programs:
            if program not in self._loaded:
                binary = self._device.compile(program)
                self._loaded[program] = self._device.load(program, binary)

    def run(
        self,
        problem: ConvProblem,
        solution: Recipe,
        tensors: Mapping[str, Bytes],
        *,
        bound: bool = False,
        in_place: bool = False,
        earlier: Mapping[str, Bytes] | None = None,
    ) -> Outcome:
        """Run a solution on tensors given as memory.

        Scratch memory is poisoned, every buffer lies between guards, and steps are shifted past the
        first guard. With ``bound`` the prepare steps run once and the others twice, the second time
        with new results and scratch memory, as with constant weights. With ``earlier`` tensors a
        run on those comes first and leaves its scratch memory to the next run. With ``in_place``
        what is added lies in the result.
        """
        self.load(solution)
        writes = problem.direction.writes
        if in_place:
            others = {name: tensor for name, tensor in tensors.items() if name != "z"}
            tensors = {**others, writes: tensors["z"]}
        contents = {
            **tensors,
            "workspace": poisoned(solution.workspace),
            "packed": poisoned(solution.packed),
        }
        images = {name: _guarded(data) for name, data in contents.items() if data.size}
        guards = {name: _guard(contents[name]) for name in images}
        buffers = {name: self._device.allocate(image.size) for name, image in images.items()}
        for name, image in images.items():
            self._device.write(buffers[name], image)
        args = InvokeArgs(**buffers, **({"z": buffers[writes]} if in_place else {}))
        shifts = {**guards, "z": guards[writes]} if in_place else guards
        every_step = (*solution.prepare, *solution.steps)
        if earlier is not None:
            for name, data in earlier.items():
                self._device.write(buffers[name], _guarded(data))
            self._invoke(every_step, shifts, args)
            for name in earlier:
                self._device.write(buffers[name], images[name])
        if bound:
            self._invoke(solution.prepare, shifts, args)
            self._invoke(solution.steps, shifts, args)
            for name in (writes, "workspace"):
                if name in images:
                    self._device.write(buffers[name], images[name])
            self._invoke(solution.steps, shifts, args)
        else:
            self._invoke(every_step, shifts, args)
        return self._outcome(problem, images, buffers, guards)

    def _invoke(self, steps: tuple[Step, ...], guards: Mapping[str, int], args: InvokeArgs) -> None:
        moved = behind_guards(steps, guards)
        invoker = self._invokers.get(moved)
        if invoker is None:
            invoker = self._invokers[moved] = self._device.invoker(moved, self._loaded)
        invoker(args)

    def _outcome(
        self,
        problem: ConvProblem,
        images: Mapping[str, Bytes],
        buffers: Mapping[str, DeviceBuffer],
        guards: Mapping[str, int],
    ) -> Outcome:
        outcome = Outcome(np.empty(0, np.uint8))
        for name, before in images.items():
            after = np.empty_like(before)
            self._device.read(buffers[name], after)
            guard = guards[name]
            changed = before != after
            if not is_poisoned(after[:guard]):
                outcome.complaints.append(f"wrote before the start of {name}")
            if not is_poisoned(after[-guard:]):
                outcome.complaints.append(f"wrote behind the end of {name}")
            inside = slice(guard, -guard)
            if name == problem.direction.writes:
                outcome.result = after[inside]
                if changed[inside][gap_mask(problem, name)].any():
                    outcome.complaints.append(f"wrote into the gaps of {name}")
            elif name in problem.reads and changed[inside].any():
                outcome.complaints.append(f"changed {name}, which it only reads")
        return outcome


def _guard(content: Bytes) -> int:
    return guard_size(content.size, LEAST_GUARD)


def _guarded(content: Bytes) -> Bytes:
    guard = poisoned(_guard(content))
    return np.concatenate([guard, content, guard])
