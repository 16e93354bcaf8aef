"""`TrainedHeuristic`: a trained model as a heuristic, loaded at its first query."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from convfind.device.target import Target
from convfind.errors import ModelError
from convfind.heuristics.contract import NotApplicable, Prediction
from convfind.heuristics.domain import undescribed
from convfind.heuristics.features import sizes
from convfind.heuristics.model_file import Model, read_model
from convfind.heuristics.neighbours import Neighbour, Records, find_neighbours
from convfind.heuristics.network import Floats, Network
from convfind.problem import ConvProblem
from convfind.solver import Solver, versioned_id

_MOST_QUESTIONS = 256  # sets of solvers whose outputs are kept; shapes make few different ones


class HeuristicWarning(UserWarning):
    """A model cannot be used; predictions come from the next fallback."""


_time = itemgetter(Prediction._fields.index("time_ms"))


@dataclass(frozen=True, slots=True)
class _Question:
    """A set of solvers as a network's outputs."""

    ids: tuple[str, ...]
    outputs: Floats


class TrainedHeuristic:
    """A model file, as packages register it. Nothing is read before the first prediction."""

    def __init__(self, name: str, path: Path) -> None:
        """Name a model.

        Args:
            name: in kebab case; among all registered heuristics it occurs once.
            path: file written by ``convfind heuristics train``.
        """
        self.name = name
        self.path = path
        self._model: Model | NotApplicable | None = None
        self._devices: dict[str, tuple[int, int]] = {}
        self._questions: dict[tuple[object, ...], _Question | NotApplicable] = {}

    def neighbours(
        self, problem: ConvProblem, target: Target, records: Records
    ) -> tuple[Neighbour, ...]:
        """Look up the records that the model can use."""
        model = self._model or self._load()
        if isinstance(model, NotApplicable) or not model.relations:
            return ()
        if self._device_of(target) is None:
            return ()
        relations = model.relations_for(problem.direction, sizes(problem))
        return find_neighbours(problem, target.identity, model.siblings, relations, records)

    def predict(
        self,
        problem: ConvProblem,
        target: Target,
        solvers: Sequence[Solver],
        neighbours: Sequence[Neighbour] = (),
    ) -> Sequence[Prediction] | NotApplicable:
        """Rank solvers by expected time; the confidence is the expected share of wins."""
        model = self._model or self._load()
        if isinstance(model, NotApplicable):
            return model
        device = self._device_of(target)
        if device is None:
            known = ", ".join(self._devices)
            return NotApplicable(f"trained for {known}, not for {target.identity}")
        row = sizes(problem)
        near = {neighbour.relation: neighbour for neighbour in neighbours} if neighbours else {}
        network = model.network(problem.direction, row, tuple(near))
        if isinstance(network, str):
            return NotApplicable(network)
        question = self._question(network, solvers)
        if isinstance(question, NotApplicable):
            return question
        refusal = undescribed(problem) or network.domain.refusal(row)
        if refusal is not None:
            return NotApplicable(refusal)
        units, index = device
        # A handful of numbers: Python's own arithmetic costs half of what NumPy's does.
        logs = network.log_times(row, units, index, question.outputs, near)
        exp, sharpness, least = math.exp, network.sharpness, min(logs)
        odds = [exp((least - log) * sharpness) for log in logs]
        total = sum(odds)
        new = tuple.__new__  # half of what calling the class costs
        ranking = [
            new(Prediction, (solver, exp(log), share / total))
            for solver, log, share in zip(question.ids, logs, odds, strict=True)
        ]
        ranking.sort(key=_time)
        return ranking

    @property
    def devices(self) -> tuple[str, ...]:
        """Identities of the devices that it was trained on; none where it cannot be used."""
        _ = self._model or self._load()
        return tuple(self._devices)

    def times_on(
        self, identity: str, problem: ConvProblem, target: Target, solvers: Sequence[Solver]
    ) -> dict[str, float]:
        """Return what it expects on one of its devices of those solvers that it knows.

        Milliseconds by solver id; empty where it does not know the problem. ``target`` is the
        device that is asked about, a relative of the one in the model.
        """
        model = self._model or self._load()
        if isinstance(model, NotApplicable):
            return {}
        trained = {
            name
            for network in model.networks
            if network.direction is problem.direction
            for name in network.solvers
        }
        chosen = [solver for solver in solvers if versioned_id(solver) in trained]
        answer = self.predict(problem, replace(target, identity=identity), chosen)
        if isinstance(answer, NotApplicable):
            return {}
        return {one.solver: one.time_ms for one in answer}

    def model(self) -> Model:
        """Return the model. Raises `ModelError` if it cannot be used."""
        model = self._model or self._read()
        if isinstance(model, NotApplicable):
            raise ModelError(model.reason)
        return model

    def _load(self) -> Model | NotApplicable:
        """Read the model for the first query; warn if it cannot be used."""
        model = self._read()
        if isinstance(model, NotApplicable):
            warnings.warn(f"heuristic {self.name}: {model.reason}", HeuristicWarning, stacklevel=3)
        return model

    def _read(self) -> Model | NotApplicable:
        try:
            model = read_model(self.path)
        except ModelError as error:
            self._model = NotApplicable(str(error))
            return self._model
        self._devices = {
            device.identity: (device.compute_units, index)
            for index, device in enumerate(model.devices)
        }
        self._model = model
        return model

    def _device_of(self, target: Target) -> tuple[int, int] | None:
        """Return units and index of a device by the first of its identities that is known."""
        found = map(self._devices.get, target.identities)
        return next((device for device in found if device is not None), None)

    def _question(self, network: Network, solvers: Sequence[Solver]) -> _Question | NotApplicable:
        """Look up the outputs of these solvers."""
        key = (id(network), *solvers)  # the model holds its networks
        known = self._questions.get(key)
        if known is None:
            if len(self._questions) >= _MOST_QUESTIONS:
                self._questions.clear()
            known = self._questions[key] = _ask(network, solvers)
        return known


def _ask(network: Network, solvers: Sequence[Solver]) -> _Question | NotApplicable:
    """Find the outputs; last resorts may lack one, since they are rarely timed."""
    columns = {name: column for column, name in enumerate(network.solvers)}
    known = [solver for solver in solvers if versioned_id(solver) in columns]
    for solver in solvers:
        if solver in known or solver.is_last_resort:
            continue
        trained = [name for name in columns if name.rpartition("@")[0] == solver.solver_id]
        if trained:
            return NotApplicable(
                f"trained on {trained[0]}, installed is version {solver.version}; train it again"
            )
        return NotApplicable(f"not trained on solver {versioned_id(solver)}; train it again")
    if not known:
        return NotApplicable("not trained on any of the solvers that take the problem")
    outputs = network.outputs(columns[versioned_id(solver)] for solver in known)
    return _Question(tuple(solver.solver_id for solver in known), outputs)
