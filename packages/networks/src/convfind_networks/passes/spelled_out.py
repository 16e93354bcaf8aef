"""Activations that models spell out, as in ``x * sigmoid(x)``, become activations again."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from convfind_networks.graph import Graph, GraphEditor, Node
from convfind_networks.ops import (
    Activate,
    Activation,
    ActivationKind,
    Binary,
    BinaryFunction,
    Unary,
    UnaryFunction,
)

#: Constants are compared this closely: models hold them in few digits.
_CLOSE = 1e-3
#: Products of products are read so deep; what doubles at each step is not.
_DEPTH = 4
_PRODUCTS = (Binary(BinaryFunction.MUL), Binary(BinaryFunction.DIV))


def recognize_activations(graph: Graph) -> Graph:
    """Recognise SiLU, hard-swish, hard-sigmoid, GELU, Mish, softplus, ReLU as a maximum, PReLU."""
    edit = GraphEditor(graph)
    for node in edit:
        if len(node.outputs) == 1 and edit.value(node.output).type.is_float:
            found = _Reader(edit).activation(node)
            if found is None:
                continue
            x, activation = found
            # Numbers may have more dimensions than x, and then so has the result.
            if edit.value(x).type == edit.value(node.output).type:
                edit.replace([node], Node(Activate(activation), (x,), node.outputs, node.name))
    return edit.graph()


@dataclass(frozen=True, slots=True)
class _Product:
    """A number times some values."""

    number: float
    factors: tuple[str, ...]

    def is_times(self, number: float) -> bool:
        return math.isclose(self.number, number, rel_tol=_CLOSE)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the formulas that values are computed by, in any order of their arguments."""

    edit: GraphEditor

    def activation(self, node: Node) -> tuple[str, Activation] | None:
        """Return the activation that a node ends, and the value that it is of."""
        match node.op:
            case Binary(function=BinaryFunction.MUL | BinaryFunction.DIV, activation=None):
                return self._of_product(self.product(node.output))
            case Binary(function=BinaryFunction.MAX | BinaryFunction.MIN, activation=None):
                return self._bound(node)
            case Binary(function=BinaryFunction.PRELU, activation=None):
                return self._prelu(node)
            case Activate(activation=Activation(kind=ActivationKind.CLIP, numbers=(0, math.inf))):
                return node.inputs[0], Activation(ActivationKind.RELU)
            case Unary(function=UnaryFunction.LOG):
                return self._softplus(node)
        return None

    # -- formulas ---------------------------------------------------------------------------------

    def _of_product(self, product: _Product) -> tuple[str, Activation] | None:
        if len(product.factors) == 1 and product.is_times(1 / 6):
            x = self._relu6_of_plus_3(product.factors[0])
            if x is not None:
                return x, Activation(ActivationKind.HARD_SIGMOID, (1 / 6, 0.5))
        if len(product.factors) != 2:
            return None
        for x, gate in (product.factors, product.factors[::-1]):
            kind = self._gated(product, x, gate)
            if kind is not None:
                return x, Activation(kind)
        return None

    def _gated(self, product: _Product, x: str, gate: str) -> ActivationKind | None:
        """Return the activation that is x times a function of x."""
        if product.is_times(1):
            if self._applies(gate, ActivationKind.SIGMOID) == x:
                return ActivationKind.SILU
            if self._applies(gate, ActivationKind.HARD_SIGMOID, (1 / 6, 0.5)) == x:
                return ActivationKind.HARD_SWISH
            inner = self._applies(gate, ActivationKind.TANH)
            if inner is not None and self._applies(inner, ActivationKind.SOFTPLUS) == x:
                return ActivationKind.MISH
        if product.is_times(1 / 6) and self._relu6_of_plus_3(gate) == x:
            return ActivationKind.HARD_SWISH
        if product.is_times(0.5):
            above = self._plus(gate, 1)
            before = self.edit.producer(above) if above is not None else None
            match before and before.op:
                case Unary(function=UnaryFunction.ERF):
                    assert before is not None
                    inside = self.product(before.inputs[0])
                    if inside.factors == (x,) and inside.is_times(math.sqrt(0.5)):
                        return ActivationKind.GELU
                case Activate(activation=Activation(kind=ActivationKind.TANH)):
                    assert before is not None
                    if self._is_cubic(before.inputs[0], x):
                        return ActivationKind.GELU_TANH
        return None

    def _is_cubic(self, name: str, x: str) -> bool:
        """Tell whether a value is sqrt(2 / pi) * (x + 0.044715 * x ** 3)."""
        product = self.product(name)
        if len(product.factors) != 1 or not product.is_times(math.sqrt(2 / math.pi)):
            return False
        node = self.edit.producer(product.factors[0])
        if node is None or node.op != Binary(BinaryFunction.ADD) or x not in node.inputs:
            return False
        (cubed,) = (Counter(node.inputs) - Counter([x])).elements()
        term = self.product(cubed)
        if not term.is_times(0.044715):
            return False
        if len(term.factors) != 1:
            return term.factors == (x, x, x)
        power = self.edit.producer(term.factors[0])
        return (
            power is not None
            and power.op == Binary(BinaryFunction.POW)
            and power.inputs[0] == x
            and self._number(power.inputs[1]) == 3
        )

    def _bound(self, node: Node) -> tuple[str, Activation] | None:
        """Read max(x, number) and min(x, number)."""
        for x, other in (node.inputs, node.inputs[::-1]):
            number = self._number(other)
            if number is None:
                continue
            if node.op == Binary(BinaryFunction.MAX):
                if number == 0:
                    return x, Activation(ActivationKind.RELU)
                return x, Activation(ActivationKind.CLIP, (number, math.inf))
            before = self.edit.producer(x)
            match before and before.op:
                case Activate(activation=Activation(kind=ActivationKind.RELU)) if number >= 0:
                    assert before is not None
                    return before.inputs[0], Activation(ActivationKind.CLIP, (0.0, number))
            return x, Activation(ActivationKind.CLIP, (-math.inf, number))
        return None

    def _prelu(self, node: Node) -> tuple[str, Activation] | None:
        """Read PReLU with one slope for all channels, which convolutions can apply inside."""
        x, name = node.inputs
        slopes = self.edit.data(name)
        if slopes is None:
            return None
        one = np.unique(slopes)
        if one.size != 1 or not np.isfinite(one[0]):
            return None
        return x, Activation(ActivationKind.LEAKY_RELU, (float(one[0]),))

    def _softplus(self, node: Node) -> tuple[str, Activation] | None:
        above = self._plus(node.inputs[0], 1)
        before = self.edit.producer(above) if above is not None else None
        if before is not None and before.op == Unary(UnaryFunction.EXP):
            return before.inputs[0], Activation(ActivationKind.SOFTPLUS)
        return None

    # -- words ------------------------------------------------------------------------------------

    def product(self, name: str, depth: int = _DEPTH) -> _Product:
        """Read a value as a number times values, through products and quotients."""
        node = self.edit.producer(name)
        shape = self.edit.value(name).shape
        if depth and node is not None and node.op in _PRODUCTS:
            a, b = node.inputs
            if any(self._number(x) is None and self.edit.value(x).shape != shape for x in (a, b)):
                return _Product(1.0, (name,))
            divisor = self._number(b)
            if node.op == Binary(BinaryFunction.DIV):
                if not divisor:
                    return _Product(1.0, (name,))
                left = self.product(a, depth - 1)
                return _Product(left.number / divisor, left.factors)
            left, right = self.product(a, depth - 1), self.product(b, depth - 1)
            return _Product(left.number * right.number, (*left.factors, *right.factors))
        number = self._number(name)
        return _Product(1.0, (name,)) if number is None else _Product(number, ())

    def _number(self, name: str) -> float | None:
        data = self.edit.data(name)
        return None if data is None or data.size != 1 else float(data.reshape(()))

    def _plus(self, name: str, number: float) -> str | None:
        """Return x where a value is x + number."""
        node = self.edit.producer(name)
        if node is not None and node.op == Binary(BinaryFunction.ADD):
            for x, other in (node.inputs, node.inputs[::-1]):
                if self._number(other) == number:
                    return x
        return None

    def _applies(
        self, name: str, kind: ActivationKind, numbers: tuple[float, ...] | None = None
    ) -> str | None:
        """Return x where a value is an activation of x."""
        node = self.edit.producer(name)
        match node and node.op:
            case Activate(activation=activation) if activation.kind is kind:
                assert node is not None
                if numbers is None or all(
                    math.isclose(a, b, rel_tol=_CLOSE)
                    for a, b in zip(activation.numbers, numbers, strict=True)
                ):
                    return node.inputs[0]
        return None

    def _relu6_of_plus_3(self, name: str) -> str | None:
        node = self.edit.producer(name)
        if node is None or node.op != Activate(Activation(ActivationKind.CLIP, (0.0, 6.0))):
            return None
        return self._plus(node.inputs[0], 3)
