"""Ranks solvers by a rule of one's own, where nothing may be measured: mode FAST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import convfind
from convfind.heuristics import NotApplicable, Prediction
from convfind.plugins import hookimpl
from convfind.plugins.registry import HeuristicRegistry, Registry


class WinogradFirst:
    """Expects Winograd to win for 3x3 filters, and says nothing about others."""

    name = "winograd-first"

    def predict(
        self, problem: Any, target: convfind.Target, solvers: Sequence[convfind.Solver]
    ) -> Sequence[Prediction] | NotApplicable:
        """Rank the family's solvers; a time needs to be right only in relation to the others."""
        if problem.filter != (3, 3):
            return NotApplicable("is for 3x3")
        family = [one for one in solvers if one.algorithm is convfind.Algorithm.WINOGRAD]
        return [Prediction(one.solver_id, 1.0 + n, 0.5) for n, one in enumerate(family)]


class Plugin:
    """The hooks; in a package they are functions of the module that its entry point names."""

    @hookimpl
    def convfind_register_heuristics(self, register: HeuristicRegistry) -> None:
        """Register the rule."""
        register.add(WinogradFirst())


def main() -> None:
    """Ask for an answer without measuring."""
    problem = convfind.ConvProblem.forward((1, 64, 32, 32), (64, 64, 3, 3), padding=1)
    settings = convfind.Settings(disable_find_db=True)
    registry = Registry.build([Plugin()])
    with convfind.open("opencl:cpu", registry=registry, settings=settings) as handle:
        best = handle.find(problem, mode="FAST").best
    print(best.solver, best.time_origin)
    assert best.solver.startswith("winograd-")
    assert best.time_ms is None


if __name__ == "__main__":
    main()
