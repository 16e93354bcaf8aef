"""ONNX's tensors as arrays: inside the file, or mapped from files beside it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from convfind_networks.errors import ModelFormatError
from convfind_networks.tensor_type import LARGEST_TENSOR, Array

#: Types of which several elements share a byte of a file.
_PACKED = ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1")


def element_type(number: int) -> np.dtype[Any]:
    """Return the element type of ONNX's number; object where tensors cannot have it here."""
    try:
        found: np.dtype[Any] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, TypeError, ValueError):
        return np.dtype(object)
    return found


def read_tensor(tensor: Any, folder: Path | None) -> Array:
    """Return a tensor of a model.

    Raises:
        ModelFormatError: its contents are not what its type and shape say, or lie outside the
            folder of the model.
    """
    elements = math.prod(tensor.dims)
    if any(size < 0 for size in tensor.dims) or elements > LARGEST_TENSOR:
        raise ModelFormatError(f"tensor {tensor.name} has an impossible shape")
    try:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return _mapped(tensor, folder)
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except ModelFormatError:
        raise
    except Exception as exc:  # of many kinds: the contents are foreign
        raise ModelFormatError(f"tensor {tensor.name} is damaged: {exc}") from exc


def _mapped(tensor: Any, folder: Path | None) -> Array:
    """Map external data into memory: what a network does not read is never loaded."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelFormatError(f"tensor {tensor.name} is in {location!r}; give the model's path")
    path = (folder / location).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ModelFormatError(f"tensor {tensor.name} is outside the model's folder: {location!r}")
    dtype = element_type(tensor.data_type)
    kind = onnx.TensorProto.DataType.Name(tensor.data_type)
    if dtype == np.dtype(object) or kind in _PACKED:
        raise ModelFormatError(f"tensor {tensor.name}: no external data of type {kind}")
    offset, shape = int(entries.get("offset", 0)), tuple(tensor.dims)
    nbytes = math.prod(shape) * dtype.itemsize
    if int(entries.get("length", nbytes)) != nbytes or offset < 0:
        raise ModelFormatError(
            f"tensor {tensor.name}: {nbytes} bytes are not what {location!r} has"
        )
    if not path.is_file() or path.stat().st_size < offset + nbytes:
        raise ModelFormatError(f"tensor {tensor.name}: {location!r} is missing or too short")
    if not nbytes:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, mode="r", offset=offset, shape=shape)
