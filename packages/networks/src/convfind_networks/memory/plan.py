"""`MemoryPlan`: where in one arena each block lies.

Greedy by size (Pisarchyk and Lee, 2020): the largest block first, each in the smallest gap between
those that are needed at the same time. Where that needs more than the lower bound, they are placed
once more in an arena of that size, from both of its ends: values that grow along a chain, each out
of the one before, then take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from convfind_networks.graph import Graph, Within
from convfind_networks.memory.blocks import Block, View, blocks_of

#: Offsets in the arena are multiples of it, for any device.
ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Placement:
    """A block and where it begins in the arena."""

    block: Block
    offset: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.offset + self.block.nbytes


@dataclass(frozen=True)
class MemoryPlan:
    """One arena for a network: its size, and where in it everything lies.

    ``views`` says for each computed value in which block it lies; a value that is an input of the
    network under another shape is in a block with the input's name, which has no placement. Nor
    have the blocks of ``outputs``, by the public name of the output that each is.
    """

    placements: tuple[Placement, ...]
    views: Mapping[str, View]
    nbytes: int
    lower_bound: int
    outputs: Mapping[str, str] = field(default_factory=dict)

    def offset(self, value: str) -> int | None:
        """Return where in the arena a value begins; None where it is not there."""
        view = self.views.get(value)
        at = {one.block.name: one.offset for one in self.placements}
        return None if view is None or view.block not in at else at[view.block] + view.offset


def plan_memory(
    graph: Graph,
    *,
    workspaces: Mapping[str, int] | None = None,
    alignment: int = ALIGNMENT,
    view_alignment: int = 64,
    channels_last: Set[str] = frozenset(),
    within: Mapping[str, Within] = MappingProxyType({}),
    outputs_apart: bool = False,
) -> MemoryPlan:
    """Plan the memory of a graph whose nodes run in their order.

    Args:
        graph: the graph.
        workspaces: bytes that a node needs while it runs, by the name of its first result.
        alignment: what offsets of blocks are multiples of.
        view_alignment: what offsets of values within a block are multiples of.
        channels_last: the values that lie so.
        within: values that lie in others.
        outputs_apart: outputs lie in memory of the caller's, where nothing else has to lie there.

    Returns:
        The plan. No plan can be smaller than its lower bound: what the node that needs most needs.
    """
    blocks, views = blocks_of(
        graph, view_alignment=view_alignment, channels_last=channels_last, within=within
    )
    apart = _outputs_by_block(graph, blocks, views) if outputs_apart else {}
    temporary = [
        Block(f"workspace of {node.output}", size, step, step)
        for step, node in enumerate(graph.nodes)
        if (size := (workspaces or {}).get(node.output, 0))
    ]
    rounded = [
        Block(one.name, -(-one.nbytes // alignment) * alignment, one.first, one.last)
        for one in (*blocks, *temporary)
        if one.nbytes and one.name not in apart
    ]
    bound = lower_bound(rounded, len(graph.nodes))
    placements = _smallest(rounded, bound)
    size = _size(placements)
    return MemoryPlan(tuple(placements), MappingProxyType(dict(views)), size, bound, apart)


def _outputs_by_block(
    graph: Graph, blocks: Sequence[Block], views: Mapping[str, View]
) -> dict[str, str]:
    """Return the blocks that are an output from beginning to end, and its public name."""
    sizes = {block.name: block.nbytes for block in blocks}
    found: dict[str, str] = {}
    for public, name in graph.outputs.items():
        view = views.get(name)
        whole = None if view is None or view.offset else sizes.get(view.block)
        if view is not None and whole == graph.values[name].type.nbytes:
            found.setdefault(view.block, public)
    return found


def lower_bound(blocks: Sequence[Block], steps: int) -> int:
    """Return the bytes that are needed at once, at the worst of the nodes."""
    changes = [0] * (steps + 2)
    for block in blocks:
        changes[block.first] += block.nbytes
        changes[block.last + 1] -= block.nbytes
    most = now = 0
    for change in changes:
        now += change
        most = max(most, now)
    return most


#: Orders in which blocks are placed; the first that reaches the lower bound is taken.
_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda block: (-block.nbytes, block.first),
    lambda block: (-block.nbytes * (block.last - block.first + 1), block.first),
    lambda block: (block.first - block.last, -block.nbytes, block.first),
    lambda block: (block.first, -block.nbytes),
)


def _smallest(blocks: Sequence[Block], bound: int) -> list[Placement]:
    """Return the smallest arena of some orders; the first that needs no more than the bound."""
    together = _together(blocks)
    best: list[Placement] | None = None
    for end in (None, bound):
        for key in _ORDERS:
            found = _placed(sorted(blocks, key=key), together, end)
            if best is None or _size(found) < _size(best):
                best = found
            if _size(best) <= bound:
                return best
    return best or []


def _together(blocks: Sequence[Block]) -> dict[Block, list[Block]]:
    """Return for each block those that are needed at the same time."""
    return {
        block: [one for one in blocks if one is not block and one.overlaps(block)]
        for block in blocks
    }


def _size(placements: Sequence[Placement]) -> int:
    return max((one.end for one in placements), default=0)


def _placed(
    blocks: Sequence[Block], together: Mapping[Block, Sequence[Block]], end: int | None
) -> list[Placement]:
    """Place blocks in this order, each in the smallest gap that holds it, or behind all others.

    In an arena with an end, they lie at the end of a gap that does not begin with the arena.
    """
    placed: dict[Block, Placement] = {}
    for block in blocks:
        around = sorted(
            (placed[one] for one in together[block] if one in placed), key=lambda one: one.offset
        )
        best, smallest, behind = None, None, 0
        gaps = [(one.offset, one.end) for one in around]
        for begin, after in gaps if end is None else [*gaps, (end, 0)]:
            gap = begin - behind
            if gap >= block.nbytes and (smallest is None or gap < smallest):
                at_end = end is not None and behind > 0
                best, smallest = begin - block.nbytes if at_end else behind, gap
            behind = max(behind, after)
        placed[block] = Placement(block, behind if best is None else best)
    return list(placed.values())
