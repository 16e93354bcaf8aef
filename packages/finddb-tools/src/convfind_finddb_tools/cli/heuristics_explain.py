"""``convfind heuristics explain``: a model's origin, and its ranking for a problem."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import numpy as np

from convfind.cli.app import App, ProblemCommand, new_table
from convfind.cli.problem_options import PROBLEM_HELP, one_problem, takes_problems
from convfind.heuristics.domain import undescribed
from convfind.heuristics.features import sizes
from convfind.heuristics.model import TrainedHeuristic
from convfind.heuristics.model_file import Model
from convfind.heuristics.neighbours import Neighbour, Records, find_neighbours
from convfind.problem import ConvProblem
from convfind.text import format_ms
from convfind_finddb_tools.cli.heuristics_evaluate import read_with_progress
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.heuristics.nearest import records_of


@click.command(
    cls=ProblemCommand,
    help="Show what a model is, and how it ranks all its solvers for a problem.\n"
    + PROBLEM_HELP
    + """
Here no solver is asked whether it takes the problem; `convfind explain` shows the model's answer
for those that do.

\b
Examples:
  convfind heuristics explain h200.npz --x 16,64,56,56 --w 64,64,3,3 --padding 1
  convfind heuristics explain h200.npz --near tuned --x 16,64,56,56 --w 64,64,3,3
""",
)
@click.argument("model", type=PATH, metavar="MODEL")
@click.option(
    "--near",
    "data",
    multiple=True,
    type=PATH,
    metavar="DATA",
    help="Records of neighbours that the model makes use of. Repeatable.",
)
@takes_problems
@click.pass_obj
def heuristics_explain(
    app: App, model: Path, data: tuple[Path, ...], problems: tuple[ConvProblem, ...]
) -> None:
    """Print the model's origin and its ranking on each of its devices."""
    trained = TrainedHeuristic("explained", model).model()
    problem = one_problem(problems).plain()
    records = records_of(read_with_progress(data)) if data else _nothing
    refusal, answers = _answers(trained, problem, records)
    if app.json:
        app.emit(
            {
                "model": str(model),
                "training": msgspec.to_builtins(trained.training),
                "problem": problem.key,
                "refusal": refusal,
                "devices": {
                    name: [
                        {"solver": solver, "time_ms": time, "confidence": confidence}
                        for solver, time, confidence in answer.ranking
                    ]
                    for name, answer in answers.items()
                },
                "neighbours": {
                    name: {
                        near.relation: f"{near.device}|{near.problem.key}" for near in answer.near
                    }
                    for name, answer in answers.items()
                },
            }
        )
        return
    training = trained.training
    app.print(
        f"model    {model}, by {training.program} with seed {training.seed}",
        f"data     {training.problems:,} problems, sha256 {training.data_sha256}",
        f"problem  {problem.key}",
    )
    if refusal is not None:
        app.print(f"not applicable: {refusal}")
    for name, answer in answers.items():
        table = new_table("solver", "predicted ms", "confidence", right=("predicted ms",))
        for solver, time, confidence in answer.ranking:
            table.add_row(solver, format_ms(time), f"{confidence:.2f}")
        app.print("", f"device   {name}")
        for near in answer.near:
            app.print(f"near     {near.relation}: {near.problem.key} on {near.device}")
        app.print(table)


class _Answer(NamedTuple):
    """The ranking on one device, and the neighbours that it uses."""

    ranking: list[tuple[str, float, float]]
    near: tuple[Neighbour, ...]


def _nothing(device: str, problem: ConvProblem) -> dict[str, float]:
    return {}


def _answers(
    model: Model, problem: ConvProblem, records: Records
) -> tuple[str | None, dict[str, _Answer]]:
    """Return why the problem is outside the model's domain, or the answer for each device."""
    row = sizes(problem)
    answers = {}
    relations = model.relations_for(problem.direction, row)
    for index, device in enumerate(model.devices):
        near = find_neighbours(problem, device.identity, model.siblings, relations, records)
        told = {neighbour.relation: neighbour for neighbour in near}
        network = model.network(problem.direction, row, tuple(told))
        if isinstance(network, str):
            return network, {}
        refusal = undescribed(problem) or network.domain.refusal(row)
        if refusal is not None:
            return refusal, {}
        last = network.outputs(range(len(network.solvers)))
        logs = np.array(network.log_times(row, device.compute_units, index, last, told))
        odds = np.exp((logs.min() - logs) * network.sharpness)
        ranking = [
            (network.solvers[i], float(np.exp(logs[i])), float(odds[i] / odds.sum()))
            for i in logs.argsort(kind="stable")
        ]
        used = tuple(neighbour for neighbour in near if neighbour.relation in network.relations)
        answers[device.identity] = _Answer(ranking, used)
    return None, answers
