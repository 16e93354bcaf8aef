"""``convfind network run``: a network once, on random data or files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from convfind.cli.app import App, Command, new_table
from convfind_networks.cli.plan_options import PlanSource, summary_of, takes_plan
from convfind_networks.errors import BindingError
from convfind_networks.plan import Plan
from convfind_networks.plan.profile import random_inputs

Array = np.ndarray[Any, Any]


@click.command(cls=Command)
@takes_plan
@click.option(
    "--input", "files", multiple=True, metavar="NAME=FILE",
    help="A .npy file for an input; all others are random; repeatable.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path),
    help="A folder, for a .npy file of each output.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the random data.  [0]")
def run(
    app: App, source: PlanSource, files: tuple[str, ...], output: Path | None, seed: int
) -> None:
    """Run MODEL, which may be a plan that `compile` wrote, and show its outputs.

    The time is that of a second run, copies of inputs and outputs included.

    \b
    Examples:
      convfind network run resnet50.onnx --set batch=4
      convfind network run detector.onnx --input images=images.npy --output results
    """
    given = _read(files)  # before finds, which may take minutes
    if output is not None:
        _make(output)
    with source.opened() as plan:
        _check_names(plan, given)
        inputs = {**random_inputs(plan, seed), **given}
        plan.run(inputs)  # touches all memory once
        began = time.perf_counter()
        results = plan.run(inputs)
        elapsed = (time.perf_counter() - began) * 1e3
        lines = summary_of(plan)
        network, device = plan.schedule.network, plan.schedule.device
    if output is not None:
        _save(output, results)
    if app.json:
        told = [
            {"name": name, "dtype": one.dtype.name, "shape": list(one.shape), **_range(one)}
            for name, one in results.items()
        ]
        app.emit({"network": network, "device": device, "run_ms": elapsed, "outputs": told})
        return
    table = new_table("output", "type", "shape", "least", "largest", right=("least", "largest"))
    for name, one in results.items():
        numbers = _range(one)
        table.add_row(
            name,
            one.dtype.name,
            "x".join(map(str, one.shape)),
            *(f"{numbers[key]:.6g}" for key in ("least", "largest")),
        )
    app.print(*lines, f"time     {elapsed:.3f} ms", table)


def _read(files: tuple[str, ...]) -> dict[str, Array]:
    """Read the inputs that files have."""
    found = {}
    for text in files:
        name, equals, path = text.partition("=")
        if not equals:
            raise BindingError(f"{text!r} is no NAME=FILE of an input")
        try:
            found[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as exc:
            raise BindingError(f"{path} is no .npy file of numbers: {exc}") from exc
    return found


def _check_names(plan: Plan, given: Mapping[str, Array]) -> None:
    known = [port.name for port in plan.inputs]
    for name in given:
        if name not in known:
            names = ", ".join(known) or "none"
            raise BindingError(f"{name!r} is no input; inputs: {names}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise _unwritten(folder, exc) from exc


def _save(folder: Path, results: Mapping[str, Array]) -> None:
    try:
        for at, (name, one) in enumerate(results.items()):
            is_plain = name.replace("_", "").replace("-", "").isalnum()
            np.save(folder / (f"{name}.npy" if is_plain else f"output{at}.npy"), one)
    except OSError as exc:
        raise _unwritten(folder, exc) from exc


def _unwritten(folder: Path, exc: OSError) -> click.ClickException:
    return click.ClickException(f"cannot write {folder}: {exc.strerror or exc}")


def _range(array: Array) -> dict[str, float]:
    """Return the least and the largest number; JSON has no others than finite ones."""
    finite = array[np.isfinite(array.astype(np.float64))]
    if not finite.size:
        return {"least": 0.0, "largest": 0.0}
    return {"least": float(finite.min()), "largest": float(finite.max())}
