"""`PointedSteps`: prepared steps on memory whose addresses each call gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from convfind.backend_kit.addressed import AddressBuffer
from convfind.errors import LaunchError

Point = Callable[[Sequence[int]], None]


class AddressedMemory:
    """The memory of steps, by name: buffers that stay, and what calls give the addresses of."""

    def __init__(self, fixed: Mapping[str, AddressBuffer], sizes: Mapping[str, int]) -> None:
        """Note the buffers that stay, and bytes at each address of a call in its order."""
        self._kept = tuple(fixed.values())
        #: Addresses of the buffers, which come before those of a call.
        self.staying = [buffer.address for buffer in self._kept]
        given = [(name, (at, size)) for at, (name, size) in enumerate(sizes.items(), len(fixed))]
        stays = [(name, (at, one.block.size)) for at, (name, one) in enumerate(fixed.items())]
        self._found = dict([*given, *stays])

    def find(self, name: str) -> tuple[int, int]:
        """Return which of all addresses is that of some memory, and its bytes.

        Raises:
            LaunchError: there is no such memory.
        """
        try:
            return self._found[name]
        except KeyError as exc:
            msg = f"the steps use {name}, which is missing from the arguments"
            raise LaunchError(msg) from exc


class PointedStep(Protocol):
    """A step of a runtime whose kernels take plain addresses."""

    def pointed(self, memory: AddressedMemory) -> Point:
        """Return what notes the addresses of a call. Raises `LaunchError` for short memory."""


class PointedSteps:
    """Prepared steps that learn where their memory is from addresses, without buffers.

    Finding or making buffers for another library's tensors takes longer than a launch.
    """

    __slots__ = ("_memory", "_points", "_staying")

    def __init__(
        self,
        steps: Iterable[PointedStep],
        fixed: Mapping[str, AddressBuffer],
        sizes: Mapping[str, int],
    ) -> None:
        """Prepare steps, as `convfind.runtime.backend.Device.addressed` says.

        Raises:
            LaunchError: memory is missing, or less than the steps use.
        """
        self._memory = AddressedMemory(fixed, sizes)
        self._staying = self._memory.staying
        self._points = tuple(step.pointed(self._memory) for step in steps)

    def point(self, addresses: Sequence[int]) -> None:
        """Note the addresses of a call in all steps."""
        every = [*self._staying, *addresses]
        for point in self._points:
            point(every)
