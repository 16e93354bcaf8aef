"""`Epilogue`: what becomes of a convolution's sums, as kernels that store results take it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from convfind.problem import Activation, ConvProblem
from convfind.solver.defines import DefineValue
from convfind.solver.recipe import Argument, BufferArg, ScalarArg, i32, i64
from convfind.types import DataType, Direction


@dataclass(frozen=True, slots=True)
class Epilogue:
    """``activation(alpha * sum + bias + beta * z)`` for each element.

    With `adds_last` it is ``activation(alpha * sum + bias) + beta * z``.

    The counterpart of ``convfind_epilogue.h``: a launch of a kernel with CF_EPILOGUE_PARAMETERS
    passes `arguments` in their place, and its program has `defines` among its macros. The default
    stores sums as they are: parts of a sum, for example, whose epilogue comes in a later launch.

    Attributes:
        alpha: factor of the sum.
        beta: factor of z, which is what lies in the result, and at 0 is not read.
        arithmetic: the type in which it is computed, and of all numbers. int32 wraps around.
        bias: the type of the operand ``bias``, one element for each channel; None: there is none.
        z: the type of the operand ``z``, which lies as the result does; None: z is what lies in
            the result.
        activation: the function of what is complete otherwise.
        adds_last: whether z, which then has memory apart from the result, is added behind it.
    """

    alpha: float = 1.0
    beta: float = 0.0
    arithmetic: DataType = DataType.FLOAT32
    bias: DataType | None = None
    z: DataType | None = None
    activation: Activation | None = None
    adds_last: bool = False

    @classmethod
    def of(cls, problem: ConvProblem, arithmetic: DataType = DataType.FLOAT32) -> Self:
        """Return the epilogue of a problem's result."""
        if not problem.is_fused:
            return cls(problem.alpha, problem.beta, arithmetic)
        dtype = problem.tensor_dtype(problem.direction.writes)
        return cls(
            *(problem.alpha, problem.beta, arithmetic),
            bias=dtype if problem.bias else None,
            z=dtype if problem.adds_z else None,
            activation=problem.activation,
            adds_last=problem.adds_z and problem.add_last,
        )

    @property
    def defines(self) -> Mapping[str, DefineValue]:
        """The macros that say what it consists of; none for alpha and beta in float32."""
        macros: dict[str, DefineValue] = {}
        if self.arithmetic is not DataType.FLOAT32:
            macros["CF_ARITHMETIC"] = self.arithmetic.upper()
        if self.bias is not None:
            macros["CF_BIAS"] = self.bias.upper()
        if self.z is not None:
            macros["CF_Z_LAST" if self.adds_last else "CF_Z"] = self.z.upper()
        if self.activation is not None:
            macros["CF_ACTIVATION"] = self.activation.kind.macro
        return macros

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of CF_EPILOGUE_PARAMETERS, in their order."""
        memory = (("bias", self.bias), ("z", self.z))
        numbers = () if self.activation is None else self.activation.numbers
        return (
            *(self._number(self.alpha), self._number(self.beta)),
            *(BufferArg(name) for name, dtype in memory if dtype is not None),
            *map(self._number, numbers),
        )

    def _number(self, value: float) -> ScalarArg:
        if self.arithmetic is DataType.INT32:
            return ScalarArg((int(value) + 2**31) % 2**32 - 2**31, "int32")
        return ScalarArg(value, self.arithmetic)


#: The epilogue that leaves sums as they are.
NO_EPILOGUE = Epilogue()


def channel_of_place(problem: ConvProblem) -> tuple[Argument, Argument]:
    """Return two arguments for kernels that know of a result only its place in packed memory.

    They are the channels, and the elements from one to the next: that of a place is
    ``place / step % channels``. Weights have one channel.
    """
    writes = problem.direction.writes
    if problem.direction is Direction.BACKWARD_WEIGHTS:
        return i32(1), i64(1)
    channels, *spatial = problem.shape(writes)[1:]
    is_last = problem.tensor_layout(writes).channels_last
    return i32(channels), i64(1 if is_last else math.prod(spatial))
