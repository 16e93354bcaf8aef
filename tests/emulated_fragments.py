"""NVIDIA's matrix products on CPUs: OpenCL C stands for the PTX of ``convfind_nvidia.h``.

What lanes of a wave give each other goes through local memory, between barriers of the whole
work-group, so that it is for kernels whose work-items all multiply together. Copies are done when
they are asked for. The units cut off what they add up, which is not emulated.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from convfind.device.target import DeviceKind
from convfind.runtime.backend import Device
from convfind.solver.kernel_source import KernelSource
from convfind.solver.kernel_spec import Program

_INCLUDE = '#include "convfind_kernel.h"\n'
#: Functions of the header in plain C, which stay.
_KEPT = r"^CF_INLINED CF_UINT cf_tf32_(?:high|low)\b(?:.*?})$"
#: Addresses of local memory are as wide as a CPU's. `cf_exchange` has three numbers for each item.
_EMULATED = """
#define CF_INLINED CF_INLINE
#define CF_SHARED(pointer) ((ulong)(size_t)(pointer))
#define CF_AT(address) ((CF_LOCAL_PTR CF_UINT *)(size_t)(address))
CF_INLINED void cf_copy_16(const ulong to, CF_GLOBAL const void *from, const CF_UINT size) {
  CF_GLOBAL const CF_UINT *words = (CF_GLOBAL const CF_UINT *)from;
  for (CF_UINT i = 0; i < 4; ++i) CF_AT(to)[i] = 4 * i < size ? words[i] : 0;
}
#define CF_COPIES_COMMIT()
#define CF_COPIES_WAIT(count)
CF_INLINED void cf_load_4(CF_UINT *to, const ulong address) {
  for (int i = 0; i < 4; ++i) to[i] = CF_AT(address)[i];
}
CF_INLINED void cf_store_4(const ulong address, const CF_UINT *from) {
  for (int i = 0; i < 4; ++i) CF_AT(address)[i] = from[i];
}
#define CF_LOAD_SHARED_4(to, address) cf_load_4(to, address)
#define CF_STORE_SHARED_4(address, from) cf_store_4(address, from)
#define CF_STORE_4(pointer, from)                                                   \\
  do {                                                                              \\
    for (int n = 0; n < 4; ++n) ((CF_GLOBAL CF_UINT *)(pointer))[n] = (from)[n];    \\
  } while (0)
CF_INLINED CF_UINT cf_tf32_nearest(const CF_UINT bits) {
  return isnan(CF_AS_FLOAT(bits)) ? bits : (bits + 0x1000u) & 0xffffe000u;
}
#define CF_PAIR(dtype, first, second) CF_JOIN(cf_pair_, dtype)(first, second)
CF_INLINED CF_UINT cf_pair_BFLOAT16(const float first, const float second) {
  return (CF_UINT)cf_bfloat16(first) | (CF_UINT)cf_bfloat16(second) << 16;
}
#define CF_STORE_SHARED_PAIR(dtype, address, first, second)                         \\
  (CF_AT(address)[0] = CF_AS_UINT(first), CF_AT(address)[1] = CF_AS_UINT(second))

#define CF_LANE ((int)CF_LOCAL_ID(0) % 32)
#define CF_WAVE ((int)CF_LOCAL_ID(0) / 32 * 32)
CF_INLINED void cf_load_matrices(CF_LOCAL_PTR ulong *exchange, CF_UINT *to, const ulong address) {
  CF_BARRIER();
  exchange[CF_LOCAL_ID(0)] = address;
  CF_BARRIER();
  for (int j = 0; j < 4; ++j) to[j] = CF_AT(exchange[CF_WAVE + 8 * j + CF_LANE / 4])[CF_LANE % 4];
}
#define CF_LOAD_MATRICES(to, address) cf_load_matrices(cf_exchange, to, address)

#define CF_PRODUCT_FLOAT32(a, b) (CF_AS_FLOAT((a) & 0xffffe000u) * CF_AS_FLOAT((b) & 0xffffe000u))
#define CF_PRODUCT_BFLOAT16(a, b)                                                   \\
  (CF_AS_FLOAT((a) << 16) * CF_AS_FLOAT((b) << 16) +                                \\
   CF_AS_FLOAT((a) & 0xffff0000u) * CF_AS_FLOAT((b) & 0xffff0000u))
#define CF_MMA_OF(dtype)                                                                        \\
  CF_INLINED void cf_mma_##dtype(CF_LOCAL_PTR ulong *exchange, float *sums, const CF_UINT *a,   \\
                                 const CF_UINT *b) {                                            \\
    CF_LOCAL_PTR CF_UINT *words = (CF_LOCAL_PTR CF_UINT *)exchange;                             \\
    CF_BARRIER();                                                                               \\
    for (int i = 0; i < 6; ++i) words[6 * CF_LOCAL_ID(0) + i] = i < 4 ? a[i] : b[i - 4];        \\
    CF_BARRIER();                                                                               \\
    words += 6 * CF_WAVE;                                                                       \\
    for (int i = 0; i < 4; ++i) {                                                               \\
      const int row = CF_LANE / 4, half_of_a = i / 2, column = 2 * (CF_LANE % 4) + i % 2;       \\
      for (int k = 0; k < 8; ++k)                                                               \\
        sums[i] += CF_PRODUCT_##dtype(words[6 * (4 * row + k % 4) + half_of_a + k / 4 * 2],     \\
                                      words[6 * (4 * column + k % 4) + 4 + k / 4]);             \\
    }                                                                                           \\
  }
CF_MMA_OF(FLOAT32)
CF_MMA_OF(BFLOAT16)
#define CF_MMA(dtype, sums, a, b) CF_JOIN(cf_mma_, dtype)(cf_exchange, sums, a, b)
"""


@dataclass(frozen=True, slots=True)
class EmulatedFragments(KernelSource):
    """A kernel file without PTX.

    Attributes:
        changes: patterns of its text, each found at least once, and what stands there instead.
    """

    changes: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The file with its headers."""
        header = files("convfind").joinpath("kernel_include/convfind_nvidia.h").read_text()
        ptx = header.partition(_INCLUDE)[2]
        kept = "\n".join(re.findall(_KEPT, ptx, re.M | re.S))
        text = KernelSource(self.package, self.path).text
        assert text.count(ptx) == 1
        text = text.replace(ptx, f"{_EMULATED}{kept}\n")
        for pattern, instead in self.changes:
            text, count = re.subn(pattern, instead, text)
            assert count, pattern
        return text


def with_fragments(device: Device, changes: Sequence[tuple[str, str]], **target: Any) -> Device:
    """Return a GPU as it is, and a CPU as one whose kernels are emulated."""
    if device.target.kind is DeviceKind.GPU:
        return device
    features = device.target.features | {"nv-ptx"}
    copied = copy.copy(device)
    copied.target = replace(
        device.target,
        **{
            "identity": "",
            "kind": DeviceKind.GPU,
            "arch": "sm_90",
            "features": features,
            "max_work_group": 1024,
            **target,
        },
    )

    def compile_emulated(program: Program) -> bytes:
        package, path = program.source.package, program.source.path
        source = EmulatedFragments(package, path, tuple(changes))
        return device.compile(replace(program, source=source, options=("-cl-opt-disable",)))

    copied.compile = compile_emulated  # type: ignore[method-assign]
    return copied
