"""`RecipeSolver`, `TunableRecipeSolver`: solvers with one method that describes a recipe."""

from __future__ import annotations

from abc import abstractmethod

from convfind.device.target import Target
from convfind.problem import ConvProblem
from convfind.solver.config import Config
from convfind.solver.contract import Solver, TunableSolver
from convfind.solver.recipe import Recipe

#: Bytes of workspace that a recipe may take at most; None: any number.
Limit = int | None


class SizedByRecipe(Solver):
    """A solver whose recipes say how much workspace they take."""

    def workspace_size(self, problem: ConvProblem, target: Target, limit: Limit = None) -> int:
        """Return what an unbound run of the recipe under a limit needs, with the default config."""
        return self.solution(problem, target, workspace_limit=limit).total_workspace


class RecipeSolver(SizedByRecipe):
    """One without tuning parameters."""

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: Limit = None,
    ) -> Recipe:
        """Return the recipe; there is no config to choose."""
        return self.recipe(problem, target, workspace_limit)

    @abstractmethod
    def recipe(self, problem: ConvProblem, target: Target, limit: Limit) -> Recipe:
        """Describe how to compute the problem with at most so many bytes of workspace."""


class TunableRecipeSolver(SizedByRecipe, TunableSolver):
    """One with tuning parameters."""

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: Limit = None,
    ) -> Recipe:
        """Return the recipe with a config, or with the default."""
        chosen = config or self.default_config(problem, target)
        return self.recipe(problem, target, chosen, workspace_limit)

    @abstractmethod
    def recipe(self, problem: ConvProblem, target: Target, config: Config, limit: Limit) -> Recipe:
        """Describe how to compute the problem with at most so many bytes of workspace."""
