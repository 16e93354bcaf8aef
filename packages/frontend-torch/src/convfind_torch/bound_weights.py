"""`BoundWeights`: weights packed once, until they change or go."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.weak import WeakIdKeyDictionary

from convfind.handle.convolution import Convolution
from convfind_torch.places import host_array
from convfind_torch.route import Way

#: Elements that are compared besides the version: changes through ``.data`` have none.
_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class _Binding:
    version: tuple[object, ...]
    convolution: Convolution


@dataclass(frozen=True, slots=True)
class _Cast:
    version: tuple[object, ...]
    weights: torch.Tensor


class BoundWeights:
    """Convolutions with their weights bound, by weights; they go with the weights."""

    def __init__(self) -> None:
        self._by_weights = WeakIdKeyDictionary()
        self._casts = WeakIdKeyDictionary()

    def cast(self, w: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return weights in another type: the same tensor as before, unless they changed since."""
        version = _version(w)
        if version is None:
            return w.to(dtype)
        known: _Cast | None = self._casts.get(w)
        if known is None or known.version != version or known.weights.dtype is not dtype:
            known = self._casts[w] = _Cast(version, w.detach().to(dtype))
        return known.weights

    def convolution(self, way: Way, w: torch.Tensor) -> Convolution | None:
        """Return the convolution with these weights; None where nothing tells of their changes.

        Weights that changed since are bound anew.
        """
        version = _version(w)
        if version is None:
            return None
        bindings: dict[Way, _Binding] = self._by_weights.setdefault(w, {})
        binding = bindings.get(way)
        if binding is None or binding.version != version:
            bound = way.place.bind(way.convolution.solution, w.contiguous(memory_format=way.format))
            binding = bindings[way] = _Binding(version, bound)
        return binding.convolution

    def of(self, w: torch.Tensor) -> tuple[Convolution, ...]:
        """Return the convolutions with these weights bound."""
        bindings: dict[Way, _Binding] = self._by_weights.get(w, {})
        return tuple(binding.convolution for binding in bindings.values())


def _version(w: torch.Tensor) -> tuple[object, ...] | None:
    """Return what changes when weights do; None for those that count no changes."""
    if w.is_inference():
        return None
    if w.device.type != "cpu" or not _is_dense(w):
        return w._version, w.data_ptr()
    memory = host_array(w)
    return w._version, w.data_ptr(), memory[:: max(1, memory.size // _SAMPLES)].tobytes()


def _is_dense(w: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    layout = formats.get(w.dim(), torch.contiguous_format)
    return bool(w.is_contiguous() or w.is_contiguous(memory_format=layout))
