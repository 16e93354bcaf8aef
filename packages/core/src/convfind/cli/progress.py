"""A progress bar on the terminal for whatever lasts longer than a moment."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_PATIENCE = 0.5  # seconds before a bar appears


class ProgressBar:
    """Shows an outer task, if there is one, and the stages of the find within; then vanishes.

    Writes to standard error, and only where that is a terminal.
    """

    def __init__(self, outer: str = "", total: int = 0) -> None:
        console = Console(stderr=True)
        self._enabled = console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            auto_refresh=False,  # a thread that draws would take time from what is being measured
        )
        self._outer = self._bars.add_task(outer, total=total) if outer else None
        self._stage = self._bars.add_task("", total=None, visible=False)
        self._start = time.monotonic()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._started:
            self._bars.stop()

    def __call__(self, stage: str, done: int, total: int, label: str) -> None:
        """Show a stage of a find: the ``on_progress`` of `Handle.find`."""
        text = f"  {stage} {label}".rstrip()
        self._bars.update(self._stage, description=text, completed=done, total=total, visible=True)
        self._show()

    def advance(self, label: str, done: int) -> None:
        """Show what the outer task is at."""
        if self._outer is not None:
            self._bars.update(self._outer, description=label, completed=done)
            self._bars.update(self._stage, visible=False)
        self._show()

    def _show(self) -> None:
        if self._enabled and not self._started and time.monotonic() - self._start > _PATIENCE:
            self._bars.start()
            self._started = True
        if self._started:
            self._bars.refresh()
