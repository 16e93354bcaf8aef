"""Which pieces are computed where they are joined, and read where they are taken from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from networks_for_tests import graph_of, laid_out_alike
from plans_for_tests import Layers

from convfind_networks import Value
from convfind_networks.graph import Within
from convfind_networks.layouts import LaidOut, nested
from convfind_networks.ops import (
    Concat,
    Convolution,
    Epilogue,
    Geometry,
    LayoutCopy,
    Reshape,
    Slice,
    Split,
)

X = (2, 32, 5, 7)


def nested_of(
    make: Callable[[Layers, Value], Any],
    x: tuple[int, ...] = X,
    *,
    last: bool = True,
    **how: Any,
) -> LaidOut:
    """Lay out a graph channels last, or first, and nest what can be."""
    graph = graph_of(lambda b, x: make(Layers(b), x), x)
    return nested(laid_out_alike(graph, last=last), **how)


def join(make: Layers, *pieces: Value) -> Value:
    return make.builder.add(Concat(1), *pieces)


def places(laid_out: LaidOut) -> list[int]:
    """Return the first channels of all values that lie within others, in order."""
    names = [node.output for node in laid_out.graph.nodes]
    return [laid_out.within[name].start for name in names if name in laid_out.within]


def test_both_pieces_of_a_fire_module_lie_in_the_whole() -> None:
    def make(net: Layers, x: Value) -> Value:
        narrow = net.relu(net.convolution(x, 16, size=1))
        pieces = net.convolution(narrow, 64, size=1), net.convolution(narrow, 32)
        return net.relu(join(net, *pieces))

    laid_out = nested_of(make)
    assert places(laid_out) == [0, 64]
    (whole,) = {place.whole for place in laid_out.within.values()}
    assert laid_out.graph.producers[whole].op == Concat(1)
    name = next(iter(laid_out.within))
    assert laid_out.own_strides(name) == (5 * 7 * 96, 1, 7 * 96, 96)
    assert laid_out.own_strides(whole) is None


def test_a_dense_block_is_one_tensor_from_its_first_concatenation_on() -> None:
    def make(net: Layers, x: Value) -> Value:
        for _ in range(4):
            x = join(net, x, net.convolution(net.relu(net.norm(x)), 32))
        return net.relu(x)

    laid_out = nested_of(make)
    # layers begin at 32, 64, ..; the concatenations before the last begin where it does
    assert places(laid_out) == [32, 0, 64, 0, 96, 0, 128]
    assert len({place.whole for place in laid_out.within.values()}) == 1


@pytest.mark.parametrize(("alignment", "expected"), [(128, [0]), (4, [0, 12])])
def test_a_depthwise_piece_lies_beside_the_one_that_it_reads(
    alignment: int, expected: list[int]
) -> None:
    def make(net: Layers, x: Value) -> Value:
        one = net.convolution(x, 12, size=1)
        return net.convolution(join(net, one, net.convolution(one, 12, groups=12)), 8, size=1)

    assert places(nested_of(make, alignment=alignment)) == expected


def test_what_a_depthwise_convolution_adds_to_its_result_lies_as_that_does() -> None:
    def make(net: Layers, x: Value) -> Value:
        one = net.convolution(x, 12, size=1)
        geometry = Geometry((1, 1), (1, 1), (1, 1), (1, 1), 12)
        op = Convolution(geometry, Epilogue(False, residual=True))
        both = net.builder.add(op, one, net.weights(12, 1, 3, 3), one)
        return net.relu(join(net, one, net.relu(both), net.convolution(x, 12, size=1)))

    assert places(nested_of(make, alignment=4)) == [24]


def halves(net: Layers, x: Value) -> tuple[Value, Value]:
    """Return both halves of a computed value's channels."""
    whole = net.convolution(x, 24)
    one, two = net.builder.add_all(Split(1, (12, 12)), whole)
    return one, two


