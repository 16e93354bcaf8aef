"""`ValueSequence`: a sequence of tensors whose length is known when the model is read."""

from __future__ import annotations

from dataclasses import dataclass

from convfind_networks.graph import Value


@dataclass(frozen=True, slots=True)
class ValueSequence:
    """Tensors in a row. It is no part of a graph: what reads it, reads one tensor or all."""

    values: tuple[Value, ...] = ()


#: The meaning of a name in a model.
Imported = Value | ValueSequence
