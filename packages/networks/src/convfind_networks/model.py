"""`Model`: what an importer brings: a network whose input shapes may still be open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convfind_networks.errors import BindingError
from convfind_networks.graph import Graph
from convfind_networks.tensor_type import Array, TensorType

#: Inputs as callers give them: shapes or constant arrays by input, sizes by dimension.
Shapes = Mapping[str, Any]
#: An input as importers get it: its type, or its contents where they are constant.
Bound = Mapping[str, TensorType | Array]


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input of a model: its name, its element type, and its dimensions.

    A dimension is a number, a name that stands for one, or None where the model says nothing;
    where it does not even say how many there are, ``dims`` is None.
    """

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.name}: {self.dtype.name}"
        sizes = ", ".join("?" if dim is None else str(dim) for dim in self.dims)
        return f"{self.name}: {self.dtype.name}[{sizes}]"


class Model(Protocol):
    """A network as an importer reads it. A third party's importer implements this."""

    @property
    def name(self) -> str:
        """Name of the model."""

    @property
    def inputs(self) -> Sequence[ModelInput]:
        """The inputs, weights not among them."""

    def graph(self, bound: Bound) -> Graph:
        """Return the graph for inputs of these types.

        Raises:
            UnsupportedError: something in the model is not supported; has the whole list.
            ModelFormatError: the model is malformed.
        """


def bind(inputs: Sequence[ModelInput], shapes: Shapes | None) -> dict[str, TensorType | Array]:
    """Give every input of a model a type.

    Args:
        inputs: the model's inputs.
        shapes: a shape for an input, by its name; an array for an input that is constant; a size
            for every dimension of that name.

    Raises:
        BindingError: a size is missing or impossible, or a name is unknown.
    """
    if shapes is not None and not isinstance(shapes, Mapping):
        told = f'shapes={shapes!r:.80} is no mapping; give {{"x": (1, 3, 224, 224)}}'
        raise BindingError(f'{told} or {{"batch": 4}}')
    given = dict(shapes or {})
    names = {one.name for one in inputs}
    dims = {dim for one in inputs for dim in one.dims or () if isinstance(dim, str)}
    if unknown := set(given) - names - dims:
        known = ", ".join(map(str, inputs)) or "none"
        raise BindingError(f"no input or dimension {', '.join(sorted(unknown))}; inputs: {known}")
    return {one.name: _bound(one, given.get(one.name), given) for one in inputs}


def _bound(one: ModelInput, given: Any, sizes: Mapping[str, Any]) -> TensorType | Array:
    if one.dtype == np.dtype(object):  # no tensor: importers list it as unsupported
        return TensorType(one.dtype, ())
    if isinstance(given, np.ndarray):
        return given.astype(one.dtype)
    if isinstance(given, (tuple, list)):
        shape = tuple(given)
        if one.dims is not None and len(shape) != len(one.dims):
            raise BindingError(f"{one} has {len(one.dims)} dimensions, not {len(shape)}")
        least = 0
    else:  # nothing, or a number for a dimension of that name
        if one.dims is None:
            raise BindingError(f"{one} needs a shape; give {one.name}=N,...")
        shape = tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in one.dims)
        least = 1  # where a model says 0, it means that it does not know
    for size in shape:
        whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
        if not whole or size < least:
            names = ",".join(str(dim or "N") for dim in one.dims or shape)
            named = " ".join(f"{dim}=N" for dim in dict.fromkeys(shape) if isinstance(dim, str))
            raise BindingError(
                f"{one} needs a number for every size; give {one.name}={names} in numbers"
                + (f", or {named}" if named else "")
            )
    return TensorType(one.dtype, tuple(int(size) for size in shape))
