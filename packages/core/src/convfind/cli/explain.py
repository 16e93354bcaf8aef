"""``convfind explain``: what every solver says to a problem, and what the database knows."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import click
from rich.table import Table

from convfind.cli.app import App, ProblemCommand, new_table
from convfind.cli.find import open_handle
from convfind.cli.policy_options import takes_policy
from convfind.cli.problem_options import PROBLEM_HELP, one_problem, takes_problems
from convfind.find.decision import Decision
from convfind.find.explanation import ExplanationRow
from convfind.find.forecast import INDEX
from convfind.policy import Policy
from convfind.problem import ConvProblem
from convfind.reasons import Reason
from convfind.solver.applicability import Rejected
from convfind.text import format_bytes, format_ms, format_time


@click.command(
    cls=ProblemCommand,
    help="Show what every solver says to a problem; compiles and runs nothing.\n"
    + PROBLEM_HELP
    + """
The first lines say what a find would do, and why. The table has a line for each solver that takes
the problem: the share of the device's peak that it expects (wti), the workspace it needs, the time
in the database, and, where a heuristic model applies, the time that it predicts, with its rank and
the confidence that it is the fastest; where none does, the time forecast from records and models of
like problems and related devices. The others are counted by their reason; --all lists them.
Recorded problems near this one that the model makes use of are named, and solvers that a find would
leave out, since by all that is known they cannot win. Models that do not apply are listed with the
reason.

\b
Examples:
  convfind explain --x 1,16,14,14 --w 16,16,3,3 --padding 1
  convfind explain --all --x 1,16,14,14 --w 16,16,3,3
  convfind explain --json conv -n 1 -c 16 -H 14 -W 14 -k 16
