"""Functions in place of mock kernels: the reference convolution, correct or wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from convfind.checking.reference import reference_convolution
from convfind.problem import ConvProblem
from convfind.runtime.tensors import tensor_view
from convfind.solver.recipe import ScalarArg, i64
from convfind.testing.conformance_functions import CONFORMANCE_FUNCTIONS
from convfind.testing.tensors import Bytes


def problem_arguments(problem: ConvProblem) -> tuple[ScalarArg, ...]:
    """Encode a problem as kernel arguments, so that one mock program serves every problem."""
    text = problem.text.encode()
    words = np.frombuffer(text + b" " * (-len(text) % 8), np.int64)
    return tuple(i64(int(word)) for word in words)


def mock_convolution(x: Bytes, w: Bytes, y: Bytes, *words: np.int64) -> None:
    """Compute the problem that the arguments encode."""
    _convolve(x, w, y, words, factor=1.0)


def mock_fused(x: Bytes, w: Bytes, y: Bytes, *others: Bytes | np.int64) -> None:
    """Compute a problem whose other operands come before the arguments that encode it."""
    more = [other for other in others if isinstance(other, np.ndarray)]
    words = tuple(other for other in others if isinstance(other, np.int64))
    _convolve(x, w, y, words, 1.0, more)


def mock_wrong(x: Bytes, w: Bytes, y: Bytes, *words: np.int64) -> None:
    """Compute the problem, with results 1.5 times too large."""
    _convolve(x, w, y, words, factor=1.5)


def mock_scratch(
    x: Bytes, w: Bytes, y: Bytes, scratch: Bytes, size: np.int64, *words: np.int64
) -> None:
    """Compute the problem, and overwrite scratch memory."""
    scratch[:size] = 0xAB
    _convolve(x, w, y, words, factor=1.0)


def mock_pack(w: Bytes, packed: Bytes, size: np.int64) -> None:
    """Copy the weights."""
    packed[:size] = w[:size]


def mock_fingerprint(
    memory: Bytes, sums: Bytes, words: np.int64, rest: np.int32, seed: np.int64
) -> None:
    """Sum words, each times an odd number that follows from its place, as one work-group would."""
    numbers = memory[: 4 * words].view(np.uint32).astype(np.uint64)
    numbers = np.concatenate([numbers, memory[4 * words : 4 * words + rest].astype(np.uint64)])
    mixed = np.arange(numbers.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed = (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
    sums[...] = 0
    sums[:8].view(np.uint64)[...] = (mixed * numbers).sum(dtype=np.uint64)


def _convolve(
    x: Bytes,
    w: Bytes,
    y: Bytes,
    words: tuple[np.int64, ...],
    factor: float,
    more: Sequence[Bytes] = (),
) -> None:
    problem = ConvProblem.from_key(np.array(words, np.int64).tobytes().decode().strip())
    memory = {"x": x, "w": w, "y": y, **dict(zip(problem.reads[2:], more, strict=True))}
    views = {tensor: tensor_view(problem, tensor, memory[tensor]) for tensor in memory}
    first, second = problem.direction.reads
    out = views[problem.direction.writes]
    z, bias = views.get("z", out), views.get("bias")
    result = reference_convolution(problem, views[first], views[second], z, bias)
    out[...] = (factor * result).astype(out.dtype)


MOCK_FUNCTIONS: Mapping[str, Callable[..., None]] = {
    "mock_convolution": mock_convolution,
    "mock_fused": mock_fused,
    "mock_wrong": mock_wrong,
    "mock_scratch": mock_scratch,
    "mock_pack": mock_pack,
    "fingerprint": mock_fingerprint,
    **CONFORMANCE_FUNCTIONS,
}
