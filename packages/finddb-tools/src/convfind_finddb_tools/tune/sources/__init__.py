"""Sources of problems: a reader for each kind of file, and for PyTorch modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from convfind.errors import ProblemError
from convfind.problem.onnx_model import read_onnx_model
from convfind_finddb_tools.tune.sources.json_problems import read_json_problems
from convfind_finddb_tools.tune.sources.text_problems import read_text_problems
from convfind_finddb_tools.tune.workload import Found, Reading, Refusal


def read_source(path: Path, dims: Mapping[str, int], batch: int | None) -> Reading:
    """Read the problems of a file: ``*.onnx``, ``*.jsonl``, else text.

    Args:
        path: the file.
        dims: values of symbolic dimensions of ONNX models.
        batch: the first dimension of an ONNX model's inputs where they leave it open.

    Raises:
        ProblemError: the file cannot be read, is malformed, or has no convolution.
    """
    if path.suffix == ".onnx":
        model = read_onnx_model(path, dims, batch)
        found = tuple(Found(problem, name=name) for name, problem in model.found)
        refused = tuple(Refusal(f"node {name}", why) for name, why in model.refused)
        reading = Reading(path.name, found, refused=refused)
    elif path.suffix == ".jsonl":
        reading = read_json_problems(path)
    else:
        reading = read_text_problems(path)
    if not reading.found:
        why = f"{reading.skipped} lines are about something else"
        if reading.refused:
            why = f"the first of {len(reading.refused)} refused: {reading.refused[0].reason}"
        raise ProblemError("source", str(path), f"a file with convolutions; {why}")
    return reading
