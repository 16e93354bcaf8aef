"""The kernels of the family, which its solvers make programs of."""

from __future__ import annotations

from convfind.kit.blocks import Kernels
from convfind.solver.kernel_spec import KernelLanguage

#: For CPUs, with the vectors and work-groups of OpenCL.
CPU = Kernels("convfind_solvers_igemm", KernelLanguage.OPENCL_C)
#: For GPUs, and of solvers for any device.
GPU = Kernels("convfind_solvers_igemm")
#: For NVIDIA's GPUs through CUDA alone.
CUDA = Kernels("convfind_solvers_igemm", KernelLanguage.CUDA)
