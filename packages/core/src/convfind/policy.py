"""The policy of a find: modes, enforcement, and the policy that both of them name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import (
    Any,
    SupportsFloat,
    SupportsIndex,
    TypedDict,
    Unpack,
    get_type_hints,
)

from convfind.arguments import similar
from convfind.device.target import DeviceKind
from convfind.errors import SettingsError
from convfind.field_readers import NumberedWord, needs_no_reading, reader_of
from convfind.types import Algorithm


class FindMode(NumberedWord):
    """The find modes. 4 is reserved and refused."""

    NORMAL = 1
    FAST = 2
    HYBRID = 3
    DYNAMIC_HYBRID = 5
    TRUST_VERIFY = 6
    TRUST_VERIFY_FULL = 7


class FindEnforce(NumberedWord):
    """Actions of every find beyond its mode."""

    NONE = 1
    DB_UPDATE = 2  # measure again and replace what is recorded, also where a record exists
    SEARCH = 3  # tune where no tuned config is recorded
    SEARCH_DB_UPDATE = 4  # tune again and replace the tuned configs
    DB_CLEAN = 5  # forget what is recorded for the problem, then find with default configs


class OnMiss(StrEnum):
    """The next step where the database has no answer."""

    MEASURE = "measure"
    ESTIMATE = "estimate"


class CheckHit(StrEnum):
    """How far a recorded answer is run again before it is trusted."""

    NO = "no"
    WINNER = "winner"  # the fastest, once
    ALL = "all"  # every recorded solution, once


class Isolate(StrEnum):
    """Candidates that run in a child process, which a crash costs instead of this one."""

    AUTO = "auto"  # all of a search in which one is not of this project
    ALWAYS = "always"
    NEVER = "never"


class Order(StrEnum):
    """The criterion that orders a list of solutions."""

    TIME = "time"
    WORKSPACE = "workspace"


class Fallback(StrEnum):
    """How far immediate mode may go without a record."""

    AI = "ai"  # heuristic, then WTI, then GEMM
    WTI = "wti"  # WTI, then GEMM
    GEMM = "gemm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Permissions and limits of one find. A mode is a named policy: `Policy.for_mode`. Immutable.

    Fields take loosely typed values too: words in any case, collections, NumPy's scalars.

    Raises:
        SettingsError: a value that the type of its field does not have; names the field.
    """

    mode: FindMode = FindMode.DYNAMIC_HYBRID
    use_db: bool = True  # answer from the database where it can
    on_miss: OnMiss = OnMiss.MEASURE
    dynamic_only: bool = True  # measure only solvers whose binaries serve many shapes
    race: bool = True  # leave out solvers that by all that is known cannot win
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
    isolate: Isolate = Isolate.AUTO  # run candidates in a child process
    algorithms: frozenset[Algorithm] | None = None  # only these, where given
    solvers: frozenset[str] | None = None  # only these ids, where given
    deny: frozenset[str] = frozenset()  # not these ids

    def __post_init__(self) -> None:
        for name, exact, read in _FIELDS:
            value = getattr(self, name)
            if type(value) is not exact:
                object.__setattr__(self, name, read(name, value))

    @classmethod
    def for_mode(cls, mode: Mode, **changes: Unpack[PolicyFields]) -> Policy:
        """Return the policy that a mode names, with some fields changed."""
        mode = FindMode.parse(mode, "mode")
        return cls().with_changes(mode=mode, **changes)

    def with_changes(self, mode: Mode | None = None, **given: Unpack[PolicyFields]) -> Policy:
        """Return a copy with some fields changed; a ``mode`` brings its own fields.

        Raises:
            SettingsError: an unknown field, or a value that its field does not take.
        """
        changes: dict[str, Any] = {**given}
        if not changes.keys() <= _NAMES:
            field = min(changes.keys() - _NAMES)
            names = similar(field, self.__slots__) or self.__slots__
            raise SettingsError("policy field", field, ", ".join(names))
        if mode is not None:
            known = FindMode.parse(mode, "mode")
            changes = {**_NEUTRAL, **_MODE_FIELDS[known], **changes, "mode": known}
        return replace(self, **changes)

    def for_fixed_sizes(self, kind: DeviceKind) -> Policy:
        """Return the policy where nobody chose a mode and sizes are known not to change.

        On GPUs kernels that are compiled for one size are raced, too: they are often faster, and
        their compiling is worth it where the same sizes come again and again.
        """
        if kind is not DeviceKind.GPU or self.mode is not FindMode.DYNAMIC_HYBRID:
            return self
        return replace(self, mode=FindMode.HYBRID, dynamic_only=False)

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
    def races(self) -> bool:
        """True where a search leaves out who cannot win: not who is named, nor who is tuned."""
        return self.race and self.solvers is None and not self.tune

    @property
    def is_filtered(self) -> bool:
        """True where solvers are left out by name or algorithm."""
        return bool(self.deny) or self.solvers is not None or self.algorithms is not None

    def is_over_limit(self, workspace: int) -> bool:
        """True where so many bytes are more than the workspace limit."""
        return self.workspace_limit is not None and workspace > self.workspace_limit

    def allows(self, solver_id: str, algorithm: Algorithm) -> bool:
        """True where the filters let the solver through; one that core completes is both."""
        names = {solver_id, solver_id.partition("+")[0]}
        return (
            not names & self.deny
            and (self.solvers is None or not names.isdisjoint(self.solvers))
            and (self.algorithms is None or algorithm in self.algorithms)
        )


