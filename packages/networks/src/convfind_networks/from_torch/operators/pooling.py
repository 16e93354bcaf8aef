"""Pooling and interpolation."""

from __future__ import annotations

from convfind_networks.from_torch.node import AtenNode, AtenOperator, AtenOperators
from convfind_networks.graph import Value
from convfind_networks.importing import NotSupported
from convfind_networks.ops import (
    AveragePool,
    Coordinates,
    GlobalPool,
    Interpolation,
    MaxPool,
    PoolKind,
    Resize,
    Rounding,
    Window,
)


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
            raise NotSupported(f"windows of different sizes, of {x.shape[2:]} to {tuple(sizes)}")
        step = tuple(own // size for own, size in zip(x.shape[2:], sizes, strict=True))
        window = Window(step, step, (0,) * rank, (0,) * rank, (1,) * rank)
        return node.add(MaxPool(window) if kind is PoolKind.MAX else AveragePool(window), x)

    return add


def _upsample(interpolation: Interpolation) -> AtenOperator:
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
            coordinates, rounding = Coordinates.ASYMMETRIC, Rounding.FLOOR
        if corners:  # the scales mean nothing then but the sizes
            scales = [size / own for own, size in zip(x.shape[2:], sizes, strict=True)]
        op = Resize(
            (*x.shape[:2], *(int(size) for size in sizes)),
            (1.0, 1.0, *scales),
            interpolation,
            coordinates,
            rounding,
        )
        return node.add(op, x)

    return add


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
    }


OPERATORS: AtenOperators = {
    **_ranked(1),
    **_ranked(2),
    **_ranked(3),
    "upsample_linear1d": _upsample(Interpolation.LINEAR),
    "upsample_bilinear2d": _upsample(Interpolation.LINEAR),
    "upsample_trilinear3d": _upsample(Interpolation.LINEAR),
    "upsample_bicubic2d": _upsample(Interpolation.CUBIC),
}
