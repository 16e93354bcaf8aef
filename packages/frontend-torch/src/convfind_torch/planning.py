"""A whole graph of Dynamo's as one plan of convfind-networks, with nothing of PyTorch's inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import attrgetter, not_
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from convfind.device.target import DeviceKind
from convfind.errors import ConvfindError
from convfind.policy import POLICY_FIELDS, FindMode
from convfind.runtime.session import Progress, silent
from convfind_torch import native
from convfind_torch.background import Improving
from convfind_torch.comparison import in_turns, median_of
from convfind_torch.engine import engine
from convfind_torch.exported import Exported, Unsuited, is_constant
from convfind_torch.geometry import is_channels_last
from convfind_torch.inductor import compiled_by_inductor
from convfind_torch.layer import anonymous
from convfind_torch.options import Options
from convfind_torch.place import Place
from convfind_torch.places import host_array, network_array, open_place
from convfind_torch.route import Route

Run = Callable[..., tuple[Any, ...]]

_VERSION = attrgetter("_version")


def planned(
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    options: Options,
    *,
    background: bool = False,
) -> Run:
    """Return a plan of a graph without gradients, ready to be called.

    Args:
        graph: what Dynamo captured.
        examples: its inputs, parameters among them.
        options: how to find, and whether PyTorch's own graph stays where it is faster.
        background: serve by estimates at once, and take what finds and comparison say when they
            are through, between two calls.

    Raises:
        NoPlan: for instance an operator that no package computes, or PyTorch's own graph was
            measured to be faster; the reason is in the report.
    """
    route = Route(_description(graph, examples), "", where="plan")
    behind = background and options.policy.mode is not FindMode.FAST
    try:
        place, exported = _place(examples), Exported.of(graph, examples)
        if behind:
            quick = replace(options, policy=options.policy.with_changes(mode="FAST"))
            first = GraphPlan(exported, examples, quick, place)
            route.reason = "estimated; finds are under way"
            run: Run = Improving(first, _better(route, graph, exported, examples, options))
        else:
            run = _best(route, graph, GraphPlan(exported, examples, options, place), examples)
    except (ConvfindError, Unsuited, ImportError) as error:
        route.where, route.reason = "", str(error).partition("\n")[0]
        raise NoPlan(route, is_slower=isinstance(error, Slower)) from error
    finally:
        engine().note(anonymous("torch.compile", options), route)
    return route.counted(run)


def _best(
    route: Route, graph: torch.fx.GraphModule, plan: GraphPlan, examples: Sequence[Any]
) -> GraphPlan:
    """Return a plan. Raises `Slower` where PyTorch's own graph was measured to be faster."""
    if plan.options.keep_faster:
        samples = in_turns(plan.place, lambda: plan(*examples)[0], lambda: graph(*examples)[0])
        route.comparison = median_of(*samples)
        if route.comparison.gain <= 1:
            raise Slower("PyTorch's own is faster")
    route.reason = "nothing of PyTorch's runs inside"
    return plan


def _better(
    route: Route,
    graph: torch.fx.GraphModule,
    exported: Exported,
    examples: Sequence[Any],
    options: Options,
) -> Callable[[Progress], Run]:
    """Return what finds a plan on a handle of its own, since the engine's serves meanwhile."""

    def better(on_progress: Progress) -> Run:
        place = open_place(examples[0].device)
        try:
            if isinstance(place, str):
                raise Unsuited(place)
            found = GraphPlan(exported, examples, options, place, on_progress)
            return _best(route, graph, found, examples)
        except Unsuited as error:
            own = compiled_by_inductor(graph, examples)
            route.where, route.reason = "", str(error)
            return own

    return better


@dataclass(frozen=True, slots=True)
class _Made:
    """A plan, and what it was made for: calls of other threads see all of it, or none."""

    plan: Any
    promises: Promises
    watched: Watched


