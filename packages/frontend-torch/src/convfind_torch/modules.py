"""Modules of ``torch.nn`` whose convolutions are convfind's: `convert` and `revert`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

import torch
from torch import nn
from torch.nn import functional as F

from convfind.policy import FindKeywords, Mode
from convfind_torch.engine import Asked, engine
from convfind_torch.example_run import asked_in
from convfind_torch.functional import convolve, convolve_transposed, is_pytorchs
from convfind_torch.known_calls import known_result
from convfind_torch.layer import Layer
from convfind_torch.options import Options, current_options

Model = TypeVar("Model", bound=nn.Module)

_LAYER = "_convfind_layer"


class _Conv:
    """The base of converted convolutions: a plain convolution, padded as the module says."""

    def _conv_forward(self: Any, input: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
        rank = len(self.kernel_size)
        layer = layer_of(self)
        is_plain = type(self.padding) is type(self.stride) is type(self.dilation) is tuple
        if is_plain and self.padding_mode == "zeros":  # no lists, which nothing is remembered by
            how = (self.stride, self.padding, self.dilation, False, (0,) * rank, self.groups)
            known = known_result(layer, input, weight, bias, how)
            if isinstance(known, torch.Tensor):
                return known
            if known is not None:
                return super()._conv_forward(input, weight, bias)  # type: ignore[misc]
        if is_pytorchs(rank, input, weight, bias):
            return super()._conv_forward(input, weight, bias)  # type: ignore[misc]
        padding = self.padding
        if self.padding_mode != "zeros":
            sides = self._reversed_padding_repeated_twice
            input, padding = F.pad(input, sides, mode=self.padding_mode), 0
        given = (self.stride, padding, self.dilation, self.groups)
        return convolve(rank, input, weight, bias, *given, layer)


class _ConvTranspose:
    """The base of converted transposed convolutions."""

    def forward(
        self: Any, input: torch.Tensor, output_size: list[int] | None = None
    ) -> torch.Tensor:
        """Compute the transposed convolution."""
        rank = len(self.kernel_size)
        is_plain = type(self.padding) is type(self.stride) is type(self.dilation) is tuple
        if output_size is None and is_plain and type(self.output_padding) is tuple:
            how = (self.stride, self.padding, self.dilation, True, self.output_padding, self.groups)
            known = known_result(layer_of(self), input, self.weight, self.bias, how)
            if isinstance(known, torch.Tensor):
                return known
            if known is not None:
                return super().forward(input, output_size)  # type: ignore[misc]
        if self.padding_mode != "zeros" or is_pytorchs(rank, input, self.weight, self.bias):
            return super().forward(input, output_size)  # type: ignore[misc]
        sizes = (self.stride, self.padding, self.kernel_size, rank, self.dilation)
        more = self._output_padding(input, output_size, *sizes)
        given = (self.stride, self.padding, more, self.groups, self.dilation)
        return convolve_transposed(rank, input, self.weight, self.bias, *given, layer_of(self))


class Conv1d(_Conv, nn.Conv1d):
    """`torch.nn.Conv1d` by convfind."""


class Conv2d(_Conv, nn.Conv2d):
    """`torch.nn.Conv2d` by convfind."""


class Conv3d(_Conv, nn.Conv3d):
    """`torch.nn.Conv3d` by convfind."""


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` by convfind."""


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` by convfind."""


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` by convfind."""


_CONVERTED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
    nn.ConvTranspose1d: ConvTranspose1d,
    nn.ConvTranspose2d: ConvTranspose2d,
    nn.ConvTranspose3d: ConvTranspose3d,
}
_REVERTED = {converted: plain for plain, converted in _CONVERTED.items()}


def convert(
    model: Model,
    mode: Mode | None = None,
    *,
    example_inputs: Any = None,
    keep_faster: bool = True,
    **find: Unpack[FindKeywords],
) -> Model:
    """Let convfind compute the convolutions of a model, in place, and return the model.

    Modules stay the objects that they are, with their parameters, hooks and ``state_dict``; only
    their class changes. A convolution is found when it first runs. Modules of other classes,
    subclasses of convolutions included, are left alone.

    Args:
        model: a module; it may be a convolution itself, or converted already.
        mode: how to find, as `convfind.Handle.find` takes it; None for the environment's mode,
            else ``HYBRID`` on GPUs for the first sizes that a module meets.
        example_inputs: a tensor, or a tuple of what the model is called with. The model runs once
            on them, by PyTorch, and all convolutions that it runs are found now, as one batch,
            with the gradients that they need unless gradients are off: within autocast, if it is
            to run so. None: each is found when it first runs, which takes longer in all.
        keep_faster: time PyTorch's own convolution once for each problem, and keep it where it is
            faster.
        **find: what else ``Handle.find`` takes, such as ``time_budget``, in seconds. With
            ``constant_weights`` weights are packed once where no gradient is computed: a change of
            a parameter is noticed by its version, one through ``.data`` may not be.

    Raises:
        SettingsError: an unknown keyword or an illegal value; names the legal ones.
    """
    options = Options.of(mode, keep_faster=keep_faster, **find).for_fixed_sizes()
    asked: Sequence[Asked] = ()
    if example_inputs is not None:
        asked = asked_in(revert(model), example_inputs, options)
    for name, module in model.named_modules():
        if type(module) in _CONVERTED:
            module.__class__ = _CONVERTED[type(module)]
        if type(module) in _REVERTED:
            module.__dict__[_LAYER] = Layer(name or type(module).__name__, options)
    engine().find_ahead(asked)
    return model


def revert(model: Model) -> Model:
    """Give the convolutions of a model back to PyTorch, in place, and return the model."""
    for module in model.modules():
        if type(module) in _REVERTED:
            module.__class__ = _REVERTED[type(module)]
            module.__dict__.pop(_LAYER, None)
    return model


def layer_of(module: nn.Module) -> Layer:
    """Return name, options and routes of a converted module."""
    layer = module.__dict__.get(_LAYER)
    if layer is None:
        layer = module.__dict__[_LAYER] = Layer(type(module).__name__, current_options())
    return layer  # type: ignore[no-any-return]


def layers_of(model: nn.Module) -> list[Layer]:
    """Return the layers of the converted modules of a model."""
    return [layer_of(module) for module in model.modules() if type(module) in _REVERTED]
