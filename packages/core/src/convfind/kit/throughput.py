"""The weighted throughput index on CPUs, from operations that a solver's author has counted."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.problem import ConvProblem

#: Operations that a core could do while a launch begins and ends: about 2 us.
_LAUNCH = 150_000


def cpu_index(problem: ConvProblem, target: Target, operations: float, launches: int = 1) -> float:
    """Return the direct formula's operations over those that are expected to take as long.

    ``operations`` are floating-point operations at the device's peak, those of the arithmetic
    divided by the share of the peak that it reaches, and whatever else takes time, in the
    operations that take as long: fits to the times of 17,000 problems on two CPUs put a float
    that is moved at 10 to 120, one that a gather collects at 10 to 75.
    """
    return problem.flops / (operations + launches * _LAUNCH * target.compute_units)


def fill(size: int, unit: int) -> float:
    """Return the share of whole units that a size fills."""
    return size / (-(-size // unit) * unit)
