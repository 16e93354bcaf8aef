"""Writing a database as text, atomically."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from convfind.finddb.replacing import replacing
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.export_miopen import export_miopen, the_device
from convfind_finddb_tools.json_lines import export_json_lines
from convfind_finddb_tools.selection import Selection
from convfind_finddb_tools.text_kinds import FIND_TEXT, PERF_TEXT

_MIOPEN = {"miopen": FIND_TEXT, "miopen-perf": PERF_TEXT}
FORMATS = (*_MIOPEN, "jsonl")


def export_to(output: Path, form: str, snapshot: Snapshot, selection: Selection) -> tuple[int, int]:
    """Write the selected entries; return the number of lines written and of damaged values.

    Raises:
        FindDbError: the file cannot be written, or a text of MIOpen's is for one device, and the
            database has none or several that are selected.
    """
    if form not in _MIOPEN:
        with replacing(output) as file:
            return export_json_lines(snapshot, file, selection)
    kind = _MIOPEN[form]
    device = the_device(snapshot, kind, selection.device)
    with replacing(output) as file:
        rest = dataclasses.replace(selection, device=None)
        return export_miopen(snapshot, kind, device, file, rest)
