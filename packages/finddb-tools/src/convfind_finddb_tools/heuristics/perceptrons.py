"""Perceptrons that learn side by side, and what they learn from. Needs PyTorch.

A perceptron predicts the logarithm of each solver's time. Its loss has five parts: the error of the
measured times; that of their distances from the fastest one; the cross-entropy of choosing among
the measured solvers, whose targets are shares that fall with the twentieth power of the time; the
expected regret, which is the log slowdown of a choice by these odds; and, for solvers without a
time, by how much they are predicted to be faster than a little behind the best: they cannot run the
problem, or were slower than what was recorded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convfind.heuristics.network import Floats

SHARPNESS = 8.0  # log times to odds while training

_CONTRAST = 20.0  # power of the time in the targets
_FAR = 4.0  # log times further than this from the best have no share
_NEVER = -1e9
_REGRET = 2.0  # weight of the expected regret
_MOST_REGRET = 2.0  # log times further than this from the best are no worse
_BEHIND = 0.2  # log time by which a solver without a time should be behind the best
_CENSORED = 0.1  # weight of that
_ROUND = 0.1  # errors below it count by their square
_FEWEST_STEPS = 40  # of an epoch with little data


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a network, and what keeps it from learning its problems by heart."""

    hidden: tuple[int, ...]  # units of each layer, at most
    dropout: float
    decay: float  # of the weights
    members: int = 1  # the mean of so many networks
    is_fine: bool = False  # ramps and remainders
    distance: float = 1.0  # weight of the error of the distances, which noise makes worse


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast perceptrons learn: epochs, problems of a step, rate, and a seed for the order."""

    epochs: int
    batch: int
    rate: float
    seed: int


@dataclass(frozen=True, slots=True)
class Examples:
    """What was measured, a row for each problem."""

    inputs: torch.Tensor
    times: torch.Tensor  # logarithms less that of the work; 0 where there is none
    measured: torch.Tensor
    shares: torch.Tensor
    regret: torch.Tensor  # log times behind the best; 0 where there is none

    @classmethod
    def of(cls, inputs: Floats, times: Floats, base: Floats) -> Examples:
        """Inputs, log times of all solvers, infinite where there is none, and log works."""
        measured = np.isfinite(times)
        behind = np.clip(times - times.min(axis=1, keepdims=True), 0.0, _FAR)
        shares = np.where(measured, np.exp(-_CONTRAST * behind), 0.0)
        shares /= shares.sum(axis=1, keepdims=True)
        relative = np.where(measured, times - base[:, None], 0.0)
        return cls(
            torch.from_numpy(inputs),
            torch.from_numpy(relative.astype(np.float32)),
            torch.from_numpy(measured),
            torch.from_numpy(shares.astype(np.float32)),
            torch.from_numpy(np.where(measured, behind.clip(0.0, _MOST_REGRET), 0.0)),
        )

    @property
    def typical(self) -> torch.Tensor:
        """Mean of each solver's values, from which the training starts."""
        return self.times.sum(0) / self.measured.sum(0).clamp(min=1)


