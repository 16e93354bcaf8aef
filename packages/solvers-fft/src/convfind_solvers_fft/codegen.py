"""Transforms as straight-line C.

``python -m convfind_solvers_fft.codegen`` writes the ``fft_*.h`` files in ``kernels/``. They are
written for any type: whoever includes them defines VALUE, INLINE and
MULTIPLY_ADD(constant, value, addend).
"""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from convfind_solvers_fft.fourier import Graph, Node, Operation, adjoint, complex_graph, real_graph

KERNELS = Path(__file__).parent / "kernels"
#: Sizes of tiles.
SIZES = (16, 24, 32, 48, 64)


@dataclass(frozen=True, slots=True)
class Arrays:
    """C expressions of a graph's inputs or outputs, and the parameters that they mean."""

    parameters: str
    elements: tuple[str, ...]


def numbers(name: str, n: int) -> Arrays:
    """Real numbers, a step apart."""
    return Arrays(
        f"{{}}VALUE *{name}, const int {name}_step",
        tuple(f"{name}[{i} * {name}_step]" for i in range(n)),
    )


def spectrum(name: str, n: int, *, half: bool) -> Arrays:
    """Complex numbers in two arrays of one step; of the half of a spectrum as `real_graph`."""
    real = range(n // 2 + 1 if half else n)
    imaginary = range(1, n // 2) if half else real
    return Arrays(
        f"{{0}}VALUE *{name}_re, {{0}}VALUE *{name}_im, const int {name}_step",
        (
            *(f"{name}_re[{i} * {name}_step]" for i in real),
            *(f"{name}_im[{i} * {name}_step]" for i in imaginary),
        ),
    )


@dataclass(slots=True)
class _Writer:
    """The statements of one function, in the order of the graph's nodes."""

    graph: Graph
    sources: tuple[str, ...]
    results: tuple[str, ...]
    lines: list[str] = field(default_factory=list)
    read: set[int] = field(default_factory=set)

    def statements(self) -> list[str]:
        """Return C statements that read all inputs before they write an output.

        Raises:
            ValueError: the graph's order does not allow that.
        """
        used = self.graph.used()
        counts = Counter(
            operand
            for place in used
            if self.graph.nodes[place].operation is not Operation.INPUT
            for operand in self.graph.nodes[place].operands
        )
        ends: dict[int, list[str]] = {}
        for text, value in zip(self.results, self.graph.outputs, strict=True):
            if value is not None:
                sign = "-" if value.negative else ""
                ends.setdefault(value.node, []).append(f"{text} = {sign}t{value.node};")
        fused = {
            place
            for place in used
            if self.graph.nodes[place].operation is Operation.SCALE
            and counts[place] == 1
            and place not in ends
        }
        stored = False
        for place in used:
            node = self.graph.nodes[place]
            if node.operation is not Operation.INPUT and place not in fused:
                before = len(self.read)
                text = self._expression(node, fused)
                if stored and len(self.read) > before:
                    msg = "the graph uses an input after it computed an output"
                    raise ValueError(msg)
                self.lines.append(f"const VALUE t{place} = {text};")
            if place in ends:
                stored = True
                self.lines += ends[place]
        return self.lines

    def _expression(self, node: Node, fused: set[int]) -> str:
        if node.operation is Operation.SCALE:
            return self._scaled(node)
        first, second = node.operands
        minus = "-" if node.operation is Operation.SUBTRACT else ""
        if second in fused:
            scale = self.graph.nodes[second]
            addend = self._scaled(self.graph.nodes[first]) if first in fused else self._name(first)
            factor = f"{minus}{_literal(scale.factor)}"
            return f"MULTIPLY_ADD({factor}, {self._name(scale.operands[0])}, {addend})"
        if first in fused:
            scale = self.graph.nodes[first]
            name, addend = self._name(scale.operands[0]), self._name(second)
            return f"MULTIPLY_ADD({_literal(scale.factor)}, {name}, {minus}{addend})"
        return f"{self._name(first)} {minus or '+'} {self._name(second)}"

    def _scaled(self, node: Node) -> str:
        return f"{_literal(node.factor)} * {self._name(node.operands[0])}"

    def _name(self, place: int) -> str:
        """Return a node's variable; an input is read where it is first used."""
        node = self.graph.nodes[place]
        if node.operation is Operation.INPUT and place not in self.read:
            self.read.add(place)
            self.lines.append(f"const VALUE t{place} = {self.sources[node.operands[0]]};")
        return f"t{place}"


def function(name: str, graph: Graph, source: Arrays, result: Arrays) -> str:
    """Return a C function, which may work in place."""
    statements = _Writer(graph, source.elements, result.elements).statements()
    parameters = f"{source.parameters.format('const ')}, {result.parameters.format('')}"
    body = _wrapped(" ".join(statements), 2)
    return f"INLINE void {name}({_wrapped(parameters, 4)}) {{\n  {body}\n}}\n"


def _wrapped(text: str, indent: int) -> str:
    lines = textwrap.wrap(text, 118 - indent, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def _literal(number: float) -> str:
    """As many digits as a float keeps."""
    return f"{float(f'{number:.9g}')!r}f"


def complex_header(n: int) -> str:
    """Return the C header with the transform of complex numbers."""
    ends = spectrum("in", n, half=False), spectrum("out", n, half=False)
    return _header(
        f"FFT_COMPLEX_{n}_H",
        f"The Fourier transform of {n} complex numbers; with re and im changed places,\n"
        f"// {n} times the inverse.",
        function("fft_complex", complex_graph(n), *ends),
    )


def real_header(n: int) -> str:
    """Return the C header with the transform of real numbers and its adjoint."""
    graph = real_graph(n)
    half, whole = spectrum("in", n, half=True), numbers("in", n)
    return _header(
        f"FFT_REAL_{n}_H",
        f"The half spectrum of {n} real numbers: re of 0 to n/2, im of 1 to n/2 - 1. And\n"
        f"// {n} times the inverse of a half spectrum of which all but 0 and n/2 were doubled.",
        function("fft_real", graph, whole, spectrum("out", n, half=True)),
        function("fft_adjoint", adjoint(graph), half, numbers("out", n)),
    )


def _header(guard: str, text: str, *functions: str) -> str:
    body = "\n".join(functions)
    return (
        f"// Generated by convfind_solvers_fft.codegen.\n// {text}\n"
        f"#ifndef {guard}\n#define {guard}\n\n{body}\n#endif\n"
    )


def files() -> dict[Path, str]:
    """Return every generated file with its contents."""
    return {KERNELS / f"fft_complex_{n}.h": complex_header(n) for n in SIZES} | {
        KERNELS / f"fft_real_{n}.h": real_header(n) for n in SIZES
    }


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
