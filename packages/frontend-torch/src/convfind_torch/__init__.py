"""PyTorch's convolutions by convfind: functions, converted modules, a patch, a compile backend."""

from __future__ import annotations

from convfind_torch import functional, operators
from convfind_torch.modules import convert, revert
from convfind_torch.options import Options, using
from convfind_torch.patching import patched
from convfind_torch.report import Report, ReportLine, report

__all__ = [
    "Options",
    "Report",
    "ReportLine",
    "convert",
    "functional",
    "operators",
    "patched",
    "report",
    "revert",
    "using",
]
