"""The contract of a problem: what core asks of anything that is computed on a device."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from convfind.problem.tensor_spec import TensorSpec

Array = np.ndarray[Any, Any]


class Problem(Protocol):
    """A computation as a frozen, hashable value: everything that can change its result or speed.

    `ConvProblem` is one; packages register more with `convfind_register_problem_types`. A find, its
    database, the handle and the backends know nothing else about a problem than this.
    """

    #: One word for all problems of the type. Keys of other kinds than ``conv`` begin with it.
    kind: ClassVar[str]
    #: False: nothing is timed or recorded; the first solver that takes a problem computes it.
    is_measured: ClassVar[bool]

    @property
    def key(self) -> str:
        """The canonical text, which addresses the problem in a database."""

    @property
    def text(self) -> str:
        """The key with all that makes up the value, where speed does not depend on all of it.

        For most types it is the key. A class method ``from_key`` that reads it lets solutions be
        loaded in another process.
        """

    @property
    def operands(self) -> tuple[TensorSpec, ...]:
        """Every tensor that is read or written, under different names."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the operands that a run takes, in the order of a call."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the operands that a run writes; all of their elements."""

    @property
    def traits(self) -> frozenset[str]:
        """Words for what is special: a solver takes only those that its domain names."""

    @property
    def domain_key(self) -> Hashable:
        """All that a domain looks at, `traits` included: equal ones have the same solvers."""

    @property
    def flops(self) -> float:
        """Operations of the plainest way to compute it."""

    @property
    def traffic(self) -> float:
        """Bytes that any way to compute it must move."""

    def __hash__(self) -> int:
        """Equal problems are one."""

    def operand(self, name: str) -> TensorSpec:
        """Return the operand of a name."""

    def plain_name(self, tensor: str) -> str:
        """Return an operand's name in the plain problem."""

    def plain(self) -> Any:
        """Return the problem that solvers and databases see: mostly itself."""


class CheckedProblem(Problem, Protocol):
    """A problem that says what is right: results of its solvers can be checked."""

    def draw(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draw the operands that are read, by name, in shapes and types of the operands."""

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the right results by name, not yet rounded; floating inputs come as float64."""

    def allowed_error(
        self, inputs: Mapping[str, Array], results: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return how far each element of right results may be off, beside its last rounding."""
