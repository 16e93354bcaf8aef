"""Discrete Fourier transforms as graphs of real additions and multiplications, each computed once.

A graph is built by the mixed-radix recursion of Cooley and Tukey ("An algorithm for the machine
calculation of complex Fourier series", 1965). Nodes that compute the same number are one node,
signs are kept outside of the nodes, and only what a wanted output needs is kept: so the graph of a
transform of real numbers, whose spectrum is half redundant, costs half of the complex one. This is
the way of FFTW's generator (Frigo, "A fast Fourier transform compiler", 1999).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction


class Operation(StrEnum):
    """The operation of a node on its operands."""

    INPUT = "input"
    ADD = "add"
    SUBTRACT = "subtract"
    SCALE = "scale"


@dataclass(frozen=True, slots=True)
class Node:
    """One number: an input, or an operation on earlier nodes, given by their places."""

    operation: Operation
    operands: tuple[int, ...] = ()
    factor: float = 1.0  # of SCALE; positive


@dataclass(frozen=True, slots=True)
class Term:
    """A node's number or its negative."""

    node: int
    negative: bool = False

    def __neg__(self) -> Term:
        return Term(self.node, not self.negative)


#: None is zero.
Value = Term | None
Complex = tuple[Value, Value]


@dataclass(slots=True)
class Graph:
    """Nodes, operands before what uses them, and the wanted outputs."""

    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    inputs: int = 0
    _places: dict[Node, int] = field(default_factory=dict)

    def input(self) -> Term:
        """Return the next input."""
        self.nodes.append(Node(Operation.INPUT, (self.inputs,)))
        self.inputs += 1
        return Term(len(self.nodes) - 1)

    def add(self, one: Value, other: Value) -> Value:
        """Return the sum."""
        if one is None or other is None:
            return one or other
        if one.node == other.node:
            return self.scale(2.0, one) if one.negative == other.negative else None
        first, second = sorted((one, other), key=lambda term: term.node)
        same = first.negative == second.negative
        operation = Operation.ADD if same else Operation.SUBTRACT
        return Term(self._node(operation, first.node, second.node), first.negative)

    def subtract(self, one: Value, other: Value) -> Value:
        """Return the difference."""
        return self.add(one, None if other is None else -other)

    def scale(self, factor: float, value: Value) -> Value:
        """Return the product with a constant."""
        if value is None or factor == 0.0:
            return None
        term = -value if factor < 0 else value
        if abs(factor) == 1.0:
            return term
        return Term(self._node(Operation.SCALE, term.node, factor=abs(factor)), term.negative)

    def used(self) -> list[int]:
        """Return the places of the nodes that outputs need, in order."""
        needed = {value.node for value in self.outputs if value is not None}
        for place in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[place]
            if place in needed and node.operation is not Operation.INPUT:
                needed.update(node.operands)
        return sorted(needed)

    def operations(self) -> int:
        """Additions and multiplications that outputs need."""
        return sum(self.nodes[place].operation is not Operation.INPUT for place in self.used())

    def _node(self, operation: Operation, *operands: int, factor: float = 1.0) -> int:
        node = Node(operation, operands, factor)
        place = self._places.setdefault(node, len(self.nodes))
        if place == len(self.nodes):
            self.nodes.append(node)
        return place


def cosine(numerator: int, denominator: int) -> float:
    """Return cos(2 pi numerator / denominator); equal sizes give equal numbers, 0 and 1 exactly."""
    turn = Fraction(numerator, denominator) % 1
    turn = min(turn, 1 - turn)
    if turn > Fraction(1, 4):
        return -_first_quadrant(Fraction(1, 2) - turn)
    return _first_quadrant(turn)


def _first_quadrant(turn: Fraction) -> float:
    if turn == Fraction(1, 4):
        return 0.0
    if turn == Fraction(1, 6):
        return 0.5
    if turn > Fraction(1, 8):
        return math.sin(2 * math.pi * float(Fraction(1, 4) - turn))
    return math.cos(2 * math.pi * float(turn))


def _sine(numerator: int, denominator: int) -> float:
    return cosine(4 * numerator - denominator, 4 * denominator)


def _rotated(graph: Graph, value: Complex, numerator: int, denominator: int) -> Complex:
    """Return the product with exp(-2 pi i numerator / denominator)."""
    real, imaginary = value
    c, s = cosine(numerator, denominator), _sine(numerator, denominator)
    return (
        graph.add(graph.scale(c, real), graph.scale(s, imaginary)),
        graph.subtract(graph.scale(c, imaginary), graph.scale(s, real)),
    )


