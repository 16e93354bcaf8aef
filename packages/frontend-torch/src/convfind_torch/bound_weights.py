"""`BoundWeights`: weights packed once, until they change or go."""

from __future__ import annotations

from ctypes import c_ubyte
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch.utils.weak import WeakIdKeyDictionary

from convfind.handle.convolution import Convolution
from convfind_torch.place import Run
from convfind_torch.route import Way

Array = np.ndarray[Any, Any]

#: Elements that are compared besides the version: changes through ``.data`` have none.
_SAMPLES = 64


@dataclass(frozen=True, slots=True)
class Version:
    """Weights as they were, to tell whether they have changed; keeps no memory of theirs alive."""

    count: int  # of changes that PyTorch knows of
    address: int
    form: tuple[object, ...]  # shape, strides and type, which other memory may have
    samples: Array | None  # some of the numbers where they lie, if the host can read them
    bits: bytes

    @classmethod
    def of(cls, w: torch.Tensor) -> Self | None:
        """Return what tells of changes; None for weights that count none."""
        if w.is_inference():
            return None
        samples = None
        if w.device.type == "cpu" and w.numel() and _is_dense(w):
            # By the address: an array of the tensor's would keep memory that it gives up.
            view = memoryview((c_ubyte * w.nbytes).from_address(w.data_ptr()))
            memory = np.frombuffer(view, np.uint8)
            elements = memory.view(f"u{w.element_size()}")
            samples = elements[:: max(1, elements.size // _SAMPLES)]
        bits = b"" if samples is None else samples.tobytes()
        return cls(w._version, w.data_ptr(), _form(w), samples, bits)

    def is_of(self, w: torch.Tensor) -> bool:
        """Return whether weights are the same as they were."""
        return (
            self.count == w._version
            and self.address == w.data_ptr()
            and self.form == _form(w)
            # Read last: where address and form are the same, the tensor still has this memory.
            and (self.samples is None or self.samples.tobytes() == self.bits)
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """A convolution with weights bound, and the version of them."""

    version: Version
    convolution: Convolution
    run: Run


@dataclass(frozen=True, slots=True)
class _Cast:
    version: Version
    weights: torch.Tensor


class BoundWeights:
    """Convolutions with their weights bound, by weights; they go with the weights."""

    def __init__(self) -> None:
        self._by_weights = WeakIdKeyDictionary()
        self._casts = WeakIdKeyDictionary()

    def cast(self, w: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return weights in another type: the same tensor as before, unless they changed since."""
        known: _Cast | None = self._casts.get(w)
        if known is None or known.weights.dtype is not dtype or not known.version.is_of(w):
            version = Version.of(w)
            if version is None:
                return w.to(dtype)
            known = self._casts[w] = _Cast(version, w.detach().to(dtype))
        return known.weights

    def binding(self, way: Way, w: torch.Tensor) -> Binding | None:
        """Return a way's convolution with these weights; None where nothing tells of their changes.

        Weights that changed since are bound anew.
        """
        bindings: dict[Way, Binding] = self._by_weights.setdefault(w, {})
        binding = bindings.get(way)
        if binding is None or not binding.version.is_of(w):
            version = Version.of(w)
            if version is None:
                return None
            bound = way.place.bind(way.convolution.solution, w.contiguous(memory_format=way.format))
            binding = bindings[way] = Binding(version, bound, way.prepared(bound))
        return binding

    def of(self, w: torch.Tensor) -> tuple[Convolution, ...]:
        """Return the convolutions with these weights bound."""
        bindings: dict[Way, Binding] = self._by_weights.get(w, {})
        return tuple(binding.convolution for binding in bindings.values())


def _form(w: torch.Tensor) -> tuple[object, ...]:
    return w.shape, w.stride(), w.dtype


def _is_dense(w: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    layout = formats.get(w.dim(), torch.contiguous_format)
    return bool(w.is_contiguous() or w.is_contiguous(memory_format=layout))
