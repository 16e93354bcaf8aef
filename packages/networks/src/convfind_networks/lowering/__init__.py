"""Lowering: the problem that computes each node, and why some nodes have none."""

from __future__ import annotations

from convfind_networks.lowering.attention import attention_problem
from convfind_networks.lowering.call import Call, Lowering
from convfind_networks.lowering.decomposition import decompose
from convfind_networks.lowering.lower import lower
from convfind_networks.lowering.pairs import fuse_pairs, fusible_pairs
from convfind_networks.lowering.splitting import split_activations

__all__ = [
    "Call",
    "Lowering",
    "attention_problem",
    "decompose",
    "fuse_pairs",
    "fusible_pairs",
    "lower",
    "split_activations",
]
