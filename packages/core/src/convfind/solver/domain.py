"""`Domain`: the problems that a solver takes, as data; others are refused without calling it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, final

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem, Problem
from convfind.problem.traits import EPILOGUE_TRAITS, FIRST_TRAITS, Trait
from convfind.reasons import Reason
from convfind.solver.applicability import Rejected
from convfind.types import DataType, Direction

CPUS: Final = (DeviceKind.CPU,)
GPUS: Final = (DeviceKind.GPU, DeviceKind.ACCELERATOR)


_KINDS = (DeviceKind.CPU, DeviceKind.GPU, DeviceKind.ACCELERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemDomain:
    """Problems of one type that a solver takes; `Domain` is that of convolutions.

    ``ProblemDomain(problem="pooling", dtypes=("float32",))``. Fields list what is accepted, never
    what is refused, so a type or trait added later is outside the domains of all solvers that do
    not know it. A subclass may look at more of its problems than this; all of that must be part of
    their ``domain_key``.

    Attributes:
        problem: the kind of problem.
        kinds: the kinds of device that it supports.
        dtypes: the element types of the operand that comes first.
        traits: the traits that a problem may have.
        features: the features that the device must have.

    Raises:
        ValueError: a word is no kind.
    """

    problem: str
    kinds: tuple[DeviceKind, ...] = _KINDS
    dtypes: tuple[str, ...] = (DataType.FLOAT32,)
    traits: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(map(DeviceKind, self.kinds)))
        object.__setattr__(self, "dtypes", tuple(map(self._dtype, self.dtypes)))
        for name in ("traits", "features"):
            object.__setattr__(self, name, frozenset(map(str, getattr(self, name))))

    @staticmethod
    def _dtype(word: str) -> str:
        return str(word)

    def refusal(self, problem: Problem, target: Target) -> Rejected | None:
        """Return why a problem on a target is outside the domain; None if it is inside."""
        if problem.kind != self.problem:
            return Rejected(Reason.PROBLEM, f"is for {self.problem}, not {problem.kind}")
        if target.kind not in self.kinds:
            kinds = " and ".join(_PLURAL[kind] for kind in self.kinds)
            return Rejected(Reason.DEVICE_KIND, f"is for {kinds}")
        if not self.features <= target.features:
            missing = ", ".join(sorted(self.features - target.features))
            return Rejected(Reason.FEATURE, f"needs {missing}")
        return self._refusal(problem)

    def _refusal(self, problem: Any) -> Rejected | None:
        """Return why a problem of the domain's kind is outside the domain, on any device."""
        dtype = problem.operands[0].dtype.value
        if dtype not in self.dtypes:
            return Rejected(Reason.DTYPE, f"is for {', '.join(self.dtypes)}, not {dtype}")
        if problem.traits <= self.traits:
            return None
        return Rejected(Reason.TRAIT, ", ".join(sorted(problem.traits - self.traits)))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Domain(ProblemDomain):
    """Convolutions that a solver takes: each field narrows it; the default is the first vocabulary.

    ``Domain(kinds=CPUS, dtypes=(DataType.FLOAT32,), traits=FIRST_TRAITS - {Trait.GAPS})``. Fields
    list what is accepted, never what is refused, so a direction, type or trait added later
    is outside the domains of all solvers that do not know it.

    Attributes:
        directions: the directions that it computes.
        kinds: the kinds of device that it supports.
        dtypes: the element types of x and w; y has the usual one, or the trait `RESULT_TYPE`.
        channels_last: whether channels come last in all tensors, or first in all; None: either.
        ranks: the numbers of spatial dimensions.
        traits: the traits that a problem may have.
        features: the features that the device must have.

    Raises:
        ValueError: a word is no direction, kind or type.
        TypeError: a rank is no whole number, or ``channels_last`` is neither a boolean nor None.
    """

    problem: str = ConvProblem.kind
    directions: tuple[Direction, ...] = (
        Direction.FORWARD,
        Direction.BACKWARD_DATA,
        Direction.BACKWARD_WEIGHTS,
    )
    dtypes: tuple[DataType, ...] = (
        DataType.FLOAT64,
        DataType.FLOAT32,
        DataType.FLOAT16,
        DataType.BFLOAT16,
        DataType.INT8,
    )
    channels_last: bool | None = None
    ranks: tuple[int, ...] = (1, 2, 3)
    traits: frozenset[str] = FIRST_TRAITS

    def __post_init__(self) -> None:
        ProblemDomain.__post_init__(self)
        object.__setattr__(self, "directions", tuple(map(Direction, self.directions)))
        object.__setattr__(self, "ranks", tuple(map(operator.index, self.ranks)))
        if not isinstance(self.channels_last, bool | None):
            msg = f"channels_last is {self.channels_last!r}; allowed: True, False, None"
            raise TypeError(msg)

    @staticmethod
    def _dtype(word: str) -> DataType:
        return DataType(word)

    def oriented(self, direction: Direction, channels_last: bool | None = None) -> Domain:
        """Return the domain for one direction and, if given, one order of channels."""
        return replace(self, directions=(direction,), channels_last=channels_last)

    def with_epilogue(self) -> Domain:
        """Return the domain with bias, added tensor and activation.

        It is for kernels that store all results by way of `convfind.kit.epilogue.Epilogue.of`.
        """
        return replace(self, traits=self.traits | EPILOGUE_TRAITS)

    def without(self, *traits: Trait) -> Domain:
        """Return the domain without problems that have any of these traits."""
        return replace(self, traits=self.traits.difference(traits))

    def _refusal(self, problem: ConvProblem) -> Rejected | None:
        if problem.direction not in self.directions:
            computed = " or ".join(self.directions)
            return Rejected(Reason.DIRECTION, f"{problem.direction} is not {computed}")
        if problem.dtype not in self.dtypes:
            return Rejected(Reason.DTYPE, f"is for {', '.join(self.dtypes)}, not {problem.dtype}")
        if problem.spatial_rank not in self.ranks:
            ranks = " or ".join(map(str, self.ranks))
            return Rejected(Reason.SPATIAL_RANK, f"is for {ranks}, not {problem.spatial_rank}")
        traits = problem.traits
        if self.channels_last is not None and (
            problem.x_layout.channels_last is not self.channels_last
            or Trait.MIXED_LAYOUTS in traits
        ):
            order = "last" if self.channels_last else "first"
            return Rejected(Reason.LAYOUT, f"x, w and y must all be channels {order}")
        if traits <= self.traits:
            return None
        foreign = traits - self.traits
        unknown = Rejected(Reason.TRAIT, ", ".join(sorted(foreign)))
        return next((why for trait, why in _OUTSIDE.items() if trait in foreign), unknown)


