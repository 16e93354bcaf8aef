"""The convolutions of an ONNX model, with shapes by ONNX's own inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from convfind.arguments import shortened
from convfind.errors import ProblemError
from convfind.problem.conv_problem import ConvProblem
from convfind.types import ConvMode

_OPERATORS = frozenset({"Conv", "FusedConv", "ConvTranspose", "ConvInteger"})
_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
#: Element types by their numbers in ONNX.
_DTYPES = {1: "float32", 3: "int8", 10: "float16", 11: "float64", 16: "bfloat16"}

#: Element type and dimensions, numbers or names, of every tensor of a graph.
_Tensors = dict[str, tuple[int, tuple[int | str, ...]]]


@dataclass(frozen=True, slots=True)
class OnnxConvolutions:
    """The convolutions of a model in its order, with the names of their nodes.

    Attributes:
        found: the name and the forward problem of each node.
        refused: the name of each node that convfind has no problem for, and why.
    """

    found: tuple[tuple[str, ConvProblem], ...]
    refused: tuple[tuple[str, str], ...]


def read_onnx_model(path: Path, dims: Mapping[str, int], batch: int | None) -> OnnxConvolutions:
    """Read the forward convolutions of a model, in sub-graphs and local functions too.

    Args:
        path: the model; its weights may be missing, of which only shapes are read.
        dims: values of symbolic dimensions by name.
        batch: the first dimension of an input that leaves it open.

    Raises:
        ProblemError: the model cannot be read, or a convolution's shape depends on a symbol without
            a value; names the symbol.
    """
    try:
        onnx = import_module("onnx")
        inference, inliner = import_module("onnx.shape_inference"), import_module("onnx.inliner")
    except ImportError as exc:
        command = "python -m pip install onnx"
        raise ProblemError("source", str(path), f"no ONNX model without onnx: {command}") from exc
    try:
        model = onnx.load(str(path), load_external_data=False)
        if model.functions:
            model = inliner.inline_local_functions(model)
        _fix_inputs(model.graph, dims, batch)
        model = inference.infer_shapes(model, data_prop=True)
    except Exception as exc:  # of several kinds, from the parser and the inference
        why = shortened(str(exc)) or type(exc).__name__
        raise ProblemError("source", str(path), f"a valid ONNX model ({why})") from exc
    found: list[tuple[str, ConvProblem]] = []
    refused: list[tuple[str, str]] = []
    for node, tensors in _convolutions(model.graph, {}):
        label = node.name or next(iter(node.output), node.op_type)
        try:
            found.append((label, _problem(node, tensors, label)))
        except ProblemError as exc:
            if exc.field.startswith("node "):
                raise
            refused.append((label, str(exc)))
    return OnnxConvolutions(tuple(found), tuple(refused))


def _fix_inputs(graph: Any, dims: Mapping[str, int], batch: int | None) -> None:
    weights = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in weights:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
            elif axis == 0 and batch is not None and not dim.dim_value:
                dim.dim_value = batch


def _convolutions(graph: Any, outer: _Tensors) -> Iterator[tuple[Any, _Tensors]]:
    tensors = dict(outer)
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            shape = tuple(dim.dim_param or dim.dim_value or "?" for dim in kind.shape.dim)
            tensors[value.name] = (kind.elem_type, shape)
    for tensor in graph.initializer:
        tensors[tensor.name] = (tensor.data_type, tuple(tensor.dims))
    for node in graph.node:
        if node.op_type in _OPERATORS:
            yield node, tensors
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _convolutions(inner, tensors)


def _problem(node: Any, tensors: _Tensors, label: str) -> ConvProblem:
    if len(node.input) < 2 or not all(node.input[:2]):
        raise ProblemError("inputs", list(node.input), "data and weights")
    dtype, x_shape = _tensor(node.input[0], tensors, label)
    _, w_shape = _tensor(node.input[1], tensors, label)
    if dtype not in _DTYPES:
        raise ProblemError("dtype", dtype, f"ONNX's types {_DTYPES}")
    attributes = {attribute.name: attribute for attribute in node.attribute}

    def numbers(name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(attributes[name].ints) if name in attributes else default

    rank = len(x_shape) - 2
    if not 1 <= rank <= 3 or len(w_shape) != rank + 2:
        raise ProblemError("shapes", (x_shape, w_shape), "3 to 5 dimensions, of both the same")
    stride, dilation = numbers("strides", (1,) * rank), numbers("dilations", (1,) * rank)
    pads = numbers("pads", (0,) * 2 * rank)
    for name, given, count in (
        ("strides", stride, rank),
        ("dilations", dilation, rank),
        ("pads", pads, 2 * rank),
    ):
        if len(given) != count or min(given) < (name != "pads"):
            raise ProblemError(name, given, f"{count} numbers, none negative, no stride of 0")
    auto = "NOTSET"
    if "auto_pad" in attributes:
        auto = attributes["auto_pad"].s.decode(errors="replace")
    if auto not in _AUTO_PADS:
        raise ProblemError("auto_pad", auto, ", ".join(_AUTO_PADS))
    transposed = node.op_type == "ConvTranspose"
    if auto.startswith("SAME"):
        if transposed:
            raise ProblemError("auto_pad", auto, "NOTSET or VALID in a ConvTranspose")
        pads = _same(auto, x_shape[2:], w_shape[2:], stride, dilation)
    elif auto == "VALID":
        pads = (0,) * 2 * rank
    if transposed and numbers("output_shape", ()):
        raise ProblemError("output_shape", numbers("output_shape", ()), "none; use pads")
    return ConvProblem.forward(
        x_shape,
        w_shape,
        stride=stride,
        padding=tuple(zip(pads[:rank], pads[rank:], strict=True)),
        dilation=dilation,
        groups=attributes["group"].i if "group" in attributes else 1,
        mode=ConvMode.TRANSPOSE if transposed else ConvMode.CONVOLUTION,
        output_padding=numbers("output_padding", (0,) * rank),
        dtype=_DTYPES[dtype],
    )


def _tensor(name: str, tensors: _Tensors, label: str) -> tuple[int, tuple[int, ...]]:
    dtype, shape = tensors.get(name, (0, ("?",)))
    unknown = [dim for dim in shape if not isinstance(dim, int)]
    if unknown:
        only_batch = all(isinstance(dim, int) for dim in shape[1:])  # all commands have --batch
        symbols = [] if only_batch else [str(dim) for dim in unknown if dim != "?"]
        ways = " ".join(f"--set {symbol}=N" for symbol in symbols) or "--batch N"
        raise ProblemError(f"node {label}: {name}", shape, f"known sizes; give {ways}")
    return dtype, tuple(dim for dim in shape if isinstance(dim, int))


def _same(
    auto: str,
    x: tuple[int, ...],
    filter_size: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """Pads with which ceil(x / stride) elements come out; the odd one goes where the name says."""
    begin, end = [], []
    for size, width, step, gap in zip(x, filter_size, stride, dilation, strict=True):
        total = max((-(-size // step) - 1) * step + gap * (width - 1) + 1 - size, 0)
        less, more = total // 2, total - total // 2
        begin.append(more if auto == "SAME_LOWER" else less)
        end.append(less if auto == "SAME_LOWER" else more)
    return (*begin, *end)
