"""`OnnxModel`: an ONNX file read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from convfind_networks.errors import ModelFormatError
from convfind_networks.from_onnx.tensors import element_type
from convfind_networks.graph import Graph
from convfind_networks.importing import plain, reading
from convfind_networks.model import Bound, ModelInput

#: Bytes of the largest file: protocol buffers hold no more, larger models have external data.
LARGEST_FILE = 2**31


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A checked ONNX model, and the folder in which its external data lie.

    ``outputs`` names the results, which may be others than those of the file.
    """

    name: str
    inputs: tuple[ModelInput, ...]
    outputs: tuple[str, ...]
    proto: Any
    folder: Path | None = None

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for inputs of these types; see `Model`."""
        from convfind_networks.from_onnx.importer import Importer

        return Importer(self).graph(bound)


def read_onnx(source: Any, outputs: Sequence[str] = ()) -> OnnxModel:
    """Read a model from a path, from the bytes of a file, or from a ``ModelProto``.

    Args:
        source: the model.
        outputs: the values that it is to end with; its own outputs unless given.

    Raises:
        ModelFormatError: there is no such file, it holds no valid ONNX model, or it has no value
            of a name.
    """
    if isinstance(source, onnx.ModelProto):
        return _model(source, "", None, outputs)
    if isinstance(source, (bytes, bytearray, memoryview)):
        with reading("the model is no ONNX model"):
            proto = onnx.load_from_string(bytes(source))
        return _model(proto, "", None, outputs)
    path = Path(source)
    with reading(f"{path} is no ONNX model"):
        proto = onnx.load_from_string(_contents(path))
    return _model(proto, path.stem, path.parent, outputs)


def _model(proto: Any, name: str, folder: Path | None, outputs: Sequence[str]) -> OnnxModel:
    name = plain(name or proto.graph.name or "model")
    with reading(f"{name} breaks ONNX's rules"):
        _check(proto)
        inputs = tuple(_inputs(proto))
        computed = {one for node in proto.graph.node for one in node.output}
        if missing := set(outputs) - computed - {one.name for one in inputs}:
            raise ModelFormatError(f"{name} has no value {', '.join(sorted(missing))}")
        names = tuple(outputs) or tuple(one.name for one in proto.graph.output)
        return OnnxModel(name, inputs, names, proto, folder)


def _contents(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ModelFormatError(f"{path} is larger than an ONNX file can be")
        return path.read_bytes()
    except OSError as exc:
        raise ModelFormatError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _check(proto: Any) -> None:
    """Check all but the weights, which the importer checks when it reads them."""
    shell = onnx.ModelProto()
    _copy(shell, proto, but="graph")
    _copy(shell.graph, proto.graph, but="initializer")
    known = {one.name for one in proto.graph.input}
    for one in proto.graph.initializer:
        if one.name not in known:
            kind = onnx.helper.make_tensor_value_info(one.name, one.data_type, one.dims)
            shell.graph.input.append(kind)
    for one in (*shell.graph.input, *shell.graph.output):
        if one.type.HasField("tensor_type"):
            one.type.tensor_type.shape.SetInParent()  # exporters may leave it out
    onnx.checker.check_model(shell)
    for one in (*proto.graph.input, *proto.graph.output):
        dims = [dim.dim_param for dim in one.type.tensor_type.shape.dim]
        for text in (one.name, *dims):
            if not isinstance(text, str) or not text.isprintable():
                raise ModelFormatError(f"{plain(text)} is no name for an input, output or size")


def _copy(to: Any, message: Any, but: str) -> None:
    """Copy a message without one of its fields."""
    for field, value in message.ListFields():
        if field.name == but:
            continue
        if isinstance(value, (int, float, str, bytes)):
            setattr(to, field.name, value)
        elif hasattr(value, "CopyFrom"):
            getattr(to, field.name).CopyFrom(value)
        else:
            getattr(to, field.name).extend(value)


def _inputs(proto: Any) -> Sequence[ModelInput]:
    weights = {one.name for one in proto.graph.initializer}
    weights.update(one.values.name for one in proto.graph.sparse_initializer)
    found = []
    for one in proto.graph.input:
        if one.name in weights:
            continue
        kind = one.type.tensor_type
        if not one.type.HasField("tensor_type"):
            # Kept, so that the importer lists it as unsupported.
            found.append(ModelInput(one.name, np.dtype(object), ()))
            continue
        dims = None
        if kind.HasField("shape"):
            dims = tuple(
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                for dim in kind.shape.dim
            )
        found.append(ModelInput(one.name, element_type(kind.elem_type), dims))
    return found
