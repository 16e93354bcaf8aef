"""`FIELDS`: what a convolution has beside two shapes; its checks, texts and options follow from it.

A new property of convolutions is a row here, with a name behind those that texts have already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from convfind.errors import ProblemError
from convfind.problem.activation import Activation
from convfind.problem.syntax.sizes import format_sizes, parse_sizes
from convfind.problem.values import enum_value, flag, integer, per_axis, scale, shape_of
from convfind.types import AccuracyClass, ConvMode, DataType, Direction, Layout

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem


@dataclass(frozen=True, slots=True)
class Field(ABC):
    """A field of `ConvProblem`.

    Attributes:
        name: of the field.
        key: its name in the tail of a network config; empty for those that its head has.
        usual: the value that goes without saying.
        usual_of: the same, where it depends on the problem's other fields.
        is_miopens: whether MIOpen's texts can say another.
    """

    name: str
    key: str = ""
    usual: object = None
    is_miopens: bool = True
    usual_of: Callable[[ConvProblem], object] | None = None

    def usual_in(self, problem: ConvProblem) -> object:
        """Return the value that goes without saying in a problem."""
        return self.usual if self.usual_of is None else self.usual_of(problem)

    @abstractmethod
    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return the one spelling of a value. Raises `ProblemError`."""

    def spelled(self, value: Any) -> str:
        """Return a value as a network config has it."""
        return str(value)

    def read(self, text: str) -> Any:
        """Return the value of a text, for a problem to check. Raises `ProblemError`."""
        return text


@dataclass(frozen=True, slots=True)
class WordField(Field):
    """One of a few words."""

    kind: type[StrEnum] = StrEnum

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return the word as a member."""
        return enum_value(self.name, self.kind, value)


class NumberField(Field):
    """A whole number."""

    __slots__ = ()

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return a number of at least 1."""
        return integer(self.name, value, least=1)


@dataclass(frozen=True, slots=True)
class SizesField(Field):
    """A whole number for each spatial axis."""

    least: int = 0

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return as many numbers as there are spatial axes."""
        return per_axis(self.name, value, problem.spatial_rank, least=self.least)

    def spelled(self, value: Any) -> str:
        """Return the numbers with ``x`` between them."""
        return format_sizes(value)

    def read(self, text: str) -> Any:
        """Split the numbers."""
        return parse_sizes(self.name, text)


class StridesField(SizesField):
    """Steps in elements along all axes of a tensor, or None."""

    __slots__ = ()

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return as many numbers as there are axes."""
        if value is None:
            return None
        return per_axis(self.name, value, problem.spatial_rank + 2, least=self.least)


class ScaleField(Field):
    """A factor."""

    __slots__ = ()

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return a number that kernels can compute with."""
        return scale(self.name, value, problem.dtype, problem.y_dtype)

    def spelled(self, value: Any) -> str:
        """Return a number that reads as the same."""
        return repr(value)

    def read(self, text: str) -> Any:
        """Return a number."""
        try:
            return float(text)
        except ValueError:
            raise ProblemError(self.name, text, "a finite number") from None


@dataclass(frozen=True, slots=True)
class FlagField(Field):
    """True or False, which goes without saying."""

    usual: object = False

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return a truth value."""
        return flag(self.name, value)

    def spelled(self, value: Any) -> str:
        """Return 1."""
        return "1"

    def read(self, text: str) -> Any:
        """Return True for a 1."""
        if text != "1":
            raise ProblemError(self.name, text, "1")
        return True


class ActivationField(Field):
    """A function of results, or None. A network config has its kind."""

    __slots__ = ()

    def checked(self, problem: ConvProblem, value: Any) -> object:
        """Return the activation."""
        return None if value is None else Activation.of(value)

    def spelled(self, value: Any) -> str:
        """Return the kind: no time depends on the numbers."""
        return str(value.kind)

    def read(self, text: str) -> Any:
        """Read a kind, with or without numbers."""
        return Activation.parse(text)


