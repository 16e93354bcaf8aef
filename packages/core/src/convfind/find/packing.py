"""`Packing`: times with the packing of weights, as a policy measures that leaves it out, and back.

Winograd's weights of few images take longer to pack than all that follows: forecasts that do not
tell the one time from the other are off by factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from convfind.cached import cached_property
from convfind.errors import SolverError
from convfind.kit.composed import Composed
from convfind.kit.throughput import packing_ms
from convfind.policy import Policy
from convfind.problem.contract import Problem
from convfind.runtime.session import Session
from convfind.solver import Solver, asking

#: The share of a time that is left without packing, at least: how long that takes is an estimate.
_LEFT: Final = 0.2


class Packing:
    """The milliseconds in which the solvers of a problem pack weights."""

    def __init__(
        self, problem: Problem, session: Session, solvers: Sequence[Solver], policy: Policy
    ) -> None:
        self._problem = problem
        self._session = session
        self._solvers = solvers
        self._policy = policy

    def as_measured(
        self, times: Mapping[str, float], *, constant_weights: bool = False
    ) -> dict[str, float]:
        """Return times in ms by names of solvers as the policy would measure them.

        Names are ids, with a version or without one, with a step for an epilogue or without it.

        Args:
            times: of a problem with the same weights, of any size of images.
            constant_weights: whether they leave the packing out.
        """
        if constant_weights == self._policy.constant_weights:
            return dict(times)
        if constant_weights:
            return {name: time + self._took(name) for name, time in times.items()}
        return {name: max(time - self._took(name), _LEFT * time) for name, time in times.items()}

    def _took(self, name: str) -> float:
        return self._milliseconds.get(_plain(name), 0.0)

    @cached_property
    def _milliseconds(self) -> dict[str, float]:
        """Those of solvers with a recipe, by their ids without a step for an epilogue."""
        target, limit = self._session.target, self._policy.workspace_limit
        found = {}
        for solver in self._solvers:
            try:
                recipe = asking.remembered_recipe(solver, self._problem, target, None, limit)
            except SolverError:
                continue  # it is told where it is to run
            found[_plain(solver.solver_id)] = packing_ms(recipe.packed, target)
        return found


def _plain(name: str) -> str:
    return name.partition("@")[0].replace(Composed.suffix, "")
