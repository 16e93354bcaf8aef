"""`Geometry` of a convolution and `Window` of a pooling: how positions meet the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from convfind.checking import window
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import ConvMode, Layout
from convfind_networks.errors import GraphError


@dataclass(frozen=True, slots=True)
class Geometry:
    """Stride, padding, dilation and groups of a convolution, in `ConvProblem`'s words."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    padding_end: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    @classmethod
    def plain(cls, rank: int) -> Geometry:
        """Return the geometry without strides or padding, in so many spatial dimensions."""
        return cls((1,) * rank, (0,) * rank, (0,) * rank, (1,) * rank)

    def problem(
        self,
        x: tuple[int, ...],
        w: tuple[int, ...],
        *,
        dtype: str = "float32",
        channels_last: bool = False,
        **options: Any,
    ) -> ConvProblem:
        """Return the convolution of tensors of these shapes, with more keywords for its result.

        Raises:
            GraphError: there is no such convolution.
        """
        if not 3 <= len(x) <= 5:
            raise GraphError(f"a convolution in {len(x) - 2} dimensions is not possible")
        try:
            return ConvProblem.forward(
                x,
                w,
                stride=self.stride,
                padding=tuple(zip(self.padding, self.padding_end, strict=True)),
                dilation=self.dilation,
                groups=self.groups,
                mode=ConvMode.TRANSPOSE if self.transposed else ConvMode.CONVOLUTION,
                output_padding=self.output_padding or 0,
                dtype=dtype,
                layout=Layout.of(len(x) - 2, channels_last=channels_last),
                **options,
            )
        except (ProblemError, ValueError) as exc:
            raise GraphError(str(exc)) from exc

    def __str__(self) -> str:
        words = [_word("s", self.stride, 1), _word("d", self.dilation, 1)]
        pads = _word("p", self.padding, 0)
        if self.padding_end != self.padding:
            pads = f"p{_sizes(self.padding)}:{_sizes(self.padding_end)}"
        words.insert(1, pads)
        words.append(f"g{self.groups}" if self.groups > 1 else "")
        words.append("transposed" if self.transposed else "")
        return " ".join(filter(None, words)) or "plain"


class Window(window.Window):
    """The window of a pooling: its size and how it steps over the padded data."""

    __slots__ = ()

    @property
    def is_padded(self) -> bool:
        """True where some of the windows meet padding."""
        return any(self.padding) or any(self.padding_end)

    def result(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each axis. Raises `GraphError`."""
        lengths = {len(of) for of in (self.size, self.stride, self.padding, self.padding_end)}
        if lengths != {len(spatial)} or len(self.dilation) != len(spatial):
            raise GraphError(f"a window of size {self.size} does not go with {spatial}")
        if min((*self.size, *self.stride, *self.dilation)) < 1:
            raise GraphError(f"window {self.size}, stride {self.stride}: sizes begin at 1")
        if min((*self.padding, *self.padding_end)) < 0:
            raise GraphError(f"padding {self.padding}, {self.padding_end} is less than 0")
        try:
            return super().result(spatial)
        except ProblemError as exc:
            raise GraphError(f"a window over {spatial}: {exc}") from exc

    def __str__(self) -> str:
        words = [_sizes(self.size), _word("s", self.stride, 1), _word("d", self.dilation, 1)]
        if self.is_padded:
            pads = _word("p", self.padding, 0)
            if self.padding_end != self.padding:
                pads = f"p{_sizes(self.padding)}:{_sizes(self.padding_end)}"
            words.insert(2, pads)
        words.append("ceil" if self.ceil_mode else "")
        return " ".join(filter(None, words))


def _sizes(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))


def _word(letter: str, numbers: tuple[int, ...], usual: int) -> str:
    if all(number == usual for number in numbers):
        return ""
    return letter + (str(numbers[0]) if len(set(numbers)) == 1 else _sizes(numbers))
