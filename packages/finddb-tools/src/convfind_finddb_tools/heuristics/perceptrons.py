"""Perceptrons trained side by side, and their examples. Needs PyTorch.

A perceptron predicts the logarithm of each solver's time. Its loss has five parts: the error of the
measured times; that of their distances from the fastest one; the cross-entropy of choosing among
the measured solvers, whose targets are shares that fall with a high power of the time; the
expected regret, which is the log slowdown of a choice by these odds; and, for solvers without a
time, by how much they are predicted to be faster than a little behind the best: they cannot run the
problem, or were slower than what was recorded. Where teachers give lessons, a fifth of that counts,
and beside it how far the perceptron is from what they say (`Lessons.distance`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from convfind.heuristics.network import Floats
from convfind_finddb_tools.heuristics.aim import CONTRAST, FAIR, Aim
from convfind_finddb_tools.heuristics.descent import Descent
from convfind_finddb_tools.heuristics.lessons import NEVER, SHARE, Lessons, apart, size

_FAR = 4.0  # log times further than this from the best have no share
_REGRET = 2.0  # weight of the expected regret
_MOST_REGRET = 2.0  # log times further than this from the best are no worse
_BEHIND = 0.2  # log time by which a solver without a time should be behind the best
_CENSORED = 0.1  # weight of that
_FEWEST_STEPS = 40  # of an epoch with little data
_BLOCK = 2048  # problems whose intermediate values fit into memory, for many members


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a network, and its regularisation."""

    hidden: tuple[int, ...]  # units of each layer, at most
    dropout: float
    decay: float  # of the weights
    members: int = 1  # the mean of so many networks
    is_fine: bool = False  # ramps and remainders
    distance: float = 1.0  # weight of the error of the distances, which noise makes worse
    aim: Aim = FAIR


@dataclass(frozen=True, slots=True)
class Pace:
    """Schedule of the training: epochs, batch size, learning rate, and a seed for the order.

    ``steps`` are per epoch; 0: as many as there are problems for, and at least 40.
    """

    epochs: int
    batch: int
    rate: float
    seed: int
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Examples:
    """Measured problems, one row for each."""

    inputs: torch.Tensor
    times: torch.Tensor  # logarithms less that of the work; 0 where there is none
    measured: torch.Tensor
    shares: torch.Tensor
    regret: torch.Tensor  # log times behind the best; 0 where there is none

    @classmethod
    def of(cls, inputs: Floats, times: Floats, base: Floats, device: str = "cpu") -> Examples:
        """Inputs, log times of all solvers, infinite where there is none, and log works."""
        measured = np.isfinite(times)
        behind = np.clip(times - times.min(axis=1, keepdims=True), 0.0, _FAR)
        shares = np.where(measured, np.exp(-CONTRAST * behind), 0.0)
        shares /= shares.sum(axis=1, keepdims=True)
        relative = np.where(measured, times - base[:, None], 0.0)
        regret = np.where(measured, behind.clip(0.0, _MOST_REGRET), 0.0)

        def moved(values: NDArray[np.generic]) -> torch.Tensor:
            return torch.from_numpy(values).to(device)

        return cls(
            moved(inputs),
            moved(relative.astype(np.float32)),
            moved(measured),
            moved(shares.astype(np.float32)),
            moved(regret.astype(np.float32)),
        )

    def with_contrast(self, contrast: float) -> Examples:
        """The same with targets that fall with this power of the time."""
        if contrast == CONTRAST:
            return self
        shares = self.shares ** (contrast / CONTRAST)
        return replace(self, shares=shares / shares.sum(1, keepdim=True))

    @property
    def typical(self) -> torch.Tensor:
        """Mean of each solver's values, from which the training starts."""
        return self.times.sum(0) / self.measured.sum(0).clamp(min=1)


