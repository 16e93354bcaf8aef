"""Builds the stand-in ROCm: `libamdhip64.so`, `libhiprtc.so` and `librocblas.so` for this CPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LIBRARIES = {"amdhip64": "runtime", "hiprtc": "compiler", "rocblas": "blas"}
_FLAGS = ("-shared", "-fPIC", "-std=c++17", "-O2", "-march=native", "-fvisibility=hidden", "-Wall")


def missing() -> str | None:
    """Return why the stand-in cannot be built here, or None."""
    if os.uname().machine != "x86_64":
        return f"the stand-in's fibers are written for x86_64, not {os.uname().machine}"
    if compiler() is None:
        return "the stand-in needs g++; install it, or name another one in STANDIN_CXX"
    return None


def compiler() -> str | None:
    """Return the C++ compiler's path."""
    return shutil.which(os.environ.get("STANDIN_CXX", "g++"))


def place() -> Path:
    """Return the folder that `build` fills."""
    return Path(tempfile.gettempdir()) / f"standin-rocm-{os.getuid()}-{_source_hash()}"


def build() -> Path:
    """Build what is not built yet; return the folder to set ``ROCM_PATH`` to.

    Raises `RuntimeError` with the compiler's log.
    """
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    folder = place()
    if not folder.exists():
        unfinished = Path(tempfile.mkdtemp(prefix="standin-rocm-"))
        (unfinished / "lib").mkdir()
        with ThreadPoolExecutor() as threads:
            builds = [
                threads.submit(_build_library, name, sources, unfinished / "lib")
                for name, sources in LIBRARIES.items()
            ]
        for build in builds:
            build.result()
        try:
            unfinished.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return folder


def _build_library(name: str, sources: str, to: Path) -> None:
    command = [
        str(compiler()),
        *_FLAGS,
        *(f"-I{ROOT / folder}" for folder in ("include", "runtime")),
        f'-DSTANDIN_INCLUDE="{ROOT / "include"}"',
        *map(str, sorted((ROOT / sources).glob("*.cpp"))),
        "-o",
        str(to / f"lib{name}.so"),
        "-ldl",
        "-lpthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"build of lib{name}.so: {done.stderr}")


def _source_hash() -> str:
    digest = hashlib.blake2b(str(ROOT).encode(), digest_size=8)
    for path in sorted(ROOT.rglob("*")):
        if path.suffix in {".cpp", ".h", ".py"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
