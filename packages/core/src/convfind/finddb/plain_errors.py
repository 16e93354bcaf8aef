"""`plain_errors`: exceptions of LMDB and the system as errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from convfind.errors import FindDbCorruptError, FindDbError, FindDbVersionError


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn exceptions of LMDB and the system into errors that name the file."""
    try:
        yield
    except FindDbVersionError as exc:
        text = str(exc)
        raise FindDbVersionError(text if str(path) in text else f"{path} {text}") from exc
    except (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError) as exc:
        msg = f"{path} is damaged ({exc}); `convfind db repair` saves what can be read"
        raise FindDbCorruptError(msg) from exc
    except (lmdb.Error, OSError) as exc:
        msg = f"{path} cannot be used: {exc}"
        raise FindDbError(msg) from exc
