"""Options for what is done to each result of a convolution: bias, another tensor, a function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from convfind.problem import Activation, ConvProblem

Function = Callable[..., Any]


def _activation(_: click.Context, __: click.Parameter, value: str | None) -> Activation | None:
    return None if value is None else Activation.parse(value)


_OPTIONS = (
    click.option("--bias", is_flag=True, help="Add a bias, a number for each channel."),
    click.option("--add", is_flag=True, help="Add another tensor like the result."),
    click.option(
        "--activation",
        metavar="KIND[:NUMBER,..]",
        help="Function of each result: relu, clip:0,6, leaky:0.1, silu and so on.",
        callback=_activation,
    ),
    click.option("--add-last", is_flag=True, help="Add that tensor behind the function."),
)
_NAMES = ("bias", "add", "activation", "add_last")


def takes_epilogue(function: Function) -> Function:
    """Add the options; the command receives ``with_epilogue``, which adds them to a problem."""

    def command(**arguments: Any) -> Any:
        given = {name: arguments.pop(name) for name in _NAMES}

        def with_epilogue(problem: ConvProblem) -> ConvProblem:
            return problem.with_epilogue(**given)

        return function(with_epilogue=with_epilogue, **arguments)

    decorated: Function = functools.update_wrapper(command, function)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
