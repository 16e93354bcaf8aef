"""`Geometry` of a convolution and `Window` of a pooling: how positions meet the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from convfind.checking.borders import window_taps
from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import ConvMode, Layout
from convfind_networks.errors import GraphError
from convfind_networks.tensor_type import Array


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


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a pooling: its size and how it steps over the padded data.

    With ``ceil_mode`` a last window may reach beyond the padding, if it begins before it.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    padding_end: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def elements(self) -> int:
        """Taps of the window."""
        return math.prod(self.size)

    @property
    def is_padded(self) -> bool:
        """True where some of the windows meet padding."""
        return any(self.padding) or any(self.padding_end)

    def result(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each axis."""
        lengths = {len(of) for of in (self.size, self.stride, self.padding, self.padding_end)}
        if lengths != {len(spatial)} or len(self.dilation) != len(spatial):
            raise GraphError(f"a window of size {self.size} does not go with {spatial}")
        if min((*self.size, *self.stride, *self.dilation)) < 1:
            raise GraphError(f"window {self.size}, stride {self.stride}: sizes begin at 1")
        if min((*self.padding, *self.padding_end)) < 0:
            raise GraphError(f"padding {self.padding}, {self.padding_end} is less than 0")
        return tuple(self._count(axis, size) for axis, size in enumerate(spatial))

    def _count(self, axis: int, size: int) -> int:
        begin, step = self.padding[axis], self.stride[axis]
        span = size + begin + self.padding_end[axis] - self._reach(axis)
        count = (-(-span // step) if self.ceil_mode else span // step) + 1
        if self.ceil_mode and (count - 1) * step >= size + begin:
            count -= 1
        if count < 1:
            raise GraphError(f"a window that spans {self._reach(axis)} does not fit size {size}")
        return count

    def _reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.size[axis] - 1) + 1

    def taps(self, data: Array, fill: Any, border: Any = None) -> Iterator[Array]:
        """Return, for each tap of the window, the element that every position meets there.

        Args:
            data: batch, channels, spatial.
            fill: what the padding holds.
            border: what lies beyond it, where ``ceil_mode`` lets windows reach; as the padding
                unless given.
        """
        return window_taps(
            data,
            size=self.size,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            padding_end=self.padding_end,
            counts=self.result(data.shape[2:]),
            fill=fill,
            border=border,
        )

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
