"""`Config`: the tuning parameters of one solution, as an immutable mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

ConfigValue = int | float | str | bool


class Config(Mapping[str, ConfigValue]):
    """Tuning parameters by name, in lower case; hashable, picklable, ordered by name.

    ``Config(tile_m=64, tile_n=32)``; ``config["tile_m"]``; ``config.integer("tile_m")``.
    """

    __slots__ = ("_items", "_lookup")

    def __init__(
        self, values: Mapping[str, ConfigValue] | None = None, **named: ConfigValue
    ) -> None:
        merged = {**(values or {}), **named}
        self._items: Final = tuple(sorted(merged.items()))
        self._lookup: Final = dict(self._items)

    def __getitem__(self, name: str) -> ConfigValue:
        return self._lookup[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lookup)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._items == other._items

    def is_same(self, other: Config) -> bool:
        """Return whether values agree in type too: kernels distinguish 1, True and 1.0."""
        return self == other and all(
            type(value) is type(other[name]) for name, value in self._items
        )

    def __reduce__(self) -> tuple[type[Config], tuple[dict[str, ConfigValue]]]:
        return Config, (dict(self._items),)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self._items)})"

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self._items)

    def integer(self, name: str) -> int:
        """Return the value of an integer parameter."""
        value = self._lookup[name]
        if not isinstance(value, int):
            msg = f"parameter {name} of {self} is not a whole number"
            raise TypeError(msg)
        return value

    def integers(self, *names: str) -> tuple[int, ...]:
        """Return the values of several integer parameters."""
        return tuple(map(self.integer, names))

    def without(self, *names: str) -> Config:
        """Return a config without some parameters."""
        return Config({name: value for name, value in self._items if name not in names})

    def replace(self, **changes: ConfigValue) -> Config:
        """Return a config with some parameters changed."""
        return Config(self._lookup, **changes)

    @property
    def defines(self) -> dict[str, ConfigValue]:
        """The parameters as kernel macros: the same names in upper case."""
        return {name.upper(): value for name, value in self._items}