_PLURAL = {
    DeviceKind.CPU: "CPUs",
    DeviceKind.GPU: "GPUs",
    DeviceKind.ACCELERATOR: "accelerators",
}
#: The refusal for each trait that a domain excludes; the first applies.
_OUTSIDE: Mapping[str, Rejected] = MappingProxyType(
    {
        Trait.MIXED_LAYOUTS: Rejected(Reason.LAYOUT, "x, w and y must have the same layout"),
        Trait.GAPS: Rejected(Reason.NON_PACKED),
        Trait.RESULT_TYPE: Rejected(Reason.DTYPE, "y must be of the usual type for x and w"),
        Trait.GROUPS: Rejected(Reason.GROUPS, "is for one group"),
        Trait.FILTER: Rejected(Reason.FILTER_SIZE, "is for 1x1 filters"),
        Trait.STRIDE: Rejected(Reason.STRIDE, "is for stride 1"),
        Trait.DILATION: Rejected(Reason.DILATION, "is for dilation 1"),
        Trait.PADDING: Rejected(Reason.PADDING, "is for no padding"),
        Trait.ASYMMETRIC_PADDING: Rejected(Reason.PADDING, "is for as much at both ends"),
        Trait.ALPHA: Rejected(Reason.SCALING, "is for alpha 1"),
        Trait.BETA: Rejected(Reason.SCALING, "is for beta 0"),
        Trait.BIAS: Rejected(Reason.EPILOGUE, "takes no bias"),
        Trait.ADD: Rejected(Reason.EPILOGUE, "adds no tensor of its own"),
        Trait.ACTIVATION: Rejected(Reason.EPILOGUE, "applies no activation"),
        Trait.ADD_LAST: Rejected(Reason.EPILOGUE, "adds no tensor behind the activation"),
        Trait.DETERMINISTIC: Rejected(Reason.DETERMINISTIC),
        Trait.STRICT: Rejected(
            Reason.ACCURACY, "accuracy=strict wants products and sums of the direct formula"
        ),
    }
)
