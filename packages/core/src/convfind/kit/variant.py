"""`Variant`: a solver for one direction and one order of channels; its id says which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from convfind.kit.recipe_solver import RecipeSolver, SizedByRecipe, TunableRecipeSolver
from convfind.solver.contract import Solver
from convfind.solver.domain import Domain
from convfind.types import Direction

#: The directions in which weights are read: their results are tensors as x and y are.
TO_TENSORS: Final = (Direction.FORWARD, Direction.BACKWARD_DATA)
#: The orders of channels, by whether they come last.
LAYOUTS: Final = (False, True)


class Variant(SizedByRecipe):
    """A convolution in one direction and one family of layouts.

    A class states its domain without the two, and either of them that all its solvers have in
    common; a solver is given what the class leaves open.
    """

    #: The words of the id in front of layout and direction, and those behind them, if any.
    prefix: str
    form: str = ""
    direction: Direction
    channels_last: bool
    domain: Domain = Domain()

    def __init__(
        self, direction: Direction | None = None, *, channels_last: bool | None = None
    ) -> None:
        if direction is not None:
            self.direction = direction
        if channels_last is not None:
            self.channels_last = channels_last
        self.domain = self.domain.oriented(self.direction, self.channels_last)
        layout = "nhwc" if self.channels_last else "nchw"
        words = (self.prefix, layout, self.direction.short, self.form)
        self.solver_id = "-".join(filter(None, words))


class PlainVariant(RecipeSolver, Variant):
    """One without tuning parameters."""


class TunableVariant(TunableRecipeSolver, Variant):
    """One with tuning parameters."""


def variants(
    kind: Callable[..., Solver], directions: Iterable[Direction] = TO_TENSORS
) -> list[Solver]:
    """Return the solvers of a kind, direction by direction, each with channels first and last."""
    return [kind(direction, channels_last=last) for direction in directions for last in LAYOUTS]
