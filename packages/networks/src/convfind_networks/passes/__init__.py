"""Passes: functions from a graph to a better one that computes the same."""

from __future__ import annotations

from collections.abc import Callable

from convfind_networks.graph import Graph
from convfind_networks.passes.attention import fuse_attention
from convfind_networks.passes.canonical import canonicalize
from convfind_networks.passes.concatenations import share_beginnings
from convfind_networks.passes.constants import fold_constants
from convfind_networks.passes.dead_code import remove_dead_code
from convfind_networks.passes.duplicates import merge_duplicates
from convfind_networks.passes.epilogues import fuse_epilogues
from convfind_networks.passes.identities import remove_identities
from convfind_networks.passes.idle_taps import cut_idle_taps
from convfind_networks.passes.norms import recognize_norms
from convfind_networks.passes.paddings import fold_paddings
from convfind_networks.passes.projections import join_projections
from convfind_networks.passes.rotary import recognize_rotary
from convfind_networks.passes.scales import fold_scales
from convfind_networks.passes.spelled_out import recognize_activations
from convfind_networks.passes.transposes import move_transposes

__all__ = [
    "PASSES",
    "canonicalize",
    "cut_idle_taps",
    "fold_constants",
    "fold_paddings",
    "fold_scales",
    "fuse_attention",
    "fuse_epilogues",
    "join_projections",
    "merge_duplicates",
    "move_transposes",
    "optimize",
    "recognize_activations",
    "recognize_norms",
    "recognize_rotary",
    "remove_dead_code",
    "remove_identities",
    "share_beginnings",
]

#: In the order in which each one finds most to do.
PASSES: tuple[Callable[[Graph], Graph], ...] = (
    fold_constants,
    remove_identities,
    merge_duplicates,
    recognize_norms,  # before means over all positions are poolings
    canonicalize,
    recognize_activations,
    recognize_rotary,
    remove_dead_code,
    fold_paddings,
    cut_idle_taps,
    move_transposes,
    fold_scales,
    fuse_epilogues,
    remove_dead_code,
    share_beginnings,
)


def optimize(graph: Graph) -> Graph:
    """Apply all passes."""
    for one in PASSES:
        graph = one(graph)
    return graph
