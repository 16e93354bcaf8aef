"""ONNX's own node tests on a device: how many of each operator are right, and why others are not.

One line an operator: tests that are right, that are refused, with the reason, and that are wrong.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from convfind_networks.onnx_backend import ConvfindBackend

sys.path.append(str(Path(__file__).parents[1] / "packages/networks/tests"))

Array = np.ndarray[Any, Any]


@click.command()
@click.option("--device", default="CPU", show_default=True, help="As ONNX or convfind names it.")
@click.option("--json", "as_json", is_flag=True, help="Every test, as JSON.")
def main(device: str, as_json: bool) -> None:
    """Run all node tests."""
    import node_cases_for_tests as node_tests

    def run(model: Any, inputs: Sequence[Array]) -> Sequence[Array]:
        return ConvfindBackend.prepare(model, device, on_miss="estimate").run(inputs)

    found = {}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, str] = {}
    floats = 0
    for case in node_tests.cases():
        operator = node_tests.operator_of(case) or "of several nodes"
        outcome = node_tests.outcome(case, run)
        word = "wrong" if outcome.wrong else "refused" if outcome.unsupported else "right"
        found[case.name] = {"operator": operator, "outcome": word, "why": str(outcome)}
        counts[operator][word] += 1
        counts["all"][word] += 1
        floats += outcome.passed and node_tests.touches_float32(case)
        if not outcome.passed:
            reasons[operator] = outcome.wrong or outcome.unsupported
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    table = Table("operator", "right", "refused", "wrong", "why, for instance")
    for operator, words in sorted(counts.items()):
        numbers = (str(words[word] or "") for word in ("right", "refused", "wrong"))
        table.add_row(operator, *numbers, reasons.get(operator, ""))
    Console().print(table)
    click.echo(f"right and with float32 inputs: {floats}")


if __name__ == "__main__":
    main()
