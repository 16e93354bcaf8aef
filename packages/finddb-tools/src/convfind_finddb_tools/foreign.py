"""Foreign records: MIOpen's measurements, under MIOpen's own keys, for the device of its file.

They are stored in a separate sub-database, so that a find never uses them: convfind cannot run
these solvers, and the times belong to another library.

    key    = schema "|miopen|" backend "|" MIOpen's device name "|" architecture "|" units "|" key
    value  = the text after "=" of version 2, sealed like every value
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from convfind.errors import FindDbError
from convfind.finddb.key import SCHEMA

_PREFIX = f"{SCHEMA}|miopen|"
_NAME = re.compile(
    r"(?P<base>gfx(?P<code>[0-9a-f]+)(?:_(?P<units>[0-9]+))?)\.(?P<backend>HIP|OpenCL)", re.ASCII
)
_BACKENDS = (".HIP", ".OpenCL")
_FEATURES = re.compile("_(?:no)?sramecc|_xnack")
_FILE = re.compile(r"(?P<device>.+?)(?:\.[0-9]+_[0-9a-z_-]+)?\.u?f?db\.txt(?:\.bz2)?")
ANY_BACKEND = "any"  # of perf-dbs, which are for all of them and name none
# From MIOpen's names: more than 64 units are hexadecimal and follow the architecture directly.
_HEXADECIMAL = re.compile(r"(?P<arch>gfx(?:90a|[89][0-9]{2}|1[0-9]{3}))(?P<units>[0-9a-f]{2,3})")
_FORM = "such as gfx90a68.HIP or gfx906_60.OpenCL"


@dataclass(frozen=True, slots=True)
class ForeignDevice:
    """The device that one of MIOpen's database files is for."""

    name: str  # MIOpen's, e.g. "gfx90a68"
    backend: str  # "HIP", "OpenCL", or "any" for a perf-db
    arch: str
    compute_units: int

    @classmethod
    def parse(cls, text: str, *, perf: bool = False) -> ForeignDevice:
        """Read MIOpen's base name, e.g. ``gfx90a68.HIP``; of a perf-db also ``gfx90a68``.

        Raises:
            FindDbError: the text names no device of MIOpen's.
        """
        full = text if not perf or text.endswith(_BACKENDS) else f"{text}{_BACKENDS[0]}"
        found = _NAME.fullmatch(_FEATURES.sub("", full))
        if found is not None:
            name = full.removesuffix(f".{found['backend']}")
            backend = ANY_BACKEND if perf else found["backend"]
            if found["units"] is not None:
                return cls(name, backend, f"gfx{found['code']}", int(found["units"]))
            code = _HEXADECIMAL.fullmatch(found["base"])
            if code is not None:
                return cls(name, backend, code["arch"], int(code["units"], 16))
        msg = f"device {text!r} is not one of MIOpen's names, {_FORM}"
        raise FindDbError(msg)

    @classmethod
    def of_file(cls, file: Path, *, perf: bool = False) -> ForeignDevice:
        """Read the device from a file's name, e.g. ``gfx90a68.HIP.fdb.txt.bz2``."""
        found = _FILE.fullmatch(file.name)
        try:
            return cls.parse(found["device"] if found else file.name, perf=perf)
        except FindDbError:
            msg = (
                f"{file}: the name does not say which device it is for; call it as MIOpen does, "
                "such as gfx90a68.HIP.fdb.txt, or `convfind db import` it with --device, "
                f"{_FORM}"
            )
            raise FindDbError(msg) from None

    @property
    def identity(self) -> str:
        """The device in a key."""
        return f"miopen|{self.backend}|{self.name}|{self.arch}|{self.compute_units}"

    @property
    def prefix(self) -> bytes:
        """Prefix of the keys of its records."""
        return f"{SCHEMA}|{self.identity}|".encode()


def device_of_key(key: bytes) -> ForeignDevice:
    """Return the device that a foreign key names.

    Raises:
        FindDbError: it is not the key of a foreign record.
    """
    text = key.decode(errors="replace")
    parts = text.split("|")
    if not text.startswith(_PREFIX) or len(parts) != 7 or not parts[5].isdecimal():
        msg = f"{text!r} is not the key of a foreign record"
        raise FindDbError(msg)
    return ForeignDevice(parts[3], parts[2], parts[4], int(parts[5]))
