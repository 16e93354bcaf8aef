"""Compiling: from a graph to a plan: layouts, problems, finds, and which solutions are used."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, SupportsFloat

from convfind.device.target import DeviceKind
from convfind.handle import Handle
from convfind.policy import Mode, OnMiss
from convfind.problem.values import enum_value
from convfind.runtime.session import Progress, silent
from convfind.types import AccuracyClass
from convfind_networks.graph import Graph
from convfind_networks.layouts import channels_last_where_possible
from convfind_networks.lowering import decompose, split_activations
from convfind_networks.passes import fuse_attention, join_projections
from convfind_networks.plan.draft import Draft
from convfind_networks.plan.fusion import faster_pairs
from convfind_networks.plan.indices import index_sizes
from convfind_networks.plan.layout_choice import choose_layouts
from convfind_networks.plan.narrowing import narrowed
from convfind_networks.plan.plan import Plan
from convfind_networks.plan.posing import Posing
from convfind_networks.plan.rehearsal import paired, rehearsed


def compile_graph(
    handle: Handle,
    graph: Graph,
    mode: Mode | None = None,
    *,
    network: str = "network",
    channels_last: bool | None = None,
    allow_tf32: Collection[str] = (),
    autocast: str | None = None,
    deterministic: bool = False,
    accuracy: AccuracyClass | str = AccuracyClass.NORMAL,
    rehearse: bool = False,
    on_progress: Progress = silent,
    time_budget: SupportsFloat | None = None,
    **policy: Any,
) -> Plan:
    """Make a graph ready to run on a device; see `Network.compile`."""
    policy = {**policy, "constant_weights": True}  # they are packed beforehand
    mode = handle.mode_for_fixed_sizes(mode)
    if autocast is not None:
        graph = narrowed(graph, autocast)
    accuracy = enum_value("accuracy", AccuracyClass, accuracy)
    posing = Posing(network, handle, frozenset(allow_tf32), deterministic, accuracy)
    indices = index_sizes(graph)  # before tuples of them become sums
    graph = fuse_attention(decompose(split_activations(graph)), posing.wants)
    if handle.target.kind is DeviceKind.GPU:  # which small products do not fill
        graph = join_projections(graph)
    if channels_last is None:
        layouts = choose_layouts(posing, graph, handle.policy(mode, **policy))
    else:
        layouts = channels_last_where_possible(graph, prefer=channels_last)
    laid_out = posing.laid_out(graph, layouts)
    calls = posing.calls(laid_out)
    pairs = posing.pairs(laid_out)
    found = handle.find_all(
        [call.problem for call in (*calls, *pairs.values())],
        mode,
        on_progress=on_progress,
        time_budget=time_budget,
        **policy,
    )
    draft = Draft(posing, laid_out, calls, found, index_sizes=indices)
    if rehearse:
        return rehearsed(draft, pairs)
    if time_budget is None and handle.policy(mode, **policy).on_miss is OnMiss.MEASURE:
        return paired(draft, pairs).plan()
    return draft.fused(faster_pairs(laid_out, calls, pairs, found)).plan()
