"""Benchmark pages from the recorded tables: a plot of their ratios over peers, and their rows."""

from __future__ import annotations

import html
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from mirror import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from results import _DEVICES, Table, tables

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LABELS, _WIDTH, _ROW = 330, 760, 22


@dataclass(frozen=True, slots=True)
class Bar:
    """Ratios over a peer: what was compared, and the least, mean and greatest of them."""

    label: str
    least: float
    mean: float
    greatest: float


def devices() -> dict[str, str]:
    """Return the names of the devices with results, by their folder."""
    return dict(_DEVICES)


def page(device: str) -> str:
    """Return a device's page: the plot, then every table with its command."""
    own = [table for table in tables() if table.device == device]
    parts = [f"# {_title(device)}", ""]
    bars = [bar for table in own for bar in _bars(table)]
    if bars:
        parts += [
            "Speed relative to the peer that each table names; 1 is equally fast. A line spans the "
            "layers of a table, its dot is their geometric mean, and red marks layers slower than "
            "the peer.",
            "",
            _plot(bars),
            "",
        ]
    for table in own:
        first, _, rest = table.markdown().partition("\n")
        parts += [f"## {first.lstrip('# ')} {{#{table.name}}}", rest]
    return "\n".join(parts)


def overview() -> str:
    """Return links to the devices' pages with the number of their tables."""
    lines = ["| device | tables |", "|---|---|"]
    for device in _DEVICES:
        count = sum(table.device == device for table in tables())
        lines.append(f"| [{_title(device)}](../benchmarks/{device}.md) | {count} |")
    return "\n".join(lines)


def _title(device: str) -> str:
    name = _DEVICES[device]
    return name[0].upper() + name[1:]


def _bars(table: Table) -> list[Bar]:
    bars = []
    for position, column in enumerate(table.columns):
        if not column.startswith("ratio"):
            continue
        cells = [row[position] for row in table.rows if position < len(row)]
        values = [float(found[0]) for cell in cells if (found := _NUMBER.match(cell))]
        if values and min(values) > 0:
            mean = math.exp(math.fsum(map(math.log, values)) / len(values))
            detail = column.removeprefix("ratio").strip(" :,")
            label = f"{table.title}{': ' + detail if detail else ''}"
            bars.append(Bar(label, min(values), mean, max(values)))
    return bars


def _plot(bars: Sequence[Bar]) -> str:
    """Return a dot plot on a logarithmic axis, in colours of the page."""
    low = min(0.5, *(bar.least for bar in bars))
    high = max(2.0, *(bar.greatest for bar in bars))
    scale = (_WIDTH - _LABELS - 40) / math.log(high / low)

    def x(value: float) -> float:
        return _LABELS + 20 + math.log(value / low) * scale

    height = _ROW * len(bars) + 40
    parts = [
        f'<figure class="plot" tabindex="0"><svg viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Speed relative to the peer for {len(bars)} comparisons; '
        'the tables below have the numbers">'
    ]
    ticks = [tick for tick in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128) if low <= tick <= high]
    for tick in ticks:
        kind = "one" if tick == 1 else "grid"
        parts.append(
            f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="24" '
            f'y2="{height - 8}"/>'
            f'<text class="tick" x="{x(tick):.1f}" y="16">{tick:g}x</text>'
        )
    for number, bar in enumerate(bars):
        y = 24 + _ROW * (number + 0.5)
        label = bar.label if len(bar.label) <= 52 else "\u2026" + bar.label[-51:]
        full = f"{bar.label}: {bar.mean:.2f} ({bar.least:.2f} to {bar.greatest:.2f})"
        slower = (
            f'<line class="slower" x1="{x(bar.least):.1f}" x2="{x(min(1, bar.greatest)):.1f}" '
            f'y1="{y}" y2="{y}"/>'
            if bar.least < 1
            else ""
        )
        parts.append(
            f"<g><title>{html.escape(full)}</title>"
            f'<text class="label" x="{_LABELS}" y="{y + 4}">{html.escape(label)}</text>'
            f'<line class="span" x1="{x(bar.least):.1f}" x2="{x(bar.greatest):.1f}" '
            f'y1="{y}" y2="{y}"/>{slower}'
            f'<circle class="dot" cx="{x(bar.mean):.1f}" cy="{y}" r="4.5"/></g>'
        )
    return "".join([*parts, "</svg></figure>"])