#: In the order of the network config, whose tail has only what is not usual.
FIELDS: tuple[Field, ...] = (
    WordField("direction", kind=Direction),
    SizesField("stride", least=1),
    SizesField("padding"),
    SizesField("dilation", least=1),
    NumberField("groups"),
    WordField("x_layout", kind=Layout),
    WordField("dtype", kind=DataType),
    SizesField("padding_end", "pe", is_miopens=False, usual_of=lambda problem: problem.padding),
    WordField("mode", "mode", ConvMode.CONVOLUTION, kind=ConvMode),
    SizesField("output_padding", "op", usual_of=lambda problem: (0,) * problem.spatial_rank),
    WordField("w_layout", "w", usual_of=lambda problem: problem.x_layout, kind=Layout),
    WordField("y_layout", "y", usual_of=lambda problem: problem.x_layout, kind=Layout),
    WordField("y_dtype", "ydtype", usual_of=lambda problem: problem.dtype.result, kind=DataType),
    StridesField("x_strides", "xs", is_miopens=False),
    StridesField("w_strides", "ws", is_miopens=False),
    StridesField("y_strides", "ys", is_miopens=False),
    ScaleField("alpha", "alpha", 1.0, is_miopens=False),
    ScaleField(
        *("beta", "beta"),
        is_miopens=False,
        usual_of=lambda problem: 1.0 if problem.add else 0.0,
    ),
    FlagField("deterministic", "deterministic", is_miopens=False),
    FlagField("allow_tf32", "tf32", is_miopens=False),
    WordField("accuracy", "accuracy", AccuracyClass.NORMAL, is_miopens=False, kind=AccuracyClass),
    FlagField("bias", "bias", is_miopens=False),
    FlagField("add", "add", is_miopens=False),
    FlagField("add_last", "last", is_miopens=False),
    ActivationField("activation", "act", is_miopens=False),
)
#: Those of the tail by their names there.
TAIL = {field.key: field for field in FIELDS if field.key}

# Questions to every new problem, looked up once.
_CHECKS = tuple((field.name, field.checked) for field in FIELDS)
_RELATED = tuple((field, field.name, of) for field in TAIL.values() if (of := field.usual_of))
_OTHERS = tuple(field for field in TAIL.values() if field.usual_of is None)
_others = attrgetter(*(field.name for field in _OTHERS))
_USUAL = tuple(field.usual for field in _OTHERS)


def unusual(problem: ConvProblem) -> list[tuple[Field, object]]:
    """Return the fields of the tail whose values do not go without saying, with these."""
    if _others(problem) == _USUAL:
        return [
            (field, value)
            for field, name, usual_of in _RELATED
            if (value := getattr(problem, name)) != usual_of(problem)
        ]
    values = ((field, getattr(problem, field.name)) for field in TAIL.values())
    return [(field, value) for field, value in values if value != field.usual_in(problem)]


def canonicalize(problem: ConvProblem) -> None:
    """Check each field and bring it into its one spelling, so that equal problems are equal."""

    def put(name: str, value: object) -> None:
        object.__setattr__(problem, name, value)

    put("x_shape", shape_of("x", problem.x_shape, least_batch=0))
    put("w_shape", shape_of("w", problem.w_shape))
    rank = problem.spatial_rank
    if len(problem.w_shape) != rank + 2:
        raise ProblemError("w", problem.w_shape, f"as many dimensions as x, which has {rank + 2}")
    if problem.output_padding == ():
        put("output_padding", (0,) * rank)
    for name, check in _CHECKS:
        value = getattr(problem, name)
        checked = check(problem, value)
        if checked is not value:
            put(name, checked)
    if problem.add_last and problem.add and problem.activation is None:
        put("add_last", False)  # the same, as nothing comes in between
    if problem.allow_tf32 and problem.dtype is not DataType.FLOAT32:
        put("allow_tf32", False)  # the same, as other types are not rounded to it
