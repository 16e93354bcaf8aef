"""`ReadyFill`, `ReadyGemm`: steps that call a runtime or its library with plain addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from convfind.backend_kit.addressed import AddressBuffer
from convfind.backend_kit.launching import check_end
from convfind.backend_kit.pointed import AddressedMemory, Point
from convfind.errors import LaunchError
from convfind.solver.recipe import Fill, LibraryGemm, Matrix


class ReadyFill:
    """Zeros for a region."""

    __slots__ = ("_address", "_fill", "_set_zero", "name")

    def __init__(self, fill: Fill, set_zero: Callable[[int, int], object]) -> None:
        """Prepare a fill by ``set_zero(address, size)``, which enqueues it."""
        self.name = f"fill of {fill.memory}"
        self._fill = fill
        self._set_zero = set_zero
        self._address = 0

    def bind(self, buffers: Mapping[str, AddressBuffer]) -> None:
        """Note the address. Raises `LaunchError` if the region ends behind the buffer."""
        fill = self._fill
        buffer = buffers[fill.memory]
        check_end(self.name, fill.memory, fill.offset + fill.size, buffer.block.size)
        self._address = buffer.address + fill.offset

    def pointed(self, memory: AddressedMemory) -> Point:
        """Return what notes the address. Raises `LaunchError`, as `bind` does."""
        fill = self._fill
        place, size = memory.find(fill.memory)
        check_end(self.name, fill.memory, fill.offset + fill.size, size)

        def point(addresses: Sequence[int]) -> None:
            self._address = addresses[place] + fill.offset

        return point

    def enqueue(self) -> None:
        """Enqueue the fill."""
        self._set_zero(self._address, self._fill.size)


class ReadyGemm:
    """A `LibraryGemm` of a runtime's library."""

    __slots__ = ("_addresses", "_call", "_gemm", "name")

    def __init__(self, gemm: LibraryGemm, call: Callable[..., object]) -> None:
        """Prepare a product by ``call``, which gets the addresses of its matrices, and enqueues it.

        They come in the order of `LibraryGemm.matrices`: a, b, c, and bias and z where there are.
        """
        self.name = f"product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n}, {gemm.batch} times,"
        self._gemm = gemm
        self._call = call
        self._addresses: tuple[int, ...] = ()

    def bind(self, buffers: Mapping[str, AddressBuffer]) -> None:
        """Note the addresses. Raises `LaunchError` if a matrix ends behind its buffer."""
        gemm = self._gemm
        for matrix, end in matrix_ends(gemm):
            check_end(self.name, matrix.memory, end, buffers[matrix.memory].block.size)
        self._addresses = tuple(buffers[m.memory].address + m.offset for m in gemm.matrices)

    def pointed(self, memory: AddressedMemory) -> Point:
        """Return what notes the addresses. Raises `LaunchError`, as `bind` does."""
        gemm = self._gemm
        for matrix, end in matrix_ends(gemm):
            check_end(self.name, matrix.memory, end, memory.find(matrix.memory)[1])
        places = [(memory.find(one.memory)[0], one.offset) for one in gemm.matrices]

        def point(addresses: Sequence[int]) -> None:
            self._addresses = tuple([addresses[place] + offset for place, offset in places])

        return point

    def enqueue(self) -> None:
        """Enqueue the product."""
        self._call(*self._addresses)


def matrix_ends(gemm: LibraryGemm) -> tuple[tuple[Matrix, int], ...]:
    """Return each matrix of a product, and the byte of its memory behind its last element."""
    a = (gemm.k, gemm.m) if gemm.trans_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.trans_b else (gemm.k, gemm.n)
    shapes = [(gemm.a, a), (gemm.b, b), (gemm.c, (gemm.m, gemm.n))]
    if gemm.epilogue is not None:
        more = ((gemm.epilogue.bias, (1, gemm.n)), (gemm.epilogue.z, (gemm.m, gemm.n)))
        shapes += [(matrix, shape) for matrix, shape in more if matrix is not None]
    return tuple((matrix, _end(matrix, gemm.batch, *shape)) for matrix, shape in shapes)


def refuse_epilogue(gemm: LibraryGemm) -> None:
    """Raise `LaunchError` for a product with an epilogue: the runtime's library has none."""
    if gemm.epilogue is not None:
        msg = (
            f"product of {gemm.m} x {gemm.k} and {gemm.k} x {gemm.n}: the library has no "
            f"epilogues; apply {gemm.epilogue.activation or 'what is added'} in a step of its own"
        )
        raise LaunchError(msg)


def _end(matrix: Matrix, batch: int, rows: int, columns: int) -> int:
    elements = (batch - 1) * matrix.stride + (rows - 1) * matrix.row + columns
    return matrix.offset + elements * matrix.dtype.numpy.itemsize
