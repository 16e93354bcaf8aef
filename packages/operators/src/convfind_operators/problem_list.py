"""The problem types of the package, by the word of their kind."""

from __future__ import annotations

from convfind_operators.attention import AttentionProblem
from convfind_operators.elementwise import (
    ActivationProblem,
    BatchNormProblem,
    BinaryProblem,
    CastProblem,
    UnaryProblem,
    WhereProblem,
)
from convfind_operators.epilogue_gradient import EpilogueGradientProblem
from convfind_operators.gather import GatherElementsProblem, GatherProblem
from convfind_operators.joining import ConcatProblem, SplitProblem
from convfind_operators.local_response import LocalResponseNormProblem
from convfind_operators.matmul import MatMulProblem
from convfind_operators.normalization import GroupNormProblem, LayerNormProblem, RMSNormProblem
from convfind_operators.operator import Operator
from convfind_operators.pad import PadProblem
from convfind_operators.pointwise_depthwise import PointwiseDepthwiseProblem
from convfind_operators.pooling import PoolingProblem
from convfind_operators.rearrangement import (
    ChannelShuffleProblem,
    CopyProblem,
    ExpandProblem,
    SliceProblem,
    TileProblem,
    TransposeProblem,
)
from convfind_operators.reduction import ReductionProblem
from convfind_operators.resize import ResizeProblem
from convfind_operators.rotary import RotaryProblem
from convfind_operators.scan import (
    ArgReductionProblem,
    CumulativeProductProblem,
    CumulativeSumProblem,
)
from convfind_operators.scatter import ScatterElementsProblem
from convfind_operators.softmax import SoftmaxProblem
from convfind_operators.top_k import TopKProblem


def problem_types() -> tuple[type[Operator], ...]:
    """Return all problem types."""
    return (
        *(ActivationProblem, UnaryProblem, BinaryProblem, WhereProblem, CastProblem),
        EpilogueGradientProblem,
        *(BatchNormProblem, GroupNormProblem, LayerNormProblem, RMSNormProblem),
        *(LocalResponseNormProblem, ResizeProblem, MatMulProblem, AttentionProblem),
        *(PointwiseDepthwiseProblem, PoolingProblem, ReductionProblem, SoftmaxProblem),
        *(ArgReductionProblem, CumulativeSumProblem, CumulativeProductProblem, TopKProblem),
        *(GatherProblem, GatherElementsProblem, ScatterElementsProblem),
        *(CopyProblem, TransposeProblem, ConcatProblem, SplitProblem, SliceProblem, PadProblem),
        *(ExpandProblem, TileProblem, ChannelShuffleProblem, RotaryProblem),
    )
