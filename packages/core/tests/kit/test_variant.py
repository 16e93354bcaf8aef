"""Solvers of one direction and layout: ids, domains, and the config of a recipe."""

from __future__ import annotations

import pytest

from convfind.device.target import Target
from convfind.kit.variant import TO_TENSORS, PlainVariant, TunableVariant, Variant, variants
from convfind.problem import ConvProblem
from convfind.solver.applicability import APPLICABLE, Applicability
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe
from convfind.solver.search_space import Parameter, SearchSpace
from convfind.testing import MOCK_TARGET
from convfind.types import Algorithm, Direction

PROBLEM = ConvProblem.forward((1, 4, 8, 8), (4, 4, 3, 3))


class Open(PlainVariant):
    """A class that leaves both open."""

    prefix = "test-open"
    algorithm = Algorithm.DIRECT

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return APPLICABLE

    def recipe(self, problem: ConvProblem, target: Target, limit: int | None) -> Recipe:
        return Recipe(self.solver_id, (), workspace=-1 if limit is None else limit)


class Closed(Open):
    """One that states both."""

    form = "fixed"
    direction = Direction.BACKWARD_WEIGHTS
    channels_last = True


class Tuned(TunableVariant):
    """One with a parameter."""

    prefix = "test-tuned"
    direction = Direction.FORWARD
    algorithm = Algorithm.DIRECT

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return APPLICABLE

    def search_space(self, problem: ConvProblem, target: Target) -> SearchSpace:
        return SearchSpace((Parameter("rows", (1, 2)),))

    def default_config(self, problem: ConvProblem, target: Target) -> Config:
        return Config(rows=1)

    def recipe(
        self, problem: ConvProblem, target: Target, config: Config, limit: int | None
    ) -> Recipe:
        return Recipe(self.solver_id, (), config=config)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_variant_has_its_direction_and_layout_in_id_and_domain(direction: Direction) -> None:
    first, last = (Open(direction, channels_last=one) for one in (False, True))
    assert first.solver_id == f"test-open-nchw-{direction.short}"
    assert last.solver_id == f"test-open-nhwc-{direction.short}"
    for one in Direction:
        problem = PROBLEM.with_direction(one)
        assert bool(first.takes(problem, MOCK_TARGET)) is (one is direction)
        assert not last.takes(problem, MOCK_TARGET)


def test_what_a_class_states_is_not_given() -> None:
    closed = Closed()
    assert closed.solver_id == "test-open-nhwc-bwd-weights-fixed"
    assert (closed.domain.directions, closed.domain.channels_last) == (
        (Direction.BACKWARD_WEIGHTS,),
        True,
    )
    assert Open.domain.directions == tuple(Direction)  # that of the class stays whole


def test_a_recipe_gets_the_limit_of_the_workspace() -> None:
    plain = Open(Direction.FORWARD, channels_last=False)
    assert plain.solution(PROBLEM, MOCK_TARGET).workspace == -1
    assert plain.solution(PROBLEM, MOCK_TARGET, workspace_limit=5).workspace == 5


def test_a_recipe_gets_the_config_or_the_default() -> None:
    tuned = Tuned(channels_last=False)
    assert tuned.solution(PROBLEM, MOCK_TARGET).config == Config(rows=1)
    assert tuned.solution(PROBLEM, MOCK_TARGET, Config(rows=2)).config == Config(rows=2)


def test_variants_are_those_of_each_direction_and_layout() -> None:
    assert [solver.solver_id for solver in variants(Open)] == [
        *("test-open-nchw-fwd", "test-open-nhwc-fwd"),
        *("test-open-nchw-bwd-data", "test-open-nhwc-bwd-data"),
    ]
    assert [direction.writes for direction in TO_TENSORS] == ["y", "x"]
    gradients = variants(Open, (Direction.BACKWARD_WEIGHTS,))
    assert [solver.solver_id for solver in gradients] == [
        *("test-open-nchw-bwd-weights", "test-open-nhwc-bwd-weights")
    ]


class Family(Variant):
    """One that writes its recipes itself."""

    prefix = "test-family"
    algorithm = Algorithm.DIRECT

    def applicability(self, problem: ConvProblem, target: Target) -> Applicability:
        return APPLICABLE

    def solution(
        self,
        problem: ConvProblem,
        target: Target,
        config: Config | None = None,
        workspace_limit: int | None = None,
    ) -> Recipe:
        return Recipe(self.solver_id, (), workspace=min(640, workspace_limit or 640))


class Counted(Family):
    """One that counts its workspace itself."""

    def workspace_size(self, problem: ConvProblem, target: Target, limit: int | None = None) -> int:
        return 77


class Both(PlainVariant, Counted):
    """One that leaves its recipes to the kit, and its workspace to its family."""

    def recipe(self, problem: ConvProblem, target: Target, limit: int | None) -> Recipe:
        return Recipe(self.solver_id, (), workspace=128)


def test_the_workspace_of_every_variant_is_its_recipes_unless_a_class_says_otherwise() -> None:
    family, counted, both = (
        kind(Direction.FORWARD, channels_last=False) for kind in (Family, Counted, Both)
    )
    assert family.workspace_size(PROBLEM, MOCK_TARGET) == 640
    assert family.workspace_size(PROBLEM, MOCK_TARGET, 256) == 256
    assert counted.workspace_size(PROBLEM, MOCK_TARGET) == 77
    assert both.workspace_size(PROBLEM, MOCK_TARGET) == 77
    assert both.solution(PROBLEM, MOCK_TARGET).workspace == 128
