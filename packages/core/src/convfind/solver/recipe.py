"""`Recipe`: a solver's kernels, the steps that launch them, memory, and tuning config.

It holds no device handle; a backend turns it into an invoker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from convfind.errors import LaunchError
from convfind.solver.config import Config
from convfind.solver.kernel_spec import KernelSpec, Program
from convfind.types import DataType

#: Offsets of regions inside a workspace are multiples of this many bytes.
WORKSPACE_ALIGNMENT = 512


def align(size: int, step: int = WORKSPACE_ALIGNMENT) -> int:
    """Round a number of bytes up to a multiple of ``step``."""
    return -(-size // step) * step


class Memory:
    """Names of memory that a step may use: the problem's operands, and two that are the recipe's.

    Any identifier names an operand; here are those of every convolution.
    """

    X: Final = "x"
    W: Final = "w"
    Y: Final = "y"
    WORKSPACE: Final = "workspace"  # scratch, undefined before each run
    PACKED: Final = "packed"  # transformed weights, written by the `prepare` steps


@dataclass(frozen=True, slots=True)
class BufferArg:
    """A kernel argument that is memory, from ``offset`` bytes on (a multiple of the alignment)."""

    memory: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """A kernel argument that is a number: ``kind`` is a NumPy scalar type name such as int32."""

    value: int | float
    kind: str


@dataclass(frozen=True, slots=True)
class LocalArg:
    """A kernel argument that is local memory; ``size`` is in bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The positions that a `TensorMapArg` copies of an image, instead of a box of a tensor.

    They are those of the windows of a convolution over two axes: one for each of its results, in
    their order, row after row and image after image. A copy is of one tap of the windows.

    Attributes:
        first: where the first window begins along each axis, innermost first; -1 is in the padding.
        counts: windows along each axis, innermost first.
        steps: from one window to the next along each axis, innermost first.
    """

    first: tuple[int, int]
    counts: tuple[int, int]
    steps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class TensorMapArg:
    """A kernel argument that tells the copy engine of an NVIDIA GPU about a tensor in memory.

    It is CUDA's tensor map, for Hopper's ``cp.async.bulk.tensor``. A copy has zeros for places
    outside of the tensor.

    Attributes:
        offset: bytes before the tensor (a multiple of the alignment).
        dtype: its type; floats are rounded to TF32 on their way where ``rounds``.
        sizes: elements along each axis, innermost first.
        strides: elements from one to the next along each axis but the innermost.
        box: elements of a copy along each axis; with ``windows`` elements of a position, and
            positions.
        windows: what positions are copied of images of sizes channels, columns, rows, images.
        spreads: whether rows, of 128 bytes, lie in local memory with their 16-byte pieces spread
            over the banks ("a swizzle of 128 bytes").
    """

    memory: str
    offset: int
    dtype: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    rounds: bool = False
    windows: Windows | None = None
    spreads: bool = True


Argument = BufferArg | ScalarArg | LocalArg | TensorMapArg


def i32(value: int) -> ScalarArg:
    """A 32-bit signed argument."""
    return ScalarArg(value, "int32")


def u32(value: int) -> ScalarArg:
    """A 32-bit unsigned argument."""
    return ScalarArg(value, "uint32")


def i64(value: int) -> ScalarArg:
    """A 64-bit signed argument, for offsets in tensors that may exceed 2 GiB."""
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

    memory: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """Location of the row-major matrices of a batch."""

    memory: str
    dtype: DataType
    row: int  # elements from one row to the next
    offset: int = 0  # bytes before the first matrix
    stride: int = 0  # elements from one matrix of the batch to the next


@dataclass(frozen=True, slots=True)
class GemmEpilogue:
    """Work of a library on its products before it stores them, where it can.

    With it, they are ``c = activation(alpha * op(a) * op(b) + bias + beta * z)``.

    Attributes:
        bias: one row for each product of a batch, which is added to all of its rows; None for none.
        z: what beta is the factor of, in the form and type of the result; None: the result itself.
        activation: the word of an activation that has no numbers of its own; empty for none.
    """

    bias: Matrix | None = None
    z: Matrix | None = None
    activation: str = ""


@dataclass(frozen=True, slots=True)
class LibraryGemm:
    """Matrix products by the runtime's own library: ``c = alpha * op(a) * op(b) + beta * c``.

    op(a) is m x k and op(b) is k x n; a matrix with ``trans`` set is stored transposed. ``a`` and
    ``b`` have the same type; the result's type may be wider, and sums are float32 (int32 for int8,
    float64 for float64). With a beta of 0 the result is never read. Backends without such a
    library, or whose library has no epilogue where there is one, raise `LaunchError` when they make
    an invoker.
    """

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    trans_a: bool = False
    trans_b: bool = False
    batch: int = 1
    alpha: float = 1.0
    beta: float = 0.0
    allow_tf32: bool = False
    deterministic: bool = False  # the same bits in every run
    epilogue: GemmEpilogue | None = None

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """All matrices: a, b, c, and of an epilogue bias and z where it has them."""
        more = () if self.epilogue is None else (self.epilogue.bias, self.epilogue.z)
        return (self.a, self.b, self.c, *(matrix for matrix in more if matrix is not None))


Step = Launch | Fill | LibraryGemm


def memory_names(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the distinct names of the memory that steps use, in order of first use.

    Raises `LaunchError` for a name that `InvokeArgs` cannot have as an attribute.
    """
    names = tuple(dict.fromkeys(name for step in steps for name in _memory_names_of(step)))
    for name in names:
        if not name.isidentifier():
            raise LaunchError(f"memory {name!r}: a name consists of letters, digits and _")
    return names


