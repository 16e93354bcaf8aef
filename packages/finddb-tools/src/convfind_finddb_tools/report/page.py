"""The page: one self-contained HTML file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from convfind.text import format_ms
from convfind_finddb_tools.report import figures
from convfind_finddb_tools.report.layers import DeviceReport
from convfind_finddb_tools.report.roofline import points_of, roof_over, telling
from convfind_finddb_tools.report.tables import (
    MOST_ROWS,
    direction_table,
    failure_table,
    layer_table,
    network_table,
    undecided_table,
)


@dataclass(frozen=True, slots=True)
class Head:
    """Head of the page; peaks None: the best that any record reaches."""

    title: str
    database: str
    before: str  # what the times are compared with
    model: str  # where the list of problems comes from
    peak_gflops: float | None = None
    peak_gbytes: float | None = None


def page(head: Head, reports: Sequence[DeviceReport]) -> str:
    """Return the page."""
    assets = files("convfind_finddb_tools.report") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    script = (assets / "page.js").read_text(encoding="utf-8")
    bodies = ["".join(_device(head, report, number)) for number, report in enumerate(reports)]
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return "".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            # Without it a browser asks the server for an icon.
            '<link rel="icon" href="data:,">\n',
            f"<title>{escape(head.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n",
            f"<header><h1>{escape(head.title)}</h1>",
            f'<p class="soft">{escape(head.database)}; {escape(head.model)}; compared with ',
            f"{escape(head.before)}; written {made} by convfind report</p></header>\n<main>\n",
            *bodies,
            "</main>\n<script>\n",
            script,
            "</script>\n</body>\n</html>\n",
        )
    )


def _device(head: Head, report: DeviceReport, number: int) -> Iterator[str]:
    drivers = ", ".join(report.drivers)
    yield f"<h2>{escape(report.device)}</h2>"
    if drivers:
        yield f'<p class="soft">driver {escape(drivers)}</p>'
    yield _cards(head, report)

    def figure(name: str, heading: str, words: str, found: str | None) -> str:
        if found is None:
            return ""
        return (
            f'<section id="{name}-{number}"><h3>{escape(heading)}</h3>'
            f"<p class='soft'>{escape(words)}</p>{found}</section>\n"
        )

    if len({source for layer in report.compared for source, _ in layer.sources}) > 1:
        yield f"<section><h3>By network</h3>{network_table(report)}</section>\n"
    if report.compared:
        yield f"<section><h3>By direction</h3>{direction_table(report)}</section>\n"
    yield figure(
        "gains",
        "What the model gains, layer by layer",
        f"One pass of the model, before ({head.before}) and after; the layers with the largest "
        "difference. A layer that occurs several times stands for all of them.",
        figures.gains(report),
    )
    yield figure(
        "wins",
        "Who wins",
        "Layers in which a solver is the fastest, each as often as the model has it.",
        figures.wins(report),
    )
    yield figure(
        "margins",
        "By how much",
        "Time of the next solver over that of the winner; 1x: it does not matter which.",
        figures.margins(report),
    )
    points = points_of(telling(report.layers))
    if points:
        roof = roof_over(points, head.peak_gflops, head.peak_gbytes)
        origins = {True: "given", False: "the best of these"}
        yield figure(
            "roofline",
            "Roofline",
            f"Peak {roof.gflops:,.0f} GFLOP/s ({origins[roof.given_gflops]}) and "
            f"{roof.gbytes:,.0f} GB/s ({origins[roof.given_gbytes]}). Operations of the direct "
            "formula: Winograd and FFT may lie above the roof. Area: time in the model.",
            figures.roofline(points, roof),
        )
    yield figure(
        "workspace",
        "Time against workspace",
        "Expected time of the model where every layer takes its best solver within a limit; one "
        "without any takes that with the least workspace.",
        figures.workspace(report),
    )
    yield figure(
        "spreads",
        "Spread of the measurements",
        "Interquartile range of the samples of one measurement.",
        figures.spreads(report),
    )
    yield from _failures(report)
    shown = f"The first {MOST_ROWS:,} by time. " if len(report.layers) > MOST_ROWS else ""
    yield (
        f"<section><h3>All layers</h3><p class='soft'>{shown}Times of one pass of the model; a "
        f"click on a heading sorts.</p>{layer_table(report)}</section>\n"
    )
    if report.missing:
        yield (
            f"<section><details><summary>{len(report.missing):,} problems of the model are not in "
            "the database</summary><ul>"
            + "".join(f"<li>{escape(one.problem)}</li>" for one in report.missing[:MOST_ROWS])
            + "</ul></details></section>\n"
        )


def _cards(head: Head, report: DeviceReport) -> str:
    runs = sum(layer.count for layer in report.layers)
    cards = []
    if report.speedup is not None:
        before, after = report.compared_before_ms, report.compared_after_ms
        same = sum(layer.count for layer in report.compared)
        words = f"as fast: {_duration(before)} before, {_duration(after)} after, in {same:,} layers"
        cards.append(("main", f"{report.speedup:.2f}x", f"{words}; before: {head.before}"))
    rest = report.after_ms - report.compared_after_ms
    apart = f", {_duration(rest)} of it in layers that are not compared" if rest else ""
    whole = apart if report.compared else ""
    cards.append(
        ("", _duration(report.after_ms), f"expected time of all {runs:,} layers, one pass{whole}")
    )
    if report.noisy:
        count = f"{len(report.noisy):,} of {len(report.layers):,}"
        cards.append(("", count, "problems were measured on a busy machine: noisy, not compared"))
    known = len(report.layers)
    if report.missing or report.untimed or runs > known:
        total = known + len(report.missing) + report.untimed
        cards.append(("", f"{known:,} of {total:,}", "problems of the model are in the database"))
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card {kind}"><b>{escape(value)}</b>{escape(text)}</div>'
            for kind, value, text in cards
        )
        + "</div>\n"
    )


def _duration(ms: float) -> str:
    return f"{format_ms(ms)} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def _failures(report: DeviceReport) -> Iterator[str]:
    yield "<section><h3>Failures and refusals</h3>"
    if report.failures:
        yield "<p class='soft'>In quarantine: these failed and are not tried again.</p>"
        yield failure_table(report)
    else:
        yield "<p>No solver is in quarantine.</p>"
    if report.without_result:
        yield (
            "<details><summary>Solvers that were considered and not measured</summary>"
            "<p class='soft'>They refused the problem, were abandoned as too slow, or failed; "
            f"`convfind db explain` and `convfind explain` say why.</p>{undecided_table(report)}"
            "</details>"
        )
    yield "</section>\n"
