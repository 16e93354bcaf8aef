"""MIOpen's find-db text: recognising records, and the faults of other lines.

A record is a line ``key=id:values;id:values``. In version 2 an entry is
``solver:time,workspace,algorithm``; in version 1 ``algorithm:solver,time,workspace,cache,cache``,
whose last two fields MIOpen no longer uses. Records are kept as the text of version 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_N = "[0-9]{1,13}+"
_WORD = "[A-Za-z0-9]{1,8}+"
_ALGORITHM = r"miopenConvolution(?:Fwd|BwdData|BwdWeights)Algo[A-Za-z0-9]++"
_NAME = r"[!-+\-./0-9<>-~]++"  # printable, but not what separates parts
_TIME = r"[0-9]{1,12}+(?:\.[0-9]{1,20}+)?+(?:e[+-]?[0-9]{1,2}+)?+"


def _sizes(rank: int) -> str:
    dashed = rf"{_N}(?:-{_N}){{{rank}}}"
    crossed = rf"{_N}(?:x{_N}){{{rank - 1}}}"
    return rf"{dashed}-{crossed}-{dashed}-{_N}-{crossed}-{crossed}-{crossed}"


_KEY = (
    rf"(?:{_sizes(2)}|{_sizes(3)})-[0-9]-{_WORD}(?:-{_WORD}-{_WORD})?-[A-Z0-9]{{1,15}}-[FBW]"
    rf"(?:_g{_N})?(?:_ci{_WORD})?(?:_cw{_WORD})?(?:_co{_WORD})?"
)
_ENTRY = rf"{_NAME}:{_TIME},[0-9]{{1,19}}+,{_ALGORITHM}"
_RECORD = re.compile(rf"^({_KEY})=({_ENTRY}(?:;{_ENTRY})*+)$".encode(), re.MULTILINE | re.ASCII)
_KEY_ONLY = re.compile(_KEY, re.ASCII)
_ENTRY_ONLY = re.compile(_ENTRY, re.ASCII)
_VERSION_1 = re.compile(
    b"(" + _ALGORITHM.encode() + rb"):([^,;:=\n]++),([^,;:=\n]++,[^,;:=\n]++)"
    rb",[^,;:=\n]++,[^,;:=\n]++"
)
_FORM = "C-[D-]H-W-[Zx]YxX-K-[Do-]Ho-Wo-N-pad-stride-dilation-bias-layout-type-F|B|W[options]"
_CROSSED = re.compile(r"-([0-9]+(?:x[0-9]+)+)(?=-)")
_ALGORITHM_PREFIX = re.compile(r"miopenConvolution(?:Fwd|BwdData|BwdWeights)Algo")


def upgrade(block: bytes) -> bytes:
    """Rewrite the entries of version 1 in whole lines as those of version 2."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    # A template in `sub` is expanded by Python code for each match; this is three times as fast.
    parts = _VERSION_1.split(block)
    count = len(parts) // 4
    if not count:
        return block
    pieces = [b""] * (6 * count + 1)
    pieces[0::6] = parts[0::4]
    pieces[1::6] = parts[2::4]  # the solver
    pieces[2::6] = [b":"] * count
    pieces[3::6] = parts[3::4]  # time and workspace
    pieces[4::6] = [b","] * count
    pieces[5::6] = parts[1::4]  # the algorithm
    return b"".join(pieces)


def records(block: bytes) -> list[tuple[bytes, bytes]]:
    """Keys and values of every well-formed line of version 2, all others left out."""
    return _RECORD.findall(block)


def is_record(key: bytes, values: bytes) -> bool:
    """True where both sides of a "=" make a record of version 2."""
    return _RECORD.fullmatch(key + b"=" + values) is not None


def is_find_key(text: str) -> bool:
    """True for the text of a key, also of one that convfind has no problem for."""
    return _KEY_ONLY.fullmatch(text) is not None


def fault(record: bytes) -> str | None:
    """Return why a line of version 2 is no record, None if it is one."""
    if _RECORD.fullmatch(record):
        return None
    line = record.decode("ascii", errors="replace")
    key, equals, values = line.partition("=")
    if not equals:
        return "no '=' after the key"
    if not _KEY_ONLY.fullmatch(key):
        return _key_fault(key)
    for entry in values.split(";"):
        if not _ENTRY_ONLY.fullmatch(entry):
            return f"entry {_short(entry)} is not solver:time,workspace,algorithm"
    return "no record"


def _key_fault(key: str) -> str:
    crossed = _CROSSED.findall(key)
    names = ("filter", "padding", "stride", "dilation")
    if len(crossed) == len(names) and len({text.count("x") for text in crossed}) > 1:
        sizes = ", ".join(f"{name} {text}" for name, text in zip(names, crossed, strict=True))
        return f"key mixes 2-D and 3-D: {sizes}"
    return (
        f"key {_short(key)} is not C-H-W-YxX-K-Ho-Wo-N-pad-stride-dilation-bias-layout-type-F|B|W"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


@dataclass(frozen=True, slots=True)
class ForeignResult:
    """One solver's entry in a foreign record; times in milliseconds, sizes in bytes."""

    solver: str
    time_ms: float
    workspace: int
    algorithm: str  # MIOpen's directional name
    text: str  # the entry as it stands

    @property
    def family(self) -> str:
        """The algorithm in convfind's words where it has one, e.g. ``implicit-gemm``."""
        name = _ALGORITHM_PREFIX.sub("", self.algorithm)
        return _FAMILIES.get(name, name.lower())


_FAMILIES = {"ImplicitGEMM": "implicit-gemm"}


def results(values: bytes) -> Iterator[ForeignResult]:
    """Read the entries of a record; of those with one solver the first counts, as in MIOpen."""
    seen: set[str] = set()
    for entry in values.decode("ascii").split(";"):
        solver, _, fields = entry.partition(":")
        if solver in seen:
            continue
        seen.add(solver)
        time, workspace, algorithm = fields.split(",")
        yield ForeignResult(solver, float(time), int(workspace), algorithm, entry)