class Perceptrons:
    """Several perceptrons of one form that learn side by side: (members, rows, values).

    Values are dropped only where gradients are wanted.
    """

    def __init__(self, form: Form, widths: Sequence[int], start: torch.Tensor) -> None:
        """Take the units of each layer, with the inputs, and what outputs start from."""
        self.form = form
        self.weights: list[torch.nn.Parameter] = []
        self.biases: list[torch.nn.Parameter] = []
        for inputs, outputs in itertools.pairwise((*widths, len(start))):
            bound = inputs**-0.5
            weight = torch.empty(form.members, inputs, outputs).uniform_(-bound, bound)
            bias = torch.empty(form.members, 1, outputs).uniform_(-bound, bound)
            self.weights.append(torch.nn.Parameter(weight))
            self.biases.append(torch.nn.Parameter(bias))
        with torch.no_grad():
            self.weights[-1].mul_(0.3)
            self.biases[-1][:] = start

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Inputs of each member to its outputs."""
        layers = list(zip(self.weights, self.biases, strict=True))
        for weight, bias in layers[:-1]:
            values = torch.baddbmm(bias, values, weight).relu()
            dropout = self.form.dropout
            values = torch.nn.functional.dropout(values, dropout, torch.is_grad_enabled())
        return torch.baddbmm(layers[-1][1], values, layers[-1][0])

    def mean(self, inputs: torch.Tensor) -> torch.Tensor:
        """The mean of the members' outputs, (rows, solvers)."""
        with torch.no_grad():
            return self(inputs.expand(self.form.members, -1, -1)).mean(0)

    def side_by_side(self) -> tuple[list[Floats], list[Floats]]:
        """Weights, (outputs, inputs), and biases of the one perceptron that is their mean."""
        matrices: list[Floats] = [w.detach().numpy().transpose(0, 2, 1) for w in self.weights]
        first, *middle, last = matrices
        *biases, typical = (bias.detach().numpy() for bias in self.biases)
        count = np.float32(len(first))
        return (
            [np.vstack(list(first)), *map(_block_diagonal, middle), np.hstack(list(last)) / count],
            [*(bias.reshape(-1) for bias in biases), typical.mean(axis=0).reshape(-1)],
        )

    def learn(
        self,
        examples: Examples,
        rows: NDArray[np.int64],
        pace: Pace,
        on_epoch: Callable[[], None],
    ) -> None:
        """Adam with a rate that rises and falls once; each member has an order of its own."""
        batch = max(8, min(pace.batch, len(rows) // 16))
        steps = max(1, len(rows) // batch)
        rounds = math.ceil(_FEWEST_STEPS / steps)
        parameters = self.weights + self.biases
        optimizer = torch.optim.AdamW(parameters, pace.rate, weight_decay=self.form.decay)
        total = pace.epochs * rounds * steps + 1
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, pace.rate, total_steps=total, pct_start=0.1
        )
        generator = np.random.default_rng(pace.seed)
        for _ in range(pace.epochs):
            for _ in range(rounds):
                orders = [generator.permutation(rows) for _ in self.weights[0]]
                order = torch.from_numpy(np.stack(orders))
                for step in range(steps):
                    chosen = order[:, step * batch : (step + 1) * batch]
                    loss: Any = self._loss(examples, chosen)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    schedule.step()
            on_epoch()

    def _loss(self, examples: Examples, chosen: torch.Tensor) -> torch.Tensor:
        """The sum of the members' losses; ``chosen`` are the rows of each, (members, rows)."""
        predicted = self(examples.inputs[chosen]).flatten(0, 1)
        rows = chosen.flatten()
        measured, times = examples.measured[rows], examples.times[rows]
        odds = torch.where(measured, -SHARPNESS * predicted, torch.full_like(predicted, _NEVER))
        log_odds = torch.log_softmax(odds, 1)
        choice = -(examples.shares[rows] * log_odds).sum()
        regret = (examples.regret[rows] * log_odds.exp()).sum()
        zero = torch.zeros_like(predicted)
        errors = torch.where(measured, predicted - times, zero)
        none = torch.full_like(errors, math.inf)
        best, fastest = torch.where(measured, times, none).min(1, keepdim=True)
        apart = torch.where(measured, errors - errors.gather(1, fastest), zero)
        error = _size(errors).sum() + self.form.distance * _size(apart).sum()
        early = torch.where(measured, zero, best + _BEHIND - predicted).clamp(min=0.0).sum()
        return (choice + _REGRET * regret + error + _CENSORED * early) / chosen.shape[1]


def _size(errors: torch.Tensor) -> torch.Tensor:
    zero = torch.zeros_like(errors)
    return torch.nn.functional.smooth_l1_loss(errors, zero, beta=_ROUND, reduction="none")


def _block_diagonal(blocks: Floats) -> Floats:
    rows, columns = np.sum([block.shape for block in blocks], axis=0)
    matrix = np.zeros((rows, columns), np.float32)
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix
