"""Searching a config space: a spread of samples first, then steps downhill from the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from convfind.find.budget import Budget
from convfind.runtime.session import Progress
from convfind.solver.config import Config
from convfind.solver.search_space import SearchSpace

#: Configs drawn from the space before the descent begins; small spaces are tried whole.
_SAMPLES = 24
_SEED = 1


@dataclass(frozen=True, slots=True)
class Tuned:
    """The outcome: the fastest config, None where none ran, and whether the search came to its
    end before the budget did.
    """

    config: Config | None
    is_complete: bool


TimeConfig = Callable[[Config], float | None]


def tuned_config(
    space: SearchSpace,
    default: Config,
    time_config: TimeConfig,
    *,
    compile_all: Callable[[Sequence[Config]], None] = lambda configs: None,
    parallel: int = 1,
    budget: Budget,
    progress: Progress,
) -> Tuned:
    """Return the fastest config found.

    Args:
        space: the legal configs.
        default: where the search begins.
        time_config: returns ms, or None for a config that fails; called once for each config.
        compile_all: makes configs ready to be timed, before ``time_config`` is called for them.
        parallel: how many of them it compiles at once.
        budget: when the search ends.
        progress: hears "tune", the number tried, and the number planned so far.
    """
    times: dict[Config, float | None] = {}
    planned = 0

    def try_all(configs: list[Config]) -> None:
        nonlocal planned
        fresh = [config for config in dict.fromkeys(configs) if config not in times]
        planned += len(fresh)
        while fresh and not budget.is_spent:
            size = budget.batch(parallel)
            batch, fresh = fresh[:size], fresh[size:]
            compile_all(batch)
            for config in batch:
                if budget.is_spent and len(batch) > 1:
                    return
                times[config] = time_config(config)
                progress("tune", len(times), planned, str(config))

    def best() -> Config | None:
        ran = [(ms, config) for config, ms in times.items() if ms is not None]
        return min(ran, key=lambda pair: pair[0])[1] if ran else None

    try_all([default, *space.sample(_SAMPLES, _SEED)])
    leader = best()
    while leader is not None:
        try_all(list(space.neighbours(leader)))
        challenger = best()
        if challenger == leader:
            break
        leader = challenger
    return Tuned(leader, planned == len(times))
