"""Composition: a solver for packed tensors of one layout, and copies of core's around it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from convfind.device.target import Target
from convfind.kit.completed import Completed, CompletedTunable
from convfind.kit.copy_step import copy_step
from convfind.problem import ConvProblem
from convfind.problem.traits import Trait
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.recipe import BufferArg, Launch, Memory, Recipe, align, moved_to
from convfind.types import Layout

#: The traits that copies remove.
COPIED_TRAITS: Final = frozenset({Trait.GAPS, Trait.MIXED_LAYOUTS})


class Copied(Completed):
    """A solver's recipe for the problem with packed tensors of one layout, between copies.

    Tensors that lie so already are used in place, whatever their layout is called: channels last
    that are given as strides of channels first, for instance, or weights of a 1x1 filter. Weights
    are copied where a recipe packs them, once if they are bound.
    """

    suffix = "+copies"

    def __init__(self, inner: Solver) -> None:
        domain = inner.domain
        super().__init__(
            inner, replace(domain, traits=domain.traits | COPIED_TRAITS, channels_last=None)
        )
        self._channels_last: bool | None = domain.channels_last

    @staticmethod
    def completes(solver: Solver) -> bool:
        """Return whether there are problems that a solver takes only with copies."""
        return not solver.is_last_resort and (
            solver.domain.channels_last is not None or not solver.domain.traits >= COPIED_TRAITS
        )

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        """Ask the solver about the problem with packed tensors."""
        if COPIED_TRAITS.isdisjoint(problem.traits):
            return Rejected(Reason.LAYOUT, "all tensors are packed and of one layout: no copies")
        if self.inner.takes(problem, target):
            return Rejected(Reason.LAYOUT, f"{self.inner.solver_id} needs no copies")
        return self.inner.takes(self.inside(problem), target)

    def inside(self, problem: ConvProblem) -> ConvProblem:
        """Return the problem with packed tensors, in the layout that takes the fewest copies."""
        return _packed(problem, self._channels_last)

    def moved(self, problem: ConvProblem) -> int:
        """Return twice the bytes of each copy."""
        return 2 * _bytes_of_copies(problem, self.inside(problem))

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Return the bytes of the solver and of the copies."""
        inside = self.inside(problem)
        own = sum(align(inside.nbytes(name)) for name in _copied(problem, inside))
        left = None if limit is None else max(0, limit - own)
        return own + self.inner.workspace_size(inside, target, left)

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Return copies of what is read, the solver's steps, and a copy of the result."""
        inside = self.inside(problem)
        names = _copied(problem, inside)
        sizes = {name: align(inside.nbytes(name)) for name in names}
        own = sum(sizes.values())
        left = None if workspace_limit is None else max(0, workspace_limit - own)
        recipe = self.inner.solution(inside, target, config, left)
        places: dict[str, BufferArg] = {}
        workspace, packed = align(recipe.workspace), align(recipe.packed)
        writes = problem.direction.writes
        for name, size in sizes.items():
            if name == Memory.W != writes:
                places[name] = BufferArg(Memory.PACKED, packed)
                packed += size
            else:
                places[name] = BufferArg(Memory.WORKSPACE, workspace)
                workspace += size

        def copied_in(name: str) -> Launch:
            return _copy(name, problem, inside, BufferArg(name), places[name], target)

        def copied_out(name: str) -> Launch:
            return _copy(name, inside, problem, places[name], BufferArg(name), target)

        has_weights = Memory.W in places and writes != Memory.W
        reads = [name for name in places if name not in (Memory.W if has_weights else "", writes)]
        if writes in places and problem.reads_result:
            reads.append(writes)
        return replace(
            recipe,
            solver=self.solver_id,
            steps=(
                *map(copied_in, reads),
                *moved_to(recipe.steps, places),
                *(copied_out(name) for name in (writes,) if name in places),
            ),
            prepare=(
                *((copied_in(Memory.W),) if has_weights else ()),
                *moved_to(recipe.prepare, places),
            ),
            workspace=workspace if len(places) > has_weights else recipe.workspace,
            packed=packed if has_weights else recipe.packed,
        )


class CopiedTunable(Copied, CompletedTunable):
    """The same of a solver with tuning parameters."""


def copied(solver: Solver) -> Copied:
    """Return a solver with copies around it."""
    return (CopiedTunable if isinstance(solver, TunableSolver) else Copied)(solver)


@lru_cache(maxsize=1024)
def _packed(problem: ConvProblem, channels_last: bool | None) -> ConvProblem:
    """Return the problem with packed tensors; None: in the order that takes the fewest copies."""
    if channels_last is None:
        usual = problem.x_layout.channels_last
        both = (_packed(problem, order) for order in (usual, not usual))
        return min(both, key=lambda inside: _bytes_of_copies(problem, inside))
    layout = Layout.of(problem.spatial_rank, channels_last=channels_last)
    return replace(
        problem,
        x_layout=layout,
        w_layout=layout,
        y_layout=layout,
        x_strides=None,
        w_strides=None,
        y_strides=None,
    )


def _copied(problem: ConvProblem, inside: ConvProblem) -> tuple[str, ...]:
    """Return the names of the operands that lie otherwise than the solver wants them."""
    names = dict.fromkeys((*problem.reads, *problem.writes))
    if not problem.adds_z:
        names.pop("z", None)
    return tuple(name for name in names if not _lies_so(problem, inside, name))


def _lies_so(problem: ConvProblem, inside: ConvProblem, name: str) -> bool:
    steps = zip(problem.shape(name), problem.strides(name), inside.strides(name), strict=True)
    return all(given == wanted for size, given, wanted in steps if size > 1)


def _bytes_of_copies(problem: ConvProblem, inside: ConvProblem) -> int:
    return sum(inside.nbytes(name) for name in _copied(problem, inside))


def _copy(
    name: str,
    source: ConvProblem,
    result: ConvProblem,
    source_place: BufferArg,
    result_place: BufferArg,
    target: Target,
) -> Launch:
    """Return the copy of an operand from how it lies in one problem to how it does in another."""
    return copy_step(
        source=source_place,
        result=result_place,
        shape=source.shape(name),
        source_strides=source.strides(name),
        result_strides=result.strides(name),
        element_size=source.tensor_dtype(name).size,
        images=name != Memory.W,
        target=target,
    )
