"""``convfind heuristics explain``: what a model is, and what it says to a problem."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
import numpy as np

from convfind.cli.app import App, ProblemCommand, new_table
from convfind.cli.problem_options import PROBLEM_HELP, one_problem, takes_problems
from convfind.cli.text import format_ms
from convfind.heuristics.features import sizes
from convfind.heuristics.model import TrainedHeuristic, unusual
from convfind.heuristics.model_file import Model
from convfind.problem import ConvProblem
from convfind_finddb_tools.cli.options import PATH


@click.command(
    cls=ProblemCommand,
    help="Show what a model is, and how it ranks all its solvers for a problem.\n"
    + PROBLEM_HELP
    + """
Here no solver is asked whether it takes the problem; `convfind explain` shows the model's answer
for those that do.

\\b
Examples:
  convfind heuristics explain h200.npz --x 16,64,56,56 --w 64,64,3,3 --padding 1
  convfind heuristics explain mi250.npz 64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F
""",
)
@click.argument("model", type=PATH, metavar="MODEL")
@takes_problems
@click.pass_obj
def heuristics_explain(app: App, model: Path, problems: tuple[ConvProblem, ...]) -> None:
    """Print the model's origin and its ranking on each of its devices."""
    trained = TrainedHeuristic("explained", model).model()
    problem = one_problem(problems).plain()
    refusal, rankings = _rankings(trained, problem)
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
                        for solver, time, confidence in ranking
                    ]
                    for name, ranking in rankings.items()
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
    for name, ranking in rankings.items():
        table = new_table("solver", "predicted ms", "confidence", right=("predicted ms",))
        for solver, time, confidence in ranking:
            table.add_row(solver, format_ms(time), f"{confidence:.2f}")
        app.print("", f"device   {name}", table)


def _rankings(
    model: Model, problem: ConvProblem
) -> tuple[str | None, dict[str, list[tuple[str, float, float]]]]:
    """Why the problem is outside the model's domain, or the ranking on each device."""
    row = sizes(problem)
    network = model.network(problem.direction, row)
    if isinstance(network, str):
        return network, {}
    refusal = unusual(problem) or network.domain.refusal(row)
    if refusal is not None:
        return refusal, {}
    rankings = {}
    last = network.outputs(range(len(network.solvers)))
    for index, device in enumerate(model.devices):
        logs = np.array(network.log_times(row, device.compute_units, index, last))
        odds = np.exp((logs.min() - logs) * network.sharpness)
        rankings[device.identity] = [
            (network.solvers[i], float(np.exp(logs[i])), float(odds[i] / odds.sum()))
            for i in logs.argsort(kind="stable")
        ]
    return None, rankings
