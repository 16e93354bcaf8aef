"""Numbers and tables as people read them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from convfind.finddb.evidence import NOISY, is_noisy

if TYPE_CHECKING:
    from rich.table import Table

    from convfind.find.solution import Solution


_UNBOUNDED = 10_000  # characters of a line


def format_bytes(size: int) -> str:
    """Spell ``1536`` as ``1.5 KiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


def format_ms(ms: float) -> str:
    """Spell milliseconds with four digits that count."""
    return f"{ms:#.4g}".rstrip(".")


def format_time(solution: Solution) -> str:
    """Spell the time of a solution; ``~`` marks an estimate, ``-`` that nobody knows."""
    estimate = solution.estimate_ms
    if estimate is None:
        return "-"
    return format_ms(estimate) if solution.time_ms is not None else f"~{format_ms(estimate)}"


def format_spread(time_ms: float | None, spread_ms: float, samples: int) -> str:
    """Spell the spread of a measurement as a share of its time; a noisy one says so."""
    if samples < 3 or time_ms is None or time_ms <= 0:
        return "-"
    return f"{spread_ms / time_ms:.0%}{', noisy' if is_noisy(time_ms, spread_ms) else ''}"


def noise_notes(noisy: int) -> tuple[str, ...]:
    """Say what noisy times mean, where there are any."""
    if not noisy:
        return ()
    times = "1 time is" if noisy == 1 else f"{noisy} times are"
    return (
        f"{times} noisy: samples spread by more than {NOISY:.0%}; the machine is busy, or a run "
        "too short to be timed",
    )


def doubt_notes(finds: int) -> tuple[str, ...]:
    """Say what becomes of finds that are in doubt, where there are any."""
    if not finds:
        return ()
    were = "1 find was" if finds == 1 else f"{finds} finds were"
    return (
        f"{were} disturbed by other work on the machine, or known in another version of the "
        "fastest solver; the next one that measures does so again",
    )


def format_error(error: float | None) -> str:
    """Spell a measured error."""
    return "-" if error is None else f"{error:.1e}"


def gflops(flops: float, ms: float) -> float:
    """Giga floating-point operations in a second, of so many in so many milliseconds."""
    return flops / ms / 1e6 if ms > 0 else 0.0


def gigabytes(traffic: float, ms: float) -> float:
    """Gigabytes in a second, of so many bytes in so many milliseconds."""
    return traffic / ms / 1e6 if ms > 0 else 0.0


def table_text(table: Table) -> str:
    """Return a table as plain text, as wide as it needs to be."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=_UNBOUNDED, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def new_table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table; the columns named in ``right`` hold numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, justify="right" if column in right else "left")
    return table
