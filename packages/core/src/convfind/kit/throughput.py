"""The weighted throughput index on CPUs, from a solver's operation count."""

from __future__ import annotations

from convfind.device.target import Target
from convfind.problem import ConvProblem

#: Operations per core that correspond to the overhead of a launch: about 2 us.
_LAUNCH = 150_000


def cpu_index(problem: ConvProblem, target: Target, operations: float, launches: int = 1) -> float:
    """Return the direct formula's operations divided by the cost in operations at peak speed.

    ``operations`` is the cost as floating-point operations at the device's peak: arithmetic
    divided by the fraction of the peak that it reaches, plus all other work, expressed as the
    operations that take as long. Fits to the times of 17,000 problems on two CPUs put a moved
    float at 10 to 120 operations and a gathered one at 10 to 75.
    """
    return problem.flops / (operations + launches * _LAUNCH * target.compute_units)


def fill(size: int, unit: int) -> float:
    """Return the size as a share of the whole units that it occupies."""
    return size / (-(-size // unit) * unit)