class Perceptrons:
    """Several perceptrons of one form, trained side by side: (members, rows, values).

    Dropout is applied only if gradients are needed.
    """

    def __init__(self, form: Form, widths: Sequence[int], start: torch.Tensor) -> None:
        """Take the units of each layer, with the inputs, and what outputs start from.

        They learn on the device that ``start`` is on.
        """
        self.form = form
        self._device = start.device
        self.weights: list[torch.nn.Parameter] = []
        self.biases: list[torch.nn.Parameter] = []
        for inputs, outputs in itertools.pairwise((*widths, len(start))):
            bound = inputs**-0.5
            weight = torch.empty(form.members, inputs, outputs).uniform_(-bound, bound)
            bias = torch.empty(form.members, 1, outputs).uniform_(-bound, bound)
            self.weights.append(torch.nn.Parameter(weight.to(self._device)))
            self.biases.append(torch.nn.Parameter(bias.to(self._device)))
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

    def mean(self, inputs: Floats, members: slice = slice(None)) -> Floats:
        """The mean of the outputs of these members, (rows, solvers)."""
        return self.answers(inputs, members)[0]

    def answers(self, inputs: Floats, members: slice = slice(None)) -> tuple[Floats, Floats]:
        """The mean of these members' outputs, and of their odds of each solver being the fastest.

        Both are (rows, solvers).
        """
        means = np.empty((len(inputs), self.biases[-1].shape[2]), np.float32)
        odds = np.empty_like(means)
        with torch.no_grad():
            for start in range(0, len(inputs), _BLOCK):
                block = torch.from_numpy(inputs[start : start + _BLOCK]).to(self._device)
                outputs = self(block.expand(self.form.members, -1, -1))[members]
                means[start : start + _BLOCK] = outputs.mean(0).cpu().numpy()
                each = torch.softmax(-self.form.aim.sharpness * outputs, 2)
                odds[start : start + _BLOCK] = each.mean(0).cpu().numpy()
        return means, odds

    def side_by_side(self, members: slice = slice(None)) -> tuple[list[Floats], list[Floats]]:
        """Weights, (outputs, inputs), and biases of the one perceptron that is their mean."""
        weights, biases = (
            [values[members].detach().cpu().numpy() for values in parameters]
            for parameters in (self.weights, self.biases)
        )
        first, *middle, last = (matrices.transpose(0, 2, 1) for matrices in weights)
        *before, typical = biases
        count = np.float32(len(first))
        return (
            [np.vstack(list(first)), *map(_block_diagonal, middle), np.hstack(list(last)) / count],
            [*(bias.reshape(-1) for bias in before), typical.mean(axis=0).reshape(-1)],
        )

    def learn(
        self,
        examples: Examples,
        rows: Sequence[NDArray[np.int64]],
        pace: Pace,
        on_epoch: Callable[[], None],
        lessons: Lessons | None = None,
    ) -> None:
        """Learn from examples, of which each member has its own ``rows`` in an order of its own."""
        aim = self.form.aim
        examples = examples.with_contrast(aim.contrast)
        typical = sum(map(len, rows)) // len(rows)
        batch = max(8, min(pace.batch, typical // 16))
        steps = pace.steps or max(1, typical // batch)
        rounds = 1 if pace.steps else math.ceil(_FEWEST_STEPS / steps)
        memory = [torch.zeros((len(rows), batch), dtype=torch.int64, device=self._device)]
        if lessons is not None:
            memory.append(torch.zeros_like(memory[0]))

        def loss(chosen: torch.Tensor, asked: torch.Tensor | None = None) -> torch.Tensor:
            total = self._loss(examples, chosen)
            if lessons is None or asked is None:
                return total
            predicted = self(lessons.inputs[asked]).flatten(0, 1)
            return SHARE * total + lessons.distance(predicted, asked.flatten(), aim) / batch

        descent = Descent(
            *(self.weights + self.biases, loss, memory),
            rate=pace.rate,
            decay=self.form.decay,
            steps=pace.epochs * rounds * steps,
        )
        generator = np.random.default_rng(pace.seed)
        for _ in range(pace.epochs):
            for _ in range(rounds):
                drawn = [np.stack([_order(own, steps * batch, generator) for own in rows])]
                if lessons is not None:
                    drawn.append(lessons.draw(steps * batch, generator))
                orders = [torch.from_numpy(numbers).to(self._device) for numbers in drawn]
                for first in range(0, steps * batch, batch):
                    descent.step(*(order[:, first : first + batch] for order in orders))
            on_epoch()

    def _loss(self, examples: Examples, chosen: torch.Tensor) -> torch.Tensor:
        """The sum of the members' losses; ``chosen`` are the rows of each, (members, rows)."""
        predicted = self(examples.inputs[chosen]).flatten(0, 1)
        rows = chosen.flatten()
        measured, times = examples.measured[rows], examples.times[rows]
        aim = self.form.aim
        odds = torch.where(measured, -aim.sharpness * predicted, torch.full_like(predicted, NEVER))
        log_odds = torch.log_softmax(odds, 1)
        choice = -aim.choice * (examples.shares[rows] * log_odds).sum()
        regret = (examples.regret[rows] * log_odds.exp()).sum()
        zero = torch.zeros_like(predicted)
        errors = torch.where(measured, predicted - times, zero)
        none = torch.full_like(errors, math.inf)
        best, fastest = torch.where(measured, times, none).min(1, keepdim=True)
        behind = torch.where(measured, apart(errors, fastest), zero)
        error = size(errors).sum() + self.form.distance * size(behind).sum()
        early = torch.where(measured, zero, best + _BEHIND - predicted).clamp(min=0.0).sum()
        return (choice + _REGRET * regret + error + _CENSORED * early) / chosen.shape[1]


def _order(
    rows: NDArray[np.int64], count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """So many rows: all of them in an order of chance, then again in another one."""
    rounds = range(math.ceil(count / len(rows)))
    return np.concatenate([generator.permutation(rows) for _ in rounds])[:count]


def _block_diagonal(blocks: Floats) -> Floats:
    rows, columns = np.sum([block.shape for block in blocks], axis=0)
    matrix = np.zeros((rows, columns), np.float32)
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix
