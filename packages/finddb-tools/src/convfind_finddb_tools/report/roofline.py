"""Roofline: attained performance over arithmetic intensity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from convfind_finddb_tools.report.layers import Layer

_MOST = 600


@dataclass(frozen=True, slots=True)
class Point:
    """A layer's fastest record."""

    layer: Layer
    intensity: float  # floating-point operations for each byte that has to be moved
    gflops: float

    @property
    def gbytes(self) -> float:
        """Gigabytes a second, each tensor moved once."""
        return self.gflops / self.intensity


@dataclass(frozen=True, slots=True)
class Roof:
    """Peaks of a device, given, or the best that any record reaches."""

    gflops: float
    gbytes: float
    given_gflops: bool
    given_gbytes: bool

    @property
    def ridge(self) -> float:
        """The intensity from which on arithmetic limits, not memory."""
        return self.gflops / self.gbytes

    def at(self, intensity: float) -> float:
        """Return the attainable GFLOP/s."""
        return min(self.gflops, intensity * self.gbytes)


def telling(layers: Sequence[Layer]) -> list[Layer]:
    """No more layers than can be told apart: those that take most time, and of the rest some."""
    ordered = sorted(layers, key=lambda one: (-one.total_ms, one.entry.problem))
    rest = ordered[_MOST // 2 :]
    return [*ordered[: _MOST // 2], *rest[:: -(-len(rest) // (_MOST // 2)) or 1]]


def points_of(layers: Iterable[Layer]) -> list[Point]:
    """The points of the layers whose problem convfind knows; operations of the direct formula."""
    points = []
    for layer in layers:
        problem = layer.problem
        if problem is not None:
            gflops = problem.flops / layer.winner.time_ms / 1e6
            points.append(Point(layer, problem.flops / problem.traffic, gflops))
    return points


def roof_over(points: list[Point], gflops: float | None, gbytes: float | None) -> Roof:
    """The roof over points; a peak that is not given is the best that any of them reaches."""
    return Roof(
        max(point.gflops for point in points) if gflops is None else gflops,
        max(point.gbytes for point in points) if gbytes is None else gbytes,
        gflops is not None,
        gbytes is not None,
    )
