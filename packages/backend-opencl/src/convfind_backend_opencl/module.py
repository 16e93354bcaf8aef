"""Programs on a device, and the kernels in them."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs
import pyopencl as cl
from pyopencl._cl import _Program

from convfind.backend_kit.launching import check_entry, launch_name
from convfind.errors import LaunchError
from convfind.log import logger
from convfind.solver.kernel_spec import KernelSpec
from convfind_backend_opencl.errors import opencl_errors


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program that is ready to run."""

    native: _Program
    entries: tuple[str, ...]

    def kernel(self, spec: KernelSpec) -> cl.Kernel:
        """Make a kernel. Raises `LaunchError` if there is none of the name.

        pyopencl keeps Python code that it generates for a kernel in the user's cache folder, and
        makes none where it cannot: with a read-only home folder, a full disk, a damaged file. Then
        this process does without.
        """
        check_entry(spec, self.entries)
        if not _has_cache_folder():
            _do_without_cache("no folder for it can be made")
        with opencl_errors(f"kernel {launch_name(spec)}", LaunchError):
            try:
                return cl.Kernel(self.native, spec.entry)
            except (OSError, sqlite3.Error) as exc:
                _do_without_cache(str(exc))
                return cl.Kernel(self.native, spec.entry)


@cache
def _has_cache_folder() -> bool:
    """Say whether pyopencl's folder is there or can be made; where it fails to, it also prints."""
    folder = Path(platformdirs.user_cache_dir("pytools", "pytools"))
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return there.is_dir() and (there == folder or os.access(there, os.W_OK))


def _do_without_cache(why: str) -> None:
    if not cl._PYOPENCL_NO_CACHE:
        logger.warning("pyopencl's cache cannot be used, continuing without it: %s", why)
        cl._PYOPENCL_NO_CACHE = True
