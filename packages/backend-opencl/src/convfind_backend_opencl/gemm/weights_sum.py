"""Summing the weight gradient over images and positions: one after the other, or in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from convfind.device.target import Target
from convfind.kit.gemm_lowering.plan import MOST_LAUNCHES, Split
from convfind.kit.gemm_lowering.product import Gemm, Operand
from convfind.kit.sizes import ceil_div
from convfind.solver.config import Config
from convfind.solver.recipe import BufferArg, Launch, Memory
from convfind_backend_opencl.gemm.kernel import GemmKernel

#: Where partial sums lie.
PARTS = BufferArg(Memory.WORKSPACE)
#: K of a part is a multiple of this, so that vectors stay aligned.
_ALIGNED = 4


def splits(gemm: Gemm, kernel: GemmKernel, target: Target, config: Config) -> tuple[Split, Split]:
    """Return the split that fills the device, and the one that needs the least memory.

    ``gemm`` is the product for the whole batch. Segments come first: they need no more columns at
    a time than one image has.
    """
    wanted = kernel.missing_parts(replace(gemm, outer=1), target, config)
    segments = max(1, min(wanted, gemm.k // kernel.shortest)) if gemm.inner == 1 else 1
    fewest = ceil_div(gemm.outer, MOST_LAUNCHES)
    images = max(fewest, min(gemm.outer, ceil_div(wanted, segments)))
    # As many images in each round: a chunk that is cut as evenly then holds whole rounds.
    images = ceil_div(gemm.outer, ceil_div(gemm.outer, images))
    return Split(images, segments), Split(fewest)


def sum_launches(
    products: Iterable[tuple[Gemm, tuple[Launch, ...]]],
    split: Split,
    kernel: GemmKernel,
    target: Target,
    config: Config,
    beta: float,
) -> Iterator[Launch]:
    """Yield the launches that sum products over their outer batch and over each other.

    Each product comes with what has to be launched before it. All additions have a fixed order, so
    the result is the same in every run.
    """
    first: Gemm | None = None
    before = 0.0
    for gemm, launches in products:
        if first is None:
            first = gemm
            split = Split(min(split.images, gemm.outer), min(split.segments, gemm.k))
            before = beta if split.parts == 1 else 0.0
        yield from launches
        for product in _summed(gemm, split, before):
            yield kernel.launch(product, target, config)
        before = 1.0
    if first is not None and split.parts > 1:
        yield kernel.sum_launch(first, target, config, split.parts, beta)


def _summed(gemm: Gemm, split: Split, beta: float) -> Iterator[Gemm]:
    """Yield the products, in their order, that sum a product over its outer batch.

    ``beta`` is for what is there before: in the result where the split has one part, else in the
    partial sums at the start of the workspace.
    """
    for start in range(0, gemm.outer, split.images):
        images = min(split.images, gemm.outer - start)
        piece = _moved(replace(gemm, outer=images), start, 0)
        before = beta if start == 0 else 1.0
        if split.parts == 1:
            yield replace(piece, beta=before)
        else:
            yield from _partial(replace(piece, beta=before), split.segments)


def _partial(gemm: Gemm, segments: int) -> Iterator[Gemm]:
    """Yield the products that add some images to their partial sums."""
    size = gemm.m * gemm.inner * gemm.n
    if segments == 1:
        c = Operand(PARTS, gemm.n, outer=size, inner=gemm.m * gemm.n)
        yield replace(gemm, c=c)
        return
    c = Operand(PARTS, gemm.n, outer=segments * size, inner=size)
    depth = gemm.k // segments
    depth -= depth % _ALIGNED if depth > _ALIGNED else 0
    if depth:
        a = replace(gemm.a, inner=depth * _a_step(gemm))
        b = replace(gemm.b, inner=depth * _b_step(gemm))
        yield replace(gemm, k=depth, a=a, b=b, c=c, inner=segments)
    rest = gemm.k - segments * depth
    if rest:
        yield replace(_moved(gemm, 0, segments * depth), k=rest, c=c, beta=1.0)


def _a_step(gemm: Gemm) -> int:
    """Elements of A from one k to the next."""
    return gemm.a.ld if gemm.trans_a else 1


def _b_step(gemm: Gemm) -> int:
    """Elements of B from one k to the next."""
    return 1 if gemm.trans_b else gemm.b.ld


def _moved(gemm: Gemm, images: int, depth: int) -> Gemm:
    """Return the product that starts so many images, and so far along K, later."""
    a, b = gemm.a, gemm.b
    return replace(
        gemm,
        a=replace(a, offset=a.offset + images * a.outer + depth * _a_step(gemm)),
        b=replace(b, offset=b.offset + images * b.outer + depth * _b_step(gemm)),
    )
