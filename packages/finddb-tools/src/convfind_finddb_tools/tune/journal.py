"""The journal: a campaign's events, one JSON document per line, from which later runs resume.

| event | says |
|---|---|
| ``started`` | a run began: sources, strategy, workers |
| ``begun`` | a problem is in progress in the process of the run itself |
| ``finished`` | a problem is in the database: worker, duration, winner or failure |
| ``died`` | a worker died with a problem |
| ``quarantined`` | a problem killed three workers and is left out |
| ``checkpoint`` | records were merged into the database |
| ``stopped`` | a run ended: why, and its counts |
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from convfind.errors import FindDbError
from convfind_finddb_tools.tune.order import Identity


@dataclass(slots=True)
class Past:
    """Results of earlier runs, by identity and problem."""

    finished: dict[tuple[str, str, str], str] = field(default_factory=dict)  # to their failure
    quarantined: set[tuple[str, str, str]] = field(default_factory=set)
    deaths: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def place(identity: Identity, problem: str) -> tuple[str, str, str]:
    """The name of a problem in the journal's memory."""
    return identity.device, identity.fingerprint, problem


class _Line(msgspec.Struct):
    """The fields from which a later run learns; the others are for people and their tools."""

    event: str
    device: str = ""
    fingerprint: str = ""
    problem: str = ""
    failure: str = ""


class Journal:
    """Appends to the file; a line that was cut short by a crash is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab")
            if self._file.tell():
                self._file.write(b"\n")  # ends a line that was cut short
        except OSError as exc:
            msg = f"{path} cannot be written: {exc.strerror or exc}"
            raise FindDbError(msg) from exc
        self._encoder = msgspec.json.Encoder()

    def write(self, event: str, **fields: Any) -> None:
        """Append an event; it reaches the disk with the next `flush`."""
        line = {"time": round(time.time(), 3), "event": event, **fields}
        self._file.write(self._encoder.encode(line) + b"\n")

    def flush(self) -> None:
        """Bring everything to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and let go of the file."""
        self.flush()
        self._file.close()

    def past(self) -> Past:
        """Read what the runs so far did."""
        self._file.flush()
        past = Past()
        decoder = msgspec.json.Decoder(_Line)
        with self.path.open("rb") as file:
            for text in file:
                try:
                    line = decoder.decode(text)
                except msgspec.MsgspecError:
                    continue
                name = (line.device, line.fingerprint, line.problem)
                if line.event == "finished":
                    past.finished[name] = line.failure
                    past.deaths.pop(name, None)
                elif line.event in ("died", "begun"):
                    past.deaths[name] += 1
                elif line.event == "stopped" and line.problem:
                    past.deaths[name] -= 1  # interrupted by its user: the problem did nothing wrong
                elif line.event == "quarantined":
                    past.quarantined.add(name)
        return past
