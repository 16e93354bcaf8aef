"""Transforms as straight-line C, common subexpressions computed once.

``python -m convfind_solvers_winograd.codegen`` writes the ``transform_*.h`` files in ``kernels/``.
They are written for any type: whoever includes them defines VALUE, INLINE and
MULTIPLY_ADD(constant, value, addend).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from convfind_solvers_winograd.algorithms import TRANSFORMS
from convfind_solvers_winograd.cook_toom import Matrix, Transform

Term = tuple[Fraction, str]
KERNELS = Path(__file__).parent / "kernels"


@dataclass(slots=True)
class _Body:
    """The statements of one function."""

    lines: list[str] = field(default_factory=list)
    temporaries: int = 0

    def temporary(self, terms: Sequence[Term]) -> str:
        """Compute a sum into a new variable; a single plain term needs none."""
        if len(terms) == 1 and terms[0][0] == 1:
            return terms[0][1]
        name = f"t{self.temporaries}"
        self.temporaries += 1
        self.lines.append(f"const VALUE {name} = {_sum(terms)};")
        return name


def function(name: str, matrix: Matrix) -> str:
    """Return a C function that multiplies a matrix by a vector; elements are ``step``s apart."""
    body = _Body()
    inputs = [f"in[{j} * in_step]" for j in range(len(matrix[0]))]
    rows = [
        [(value, text) for value, text in zip(row, inputs, strict=True) if value] for row in matrix
    ]
    rows = _with_sums_of_columns(body, matrix, rows, inputs)
    results: dict[int, str] = {}
    for first, second in _pairs_of_rows(rows):
        even, odd = _even_and_odd(rows[first], rows[second])
        plus, minus = body.temporary(even), body.temporary(odd)
        results[first], results[second] = f"{plus} + {minus}", f"{plus} - {minus}"
    for i, row in enumerate(rows):
        body.lines.append(f"out[{i} * out_step] = {results.get(i) or _sum(row)};")
    text = "\n".join(f"  {line}" for line in body.lines)
    arguments = "const VALUE *in, const int in_step, VALUE *out, const int out_step"
    return f"INLINE void {name}({arguments}) {{\n{text}\n}}\n"


def _with_sums_of_columns(
    body: _Body, matrix: Matrix, rows: list[list[Term]], inputs: Sequence[str]
) -> list[list[Term]]:
    """Replace two inputs that every row adds or subtracts alike by their sum and difference."""
    columns = list(zip(*matrix, strict=True))
    for a, b in _disjoint_pairs(len(columns), lambda a, b: _same_size(columns[a], columns[b])):
        signs = {x == y for x, y in zip(columns[a], columns[b], strict=True) if x}
        if signs != {True, False}:
            continue
        one = Fraction(1)
        total = body.temporary([(one, inputs[a]), (one, inputs[b])])
        difference = body.temporary([(one, inputs[a]), (-one, inputs[b])])
        for i, row in enumerate(rows):
            if matrix[i][a]:
                name = total if matrix[i][a] == matrix[i][b] else difference
                kept = [term for term in row if term[1] not in (inputs[a], inputs[b])]
                rows[i] = [*kept, (matrix[i][a], name)]
    return rows


def _same_size(one: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    return any(one) and all(abs(x) == abs(y) for x, y in zip(one, other, strict=True))


def _pairs_of_rows(rows: Sequence[Sequence[Term]]) -> Iterator[tuple[int, int]]:
    """Yield rows that are sum and difference of the same two parts of several terms."""

    def is_pair(a: int, b: int) -> bool:
        one, other = ({name: value for value, name in rows[i]} for i in (a, b))
        if one.keys() != other.keys() or any(abs(one[n]) != abs(other[n]) for n in one):
            return False
        same = sum(one[name] == other[name] for name in one)
        return 0 < same < len(one) and len(one) > 2

    return _disjoint_pairs(len(rows), is_pair)


def _disjoint_pairs(count: int, is_pair: Callable[[int, int], bool]) -> Iterator[tuple[int, int]]:
    used: set[int] = set()
    for a in range(count):
        for b in range(a + 1, count):
            if a not in used and b not in used and is_pair(a, b):
                used |= {a, b}
                yield a, b


def _even_and_odd(one: Sequence[Term], other: Sequence[Term]) -> tuple[list[Term], list[Term]]:
    values = {name: value for value, name in other}
    even = [term for term in one if values[term[1]] == term[0]]
    return even, [term for term in one if values[term[1]] != term[0]]


def _sum(terms: Sequence[Term]) -> str:
    """Return an expression of fused multiply-adds; terms without a factor come first."""
    if not terms:
        return "(VALUE)(0.0f)"
    text = ""
    for value, name in sorted(terms, key=lambda term: (abs(term[0]) != 1, term[0] < 0)):
        if not text:
            text = {1: name, -1: f"-{name}"}.get(_unit(value), f"{name} * {_literal(value)}")
        elif _unit(value):
            text += f" + {name}" if value > 0 else f" - {name}"
        else:
            text = f"MULTIPLY_ADD({_literal(value)}, {name}, {text})"
    return text


def _unit(value: Fraction) -> int:
    return int(value) if abs(value) == 1 else 0


def _literal(value: Fraction) -> str:
    return f"{float(value)!r}f"


def header(transform: Transform) -> str:
    """Return the C header with a transform's three functions."""
    name = f"F({transform.m}, {transform.r}){' of stride 2' if transform.spread else ''}"
    guard = f"TRANSFORM_{transform.name.upper()}_H"
    points = ", ".join(map(str, transform.points))
    matrices = {
        "data": transform.data,
        "filter": transform.filter[: transform.filter_points],
        "result": transform.result,
    }
    functions = "\n".join(function(f"transform_{what}", m) for what, m in matrices.items())
    return (
        "// Generated by convfind_solvers_winograd.codegen:"
        f" {name}, points {points} and infinity.\n"
        f"#ifndef {guard}\n#define {guard}\n\n"
        f"#define OUTPUTS {transform.m}\n#define TAPS {transform.r}\n{_sizes(transform)}\n"
        f"{functions}\n#endif\n"
    )


def _sizes(transform: Transform) -> str:
    """Return what does not follow from outputs and taps."""
    if not transform.spread:
        return ""
    sizes = {
        "N": transform.n,
        "VALUES": transform.values,
        "STRIDE": transform.step,
        "FILTER_POINTS": transform.filter_points,
    }
    return "".join(f"#define {name} {size}\n" for name, size in sizes.items())


def files() -> dict[Path, str]:
    """Return every generated file with its contents."""
    return {KERNELS / f"transform_{t.name}.h": header(t) for t in TRANSFORMS}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
