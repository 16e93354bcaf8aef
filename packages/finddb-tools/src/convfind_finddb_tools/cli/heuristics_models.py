"""``convfind heuristics models``: lists the models that finds consult, and removes one."""

from __future__ import annotations

import click
import msgspec

import convfind
from convfind.cli.app import App, Command, new_table
from convfind.errors import ModelError
from convfind.heuristics import TrainedHeuristic
from convfind.heuristics.installed import installed_models
from convfind.heuristics.model_file import Model, read_model
from convfind_finddb_tools.heuristics.installing import uninstall_model


@click.command("models", cls=Command)
@click.option("--uninstall", metavar="NAME", help="Remove this installed one.")
@click.pass_obj
def heuristics_models(app: App, uninstall: str | None) -> None:
    """List the models in the order in which they are consulted; uninstall one.

    Models installed by `convfind heuristics install` come first, then those of packages.

    \b
    Examples:
      convfind heuristics models --json
      convfind heuristics models --uninstall h200
    """
    user_path = app.settings.user_db_path
    if uninstall is not None:
        removed = uninstall_model(user_path, uninstall)
        if app.json:
            app.emit({"removed": str(removed)})
        else:
            app.print(f"removed {removed}")
        return
    registered = [item for item in app.registry.heuristics if isinstance(item, TrainedHeuristic)]
    found = [_read(one) for one in (*installed_models(user_path), *registered)]
    devices = convfind.devices(registry=app.registry).devices
    here = {identity for _, target in devices for identity in target.identities}
    if app.json:
        app.emit({"models": [_json(one, model, here) for one, model in found]})
    elif found:
        _print(app, found, here)
    else:
        app.print("there are no models; `convfind heuristics install MODEL` installs one")
    if any(isinstance(model, ModelError) for _, model in found):
        raise click.exceptions.Exit(1)


_Found = tuple[TrainedHeuristic, Model | ModelError]


def _read(heuristic: TrainedHeuristic) -> _Found:
    try:
        return heuristic, read_model(heuristic.path)
    except ModelError as error:
        return heuristic, error


def _json(heuristic: TrainedHeuristic, model: Model | ModelError, here: set[str]) -> object:
    described: dict[str, object] = {"name": heuristic.name, "path": str(heuristic.path)}
    if isinstance(model, ModelError):
        return described | {"fault": str(model)}
    devices = {device.identity: device.identity in here for device in model.devices}
    return described | {
        "fault": None,
        "devices": devices,  # and whether each is here
        "directions": _directions(model),
        "training": msgspec.to_builtins(model.training),
    }


def _directions(model: Model) -> list[str]:
    return list(dict.fromkeys(network.direction.short for network in model.networks))


def _print(app: App, found: list[_Found], here: set[str]) -> None:
    numbers = ("problems", "first is fastest", "slowdown")
    table = new_table("model", "device", "here", "directions", *numbers, right=numbers)
    for heuristic, model in found:
        if isinstance(model, ModelError):
            table.add_row(heuristic.name, "-", "-", "-", "-", "-", "damaged")
            continue
        for device in model.devices:
            scores = model.training.scores.get(device.identity, {})
            table.add_row(
                heuristic.name,
                device.identity,
                "yes" if device.identity in here else "no",
                ", ".join(_directions(model)),
                f"{model.training.problems:,}",
                f"{100 * scores['top1']:.1f} %" if scores else "-",
                f"{scores['geomean_slowdown']:.3f}" if scores else "-",
            )
    app.print(table)
    for _, model in found:
        if isinstance(model, ModelError):
            app.note(str(model))
