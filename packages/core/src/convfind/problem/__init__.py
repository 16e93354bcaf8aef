"""A convolution as a value: the problem, its checks and its forms as text."""

from __future__ import annotations

from convfind.problem.activation import Activation, ActivationKind
from convfind.problem.conv_problem import ConvProblem

__all__ = ["Activation", "ActivationKind", "ConvProblem"]
