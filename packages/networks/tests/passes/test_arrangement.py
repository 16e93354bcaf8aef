"""Arrangements are NumPy's views, and more: axes come apart that have no stride together."""

from __future__ import annotations

import numpy as np
import pytest

from convfind_networks.ops import Op, Reshape, Slice, Split, Transpose
from convfind_networks.ops.op import as_tuple
from convfind_networks.passes.arrangement import Arrangement


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Op:
    """Return a rearrangement of a tensor."""
    axis = int(rng.integers(len(shape)))
    match rng.integers(4):
        case 0:
            return Transpose(tuple(map(int, rng.permutation(len(shape)))))
        case 1:
            first = int(rng.integers(1, shape[axis] + 1))
            return Split(axis, (first, shape[axis] - first))
        case 2:
            begin = int(rng.integers(shape[axis]))
            return Slice.of(shape, {axis: slice(begin, None, int(rng.integers(1, 3)))})
    sizes = [factor for size in shape for factor in ((2, size // 2) if size % 2 == 0 else (size,))]
    cuts = sorted(rng.choice(len(sizes) + 1, int(rng.integers(1, 5)), replace=False))
    ends = zip([0, *cuts], [*cuts, len(sizes)], strict=True)
    return Reshape(tuple(int(np.prod(sizes[begin:end])) for begin, end in ends))


@pytest.mark.parametrize("seed", range(200))
def test_elements_are_where_the_operations_put_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.arange(4 * 6 * 2 * 5).reshape(4, 6, 2, 5)
    part, y = Arrangement.packed(x.shape), x
    for _ in range(4):
        op = drawn(rng, y.shape)
        after = part.after(op)
        y = as_tuple(op.evaluate(y))[0]
        if after is None or not y.size:
            return
        part = after
        view = part.view()
        if view is not None:
            assert view.shape == y.shape
            np.testing.assert_array_equal(view.of(x), y)
            assert x.reshape(-1)[view.start : view.end].max() == y.max()


@pytest.mark.parametrize("seed", range(50))
def test_what_was_rearranged_is_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.arange(4 * 6 * 10).reshape(4, 6, 10)
    ops, shapes, y = list[Op](), list[tuple[int, ...]](), x
    for _ in range(3):
        op = drawn(rng, y.shape)
        if isinstance(op, (Reshape, Transpose)):
            ops.append(op)
            shapes.append(y.shape)
            y = as_tuple(op.evaluate(y))[0]
    part: Arrangement | None = Arrangement.packed(y.shape)
    for op, shape in zip(reversed(ops), reversed(shapes), strict=True):
        part = part.before(op, shape) if part is not None else None
    view = part.view() if part is not None else None
    if view is not None:
        np.testing.assert_array_equal(view.of(np.ascontiguousarray(y)), x)


def test_heads_of_a_batch_are_an_axis_of_their_own_again() -> None:
    # As PyTorch's MultiheadAttention has it: the sequence first, heads and batch as one.
    part: Arrangement | None = Arrangement.packed((7, 3, 96))
    steps = (
        Slice.of((7, 3, 96), {2: slice(32, 64)}),
        Reshape((7, 6, 16)),
        Transpose((1, 0, 2)),
        Reshape((3, 2, 7, 16)),
    )
    for op in steps:
        part = part.after(op) if part is not None else None
    view = part.view() if part is not None else None
    assert view is not None
    assert (view.strides, view.start) == ((96, 16, 288, 1), 32)
