"""Problems as values: their contract, and convolutions with their checks and forms as text."""

from __future__ import annotations

from convfind.problem.activation import Activation, ActivationKind
from convfind.problem.contract import Problem
from convfind.problem.conv_problem import ConvProblem
from convfind.problem.tensor_spec import TensorSpec
from convfind.problem.traits import EPILOGUE_TRAITS, FIRST_TRAITS, PACKED_TRAITS, Trait

__all__ = [
    "EPILOGUE_TRAITS",
    "FIRST_TRAITS",
    "PACKED_TRAITS",
    "Activation",
    "ActivationKind",
    "ConvProblem",
    "Problem",
    "TensorSpec",
    "Trait",
]
