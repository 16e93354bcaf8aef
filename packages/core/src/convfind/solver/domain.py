"""`Domain`: the problems that a solver takes, as data; others are refused without calling it."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, final

from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem
from convfind.problem.traits import EPILOGUE_TRAITS, FIRST_TRAITS, Trait
from convfind.reasons import Reason
from convfind.solver.applicability import Rejected
from convfind.types import DataType, Direction

CPUS: Final = (DeviceKind.CPU,)
GPUS: Final = (DeviceKind.GPU, DeviceKind.ACCELERATOR)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Problems that a solver takes: each field narrows it; the default is the first vocabulary.

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

    directions: tuple[Direction, ...] = (
        Direction.FORWARD,
        Direction.BACKWARD_DATA,
        Direction.BACKWARD_WEIGHTS,
    )
    kinds: tuple[DeviceKind, ...] = (DeviceKind.CPU, DeviceKind.GPU, DeviceKind.ACCELERATOR)
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
    features: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name, kind in (("directions", Direction), ("kinds", DeviceKind), ("dtypes", DataType)):
            object.__setattr__(self, name, tuple(map(kind, getattr(self, name))))
        object.__setattr__(self, "ranks", tuple(map(operator.index, self.ranks)))
        for name in ("traits", "features"):
            object.__setattr__(self, name, frozenset(map(str, getattr(self, name))))
        if not isinstance(self.channels_last, bool | None):
            msg = f"channels_last is {self.channels_last!r}; allowed: True, False, None"
            raise TypeError(msg)

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

    def refusal(self, problem: ConvProblem, target: Target) -> Rejected | None:
        """Return why a problem on a target is outside the domain; None if it is inside."""
        if target.kind not in self.kinds:
            kinds = " and ".join(_PLURAL[kind] for kind in self.kinds)
            return Rejected(Reason.DEVICE_KIND, f"is for {kinds}")
        if not self.features <= target.features:
            missing = ", ".join(sorted(self.features - target.features))
            return Rejected(Reason.FEATURE, f"needs {missing}")
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
        Trait.DETERMINISTIC: Rejected(Reason.DETERMINISTIC),
        Trait.STRICT: Rejected(
            Reason.ACCURACY, "accuracy=strict wants products and sums of the direct formula"
        ),
    }
)