def _radix(n: int) -> int:
    """Return the number of parts that a transform is split into; ``n`` itself where it is prime."""
    for radix in (4, 2, 3):
        if n % radix == 0 and (radix < n or radix < 4):
            return radix
    msg = f"a size of {n} has prime factors beside 2 and 3"
    raise ValueError(msg)


def transform(graph: Graph, values: Sequence[Complex]) -> list[Complex]:
    """Return the discrete Fourier transform, with exp(-2 pi i j k / n).

    Raises:
        ValueError: the number of values has prime factors beside 2 and 3.
    """
    n = len(values)
    if n == 1:
        return list(values)
    radix = _radix(n)
    if radix == n == 2:
        (a, b), (c, d) = values
        return [(graph.add(a, c), graph.add(b, d)), (graph.subtract(a, c), graph.subtract(b, d))]
    if radix == n == 3:
        return _three(graph, values)
    rest = n // radix
    parts = [transform(graph, values[r::radix]) for r in range(radix)]
    results: list[Complex] = [(None, None)] * n
    for k in range(rest):
        column = [_rotated(graph, parts[r][k], r * k, n) for r in range(radix)]
        for q, value in enumerate(transform(graph, column)):
            results[k + q * rest] = value
    return results


def _three(graph: Graph, values: Sequence[Complex]) -> list[Complex]:
    """Return the transform of three values, by their sum and difference."""
    (a, b), (c, d), (e, f) = values
    real, imaginary = graph.add(c, e), graph.add(d, f)
    half = (
        graph.subtract(a, graph.scale(0.5, real)),
        graph.subtract(b, graph.scale(0.5, imaginary)),
    )
    root = _sine(1, 3)
    turned = (
        graph.scale(root, graph.subtract(d, f)),
        graph.scale(root, graph.subtract(e, c)),
    )
    return [
        (graph.add(a, real), graph.add(b, imaginary)),
        (graph.add(half[0], turned[0]), graph.add(half[1], turned[1])),
        (graph.subtract(half[0], turned[0]), graph.subtract(half[1], turned[1])),
    ]


def complex_graph(n: int) -> Graph:
    """Return n complex numbers to n: inputs and outputs are n real parts, then n imaginary ones.

    With real and imaginary parts changed places, on both sides, it is the inverse, times n.
    """
    graph = Graph()
    real = [graph.input() for _ in range(n)]
    values = transform(graph, [(part, graph.input()) for part in real])
    graph.outputs = [value[part] for part in (0, 1) for value in values]
    return graph


def real_graph(n: int) -> Graph:
    """Return n real numbers to the half of their spectrum that determines the rest; n is even.

    Outputs are the real parts of frequencies 0 to n/2, then the imaginary ones of 1 to n/2 - 1:
    those of 0 and n/2 are zero.
    """
    graph = Graph()
    values = transform(graph, [(graph.input(), None) for _ in range(n)])
    half = n // 2
    graph.outputs = [value[0] for value in values[: half + 1]]
    graph.outputs += [value[1] for value in values[1:half]]
    return graph


def adjoint(graph: Graph) -> Graph:
    """Return the graph of the transposed matrix, by walking the graph backwards.

    For `real_graph` it is the inverse, times n, of a spectrum whose numbers that stand for two, all
    but frequencies 0 and n/2, were doubled.
    """
    turned = Graph()
    sums: list[Value] = [None] * len(graph.nodes)
    inputs: list[Value] = [None] * graph.inputs
    for value in graph.outputs:
        given = turned.input()
        if value is not None:
            term = -given if value.negative else given
            sums[value.node] = turned.add(sums[value.node], term)
    for place in reversed(graph.used()):
        node, given_back = graph.nodes[place], sums[place]
        if node.operation is Operation.INPUT:
            inputs[node.operands[0]] = given_back
        elif node.operation is Operation.SCALE:
            (source,) = node.operands
            sums[source] = turned.add(sums[source], turned.scale(node.factor, given_back))
        else:
            first, second = node.operands
            sums[first] = turned.add(sums[first], given_back)
            change = turned.add if node.operation is Operation.ADD else turned.subtract
            sums[second] = change(sums[second], given_back)
    turned.outputs = inputs
    return turned
