"""`Variant`: a solver for one direction and one order of channels; its id says which."""

from __future__ import annotations

from abc import abstractmethod

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.domain import Domain
from convfind.solver.recipe import Recipe
from convfind.types import Direction


class Variant(Solver):
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

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        """Return what an unbound run of the recipe under a limit needs, with the default config."""
        return self.solution(problem, target, workspace_limit=limit).total_workspace


class PlainVariant(Variant):
    """One without tuning parameters."""

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Return the recipe; there is no config to choose."""
        return self.recipe(problem, target, workspace_limit)

    @abstractmethod
    def recipe(self, problem: ConvProblem, target: Target, limit: int | None) -> Recipe:
        """Describe how to compute the problem with at most so many bytes of workspace."""


class TunableVariant(Variant, TunableSolver):
    """One with tuning parameters."""

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        """Return the recipe with a config, or with the default."""
        chosen = config or self.default_config(problem, target)
        return self.recipe(problem, target, chosen, workspace_limit)

    @abstractmethod
    def recipe(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> Recipe:
        """Describe how to compute the problem with at most so many bytes of workspace."""
