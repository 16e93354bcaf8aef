"""`Draft`: what a plan is made from; placing its values gives tasks, memory and constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from convfind.find.result import FindResult
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.solver.recipe import Recipe, memory_names
from convfind_networks.graph import Node
from convfind_networks.layouts import LaidOut, places_in_whole
from convfind_networks.lowering import Call, fuse_pairs
from convfind_networks.memory import MemoryPlan, View, plan_memory
from convfind_networks.plan.choice import choice_of, is_estimated
from convfind_networks.plan.constants import Constants, laid_down
from convfind_networks.plan.plan import Plan
from convfind_networks.plan.posing import Posing
from convfind_networks.plan.recipes import recipe_of
from convfind_networks.plan.schedule import ARENA, Place, Port, Schedule, Task

#: Places within a buffer are multiples of it: any device's kernels may read from there.
_ALIGNMENT = 512


@dataclass(frozen=True, eq=False)
class Draft:
    """A network in a layout, the calls that compute it, and what was found for their problems."""

    posing: Posing
    laid_out: LaidOut
    calls: tuple[Call, ...]
    found: Mapping[Any, FindResult]
    #: Solutions to use in place of the best that were found, and why, by problem.
    chosen: Mapping[Any, tuple[Solution, str]] = field(default_factory=dict)
    #: How many elements each input that is indices chooses among.
    index_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def fused(self, pairs: Mapping[Node, Call]) -> Draft:
        """Return the network with some pairs of nodes as one call each."""
        if not pairs:
            return self
        laid_out = fuse_pairs(self.laid_out, pairs)
        return replace(self, laid_out=laid_out, calls=self.posing.calls(laid_out))

    def plan(self) -> Plan:
        """Make it ready to run."""
        handle = self.posing.handle
        solved = [self._solved(call) for call in self.calls]
        memory = plan_memory(
            self.laid_out.graph,
            workspaces={one.call.node.output: one.workspace for one in solved},
            view_alignment=_ALIGNMENT,
            channels_last=self.laid_out.channels_last,
            within=self.laid_out.within,
            outputs_apart=True,
        )
        placing = _Placing(self.laid_out, memory, solved)
        solved = placing.solved  # without those that have nothing to do
        inputs = tuple(
            replace(port, index_sizes=self.index_sizes.get(port.name, ()))
            for port in placing.inputs()
        )
        outputs = placing.outputs()
        tasks = placing.tasks(handle)
        schedule = Schedule(
            network=self.posing.network,
            device=handle.target.identity,
            tasks=tasks,
            inputs=inputs,
            outputs=outputs,
            arena=memory.nbytes,
            constants=placing.constants.size,
            lower_bound=memory.lower_bound,
            notes=_notes({call.problem: self.found[call.problem] for call in self.calls}),
        )
        constants = placing.constants.on_device(handle)
        return Plan.ready(handle, schedule, [one.recipe for one in solved], constants)

    def _solved(self, call: Call) -> _Solved:
        result = self.found[call.problem]
        solution, why = self.chosen.get(call.problem) or (
            result.best,
            choice_of(call.problem, result),
        )
        return _Solved.by(self.posing.handle, self.laid_out, call, solution, why)


def _notes(found: Mapping[Any, FindResult]) -> tuple[str, ...]:
    measured = [problem for problem in found if problem.is_measured]
    estimated = sum(is_estimated(problem, found[problem]) for problem in measured)
    in_doubt = sum(found[problem].is_in_doubt for problem in measured)
    said = (
        (estimated, "are served by estimates: not measured yet"),
        (
            in_doubt,
            "were measured beside other work, or in another version of the fastest solver: compile "
            "again, and they are measured again",
        ),
    )
    return tuple(f"{count} of {len(measured)} problems {what}" for count, what in said if count)


@dataclass(frozen=True, eq=False)
class _Solved:
    """A call with who solves it."""

    call: Call
    solution: Solution
    choice: str
    recipe: Recipe
    packs: tuple[str, ...] | None  # operands that are packed beforehand; None: in every run

    @classmethod
    def by(
        cls, handle: Handle, laid_out: LaidOut, call: Call, solution: Solution, choice: str
    ) -> _Solved:
        recipe = recipe_of(handle, call.problem, solution)
        reads = {name for name in memory_names(recipe.prepare) if name not in _OWN}
        values = laid_out.graph.values
        constant = {name for name, value in call.operands.items() if values[value].is_constant}
        packs = tuple(sorted(reads)) if recipe.packed and reads <= constant else None
        return cls(call, solution, choice, recipe, packs)

    @property
    def workspace(self) -> int:
        """Bytes that a run needs."""
        return self.recipe.workspace if self.packs is not None else self.recipe.total_workspace


#: Names that recipes have beside operands.
_OWN = ("workspace", "packed")


class _Placing:
    """Says where everything lies: in the arena, the constants, inputs and outputs."""

    def __init__(self, laid_out: LaidOut, memory: MemoryPlan, solved: Sequence[_Solved]) -> None:
        self.constants = Constants()
        self._graph = laid_out.graph
        self._laid_out = laid_out
        self._memory = memory
        self._in_place = {one: self._pieces_in_place(one.call) for one in solved}
        self.solved = [one for one in solved if not self._is_done(one)]
        self._blocks = {
            **{one.block.name: Place(ARENA, one.offset) for one in memory.placements},
            **{name: Place(f"input{at}") for at, name in enumerate(self._graph.inputs)},
        }
        publics = list(self._graph.outputs)
        for block, public in memory.outputs.items():
            self._blocks[block] = Place(f"output{publics.index(public)}")

    def tasks(self, handle: Handle) -> tuple[Task, ...]:
        """Return the tasks, with places for all that their steps name."""
        raw = [self._read(one) for one in self.solved]  # before what is packed
        return tuple(
            self._task(handle, one, places) for one, places in zip(self.solved, raw, strict=True)
        )

    def inputs(self) -> tuple[Port, ...]:
        """Return where the inputs lie."""
        return tuple(self._port(name, name) for name in self._graph.inputs)

    def outputs(self) -> tuple[Port, ...]:
        """Return where the outputs lie."""
        return tuple(self._port(public, name) for public, name in self._graph.outputs.items())

    def _pieces_in_place(self, call: Call) -> frozenset[str]:
        """Return the operands that lie where they are joined to, or taken from."""
        names = {value: name for name, value in call.operands.items()}
        found = set[str]()
        for piece, place in places_in_whole(self._laid_out, call.node):
            begin, view = map(self._memory.views.get, (place.whole, piece))
            before = place.start * self._graph.values[piece].dtype.itemsize
            if begin is not None and view == View(begin.block, begin.offset + before):
                found.add(names[piece])
        return frozenset(found)

    def _is_done(self, solved: _Solved) -> bool:
        """Tell whether all that a call joins or takes apart lies where it belongs."""
        pieces = len(solved.call.operands) - 1
        return bool(pieces) and len(self._in_place[solved]) == pieces

    def _port(self, public: str, name: str) -> Port:
        return Port(public, self._graph.values[name].type, self._place(name))

    def _place(self, name: str) -> Place:
        """Return where a value lies."""
        data = self._graph.values[name].data
        if data is not None:
            return self.constants.raw(name, data.nbytes, partial(np.ascontiguousarray, data))
        view = self._memory.views[name]
        block = self._blocks[view.block]
        return Place(block.memory, block.offset + view.offset)

    def _read(self, solved: _Solved) -> dict[str, Place]:
        """Return the places of the operands that a task's steps name."""
        problem, places = solved.call.problem, {}
        steps = solved.recipe.steps if solved.packs is not None else solved.recipe.unbound_steps
        named = memory_names(steps)
        for name, value in solved.call.operands.items():
            if name not in named:
                continue
            if self._graph.values[value].is_constant:
                array, spec = self._constant(solved.call, name), problem.operand(name)
                key = (value, spec.shape, spec.strides)
                places[name] = self.constants.raw(key, spec.nbytes, array)
            else:
                places[name] = self._place(value)
        return places

    def _task(self, handle: Handle, solved: _Solved, places: dict[str, Place]) -> Task:
        call, solution = solved.call, solved.solution
        if solved.workspace:
            places["workspace"] = self._blocks[f"workspace of {call.node.output}"]
        if solved.packs is not None:
            reads = {name: self._constant(call, name) for name in solved.packs}
            values = tuple(call.operands[name] for name in solved.packs)
            key = (values, solved.recipe.prepare)
            places["packed"] = self.constants.packed(key, solved.recipe, reads)
        return Task(
            node=call.node.output,
            operation=str(call.node.op),
            problem=call.problem,
            solution=solution,
            solver_version=handle.registry.solver(solution.solver).version,
            source_hash=solved.recipe.source_hash,
            places=places,
            in_place=self._in_place[solved],
            choice=solved.choice,
        )

    def _constant(self, call: Call, name: str) -> Any:
        data = self._graph.values[call.operands[name]].data
        assert data is not None
        spec = call.problem.operand(name)
        if name in call.rows:
            n, channels, *image = spec.shape
            data = np.moveaxis(data.reshape(n, *image, channels), -1, 1)
        return partial(laid_down, data, spec.shape, spec.strides)
