"""Plans: a network made ready to run on a device, as one sequence of launches."""

from __future__ import annotations

from convfind_networks.plan.compiling import compile_graph
from convfind_networks.plan.plan import Plan
from convfind_networks.plan.schedule import Place, Port, Schedule, Task

__all__ = ["Place", "Plan", "Port", "Schedule", "Task", "compile_graph"]
