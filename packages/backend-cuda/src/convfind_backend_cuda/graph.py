"""`Graph`, `ReplayedInvoker`: steps recorded once as a CUDA graph, and replayed by one launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from convfind.cached import RecentlyUsed
from convfind.errors import DeviceError, LaunchError
from convfind.log import logger
from convfind.runtime.backend import InvokeArgs
from convfind.solver.kernel_spec import Program
from convfind.solver.recipe import Step
from convfind_backend_cuda.driver_call import in_context, launch_graph
from convfind_backend_cuda.errors import checked, failure
from convfind_backend_cuda.invoker import CudaInvoker
from convfind_backend_cuda.queue import Queue
from convfind_backend_cuda.stream import is_capturing

if TYPE_CHECKING:
    from convfind_backend_cuda.device import CudaDevice

#: Graphs that an invoker keeps, and records before any is replayed: callers go back and forth
#: between few places in memory, and layers of the same form each have their own.
_MOST_GRAPHS = 32
#: Places in memory that an invoker has seen once.
_MOST_SEEN = 64
#: Replays that are worth the recording of another graph.
_WORTH = 8
#: Steps below which launches one by one take no longer than a graph.
_FEWEST_STEPS = 2


class Graph:
    """Work that was recorded, ready to be enqueued as one."""

    __slots__ = ("_destroy", "_native", "_queue", "_replay")

    def __init__(self, queue: Queue, enqueue: Callable[[], None]) -> None:
        """Record what ``enqueue`` enqueues on a queue. Raises `DeviceError` and `LaunchError`."""
        doing = "recording a graph"
        self._queue = queue
        with queue.context:
            recorded = _recorded(queue, enqueue)
            made = driver.cuGraphInstantiate(recorded, 0)
            driver.cuGraphDestroy(recorded)
            self._native = int(checked(made, "cuGraphInstantiate", doing, LaunchError))
        # Kept, because at the interpreter's end modules are emptied before objects.
        self._destroy = driver.cuGraphExecDestroy
        self._replay = launch_graph()

    def __del__(self) -> None:
        destroy = getattr(self, "_destroy", None)
        if destroy is not None:
            with self._queue.context:
                destroy(self._native)

    def enqueue(self) -> None:
        """Enqueue the work on the queue's stream."""
        queue = self._queue
        status = self._replay(self._native, queue.stream)
        if status:
            again = partial(self._replay, self._native, queue.stream)
            status = in_context(status, queue.context, again)
        if status:
            raise failure(status, "cuGraphLaunch", "launch of a graph", LaunchError)


def _recorded(queue: Queue, enqueue: Callable[[], None]) -> Any:
    """Return a graph of what is enqueued, on a stream that exists for that alone."""
    doing = "recording a graph"
    flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
    made = checked(driver.cuStreamCreate(flag), "cuStreamCreate", doing, LaunchError)
    # Other libraries, in this thread or another, may do meanwhile what they like.
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    try:
        begun = driver.cuStreamBeginCapture(made, mode)
        checked(begun, "cuStreamBeginCapture", doing, LaunchError)
        try:
            with queue.moved(int(made)):
                enqueue()
        finally:
            ended = driver.cuStreamEndCapture(made)
        return checked(ended, "cuStreamEndCapture", doing, LaunchError)
    finally:
        driver.cuStreamDestroy(made)


class ReplayedInvoker(CudaInvoker):
    """Steps that are replayed as one graph wherever their memory lies as in an earlier run.

    A graph holds addresses. Where they are met for the second time, the steps are recorded with
    them; until then, and inside of a capture of the caller's, steps are launched one by one, as
    they are where memory changes so often that recordings are replayed too seldom.
    """

    def __init__(
        self, device: CudaDevice, steps: Sequence[Step], loaded: Mapping[Program, object]
    ) -> None:
        super().__init__(device, steps, loaded)
        #: Why nothing is recorded; empty where graphs are used.
        self.obstacle = ""
        if len(self._steps) < _FEWEST_STEPS:
            self.obstacle = f"{len(self._steps)} steps take no longer one by one"
        fields = (f"{memory}.{field}" for memory in self._memories for field in ("address", "size"))
        self._places = attrgetter(*fields, "__class__")
        self._graphs = RecentlyUsed[Any, Graph](_MOST_GRAPHS)
        self._seen = RecentlyUsed[Any, bool](_MOST_SEEN)
        self._credit = _MOST_GRAPHS * _WORTH  # replays that recordings may still cost

    def __call__(self, args: InvokeArgs) -> None:
        """Enqueue the steps in order, as one graph where there is one for this memory."""
        queue = self._queue
        if self.obstacle or is_capturing(queue.follow()):
            super().__call__(args)
            return
        try:
            places = self._places(args)
        except AttributeError:
            super().__call__(args)  # which says what is missing
            return
        graph = self._graphs.get(places)
        if graph is None and self._credit >= _WORTH and self._seen.get(places):
            self._credit -= _WORTH
            graph = self._record(args, places)
        if graph is None:
            self._seen.put(places, True)
            super().__call__(args)
            return
        self._credit += 1
        if queue.context.is_only:
            graph.enqueue()
            return
        with queue.context:  # the thread's own may be another device's
            graph.enqueue()

    def _record(self, args: InvokeArgs, places: Any) -> Graph | None:
        self.bind(args)
        try:
            graph = Graph(self._queue, self._enqueue)
        except (DeviceError, LaunchError) as error:
            self.obstacle = str(error)
            logger.warning("steps are launched one by one, without a graph: %s", error)
            return None
        self._graphs.put(places, graph)
        return graph
