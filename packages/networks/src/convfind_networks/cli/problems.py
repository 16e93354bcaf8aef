"""``convfind network problems``: the convolutions of a network, for finding and tuning."""

from __future__ import annotations

import click

from convfind.cli.app import App, Command, new_table
from convfind_networks.cli.options import takes_network
from convfind_networks.model import Shapes
from convfind_networks.network import Network


@click.command(cls=Command)
@click.pass_obj
@takes_network
@click.option("--channels-last", is_flag=True, help="As the network would run channels-last.")
@click.option("--keys", is_flag=True, help="Print keys only, a line each: a file to tune from.")
def problems(app: App, network: Network, shapes: Shapes, channels_last: bool, keys: bool) -> None:
    """List the distinct convolutions of MODEL, and how often each occurs; runs nothing.

    Paddings and batch norms are folded by then, so that these are the convolutions that run.

    \b
    Examples:
      convfind network problems resnet50.onnx --set batch=16
      convfind network problems model.onnx --set batch=16 --keys > layers.txt
      convfind tune run layers.txt
    """
    found = network.problems(shapes, channels_last=channels_last)
    if app.json:
        listed = [
            {"problem": problem.key, "x": count, "gflop": problem.flops / 1e9}
            for problem, count in found.items()
        ]
        app.emit({"model": network.name, "problems": listed, "occurrences": sum(found.values())})
        return
    if keys:
        app.print(*(problem.key for problem in found))
        return
    table = new_table("problem", "x", "GFLOP", right=("x", "GFLOP"))
    for problem, count in found.items():
        table.add_row(problem.key, str(count), f"{problem.flops / 1e9:.3f}")
    app.print(table)
    app.print(f"{len(found):,} problems, {sum(found.values()):,} occurrences")
