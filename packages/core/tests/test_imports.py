"""What ``import convfind`` leaves for those who need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import convfind.heuristics
from convfind.heuristics.model import TrainedHeuristic


def test_importing_convfind_imports_what_a_recorded_answer_needs_and_no_more() -> None:
    code = "import sys, convfind; print(*(name for name in sys.modules if 'convfind' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "convfind.find.finder" in imported
    assert imported.isdisjoint(
        {
            "convfind.find.explanation",
            "convfind.find.isolation.child",
            "convfind.find.search",
            "convfind.find.trust",
            "convfind.heuristics.model",
            "convfind.problem.syntax.driver_line",
            "convfind.problem.syntax.miopen_key",
        }
    )


def test_models_are_imported_by_their_names() -> None:
    assert convfind.heuristics.TrainedHeuristic is TrainedHeuristic
    with pytest.raises(AttributeError, match="has no attribute 'Model'"):
        _ = convfind.heuristics.Model  # type: ignore[attr-defined]
