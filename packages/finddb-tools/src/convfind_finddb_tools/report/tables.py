"""The tables of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from convfind.text import format_bytes, format_ms
from convfind_finddb_tools.report.figures import color_of
from convfind_finddb_tools.report.layers import DeviceReport, Layer

MOST_ROWS = 300


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, its class, and the number that it stands for."""

    text: str
    value: float | None = None
    kind: str = ""
    color: str = ""

    @property
    def html(self) -> str:
        """The cell in HTML."""
        kind = f' class="{self.kind}"' if self.kind else ""
        value = "" if self.value is None else f' data-value="{self.value!r}"'
        swatch = f'<span class="swatch" style="background:{self.color}"></span>'
        return f"<td{kind}{value}>{swatch if self.color else ''}{escape(self.text)}</td>"


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, sortable: bool) -> str:
    """A table; headings of numbers begin with ``#``."""
    head = "".join(
        f'<th scope="col" class="number">{escape(one[1:])}</th>'
        if one.startswith("#")
        else f'<th scope="col">{escape(one)}</th>'
        for one in headings
    )
    body = "".join(f"<tr>{''.join(cell.html for cell in row)}</tr>\n" for row in rows)
    kind = ' class="sortable"' if sortable else ""
    return (
        f'<div class="scroll" tabindex="0"><table{kind}><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def number(text: str, value: float | None) -> Cell:
    """A cell with a number."""
    return Cell(text, value, "number")


def layer_table(report: DeviceReport) -> str:
    """Every layer, those that take most time first."""
    layers = sorted(report.layers, key=lambda one: (-one.total_ms, one.label))[:MOST_ROWS]
    named = any(layer.name for layer in layers)
    headings = ["layer", *(["name"] if named else []), "#count", "#before ms", "#ms", "#gain"]
    headings += ["#share", "#GFLOP/s", "#workspace", "fastest", "#margin", "next"]
    return table(headings, (_layer_row(one, report, named) for one in layers), sortable=True)


def direction_table(report: DeviceReport) -> str:
    """Before and after by direction, of the layers that have something to be compared with."""
    rows = []
    for direction in ("fwd", "bwd-data", "bwd-weights", "?"):
        mine = [one for one in report.compared if one.entry.traits.direction == direction]
        if not mine:
            continue
        before = sum(one.count * one.before.time_ms for one in mine if one.before)
        after = sum(one.total_ms for one in mine)
        rows.append(
            [
                Cell(direction),
                number(f"{sum(one.count for one in mine):,}", None),
                number(format_ms(before), None),
                number(format_ms(after), None),
                number(f"{before / after:.2f}x", None),
            ]
        )
    return table(
        ("direction", "#layers", "#before ms", "#after ms", "#faster"), rows, sortable=False
    )


def network_table(report: DeviceReport) -> str:
    """Before and after by network, of the layers that have something to be compared with."""
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for layer in report.compared:
        for source, count in layer.sources if layer.before else ():
            assert layer.before is not None
            before[source] = before.get(source, 0.0) + count * layer.before.time_ms
            after[source] = after.get(source, 0.0) + count * layer.winner.time_ms
    rows = (
        [
            Cell(source),
            number(format_ms(before[source]), before[source]),
            number(format_ms(after[source]), after[source]),
            number(f"{before[source] / after[source]:.2f}x", before[source] / after[source]),
        ]
        for source in before
    )
    return table(("network", "#before ms", "#after ms", "#faster"), rows, sortable=True)


def layer_records(report: DeviceReport) -> list[dict[str, str | float | None]]:
    """Every layer as plain values, for CSV; times in ms for one pass of the model."""
    return [
        {
            "device": report.device,
            "problem": one.entry.problem,
            "name": one.name,
            "count": one.count,
            "before_ms": None if one.before is None else one.count * one.before.time_ms,
            "before_solver": None if one.before is None else one.before.solver,
            "ms": one.total_ms,
            "solver": one.winner.solver,
            "noisy": one.is_noisy,
            "workspace": one.winner.workspace,
        }
        for one in report.layers
    ]


def failure_table(report: DeviceReport) -> str:
    """Solvers in quarantine, and why."""
    rows = (
        [
            Cell(f"{one.record.solver}@{one.record.solver_version}"),
            Cell(one.record.reason),
            number(f"{one.problems:,}", one.problems),
            Cell(one.record.driver),
            Cell(one.record.detail[:300], kind="wrap"),
        ]
        for one in report.failures
    )
    headings = ("solver", "reason", "#problems", "driver", "detail, of one of them")
    return table(headings, rows, sortable=False)


def undecided_table(report: DeviceReport) -> str:
    """Solvers about which searches decided without a record."""
    rows = (
        [
            Cell(solver),
            number(f"{count:,}", count),
            number(f"{count / len(report.layers):.0%}", None),
        ]
        for solver, count in sorted(
            report.without_result.items(), key=lambda item: (-item[1], item[0])
        )[:100]
    )
    return table(("solver", "#problems", "#share"), rows, sortable=False)


def _layer_row(layer: Layer, report: DeviceReport, named: bool) -> list[Cell]:
    before, second, problem = layer.before, layer.runner_up, layer.problem
    old = None if before is None else layer.count * before.time_ms
    rate = None if problem is None else problem.flops / layer.winner.time_ms / 1e6
    share = layer.total_ms / report.after_ms
    return [
        Cell(f"{layer.label}{' (noisy)' if layer.is_noisy else ''}"),
        *([Cell(layer.name)] if named else []),
        number(str(layer.count), layer.count),
        number("-" if old is None else format_ms(old), old),
        number(format_ms(layer.total_ms), layer.total_ms),
        number(
            "-" if old is None else f"{old / layer.total_ms:.2f}x", old and old / layer.total_ms
        ),
        number(f"{share:.1%}", share),
        number("-" if rate is None else f"{rate:,.0f}", rate),
        number(format_bytes(layer.winner.workspace), layer.winner.workspace),
        Cell(layer.winner.solver, color=color_of(layer.winner.algorithm)),
        number("-" if layer.margin is None else f"{layer.margin:.2f}x", layer.margin),
        Cell("-" if second is None else second.solver),
    ]
