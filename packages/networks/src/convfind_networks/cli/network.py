"""``convfind network``: the group of commands, each imported when it is used."""

from __future__ import annotations

from convfind.cli.lazy import LazyGroup

_HELP = """Run a network: an ONNX model, or a program that torch.export saved (*.pt2).

resnet50, vgg16 and mobilenet_v2 are built in, with random weights.

\b
Examples:
  convfind network run model.onnx --set batch=4
  convfind network profile resnet50 --set batch=4
  convfind network explain resnet50.onnx --set batch=4
  convfind network problems model.onnx --set x=4,3,224,224 --channels-last --json
"""

#: Commands; the module of this package that has one has its name.
_COMMANDS = ("bench", "compile", "explain", "problems", "profile", "run")

network = LazyGroup("network", "convfind_networks.cli", {name: name for name in _COMMANDS}, _HELP)
