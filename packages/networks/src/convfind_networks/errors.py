"""Every error that this package raises.

NetworkError
 +-- ModelFormatError    a model that cannot be read: no model, damaged, or against ONNX's rules
 +-- UnsupportedError    operators that no one here implements; carries the whole list
 +-- BindingError        inputs without a size, or with an impossible one
 +-- GraphError          an operation that its inputs' types or shapes do not allow
 +-- PlanError           a plan that cannot be used here: another device, other solvers, damaged
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from convfind.errors import ConvfindError

#: Operators that a message tells of; callers get all.
_MOST_TOLD = 6


class NetworkError(ConvfindError):
    """Root of the errors of this package."""


class ModelFormatError(NetworkError):
    """A model that cannot be read; says where it is wrong."""


class BindingError(NetworkError, ValueError):
    """Inputs without a size, or with one that the model does not allow."""


class GraphError(NetworkError, ValueError):
    """An operation that its inputs' types or shapes do not allow."""


class PlanError(NetworkError):
    """A plan that cannot be used here: another device, other solvers, or a damaged file."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An operator of a model that cannot be taken over: which, where, and why."""

    operator: str
    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operator} ({self.node}): {self.reason}"


class UnsupportedError(NetworkError):
    """A model with operators that are not supported; ``unsupported`` has every one."""

    def __init__(self, model: str, unsupported: Sequence[Unsupported]) -> None:
        told = [str(one) for one in unsupported[:_MOST_TOLD]]
        if len(unsupported) > len(told):
            told.append(f"{len(unsupported) - len(told)} more")
        super().__init__(f"{model} has what is not supported: {'; '.join(told)}")
        self.model = model
        self.unsupported = tuple(unsupported)

    def __reduce__(self) -> tuple[type[UnsupportedError], tuple[str, tuple[Unsupported, ...]]]:
        return type(self), (self.model, self.unsupported)
