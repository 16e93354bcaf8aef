"""Operators of convfind, which need no find: pooling, norms, softmax, arithmetic, copies."""

from __future__ import annotations

from convfind_operators.attention import AttentionProblem
from convfind_operators.element_type import ElementType
from convfind_operators.elementwise import (
    ActivationProblem,
    BatchNormProblem,
    BinaryProblem,
    CastProblem,
    UnaryProblem,
    WhereProblem,
)
from convfind_operators.epilogue_gradient import EpilogueGradientProblem
from convfind_operators.fused_gradients import FusedGradients
from convfind_operators.gather import GatherElementsProblem, GatherProblem
from convfind_operators.joining import ConcatProblem, SplitProblem
from convfind_operators.local_response import LocalResponseNormProblem
from convfind_operators.matmul import MatMulProblem
from convfind_operators.normalization import GroupNormProblem, LayerNormProblem, RMSNormProblem
from convfind_operators.operand import Operand
from convfind_operators.operator import Operator
from convfind_operators.pad import PadProblem
from convfind_operators.pointwise_depthwise import PointwiseDepthwiseProblem
from convfind_operators.pooling import PoolingProblem
from convfind_operators.problem_list import problem_types
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
from convfind_operators.solver import OperatorSolver
from convfind_operators.solver_list import solver_of, solvers
from convfind_operators.top_k import TopKProblem

__all__ = [
    "ActivationProblem",
    "ArgReductionProblem",
    "AttentionProblem",
    "BatchNormProblem",
    "BinaryProblem",
    "CastProblem",
    "ChannelShuffleProblem",
    "ConcatProblem",
    "CopyProblem",
    "CumulativeProductProblem",
    "CumulativeSumProblem",
    "ElementType",
    "EpilogueGradientProblem",
    "ExpandProblem",
    "FusedGradients",
    "GatherElementsProblem",
    "GatherProblem",
    "GroupNormProblem",
    "LayerNormProblem",
    "LocalResponseNormProblem",
    "MatMulProblem",
    "Operand",
    "Operator",
    "OperatorSolver",
    "PadProblem",
    "PointwiseDepthwiseProblem",
    "PoolingProblem",
    "RMSNormProblem",
    "ReductionProblem",
    "ResizeProblem",
    "RotaryProblem",
    "ScatterElementsProblem",
    "SliceProblem",
    "SoftmaxProblem",
    "SplitProblem",
    "TileProblem",
    "TopKProblem",
    "TransposeProblem",
    "UnaryProblem",
    "WhereProblem",
    "problem_types",
    "solver_of",
    "solvers",
]
