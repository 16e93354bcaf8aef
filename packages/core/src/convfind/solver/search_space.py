"""A search space as data: parameters with their values, constraints with their reasons."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from convfind.solver.config import Config, ConfigValue


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tuning parameter: the kernel macro of the same name in upper case."""

    name: str
    values: tuple[ConfigValue, ...]
    meaning: str = ""
    formerly: ConfigValue | None = None  # value for configs older than the parameter


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on legal configs, and its reason."""

    name: str
    holds: Callable[[Config], bool]
    why: str = ""

    @classmethod
    def among(
        cls, name: str, parameters: tuple[str, ...], holds: Callable[..., bool], why: str = ""
    ) -> Constraint:
        """Return a condition on whole numbers of a config, which it gets one after the other."""
        return cls(name, lambda config: holds(*config.integers(*parameters)), why)


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """All configs that satisfy every constraint."""

    parameters: tuple[Parameter, ...]
    constraints: tuple[Constraint, ...] = ()
    local_memory: Callable[[Config], int] | None = None  # bytes a work-group uses
    local_memory_limit: int | None = None

    def broken_constraint(self, config: Config) -> str | None:
        """Return the name of the first constraint that the config violates; None if it is legal."""
        for parameter in self.parameters:
            if config.get(parameter.name) not in parameter.values:
                return f"{parameter.name} is not one of {parameter.values}"
        for constraint in self.constraints:
            if not constraint.holds(config):
                return f"{constraint.name}: {constraint.why}" if constraint.why else constraint.name
        if self.local_memory is not None and self.local_memory_limit is not None:
            needed = self.local_memory(config)
            if needed > self.local_memory_limit:
                return f"needs {needed} bytes of local memory of {self.local_memory_limit}"
        return None

    def fault(self, config: Config) -> str | None:
        """Return why a config is outside the space, or None; it may be older than a parameter.

        Values must have the type of the parameter's values: 1 is neither True nor 1.0.
        """
        whole = dict(config)
        for parameter in self.parameters:
            if parameter.name not in whole and parameter.formerly is not None:
                whole[parameter.name] = parameter.formerly
            if parameter.name not in whole:
                return f"{parameter.name} is missing"
            value = whole[parameter.name]
            if not any(type(value) is type(one) and value == one for one in parameter.values):
                return f"{parameter.name} is {value!r}, not one of {parameter.values}"
        if len(whole) > len(self.parameters):
            known = {parameter.name for parameter in self.parameters}
            return f"there is no parameter {min(set(whole) - known)}"
        return self.broken_constraint(Config(whole))

    def __contains__(self, config: Config) -> bool:
        return self.fault(config) is None

    def __iter__(self) -> Iterator[Config]:
        names = [parameter.name for parameter in self.parameters]
        for values in itertools.product(*(parameter.values for parameter in self.parameters)):
            config = Config(dict(zip(names, values, strict=True)))
            if self.broken_constraint(config) is None:
                yield config

    def sample(self, count: int, seed: int) -> list[Config]:
        """Return up to ``count`` legal configs, drawn without replacement, reproducibly."""
        configs = list(self)
        return random.Random(seed).sample(configs, min(count, len(configs)))

    def neighbours(self, config: Config) -> Iterator[Config]:
        """Yield the legal configs that differ in one parameter by one step."""
        for parameter in self.parameters:
            position = parameter.values.index(config[parameter.name])
            for step in (-1, 1):
                if 0 <= position + step < len(parameter.values):
                    moved = config.replace(**{parameter.name: parameter.values[position + step]})
                    if self.broken_constraint(moved) is None:
                        yield moved
