"""`Lessons`: a teacher's predictions for problems, from which perceptrons learn. Needs PyTorch.

A perceptron's distance from its teacher has two parts: the errors of all solvers' times and of
their distances from the fastest one, weighted less the slower the teacher predicts a solver to be;
and the cross-entropy of the choice, whose targets are the mean of several teachers' odds, among the
solvers that were measured (G. Hinton, O. Vinyals and J. Dean, "Distilling the
knowledge in a neural network", 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from convfind_finddb_tools.heuristics.aim import Aim

SHARE = 0.2  # weight of measured times beside what a teacher says
NEVER = -1e9  # the logarithm of odds that are none

_LEAST = 1e-9  # odds of a measured solver that no teacher would choose
_DECAY = 1.5  # power of the speed in the weights of the errors
_ROUND = 0.1  # errors below it count by their square


@dataclass(frozen=True, slots=True)
class Lessons:
    """A teacher's predictions for problems, measured or not, one row for each.

    Attributes:
        inputs: what perceptrons see of them.
        times: of all solvers: logarithms less that of the work.
        odds: of each solver being the fastest.
        listed: the solvers with a time, of the problem that it was made from if it was made.
        rows: those from which each perceptron learns.
    """

    inputs: torch.Tensor
    times: torch.Tensor
    odds: torch.Tensor
    listed: torch.Tensor
    rows: Sequence[NDArray[np.int64]]

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """So many rows for each perceptron, (perceptrons, rows)."""
        drawn = [rows[generator.integers(len(rows), size=count)] for rows in self.rows]
        return np.stack(drawn)

    def distance(self, predicted: torch.Tensor, rows: torch.Tensor, aim: Aim) -> torch.Tensor:
        """Sum over rows of how far predictions, (rows, solvers), are from what the teacher says."""
        times = self.times[rows]
        best, fastest = times.min(1, keepdim=True)
        errors = predicted - times
        weights = torch.exp(_DECAY * (best - times))
        error = (weights * (size(errors) + size(apart(errors, fastest)))).sum()
        listed = self.listed[rows]
        odds = torch.where(listed, self.odds[rows] + _LEAST, torch.zeros_like(predicted))
        never = torch.full_like(predicted, NEVER)
        found = torch.log_softmax(torch.where(listed, -aim.sharpness * predicted, never), 1)
        return error - aim.choice * (odds / odds.sum(1, keepdim=True) * found).sum()


def apart(errors: torch.Tensor, fastest: torch.Tensor) -> torch.Tensor:
    """Errors of the distances from the fastest solvers, (rows, 1).

    The gradient of `torch.gather` would be a sum in no fixed order on GPUs.
    """
    chosen = torch.zeros_like(errors).scatter(1, fastest, 1.0)
    return errors - (errors * chosen).sum(1, keepdim=True)


def size(errors: torch.Tensor) -> torch.Tensor:
    """Return the smooth L1 loss of each error: its square if it is small, linear if it is large."""
    zero = torch.zeros_like(errors)
    return torch.nn.functional.smooth_l1_loss(errors, zero, beta=_ROUND, reduction="none")
