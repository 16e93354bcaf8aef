"""Looks at everything in a database file, in a process of its own: damage may kill it.

A program that imports nothing of convfind: it has to start quickly. Its exit code is 1 where the
file is damaged, and its output says how.
"""

from __future__ import annotations

import sys

import lmdb
from lmdb.verify import VerifyError, verify

#: Errors of LMDB that tell nothing about the file.
_HARMLESS = (lmdb.ReadersFullError, lmdb.MapResizedError)


def examine(path: str, *, at_rest: bool) -> str | None:
    """Say what is wrong with a file that nobody changes meanwhile (``at_rest``), or that some do.

    Returns:
        None where everything in it can be read.
    """
    if at_rest:
        try:
            findings = verify(path)  # type: ignore[no-untyped-call]
        except VerifyError as exc:
            return str(exc)
        if findings:
            return str(findings[0])
    try:
        with lmdb.open(path, subdir=False, readonly=True, lock=not at_rest, max_dbs=32) as file:
            return _fault_of(file)
    except _HARMLESS:
        return None
    except lmdb.Error as exc:
        return str(exc)


def _fault_of(file: lmdb.Environment) -> str | None:
    """Touch every byte of every value; say where a key is not behind the one before it."""
    with file.begin() as transaction:
        names = [bytes(key) for key, _ in transaction.cursor()]
    for name in names:
        table = file.open_db(name, create=False)
        with file.begin(table) as transaction:
            before = b""
            for key, value in transaction.cursor():
                if key <= before:
                    return f"keys of {name.decode(errors='replace')} are out of order"
                before = key
                hash(key + value)
    return None


if __name__ == "__main__":
    fault = examine(sys.argv[1], at_rest=sys.argv[2] == "at-rest")
    if fault is not None:
        print(fault)
        sys.exit(1)
