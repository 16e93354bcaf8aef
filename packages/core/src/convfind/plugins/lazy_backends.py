"""`LazyBackends`: the registered backends by name, constructed at first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from convfind.errors import BackendUnavailableError, ConvfindError
from convfind.plugins.registers import Entries
from convfind.runtime.backend import Backend


class LazyBackends(Mapping[str, Backend]):
    """Backends by name, constructed at first use."""

    def __init__(self, entries: Entries[type[Backend] | Backend]) -> None:
        self._entries = entries
        self._constructed: dict[str, Backend] = {}

    def __getitem__(self, name: str) -> Backend:
        if name not in self._constructed:
            item, info = self._entries[name]
            try:
                backend = item() if isinstance(item, type) else item
            except ConvfindError:
                raise
            except Exception as exc:
                msg = f"backend {name!r} of {info.package} does not start: {exc}"
                raise BackendUnavailableError(msg) from exc
            self._constructed.setdefault(name, backend)
        return self._constructed[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # the inherited method would construct the backend

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
