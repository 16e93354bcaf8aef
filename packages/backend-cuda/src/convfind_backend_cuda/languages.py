"""`LANGUAGES`: what kernels are written in that this backend compiles."""

from __future__ import annotations

from convfind.solver.kernel_spec import KernelLanguage

LANGUAGES = (KernelLanguage.CUDA, KernelLanguage.SHARED)
