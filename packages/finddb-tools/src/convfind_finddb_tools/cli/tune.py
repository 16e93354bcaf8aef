"""``convfind tune``: the group of commands, each imported when it is used."""

from __future__ import annotations

from convfind.cli.lazy import LazyGroup

_HELP = """Tune all problems of a model or a log, here or on many devices at once.

\b
Examples:
  convfind tune list model.onnx --set batch=16          which problems there are
  convfind tune run resnet50.txt -n 16                  in this process
  convfind tune run model.onnx --batch 16 --workers 4   a worker for each of four GPUs
  convfind tune run app.log --scheduler tcp://head:8786 --budget 2h
  convfind tune status                                  how far a run is
  convfind tune simulate --workers 1000 --problems 1000000
"""

#: Name of each command, and the module of this package that has it, under its own name.
_COMMANDS = {
    "list": "tune_list",
    "run": "tune_run",
    "simulate": "tune_simulate",
    "status": "tune_status",
}

tune = LazyGroup("tune", "convfind_finddb_tools.cli", _COMMANDS, _HELP)
