"""`Profile`: how long each task of a plan takes, beside the whole."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convfind.runtime.backend import InvokeArgs
from convfind.text import new_table, table_text
from convfind_networks.plan.schedule import Port, Task

if TYPE_CHECKING:
    from rich.table import Table

    from convfind_networks.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class TaskTime:
    """A task, and the median of its times on the device in ms."""

    task: Task
    time_ms: float

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations of the direct formula in a second."""
        return self.task.problem.flops / self.time_ms / 1e6 if self.time_ms else 0.0

    @property
    def gbytes(self) -> float:
        """Billions of bytes of tensors in a second, each counted once."""
        return self.task.problem.traffic / self.time_ms / 1e6 if self.time_ms else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The times of a plan's tasks, and of all in one run; medians of some rounds, in ms.

    Each task is timed by itself, in the order of the network, so that its data are as warm as in
    a run.
    """

    network: str
    device: str
    tasks: tuple[TaskTime, ...]
    whole_ms: float

    @property
    def sum_ms(self) -> float:
        """The sum of the tasks."""
        return sum(one.time_ms for one in self.tasks)

    def share(self, one: TaskTime) -> float:
        """Return which part of the sum a task is."""
        return one.time_ms / self.sum_ms if self.sum_ms else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON says of it."""
        return {
            "network": self.network,
            "device": self.device,
            "whole_ms": self.whole_ms,
            "sum_ms": self.sum_ms,
            "tasks": [
                {
                    "node": one.task.node,
                    "operation": one.task.operation,
                    "problem": str(one.task.problem),
                    "solver": one.task.solution.solver,
                    "time_ms": one.time_ms,
                    "share": self.share(one),
                    "gflops": one.gflops,
                    "gbytes": one.gbytes,
                    "recorded_ms": one.task.solution.time_ms,
                }
                for one in self.tasks
            ],
        }

    def trace(self) -> dict[str, Any]:
        """Return a trace for Chrome's viewer and Perfetto: the tasks one behind the other."""
        events, begin = [], 0.0
        for one in self.tasks:
            events.append(
                {
                    "name": one.task.node,
                    "cat": one.task.problem.kind,
                    "ph": "X",
                    "ts": begin * 1e3,
                    "dur": one.time_ms * 1e3,
                    "pid": 1,
                    "tid": 1,
                    "args": {
                        "operation": one.task.operation,
                        "problem": str(one.task.problem),
                        "solver": one.task.solution.solver,
                    },
                }
            )
            begin += one.time_ms
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def __str__(self) -> str:
        """Return the table as text."""
        return table_text(self.__rich__())

    def __rich__(self) -> Table:
        """Return the table that ``rich.print`` shows."""
        right = ("ms", "share", "GFLOP/s", "GB/s")
        table = new_table("node", "operation", "solver", *right, right=right)
        for one in self.tasks:
            table.add_row(
                one.task.node,
                one.task.operation,
                one.task.solution.solver,
                f"{one.time_ms:.3f}",
                f"{self.share(one):.1%}",
                f"{one.gflops:,.1f}",
                f"{one.gbytes:,.1f}",
            )
        return table


def random_inputs(plan: Plan, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return random numbers for every input of a plan."""
    rng = np.random.default_rng(seed)
    return {port.name: _random(rng, port) for port in plan.inputs}


def _random(rng: np.random.Generator, port: Port) -> np.ndarray[Any, Any]:
    if port.type.is_float:
        return rng.standard_normal(port.type.shape, dtype=np.float32).astype(port.type.dtype)
    sizes = port.index_sizes or (2,)
    most = sizes if len(sizes) > 1 else sizes[0]
    return rng.integers(0, most, port.type.shape).astype(port.type.dtype)


def profile_of(plan: Plan, inputs: Mapping[str, Any] | None, rounds: int) -> Profile:
    """Time the tasks of a plan in turns, then all at once."""
    device = plan.handle.session.device
    given = random_inputs(plan) if inputs is None else inputs
    loaded = plan.handle.session.kernels.load_or_raise(
        program for steps in plan.steps for program in _programs(steps)
    )
    invokers = [device.invoker(steps, loaded) for steps in plan.steps]
    with plan.bound(given) as (memory, _):
        args = InvokeArgs(**memory)
        plan.invoker(args)
        whole, times = [], []
        for _ in range(rounds):
            times.append([invoker.timed(args) for invoker in invokers])
            whole.append(plan.invoker.timed(args))
    tasks = tuple(
        TaskTime(task, statistics.median(samples))
        for task, samples in zip(plan.schedule.tasks, zip(*times, strict=True), strict=True)
    )
    schedule = plan.schedule
    return Profile(schedule.network, schedule.device, tasks, statistics.median(whole))


def _programs(steps: Any) -> Any:
    from convfind.solver.recipe import Launch

    return (step.kernel.program for step in steps if isinstance(step, Launch))
