"""Reading users' text files: once, since they may be pipes; a byte order mark is optional."""

from __future__ import annotations

import codecs
from pathlib import Path

from convfind.errors import ProblemError

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, field: str, *, errors: str = "strict") -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with its mark, as PowerShell writes it.

    Args:
        path: a file, or a pipe such as ``/dev/stdin``.
        field: what the file is, for the error.
        errors: handling of invalid bytes; see `bytes.decode`.

    Raises:
        ProblemError: the file cannot be read, or holds no text.
    """
    try:
        content = path.read_bytes()
        encoding = "utf-16" if content.startswith(_UTF16) else "utf-8-sig"
        return content.decode(encoding, errors)
    except OSError as exc:
        raise ProblemError(
            field, str(path), f"a readable text file ({exc.strerror or exc})"
        ) from exc
    except UnicodeDecodeError as exc:
        where = f"{exc.reason} at byte {exc.start}"
        raise ProblemError(
            field, str(path), f"a readable text file in {exc.encoding} ({where})"
        ) from exc
