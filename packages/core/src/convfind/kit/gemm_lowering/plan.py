"""`Plan`: the division of a convolution into chunks whose columns fit the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convfind.kit.gemm_lowering.product import Chunk, Shape
from convfind.kit.sizes import ceil_div, round_up
from convfind.solver.recipe import align

#: Most launches of each kernel in a plan, unless the workspace limit is too tight.
MOST_LAUNCHES = 1024
#: Positions of a chunk within an image are a multiple of this.
_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class Split:
    """Number of partial sums computed side by side: of images, and of segments of each image."""

    images: int = 1
    segments: int = 1

    @property
    def parts(self) -> int:
        """Number of partial sums."""
        return self.images * self.segments

    def bytes_of(self, weights_bytes: int) -> int:
        """Memory of the partial sums; a single one is the result itself."""
        return weights_bytes * self.parts if self.parts > 1 else 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Chunks of equal size, the last one perhaps smaller, and their workspace.

    Partial sums of weights are at the start of the workspace, followed by the columns.
    """

    shape: Shape
    images: int
    positions: int
    split: Split

    @property
    def columns(self) -> int:
        """Byte offset of the columns in the workspace."""
        return align(self.split.bytes_of(self.shape.weights_bytes))

    @property
    def workspace(self) -> int:
        """Bytes of workspace."""
        return self.columns + self.images * self.positions * self.shape.position_bytes

    @property
    def chunks(self) -> Iterator[Chunk]:
        """Return the chunks in the order of processing."""
        shape = self.shape
        for image in range(0, shape.images, self.images):
            images = min(self.images, shape.images - image)
            for position in range(0, shape.positions, self.positions):
                positions = min(self.positions, shape.positions - position)
                yield Chunk(image, images, position, positions)


def plan(shape: Shape, preferred: int, limit: int | None, splits: tuple[Split, ...]) -> Plan:
    """Return the plan with the largest columns up to ``preferred`` bytes that fits the limit.

    The first split that fits is used; they are sorted from best to smallest. A plan made with
    its own workspace as the limit is the same plan. If nothing fits, it is the smallest plan.
    """
    *better, smallest = splits
    for split in better:
        partial = align(split.bytes_of(shape.weights_bytes))
        least = _least(shape, split) * shape.position_bytes
        if limit is None or partial + least <= limit:
            break
    else:
        split, partial = smallest, align(smallest.bytes_of(shape.weights_bytes))
        least = _least(shape, split) * shape.position_bytes
    budget = max(preferred, least)
    if limit is not None:
        budget = min(budget, limit - partial)
    return _within(shape, budget // shape.position_bytes, split)


def _least(shape: Shape, split: Split) -> int:
    """Return the fewest positions of a chunk: one image per part of the split, or part of one."""
    if split.images > 1:
        return split.images * shape.positions
    images = ceil_div(shape.images, MOST_LAUNCHES)
    if images > 1:
        return images * shape.positions
    pieces = MOST_LAUNCHES // shape.images
    return min(shape.positions, round_up(ceil_div(shape.positions, pieces), _POSITIONS))


def _within(shape: Shape, fitting: int, split: Split) -> Plan:
    """Cut evenly into chunks of limited size, in positions."""
    fitting = max(fitting, _least(shape, split))
    images = min(fitting // shape.positions, shape.images)
    if images:
        count = ceil_div(shape.images, images)
        return Plan(shape, ceil_div(shape.images, count), shape.positions, split)
    fitting -= fitting % _POSITIONS
    count = ceil_div(shape.positions, fitting)
    positions = round_up(ceil_div(shape.positions, count), _POSITIONS)
    return Plan(shape, 1, positions, split)
