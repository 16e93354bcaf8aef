"""Times a solution again, as a find times candidates: `retime`."""

from __future__ import annotations

import time

from convfind.checking.measuring import Measurement
from convfind.checking.workbench import Workbench
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.solver import asking

_FEWEST = 3


def retime(
    handle: Handle,
    problem: ConvProblem,
    solution: Solution,
    *,
    iterations: int | None,
    seconds: float | None,
) -> Measurement:
    """Measure the device time of a solution in runs whose tensors are in no cache.

    It ends with so many runs or after so many seconds, whichever is first; without ``iterations``
    there are three at least. The database stays as it is.
    """
    session, plain = handle.session, problem.plain()
    solver = session.registry.solver(solution.solver)
    recipe = asking.remembered_recipe(
        solver, plain, session.target, solution.config, solution.workspace
    )
    loaded = session.kernels.load_given(recipe.programs, solution.binaries)
    with session.turn:  # finds of other threads would disturb it
        bench = Workbench(plain, session, constant_weights=solution.constant_weights)
        bench.make_ready(verify=False)
        candidate = bench.candidate(recipe, loaded)
        candidate.run_once()
        candidate.sample()  # warms caches and clocks
        samples: list[float] = []
        end = None if seconds is None else time.perf_counter() + seconds
        while iterations is None or len(samples) < iterations:
            samples.append(candidate.sample())
            enough = len(samples) >= (_FEWEST if iterations is None else 1)
            if end is not None and enough and time.perf_counter() >= end:
                break
    return Measurement(tuple(samples))
