"""Two meanings of "solution": what a solver builds, and what a user gets.

`ConvSolution` is a complete recipe: kernels, the steps that launch them, memory, tuning config.
It holds no device handle; a backend turns it into an invoker. `Solution` is its name tag with
evidence: who, how fast, measured where, how accurate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from convfind.config import Config
from convfind.kernel_spec import KernelSpec, Program
from convfind.types import Algorithm

#: Offsets of regions inside a workspace are multiples of this many bytes.
WORKSPACE_ALIGNMENT = 512


def align(size: int) -> int:
    """Round a number of bytes up to `WORKSPACE_ALIGNMENT`."""
    return -(-size // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT


class Memory(StrEnum):
    """The buffers that a step may name."""

    X = "x"
    W = "w"
    Y = "y"
    WORKSPACE = "workspace"  # scratch, undefined before each run
    PACKED = "packed"  # transformed weights, written by the `prepare` steps


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A kernel argument that is memory, from ``offset`` bytes on (a multiple of the alignment)."""

    memory: Memory
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """A kernel argument that is a number: ``kind`` is a NumPy scalar type name such as int32."""

    value: int | float
    kind: str


@dataclass(frozen=True, slots=True)
class LocalArg:
    """A kernel argument that is local memory of so many bytes."""

    size: int


Argument = BufferArg | ScalarArg | LocalArg


def i32(value: int) -> ScalarArg:
    """A 32-bit signed argument."""
    return ScalarArg(value, "int32")


def u32(value: int) -> ScalarArg:
    """A 32-bit unsigned argument."""
    return ScalarArg(value, "uint32")


def i64(value: int) -> ScalarArg:
    """A 64-bit signed argument: offsets in tensors that may pass 2 GiB."""
    return ScalarArg(value, "int64")


def f32(value: float) -> ScalarArg:
    """A single-precision argument."""
    return ScalarArg(value, "float32")


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: sizes count work-items, as in OpenCL."""

    kernel: KernelSpec
    arguments: tuple[Argument, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """Set ``size`` bytes of memory to zero."""

    memory: Memory
    offset: int
    size: int


Step = Launch | Fill


@dataclass(frozen=True, slots=True)
class ConvSolution:
    """A recipe for one problem on one target.

    A run executes ``prepare`` (which reads only ``w`` and writes only packed memory) and then
    ``steps``, in order. Where the caller binds constant weights, ``prepare`` runs once at binding.
    """

    solver: str
    steps: tuple[Step, ...]
    prepare: tuple[Step, ...] = ()
    workspace: int = 0  # bytes of scratch memory
    packed: int = 0  # bytes of packed weights
    config: Config | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The distinct programs, in order of first use."""
        launches = (step for step in (*self.prepare, *self.steps) if isinstance(step, Launch))
        return tuple(dict.fromkeys(launch.kernel.program for launch in launches))

    @property
    def total_workspace(self) -> int:
        """Bytes that an unbound run needs: scratch, and packed weights behind it."""
        return align(self.workspace) + self.packed if self.packed else self.workspace

    @property
    def unbound_steps(self) -> tuple[Step, ...]:
        """The steps of a run that packs the weights itself, into the end of its workspace."""
        if not self.packed:
            return self.steps
        base = align(self.workspace)
        return tuple(_packed_in_workspace(step, base) for step in (*self.prepare, *self.steps))

    @property
    def source_hash(self) -> str:
        """Hash of every kernel file involved; part of a database record."""
        return "-".join(dict.fromkeys(program.source.digest for program in self.programs))


def _packed_in_workspace(step: Step, base: int) -> Step:
    if isinstance(step, Fill):
        if step.memory is not Memory.PACKED:
            return step
        return replace(step, memory=Memory.WORKSPACE, offset=base + step.offset)
    return replace(
        step,
        arguments=tuple(
            BufferArg(Memory.WORKSPACE, base + argument.offset)
            if isinstance(argument, BufferArg) and argument.memory is Memory.PACKED
            else argument
            for argument in step.arguments
        ),
    )


class TimeOrigin(StrEnum):
    """Where a solution's time comes from."""

    MEASURED = "measured"  # in this find
    USER_DB = "user-db"  # measured here earlier
    SYSTEM_DB = "system-db"  # measured by whoever shipped the database
    PREDICTED = "predicted"  # by a heuristic model
    WTI = "wti"  # from the weighted throughput index
    NONE = "none"  # nobody knows

    @property
    def is_measured(self) -> bool:
        """True where a device ran it."""
        return self in (TimeOrigin.MEASURED, TimeOrigin.USER_DB, TimeOrigin.SYSTEM_DB)


@dataclass(frozen=True, slots=True)
class Solution:
    """What a find returns for one solver: identity and evidence; no device handle; picklable.

    ``time_ms`` is milliseconds of device time; negative where nobody measured it: then its size is
    the estimate, or it is -1 where there is none.
    """

    solver: str
    algorithm: Algorithm
    problem: str  # network config
    device: str  # identity of the target
    time_ms: float
    time_origin: TimeOrigin
    workspace: int  # bytes an unbound run needs
    error: float | None = None  # measured, relative: see convfind.accuracy
    config: Config | None = None
    samples: int = 0
    spread: float = 0.0  # interquartile range of the samples in ms
    over_limit: bool = (
        False  # needs more workspace than the limit of the find: listed, never chosen
    )
    constant_weights: bool = False  # timed with weights packed beforehand
    stale: bool = False  # measured with another driver
    confidence: float | None = None  # of a prediction, 0 to 1
    binaries: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)  # by key, on request

    def save(self, path: str | Path) -> None:
        """Write to a file, as JSON with the device's identity. Raises `OSError`."""
        from convfind.solution_file import solution_to_bytes

        Path(path).write_bytes(solution_to_bytes(self))

    @classmethod
    def load(cls, path: str | Path) -> Solution:
        """Read from a file; the device is checked when it is run.

        Raises:
            SolutionError: the file is missing or not a saved solution.
        """
        from convfind.solution_file import read_solution

        return read_solution(Path(path))

    @property
    def estimate_ms(self) -> float | None:
        """The time, measured or estimated; None where nobody knows."""
        if self.time_origin is TimeOrigin.NONE:
            return None
        return abs(self.time_ms)
