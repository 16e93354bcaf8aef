"""`PlaceFinder`: the keys under which each layer of a database may have a problem on a device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from convfind.device.target import Target
from convfind.finddb.database_file import DatabaseFile
from convfind.finddb.key import beginning_of_identity, database_keys, identity_key
from convfind.finddb.table import Table
from convfind.finddb.user_layer import UserLayer
from convfind.problem.contract import Problem

#: Seconds for which it holds under which identities of a device a layer has anything.
_LOOK_SECONDS = 1.0


class Places(NamedTuple):
    """Keys of a problem on a device: of the user's layer, and of each one below."""

    user: tuple[bytes, ...]
    shipped: tuple[tuple[bytes, ...], ...]


class _Known(NamedTuple):
    """Indices of a device's identities under which layers have anything, and until when."""

    user: tuple[int, ...]
    shipped: tuple[tuple[int, ...], ...]
    until: float


class PlaceFinder:
    """Looks now and then which identities of a device each layer knows.

    Most layers know few devices, and each under one identity: a problem is then one look or none.
    """

    def __init__(self, user: UserLayer, system: Sequence[DatabaseFile]) -> None:
        self._user = user
        self._system = tuple(system)
        self._known: dict[tuple[str, tuple[str, ...]], _Known] = {}

    def places(self, table: Table[Any], target: Target, problem: Problem) -> Places:
        """Return the keys of a problem under a device's identities, the present one first."""
        return self._under(table, target.identities, database_keys(target, problem))

    def places_under(self, table: Table[Any], identity: str, problem: Problem) -> Places:
        """Return the keys of a problem under one identity, of a device that may not be here."""
        return self._under(table, (identity,), (identity_key(identity, problem),))

    def _under(
        self, table: Table[Any], identities: tuple[str, ...], keys: Sequence[bytes]
    ) -> Places:
        name = table.name, identities
        known = self._known.get(name)
        if known is None or time.monotonic() > known.until:
            known = self._known[name] = self._look(table, identities)
        return Places(
            tuple([keys[index] for index in known.user]),
            tuple([tuple([keys[index] for index in indices]) for indices in known.shipped]),
        )

    def _look(self, table: Table[Any], identities: Sequence[str]) -> _Known:
        beginnings = [beginning_of_identity(identity) for identity in identities]
        user = [0]  # where this process stores, at any moment
        for index, start in enumerate(beginnings[1:], 1):
            if next(self._user.items(table, start), None):
                user.append(index)
        shipped = []
        for file in self._system:
            found = []
            for index, start in enumerate(beginnings):
                items = file.scan(table.name, start, 1)
                if items and items[0][0].startswith(start):
                    found.append(index)
            shipped.append(tuple(found))
        return _Known(tuple(user), tuple(shipped), time.monotonic() + _LOOK_SECONDS)
