"""The problem on the command line: a driver line, a key, or options for shapes and geometry."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from convfind.cli.epilogue_options import takes_epilogue
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.problem.fields import FIELDS, FlagField, SizesField, WordField
from convfind.problem.text import parse_problem, read_layer_file
from convfind.types import Direction, Layout

Function = Callable[..., Any]

#: For the help of commands that take a problem.
PROBLEM_HELP = """
PROBLEM is a MIOpenDriver line, a key of MIOpen's find database, or a network config as convfind
prints it; without PROBLEM the options --x and --w describe it. Long options may stand before or
behind an unquoted driver line, short ones before it.
"""


def _whole_numbers(text: str, *words: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        legal = ", ".join(("whole numbers separated by commas", *words))
        msg = f"{text!r} is not possible; allowed: {legal}"
        raise click.BadParameter(msg) from None


def _shape(name: str, help_text: str) -> Function:
    """Make an option for a shape."""

    def read(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...] | None:
        return None if value is None else _whole_numbers(value)

    return click.option(name, metavar="N,C,..", callback=read, help=help_text)


def _option(name: str, help_text: str, *words: str) -> Function:
    """Make the option for a field, whose values may also be some words where they are numbers."""
    field = next(field for field in FIELDS if field.name == name)

    def read(_: click.Context, __: click.Parameter, value: str | None) -> Any:
        if value is None or value in words:
            return value
        numbers = _whole_numbers(value, *words)
        return numbers[0] if len(numbers) == 1 else numbers

    how: dict[str, Any] = {"type": int}
    if isinstance(field, SizesField):
        how = {"metavar": "N[,N..]", "callback": read}
    elif isinstance(field, FlagField):
        how = {"is_flag": True}
    elif isinstance(field, WordField):
        how = {"type": click.Choice([member.value for member in field.kind])}
    return click.option("--" + name.replace("_", "-"), help=help_text, **how)


_GEOMETRY = {
    "x": _shape("--x", "Shape of the data: N,C,H,W."),
    "w": _shape("--w", "Shape of the weights: K,C/groups,R,S."),
    "stride": _option("stride", "Stride, for all axes or each.  [1]"),
    "padding": _option("padding", "Padding, or 'same' or 'valid'.  [0]", "same", "valid"),
    "dilation": _option("dilation", "Dilation; 1 is none.  [1]"),
    "groups": _option("groups", "Number of groups.  [1]"),
    "transpose": click.option(
        "--transpose", is_flag=True, help="Transposed convolution; weights are C,K/groups,R,S."
    ),
    "output_padding": _option("output_padding", "For --transpose.  [0]"),
    "dtype": _option("dtype", "Element type.  [float32]"),
    "y_dtype": _option("y_dtype", "Element type of y."),
    "layout": click.option(
        "--layout",
        type=click.Choice([layout.value for layout in Layout], case_sensitive=False),
        metavar="[NCHW|NHWC|..]",
        help="Layout of all tensors in memory.  [NCHW]",
    ),
    "deterministic": _option("deterministic", "The same bits in every run."),
    "allow_tf32": _option("allow_tf32", "Allow products rounded to TF32."),
    "accuracy": _option("accuracy", "[normal]"),
}


def direction_option(function: Function) -> Function:
    """Add ``--direction``."""
    return click.option(
        "--direction",
        type=click.Choice([*(word for d in Direction for word in _words_of(d)), "all"]),
        metavar="[fwd|bwd-data|bwd-weights|all]",
        help="What to compute; all: each of the three in turn.  [the problem's, else fwd]",
    )(function)


def _words_of(direction: Direction) -> tuple[str, ...]:
    return tuple(dict.fromkeys((direction.short, direction.value)))


def directions_of(word: str | None) -> tuple[Direction, ...]:
    """Read the value of ``--direction``; none where it was not given."""
    if word is None:
        return ()
    return tuple(d for d in Direction if word == "all" or word in _words_of(d))


def batch_option(function: Function) -> Function:
    """Add ``--batch``."""
    return click.option(
        "-n", "--batch", type=click.IntRange(min=1), help="Batch size in place of the problem's."
    )(function)


def _dims(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int]:
    dims = {}
    for value in values:
        name, _, size = value.partition("=")
        if not name or not size.isdecimal() or int(size) < 1:
            msg = f"{value!r} is no size; write NAME=N, such as batch=16"
            raise click.BadParameter(msg, context, parameter)
        dims[name] = int(size)
    return dims


dims_option = click.option(
    "--set",
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=N",
    callback=_dims,
    help="Size of a symbolic dimension of an ONNX model; repeatable.",
)

layers_option = click.option(
    "--layers",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Every layer of a file, one MIOpenDriver line each, in place of a problem.",
)


#: Options that say something about a convolution without its sizes.
_FORMS = ("dtype", "y_dtype", "layout", "deterministic", "allow_tf32", "accuracy")


@dataclass(frozen=True, slots=True)
class Wish:
    """The wishes of options for convolutions whose sizes were not given.

    Attributes:
        options: of `ConvProblem.forward`, by name.
        forms: what makes each form that is wished for from a forward convolution; none where
            neither a direction nor an epilogue was given.
        batch: None where it was not given.
    """

    options: Mapping[str, Any]
    forms: tuple[Callable[[ConvProblem], ConvProblem], ...]
    batch: int | None

    @classmethod
    def of(
        cls,
        options: Mapping[str, Any],
        directions: Sequence[Direction],
        batch: int | None,
        with_epilogue: Callable[[ConvProblem], ConvProblem],
    ) -> Wish:
        """Read the options; ``with_epilogue`` returns a problem itself where there is none."""

        def in_direction(direction: Direction) -> Callable[[ConvProblem], ConvProblem]:
            return lambda problem: with_epilogue(problem.with_direction(direction))

        any_problem = ConvProblem.forward(x=(1, 1, 1), w=(1, 1, 1))
        if not directions and with_epilogue(any_problem) is not any_problem:
            directions = (Direction.FORWARD,)
        return cls(options, tuple(map(in_direction, directions)), batch)


def takes_problems(function: Function) -> Function:
    """Add the argument and the options; the command receives ``problems``, at least one.

    One with `layers_option` may get them from a file.
    """
    return _taking(function)


def takes_problems_or_wish(function: Function) -> Function:
    """Do the same for a command that can do without problems: then ``problems`` is a `Wish`."""
    return _taking(function, may_wish=True)


def _taking(function: Function, *, may_wish: bool = False) -> Function:
    def command(
        problem: str | None,
        direction: str | None,
        batch: int | None,
        with_epilogue: Callable[[ConvProblem], ConvProblem],
        **others: Any,
    ) -> Any:
        geometry = {name: others.pop(name) for name in _GEOMETRY}
        # By identity: a 0 equals False, and has to be refused.
        given = {n: value for n, value in geometry.items() if not (value is None or value is False)}
        layers = others.pop("layers", None)
        if may_wish and problem is None and layers is None and given.keys() <= set(_FORMS):
            wish = Wish.of(given, directions_of(direction), batch, with_epilogue)
            return function(problems=wish, **others)
        if layers is None:
            problems = read_problems(problem, given, directions_of(direction))
        elif problem is not None or given:
            raise click.UsageError("give either a problem or --layers")
        else:
            problems = problems_of(layers, directions_of(direction))
        if batch is not None:
            problems = tuple(one.with_batch(batch) for one in problems)
        return function(problems=tuple(map(with_epilogue, problems)), **others)

    decorated: Function = takes_epilogue(functools.update_wrapper(command, function))
    options: list[Function] = [*_GEOMETRY.values(), direction_option, batch_option]
    for option in reversed(options):
        decorated = option(decorated)
    return click.argument("problem", required=False)(decorated)


def read_problems(
    text: str | None, geometry: dict[str, Any], directions: Sequence[Direction]
) -> tuple[ConvProblem, ...]:
    """Return the problem in each direction asked for; in its own, or its first, without any."""
    if text is not None:
        if geometry:
            names = ", ".join("--" + name.replace("_", "-") for name in geometry)
            raise click.UsageError(f"{names} cannot change a problem that is given as text")
        first = parse_problem(text)[0]
    else:
        missing = [name for name in ("x", "w") if name not in geometry]
        if geometry and missing:
            words = " and ".join("--" + name for name in missing)
            shapes = "--x N,C,H,W --w K,C,R,S"
            raise click.UsageError(f"{words} is missing: a problem by options needs {shapes}")
        if missing:
            raise click.UsageError(
                "no problem given: write a MIOpenDriver line, a key, or --x N,C,H,W --w K,C,R,S"
            )
        if geometry.pop("transpose", False):
            geometry["mode"] = "transpose"
        first = ConvProblem.forward(**geometry)
    if not directions:
        return (first,)
    return tuple(first.with_direction(direction) for direction in directions)


def problems_of(file: Path, directions: Sequence[Direction]) -> tuple[ConvProblem, ...]:
    """Return the problems of a layer file, each once, in the directions asked for."""
    problems = [layer.problem for layer in read_layer_file(file)]
    if directions:
        problems = [one.with_direction(direction) for one in problems for direction in directions]
    return tuple(dict.fromkeys(problems))


def one_problem(problems: Sequence[ConvProblem]) -> ConvProblem:
    """Return the only problem, for commands that take one direction at a time."""
    if len(problems) != 1:
        raise ProblemError("direction", "all", "one direction here: fwd, bwd-data, bwd-weights")
    return problems[0]
