"""Benchmark pages from the recorded tables: networks before layers, each with a plot."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from mirror import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from results import _DEVICES, Table, tables

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
    """Return a device's page: its networks, then its layers, each a plot and tables."""
    networks = [table for table in _newest_first(device) if table.is_of_networks]
    others = [table for table in _newest_first(device) if not table.is_of_networks]
    parts = [f"# {_title(device)}", ""]
    if networks:
        parts += ["## Whole networks", ""]
        parts += _drawn(
            [bar for table in networks for bar in _rows(table)],
            "Speed relative to the best peer that each table names; 1 is equally fast, and a red "
            "line leads to networks that are slower than it.",
        )
        parts += [_section(table) for table in networks]
    parts += ["## Layers and parts" if networks else "## Tables", ""]
    parts += _drawn(
        [bar for table in others for bar in _columns(table)],
        "Speed relative to the peer that each table names; 1 is equally fast. A line spans the "
        "layers of a table, its dot is their geometric mean, and red marks layers slower than "
        "the peer.",
    )
    return "\n".join([*parts, *(_section(table) for table in others)])


def overview() -> str:
    """Return what was measured of whole networks, then links to the devices' pages."""
    lines = ["| whole networks | times as fast as the best peer |", "|---|---|"]
    for device in _DEVICES:
        for table in _newest_first(device):
            if table.is_of_networks and (speed_ups := table.speed_ups()):
                link = f"[{table.title}](../benchmarks/{device}.md#{table.name})"
                each = "<br>".join(f"{row}: {ratio:.2f}" for row, ratio in speed_ups[0].ratios)
                lines.append(f"| {_title(device)}: {link} ({table.measured}) | {each} |")
    lines += ["", "| device | tables |", "|---|---|"]
    for device in _DEVICES:
        count = sum(table.device == device for table in tables())
        lines.append(f"| [{_title(device)}](../benchmarks/{device}.md) | {count} |")
    return "\n".join(lines)


def _newest_first(device: str) -> list[Table]:
    own = [table for table in tables() if table.device == device]
    return sorted(own, key=lambda table: table.measured, reverse=True)


def _title(device: str) -> str:
    name = _DEVICES[device]
    return name[0].upper() + name[1:]


def _section(table: Table) -> str:
    first, _, rest = table.markdown().partition("\n")
    return f"### {first.lstrip('# ')} {{#{table.name}}}\n{rest}"


def _rows(table: Table) -> list[Bar]:
    """Return a bar for each network: a mean over networks says little to who has one of them."""
    return [
        Bar(row, ratio, ratio, ratio)
        for speed_up in table.speed_ups()[:1]
        for row, ratio in speed_up.ratios
    ]


def _columns(table: Table) -> list[Bar]:
    """Return a bar for each comparison, over the rows of the table."""
    return [
        Bar(
            f"{table.title}{': ' + one.detail if one.detail else ''}",
            one.least,
            one.mean,
            max(ratio for _, ratio in one.ratios),
        )
        for one in table.speed_ups()
    ]


def _drawn(bars: Sequence[Bar], words: str) -> list[str]:
    return [words, "", _plot(bars), ""] if bars else []


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
            f'<line class="slower" x1="{x(bar.least):.1f}" x2="{x(_end(bar)):.1f}" '
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


def _end(bar: Bar) -> float:
    """Return where the red part of a bar ends, which a single slower network has up to 1."""
    return 1 if bar.least == bar.greatest else min(1, bar.greatest)
