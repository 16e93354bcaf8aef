"""`GraphModule`: a convolution of one of Dynamo's graphs, in place of PyTorch's."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from convfind_torch.functional import Run, convolve, convolve_transposed, in_graph
from convfind_torch.layer import anonymous
from convfind_torch.options import Options

#: The functions that graphs call, and the numbers of their spatial dimensions.
_CONVS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_TRANSPOSED = {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}


class GraphModule(nn.Module):
    """The node of a graph that stands for a call of PyTorch's."""

    def __init__(self, rank: int, options: Options) -> None:
        super().__init__()
        self._rank = rank
        self._layer = anonymous("torch.compile", options)
        self.run: Run = in_graph  # what computes plain tensors


class GraphConvolution(GraphModule):
    """A convolution in a graph, with the arguments of `torch.nn.functional.conv2d`."""

    def forward(
        self,
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> torch.Tensor:
        """Compute the convolution."""
        given = (input, weight, bias, stride, padding, dilation, groups)
        return convolve(self._rank, *given, self._layer, self.run)


class GraphTransposedConvolution(GraphModule):
    """One with the arguments of `torch.nn.functional.conv_transpose2d`."""

    def forward(
        self,
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> torch.Tensor:
        """Compute the transposed convolution."""
        given = (input, weight, bias, stride, padding, output_padding, groups, dilation)
        return convolve_transposed(self._rank, *given, self._layer, self.run)


def is_convolution(function: object) -> bool:
    """Return whether a function of PyTorch's is a convolution, for which a module can stand."""
    return function in _CONVS or function in _TRANSPOSED


def graph_module(function: Any, options: Options) -> GraphModule:
    """Return what stands for a call of such a function."""
    if function in _CONVS:
        return GraphConvolution(_CONVS[function], options)
    return GraphTransposedConvolution(_TRANSPOSED[function], options)