@pytest.mark.parametrize(("alignment", "expected"), [(128, [0]), (4, [0, 12])])
def test_pieces_of_a_split_are_read_where_they_lie(alignment: int, expected: list[int]) -> None:
    def make(net: Layers, x: Value) -> Value:
        one, two = halves(net, x)
        return net.sum(net.convolution(one, 12, size=1), net.convolution(two, 12, groups=12))

    laid_out = nested_of(make, alignment=alignment)
    assert sorted(place.start for place in laid_out.within.values()) == expected
    assert laid_out.own_strides(next(iter(laid_out.within))) == (5 * 7 * 24, 1, 7 * 24, 24)


def test_pieces_of_a_split_that_others_read_too_are_copied() -> None:
    def make(net: Layers, x: Value) -> dict[str, Value]:
        one, two = halves(net, x)
        return {"y": net.sum(net.convolution(one, 12), net.convolution(two, 12, size=1)), "z": two}

    assert not nested_of(make, alignment=4).within


def rows(net: Layers, x: Value, *sizes: int, axis: int = -1) -> tuple[Value, ...]:
    """Return pieces of a computed value."""
    return net.builder.add_all(Split(axis % x.type.rank, sizes), net.relu(x))


def starts(laid_out: LaidOut) -> list[int]:
    return sorted(place.start for place in laid_out.within.values())


def starts_first(make: Callable[[Layers, Value], Any], x: tuple[int, ...], **how: Any) -> list[int]:
    return starts(nested_of(make, x, last=False, **how))


@pytest.mark.parametrize(
    ("x", "axis", "expected"),
    [
        ((2, 5, 128), -1, [0, 64]),
        ((10, 128), -1, [0, 64]),
        ((2, 8, 5, 16), 1, [0, 4 * 80]),  # channels-first, each image has its own
        ((1, 8, 5, 16), 1, []),  # which are pieces of one row
        ((128,), -1, []),
        ((2, 5, 120), -1, [0]),  # the other begins between cache lines
        ((2, 5, 32), -1, []),  # rows of 64 bytes
    ],
)
def test_halves_along_any_axis_are_read_where_they_lie(
    x: tuple[int, ...], axis: int, expected: list[int]
) -> None:
    def make(net: Layers, x: Value) -> Value:
        half = x.shape[axis] // 2
        return net.sum(*rows(net, x, half, half, axis=axis))

    assert starts_first(make, x) == expected
    assert starts_first(make, x, convolutions=False) == expected


def test_parts_of_rows_are_read_where_they_lie_and_every_other_element_is_copied() -> None:
    def make(net: Layers, x: Value) -> Value:
        y = net.relu(x)
        parts = [slice(32, 96), slice(64, 128), slice(0, 128, 2), slice(127, 63, -1)]
        one, *more = (net.builder.add(Slice.of(x.shape, {2: part}), y) for part in parts)
        for other in more:
            one = net.sum(one, other)
        return one

    assert starts_first(make, (2, 5, 128)) == [32, 64]


def test_what_moves_no_elements_one_by_one_reads_copies() -> None:
    def make(net: Layers, x: Value) -> dict[str, Value]:
        one, two = rows(net, x, 64, 64)
        return {"y": net.builder.add(Reshape((10, 64)), one), "z": net.relu(two), "two": two}

    assert not starts_first(make, (2, 5, 128))


def test_convolutions_read_and_store_apart_only_where_kernels_are_as_quick() -> None:
    def make(net: Layers, x: Value) -> Value:
        one, two = halves(net, x)
        one, two = net.convolution(one, 12, size=1), net.relu(two)
        return net.relu(join(net, one, two, net.convolution(x, 12, size=1)))

    assert starts(nested_of(make, alignment=4)) == [0, 0, 12, 24]
    assert starts(nested_of(make, alignment=4, convolutions=False)) == [12]


