"""Figures drawn as SVG: bars, boxes, and charts of lines and points.

Each is drawn twice, for a wide page and for a phone, and the style sheet shows one of them: on a
phone names stand above their rows, and hints, which need a pointer, are left out. Legends stand
above a figure, outside of it. Colours of text and grids are the style sheet's and follow the
reader's choice of a dark page. A hint shows where the pointer rests.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from convfind_finddb_tools.report.scale import Scale

_LABELS = 460  # pixels for names at most
_LETTER = 7.8  # pixels
_ROOM = 70  # behind the longest bar, for its text
_FOOT = 44  # below, for ticks and the title of the axis
_BAR, _GAP = 13, 9

Legend = Mapping[str, str]  # colours by name


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The place that a figure is drawn on: its width, and whether that is a phone's."""

    name: str  # a class of the style sheet
    width: int
    is_narrow: bool

    @property
    def head(self) -> float:
        """Height of a row's name where it stands above the row."""
        return 17.0 if self.is_narrow else 0.0

    def left(self, labels: Sequence[str]) -> float:
        """Return where rows begin."""
        if self.is_narrow:
            return 4.0
        return round(min(_LABELS, 16 + _LETTER * max(map(len, labels))), 1)

    def label(self, text: str, left: float, top: float, y: float) -> str:
        """Return the name of a row, beside it or above it."""
        room = self.width if self.is_narrow else _LABELS - 16
        most = int(room / _LETTER)
        shown = escape(text if len(text) <= most else f"{text[: most - 3]}...")
        if self.is_narrow:
            return f'<text x="{left}" y="{top + 13}">{shown}</text>'
        return f'<text class="end" x="{left - 8}" y="{y}">{shown}{self.hint(text)}</text>'

    def hint(self, text: str) -> str:
        """Return what a pointer shows where it rests."""
        return "" if self.is_narrow else f"<title>{escape(text)}</title>"

    def axis(self, scale: Scale) -> Scale:
        """Return an axis from left to right with no more ticks than there is room for."""
        every = -(-len(scale.ticks) // 4) if self.is_narrow else 1
        return replace(scale, ticks=scale.ticks[:: every or 1])


_WIDE, _NARROW = _Sheet("wide", 1100, False), _Sheet("narrow", 360, True)


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
    return _figure(lambda sheet: _bars(sheet, rows, axis), legend)


def _bars(sheet: _Sheet, rows: Sequence[tuple[str, Sequence[Bar]]], axis: str) -> str:
    left = sheet.left([label for label, _ in rows])
    most = max(bar.value for _, bars in rows for bar in bars)
    scale = sheet.axis(Scale.linear(most, left, sheet.width - _ROOM))
    parts: list[str] = []
    top = 4.0
    for label, bars in rows:
        height = _BAR * len(bars)
        parts.append(sheet.label(label, left, top, top + height / 2 + 4))
        top += sheet.head
        for number, bar in enumerate(bars):
            place, width = top + number * _BAR, scale.at(bar.value) - left
            parts.append(
                f'<rect x="{left}" y="{place}" width="{width:.1f}" height="{_BAR - 1}" '
                f'fill="{bar.color}">{sheet.hint(bar.hint)}</rect>'
            )
            if bar.text:
                parts.append(f'<text x="{left + width + 5:.1f}" y="{place + 10}">{bar.text}</text>')
        top += height + _GAP
    return _drawing(sheet, parts, scale, top, axis)


def draw_boxes(
    rows: Sequence[tuple[str, Box]], axis: str, legend: Legend, *, is_log: bool, suffix: str = ""
) -> str:
    """Draw the quartiles, the range and the values of each row."""
    values = [value for _, box in rows for value, _ in box.values]

    def draw(sheet: _Sheet) -> str:
        left, right = sheet.left([label for label, _ in rows]), sheet.width - _ROOM
        if is_log:
            return _boxes(sheet, rows, Scale.logarithmic(values, left, right), axis)
        return _boxes(sheet, rows, Scale.linear(max(values), left, right, suffix), axis)

    return _figure(draw, legend)


def _boxes(sheet: _Sheet, rows: Sequence[tuple[str, Box]], scale: Scale, axis: str) -> str:
    scale = sheet.axis(scale)
    parts: list[str] = []
    top = 4.0
    for label, box in rows:
        parts.append(sheet.label(label, scale.start, top, top + 14))
        top += sheet.head
        middle = top + 10
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
            f'fill-opacity="0.6">{sheet.hint(hint)}</circle>'
            for value, hint in box.values
        )
        top += 27
    return _drawing(sheet, parts, scale, top, axis)


def draw_chart(
    series: Sequence[Series], x: Scale, y: Scale, axes: tuple[str, str], legend: Legend
) -> str:
    """Draw lines and points between two axes; places are those of `chart_area`."""

    def draw(sheet: _Sheet) -> str:
        start, end = _sides(sheet)
        return _chart(sheet, series, sheet.axis(replace(x, start=start, end=end)), y, axes)

    return _figure(draw, legend)


def _chart(
    sheet: _Sheet, series: Sequence[Series], x: Scale, y: Scale, axes: tuple[str, str]
) -> str:
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
            f'fill-opacity="0.75">{sheet.hint(hint)}</circle>'
            for a, b, hint, radius in one.points
            if radius
        )
    return _drawing(sheet, parts, x, y.start, axes[0])


def chart_area(height: int) -> tuple[float, float, float, float]:
    """Return where the axes of a chart begin and end: x from left to right, y from below up."""
    return *_sides(_WIDE), height - _FOOT, 26.0


def _sides(sheet: _Sheet) -> tuple[float, float]:
    return (60.0 if sheet.is_narrow else 90.0), sheet.width - 20.0


def _figure(draw: Callable[[_Sheet], str], legend: Legend) -> str:
    entries = "".join(
        f'<li><span class="swatch" style="background:{color}"></span>{escape(name)}</li>'
        for name, color in legend.items()
    )
    return (
        f"<figure>{f'<ul class=legend>{entries}</ul>' if legend else ''}"
        f'<div class="scroll" tabindex="0">{draw(_WIDE)}{draw(_NARROW)}</div></figure>'
    )


def _drawing(sheet: _Sheet, parts: Sequence[str], scale: Scale, bottom: float, axis: str) -> str:
    lines = _broken(axis, int(sheet.width / _LETTER))
    height = bottom + _FOOT + 16 * (len(lines) - 1)
    grid = [
        f'<path class="grid" d="M{scale.at(mark)} 0V{bottom}"/>'
        f'<text class="middle" x="{scale.at(mark)}" y="{bottom + 16}">{escape(text)}</text>'
        for mark, text in scale.ticks
    ]
    left = 4.0 if sheet.is_narrow else scale.start
    title = "".join(
        f'<text x="{left}" y="{bottom + 36 + 16 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg class="{sheet.name}" role="img" aria-label="{escape(axis, quote=True)}" '
        f'viewBox="0 0 {sheet.width} {height:.0f}" width="{sheet.width}" height="{height:.0f}">'
        f"{''.join(grid)}{''.join(parts)}{title}</svg>"
    )


def _broken(text: str, letters: int) -> list[str]:
    """Break the title of an axis into lines."""
    return textwrap.wrap(text, letters) or [""]
