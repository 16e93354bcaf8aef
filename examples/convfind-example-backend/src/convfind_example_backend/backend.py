"""`NumpyBackend`: one device, the host's CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from convfind.backend_kit.selection import select
from convfind.device.target import Target
from convfind.runtime.backend import Backend

if TYPE_CHECKING:
    from convfind_example_backend.device import NumpyDevice


class NumpyBackend(Backend):
    """NumPy."""

    name = "numpy"
    languages = ()  # it compiles no kernels; those of the GEMM lowering are functions here

    def targets(self) -> tuple[Target, ...]:
        """Return the one device."""
        from convfind_example_backend.target import describe

        return (describe(),)

    def open(self, selector: str = "") -> NumpyDevice:
        """Open the device by number, by ``cpu``, or by a part of its name."""
        from convfind_example_backend.device import NumpyDevice

        targets = self.targets()
        return NumpyDevice(targets[select(self.name, selector, targets)])
