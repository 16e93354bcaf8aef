"""``convfind db explain``: why records are used or not, and what a find would return."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from convfind.cli.app import App, ProblemCommand, new_table
from convfind.cli.explain import decision_json, decision_lines
from convfind.cli.policy_options import takes_policy
from convfind.cli.problem_options import read_problems
from convfind.find.decision import Decision, decide
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import file_in
from convfind.finddb.pack import is_of_kernels
from convfind.finddb.packs import installed_packs, packs_folder
from convfind.text import format_bytes, format_ms, format_time
from convfind_finddb_tools.cli.options import PATH
from convfind_finddb_tools.database import database_path
from convfind_finddb_tools.looking import open_over
from convfind_finddb_tools.standing import Standing, standings, without_result


@click.command(cls=ProblemCommand)
@click.argument("problem")
@click.argument("database", required=False, type=PATH, metavar="[DB]")
@takes_policy
@click.pass_obj
def explain(
    app: App, problem: str, database: Path | None, device: str | None, policy: dict[str, Any]
) -> None:
    """Say for every record of a problem whether a find on this device uses it, or why not.

    Shows the records in each layer (the user's database, installed packs, shipped databases) and
    how they are used: returned, hidden by a layer above, or unused because the solver is not
    installed, has another version, does not take the problem, is quarantined or excluded. Stale
    records come from another driver: they count, and TRUST_VERIFY runs them again. Then shows
    what a find would do and return. Nothing runs and nothing is changed.

    PROBLEM is a network config, a key of MIOpen's find-db, or a MIOpenDriver line, in quotes where
    a DB follows. DB replaces the user's database. Options set the policy of the find.

    \b
    Examples:
      convfind db explain fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32
      convfind db explain conv -n 16 -c 64 -H 56 -W 56 -k 64 -F 1
      convfind db explain "conv -n 16 -c 64 -H 56 -W 56 -k 64 -F 1" tuned --mode hybrid
      convfind db explain 64-56-56-3x3-64-56-56-16-1x1-1x1-1x1-0-NCHW-FP32-F --device opencl:cpu
    """
    (asked,) = read_problems(problem, {}, ())
    user = app.settings.user_db_path
    packs = [pack for pack in installed_packs(user) if not is_of_kernels(pack)]
    layers = [*packs, *app.registry.system_databases()]
    top = file_in(user if database is None else database, FILE_NAME)
    if database is not None or top.exists():  # nothing was found yet: no error
        layers.insert(0, database_path(top if database is None else database))
    with open_over(device, layers, app.registry, app.settings) as handle:
        plain, chosen = asked.plain(), handle.policy(**policy)
        rows = standings(plain, handle.session, chosen)
        decision = decide(plain, handle.session, chosen)
        identity = handle.target.identity
        decided = without_result(plain, handle.session)
        names = {row.layer: _layer_name(row.layer, top, user) for row in rows}
        mode = chosen.mode.name
    if app.json:
        app.emit(
            {
                "problem": asked.key,
                "device": identity,
                "mode": mode,
                "records": [_standing_json(row, names[row.layer]) for row in rows],
                "without_result": list(decided),
                "find": decision_json(decision),
            }
        )
        return
    app.print(f"problem  {asked.key}", f"device   {identity}")
    if rows:
        app.print(_table(rows, names), "")
    else:
        app.print("records  none, in no layer", "")
    if decided:
        app.print(f"decided about earlier, without a record: {', '.join(decided)}")
    _print_decision(app, decision)


def _layer_name(path: Path, top: Path, user: Path) -> str:
    if path == top:
        return "user"
    return "pack" if path.parent == packs_folder(user) else "shipped"


def _table(rows: list[Standing], names: dict[Path, str]) -> Any:
    numbers = ("ms", "samples", "workspace")
    table = new_table("layer", "solver", *numbers, "measured", "is", "because", right=numbers)
    for row in rows:
        record = row.record
        notes = [
            note for note in (row.reason, "stale: another driver" if row.stale else "") if note
        ]
        table.add_row(
            *(names[row.layer], f"{record.solver}@{record.solver_version}"),
            *(format_ms(record.time_ms), str(record.samples), format_bytes(record.workspace)),
            time.strftime("%Y-%m-%d", time.gmtime(record.created)),
            *(row.use.value, "; ".join(notes)),
        )
    return table


def _print_decision(app: App, decision: Decision) -> None:
    app.print(*decision_lines(decision))
    for number, solution in enumerate(decision.known.solutions):
        note = " (over the workspace limit)" if solution.over_limit else ""
        app.print(
            f"{'' if number else 'returns':8} {solution.solver} {format_time(solution)} ms{note}"
        )


def _standing_json(row: Standing, name: str) -> dict[str, Any]:
    return {
        "layer": name,
        "database": str(row.layer),
        "use": row.use.value,
        "reason": row.reason or None,
        "stale": row.stale,
        "record": msgspec.structs.asdict(row.record),
    }
