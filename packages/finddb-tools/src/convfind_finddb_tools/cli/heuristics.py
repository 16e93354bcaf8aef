"""``convfind heuristics``: the group of commands, each imported when it is used."""

from __future__ import annotations

from convfind.cli.lazy import LazyGroup

_HELP = """Train models that rank solvers without measuring, score and install them.

DATA are find databases, own or with records imported from MIOpen, and MIOpen's find-db text files.

\b
Examples:
  convfind heuristics train ~/.local/share/convfind --output cpu.npz --seed 1
  convfind heuristics evaluate cpu.npz ~/.local/share/convfind --json
  convfind heuristics explain cpu.npz fwd-16x64x56x56-64x64x3x3-s1x1-p1x1-d1x1-g1-NCHW-float32
  convfind heuristics install cpu.npz
"""

#: Name of each command, and the module of this package that has it, under its own name.
_COMMANDS = {
    "evaluate": "heuristics_evaluate",
    "explain": "heuristics_explain",
    "install": "heuristics_install",
    "models": "heuristics_models",
    "train": "heuristics_train",
}

heuristics = LazyGroup("heuristics", "convfind_finddb_tools.cli", _COMMANDS, _HELP)
