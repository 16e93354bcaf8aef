"""`CopySolver`: elements that are moved, a launch for each move; some tensors are transposed."""

from __future__ import annotations

from dataclasses import replace

from convfind.device.target import Target
from convfind.reasons import Reason
from convfind.solver.applicability import Applicability, Rejected
from convfind.solver.recipe import Step
from convfind_operators.element_map import ElementMap, copy_of
from convfind_operators.pad import PadProblem
from convfind_operators.padding import Padding
from convfind_operators.rearrangement import Rearrangement
from convfind_operators.solver import OperatorSolver, walkable
from convfind_operators.transposition import Transposition
from convfind_operators.walk import MOST_AXES, Walk

#: Launches that a move may become whose axes are too many.
_MOST_PIECES = 64


class CopySolver(OperatorSolver):
    """Reads and writes every element once."""

    family = Rearrangement

    def countable(self, problem: Rearrangement, target: Target) -> Applicability:
        """Take what kernels can count."""
        padding = _padding(problem)
        if padding is not None:
            return walkable(padding.walk)
        pieces = [piece for walk in problem.moves for piece in _pieces(walk.simplified())]
        if len(pieces) > max(len(problem.moves), _MOST_PIECES):
            return Rejected(Reason.SIZE_LIMIT, f"{len(pieces)} launches for axes that do not merge")
        return walkable(*pieces)

    def steps(self, problem: Rearrangement, target: Target) -> tuple[Step, ...]:
        """One launch for each move, or for x and what is around it."""
        padding = _padding(problem)
        if padding is not None:
            return (padding.launch(target),)
        return tuple(
            _launch(piece, problem.filling, target)
            for walk in problem.moves
            if walk.elements
            for piece in _pieces(walk.simplified())
        )


def _padding(problem: Rearrangement) -> Padding | None:
    return Padding.of(problem) if isinstance(problem, PadProblem) else None


def _pieces(walk: Walk) -> tuple[Walk, ...]:
    """Return a walk as some with no more axes than kernels know: a piece for each position."""
    if len(walk.sizes) <= MOST_AXES:
        return (walk,)
    axis = min(range(len(walk.sizes)), key=walk.sizes.__getitem__)
    rest = walk.along([other for other in range(len(walk.sizes)) if other != axis])
    return tuple(
        piece
        for at in range(walk.sizes[axis])
        for piece in _pieces(
            replace(
                rest,
                views=tuple(
                    replace(view, start=view.start + at * whole.steps[axis])
                    for view, whole in zip(rest.views, walk.views, strict=True)
                ),
            )
        )
    )


def _launch(walk: Walk, filling: float, target: Target) -> Step:
    if len(walk.views) == 1:
        return ElementMap("IDENTITY", walk.views[0].dtype.arithmetic, filling).launch(walk, target)
    transposition = Transposition.of(walk)
    if transposition is not None:
        return transposition.launch(target)
    return copy_of(*walk.views).launch(walk, target)
