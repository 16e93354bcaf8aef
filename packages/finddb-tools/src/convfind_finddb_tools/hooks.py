"""The entry point: what the package registers with convfind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.plugins import hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from convfind.plugins.registry import HeuristicRegistry, LayerReaderRegistry
    from convfind.problem.text import Layer


@hookimpl
def convfind_register_heuristics(register: HeuristicRegistry) -> None:
    """Add the models of convfind's own solvers."""
    from convfind_finddb_tools.heuristics.shipped import shipped_models

    register.extend(shipped_models())


@hookimpl
def convfind_register_layer_readers(register: LayerReaderRegistry) -> None:
    """Add JSON Lines."""
    from convfind.plugins.layer_reader import LayerReader

    def read(path: Path, batch: int | None) -> tuple[Layer, ...]:
        from convfind_finddb_tools.tune.sources.layers import layers_of

        return layers_of(path, batch)

    register.add(LayerReader("jsonl", read))


@hookimpl
def convfind_register_commands(cli: click.Group) -> None:
    """Add ``convfind db``, ``convfind tune``, ``convfind report`` and ``convfind heuristics``."""
    from convfind.cli.lazy import LazyCommand
    from convfind_finddb_tools.cli.db import db
    from convfind_finddb_tools.cli.heuristics import heuristics
    from convfind_finddb_tools.cli.tune import tune

    cli.add_command(db)
    cli.add_command(heuristics)
    cli.add_command(tune)
    what = "Write an HTML page about what a database means for a model."
    cli.add_command(LazyCommand("report", "convfind_finddb_tools.cli.report", what))
