"""`Value`: a tensor of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convfind_networks.tensor_type import Array, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor of a graph: its name, its type, and its contents where they are constant.

    Names are unique within a graph; nodes refer to values by name. Contents are read-only.
    """

    name: str
    type: TensorType
    data: Array | None = None

    @classmethod
    def constant(cls, name: str, data: Array) -> Value:
        """Return a constant; the array is viewed, not copied."""
        view = data.view()
        view.flags.writeable = False
        return cls(name, TensorType.of(view), view)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.type.dtype

    @property
    def is_constant(self) -> bool:
        """True where the contents are known."""
        return self.data is not None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"
