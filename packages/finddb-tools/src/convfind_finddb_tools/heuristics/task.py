"""`Task`: the training data of the networks for one direction. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from convfind.heuristics.domain import Domain
from convfind.heuristics.neighbours import Relation
from convfind.heuristics.network import Floats, Network
from convfind.types import Direction
from convfind_finddb_tools.heuristics.aim import FAIR
from convfind_finddb_tools.heuristics.dataset import Dataset
from convfind_finddb_tools.heuristics.nearest import Nearest
from convfind_finddb_tools.heuristics.perceptrons import Examples, Form, Perceptrons
from convfind_finddb_tools.heuristics.sight import Sight

_NOTHING = (np.zeros(0, np.float32), np.ones(0, np.float32))


@dataclass(frozen=True, slots=True)
class Task:
    """Training data of networks, one row for each problem.

    Attributes:
        part: the problems.
        sight: how the networks see them.
        told: what is told of their neighbours.
        inputs: all that is seen.
        times: logarithms, infinite where there is none.
        fitting: those of which the networks learn nothing but how sure they may be.
        examples: all of it, on the device where perceptrons learn.
        device: in PyTorch's words.
    """

    part: Dataset
    sight: Sight
    told: Floats
    inputs: Floats
    times: Floats
    fitting: NDArray[np.bool_]
    examples: Examples
    device: str

    @classmethod
    def of(
        cls,
        part: Dataset,
        direction: Direction,
        near: Mapping[Relation, Nearest],
        fitting: NDArray[np.bool_],
        device: str,
        *,
        is_fine: bool,
    ) -> Task:
        """Networks see neighbours, and if they are fine ramps and remainders."""
        solvers = part.used_solvers()
        evidence = tuple((relation, _evidence(found)) for relation, found in near.items())
        domain = Domain.of(part.rows)
        untrained = Network(direction, solvers, domain, 0.0, *_NOTHING, (), (), evidence)
        sight = Sight.of(part, untrained, is_fine=is_fine)
        told = sight.told(part, near)
        inputs, base = sight.inputs(part.rows, part.device, told)
        times = part.log_times(solvers)
        examples = Examples.of(inputs, times, base, device)
        return cls(part, sight, told, inputs, times, fitting, examples, device)

    def perceptrons(self, form: Form, units_per_solver: int) -> Perceptrons:
        """Perceptrons that have not learned yet."""
        most = units_per_solver * self.times.shape[1]
        widths = (self.inputs.shape[1], *(min(units, most) for units in form.hidden))
        return Perceptrons(form, widths, self.examples.typical)

    def network(self, net: Perceptrons, members: slice, chosen: NDArray[np.bool_]) -> Network:
        """The mean of these members, for problems of the kinds of the chosen ones."""
        weights, biases = net.side_by_side(members)
        count = len(self.sight.mean)
        # A device adds one number for each unit to the first layer: a bias of its own.
        biases[0] = biases[0] + weights[0][:, count:].T
        weights[0] = np.ascontiguousarray(weights[0][:, :count])
        unseen = self.fitting & chosen
        untrained = self.sight.network
        return replace(
            untrained,
            # Students are taught in the whole range, whatever was measured of their data type.
            domain=replace(untrained.domain, kinds=Domain.of(self.part.rows[chosen]).kinds),
            sharpness=_fit_sharpness(net.mean(self.inputs[unseen], members), self.times[unseen]),
            mean=self.sight.mean,
            scale=self.sight.scale,
            weights=tuple(weights),
            biases=tuple(biases),
            ramps=self.sight.ramps,
        )


def _evidence(near: Nearest) -> tuple[str, ...]:
    """The solvers that occur among neighbours."""
    chosen = np.zeros(len(near.source), np.bool_)
    chosen[near.place[near.known]] = True
    return near.source.select(chosen).used_solvers()


def _fit_sharpness(predicted: Floats, times: Floats) -> float:
    """The sharpness by which the confidence is most likely, on problems not trained on."""
    several = np.isfinite(times).sum(axis=1) > 1
    if not several.any():
        return FAIR.sharpness
    predicted, times = predicted[several], times[several]
    best = times.argmin(axis=1)
    candidates = np.geomspace(0.5, 64.0, 57)
    costs = []
    for sharpness in candidates:
        odds = np.where(np.isfinite(times), -sharpness * predicted, -np.inf)
        odds = odds - odds.max(axis=1, keepdims=True)
        total = np.log(np.exp(odds).sum(axis=1))
        costs.append(float((total - odds[np.arange(len(odds)), best]).mean()))
    return float(candidates[int(np.argmin(costs))])
