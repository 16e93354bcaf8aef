"""`PlanExplanation`: why each task of a plan is as it is: solver, layout, fusion, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from convfind.text import format_bytes, new_table, table_text
from convfind_networks.plan.schedule import Schedule, Task

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class PlanExplanation:
    """The reasons behind a schedule, for people and as JSON."""

    schedule: Schedule

    @property
    def lines(self) -> tuple[str, ...]:
        """Sentences about the network as a whole, one a line."""
        schedule = self.schedule
        return (
            f"{len(schedule.tasks):,} tasks on {schedule.device}",
            f"{schedule.flops / 1e9:,.2f} GFLOP",
            f"arena {format_bytes(schedule.arena)}, at least {format_bytes(schedule.lower_bound)}; "
            f"constants {format_bytes(schedule.constants)}",
            *schedule.notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON says of it."""
        schedule = self.schedule
        return {
            "network": schedule.network,
            "device": schedule.device,
            "flops": schedule.flops,
            "arena_bytes": schedule.arena,
            "arena_lower_bound": schedule.lower_bound,
            "constants_bytes": schedule.constants,
            "notes": list(schedule.notes),
            "inputs": [_port(one) for one in schedule.inputs],
            "outputs": [_port(one) for one in schedule.outputs],
            "tasks": [_task(one) for one in schedule.tasks],
        }

    def __str__(self) -> str:
        """Return the sentences and the table as text."""
        return "\n".join((*self.lines, "", table_text(self.__rich__())))

    def __rich__(self) -> Table:
        """Return the table that ``rich.print`` shows."""
        table = new_table("node", "operation", "layout", "solver", "why", "memory")
        for task in self.schedule.tasks:
            table.add_row(
                task.node,
                task.operation,
                _layout(task),
                task.solution.solver,
                task.choice,
                _memory(task),
            )
        return table


def _layout(task: Task) -> str:
    layout = getattr(task.problem, "layout", None)
    if layout is None:
        return ""
    result = getattr(task.problem, "y_layout", layout)
    return str(layout) if result is layout else f"{layout} to {result}"


def _memory(task: Task) -> str:
    """Say what is special about a task's memory."""
    places, words = task.places, []
    result = [places[name] for name in ("y", "out") if name in places]
    if "z" in places and places["z"] in result:
        words.append("z in place")
    if "packed" in places:
        words.append("weights packed")
    return ", ".join(words)


def _task(task: Task) -> dict[str, Any]:
    return {
        "node": task.node,
        "operation": task.operation,
        "problem": str(task.problem),
        "layout": _layout(task),
        "solution": task.solution.to_dict(),
        "why": task.choice,
        "memory": _memory(task),
        "places": {name: [one.memory, one.offset] for name, one in task.places.items()},
    }


def _port(port: Any) -> dict[str, Any]:
    return {"name": port.name, "dtype": port.type.dtype.name, "shape": list(port.type.shape)}
