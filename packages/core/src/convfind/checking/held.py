"""`Held`: a large result that stays on the device where a last resort has computed it."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from convfind.checking.fingerprints import Fingerprints
from convfind.checking.guards import Guarded
from convfind.problem import Activation
from convfind.problem.tensor_spec import TensorSpec
from convfind.runtime.backend import Device

Array = np.ndarray[Any, Any]


class Held:
    """A result without gaps; the host reads as much of it as it has to see.

    Candidates run beside it, so that it counts only while it is what it was. An `activation` is not
    applied to it yet.
    """

    activation: Activation | None = None

    def __init__(
        self, operand: TensorSpec, device: Device, memory: Guarded, fingerprints: Fingerprints
    ) -> None:
        self.operand = operand
        self.memory = memory
        self._device = device
        self._fingerprints = fingerprints
        self._mark = self._mark_now()

    def before(self, activation: Activation | None) -> Self:
        """Return the same memory as what an activation is applied to."""
        found = copy.copy(self)
        found.activation = activation
        return found

    @property
    def is_intact(self) -> bool:
        """True if nobody has written into it."""
        return self._mark_now() == self._mark

    def whole(self) -> Array:
        """Read all of it, axes in the order of its layout."""
        contents = np.empty(self.operand.elements, self.operand.dtype.numpy)
        self._device.read(self.memory.buffer, contents, self.memory.guard)
        return self.operand.view(contents)

    def rows(self, places: Array) -> Array:
        """Read what lies at some places of the first axis, such as some images."""
        form = self.operand.view(np.empty(self.operand.elements, self.operand.dtype.numpy))
        if not form.flags.c_contiguous:
            return self.whole()[places]
        found = np.empty((len(places), *form.shape[1:]), form.dtype)
        for row, place in zip(found, places, strict=True):
            offset = self.memory.guard + int(place) * row.nbytes
            self._device.read(self.memory.buffer, row, offset)
        return found

    def _mark_now(self) -> int:
        return self._fingerprints.of(self.memory.buffer, self.memory.size, self.memory.guard)