def test_what_is_joined_within_a_piece_counts_from_the_whole() -> None:
    def make(net: Layers, x: Value) -> Value:
        a, b, c = (net.convolution(x, channels, size=1) for channels in (32, 64, 32))
        return net.relu(join(net, a, join(net, b, c)))

    assert sorted(places(nested_of(make))) == [0, 32, 32, 96]


def test_channels_first_and_in_volumes_of_one_element_nothing_lies_apart() -> None:
    def make(net: Layers, x: Value) -> Value:
        return net.relu(join(net, net.convolution(x, 32), net.convolution(x, 32)))

    assert places(nested_of(make)) == [0, 32]
    assert not places(nested_of(make, last=False))
    assert not places(nested_of(make, (2, 32, 1, 1)))


def of_pieces(pieces: Callable[[Layers, Value], tuple[Value, ...]]) -> LaidOut:
    return nested_of(lambda net, x: net.relu(join(net, *pieces(net, x))))


def added(net: Layers, x: Value) -> Value:
    """Return a convolution with a residual, which would have to lie as the result does."""
    geometry = Geometry((1, 1), (0, 0), (0, 0), (1, 1))
    op = Convolution(geometry, Epilogue(False, residual=True))
    return net.builder.add(op, x, net.weights(32, 32, 1, 1), x)


@pytest.mark.parametrize(
    "piece",
    [
        lambda net, x: x,
        lambda net, x: net.convolution(x, 32, size=5),
        lambda net, x: net.convolution(x, 32, groups=32),
        lambda net, x: net.convolution(net.convolution(x, 32), 32, stride=2, padding=3, size=3),
        added,
        lambda net, x: net.relu(x),
    ],
)
def test_pieces_that_others_compute_are_copied(piece: Callable[[Layers, Value], Value]) -> None:
    def pieces(net: Layers, x: Value) -> tuple[Value, ...]:
        first = piece(net, x)
        return first, net.convolution(first, 32)

    assert places(of_pieces(pieces)) == [32]


def test_pieces_between_cache_lines_are_copied() -> None:
    def pieces(net: Layers, x: Value) -> tuple[Value, ...]:
        return tuple(net.convolution(x, channels, size=1) for channels in (32, 8, 24, 32))

    assert places(of_pieces(pieces)) == [0, 32, 64]
    narrow = nested_of(lambda net, x: net.relu(join(net, *pieces(net, x))), alignment=4)
    assert places(narrow) == [0, 32, 40, 64]


def test_a_piece_that_a_convolution_reads_too_is_copied() -> None:
    def pieces(net: Layers, x: Value) -> tuple[Value, ...]:
        first = net.convolution(x, 32)
        return first, net.convolution(first, 32)

    assert places(of_pieces(pieces)) == [32]


def test_a_piece_that_is_joined_twice_lies_in_one_whole() -> None:
    def twice(net: Layers, x: Value) -> tuple[Value, ...]:
        one = net.convolution(x, 32)
        return one, one

    assert not places(of_pieces(twice))

    def make(net: Layers, x: Value) -> dict[str, Value]:
        one, other = net.convolution(x, 32), net.convolution(x, 64)
        return {"a": net.relu(join(net, one, other)), "b": net.relu(join(net, other, one))}

    laid_out = nested_of(make)
    assert sorted(places(laid_out)) == [0, 64]
    assert len({place.whole for place in laid_out.within.values()}) == 1


def test_an_output_is_copied_into_what_it_is_a_piece_of() -> None:
    def make(net: Layers, x: Value) -> dict[str, Value]:
        one = net.convolution(x, 32)
        two = net.convolution(x, 32)
        return {"one": one, "both": net.relu(join(net, one, two))}

    laid_out = nested_of(make)
    copies = {node.output for node in laid_out.graph.nodes if isinstance(node.op, LayoutCopy)}
    assert not copies & laid_out.within.keys()
    outputs = set(laid_out.graph.outputs.values())
    assert not outputs & laid_out.within.keys()
    assert all(isinstance(place, Within) for place in laid_out.within.values())
