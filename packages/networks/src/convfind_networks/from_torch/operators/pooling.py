"""Pooling, interpolation and sampling."""

from __future__ import annotations

from collections.abc import Sequence

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    AveragePool,
    Concat,
    Coordinates,
    GlobalPool,
    Interpolation,
    MaxPool,
    PoolKind,
    ReduceFunction,
    Resize,
    Rounding,
    Slice,
    Window,
)
from convfind_networks.sampling import Border, Sampling, sampled_in_grid


def _window(node: AtenNode, x: Value, rank: int) -> Window:
    if x.type.rank != rank + 2:
        raise NotSupported("an image without a batch")
    size = node.numbers("kernel_size", rank, 1)
    stride = node.numbers("stride", rank, 0)
    pads = node.numbers("padding", rank, 0)
    return Window(
        size,
        tuple(step or own for step, own in zip(stride, size, strict=True)),
        pads,
        pads,
        node.numbers("dilation", rank, 1),
        bool(node.get("ceil_mode", False)),
    )


def _max_pool(rank: int) -> AtenOperator:
    """Return the function of a max pooling, without PyTorch's indices."""

    def add(node: AtenNode) -> tuple[Value, ...]:
        x = node.value()
        return (node.add(MaxPool(_window(node, x, rank)), x),)

    return add


def _average_pool(rank: int) -> AtenOperator:
    def add(node: AtenNode) -> Value:
        x = node.value()
        op = AveragePool(
            _window(node, x, rank),
            bool(node.get("count_include_pad", True)),
            node.get("divisor_override"),
        )
        return node.add(op, x)

    return add


def _adaptive(rank: int, kind: PoolKind) -> AtenOperator:
    """Return the function of a pooling to a given size: regular where the sizes divide."""

    def add(node: AtenNode) -> Value:
        x = node.value()
        wanted = node.get("output_size")
        wanted = [wanted] if isinstance(wanted, int) else list(wanted)
        sizes = [one or own for one, own in zip(wanted * rank, x.shape[2:], strict=False)]
        if x.type.rank != rank + 2:
            raise NotSupported("an image without a batch")
        if all(size == 1 for size in sizes):
            return node.add(GlobalPool(kind), x)
        if any(own % size for own, size in zip(x.shape[2:], sizes, strict=True)):
            return _of_unequal_windows(node, x, sizes, kind)
        step = tuple(own // size for own, size in zip(x.shape[2:], sizes, strict=True))
        window = Window(step, step, (0,) * rank, (0,) * rank, (1,) * rank)
        return node.add(MaxPool(window) if kind is PoolKind.MAX else AveragePool(window), x)

    return add


def _of_unequal_windows(node: AtenNode, x: Value, sizes: Sequence[int], kind: PoolKind) -> Value:
    """Return a pooling to sizes that do not divide: one axis after the other, window by window."""
    function = ReduceFunction.MAX if kind is PoolKind.MAX else ReduceFunction.MEAN
    for axis, size in enumerate(sizes, start=2):
        own = x.shape[axis]
        parts = (slice(at * own // size, -(-(at + 1) * own // size)) for at in range(size))
        windows = (node.add(Slice.of(x.shape, {axis: part}), x) for part in parts)
        x = node.add(Concat(axis), *(node.reduce(function, window, axis) for window in windows))
    return x


def _upsample(
    interpolation: Interpolation, *, exact: bool = False, antialias: bool = False
) -> AtenOperator:
    """Return the function of an interpolation.

    Args:
        interpolation: between which elements.
        exact: the nearest element is nearest to an element's centre, as Pillow has it.
        antialias: narrower results take of more elements, also as Pillow has it.
    """

    def add(node: AtenNode) -> Value:
        x = node.value()
        rank = x.type.rank - 2
        given = node.get("scale_factors") or [
            node.get(name) for name in ("scales_d", "scales_h", "scales_w")[3 - rank :]
        ]
        if rank == 1 and not any(given):
            given = [node.get("scales")]
        sizes = node.get("output_size")
        if sizes is None:
            sizes = [int(own * by) for own, by in zip(x.shape[2:], given, strict=True)]
        scales = [
            float(by) if by else size / own
            for own, size, by in zip(x.shape[2:], sizes, [*given, *[None] * rank], strict=False)
        ]
        corners = bool(node.get("align_corners", False))
        coordinates = Coordinates.ALIGN_CORNERS if corners else Coordinates.HALF_PIXEL
        rounding = Rounding.PREFER_FLOOR
        if interpolation is Interpolation.NEAREST:
            rounding = Rounding.PREFER_CEIL if exact else Rounding.FLOOR
            coordinates = Coordinates.HALF_PIXEL if exact else Coordinates.ASYMMETRIC
        if corners:  # the scales mean nothing then but the sizes
            scales = [size / own for own, size in zip(x.shape[2:], sizes, strict=True)]
        op = Resize(
            (*x.shape[:2], *(int(size) for size in sizes)),
            (1.0, 1.0, *scales),
            interpolation,
            coordinates,
            rounding,
            cubic=-0.5 if antialias else -0.75,
            exclude_outside=antialias,
            antialias=antialias,
        )
        return node.add(op, x)

    return add


def grid_sample(node: AtenNode) -> Value:
    """aten.grid_sampler."""
    x, grid = node.value("input"), node.value("grid")
    border = (Border.ZEROS, Border.BORDER, Border.REFLECTION)[int(node.get("padding_mode"))]
    kinds = (Interpolation.LINEAR, Interpolation.NEAREST, Interpolation.CUBIC)
    how = Sampling(kinds[int(node.get("interpolation_mode"))], border)
    return sampled_in_grid(node, x, grid, how, corners=bool(node.get("align_corners")))


def _ranked(rank: int) -> AtenOperators:
    """Return the operators that exist for each number of spatial dimensions."""
    return {
        f"max_pool{rank}d": _max_pool(rank),
        f"max_pool{rank}d_with_indices": _max_pool(rank),
        f"avg_pool{rank}d": _average_pool(rank),
        f"adaptive_avg_pool{rank}d": _adaptive(rank, PoolKind.AVERAGE),
        f"_adaptive_avg_pool{rank}d": _adaptive(rank, PoolKind.AVERAGE),
        f"adaptive_max_pool{rank}d": _adaptive(rank, PoolKind.MAX),
        f"upsample_nearest{rank}d": _upsample(Interpolation.NEAREST),
        f"_upsample_nearest_exact{rank}d": _upsample(Interpolation.NEAREST, exact=True),
    }


OPERATORS: AtenOperators = {
    **_ranked(1),
    **_ranked(2),
    **_ranked(3),
    "upsample_linear1d": _upsample(Interpolation.LINEAR),
    "upsample_bilinear2d": _upsample(Interpolation.LINEAR),
    "upsample_trilinear3d": _upsample(Interpolation.LINEAR),
    "upsample_bicubic2d": _upsample(Interpolation.CUBIC),
    "_upsample_bilinear2d_aa": _upsample(Interpolation.LINEAR, antialias=True),
    "_upsample_bicubic2d_aa": _upsample(Interpolation.CUBIC, antialias=True),
    "grid_sampler": grid_sample,
    "grid_sampler_2d": grid_sample,
    "grid_sampler_3d": grid_sample,
}