class PolicyFields(TypedDict, total=False):
    """The fields of `Policy` beside its mode, as keywords take them; see there what they mean."""

    use_db: bool
    on_miss: OnMiss | str
    dynamic_only: bool
    race: bool
    check_hit: CheckHit | str
    tolerance: SupportsFloat
    tune: bool
    retune: bool
    forget: bool
    replace: bool
    verify: bool
    quick: bool
    write_back: bool
    time_budget: SupportsFloat | None
    workspace_limit: SupportsIndex | None
    order: Order | str
    constant_weights: bool
    fallback: Fallback | str
    isolate: Isolate | str
    algorithms: Iterable[Algorithm | str] | None
    solvers: Iterable[str] | None
    deny: Iterable[str]


class FindKeywords(PolicyFields, total=False):
    """The keywords of `Handle.find`, `Handle.explain` and `Handle.policy`."""

    enforce: FindEnforce | str | int  # what every find does beyond its mode


#: A find mode, its word in any case, or its number.
Mode = FindMode | str | int

#: Names of all that finds take beside a mode.
POLICY_FIELDS = frozenset(FindKeywords.__annotations__)


#: Fields that a mode sets unless it says otherwise below.
_NEUTRAL: dict[str, Any] = {
    "use_db": True,
    "on_miss": OnMiss.MEASURE,
    "dynamic_only": False,
    "race": False,
    "check_hit": CheckHit.NO,
    "tune": False,
}
_MODE_FIELDS: dict[FindMode, dict[str, Any]] = {
    FindMode.NORMAL: {"use_db": False},
    FindMode.FAST: {"on_miss": OnMiss.ESTIMATE},
    FindMode.HYBRID: {"race": True},
    FindMode.DYNAMIC_HYBRID: {"dynamic_only": True, "race": True},
    FindMode.TRUST_VERIFY: {"check_hit": CheckHit.WINNER, "tune": True},
    FindMode.TRUST_VERIFY_FULL: {"check_hit": CheckHit.ALL, "tune": True},
}


#: For each field its name, the type whose values need no reading, and the reader of all others.
_FIELDS = tuple(
    (name, needs_no_reading(kind), reader_of(kind)) for name, kind in get_type_hints(Policy).items()
)
_NAMES = frozenset(name for name, _, _ in _FIELDS)
