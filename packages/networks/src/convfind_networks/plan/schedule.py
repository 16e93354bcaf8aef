"""`Schedule`: what a network does on a device, as a value: tasks over named memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from convfind.find.solution import Solution
from convfind_networks.tensor_type import TensorType

#: The memory of what lies between tasks, and of weights and other constants.
ARENA, CONSTANTS = "arena", "constants"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something lies: so many bytes behind the beginning of a named memory."""

    memory: str
    offset: int = 0


@dataclass(frozen=True)
class Task:
    """One problem of a network: who solves it, and where its operands lie.

    The node is named by its first result.

    Beside the operands' places stand those of ``workspace`` and, where weights were packed when
    the network was compiled, ``packed``.
    """

    node: str
    operation: str
    problem: Any
    solution: Solution
    solver_version: int
    source_hash: str
    places: Mapping[str, Place]
    in_place: frozenset[str] = frozenset()  # pieces that lie where they belong: no step moves them
    choice: str = ""  # why this solver, in words

    @property
    def packs_itself(self) -> bool:
        """True where weights are packed in every run, because they are not constant."""
        return "packed" not in self.places


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of a network: its public name, its type, and where it lies.

    An input that is indices says how many elements these choose among: one number, or one for each
    place in its last dimension. Others say nothing.
    """

    name: str
    type: TensorType
    place: Place
    index_sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """A network for given shapes on a device: tasks in order, and how much memory they need.

    It holds no device handle and no code: solvers give the steps, kernels come from packages.
    """

    network: str
    device: str  # identity of the target
    tasks: tuple[Task, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena: int  # bytes
    constants: int  # bytes
    lower_bound: int = 0  # bytes that any arena needs
    notes: tuple[str, ...] = field(default=())  # what a user should know, as of finds cut short

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each memory by name."""
        ports = [(f"input{at}", one) for at, one in enumerate(self.inputs)]
        ports += [(f"output{at}", one) for at, one in enumerate(self.outputs)]
        return {
            ARENA: self.arena,
            CONSTANTS: self.constants,
            **{name: one.type.nbytes for name, one in ports},
        }

    @property
    def flops(self) -> int:
        """Floating-point operations of all tasks."""
        return sum(task.problem.flops for task in self.tasks)
