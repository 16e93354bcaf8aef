"""The figures, as plotly's own JSON; each is empty where there is nothing to show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from convfind.text import format_bytes, format_ms
from convfind_finddb_tools.report.layers import DeviceReport, Layer
from convfind_finddb_tools.report.pareto import LimitCost, limit_costs
from convfind_finddb_tools.report.roofline import Point, Roof

Figure = dict[str, Any]
T = TypeVar("T")

#: Colours that people with any kind of colour vision tell apart (Okabe and Ito).
COLORS = {
    "gemm": "#E69F00",
    "implicit-gemm": "#0072B2",
    "winograd": "#009E73",
    "direct": "#CC79A7",
    "fft": "#D55E00",
}
_OTHER, _BEFORE, _AFTER, _INK, _GRID = "#7F8790", "#B4BCC6", "#0072B2", "#1F2933", "#E4E8ED"
_ROWS = 30  # bars, boxes
_POINTS = 4000  # in one figure: more cannot be told apart
_FONT = {"family": "system-ui, 'DejaVu Sans', sans-serif", "size": 13, "color": _INK}


def color_of(algorithm: str) -> str:
    """The colour of an algorithm family."""
    return COLORS.get(algorithm, _OTHER)


def gains(report: DeviceReport) -> Figure | None:
    """Time before and after of the layers that gain most, one pass of the model."""
    changed = [layer for layer in report.compared if layer.gain_ms]
    layers = sorted(changed, key=lambda one: (-abs(one.gain_ms), one.label))[:_ROWS]
    if not layers:
        return None
    layers.reverse()  # plotly draws from below
    names = _distinct(_counted(layer) for layer in layers)
    before = [layer.count * layer.before.time_ms for layer in layers if layer.before]
    after = [layer.total_ms for layer in layers]
    hover = [
        f"{_escaped(layer.name or layer.label)}<br>{layer.before.solver}: {format_ms(old)} ms"
        f"<br>{layer.winner.solver}: {format_ms(new)} ms<br>{old / new:.2f} times as fast"
        for layer, old, new in zip(layers, before, after, strict=True)
        if layer.before
    ]
    bars = [
        _bar("after", after, names, hover, _AFTER),
        _bar("before", before, names, hover, _BEFORE),
    ]
    layout = _layout(60 + 30 * len(layers), xaxis="ms in one pass of the model", left=True)
    layout |= {"barmode": "group", "bargap": 0.25, "legend": _legend() | {"traceorder": "reversed"}}
    return {"data": bars, "layout": layout}


def names_are_long(report: DeviceReport) -> bool:
    """True where half the width of the page does not do for names of solvers."""
    return max(len(layer.winner.solver) for layer in report.layers) > 36


def wins(report: DeviceReport) -> Figure | None:
    """Wins of each solver, and its share of the time."""
    count: dict[str, int] = defaultdict(int)
    time_ms: dict[str, float] = defaultdict(float)
    family: dict[str, str] = {}
    for layer in report.layers:
        solver = layer.winner.solver
        count[solver] += layer.count
        time_ms[solver] += layer.total_ms
        family[solver] = layer.winner.algorithm
    solvers = sorted(count, key=lambda one: (-count[one], one))[:_ROWS][::-1]
    total = sum(count.values())
    data = []
    for algorithm in sorted({family[solver] for solver in solvers}):
        mine = [solver for solver in solvers if family[solver] == algorithm]
        text = [f"{count[one] / total:.0%}" for one in mine]
        hover = [
            f"{one}: fastest in {count[one]:,} of {total:,} layers"
            f"<br>{time_ms[one] / report.after_ms:.1%} of the model's time"
            for one in mine
        ]
        bar = _bar(algorithm, [count[one] for one in mine], mine, hover, color_of(algorithm))
        data.append(bar | {"text": text, "textposition": "outside", "cliponaxis": False})
    layout = _layout(80 + 30 * len(solvers), xaxis="layers won", left=True)
    layout["yaxis"] |= {"categoryorder": "array", "categoryarray": solvers}
    layout |= {"barmode": "stack", "bargap": 0.3}
    return {"data": data, "layout": layout}


def margins(report: DeviceReport) -> Figure | None:
    """By how much each winner beats the next solver."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    family: dict[str, str] = {}
    for layer in report.layers:
        if layer.margin is not None and layer.runner_up is not None:
            text = f"{_escaped(layer.label)}<br>next: {layer.runner_up.solver}"
            found[layer.winner.solver].append((layer.margin, text))
            family[layer.winner.solver] = layer.winner.algorithm
    figure = _boxes(found, family, "time of the next / of the winner")
    if figure is not None:
        ratios = [ratio for values in found.values() for ratio, _ in values]
        figure["layout"]["xaxis"] |= _logarithmic(ratios)
    return figure


