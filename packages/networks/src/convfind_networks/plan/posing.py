"""`Posing`: how a network's convolutions are posed: how exact they are, and whether bits repeat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from convfind.device.target import DeviceKind
from convfind.errors import ProblemError
from convfind.handle import Handle
from convfind.problem import ConvProblem
from convfind.solver import asking
from convfind.types import AccuracyClass
from convfind_networks.graph import Graph, Node
from convfind_networks.layouts import LaidOut, LayoutPlan, lay_out, nested
from convfind_networks.lowering import Call, attention_problem, fusible_pairs, lower
from convfind_networks.ops import Attention, MatMul
from convfind_networks.tensor_type import TensorType

#: Types that matrix units multiply.
_NARROW = frozenset({"float16", "bfloat16"})
#: The compute capability of GPUs on which they multiply float32, too, in parts that are added up.
_SPLITS_FLOATS = 90


@dataclass(frozen=True, slots=True)
class Posing:
    """Turns a network's nodes into problems, all of which keep the same promises."""

    network: str
    handle: Handle
    #: Kinds of operations whose float32 factors may be rounded to TF32.
    allow_tf32: frozenset[str] = frozenset()
    deterministic: bool = False
    accuracy: AccuracyClass = AccuracyClass.NORMAL

    def laid_out(self, graph: Graph, layouts: LayoutPlan) -> LaidOut:
        """Return a graph in these layouts, its values where kernels are as quick with them.

        Only convolutions of CPUs read and store pixels apart.
        """
        return nested(
            lay_out(graph, layouts),
            alignment=self.handle.session.device.step_alignment,
            convolutions=self.handle.target.kind is DeviceKind.CPU,
        )

    def calls(self, laid_out: LaidOut) -> tuple[Call, ...]:
        """Return the calls that compute a graph, in order. Raises `UnsupportedError`."""
        return tuple(map(self._posed, lower(self.network, laid_out, self.handle.registry)))

    def wants(self, op: Attention, types: tuple[TensorType, ...]) -> bool:
        """Return whether an attention is faster as one operation, for what is known.

        Its first solver says how fast it is, where that was measured to be faster than the steps.
        """
        make = self.handle.registry.problem_types.get("attention")
        if make is None:
            return False
        try:
            problem, target = attention_problem(make, op, types), self.handle.target
        except ProblemError:
            return False
        solvers, _ = self.handle.registry.candidates_for(problem, target)
        taking = (one for one in solvers if asking.applicability(one, problem, target))
        first = next(taking, None)
        return first is not None and asking.wti(first, problem, target) is not None

    def pairs(self, laid_out: LaidOut) -> dict[Node, Call]:
        """Return one call for each two nodes that may be one, by the second of them."""
        pairs = fusible_pairs(laid_out, self.handle.registry, self.handle.target)
        return {node: self._posed(call) for node, call in pairs.items()}

    def prefers_channels_last(self, graph: Graph) -> bool:
        """Return whether a device is mostly quicker so: a CPU, and the matrix units of a GPU."""
        target = self.handle.target
        if target.kind is DeviceKind.CPU or self.allow_tf32:
            return True
        if target.compute_capability == _SPLITS_FLOATS:
            return True
        return any(value.type.dtype.name in _NARROW for value in graph.values.values())

    def _posed(self, call: Call) -> Call:
        problem: Any = call.problem
        kind = MatMul if isinstance(call.node.op, Attention) else type(call.node.op)
        tf32 = kind.__name__ in self.allow_tf32
        if kind is MatMul:
            return replace(call, problem=replace(problem, allow_tf32=True)) if tf32 else call
        if not isinstance(problem, ConvProblem):
            return call
        promises: dict[str, Any] = {
            "allow_tf32": tf32,
            "deterministic": self.deterministic,
            "accuracy": self.accuracy,
        }
        if all(getattr(problem, name) == asked for name, asked in promises.items()):
            return call
        return replace(call, problem=replace(problem, **promises))
