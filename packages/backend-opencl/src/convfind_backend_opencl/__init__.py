"""The OpenCL backend of convfind: GPUs and CPUs through pyopencl."""

from __future__ import annotations

from convfind_backend_opencl.backend import OpenCLBackend

__all__ = ["OpenCLBackend"]
