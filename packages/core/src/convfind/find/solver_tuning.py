"""Tuning one solver in a search: its configs compiled side by side and timed, the best recorded."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from typing import TYPE_CHECKING

from convfind.errors import KernelBuildError
from convfind.find.budget import Budget
from convfind.find.trial import Trial
from convfind.find.tuning import tuned_config
from convfind.log import logger
from convfind.runtime.session import Progress
from convfind.solver import TunableSolver, asking
from convfind.solver.config import Config
from convfind.solver.recipe import Recipe

if TYPE_CHECKING:
    from convfind.find.search import Search


def tune(
    trial: Trial, solver: TunableSolver, search: Search, budget: Budget, progress: Progress
) -> bool:
    """Give a trial the best config of its solver, and record it.

    Returns:
        False where the budget or the workspace limit kept configs from being tried.
    """
    problem, target = search.problem, search.session.target
    recipes: dict[Config, Recipe] = {}
    all_fit = True

    def is_too_large(recipe: Recipe) -> bool:
        return search.policy.is_over_limit(recipe.total_workspace)

    def compile_all(configs: Sequence[Config]) -> None:
        for config in configs:
            recipes[config] = asking.recipe(
                solver, problem, target, config, search.policy.workspace_limit
            )
        fitting = [recipes[one] for one in configs if not is_too_large(recipes[one])]
        wait(search.bench.compile(p for recipe in fitting for p in recipe.programs).values())

    def time_config(config: Config) -> float | None:
        nonlocal all_fit
        attempt = Trial(solver, recipes[config])
        if is_too_large(attempt.recipe):
            all_fit = False
            return None
        try:
            search.time(attempt)
            is_better = attempt.median < trial.median
            if is_better:
                search.confirm(attempt)
        except KernelBuildError:
            return None
        except asking.FAILURES:
            search.bench.restore()
            return None  # a config that fails is no candidate; the default one is still there
        logger.debug("%s: %s with %s", solver.solver_id, attempt, config)
        if is_better:
            trial.recipe, trial.candidate = attempt.recipe, attempt.candidate
            trial.measurement, trial.error = attempt.measurement, attempt.error
        return attempt.median

    tuned = tuned_config(
        asking.search_space(solver, problem, target),
        asking.default_config(solver, problem, target),
        time_config,
        compile_all=compile_all,
        parallel=search.bench.parallel_level,
        budget=budget,
        progress=progress,
    )
    if not (tuned.is_complete and all_fit):
        return False
    if tuned.config is not None:
        search.session.database.store_config(
            target, problem, solver.solver_id, solver.version, tuned.config, trial.median
        )
    return tuned.config is not None
