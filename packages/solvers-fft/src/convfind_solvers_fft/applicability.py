"""The demands of every FFT solver on a problem, and its promises about errors."""

from __future__ import annotations

from math import prod

from convfind.kit.plane_geometry import plane_geometry
from convfind.problem import PACKED_TRAITS, ConvProblem, Trait
from convfind.solver import APPLICABLE, Applicability, Domain, Reason, Rejected
from convfind.types import DataType
from convfind_solvers_fft.geometry import LEAST_STEP

#: The domain of all solvers of the family.
DOMAIN = Domain(
    dtypes=(DataType.FLOAT32,),
    ranks=(2,),
    traits=PACKED_TRAITS - {Trait.STRIDE, Trait.DILATION, Trait.STRICT},
)
#: Products that a filter must have for the direct formula: below, other families always win.
_LEAST_TAPS = 25
#: And a depthwise one, of which a channel is used once.
_LEAST_DEPTHWISE_TAPS = 81
#: Channels and filters of a group: with less of them transforms outweigh what they save.
_LEAST_CHANNELS = 3


def judge_dense(problem: ConvProblem) -> Applicability:
    """Judge window and channels, which must be worth the transforms."""
    if prod(problem.filter) < _LEAST_TAPS:
        return Rejected(Reason.FILTER_SIZE, f"is for filters of {_LEAST_TAPS} taps and more")
    channels, filters = problem.w_shape[1], problem.w_shape[0] // problem.groups
    if min(channels, filters) < _LEAST_CHANNELS:
        return Rejected(
            Reason.CHANNELS,
            f"is for {_LEAST_CHANNELS} channels and filters of a group, and more",
        )
    return APPLICABLE


def judge_depthwise(problem: ConvProblem) -> Applicability:
    """Judge groups, and whether the filter is large enough."""
    if problem.w_shape[1] != 1 or problem.w_shape[0] != problem.groups:
        return Rejected(Reason.GROUPS, "is for groups of one channel and one filter")
    if prod(problem.filter) < _LEAST_DEPTHWISE_TAPS:
        return Rejected(
            Reason.FILTER_SIZE, f"is for filters of {_LEAST_DEPTHWISE_TAPS} taps and more"
        )
    return APPLICABLE


def largest_number(problem: ConvProblem) -> int:
    """Return the largest of what kernels count in 32 bits: elements of an image, tiles, padding."""
    shape = plane_geometry(problem)
    image = max(problem.elements(name) for name in "xy") // shape.images
    tiles = shape.images * prod(-(-size // LEAST_STEP) for size in shape.out)
    return max(image, tiles, *map(abs, shape.padding))