class GraphPlan:
    """A plan that is made anew where a parameter changes."""

    def __init__(
        self,
        exported: Exported,
        tensors: Sequence[Any],
        options: Options,
        place: Place,
        on_progress: Progress = silent,
    ) -> None:
        """Make the plan for tensors of these sizes. Raises `Unsuited` and `ConvfindError`."""
        self.options, self.place = options, place
        self._exported = exported
        of_model = enumerate(exported.constant)
        self._inputs = [(at, exported.names[at]) for at, constant in of_model if not constant]
        self._current = self._made(tensors, on_progress)

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """Compute the outputs."""
        made = self._current
        returned = self._run(made, tensors)
        # Looked at while a GPU computes: what ran with old parameters is thrown away.
        is_promised = made.promises == Promises.of_now(self.place)
        if not is_promised or made.watched.have_changed(self._constants(tensors)):
            returned = self._run(self._remade(tensors), tensors)
        return returned

    def _run(self, made: _Made, tensors: Sequence[Any]) -> tuple[Any, ...]:
        given = {name: self._exported.given(at, tensors[at]) for at, name in self._inputs}
        return self._exported.returned(self.place.run_network(made.plan, given))

    def _constants(self, tensors: Sequence[Any]) -> list[torch.Tensor]:
        return list(compress(tensors, self._exported.constant))

    def _remade(self, tensors: Sequence[Any]) -> _Made:
        if self.place.is_capturing:
            raise RuntimeError("parameters changed since the last call; call once, then capture")
        self._current = made = self._made(tensors)
        return made

    def _made(self, tensors: Sequence[Any], on_progress: Progress = silent) -> _Made:
        # Watched before they are read: what changes while finds run makes the plan anew.
        watched, promises = Watched(self._constants(tensors)), Promises.of_now(self.place)
        made = _Made(self._plan(tensors, promises, on_progress), promises, watched)
        self.place.trim()
        return made

    def _plan(self, tensors: Sequence[Any], promises: Promises, on_progress: Progress) -> Any:
        exported = self._exported
        policy = self.options.policy_on(self.place.handle.target.kind)
        constants: dict[str, Any] = {
            name: network_array(one.detach().cpu().contiguous()).copy()
            for name, one in compress(zip(exported.names, tensors, strict=True), exported.constant)
        }
        fields = {name: getattr(policy, name) for name in POLICY_FIELDS - {"enforce"}}
        with self.place.lock:
            plan = exported.network.compile(
                self.place.handle,
                constants,
                policy.mode,
                channels_last=_layout(compress(tensors, map(not_, exported.constant))),
                allow_tf32=promises.tf32,
                autocast=promises.autocast,
                deterministic=promises.deterministic,
                on_progress=on_progress,
                **fields,
            )
        if len(plan.outputs) != len(exported.dtypes) or not plan.writes_outputs:
            raise Unsuited("outputs are the same, or are inputs")
        if [one.type.dtype.name for one in plan.outputs] != list(exported.dtypes):
            raise Unsuited("PyTorch gives outputs of other types here")
        return plan


class Promises(NamedTuple):
    """The demands of the program's flags on a plan's convolutions and products."""

    tf32: tuple[str, ...]  # kinds of operations
    autocast: str | None  # the type in which products are computed
    deterministic: bool

    @classmethod
    def of_now(cls, place: Place) -> Self:
        """Return what they ask now, on a place's device."""
        is_gpu = place.handle.target.kind is DeviceKind.GPU
        flags = (
            ("Convolution", native.tf32_of_convolutions),
            ("Linear", native.tf32_of_products),
            ("MatMul", native.tf32_of_products),
        )
        tf32 = tuple(kind for kind, allows in flags if is_gpu and allows())
        autocast = None
        if is_gpu and torch.is_autocast_enabled("cuda"):
            autocast = str(torch.get_autocast_dtype("cuda")).removeprefix("torch.")
        return cls(tf32, autocast, native.deterministic())


class Watched:
    """Marks that change with constants: versions, places, and one number of each."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Watch tensors as they are now. Raises `Unsuited` for such as count no changes."""
        if any(one.is_inference() for one in tensors):
            raise Unsuited("parameters that were made in inference mode count no changes")
        self._places = [*map(torch.Tensor.data_ptr, tensors)]
        self._versions = [*map(_VERSION, tensors)]
        # Changes through ``.data`` have no version: so the bits of an element, where they are near.
        self._elements = [
            _middle(one) for one in tensors if one.is_cpu and one.numel() and one.is_contiguous()
        ]
        self._bits = [*map(np.ndarray.item, self._elements)]

    def have_changed(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether tensors are no longer those that are watched, or not as they were."""
        return (
            [*map(_VERSION, tensors)] != self._versions
            or [*map(torch.Tensor.data_ptr, tensors)] != self._places
            or [*map(np.ndarray.item, self._elements)] != self._bits
        )


def _middle(tensor: torch.Tensor) -> Any:
    """Return the memory of an element in a tensor's middle, as a number without a sign."""
    memory = host_array(tensor)
    middle = memory.size // 2
    return memory[middle : middle + 1].view(f"u{memory.itemsize}")


class Slower(Unsuited):
    """A plan was measured, and PyTorch is faster."""


class NoPlan(Exception):
    """A graph has no plan; its route says why, and counts the calls of what computes it instead."""

    def __init__(self, route: Route, *, is_slower: bool = False) -> None:
        super().__init__(route.reason)
        self.route, self.is_slower = route, is_slower


def _place(examples: Sequence[Any]) -> Place:
    if not all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in examples):
        raise Unsuited("sizes may change, or inputs are no plain tensors")
    if not all(one.numel() for one in examples):
        raise Unsuited("an input has no elements")
    devices = {one.device for one in examples}
    if len(devices) != 1:
        raise Unsuited("the inputs lie on several devices, or there are none")
    kind = next(iter(devices)).type
    if kind != "cuda" and torch.is_autocast_enabled(kind):
        raise Unsuited("autocast is on")
    place = engine().place(examples[0])
    if isinstance(place, str):
        raise Unsuited(place)
    return place


def _description(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> str:
    """Return what tells a graph from others: its nodes, and the sizes of what it is called with."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    sizes = [
        "x".join(map(str, one.shape))
        for node, one in zip(placeholders, examples, strict=True)
        if isinstance(one, torch.Tensor) and not is_constant(node, one)
    ]
    return f"graph of {len(graph.graph.nodes)} nodes for {', '.join(sizes)}"


def _layout(inputs: Iterable[torch.Tensor]) -> bool | None:
    """Return that a plan is to be channels last where an input is; None: as the device wants it."""
    return True if any(one.is_cuda and is_channels_last(one) for one in inputs) else None
