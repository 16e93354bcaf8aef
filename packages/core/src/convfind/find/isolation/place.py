"""`Place`: how another process opens the device of this one, and finds the same plugins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from convfind.settings import PluginSelection

if TYPE_CHECKING:
    from convfind.device.target import Target


@dataclass(frozen=True, slots=True)
class Place:
    """A device by the name it was opened with. Whoever opens another one by it must not go on."""

    name: str  # as `convfind.open` takes it
    target: Target
    plugins: PluginSelection
    parallel_level: int  # programs that are compiled at once
