"""`Layer`: who asks for convolutions: a module's name, its options, and its routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from convfind_torch.options import Options

if TYPE_CHECKING:
    from convfind_torch.route import Route


@dataclass(eq=False, slots=True, weakref_slot=True)
class Layer:
    """A caller, whose copies and saved forms know name and options, but no routes."""

    name: str
    options: Options
    word: str = field(init=False)  # the options in compiled graphs
    routes: dict[Route, None] = field(default_factory=dict)  # in order of their first calls

    def __post_init__(self) -> None:
        self.word = self.options.word

    def __reduce__(self) -> tuple[type[Layer], tuple[str, Options]]:
        return Layer, (self.name, self.options)

    def __deepcopy__(self, memo: dict[int, object]) -> Layer:
        return Layer(self.name, self.options)


@lru_cache(maxsize=64)
def anonymous(name: str, options: Options) -> Layer:
    """Return the layer of callers without a module: the functions, and what is patched."""
    return Layer(name, options)
