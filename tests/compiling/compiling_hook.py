"""Changes compilers when they are imported, which most processes never do."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_COMPILER = "convfind.backend_kit.compiler"
#: How long a program is kept that no test asks for.
_DAYS = 14.0


class _Finder:
    """Finds the module of compilers as it is, and changes it when it has been executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                _change()

            spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Let compilers keep their programs in the folder of TESTS_COMPILED_DIR, if it is set."""
    if not os.environ.get("TESTS_COMPILED_DIR") or "compiled_before" in sys.modules:
        return
    if _COMPILER in sys.modules:
        _change()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def forget_unused(folder: Path) -> None:
    """Make the folder, and remove from it what no test has used for some days."""
    folder.mkdir(parents=True, exist_ok=True)
    oldest = time.time() - _DAYS * 24 * 60 * 60
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # others do the same, and rename what they have written
            if path.stat().st_mtime < oldest:
                path.unlink()


def _change() -> None:
    folder = str(Path(__file__).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    import compiled_before

    compiled_before.use(Path(os.environ["TESTS_COMPILED_DIR"]))
