"""Saved solutions: a small JSON text that names device and problem, checked when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from convfind.errors import SolutionError
from convfind.find.time_origin import TimeOrigin
from convfind.solver.config import Config, ConfigValue
from convfind.types import Algorithm

if TYPE_CHECKING:
    from convfind.find.solution import Solution

_FORMAT = 1


class _SavedSolution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    convfind_solution: int
    solver: str
    algorithm: str
    problem: str
    device: str
    time_ms: float  # negative where nobody measured it: `Solution.signed_ms`
    time_origin: str
    workspace: int
    error: float | None = None
    config: dict[str, ConfigValue] | None = None
    samples: int = 0
    spread: float = 0.0
    constant_weights: bool = False
    binaries: tuple[tuple[str, bytes], ...] = ()


def solution_to_bytes(solution: Solution) -> bytes:
    """Return the solution as JSON. Code only where binaries are attached."""
    config = None if solution.config is None else dict(solution.config)
    fields = {
        name: getattr(solution, name)
        for name in _SavedSolution.__struct_fields__
        if name not in ("convfind_solution", "config", "time_ms")
    }
    fields |= {"algorithm": solution.algorithm.value, "time_origin": solution.time_origin.value}
    fields["time_ms"] = solution.signed_ms
    saved = _SavedSolution(convfind_solution=_FORMAT, config=config, **fields)
    return msgspec.json.format(msgspec.json.encode(saved))


def fields_from_bytes(data: bytes, *, binaries: bool = False) -> dict[str, Any]:
    """Return a saved solution's fields; its compiled kernels, if any, only with ``binaries``.

    Raises:
        SolutionError: not a saved solution, or written by a newer version.
    """
    try:
        saved = msgspec.json.decode(data, type=_SavedSolution)
        if saved.convfind_solution > _FORMAT:
            given = saved.convfind_solution
            msg = f"saved solution has format {given}, newer than {_FORMAT}; upgrade convfind"
            raise SolutionError(msg)
        origin = TimeOrigin(saved.time_origin)
        fields = {name: getattr(saved, name) for name in saved.__struct_fields__[1:]}
        return fields | {
            "algorithm": Algorithm(saved.algorithm),
            "time_ms": saved.time_ms if origin.is_measured else None,
            "estimate_ms": None if origin is TimeOrigin.NONE else abs(saved.time_ms),
            "time_origin": origin,
            "config": None if saved.config is None else Config(saved.config),
            "binaries": saved.binaries if binaries else (),
        }
    except (msgspec.MsgspecError, ValueError) as exc:
        msg = f"not a saved solution: {exc}"
        raise SolutionError(msg) from exc
