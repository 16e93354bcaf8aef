"""The figures of a page; each is None where there is nothing to show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from convfind.text import format_bytes, format_ms
from convfind_finddb_tools.report.drawing import (
    Bar,
    Box,
    Series,
    chart_area,
    draw_bars,
    draw_boxes,
    draw_chart,
)
from convfind_finddb_tools.report.layers import DeviceReport, Layer
from convfind_finddb_tools.report.pareto import LimitCost, limit_costs
from convfind_finddb_tools.report.roofline import Point, Roof
from convfind_finddb_tools.report.scale import Scale

T = TypeVar("T")

#: Colours that people with any kind of colour vision tell apart (Okabe and Ito).
COLORS = {
    "gemm": "#E69F00",
    "implicit-gemm": "#0072B2",
    "winograd": "#009E73",
    "direct": "#CC79A7",
    "fft": "#D55E00",
}
_OTHER, _BEFORE, _AFTER = "#7F8790", "#B4BCC6", "#0072B2"
_ROWS = 30  # bars, boxes
_POINTS = 600  # in one figure: more cannot be told apart


def color_of(algorithm: str) -> str:
    """The colour of an algorithm family."""
    return COLORS.get(algorithm, _OTHER)


def gains(report: DeviceReport) -> str | None:
    """Time before and after of the layers that gain most, one pass of the model."""
    changed = [layer for layer in report.compared if layer.gain_ms]
    layers = sorted(changed, key=lambda one: (-abs(one.gain_ms), one.label))[:_ROWS]
    if not layers:
        return None
    rows = [(_counted(layer), tuple(_gain_bars(layer))) for layer in layers]
    legend = {"before": _BEFORE, "after": _AFTER}
    return draw_bars(rows, "ms in one pass of the model", legend)


def _gain_bars(layer: Layer) -> list[Bar]:
    if layer.before is None:
        return []
    old, new = layer.count * layer.before.time_ms, layer.total_ms
    return [
        Bar(old, _BEFORE, f"{layer.before.solver}: {format_ms(old)} ms"),
        Bar(new, _AFTER, f"{layer.winner.solver}: {format_ms(new)} ms", f"{old / new:.2f}x"),
    ]


def wins(report: DeviceReport) -> str | None:
    """Wins of each solver, and its share of the time."""
    count: dict[str, int] = defaultdict(int)
    time_ms: dict[str, float] = defaultdict(float)
    family: dict[str, str] = {}
    for layer in report.layers:
        solver = layer.winner.solver
        count[solver] += layer.count
        time_ms[solver] += layer.total_ms
        family[solver] = layer.winner.algorithm
    solvers = sorted(count, key=lambda one: (-count[one], one))[:_ROWS]
    total = sum(count.values())
    rows = []
    for one in solvers:
        hint = (
            f"{one}: fastest in {count[one]:,} of {total:,} layers, "
            f"{time_ms[one] / report.after_ms:.1%} of the model's time"
        )
        bar = Bar(count[one], color_of(family[one]), hint, f"{count[one] / total:.0%}")
        rows.append((one, (bar,)))
    return draw_bars(rows, "layers won", _legend(family[one] for one in solvers))


def margins(report: DeviceReport) -> str | None:
    """By how much each winner beats the next solver."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    family: dict[str, str] = {}
    for layer in report.layers:
        if layer.margin is not None and layer.runner_up is not None:
            text = f"{layer.margin:.2f}x, {layer.label}, next: {layer.runner_up.solver}"
            found[layer.winner.solver].append((layer.margin, text))
            family[layer.winner.solver] = layer.winner.algorithm
    return _boxes(found, family, "time of the next over that of the winner", is_log=True)


def spreads(report: DeviceReport) -> str | None:
    """Spreads of the samples of measurements."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    family: dict[str, str] = {}
    for layer in report.layers:
        for result in layer.best:
            if result.record is not None and result.record.samples > 2:  # of two there is none
                share = 100 * result.record.spread_ms / result.time_ms
                text = f"{share:.1f} %, {layer.label}, {result.record.samples} samples"
                found[result.solver].append((share, text))
                family[result.solver] = result.algorithm
    return _boxes(found, family, "interquartile range over time", is_log=False)


def workspace(report: DeviceReport) -> str | None:
    """Cost of a workspace limit: the model's time with each layer at its best within the limit."""
    costs = limit_costs(report.layers)
    if len(costs) < 2:
        return None
    fits = next((n for n, cost in enumerate(costs) if not cost.over), len(costs))
    left, right, below, above = chart_area(360)
    end = _place(costs[-1].workspace) * 4
    start = _place(costs[0].workspace)
    x = Scale(start, end, left, right, _binary_ticks(start, end), is_log=True)
    y = Scale.linear(max(cost.time_ms for cost in costs), below, above)
    tight = Series(_staircase(costs[: fits + 1], None), _AFTER, "dashed")
    roomy = Series(_staircase(costs[fits:], end), _AFTER, "solid")
    axes = ("workspace limit of every layer; dashed: some layers need more", "ms in one pass")
    return draw_chart([tight, roomy] if fits else [roomy], x, y, axes, {})