def spreads(report: DeviceReport) -> Figure | None:
    """Spreads of the samples of measurements."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    family: dict[str, str] = {}
    for layer in report.layers:
        for result in layer.best:
            if result.record is not None and result.record.samples > 1:
                share = 100 * result.record.spread_ms / result.time_ms
                text = f"{_escaped(layer.label)}<br>{result.record.samples} samples"
                found[result.solver].append((share, text))
                family[result.solver] = result.algorithm
    figure = _boxes(found, family, "interquartile range / time")
    if figure is not None:
        figure["layout"]["xaxis"] |= {"rangemode": "tozero", "ticksuffix": " %"}
    return figure


def workspace(report: DeviceReport) -> Figure | None:
    """Cost of a workspace limit: the model's time with each layer at its best within the limit."""
    costs = limit_costs(report.layers)
    if len(costs) < 2:
        return None
    fits = next((n for n, cost in enumerate(costs) if not cost.over), len(costs))
    end = _place(costs[-1].workspace) * 4
    tight = _staircase(costs[: fits + 1], "some layers need more", "dot", None)
    roomy = _staircase(costs[fits:], "every layer fits", "solid", end)
    ticks = _binary_ticks(_place(costs[0].workspace), end)
    layout = _layout(360, xaxis="workspace limit of every layer", yaxis="ms in one pass")
    layout["xaxis"] |= {
        "type": "log",
        "tickvals": ticks,
        "ticktext": ["0" if one <= _place(0) else format_bytes(int(one)) for one in ticks],
    }
    layout["yaxis"] |= {"rangemode": "tozero"}
    return {"data": [tight, roomy] if fits else [roomy], "layout": layout}


def _staircase(costs: Sequence[LimitCost], name: str, dash: str, end: float | None) -> Figure:
    text = [
        f"limit {format_bytes(cost.workspace)}: {format_ms(cost.time_ms)} ms"
        + (f"<br>{cost.over:,} problems need more" if cost.over else "")
        for cost in costs
    ]
    places = [_place(cost.workspace) for cost in costs]
    times = [cost.time_ms for cost in costs]
    if end is not None and times:
        places, times, text = [*places, end], [*times, times[-1]], [*text, "no limit"]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": places,
        "y": times,
        "line": {"shape": "hv", "color": _AFTER, "width": 2.5, "dash": dash},
        "marker": {"size": 6 if len(places) <= 60 else 1, "color": _AFTER},
        "text": text,
        "hoverinfo": "text",
    }


def _binary_ticks(low: float, high: float) -> list[float]:
    """About eight powers of two, the first one below everything."""
    octaves = range(math.floor(math.log2(low)), math.ceil(math.log2(high)) + 1)
    return [2.0**octave for octave in octaves[:: -(-len(octaves) // 8)]]


def roofline(points: Sequence[Point], roof: Roof) -> Figure:
    """GFLOP/s over operations a byte, below what the device can reach."""
    low = min(*(point.intensity for point in points), roof.ridge) / 2
    high = max(*(point.intensity for point in points), roof.ridge) * 2
    edge = [low, roof.ridge, high]
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "roof",
            "x": edge,
            "y": [roof.at(one) for one in edge],
            "line": {"color": _INK, "width": 2},
            "hoverinfo": "skip",
        }
    ]
    most = max(point.layer.total_ms for point in points)
    for algorithm in sorted({point.layer.winner.algorithm for point in points}):
        mine = [point for point in points if point.layer.winner.algorithm == algorithm]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": algorithm,
                "x": [point.intensity for point in mine],
                "y": [point.gflops for point in mine],
                "marker": {
                    "color": color_of(algorithm),
                    "opacity": 0.75,
                    "size": [6 + 20 * (point.layer.total_ms / most) ** 0.5 for point in mine],
                    "line": {"width": 0.5, "color": "#FFFFFF"},
                },
                "text": [_point_text(point, roof) for point in mine],
                "hoverinfo": "text",
            }
        )
    layout = _layout(440, xaxis="operations a byte (each tensor moved once)", yaxis="GFLOP/s")
    layout["xaxis"] |= _logarithmic(edge)
    layout["yaxis"] |= _logarithmic([roof.gflops, *(point.gflops for point in points)])
    return {"data": data, "layout": layout}