def _memory_names_of(step: Step) -> tuple[str, ...]:
    if isinstance(step, Launch):
        in_memory = BufferArg | TensorMapArg
        return tuple(arg.memory for arg in step.arguments if isinstance(arg, in_memory))
    if isinstance(step, Fill):
        return (step.memory,)
    return tuple(matrix.memory for matrix in step.matrices)


def relocated(step: Step, place: Callable[[str, int], tuple[str, int]]) -> Step:
    """Return a step with relocated memory: ``place`` maps buffer and byte to new ones."""

    def moved(argument: Argument) -> Argument:
        if not isinstance(argument, BufferArg | TensorMapArg):
            return argument
        memory, offset = place(argument.memory, argument.offset)
        return replace(argument, memory=memory, offset=offset)

    def moved_matrix(matrix: Matrix) -> Matrix:
        memory, offset = place(matrix.memory, matrix.offset)
        return replace(matrix, memory=memory, offset=offset)

    if isinstance(step, Launch):
        return replace(step, arguments=tuple(map(moved, step.arguments)))
    if isinstance(step, Fill):
        memory, offset = place(step.memory, step.offset)
        return replace(step, memory=memory, offset=offset)
    a, b, c = map(moved_matrix, (step.a, step.b, step.c))
    epilogue = step.epilogue
    if epilogue is not None:
        bias, z = (
            None if matrix is None else moved_matrix(matrix)
            for matrix in (epilogue.bias, epilogue.z)
        )
        epilogue = replace(epilogue, bias=bias, z=z)
    return replace(step, a=a, b=b, c=c, epilogue=epilogue)


def moved_to(steps: Iterable[Step], places: Mapping[str, BufferArg]) -> tuple[Step, ...]:
    """Return steps whose buffers begin at new places; a buffer without one stays where it is."""

    def place(memory: str, offset: int) -> tuple[str, int]:
        found = places.get(memory, BufferArg(memory))
        return found.memory, found.offset + offset

    return tuple(relocated(step, place) for step in steps)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe for one problem on one target.

    A run executes ``prepare`` (which reads only ``w`` and writes only packed memory) and then
    ``steps``, in order. If the caller binds constant weights, ``prepare`` runs once, at binding.
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
        """Bytes that an unbound run needs: scratch memory, followed by packed weights."""
        return align(self.workspace) + self.packed if self.packed else self.workspace

    @property
    def unbound_steps(self) -> tuple[Step, ...]:
        """Return the steps of a run that packs the weights into the end of its workspace."""
        if not self.packed:
            return self.steps
        base = align(self.workspace)
        return tuple(_packed_in_workspace(step, base) for step in (*self.prepare, *self.steps))

    @property
    def source_hash(self) -> str:
        """Hash of all kernel files of the recipe; part of a database record."""
        return "-".join(dict.fromkeys(program.source.digest for program in self.programs))


def _packed_in_workspace(step: Step, base: int) -> Step:
    def place(memory: str, offset: int) -> tuple[str, int]:
        if memory != Memory.PACKED:
            return memory, offset
        return Memory.WORKSPACE, base + offset

    return relocated(step, place)
