"""`Trait`: a property of a problem, by which solvers declare their domains."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from convfind.types import AccuracyClass

if TYPE_CHECKING:
    from convfind.problem.conv_problem import ConvProblem


class Trait(StrEnum):
    """A property that requires more of a solver than the plainest convolution does.

    A permission, such as ``allow_tf32`` or ``accuracy="relaxed"``, requires nothing and is no
    trait. Neither are direction, element type, layout and number of axes: every problem has
    them.
    """

    FILTER = "filter"  # of more than one tap
    STRIDE = "stride"  # above 1 along some axis
    DILATION = "dilation"  # above 1 along some axis of several taps
    PADDING = "padding"
    ASYMMETRIC_PADDING = "asymmetric-padding"  # more at one end of an axis than at the other
    GROUPS = "groups"  # more than one
    GAPS = "gaps"  # in the memory of some tensor
    MIXED_LAYOUTS = "mixed-layouts"  # x, w and y differ
    RESULT_TYPE = "result-type"  # y is not of the usual type for x and w
    ALPHA = "alpha"  # not 1
    BETA = "beta"  # not 0, of what lies in the result
    DETERMINISTIC = "deterministic"  # the same bits in every run
    STRICT = "strict"  # products and sums of the direct formula only
    BIAS = "bias"  # one number for each channel of the result is added
    ADD = "add"  # a tensor of its own is added, scaled by beta
    ACTIVATION = "activation"  # a function of each result
    ADD_LAST = "add-last"  # what is added is added behind that function


#: The traits that existed when domains were introduced. A solver that declares no domain takes
#: these and no later ones, so nothing is ever added here.
FIRST_TRAITS: Final[frozenset[str]] = frozenset(
    {
        *(Trait.FILTER, Trait.STRIDE, Trait.DILATION, Trait.PADDING, Trait.ASYMMETRIC_PADDING),
        *(Trait.GROUPS, Trait.GAPS, Trait.MIXED_LAYOUTS, Trait.RESULT_TYPE),
        *(Trait.ALPHA, Trait.BETA, Trait.DETERMINISTIC, Trait.STRICT),
    }
)


#: Work on sums that are complete: a solver takes all of it or none, mostly.
EPILOGUE_TRAITS: Final[frozenset[Trait]] = frozenset(
    {Trait.BIAS, Trait.ADD, Trait.ACTIVATION, Trait.ADD_LAST}
)

#: The traits that kernels for packed tensors take which store by way of the kit's epilogue.
PACKED_TRAITS: Final[frozenset[str]] = FIRST_TRAITS - {Trait.GAPS} | EPILOGUE_TRAITS


def traits_of(problem: ConvProblem) -> frozenset[str]:
    """Return the traits of a problem."""
    spaced = zip(problem.dilation, problem.filter, strict=True)
    present = {
        Trait.FILTER: max(problem.filter) > 1,
        Trait.STRIDE: max(problem.stride) > 1,
        Trait.DILATION: any(step > 1 and taps > 1 for step, taps in spaced),
        Trait.PADDING: any(problem.padding) or any(problem.padding_end),
        Trait.ASYMMETRIC_PADDING: problem.padding != problem.padding_end,
        Trait.GROUPS: problem.groups > 1,
        Trait.GAPS: not problem.is_packed,
        Trait.MIXED_LAYOUTS: not problem.layouts_agree,
        Trait.RESULT_TYPE: problem.y_dtype is not problem.dtype.result,
        Trait.ALPHA: problem.alpha != 1.0,
        Trait.BETA: problem.reads_result,
        Trait.DETERMINISTIC: problem.deterministic,
        Trait.STRICT: problem.accuracy is AccuracyClass.STRICT,
        Trait.BIAS: problem.bias,
        Trait.ADD: problem.adds_z,
        Trait.ACTIVATION: problem.activation is not None,
        Trait.ADD_LAST: problem.adds_z and problem.add_last,
    }
    return frozenset(trait for trait, is_present in present.items() if is_present)
