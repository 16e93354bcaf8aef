"""``convfind find``: the fastest correct solution of a problem."""

from __future__ import annotations

from typing import Any

import click

import convfind
from convfind.cli.app import App, ProblemCommand
from convfind.cli.policy_options import takes_policy
from convfind.cli.problem_options import PROBLEM_HELP, takes_problems
from convfind.cli.progress import ProgressBar
from convfind.find.result import FindResult
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.text import doubt_notes, noise_notes

#: Refusals that are news: the others say what a solver was never made for.
_FAILURES = frozenset(
    {
        Reason.BUILD_FAILED,
        Reason.LAUNCH_FAILED,
        Reason.WRONG_RESULT,
        Reason.CRASHED,
        Reason.HUNG,
        Reason.QUARANTINED,
        Reason.SOLVER_ERROR,
        Reason.BUDGET,
        Reason.NO_CHILD,
    }
)


def open_handle(app: App, device: str | None, policy: dict[str, Any]) -> Handle:
    """Open the device; solver ids that nobody brings are refused first, naming similar ones."""
    app.registry.check_solvers("--solver", policy.get("solvers", ()))
    return convfind.open(device, registry=app.registry, settings=app.settings)


@click.command(
    cls=ProblemCommand,
    help="Find the fastest correct solution of a problem; a second time from the database.\n"
    + PROBLEM_HELP
    + """
\b
Examples:
  convfind find conv -n 1 -c 16 -H 14 -W 14 -k 16 -y 3 -x 3 -p 1 -q 1 -F 1
  convfind find --json "conv -n 1 -c 16 -H 14 -W 14 -k 16 -F 1" | jq .solutions[0]
  convfind find 16-14-14-3x3-16-14-14-1-1x1-1x1-1x1-0-NCHW-FP32-F
  convfind find --x 1,16,14,14 --w 16,16,3,3 --padding 1 --direction all
  convfind find --x 1,16,14,14 --w 16,16,1,1 --constant-weights --epilogue bias+relu
  convfind find conv -n 1 -c 4 -H 8 -W 8 -k 4 --mode normal --workspace-limit 0 --device opencl:cpu
""",
)
@takes_problems
@takes_policy
@click.pass_obj
def find(
    app: App, problems: tuple[ConvProblem, ...], device: str | None, policy: dict[str, Any]
) -> None:
    """Find solutions and print them, fastest first."""
    with open_handle(app, device, policy) as handle, ProgressBar() as progress:
        results = [handle.find(problem, on_progress=progress, **policy) for problem in problems]
    if app.json:
        documents = [result.to_dict() for result in results]
        app.emit(documents[0] if len(documents) == 1 else documents)
    else:
        for result in results:
            _print(app, result)
    for result in results:
        _ = result.best  # raises where there is none, which is this command's failure


def _print(app: App, result: FindResult) -> None:
    app.print(
        f"problem  {result.problem}",
        f"device   {result.device}",
        f"mode     {result.summary}",
    )
    app.print(result, *noise_notes(sum(one.is_noisy for one in result.solutions)))
    app.print(*doubt_notes(result.is_in_doubt))
    failed = {name: why for name, why in result.rejected.items() if why.reason in _FAILURES}
    app.print(*(f"{solver}: {why}" for solver, why in failed.items()))
    others = len(result.rejected) - len(failed)
    if others:
        app.print(f"{others} more left out; `convfind explain` says why")
