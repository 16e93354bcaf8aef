"""`Report`: which convolution ran where, with what gain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from convfind_torch.engine import engine
from convfind_torch.layer import Layer
from convfind_torch.modules import layers_of
from convfind_torch.route import Route

_NOTHING = (
    "no convolution ran in a converted layer; `report()`, without a model, has those of "
    "compiled graphs and of functions"
)
_HEAD = ("layer", "problem", "where", "calls", "ours, ms", "PyTorch, ms", "why")


@dataclass(frozen=True, slots=True)
class ReportLine:
    """The calls of one layer that pose the same problem and run at the same place."""

    layer: str
    problem: str  # key, or what the tensors are where they pose no problem
    where: str  # a solver's id, or "pytorch"
    calls: int  # of all layers that share the decision
    ours_ms: float | None
    pytorch_ms: float | None
    reason: str

    @property
    def gain(self) -> float | None:
        """How many times as fast convfind is as PyTorch; None where nobody compared."""
        if self.ours_ms is None or self.pytorch_ms is None:
            return None
        return self.pytorch_ms / self.ours_ms


@dataclass(frozen=True, slots=True)
class Report:
    """The convolutions that ran so far; printed as a table."""

    lines: tuple[ReportLine, ...]

    def __str__(self) -> str:
        if not self.lines:
            return _NOTHING
        rows = [_HEAD, *map(_cells, self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def report(model: nn.Module | None = None) -> Report:
    """Return where convolutions ran, and how fast.

    Args:
        model: a converted model; None for every layer that is still there, and for the functions
            and compiled graphs.
    """
    layers = engine().layers if model is None else layers_of(model)
    return Report(tuple(line for layer in layers for line in _lines(layer)))


def _lines(layer: Layer) -> list[ReportLine]:
    """Return the lines of a layer; forms that differ in a bias or in strides share one."""
    found: dict[tuple[str, str, str], ReportLine] = {}
    for route in layer.routes:
        line = _line(layer.name, route)
        key = (line.problem, line.where, line.reason)
        before = found.get(key)
        found[key] = line if before is None else replace(line, calls=line.calls + before.calls)
    return list(found.values())


def _line(name: str, route: Route) -> ReportLine:
    known, way = route.comparison, route.way
    return ReportLine(
        layer=name,
        problem=route.description,
        where=route.where or ("pytorch" if way is None else way.convolution.solution.solver),
        calls=route.calls,
        ours_ms=None if known is None else known.ours_ms,
        pytorch_ms=None if known is None else known.pytorch_ms,
        reason=route.reason,
    )


def _cells(line: ReportLine) -> tuple[str, ...]:
    times = [("" if one is None else f"{one:.3f}") for one in (line.ours_ms, line.pytorch_ms)]
    return (line.layer, line.problem, line.where, str(line.calls), *times, line.reason)
