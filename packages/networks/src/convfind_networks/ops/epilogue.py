"""`Epilogue`: what a convolution or a matrix product does to its sums before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from convfind_networks.errors import GraphError
from convfind_networks.ops.activation import Activation
from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Steps on finished sums, in one canonical order: ``activation(sums + bias + z)``.

    ``bias`` has one number for each output channel; ``z``, the residual, has the result's shape
    and may be the result's memory. Both are inputs after the weights, bias first. With
    ``residual_last`` the order is ``activation(sums + bias) + z``, and z has memory of its own.
    """

    bias: bool = False
    residual: bool = False
    activation: Activation | None = None
    residual_last: bool = False

    @property
    def inputs(self) -> int:
        """Number of tensors that it reads."""
        return self.bias + self.residual

    @property
    def in_place(self) -> tuple[int, ...]:
        """Inputs, behind x and weights, whose memory the result may take."""
        return (2 + self.bias,) if self.residual and not self.residual_last else ()

    def check(self, result: TensorType, channels: int, inputs: Sequence[TensorType]) -> None:
        """Raise `GraphError` where the tensors that it reads do not go with the result."""
        if len(inputs) != self.inputs:
            raise GraphError(f"the epilogue reads {self.inputs} tensors, not {len(inputs)}")
        wanted = [TensorType(result.dtype, (channels,))] * self.bias + [result] * self.residual
        for got, want in zip(inputs, wanted, strict=True):
            if got != want:
                raise GraphError(f"the epilogue reads {want}, not {got}")

    def apply(self, sums: Array, axis: int, inputs: Sequence[Array]) -> Array:
        """Apply the steps; channels lie along an axis of the sums."""
        rest = list(inputs)
        if self.bias:
            shape = [1] * sums.ndim
            shape[axis] = -1
            sums = sums + rest.pop(0).reshape(shape)
        if self.residual and not self.residual_last:
            sums = sums + rest.pop(0)
        if self.activation:
            sums = np.asarray(self.activation(sums))
        return sums + rest.pop(0) if self.residual_last else sums

    def __str__(self) -> str:
        steps = ["bias"] * self.bias + ["z"] * (self.residual and not self.residual_last)
        if self.activation:
            steps.append(str(self.activation))
        steps += ["z"] * self.residual_last
        return "+".join(steps) or "none"


NO_EPILOGUE = Epilogue()
