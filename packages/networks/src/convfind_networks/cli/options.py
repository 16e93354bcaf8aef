"""Options of all commands: the model, the sizes that it leaves open, and its refusal."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from convfind.cli.app import App, new_table
from convfind_networks.built_in import BUILT_IN
from convfind_networks.errors import BindingError, ModelFormatError, UnsupportedError
from convfind_networks.network import Network

Function = Callable[..., Any]


def _sizes(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int | tuple[int, ...]]:
    sizes: dict[str, int | tuple[int, ...]] = {}
    for value in values:
        name, _, text = value.rpartition("=")
        numbers = text.split(",")
        if not name or not all(number.isdecimal() and int(number) for number in numbers):
            msg = f"{value!r} is no size; write DIMENSION=N or INPUT=N,N,..."
            raise click.BadParameter(msg, context, parameter)
        given = tuple(int(number) for number in numbers)
        sizes[name] = given[0] if len(given) == 1 else given
    return sizes


def shapes_option(function: Function) -> Function:
    """Add ``--set``; the command receives ``shapes``."""
    return click.option(
        "--set", "shapes", multiple=True, metavar="NAME=N[,N...]", callback=_sizes,
        help="Size of a dimension that the model names, or shape of an input; repeatable.",
    )(function)  # fmt: skip


def takes_network(function: Function) -> Function:
    """Add the model and its sizes; the command receives ``network`` and ``shapes``.

    A model with unsupported operators ends the command with their list and exit code 1.
    """

    @click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
    @shapes_option
    @functools.wraps(function)
    def command(app: App, model: Path, shapes: dict[str, Any], **others: Any) -> None:
        with telling_unsupported(app):
            function(app, network=read_network(model), shapes=shapes, **others)

    return command


@contextmanager
def telling_unsupported(app: App) -> Iterator[None]:
    """End the command with the list of what a model has and is not supported.

    What is wrong with its sizes is said with the option that gives them.
    """
    try:
        yield
    except BindingError as exc:
        raise BindingError(f"{exc}; sizes are given by --set") from exc
    except UnsupportedError as exc:
        _tell_unsupported(app, exc)
        click.get_current_context().exit(1)


def read_network(path: Path) -> Network:
    """Read an ONNX model, a program that ``torch.export.save`` wrote, or what is built in.

    Raises:
        ModelFormatError: it is none of them, or PyTorch is not installed.
    """
    if str(path) in BUILT_IN and not path.exists():
        return Network.built_in(str(path))
    if path.suffix != ".pt2":
        return Network.from_onnx(path)
    from convfind_networks.from_torch.reading import load_exported_program

    if not path.is_file():
        raise ModelFormatError(f"{path} cannot be read: there is no such file")
    return Network.from_torch(load_exported_program(path), name=path.stem)


def _tell_unsupported(app: App, error: UnsupportedError) -> None:
    if app.json:
        listed = [
            {"operator": one.operator, "node": one.node, "reason": one.reason}
            for one in error.unsupported
        ]
        app.emit({"model": error.model, "unsupported": listed})
        return
    table = new_table("operator", "node", "why it is not supported")
    for one in error.unsupported:
        table.add_row(one.operator, one.node, one.reason)
    app.print(table)
    app.note(f"error: {error.model} has {len(error.unsupported)} nodes that are not supported")
