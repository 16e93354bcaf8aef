"""`ExportedModel`: an exported program of PyTorch, with its weights as arrays.

The only module that imports torch, and not before it is asked to read a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import ml_dtypes
import numpy as np

from convfind.install_hint import pip_install
from convfind_networks.errors import ModelFormatError
from convfind_networks.from_torch.element_type import dtype_of
from convfind_networks.graph import Graph
from convfind_networks.importing import plain, reading
from convfind_networks.model import Bound, ModelInput
from convfind_networks.tensor_type import Array


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """An exported program without decompositions, and its weights by placeholder."""

    name: str
    inputs: tuple[ModelInput, ...]
    program: Any
    weights: Mapping[str, Array]

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for inputs of these types; see `Model`."""
        from convfind_networks.from_torch.importer import Importer

        return Importer(self).graph(bound)


def read_exported_program(program: Any, name: str = "model") -> ExportedModel:
    """Take over an exported program: ``torch.export.export(module.eval(), arguments)``.

    Raises:
        ModelFormatError: it is something else.
    """
    import torch

    if not isinstance(program, torch.export.ExportedProgram):
        raise ModelFormatError(
            f"{type(program).__name__} is no ExportedProgram; give what torch.export.export returns"
        )
    # Functional, and with activations and normalisation whole: core ATen spells them out.
    program = program.run_decompositions({})
    contents = {**program.state_dict, **program.constants}
    weights: dict[str, Array] = {}
    names: list[str] = []
    for one in program.graph_signature.input_specs:
        if one.kind.name != "USER_INPUT":
            if one.target in contents:
                weights[one.arg.name] = _array(contents[one.target], torch)
        elif not _is_fixed(one.arg):
            names.append(one.arg.name)
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs = tuple(_input(name, placeholders[name].meta.get("val")) for name in names)
    return ExportedModel(plain(name), inputs, program, weights)


def load_exported_program(path: Path) -> Any:
    """Load a program that ``torch.export.save`` wrote.

    Raises:
        ModelFormatError: it is none, or PyTorch is not installed.
    """
    try:
        import torch
    except ImportError as exc:
        msg = f"{path} needs PyTorch: {pip_install('convfind-networks[torch]')}"
        raise ModelFormatError(msg) from exc
    if not is_zipfile(path):  # PyTorch would log a traceback
        raise ModelFormatError(f"{path} is no exported program")
    with reading(f"{path} is no exported program"):
        return torch.export.load(path)


def runner_of(path: Path, inputs: Sequence[Array], threads: int) -> Callable[[], object]:
    """Return a function that runs a saved program in PyTorch, on so many threads.

    Raises:
        ModelFormatError: it is no program, or PyTorch is not installed.
    """
    program = load_exported_program(path)
    import torch

    torch.set_num_threads(threads)
    tensors = map(torch.from_numpy, inputs)
    given = [
        one.arg.value if _is_fixed(one.arg) else next(tensors)
        for one in program.graph_signature.input_specs
        if one.kind.name == "USER_INPUT"
    ]
    module = program.module()
    args, kwargs = torch.utils._pytree.tree_unflatten(given, program.call_spec.in_spec)

    def run() -> object:
        with torch.inference_mode():
            return module(*args, **kwargs)

    return run


def _is_fixed(argument: Any) -> bool:
    """Return whether an argument is None or a number that the export took for always the same."""
    return type(argument).__name__ == "ConstantArgument"


def _array(tensor: Any, torch: Any) -> Array:
    dense = tensor.detach().cpu().contiguous()
    if dense.dtype == torch.bfloat16:
        bits: Array = dense.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: Array = dense.numpy()
    return array


def _input(name: str, example: Any) -> ModelInput:
    if not hasattr(example, "dtype"):
        return ModelInput(name, np.dtype(object), ())
    dims = tuple(size if isinstance(size, int) else str(size) for size in example.shape)
    return ModelInput(name, dtype_of(example.dtype), dims)
