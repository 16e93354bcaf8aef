"""Words that a shell completes: solvers, devices and modes."""

from __future__ import annotations

import click

import convfind
from convfind.policy import FindMode


def solver_ids(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the ids of installed solvers that begin so."""
    ids = (solver.solver_id for solver in context.obj.registry.solvers)
    return [one for one in ids if one.startswith(begun)]


def device_names(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the names of the devices here that begin so, and their kinds."""
    found = convfind.devices(registry=context.obj.registry).devices
    kinds = (f"{name.partition(':')[0]}:{target.kind.value}" for name, target in found)
    words = dict.fromkeys((*(name for name, _ in found), *kinds))
    return [word for word in words if word.startswith(begun)]


def mode_words(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the words of find modes that begin so."""
    words = (mode.name.lower() for mode in FindMode)
    return [word for word in words if word.startswith(begun.lower())]
