"""`Roof`: the least time that arithmetic and memory of a device leave a direct convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from convfind.device.model import DeviceModel
from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Roof:
    """Peaks of a device in GFLOP/s and GB/s.

    Algorithms with fewer operations than the direct formula's, and matrix units, get above it.
    """

    gflops: float
    gbs: float

    @classmethod
    def of(cls, target: Target, gflops: float | None, gbs: float | None) -> Roof | None:
        """Return the peaks given, the others by data sheet; None where one is not known."""
        model = DeviceModel.known(target) if target.kind is DeviceKind.GPU else None
        if model is not None:
            gflops = gflops or model.flops * target.compute_units / 1e9
            gbs = gbs or model.bandwidth * target.compute_units / 1e9
        return cls(gflops, gbs) if gflops and gbs else None

    def bound_ms(self, problem: ConvProblem) -> float:
        """Return the time at the peak that is reached first, in ms."""
        return max(problem.flops / self.gflops, problem.traffic / self.gbs) / 1e6


def peak_options(function: Function) -> Function:
    """Add ``--peak-gflops`` and ``--peak-gbs``."""
    positive = click.FloatRange(min=0, min_open=True)
    for name, what in (("--peak-gbs", "GB/s"), ("--peak-gflops", "GFLOP/s")):
        text = f"The device's peak in {what}.  [a known GPU's data sheet]"
        function = click.option(name, type=positive, help=text)(function)
    return function
