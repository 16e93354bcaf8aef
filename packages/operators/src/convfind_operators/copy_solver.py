"""`CopySolver`: elements that are moved, a launch for each move; some tensors are transposed."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.solver.applicability import Applicability
from convfind.solver.recipe import Step
from convfind_operators.element_map import ElementMap, copy_of
from convfind_operators.rearrangement import Rearrangement
from convfind_operators.solver import OperatorSolver, walkable
from convfind_operators.transposition import Transposition
from convfind_operators.walk import Walk


class CopySolver(OperatorSolver):
    """Reads and writes every element once."""

    family = Rearrangement

    def countable(self, problem: Rearrangement, target: Target) -> Applicability:
        """Take what kernels can count."""
        return walkable(*(walk.simplified() for walk in problem.moves))

    def steps(self, problem: Rearrangement, target: Target) -> tuple[Step, ...]:
        """One launch for each move."""
        walks = (walk.simplified() for walk in problem.moves if walk.elements)
        return tuple(_launch(walk, problem.filling, target) for walk in walks)


def _launch(walk: Walk, filling: float, target: Target) -> Step:
    if len(walk.views) == 1:
        return ElementMap("IDENTITY", walk.views[0].dtype.arithmetic, filling).launch(walk, target)
    transposition = Transposition.of(walk)
    if transposition is not None:
        return transposition.launch(target)
    return copy_of(*walk.views).launch(walk, target)
