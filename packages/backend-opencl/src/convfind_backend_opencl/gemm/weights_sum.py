"""Summing the weight gradient over images and positions: one after the other, or in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from convfind.config import Config
from convfind.solution import BufferArg, Launch, Memory
from convfind.target import Target
from convfind_backend_opencl.gemm.kernel import GemmKernel
from convfind_backend_opencl.gemm.problem import Gemm, Operand, ceil_div

#: A plan has at most so many launches for each kernel, unless the workspace limit is too tight.
MOST_LAUNCHES = 1024
#: K of a part is a multiple of this, so that vectors stay aligned.
_ALIGNED = 4


@dataclass(frozen=True, slots=True)
class Split:
    """How many partial sums are made side by side: of images, and of segments of each image."""

    images: int = 1
    segments: int = 1

    @property
    def parts(self) -> int:
        """Number of partial sums."""
        return self.images * self.segments

    def bytes_of(self, weights_bytes: int) -> int:
        """Memory of the partial sums; a single one is the result itself."""
        return weights_bytes * self.parts if self.parts > 1 else 0


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
    gemms: Iterable[Gemm],
    split: Split,
    kernel: GemmKernel,
    target: Target,
    config: Config,
    parts: BufferArg,
    beta: float,
) -> Iterator[Launch]:
    """Yield the launches that sum products over their outer batch and over each other.

    The order of the additions is fixed, so the result is the same in every run. ``parts`` is
    memory for the partial sums where the split makes any.
    """
    first: Gemm | None = None
    for gemm in gemms:
        first = first or gemm
        for start in range(0, gemm.outer, split.images):
            images = min(split.images, gemm.outer - start)
            piece = _moved(replace(gemm, outer=images), start, 0)
            is_first = gemm is first and start == 0
            if split.parts == 1:
                product = replace(piece, beta=beta if is_first else 1.0)
                yield kernel.launch(product, target, config)
            else:
                for product in _partial(piece, split.segments, parts, is_first):
                    yield kernel.launch(product, target, config)
    if first is not None and split.parts > 1:
        count = min(split.images, first.outer) * split.segments
        yield kernel.sum_launch(first, target, config, count, parts, beta)


def _partial(gemm: Gemm, segments: int, parts: BufferArg, is_first: bool) -> Iterator[Gemm]:
    """Yield the products that write, or add to, the partial sums of some images."""
    size = gemm.m * gemm.inner * gemm.n
    beta = 0.0 if is_first else 1.0
    if segments == 1:
        c = Operand(parts, gemm.n, outer=size, inner=gemm.m * gemm.n)
        yield replace(gemm, c=c, beta=beta)
        return
    c = Operand(parts, gemm.n, outer=segments * size, inner=size)
    depth = max(gemm.k // segments // _ALIGNED * _ALIGNED, 1 if is_first else 0)
    if depth:
        a, b = (replace(operand, inner=depth * _step(gemm, operand)) for operand in (gemm.a, gemm.b))
        yield replace(gemm, k=depth, a=a, b=b, c=c, inner=segments, beta=beta)
    rest = gemm.k - segments * depth
    if rest:
        yield replace(_moved(gemm, 0, segments * depth), k=rest, c=c, beta=1.0)


def _step(gemm: Gemm, operand: Operand) -> int:
    """Elements from one k to the next."""
    along_rows = gemm.trans_a if operand is gemm.a else not gemm.trans_b
    return operand.ld if along_rows else 1


def _moved(gemm: Gemm, images: int, depth: int) -> Gemm:
    """Return the product that starts so many images and so far along K later."""
    a, b = (
        replace(
            operand, offset=operand.offset + images * operand.outer + depth * _step(gemm, operand)
        )
        for operand in (gemm.a, gemm.b)
    )
    return replace(gemm, a=a, b=b)


#: Where partial sums lie: at the start of the workspace.
PARTS = BufferArg(Memory.WORKSPACE)
