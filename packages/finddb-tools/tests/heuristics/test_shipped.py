"""The models that the package ships."""

from __future__ import annotations

import pytest

from convfind.heuristics import TrainedHeuristic
from convfind.plugins.registry import default_registry
from convfind_finddb_tools.heuristics.shipped import shipped_models


@pytest.mark.parametrize("shipped", shipped_models(), ids=lambda shipped: shipped.name)
def test_a_shipped_model_is_sound_and_registered(shipped: TrainedHeuristic) -> None:
    model = shipped.model()
    (device,) = model.devices
    scores = model.training.scores[device.identity]
    assert scores["geomean_slowdown"] < 1.2
    assert all(not name.endswith("@0") for network in model.networks for name in network.solvers)
    assert shipped.name in {heuristic.name for heuristic in default_registry().heuristics}


def test_models_are_asked_in_the_order_of_their_names() -> None:
    assert [shipped.name for shipped in shipped_models()] == ["epyc", "h200", "xeon"]
