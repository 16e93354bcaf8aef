"""Writing a database as text, atomically."""

from __future__ import annotations

import bz2
import dataclasses
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from convfind.errors import FindDbError
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


@contextmanager
def replacing(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Write a file that takes its place only when it is complete; ``*.bz2`` is compressed.

    A link stays one, to the new file. Pipes and devices, such as /dev/stdout, are written as they
    are: a file in their place would end them.

    Raises:
        FindDbError: it cannot be written.
    """
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not (place.is_file() or place.is_dir()):
            written, draft = place.open("wb"), None
        else:
            handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
            written, draft = os.fdopen(handle, "wb"), Path(name)
        try:
            with written as file, _packed(file, path) as packed:
                yield packed
            if draft is not None:
                draft.chmod(mode)
                draft.replace(place)
        finally:
            if draft is not None:
                draft.unlink(missing_ok=True)
    except OSError as exc:
        msg = f"{path} cannot be written: {exc.strerror or exc}"
        raise FindDbError(msg) from exc


def _packed(file: BinaryIO, path: Path) -> AbstractContextManager[BinaryIO]:
    if path.suffix == ".bz2":
        return cast("AbstractContextManager[BinaryIO]", bz2.open(file, "wb"))
    return nullcontext(file)
