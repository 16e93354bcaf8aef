"""The layers that a file has: a layer file's, or those of a kind of file that a package reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from convfind.errors import ProblemError
from convfind.install_hint import pip_install
from convfind.plugins.registry import Registry
from convfind.problem.onnx_model import read_onnx_model
from convfind.problem.text import Layer, distinct_layers, read_layer_file
from convfind.types import Direction

#: The packages of this project that read other files, by suffix.
_PACKAGES = {".jsonl": "convfind-finddb-tools"}


def read_layers(
    registry: Registry,
    file: Path,
    batch: int | None,
    directions: Sequence[Direction],
    dims: Mapping[str, int],
) -> tuple[Layer, ...]:
    """Read the layers of a file in the directions asked for, in their own without any.

    A reader of a package comes before core's own. ``dims``: sizes of a model's dimensions by name.

    Raises:
        ClickException: a package that is not installed would read it.
        ProblemError: the file cannot be read, or something in it is wrong.
    """
    reader = registry.layer_readers.get(file.suffix)
    if reader is not None:
        layers = reader.read(file, batch)
    elif file.suffix in _PACKAGES:
        package = _PACKAGES[file.suffix]
        raise click.ClickException(
            f"{package.partition('[')[0]} reads {file.suffix} files: {pip_install(package)}"
        )
    elif file.suffix == ".onnx":
        layers = _layers_of_model(file, batch, dims)
    else:
        layers = read_layer_file(file)
    return tuple(_turned(layers, batch, directions))


def _layers_of_model(file: Path, batch: int | None, dims: Mapping[str, int]) -> tuple[Layer, ...]:
    model = read_onnx_model(file, dims, batch)
    if not model.found:
        why = "it has none"
        if model.refused:
            name, reason = model.refused[0]
            why = f"the first of {len(model.refused)} refused, node {name}: {reason}"
        raise ProblemError("source", str(file), f"a model with convolutions; {why}")
    return distinct_layers((problem, 1, name) for name, problem in model.found)


def _turned(
    layers: Sequence[Layer], batch: int | None, directions: Sequence[Direction]
) -> Iterator[Layer]:
    seen: set[int] = set()
    for layer in layers:
        problem = layer.problem if batch is None else layer.problem.with_batch(batch)
        if not directions:
            yield replace(layer, problem=problem)
        elif layer.line_number not in seen:
            # A line for several directions reads as several layers.
            seen.add(layer.line_number)
            for direction in directions:
                yield replace(layer, problem=problem.with_direction(direction))