""",
)
@takes_problems
@takes_policy
@click.option("--all", "whole", is_flag=True, help="List also the solvers that refuse the problem.")
@click.pass_obj
def explain(
    app: App,
    problems: tuple[ConvProblem, ...],
    device: str | None,
    policy: dict[str, Any],
    whole: bool,
) -> None:
    """Print the table of solvers and the policy."""
    problem = one_problem(problems)
    with open_handle(app, device, policy) as handle:
        explanation = handle.explain(problem, **policy)
    if app.json:
        rows = [
            {
                "solver": row.solver,
                "algorithm": row.algorithm.value,
                "applicable": bool(row.applicability),
                "reason": _reason(row.applicability),
                "detail": getattr(row.applicability, "detail", ""),
                "wti": row.wti,
                "workspace": row.workspace,
                "recorded": None if row.solution is None else row.solution.to_dict(),
                "predicted": None if row.prediction is None else _prediction_json(row),
                "forecast": None if row.forecast is None else row.forecast._asdict(),
                "outrun": None if row.outrun is None else row.outrun.detail,
            }
            for row in explanation.rows
        ]
        app.emit(
            {
                "problem": explanation.problem,
                "device": explanation.device,
                "policy": policy_json(explanation.policy),
                "find": decision_json(explanation.decision),
                "heuristic": explanation.advice.heuristic,
                "heuristics_refused": dict(explanation.advice.refusals),
                "neighbours": [
                    {"relation": near.relation, "device": near.device, "problem": near.problem.key}
                    for near in explanation.advice.neighbours
                ],
                "solvers": rows,
            }
        )
        return
    app.print(f"problem  {explanation.problem}")
    if explanation.plain != explanation.problem:
        app.print(f"as       {explanation.plain}")
    app.print(f"device   {explanation.device}", f"policy   {_policy_text(explanation.policy)}")
    outrun = {row.solver: row.outrun for row in explanation.rows if row.outrun is not None}
    app.print(*decision_lines(explanation.decision, outrun))
    if explanation.advice.heuristic is not None:
        app.print(f"model    {explanation.advice.heuristic}")
    for near in explanation.advice.neighbours:
        app.print(f"near     {near.relation}: {near.problem.key} on {near.device}")
    for name, reason in explanation.advice.refusals:
        app.print(f"model    {name} does not apply: {reason}")
    app.print(*(f"without  {solver}: {why.detail}" for solver, why in outrun.items()))
    takers = [row for row in explanation.rows if row.applicability]
    others = [row for row in explanation.rows if not row.applicability]
    if takers:
        app.print(_table_of_takers(takers))
    if whole:
        app.print(_table_of_others(others))
    elif others:
        app.print(f"refused  by {len(others)}: {_grouped(others)} (--all lists them)")


def _table_of_takers(rows: Sequence[ExplanationRow]) -> Table:
    is_predicted = any(row.prediction for row in rows)
    is_forecast = not is_predicted and any(
        row.forecast is not None and row.forecast.source != INDEX for row in rows
    )
    predicted: tuple[str, ...] = ()
    if is_predicted:
        predicted = "predicted ms", "rank", "confidence"
    elif is_forecast:
        predicted = "forecast ms", "by"
    columns = ("wti", "workspace", "recorded ms", *predicted)
    table = new_table(
        "takes it", "algorithm", *columns, right=[one for one in columns if one != "by"]
    )
    for row in rows:
        table.add_row(
            row.solver,
            row.algorithm.value,
            "-" if row.wti is None else f"{row.wti:.3g}",
            "-" if row.workspace is None else format_bytes(row.workspace),
            "-" if row.solution is None else format_time(row.solution),
            *(_predicted(row) if is_predicted else _forecast(row) if is_forecast else ()),
        )
    return table


def _table_of_others(rows: Iterable[ExplanationRow]) -> Table:
    table = new_table("refuses", "algorithm", "because")
    for row in rows:
        table.add_row(row.solver, row.algorithm.value, str(row.applicability))
    return table


def _grouped(rows: Sequence[ExplanationRow]) -> str:
    """Count refusals by their reason, the most frequent first."""
    counts = Counter(_reason(row.applicability) for row in rows)
    return ", ".join(
        f"{Reason(reason).text} {count}" for reason, count in counts.most_common() if reason
    )


def decision_json(decision: Decision) -> dict[str, Any]:
    """Describe what a find would do."""
    return {
        "action": decision.action.name.lower(),
        "reason": decision.reason,
        "runs": list(decision.runs),
        "solutions": [solution.to_dict() for solution in decision.known.solutions],
    }


def decision_lines(decision: Decision, outrun: Container[str] = ()) -> Iterator[str]:
    """Say what a find would do, why, and which solvers it would run, but for those outrun."""
    yield f"a find in mode {decision.policy.mode.name} would {decision.action.value}"
    yield f"because  {decision.reason}"
    if runs := [solver for solver in decision.runs if solver not in outrun]:
        yield f"runs     {', '.join(runs)}"


def _prediction_json(row: ExplanationRow) -> dict[str, Any]:
    assert row.prediction is not None
    return {
        "time_ms": row.prediction.time_ms,
        "confidence": row.prediction.confidence,
        "rank": row.rank,
    }


def _predicted(row: ExplanationRow) -> tuple[str, str, str]:
    if row.prediction is None:
        return "-", "-", "-"
    _, time_ms, confidence = row.prediction
    return format_ms(time_ms), str(row.rank), f"{confidence:.2f}"


def _forecast(row: ExplanationRow) -> tuple[str, str]:
    if row.forecast is None:
        return "-", "-"
    return format_ms(row.forecast.time_ms), row.forecast.source


def _reason(applicability: object) -> str | None:
    return applicability.reason.value if isinstance(applicability, Rejected) else None


def _policy_text(policy: Policy) -> str:
    """Name the mode, and the fields that are not as the mode says."""
    usual = policy_json(Policy.for_mode(policy.mode))
    changed = {name: value for name, value in policy_json(policy).items() if value != usual[name]}
    return ", ".join((policy.mode.name, *(f"{name}: {value}" for name, value in changed.items())))


def policy_json(policy: Policy) -> dict[str, Any]:
    """Describe a policy: the mode by name, sets as sorted lists."""
    fields = {field.name: getattr(policy, field.name) for field in dataclasses.fields(policy)}
    described: dict[str, Any] = {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in fields.items()
    }
    return described | {"mode": policy.mode.name}
