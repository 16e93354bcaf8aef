"""`Options`: what a user allows convfind to do with the convolutions of a program."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self, Unpack

from convfind.device.target import DeviceKind
from convfind.policy import POLICY_FIELDS, FindEnforce, FindKeywords, Mode, Policy
from convfind.settings import Settings

_CURRENT: ContextVar[Options | None] = ContextVar("convfind_torch_options", default=None)


@contextmanager
def using(
    mode: Mode | None = None, *, keep_faster: bool = True, **find: Unpack[FindKeywords]
) -> Iterator[None]:
    """Give the functions of `convfind_torch.functional` other options inside a block.

    Args:
        mode: how to find, as `convfind.Handle.find` takes it; None for the environment's mode.
        keep_faster: time PyTorch's own convolution once for each problem, and keep it where it is
            faster.
        **find: what else ``Handle.find`` takes, such as ``time_budget``, in seconds.

    Raises:
        SettingsError: an unknown keyword or an illegal value; names the legal ones.
    """
    before = _CURRENT.set(Options.of(mode, keep_faster=keep_faster, **find))
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current_options() -> Options:
    """Return the options of callers that name none: those of `using`, or the environment's."""
    return _CURRENT.get() or _default_options()


@lru_cache(maxsize=1)
def _default_options() -> Options:
    return Options()


def _has_mode() -> bool:
    return Settings.from_environment().find_mode is not None


def _environment() -> Policy:
    settings = Settings.from_environment()
    return settings.policy.enforced(settings.find_enforce)


@dataclass(frozen=True, slots=True)
class Options:
    """How convolutions are found, and when PyTorch's own stays in place. Immutable and hashable."""

    policy: Policy = field(default_factory=_environment)
    keep_faster: bool = True  # time PyTorch's own once, and leave it where it is faster
    cuda_graphs: bool = False  # calls are replayed: only the device's time counts
    fixed_sizes: bool = False  # the same sizes come again and again, and nobody chose a mode
    _is_chosen: bool = field(default=False, repr=False, compare=False)  # the policy's mode
    _hash: int = field(init=False, repr=False, compare=False)  # asked for at every call

    def __post_init__(self) -> None:
        values = (self.policy, self.keep_faster, self.cuda_graphs, self.fixed_sizes)
        object.__setattr__(self, "_hash", hash(values))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(
        cls,
        mode: Mode | None = None,
        *,
        keep_faster: bool = True,
        cuda_graphs: bool = False,
        **find: Unpack[FindKeywords],
    ) -> Self:
        """Return options from keywords.

        Args:
            mode: how to find, as `Handle.find` takes it; None for the environment's mode.
            keep_faster: time PyTorch's own convolution once for each problem, and keep it where it
                is faster. False: convfind computes whatever it can.
            cuda_graphs: calls are replayed in CUDA graphs, so that convolutions are compared by
                the device's time alone.
            **find: what else `Handle.find` takes, such as ``time_budget``, in seconds. With
                ``constant_weights`` weights are packed once where no gradient is computed: a change
                of a parameter is noticed by its version, one through ``.data`` may not be.

        Raises:
            SettingsError: an unknown keyword or an illegal value; names the legal ones.
        """
        policy = _environment()
        fields: dict[str, Any] = {**find}
        enforce = fields.pop("enforce", None)
        if mode is not None:
            policy = policy.with_changes(mode=mode)
        policy = policy.with_changes(**fields)
        if enforce is not None:
            policy = policy.enforced(FindEnforce.parse(enforce, "enforce"))
        is_chosen = mode is not None or "dynamic_only" in fields or _has_mode()
        return cls(policy, keep_faster, cuda_graphs, _is_chosen=is_chosen)

    def for_fixed_sizes(self) -> Options:
        """Return the options of a caller that knows that its sizes do not change."""
        return self if self._is_chosen else replace(self, fixed_sizes=True)

    def policy_on(self, kind: DeviceKind) -> Policy:
        """Return what finds on a kind of device may do."""
        return self.policy.for_fixed_sizes(kind) if self.fixed_sizes else self.policy

    @property
    def word(self) -> str:
        """Text that stands for the options in compiled graphs, which are kept between processes."""
        names = sorted(POLICY_FIELDS - {"enforce"})
        policy = {name: getattr(self.policy, name) for name in names}
        fields = {**policy, "mode": self.policy.mode.name}
        values = [fields, self.keep_faster, self.cuda_graphs, self.fixed_sizes]
        return json.dumps(values, default=sorted)

    @classmethod
    def from_word(cls, word: str) -> Options:
        """Return the options that a text stands for."""
        return _of_word(word)


@lru_cache(maxsize=64)
def _of_word(word: str) -> Options:
    fields, *others = json.loads(word)
    return Options(Policy().with_changes(**fields), *others)
