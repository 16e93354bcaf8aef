"""Finds OpenCL runtimes that are installed but not registered with the ICD loader.

Intel's CPU runtime from PyPI names a wrong path in the ``.icd`` file that it brings, and GPU
containers often hold NVIDIA's library without its ``.icd``. Both work once the loader knows them.
"""

from __future__ import annotations

import ctypes
import os
import site
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from convfind.log import logger

_INTEL = "intelocl64.dll" if sys.platform == "win32" else "libintelocl.so"
_NVIDIA = "libnvidia-opencl.so.1"
_INTEL_FAILS = (
    "Intel's OpenCL runtime is installed and cannot be loaded: %s; where another package has"
    " brought an older libtbb, as openvino does, open a device before it is imported"
)
#: Stands in place of the first function of platforms that the loader has to prepare (cl_khr_icd 2).
_PREPARED_BY_LOADER = 0x4F50454E434C3331


@contextmanager
def visible_runtimes() -> Iterator[None]:
    """Let the ICD loader see every runtime while the body makes the first platform query.

    The loader reads its variables once, at the first query of a process, so nothing of this remains
    afterwards: neither in the environment, which child processes inherit, nor on disk. Where the
    user has set ``OCL_ICD_VENDORS`` or ``OCL_ICD_FILENAMES``, that choice stands.
    """
    if users_choice() is not None:
        yield
        return
    registered = registered_runtimes()
    unregistered = unregistered_runtimes(registered)
    if not unregistered:
        yield
    elif sys.platform == "win32":
        # The libraries beside the runtime are found through PATH only.
        folders = os.pathsep.join(str(Path(library).parent) for library in unregistered)
        path = os.pathsep.join((folders, os.environ.get("PATH", "")))
        with _environment(OCL_ICD_FILENAMES=os.pathsep.join(unregistered), PATH=path):
            yield
    else:
        with (
            _vendor_folder(registered, unregistered) as folder,
            _environment(OCL_ICD_VENDORS=folder),
        ):
            yield


def users_choice() -> str | None:
    """Return ``OCL_ICD_VENDORS``; None where it is not set, or a path at which there is nothing."""
    choice = os.environ.get("OCL_ICD_VENDORS")
    if not choice or (Path(choice).is_absolute() and not Path(choice).exists()):
        return None
    return choice


def unlisted_platforms(listed: Collection[int]) -> list[int]:
    """Return the platforms of installed runtimes that the loader does not list, as pointers.

    It lists too few where another library of the process asked it before `visible_runtimes` could.
    Such platforms work all the same: an OpenCL object brings its functions along.
    """
    if users_choice() is not None:
        return []
    registered = registered_runtimes()
    found: list[int] = []
    for library in (*registered.values(), *unregistered_runtimes(registered)):
        try:
            platforms = list(_platforms_of(library))
        except (OSError, AttributeError) as exc:
            if library == str(intel_runtime()):
                logger.warning(_INTEL_FAILS, exc)
            else:
                logger.info("%s is no opencl runtime: %s", library, exc)
            continue
        found += [one for one in platforms if one not in listed and one not in found]
    return found


def _platforms_of(library: str) -> Iterator[int]:
    """Ask a runtime for its platforms as the loader does."""
    runtime = ctypes.CDLL(library)
    address = runtime.clGetExtensionFunctionAddress
    address.argtypes, address.restype = [ctypes.c_char_p], ctypes.c_void_p
    function = address(b"clIcdGetPlatformIDsKHR")
    if function is None:
        return
    pointers = ctypes.POINTER(ctypes.c_void_p)
    ask = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_uint32, pointers, ctypes.POINTER(ctypes.c_uint32)
    )(function)
    count = ctypes.c_uint32()
    if ask(0, None, ctypes.byref(count)):
        return
    platforms = (ctypes.c_void_p * count.value)()
    if ask(count, platforms, None):
        return
    for platform in filter(None, platforms):
        functions = ctypes.cast(platform, pointers)[0]
        if functions and ctypes.cast(functions, pointers)[0] != _PREPARED_BY_LOADER:
            yield platform


def registered_runtimes() -> dict[str, str]:
    """Return the ``.icd`` files that the loader would read, by name, with the library each names.

    Files that name a library by a path that does not exist are left out.
    """
    found: dict[str, str] = {}
    for root in dict.fromkeys(("/", sys.prefix)):
        for file in sorted(Path(root, "etc", "OpenCL", "vendors").glob("*.icd")):
            try:
                library = file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                continue
            if library and (Path(library).exists() or not Path(library).is_absolute()):
                found.setdefault(file.name, library)
    return found


def unregistered_runtimes(registered: dict[str, str]) -> list[str]:
    """Return the libraries of runtimes that are installed and that no ``.icd`` file names.

    ``OCL_ICD_FILENAMES`` lists all that the user wants to add; not every loader reads it.
    """
    known = {Path(library).name.partition(".so")[0] for library in registered.values()}
    wanted = os.environ.get("OCL_ICD_FILENAMES", "").split(os.pathsep)
    if any(wanted):
        stems = {name: Path(name).name.partition(".so")[0] for name in wanted if name}
        return [name for name, stem in stems.items() if stem not in known]
    found = []
    intel = intel_runtime()
    if intel is not None and Path(_INTEL).stem not in known:
        found.append(str(intel))
    if sys.platform.startswith("linux") and _NVIDIA.partition(".so")[0] not in known:
        try:
            ctypes.CDLL(_NVIDIA)
        except OSError:
            pass
        else:
            found.append(_NVIDIA)
    return found


def intel_runtime() -> Path | None:
    """Return the library of Intel's CPU runtime where pip has installed it, else None."""
    candidates = [Path(sys.prefix, "lib", _INTEL), Path(site.getuserbase(), "lib", _INTEL)]
    try:
        files = distribution("intel-opencl-rt").files or ()
    except PackageNotFoundError:
        files = ()
    candidates[:0] = [Path(str(file.locate())) for file in files if file.name == _INTEL]
    return next((path.resolve().parent / _INTEL for path in candidates if path.exists()), None)


@contextmanager
def _vendor_folder(registered: dict[str, str], unregistered: list[str]) -> Iterator[str | None]:
    """A folder that replaces the system's, since the loader reads one folder only."""
    try:
        folder = TemporaryDirectory(prefix="convfind-icd-")
    except OSError as exc:
        logger.warning("cannot register %s: %s", ", ".join(unregistered), exc)
        yield None
        return
    with folder as path:
        added = {f"convfind-{number}.icd": library for number, library in enumerate(unregistered)}
        for name, library in (registered | added).items():
            Path(path, name).write_text(library + "\n", encoding="utf-8")
        yield path


@contextmanager
def _environment(**variables: str | None) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
