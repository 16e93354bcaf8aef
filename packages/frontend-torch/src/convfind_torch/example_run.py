"""`asked_in`: the convolutions that a run of a model asks for, and their gradients."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.overrides import TorchFunctionMode

from convfind_torch.engine import Asked, engine
from convfind_torch.graph_calls import called_for, with_its_gradients
from convfind_torch.graph_modules import graph_module, is_convolution
from convfind_torch.options import Options


def asked_in(model: nn.Module, inputs: Any, options: Options) -> list[Asked]:
    """Run a model once, as it is used after training, and return what its convolutions ask for.

    Nothing of the model changes: no statistics of a normalisation, no gradients.

    Args:
        model: its convolutions are PyTorch's own.
        inputs: a tensor, or a tuple of what the model is called with.
        options: how the convolutions are found.
    """
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    asked = list[Asked]()
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with _Listener(options, asked):
            model(*arguments)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return asked


class _Listener(TorchFunctionMode):
    """Hears of PyTorch's functions, above autocast and autograd, and lets them run.

    It keeps no tensors, which are as large as all that training keeps.
    """

    def __init__(self, options: Options, asked: list[Asked]) -> None:
        super().__init__()
        self._options, self._asked = options, asked

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if is_convolution(function):
            call = called_for(graph_module(function, self._options), args, named)
            found = map(engine().asked, () if call is None else with_its_gradients(call))
            self._asked.extend(one for one in found if one is not None)
        return function(*args, **named)
