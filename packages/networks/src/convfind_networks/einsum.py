"""Sums of products by an equation with a letter for each axis, as a composition of operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from string import ascii_letters

from convfind_networks.graph import Value
from convfind_networks.importing import Composer, NotSupported
from convfind_networks.ops import Expand, Gather, MatMul, ReduceFunction

#: Stand-ins for dots, from the last axis on: characters that no equation has.
_DOTS = "9876543210"


def einsum(add: Composer, equation: str, values: Sequence[Value]) -> Value:
    """Return what an equation makes of values: diagonals, then products of two at a time.

    Raises:
        NotSupported: the equation does not go with the values.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
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
    operands = [_diagonal(add, *pair) for pair in zip(terms, values, strict=True)]
    for at in range(1, len(operands)):
        wanted = set(result).union(*(term for term, _ in operands[at + 1 :]))
        operands[at] = _product(add, operands[at - 1], operands[at], wanted)
    term, value = _summed(add, *operands[-1], set(result))
    return add.transpose(value, *map(term.index, result))


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


def _diagonal(add: Composer, term: str, value: Value) -> tuple[str, Value]:
    """Return an operand whose letters differ: of equal ones only the diagonal is left."""
    for one in dict.fromkeys(term):
        while term.count(one) > 1:
            first, second = term.index(one), term.rindex(one)
            size = value.shape[first]
            order = [axis for axis in range(len(term)) if axis not in (first, second)]
            turned = add.transpose(value, first, second, *order)
            rest = turned.shape[2:]
            flat = add.reshape(turned, size * size, *rest)
            value = add.add(Gather(0), flat, add.const([at * (size + 1) for at in range(size)]))
            term = one + "".join(term[axis] for axis in order)
    return term, value


def _summed(add: Composer, term: str, value: Value, wanted: set[str]) -> tuple[str, Value]:
    """Return an operand without the letters that nobody wants."""
    gone = [axis for axis, one in enumerate(term) if one not in wanted]
    if gone:
        value = add.reduce(ReduceFunction.SUM, value, *gone, keepdims=False)
    return "".join(one for one in term if one in wanted), value


def _product(
    add: Composer, left: tuple[str, Value], right: tuple[str, Value], wanted: set[str]
) -> tuple[str, Value]:
    """Return the product of two operands, summed over the letters that nobody wants.

    Where both have such a letter, that is a product of matrices.
    """
    a, x = _summed(add, *left, wanted | set(right[0]))
    b, y = _summed(add, *right, wanted | set(a))
    own_a, own_b = _without(a, b), _without(b, a)
    both = _without(a, own_a)
    depth = _without(both, "".join(wanted))
    if not depth or not x.type.is_float:
        letters = a + own_b
        product = add.times(_aligned(add, a, x, letters), _aligned(add, b, y, letters))
        return _summed(add, letters, product, wanted)
    batch = _without(both, depth)
    sizes: dict[str, int] = {}
    for one, size in (*zip(a, x.shape, strict=True), *zip(b, y.shape, strict=True)):
        sizes[one] = max(size, sizes.get(one, size))  # dots may stand for axes of size 1
    rows = _matrices(add, (a, x), (batch, own_a, depth), sizes)
    columns = _matrices(add, (b, y), (batch, depth, own_b), sizes)
    letters = batch + own_a + own_b
    product = add.add(MatMul(), rows, columns)
    return letters, add.reshape(product, *(sizes[one] for one in letters))


def _matrices(
    add: Composer, operand: tuple[str, Value], parts: tuple[str, str, str], sizes: dict[str, int]
) -> Value:
    """Return an operand as a batch of matrices, whose axes are several letters each."""
    letters = "".join(parts)
    whole = tuple(sizes[one] for one in letters)
    turned = _aligned(add, *operand, letters)
    full = turned if turned.shape == whole else add.add(Expand(whole), turned)
    batch, *matrix = parts
    flat = (prod(sizes[one] for one in part) for part in matrix)
    return add.reshape(full, *(sizes[one] for one in batch), *flat)


def _without(term: str, other: str) -> str:
    return "".join(one for one in term if one not in other)


def _aligned(add: Composer, term: str, value: Value, letters: str) -> Value:
    """Return an operand with an axis for every letter, of size 1 where it has none."""
    order = sorted(range(len(term)), key=lambda axis: letters.index(term[axis]))
    turned = add.transpose(value, *order)
    sizes = iter(turned.shape)
    return add.reshape(turned, *(next(sizes) if one in term else 1 for one in letters))
