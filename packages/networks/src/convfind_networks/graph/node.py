"""`Node`: one operation of a graph, on named values."""

from __future__ import annotations

from dataclasses import dataclass

from convfind_networks.ops.op import Op


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a graph: what it computes, and the names of what it reads and writes."""

    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = ""

    @property
    def output(self) -> str:
        """Name of the first result; most operations have no other."""
        return self.outputs[0]

    def __str__(self) -> str:
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(self.inputs)})"
