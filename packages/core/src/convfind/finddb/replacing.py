"""Files that take their place only when they are complete."""

from __future__ import annotations

import bz2
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from convfind.errors import FindDbError


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


def copy_file(source: Path, output: Path) -> None:
    """Copy a file atomically, readable by everybody and writable by nobody."""
    with replacing(output, mode=0o444) as file, source.open("rb") as read:
        while chunk := read.read(1 << 20):
            file.write(chunk)
