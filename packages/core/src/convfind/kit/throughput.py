"""The inputs of weighted throughput indices: operations on CPUs, seconds on GPUs."""

from __future__ import annotations

from convfind.device.model import MEASURED, DeviceModel
from convfind.device.target import DeviceKind, Target
from convfind.problem import ConvProblem

#: Operations per core that correspond to the overhead of a launch, and its seconds.
_LAUNCH, _LAUNCH_SECONDS = 150_000, 2e-6
#: The operations that correspond to a float of packed weights, which is read, turned and written.
#: How they were chosen: ADR 0061.
_PACKED = 42
#: The least index of a GPU's solver, above those of last resorts.
_LEAST = 0.02
#: The milliseconds of any index are between these: their ratios are numbers above 0.
_LEAST_MS, _MOST_MS = 1e-100, 1e100


def cpu_index(problem: ConvProblem, target: Target, operations: float, launches: int = 1) -> float:
    """Return the direct formula's operations divided by the cost in operations at peak speed.

    ``operations`` is the cost as floating-point operations at the device's peak: arithmetic
    divided by the fraction of the peak that it reaches, plus all other work, expressed as the
    operations that take as long. Fits to the times of 17,000 problems on two CPUs put a moved
    float at 10 to 120 operations and a gathered one at 10 to 75.
    """
    return problem.flops / (operations + launches * _LAUNCH * target.compute_units)


def index_ms(operations: float, target: Target, index: float) -> float:
    """Return the milliseconds of operations that a solver of such an index promises."""
    rate = _LAUNCH / _LAUNCH_SECONDS if target.kind is DeviceKind.CPU else MEASURED.flops
    milliseconds = 1e3 * operations / (index * rate * max(target.compute_units, 1))
    return min(max(milliseconds, _LEAST_MS), _MOST_MS)


def packing_ms(nbytes: int, target: Target) -> float:
    """Return the milliseconds that weights of so many bytes take to be packed before a run.

    On a GPU it is the least that the memory's bandwidth allows.
    """
    if target.kind is DeviceKind.CPU:
        seconds = nbytes / 4 * _PACKED * _LAUNCH_SECONDS / _LAUNCH
    else:
        seconds = nbytes / DeviceModel.of(target).bandwidth
    return 1e3 * seconds / max(target.compute_units, 1)


def peak_seconds(operations: float, target: Target) -> float:
    """Return the seconds of floating-point operations at a GPU's peak, by plain arithmetic.

    All seconds here are those of units as fast as an H200's, where rates of kernels were measured:
    on another GPU arithmetic takes as much longer as its units are slower, which no order among
    solvers depends on, and memory takes what `memory_seconds` says beside it.
    """
    return operations / (MEASURED.flops * target.compute_units)


def memory_seconds(nbytes: float, target: Target, share: float) -> float:
    """Return the seconds of bytes moved at a share of a GPU's bandwidth; see `peak_seconds`."""
    model = DeviceModel.of(target)
    unit = model.bandwidth * MEASURED.flops / model.flops
    return nbytes / (share * unit * target.compute_units)


def gpu_index(problem: ConvProblem, target: Target, seconds: float) -> float:
    """Return the direct formula's time at the peak over so many seconds, and never nothing."""
    return max(peak_seconds(problem.flops, target) / seconds, _LEAST)


def product_index(
    problem: ConvProblem, target: Target, seconds: float, share: float, more: float = 0.0
) -> float:
    """Return the index of a product's seconds and of memory, of which it hides most.

    ``share`` is the part of the bandwidth that it reaches; ``more`` seconds are not hidden.
    """
    memory = memory_seconds(problem.traffic, target, share)
    return gpu_index(problem, target, max(seconds + memory / 4, memory) + more)


def fill(size: int, unit: int) -> float:
    """Return the size as a share of the whole units that it occupies."""
    return size / (-(-size // unit) * unit)
