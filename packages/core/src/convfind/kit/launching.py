"""`Kernels` and `Grid`: programs and launches in the few words that most solvers need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from operator import mul

from convfind.solver.defines import DefineValue, make_defines
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import KernelLanguage, KernelSpec, Program
from convfind.solver.recipe import Argument, BufferArg, Launch, i32


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernel files in the folder ``kernels`` of a package.

    Attributes:
        package: the import package that ships them.
        language: the language that they are written in.
    """

    package: str
    language: KernelLanguage = KernelLanguage.SHARED

    def program(
        self,
        name: str,
        *macros: Mapping[str, DefineValue],
        options: tuple[str, ...] = (),
        **named: DefineValue,
    ) -> Program:
        """Return the program of the file ``<name>.cl`` with these macros; later values win."""
        source = KernelSource(self.package, f"kernels/{name}.cl")
        return Program(source, self.language, make_defines(*macros, **named), options)


@dataclass(frozen=True, slots=True)
class Grid:
    """A kernel and its work-groups, which called with the kernel's arguments makes a launch.

    ``Grid(program, "add", groups, items)("x", "y", 3)`` launches ``add`` with the operands x and y,
    each from its beginning on, and with the 32-bit number 3.

    Attributes:
        program: the program that has the kernel.
        entry: the kernel's name.
        work_groups: work-groups along each axis, or along the only one.
        items: work-items of a work-group along each axis, or along the first one.
    """

    program: Program
    entry: str
    work_groups: int | tuple[int, ...]
    items: int | tuple[int, ...] = 1

    def __call__(self, *arguments: Argument | str | int) -> Launch:
        """Return the launch; a word is memory from its beginning on, a whole number an int32.

        Raises `TypeError` for what is no argument of a kernel.
        """
        groups, items = self.work_groups, self.items
        groups = (groups,) if isinstance(groups, int) else groups
        items = (items, *(1 for _ in groups[1:])) if isinstance(items, int) else items
        return Launch(
            KernelSpec(self.program, self.entry),
            tuple(map(_argument, arguments)),
            tuple(map(mul, groups, items)),
            items,
        )


def work_group(items: tuple[int, int, int], most: int) -> tuple[int, int, int]:
    """Return a work-group of at most so many items, a power of two of them along each axis.

    It has as many along axis 0 as there are neighbours, and the others along axis 1.
    """
    group = 1 << (most.bit_length() - 1)
    inner = min(group, 1 << (items[0] - 1).bit_length())
    outer = min(group // inner, 1 << (items[1] - 1).bit_length())
    return inner, outer, 1


def _argument(given: Argument | str | int) -> Argument:
    if isinstance(given, str):
        return BufferArg(given)
    if isinstance(given, Integral):  # NumPy's, too
        return i32(int(given))
    if not isinstance(given, Argument):
        msg = f"{given!r} is no kernel argument; take a word, a whole number, f32, i64 or another"
        raise TypeError(msg)
    return given
