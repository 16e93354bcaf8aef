"""`LayerReader`: reads the layers of a kind of file, by the end of its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from convfind.problem.text import Layer


@dataclass(frozen=True, slots=True)
class LayerReader:
    """The reader of one kind of file that ``convfind bench`` takes beside layer files.

    Attributes:
        suffix: the end of the names of such files, without the dot: ``onnx``.
        read: returns the layers of a file; the second argument is the batch size in place of one
            that the file leaves open. Raises `ProblemError`.
    """

    suffix: str
    read: Callable[[Path, int | None], Sequence[Layer]]
