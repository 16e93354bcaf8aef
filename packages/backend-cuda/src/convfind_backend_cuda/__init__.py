"""The CUDA backend of convfind: NVIDIA GPUs through the driver API and NVRTC."""

from __future__ import annotations

from convfind_backend_cuda.backend import CudaBackend

__all__ = ["CudaBackend"]
