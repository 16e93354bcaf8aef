"""The notes of an AMD code object about its kernels: registers, memory and arguments.

The layout is documented in LLVM's "User Guide for AMDGPU Backend", sections on code object metadata
and ELF notes: an ELF note of the name ``AMDGPU`` and type 32 holds it as msgpack. hiprtc may wrap
the ELF file in a bundle ("Clang Offload Bundler" of Clang's documentation).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_ELF = b"\x7fELF"
_SECTION_NOTE = 7
_NOTE_METADATA = 32
_REGISTER = 4  # bytes of a lane


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A kernel of a code object. Sizes are in bytes; local memory is what is declared."""

    name: str
    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    local_memory: int
    scratch: int  # private memory of a work-item: spilled registers and arrays
    work_group: int  # most work-items
    wave_size: int
    argument_sizes: tuple[int, ...]
    spilled: int = 0  # vector registers that did not fit, in bytes of a work-item


def kernels_of(code: bytes) -> tuple[KernelFacts, ...]:
    """Return the kernels of a code object; none where it is of another kind."""
    found: list[KernelFacts] = []
    for elf in _elf_files(code):
        for note in _notes(elf):
            metadata = msgspec.msgpack.decode(note)
            found += [_facts(kernel) for kernel in metadata.get("amdhsa.kernels", ())]
    return tuple(found)


def _facts(kernel: dict[str, object]) -> KernelFacts:
    def number(name: str) -> int:
        value = kernel.get(name, 0)
        return value if isinstance(value, int) else 0

    arguments = kernel.get(".args")
    return KernelFacts(
        str(kernel[".name"]),
        number(".vgpr_count"),
        number(".agpr_count"),
        number(".sgpr_count"),
        number(".group_segment_fixed_size"),
        number(".private_segment_fixed_size"),
        number(".max_flat_workgroup_size"),
        number(".wavefront_size"),
        tuple(
            int(argument[".size"])
            for argument in (arguments if isinstance(arguments, list) else ())
            if not str(argument[".value_kind"]).startswith("hidden_")
        ),
        _REGISTER * number(".vgpr_spill_count"),
    )


def _elf_files(code: bytes) -> Iterator[bytes]:
    if code.startswith(_ELF):
        yield code
    if not code.startswith(_BUNDLE):
        return
    (count,) = struct.unpack_from("<Q", code, len(_BUNDLE))
    at = len(_BUNDLE) + 8
    for _ in range(count):
        offset, size, name_size = struct.unpack_from("<QQQ", code, at)
        at += 24 + name_size
        if code[offset : offset + 4] == _ELF:
            yield code[offset : offset + size]


def _notes(elf: bytes) -> Iterator[bytes]:
    """The metadata notes of a little-endian ELF file of 64 bits."""
    (sections,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    for index in range(count):
        header = sections + index * size
        (kind,) = struct.unpack_from("<I", elf, header + 4)
        offset, length = struct.unpack_from("<QQ", elf, header + 24)
        if kind != _SECTION_NOTE:
            continue
        at = offset
        while at < offset + length:
            name_size, data_size, note_kind = struct.unpack_from("<III", elf, at)
            name = elf[at + 12 : at + 12 + name_size].rstrip(b"\0")
            data = at + 12 + _padded(name_size)
            if name == b"AMDGPU" and note_kind == _NOTE_METADATA:
                yield elf[data : data + data_size]
            at = data + _padded(data_size)


def _padded(size: int) -> int:
    return -(-size // 4) * 4
