"""What a find may do: modes, enforcement, and the policy that both of them name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, Self

from convfind.errors import SettingsError
from convfind.types import Algorithm


class _Words(IntEnum):
    """Numbers with names, read from words in any case or from the number."""

    @classmethod
    def parse(cls, value: object, name: str) -> Self:
        """Read a word or number. ``name`` is the variable or option, for the error."""
        if isinstance(value, cls):
            return value
        text = str(value).strip().upper()
        for member in cls:
            if text in (member.name, str(member.value)):
                return member
        legal = ", ".join(f"{member.name} or {member.value}" for member in cls)
        raise SettingsError(name, value, legal)


class FindMode(_Words):
    """The find modes. 4 is reserved and refused."""

    NORMAL = 1
    FAST = 2
    HYBRID = 3
    DYNAMIC_HYBRID = 5
    TRUST_VERIFY = 6
    TRUST_VERIFY_FULL = 7


class FindEnforce(_Words):
    """What every find does beyond its mode."""

    NONE = 1
    DB_UPDATE = 2  # measure again and replace what is recorded, also where a record exists
    SEARCH = 3  # tune where no tuned config is recorded
    SEARCH_DB_UPDATE = 4  # tune again and replace the tuned configs
    DB_CLEAN = 5  # forget what is recorded for the problem, then find with default configs


class OnMiss(StrEnum):
    """What follows where the database has no answer."""

    MEASURE = "measure"
    ESTIMATE = "estimate"


class CheckHit(StrEnum):
    """How far a recorded answer is run again before it is trusted."""

    NO = "no"
    WINNER = "winner"  # the fastest, once
    ALL = "all"  # every recorded solution, once


class Order(StrEnum):
    """What comes first in a list of solutions."""

    TIME = "time"
    WORKSPACE = "workspace"


class Fallback(StrEnum):
    """How far immediate mode may go without a record."""

    AI = "ai"  # heuristic, then WTI, then GEMM
    WTI = "wti"  # WTI, then GEMM
    GEMM = "gemm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What one find may do. A mode is a named policy: `Policy.for_mode`. Immutable."""

    mode: FindMode = FindMode.DYNAMIC_HYBRID
    use_db: bool = True  # answer from the database where it can
    on_miss: OnMiss = OnMiss.MEASURE
    dynamic_only: bool = True  # measure only solvers whose binaries serve many shapes
    check_hit: CheckHit = CheckHit.NO  # run what is recorded again before trusting it
    tolerance: float = 0.2  # a checked winner may be slower than recorded by this share
    tune: bool = False  # search for better configs of tunable solvers
    retune: bool = False  # also where a tuned config is recorded
    forget: bool = False  # remove what is recorded first
    replace: bool = False  # write over what is recorded instead of merging into it
    verify: bool = True  # compare results with a reference before they are recorded
    quick: bool = False  # time each candidate with fewer samples
    write_back: bool = True  # record what was measured
    time_budget: float | None = None  # seconds for the whole find; at least one solver runs
    workspace_limit: int | None = None  # bytes
    order: Order = Order.TIME
    constant_weights: bool = False  # time with weights packed beforehand
    fallback: Fallback = Fallback.AI
    algorithms: frozenset[Algorithm] | None = None  # only these, where given
    solvers: frozenset[str] | None = None  # only these ids, where given
    deny: frozenset[str] = frozenset()  # not these ids

    @classmethod
    def for_mode(cls, mode: FindMode | str | int, **changes: Any) -> Policy:
        """Return the policy that a mode names, with some fields changed."""
        mode = FindMode.parse(mode, "mode")
        return cls().with_changes(mode=mode, **changes)

    def with_changes(self, **changes: Any) -> Policy:
        """Return a copy with some fields changed; a changed ``mode`` brings its own fields.

        Raises:
            SettingsError: an unknown field, or a value of the wrong kind.
        """
        unknown = set(changes) - set(self.__slots__)
        if unknown:
            raise SettingsError("policy field", min(unknown), ", ".join(self.__slots__))
        if changes.get("mode") is not None:
            mode = FindMode.parse(changes["mode"], "mode")
            changes = {**_NEUTRAL, **_MODE_FIELDS[mode], **changes, "mode": mode}
        else:
            changes.pop("mode", None)
        return replace(self, **_checked(changes))

    def enforced(self, enforce: FindEnforce) -> Policy:
        """Return the policy with enforcement applied."""
        if enforce is FindEnforce.NONE:
            return self
        changes: dict[str, Any] = {
            "use_db": False,
            "on_miss": OnMiss.MEASURE,
            "check_hit": CheckHit.NO,
        }
        if enforce is FindEnforce.DB_UPDATE:
            changes["replace"] = True
        elif enforce is FindEnforce.SEARCH:
            changes |= {"tune": True, "dynamic_only": False}
        elif enforce is FindEnforce.SEARCH_DB_UPDATE:
            changes |= {"tune": True, "retune": True, "replace": True, "dynamic_only": False}
        else:
            changes |= {"forget": True, "tune": False}
        return replace(self, **changes)

    @property
    def is_filtered(self) -> bool:
        """True where solvers are left out by name or algorithm."""
        return bool(self.deny) or self.solvers is not None or self.algorithms is not None

    def allows(self, solver_id: str, algorithm: Algorithm) -> bool:
        """True where the filters let the solver through."""
        return (
            solver_id not in self.deny
            and (self.solvers is None or solver_id in self.solvers)
            and (self.algorithms is None or algorithm in self.algorithms)
        )


#: What a mode sets unless it says otherwise below.
_NEUTRAL: dict[str, Any] = {
    "use_db": True,
    "on_miss": OnMiss.MEASURE,
    "dynamic_only": False,
    "check_hit": CheckHit.NO,
    "tune": False,
}
_MODE_FIELDS: dict[FindMode, dict[str, Any]] = {
    FindMode.NORMAL: {"use_db": False},
    FindMode.FAST: {"on_miss": OnMiss.ESTIMATE},
    FindMode.HYBRID: {},
    FindMode.DYNAMIC_HYBRID: {"dynamic_only": True},
    FindMode.TRUST_VERIFY: {"check_hit": CheckHit.WINNER, "tune": True},
    FindMode.TRUST_VERIFY_FULL: {"check_hit": CheckHit.ALL, "tune": True},
}


def _member(kind: type[StrEnum], name: str, value: object) -> StrEnum:
    try:
        return kind(str(value).lower())
    except ValueError:
        raise SettingsError(name, value, ", ".join(kind)) from None


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    """Bring loosely typed values into the types of the fields."""
    checked = dict(changes)
    words = (("order", Order), ("fallback", Fallback), ("on_miss", OnMiss), ("check_hit", CheckHit))
    for name, kind in words:
        if name in checked:
            checked[name] = _member(kind, name, checked[name])
    if checked.get("algorithms") is not None:
        checked["algorithms"] = frozenset(
            _member(Algorithm, "algorithms", item) for item in checked["algorithms"]
        )
    for name in ("solvers", "deny"):
        if checked.get(name) is not None:
            value = checked[name]
            checked[name] = frozenset([value] if isinstance(value, str) else value)
    limit = checked.get("workspace_limit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise SettingsError("workspace_limit", limit, "bytes, 0 or more, or None")
    budget = checked.get("time_budget")
    if budget is not None and not (isinstance(budget, (int, float)) and budget >= 0):
        raise SettingsError("time_budget", budget, "seconds, 0 or more, or None")
    return checked
