"""convfind as a backend of ONNX: ``prepare(model).run(inputs)``, as `onnx.backend` has it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx.backend.base import Backend, BackendRep

import convfind
from convfind.errors import ConvfindError
from convfind.handle import Handle
from convfind.runtime.tensors import to_host_array
from convfind_networks.errors import BindingError, UnsupportedError
from convfind_networks.network import Network
from convfind_networks.plan import Plan
from convfind_networks.plan.schedule import Schedule
from convfind_networks.tensor_type import Array

#: Devices of convfind by the words that ONNX has for them.
_DEVICES = {"CPU": "opencl:cpu", "CUDA": "cuda:0"}
#: Elements of the largest input that may be a shape, axes, or a number of steps.
_MOST_NUMBERS = 16

_handles: dict[str, Handle] = {}
_opening = threading.Lock()


def handle_of(device: str) -> Handle:
    """Return the open handle of a device, ``CPU``, ``CUDA`` or a word of `convfind.open`.

    It stays open as long as the process lasts, since prepared models have no end.
    """
    kind, _, number = device.partition(":")
    word = _DEVICES.get(kind, device)
    if kind == "CUDA" and number:
        word = f"cuda:{number}"
    with _opening:
        if word not in _handles:
            _handles[word] = convfind.open(word)
        return _handles[word]


@dataclass(eq=False)
class PreparedModel(BackendRep):
    """A model on a device. Plans are made for the shapes of the first inputs, and kept."""

    network: Network
    handle: Handle
    policy: Mapping[str, Any]
    _plans: dict[Any, tuple[Plan, frozenset[str]]] = field(default_factory=dict)

    def run(self, inputs: Any, **_: Any) -> tuple[Array, ...]:
        """Compute the outputs, in the order of the model.

        Values that the model reads as shapes, axes or numbers of steps are part of a plan: for
        other contents another plan is made.

        Args:
            inputs: a mapping by name, or as many tensors as the model has inputs, in order.

        Raises:
            UnsupportedError: something cannot run; has the whole list.
            BindingError: inputs that the model does not have, or not of these types and shapes.
        """
        given = self._named(inputs)
        plan, constants = self._plan(given)
        outputs = plan.run({name: a for name, a in given.items() if name not in constants})
        return tuple(outputs.values())

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of the plans that there are so far."""
        return tuple(plan.schedule for plan, _ in self._plans.values())

    def _named(self, inputs: Any) -> dict[str, Array]:
        if not isinstance(inputs, Mapping):
            names = [one.name for one in self.network.inputs]
            if not isinstance(inputs, (list, tuple)):
                inputs = [inputs]
            if len(inputs) != len(names):
                raise BindingError(f"{len(inputs)} inputs for {len(names)} of the model")
            inputs = dict(zip(names, inputs, strict=True))
        return {name: to_host_array(value, name) for name, value in inputs.items()}

    def _plan(self, given: Mapping[str, Array]) -> tuple[Plan, frozenset[str]]:
        choices = _constants(given)
        shapes = tuple((name, array.dtype, array.shape) for name, array in given.items())
        keys = [
            (shapes, tuple((name, given[name].tobytes()) for name in sorted(constants)))
            for constants in choices
        ]
        for key in keys:
            if key in self._plans:
                return self._plans[key]
        for at, constants in enumerate(choices):
            bound = {n: a if n in constants else a.shape for n, a in given.items()}
            try:
                plan = self.network.compile(self.handle, bound, **self.policy)
            except UnsupportedError:
                if at + 1 < len(choices):
                    continue
                raise
            self._plans[keys[at]] = plan, constants
            return plan, constants
        raise AssertionError


def _constants(given: Mapping[str, Array]) -> Sequence[frozenset[str]]:
    """Return the inputs that may be constant for the model to run, the fewest first.

    Shapes, axes and numbers of steps are whole numbers or truths, scales and sizes may be real.
    """
    short = [name for name, a in given.items() if a.ndim < 2 and a.size <= _MOST_NUMBERS]
    whole = frozenset(name for name in short if given[name].dtype.kind in "iub")
    return list(dict.fromkeys((frozenset[str](), whole, frozenset(short))))


class ConvfindBackend(Backend):
    """ONNX's interface to convfind; see `onnx.backend.base.Backend`."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **policy: Any) -> PreparedModel:
        """Read a model for a device.

        Args:
            model: a ``ModelProto``.
            device: ``CPU``, ``CUDA``, ``CUDA:1``, or a device as `convfind.open` takes it.
            **policy: as `Network.compile` takes it.

        Raises:
            ModelFormatError: it is no valid model.
            DeviceError: there is no such device.
        """
        return PreparedModel(Network.from_onnx(model), handle_of(device), policy)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether a device is there."""
        try:
            handle_of(device)
        except ConvfindError:
            return False
        return True


prepare = ConvfindBackend.prepare
run_model = ConvfindBackend.run_model
run_node = ConvfindBackend.run_node
supports_device = ConvfindBackend.supports_device
is_compatible = ConvfindBackend.is_compatible