def _point_text(point: Point, roof: Roof) -> str:
    share = point.gflops / roof.at(point.intensity)
    return (
        f"{_escaped(point.layer.label)}<br>{point.layer.winner.solver}"
        f"<br>{point.gflops:,.0f} GFLOP/s, {share:.0%} of the roof"
    )


def _boxes(
    found: dict[str, list[tuple[float, str]]], family: dict[str, str], title: str
) -> Figure | None:
    solvers = sorted(found, key=lambda one: (-len(found[one]), one))[:_ROWS][::-1]
    if not solvers:
        return None
    data: list[Figure] = []
    seen: set[str] = set()
    for solver in solvers:
        values = _thinned(found[solver], _POINTS // len(solvers) + 1)
        algorithm = family[solver]
        data.append(
            {
                "type": "box",
                "orientation": "h",
                "name": algorithm,
                "legendgroup": algorithm,
                "showlegend": algorithm not in seen,
                "x": [value for value, _ in values],
                "y": [solver] * len(values),
                "text": [text for _, text in values],
                "hovertemplate": "%{x:.3g}<br>%{text}<extra></extra>",
                "boxpoints": "all" if len(values) <= 200 else "outliers",
                "jitter": 0.5,
                "pointpos": 0,
                "marker": {"color": color_of(algorithm), "size": 4, "opacity": 0.6},
                "line": {"width": 1.2},
                "fillcolor": "rgba(0,0,0,0)",
                "width": 0.6,
            }
        )
        seen.add(algorithm)
    return {"data": data, "layout": _layout(90 + 34 * len(solvers), xaxis=title, left=True)}


def _bar(
    name: str, values: Sequence[float], names: Sequence[str], hover: Sequence[str], color: str
) -> Figure:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": list(values),
        "y": list(names),
        "hovertext": list(hover),
        "hoverinfo": "text",
        "marker": {"color": color},
    }


def _layout(height: int, *, xaxis: str, yaxis: str = "", left: bool = False) -> Figure:
    """The common looks; ``left`` makes room for names on the vertical axis."""
    axis = {"gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, "linecolor": _GRID}
    return {
        "height": max(height, 180),
        "margin": {"l": 10 if left else 60, "r": 40, "t": 40, "b": 44},
        "font": _FONT,
        "paper_bgcolor": "#FFFFFF",
        "plot_bgcolor": "#FFFFFF",
        "xaxis": axis | {"title": {"text": xaxis}},
        "yaxis": axis | {"title": {"text": yaxis}, "showgrid": not left},
        "legend": _legend(),
        "hoverlabel": {"align": "left"},
    }


def _legend() -> Figure:
    place = {"x": 0, "y": 1, "xanchor": "left", "yanchor": "top"}
    return place | {"orientation": "h", "xref": "container", "yref": "container"}


def _counted(layer: Layer) -> str:
    times = f" ({layer.count}x)" if layer.count > 1 else ""
    return _escaped(f"{layer.label}{times}")


def _distinct(names: Iterable[str]) -> list[str]:
    """Tell equal names apart, which plotly would draw as one."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name + "\u200b" * (seen[name] - 1))
    return found


def _escaped(text: str) -> str:
    """Keep plotly from reading its few tags in a text."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _thinned(items: Sequence[T], most: int) -> Sequence[T]:
    """Every n-th item, so that no more than so many are left."""
    return items[:: -(-len(items) // most)] if items else items


def _logarithmic(values: Sequence[float]) -> Figure:
    """A logarithmic axis, with ticks at 1, 2, 5 where it is short."""
    low, high = min(values), max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high < 1000 * low else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{one:,.12g}" for one in ticks]}


def _place(size: int) -> float:
    """Position of a number of bytes on a logarithmic axis that has a zero."""
    return max(float(size), 256.0)
