"""The ONNX importer: a table of small functions, by operator."""

from __future__ import annotations

from convfind_networks.from_onnx.reading import OnnxModel, read_onnx

__all__ = ["OnnxModel", "read_onnx"]
