"""Solvers that describe a recipe in one method, which gets a limit and a config."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.kit.recipe_solver import RecipeSolver, TunableRecipeSolver
from convfind.problem import ConvProblem
from convfind.solver.applicability import APPLICABLE, Applicability
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.testing import MOCK_TARGET
from convfind.types import Algorithm

PROBLEM = ConvProblem.forward((1, 4, 8, 8), (4, 4, 3, 3))


class Plain(RecipeSolver):
    """A solver that takes all the memory it may, or 1000 bytes, and packs 24."""

    solver_id = "test-plain"
    algorithm = Algorithm.DIRECT

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return APPLICABLE

    def recipe(self, problem: ConvProblem, target: Target, limit: int | None) -> Recipe:
        return Recipe(self.solver_id, (), workspace=1000 if limit is None else limit, packed=24)


class Tuned(TunableRecipeSolver):
    """A solver with a parameter, which is the bytes of its workspace."""

    solver_id = "test-tuned"
    algorithm = Algorithm.DIRECT

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return APPLICABLE

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        return SearchSpace((Parameter("size", (1, 2)),))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        return Config(size=1)

    def recipe(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> Recipe:
        return Recipe(self.solver_id, (), workspace=config.integer("size"), config=config)


def test_the_limit_reaches_the_recipe() -> None:
    assert Plain().solution(PROBLEM, MOCK_TARGET).workspace == 1000
    assert Plain().solution(PROBLEM, MOCK_TARGET, workspace_limit=5).workspace == 5


def test_the_workspace_is_that_of_an_unbound_run() -> None:
    assert Plain().workspace_size(PROBLEM, MOCK_TARGET) == 1024 + 24
    assert Plain().workspace_size(PROBLEM, MOCK_TARGET, 512) == 512 + 24


def test_a_recipe_gets_the_config_or_the_default() -> None:
    assert Tuned().solution(PROBLEM, MOCK_TARGET).config == Config(size=1)
    assert Tuned().solution(PROBLEM, MOCK_TARGET, Config(size=2)).config == Config(size=2)
    assert Tuned().workspace_size(PROBLEM, MOCK_TARGET) == 1
