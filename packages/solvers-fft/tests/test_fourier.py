"""The graphs are Fourier transforms, and their C is up to date."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convfind_solvers_fft.codegen import SIZES, files
from convfind_solvers_fft.fourier import (
    Graph,
    Operation,
    adjoint,
    complex_graph,
    cosine,
    real_graph,
)

each_size = pytest.mark.parametrize("n", [2, 4, 6, 12, *SIZES])


def _evaluated(graph: Graph, inputs: Any) -> Any:
    values: list[float] = []
    for node in graph.nodes:
        if node.operation is Operation.INPUT:
            values.append(inputs[node.operands[0]])
        elif node.operation is Operation.SCALE:
            values.append(node.factor * values[node.operands[0]])
        else:
            first, second = (values[place] for place in node.operands)
            values.append(first + second if node.operation is Operation.ADD else first - second)
    return np.array(
        [
            0.0 if term is None else -values[term.node] if term.negative else values[term.node]
            for term in graph.outputs
        ]
    )


def _numbers(count: int) -> Any:
    return np.random.default_rng(count).standard_normal(count)


@each_size
def test_complex_numbers(n: int) -> None:
    given_ = _numbers(2 * n)
    result = _evaluated(complex_graph(n), given_)
    expected = np.fft.fft(given_[:n] + 1j * given_[n:])
    np.testing.assert_allclose(result[:n] + 1j * result[n:], expected, atol=1e-13 * n)


@each_size
def test_real_numbers_and_back(n: int) -> None:
    given_ = _numbers(n)
    graph = real_graph(n)
    result = _evaluated(graph, given_)
    expected = np.fft.rfft(given_)
    half = np.concatenate([expected.real, expected.imag[1 : n // 2]])
    np.testing.assert_allclose(result, half, atol=1e-13 * n)
    doubled = 2 * result
    doubled[[0, n // 2]] /= 2
    np.testing.assert_allclose(_evaluated(adjoint(graph), doubled) / n, given_, atol=1e-13 * n)


@pytest.mark.parametrize("n", SIZES)
def test_real_numbers_cost_half(n: int) -> None:
    assert real_graph(n).operations() < 0.5 * complex_graph(n).operations()
    assert adjoint(real_graph(n)).operations() == real_graph(n).operations()


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="prime factors beside 2 and 3"):
        complex_graph(20)


@given(st.integers(-200, 200), st.integers(1, 200))
def test_cosines_of_equal_size_are_equal(numerator: int, denominator: int) -> None:
    value = cosine(numerator, denominator)
    assert value == pytest.approx(math.cos(2 * math.pi * numerator / denominator), abs=1e-12)
    assert value == cosine(-numerator, denominator)
    assert value == -cosine(2 * numerator + denominator, 2 * denominator)


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_headers_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], (
        "run python -m convfind_solvers_fft.codegen"
    )
