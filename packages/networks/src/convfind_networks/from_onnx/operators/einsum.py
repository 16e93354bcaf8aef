"""Einsum: diagonals, then products of two operands at a time, then sums and an order."""

from __future__ import annotations

from functools import reduce
from string import ascii_letters

from convfind_networks.from_onnx.node import OnnxNode, OnnxOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import Gather, ReduceFunction

#: Stand-ins for dots, from the last axis on: characters that no equation has.
_DOTS = "9876543210"


def einsum(node: OnnxNode) -> Value:
    """Einsum; its equation has a letter for each axis."""
    equation = node.word("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms, values = left.split(","), node.values()
    if len(terms) != len(values):
        raise NotSupported(f"{len(terms)} terms for {len(values)} operands")
    terms = [_spelled(term, value) for term, value in zip(terms, values, strict=True)]
    dots = max((one for term in terms for one in [_dots(term)]), key=len)
    if arrow:
        result = right.replace("...", dots)
    else:
        letters = "".join(terms)
        result = dots + "".join(
            one for one in sorted(set(letters) - set(_DOTS)) if letters.count(one) == 1
        )
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)):
        raise NotSupported(f"equation {equation}")
    operands = [_diagonal(node, *pair) for pair in zip(terms, values, strict=True)]
    everything = "".join(dict.fromkeys("".join(term for term, _ in operands)))
    aligned = [_aligned(node, term, value, everything) for term, value in operands]
    product = reduce(node.times, aligned)
    gone = [axis for axis, one in enumerate(everything) if one not in result]
    if gone:
        product = node.reduce(ReduceFunction.SUM, product, *gone, keepdims=False)
    kept = [one for one in everything if one in result]
    return node.transpose(product, *(kept.index(one) for one in result))


def _spelled(term: str, value: Value) -> str:
    """Return the letters of all axes of an operand."""
    missing = value.type.rank - len(term.replace("...", ""))
    if not 0 <= missing <= len(_DOTS) or term.count("...") > 1:
        raise NotSupported(f"{term} of {value.type}")
    spelled = term.replace("...", _DOTS[len(_DOTS) - missing :])
    if len(spelled) != value.type.rank or not set(spelled) <= set(ascii_letters + _DOTS):
        raise NotSupported(f"{term} of {value.type}")
    return spelled


def _dots(term: str) -> str:
    return "".join(one for one in term if one in _DOTS)


def _diagonal(node: OnnxNode, term: str, value: Value) -> tuple[str, Value]:
    """Return an operand whose letters differ: of equal ones only the diagonal is left."""
    for one in dict.fromkeys(term):
        while term.count(one) > 1:
            first, second = term.index(one), term.rindex(one)
            size = value.shape[first]
            order = [axis for axis in range(len(term)) if axis not in (first, second)]
            turned = node.transpose(value, first, second, *order)
            rest = turned.shape[2:]
            flat = node.reshape(turned, size * size, *rest)
            value = node.add(Gather(0), flat, node.const([at * (size + 1) for at in range(size)]))
            term = one + "".join(term[axis] for axis in order)
    return term, value


def _aligned(node: OnnxNode, term: str, value: Value, everything: str) -> Value:
    """Return an operand with an axis for every letter, of size 1 where it has none."""
    order = sorted(range(len(term)), key=lambda axis: everything.index(term[axis]))
    turned = node.transpose(value, *order)
    sizes = iter(turned.shape)
    return node.reshape(turned, *(next(sizes) if one in term else 1 for one in everything))


OPERATORS: OnnxOperators = {"Einsum": einsum}
