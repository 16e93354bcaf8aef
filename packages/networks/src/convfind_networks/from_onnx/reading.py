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
from convfind_networks.model import Bound, ModelInput, plain_name

#: Bytes of the largest file: protocol buffers hold no more, larger models have external data.
LARGEST_FILE = 2**31


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A checked ONNX model, and the folder in which its external data lie."""

    name: str
    inputs: tuple[ModelInput, ...]
    proto: Any
    folder: Path | None = None

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for inputs of these types; see `Model`."""
        from convfind_networks.from_onnx.importer import Importer

        return Importer(self).graph(bound)


def read_onnx(source: Any) -> OnnxModel:
    """Read a model from a path, from the bytes of a file, or from a ``ModelProto``.

    Raises:
        ModelFormatError: there is no such file, or it holds no valid ONNX model.
    """
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        proto, name = source, source.graph.name or "model"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        proto = _parsed(bytes(source), "the model")
        name = proto.graph.name or "model"
    else:
        path = Path(source)
        proto, name, folder = _parsed(_contents(path), str(path)), path.stem, path.parent
    name = plain_name(name)
    _check(proto, name)
    return OnnxModel(name, tuple(_inputs(proto, name)), proto, folder)


def _contents(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ModelFormatError(f"{path} is larger than an ONNX file can be")
        return path.read_bytes()
    except OSError as exc:
        raise ModelFormatError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _parsed(data: bytes, name: str) -> Any:
    try:
        return onnx.load_from_string(data)
    except Exception as exc:  # of the protocol buffers, whose kinds differ between versions
        raise ModelFormatError(f"{name} is no ONNX model: {_first_line(exc)}") from exc


def _check(proto: Any, name: str) -> None:
    """Check all but the weights, which the importer checks when it reads them."""
    shell = onnx.ModelProto()
    try:
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
    except Exception as exc:  # of the checker's own kind, and of those it runs into
        raise ModelFormatError(f"{name} breaks ONNX's rules: {_first_line(exc)}") from exc


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


def _first_line(exc: Exception) -> str:
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return plain_name(lines[0]) if lines else type(exc).__name__


def _inputs(proto: Any, name: str) -> Sequence[ModelInput]:
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
