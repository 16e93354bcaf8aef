"""Options for what is done to each result of a convolution: bias, another tensor, a function."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click

from convfind.problem import Activation, ConvProblem

Function = Callable[..., Any]


#: The steps of an epilogue that are neither a bias nor a function.
_SUM = "add"


def read_epilogue(text: str) -> dict[str, Any]:
    """Read steps with a plus between them, such as ``bias+add+relu``, as a problem takes them.

    A bias comes first. Another tensor is added before the function or, as in ``relu+add``, behind
    it.

    Raises:
        UsageError: the steps are in another order, or one of them is there twice.
        ProblemError: no function of an epilogue has such a name, or such numbers.
    """
    steps = re.split(r"\+(?=[a-z])", text)  # not the plus of 1e+3
    rest = steps[steps[0] == "bias" :]
    functions = [step for step in rest if step != _SUM]
    if "bias" in functions or len(functions) > 1 or rest.count(_SUM) > 1:
        raise click.UsageError(
            f"--epilogue {text}: the order is bias, then add and a function such as relu, or a "
            "function and add; each at most once"
        )
    return {
        "bias": len(rest) < len(steps),
        "add": _SUM in rest,
        "activation": Activation.parse(functions[0]) if functions else None,
        "add_last": bool(functions) and rest[-1] == _SUM,
    }


def _epilogue(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    return None if value is None else read_epilogue(value)


def _activation(_: click.Context, __: click.Parameter, value: str | None) -> Activation | None:
    return None if value is None else Activation.parse(value)


_OPTIONS = (
    click.option(
        "--epilogue",
        metavar="STEP[+STEP..]",
        help="All that is done to each result, in order: bias+add+relu, or bias+relu+add. "
        "In place of the four options below.",
        callback=_epilogue,
    ),
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
        epilogue = arguments.pop("epilogue")
        if epilogue is not None:
            both = [name for name, value in given.items() if value]
            if both:
                words = ", ".join("--" + name.replace("_", "-") for name in both)
                raise click.UsageError(f"give either --epilogue or {words}")
            given = epilogue

        def with_epilogue(problem: ConvProblem) -> ConvProblem:
            return problem.with_epilogue(**given)

        return function(with_epilogue=with_epilogue, **arguments)

    decorated: Function = functools.update_wrapper(command, function)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
