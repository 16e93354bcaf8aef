"""Figures drawn as SVG: bars, boxes, and charts of lines and points.

Legends stand above a figure, outside of it. Colours of text and grids are the style sheet's and
follow the reader's choice of a dark page. A hint shows where the pointer rests.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from convfind_finddb_tools.report.scale import Scale

_WIDTH = 1100
_LABELS = 460  # pixels for names at most
_LETTER = 7.8  # pixels
_ROOM = 70  # behind the longest bar, for its text
_FOOT = 44  # below, for ticks and the title of the axis
_BAR, _GAP = 13, 9

Legend = Mapping[str, str]  # colours by name


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with a colour, a hint, and a text behind it."""

    value: float
    color: str
    hint: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """The distribution of values in a row of one colour."""

    values: tuple[tuple[float, str], ...]  # with hints
    color: str


@dataclass(frozen=True, slots=True)
class Series:
    """A line or points of one colour: x, y, hint and radius of each."""

    points: tuple[tuple[float, float, str, float], ...]
    color: str
    line: str = ""  # "", "solid" or "dashed"


def draw_bars(rows: Sequence[tuple[str, Sequence[Bar]]], axis: str, legend: Legend) -> str:
    """Draw horizontal bars in groups, the first row uppermost."""
    left = _left([label for label, _ in rows])
    most = max(bar.value for _, bars in rows for bar in bars)
    scale = Scale.linear(most, left, _WIDTH - _ROOM)
    parts: list[str] = []
    top = 4.0
    for label, bars in rows:
        height = _BAR * len(bars)
        parts.append(_label(label, left, top + height / 2 + 4))
        for number, bar in enumerate(bars):
            place, width = top + number * _BAR, scale.at(bar.value) - left
            parts.append(
                f'<rect x="{left}" y="{place}" width="{width:.1f}" height="{_BAR - 1}" '
                f'fill="{bar.color}">{_hint(bar.hint)}</rect>'
            )
            if bar.text:
                parts.append(f'<text x="{left + width + 5:.1f}" y="{place + 10}">{bar.text}</text>')
        top += height + _GAP
    return _figure(parts, scale, top, axis, legend)


def draw_boxes(
    rows: Sequence[tuple[str, Box]], axis: str, legend: Legend, *, is_log: bool, suffix: str = ""
) -> str:
    """Draw the quartiles, the range and the values of each row."""
    left = _left([label for label, _ in rows])
    values = [value for _, box in rows for value, _ in box.values]
    scale = (
        Scale.logarithmic(values, left, _WIDTH - _ROOM)
        if is_log
        else Scale.linear(max(values), left, _WIDTH - _ROOM, suffix)
    )
    parts: list[str] = []
    top = 4.0
    for label, box in rows:
        middle = top + 10
        parts.append(_label(label, left, middle + 4))
        numbers = sorted(value for value, _ in box.values)
        low, high = scale.at(numbers[0]), scale.at(numbers[-1])
        parts.append(f'<path class="line" d="M{low} {middle}H{high}"/>')
        if len(numbers) > 1:
            quartiles = [scale.at(one) for one in statistics.quantiles(numbers, method="inclusive")]
            first, median, third = quartiles
            parts.append(
                f'<rect class="box" x="{first}" y="{top + 2}" width="{third - first:.1f}" '
                f'height="16" stroke="{box.color}"/>'
                f'<path stroke="{box.color}" stroke-width="2" d="M{median} {top + 2}v16"/>'
            )
        parts += (
            f'<circle cx="{scale.at(value)}" cy="{middle}" r="3" fill="{box.color}" '
            f'fill-opacity="0.6">{_hint(hint)}</circle>'
            for value, hint in box.values
        )
        top += 27
    return _figure(parts, scale, top, axis, legend)


def draw_chart(
    series: Sequence[Series], x: Scale, y: Scale, axes: tuple[str, str], legend: Legend
) -> str:
    """Draw lines and points between two axes; places are those of `chart_area`."""
    parts = [
        f'<path class="grid" d="M{x.start} {y.at(mark)}H{x.end}"/>'
        f'<text class="end" x="{x.start - 6}" y="{y.at(mark) + 4:.1f}">{escape(text)}</text>'
        for mark, text in y.ticks
    ]
    parts.append(f'<text x="4" y="14">{escape(axes[1])}</text>')
    for one in series:
        if one.line and len(one.points) > 1:
            path = "L".join(f"{x.at(a)} {y.at(b)}" for a, b, _, _ in one.points)
            dashes = ' stroke-dasharray="5 4"' if one.line == "dashed" else ""
            parts.append(
                f'<path d="M{path}" fill="none" stroke="{one.color}" stroke-width="2"{dashes}/>'
            )
        parts += (
            f'<circle cx="{x.at(a)}" cy="{y.at(b)}" r="{radius:.1f}" fill="{one.color}" '
            f'fill-opacity="0.75">{_hint(hint)}</circle>'
            for a, b, hint, radius in one.points
            if radius
        )
    return _figure(parts, x, y.start, axes[0], legend)


def chart_area(height: int) -> tuple[float, float, float, float]:
    """Return where the axes of a chart begin and end: x from left to right, y from below up."""
    return 90.0, _WIDTH - 20.0, height - _FOOT, 26.0


def _figure(parts: Sequence[str], scale: Scale, bottom: float, axis: str, legend: Legend) -> str:
    height = bottom + _FOOT
    grid = [
        f'<path class="grid" d="M{scale.at(mark)} 0V{bottom}"/>'
        f'<text class="middle" x="{scale.at(mark)}" y="{bottom + 16}">{escape(text)}</text>'
        for mark, text in scale.ticks
    ]
    title = f'<text x="{scale.start}" y="{bottom + 36}">{escape(axis)}</text>'
    entries = "".join(
        f'<li><span class="swatch" style="background:{color}"></span>{escape(name)}</li>'
        for name, color in legend.items()
    )
    return (
        f"<figure>{f'<ul class=legend>{entries}</ul>' if legend else ''}"
        f'<div class="scroll" tabindex="0"><svg role="img" aria-label="{escape(axis, quote=True)}" '
        f'viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}">'
        f"{''.join(grid)}{''.join(parts)}{title}</svg></div></figure>"
    )


def _left(labels: Sequence[str]) -> float:
    return round(min(_LABELS, 16 + _LETTER * max(map(len, labels))), 1)


def _label(text: str, left: float, y: float) -> str:
    most = int((_LABELS - 16) / _LETTER)
    shown = text if len(text) <= most else f"{text[: most - 3]}..."
    return f'<text class="end" x="{left - 8}" y="{y}">{escape(shown)}{_hint(text)}</text>'


def _hint(text: str) -> str:
    return f"<title>{escape(text)}</title>"
