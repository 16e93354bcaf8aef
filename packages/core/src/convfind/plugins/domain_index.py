"""`DomainIndex`: solvers filtered by their domains, cached by the properties that matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convfind.device.target import Target
from convfind.problem.contract import Problem
from convfind.solver import Solver
from convfind.solver.applicability import Rejected

Split = tuple[tuple[Solver, ...], Mapping[str, Rejected]]

#: Kinds of problems in the cache, at 10 kB each; a network has a dozen.
_MOST_KINDS = 256


class DomainIndex:
    """Solvers of one backend, filtered by their domains once for each kind of problem.

    The cache key consists of everything that a domain depends on.
    """

    def __init__(self, solvers: Sequence[Solver], refused: Mapping[str, Rejected]) -> None:
        """Take the solvers, and the refusals of others, which are part of each answer."""
        domains = dict.fromkeys(solver.domain for solver in solvers)
        places = {domain: place for place, domain in enumerate(domains)}
        self._domains = tuple(domains)
        self._solvers = tuple((solver, places[solver.domain]) for solver in solvers)
        self._refused = refused
        self._splits: dict[object, Split] = {}

    def split(self, problem: Problem, target: Target) -> Split:
        """Return the solvers whose domain contains the problem, and the refusals of all others."""
        kind = problem.domain_key, target.kind, target.features
        found = self._splits.get(kind)
        if found is None:
            if len(self._splits) >= _MOST_KINDS:
                self._splits.clear()
            found = self._splits[kind] = self._divide(problem, target)
        return found

    def _divide(self, problem: Problem, target: Target) -> Split:
        answers = [domain.refusal(problem, target) for domain in self._domains]
        refused = dict(self._refused)
        inside = []
        for solver, place in self._solvers:
            refusal = answers[place]
            if refusal is None:
                inside.append(solver)
            else:
                refused[solver.solver_id] = refusal
        return tuple(inside), refused  # a plain dictionary: each screening begins with a copy
