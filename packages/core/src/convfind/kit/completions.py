"""`Completions`: every solver with each of the steps of core's that complete it, by its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from convfind.kit.completed import Completed
from convfind.kit.composed import Composed, composed
from convfind.kit.copied import COPIED_TRAITS, Copied, copied
from convfind.problem.contract import Problem
from convfind.problem.traits import EPILOGUE_TRAITS
from convfind.solver.contract import Solver

_EPILOGUE, _COPIES = Composed.suffix, Copied.suffix
#: Suffixes of an id, by whether a problem has an epilogue, and gaps or several layouts.
_SUFFIXES: Final = {
    (False, False): (),
    (True, False): (_EPILOGUE,),
    (False, True): (_COPIES,),
    (True, True): (_EPILOGUE, _COPIES, _EPILOGUE + _COPIES),
}


def suffixes_for(problem: Problem) -> tuple[str, ...]:
    """Return what stands behind the ids of solvers that are completed for a problem."""
    traits = problem.traits
    return _SUFFIXES[not EPILOGUE_TRAITS.isdisjoint(traits), not COPIED_TRAITS.isdisjoint(traits)]


def own_id(solver_id: str) -> str:
    """Return the id of the solver that is completed, or the solver's own."""
    return solver_id.partition("+")[0]


class Completions(Mapping[str, Completed]):
    """Completed solvers by id."""

    def __init__(self, solvers: Iterable[Solver]) -> None:
        self._made: dict[str, Completed] = {}
        for solver in solvers:
            epilogue = self._make(solver, Composed.completes, composed)
            self._make(solver, Copied.completes, copied)
            if epilogue is not None:
                self._make(epilogue, Copied.completes, copied)

    def _make(
        self,
        solver: Solver,
        completes: Callable[[Solver], bool],
        complete: Callable[[Solver], Completed],
    ) -> Completed | None:
        try:
            if not completes(solver):
                return None
            made = complete(solver)
        except (AttributeError, TypeError, ValueError):
            return None  # of another problem type, or nonsense: it is refused wherever it is asked
        self._made[made.solver_id] = made
        return made

    def beside(self, solvers: Iterable[Solver], suffixes: tuple[str, ...]) -> tuple[Solver, ...]:
        """Return solvers in their order, each followed by what completes it."""
        found: list[Solver] = []
        for solver in solvers:
            ids = (solver.solver_id + suffix for suffix in suffixes)
            found += [solver, *(self._made[one] for one in ids if one in self._made)]
        return tuple(found)

    def __getitem__(self, solver_id: str) -> Completed:
        return self._made[solver_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