def _staircase(
    costs: Sequence[LimitCost], end: float | None
) -> tuple[tuple[float, float, str, float], ...]:
    """Return the corners of a line that falls in steps, with a point for each limit."""
    corners: list[tuple[float, float, str, float]] = []
    for cost in costs:
        place = _place(cost.workspace)
        if corners:
            corners.append((place, corners[-1][1], "", 0.0))
        more = f"; {cost.over:,} problems need more" if cost.over else ""
        hint = f"limit {format_bytes(cost.workspace)}: {format_ms(cost.time_ms)} ms{more}"
        corners.append((place, cost.time_ms, hint, 3.0 if len(costs) <= 60 else 1.0))
    if end is not None and corners:
        corners.append((end, corners[-1][1], "", 0.0))
    return tuple(corners)


def _binary_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """About eight powers of two within the axis."""
    octaves = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    places = [2.0**octave for octave in octaves[:: -(-len(octaves) // 8) or 1]]
    return tuple((one, "0" if one <= _place(0) else format_bytes(int(one))) for one in places)


def roofline(points: Sequence[Point], roof: Roof) -> str:
    """GFLOP/s over operations a byte, below what the device can reach."""
    low = min(*(point.intensity for point in points), roof.ridge) / 2
    high = max(*(point.intensity for point in points), roof.ridge) * 2
    left, right, below, above = chart_area(440)
    edge = (low, roof.ridge, high)
    x = Scale.logarithmic(edge, left, right)
    heights = [*(point.gflops for point in points), *map(roof.at, edge)]
    y = Scale.logarithmic(heights, below, above)
    series = [Series(tuple((one, roof.at(one), "", 0.0) for one in edge), _OTHER, "solid")]
    most = max(point.layer.total_ms for point in points)
    families = sorted({point.layer.winner.algorithm for point in points})
    for algorithm in families:
        mine = [point for point in points if point.layer.winner.algorithm == algorithm]
        places = (
            (
                *(point.intensity, point.gflops, _point_text(point, roof)),
                3 + 10 * (point.layer.total_ms / most) ** 0.5,
            )
            for point in mine
        )
        series.append(Series(tuple(places), color_of(algorithm)))
    axes = ("operations a byte (each tensor moved once)", "GFLOP/s")
    return draw_chart(series, x, y, axes, {"roof": _OTHER, **_legend(families)})


def _point_text(point: Point, roof: Roof) -> str:
    share = point.gflops / roof.at(point.intensity)
    return (
        f"{point.layer.label}, {point.layer.winner.solver}: "
        f"{point.gflops:,.0f} GFLOP/s, {share:.0%} of the roof"
    )


def _boxes(
    found: dict[str, list[tuple[float, str]]], family: dict[str, str], axis: str, *, is_log: bool
) -> str | None:
    solvers = sorted(found, key=lambda one: (-len(found[one]), one))[:_ROWS]
    if not solvers:
        return None
    most = _POINTS // len(solvers) + 1
    rows = [
        (solver, Box(tuple(_thinned(found[solver], most)), color_of(family[solver])))
        for solver in solvers
    ]
    legend = _legend(family[solver] for solver in solvers)
    return draw_boxes(rows, axis, legend, is_log=is_log, suffix="" if is_log else " %")


def _legend(families: Iterable[str]) -> dict[str, str]:
    return {one: color_of(one) for one in sorted(set(families))}


def _counted(layer: Layer) -> str:
    times = f" ({layer.count}x)" if layer.count > 1 else ""
    return f"{layer.name or layer.label}{times}"


def _thinned(items: Sequence[T], most: int) -> Sequence[T]:
    """Every n-th item, so that no more than so many are left."""
    return items[:: -(-len(items) // most)] if items else items


def _place(size: int) -> float:
    """Position of a number of bytes on a logarithmic axis that has a zero."""
    return max(float(size), 256.0)
