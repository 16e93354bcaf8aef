"""`Engine`: the convolutions of a process, each found once and then only run."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import compress
from threading import RLock
from typing import Any, NamedTuple
from weakref import WeakSet

import torch

from convfind.cached import RecentlyUsed, cached_property
from convfind.errors import ConvfindError, DeviceError, ProblemError
from convfind.find.result import FindResult
from convfind.finddb import FindDb
from convfind.policy import POLICY_FIELDS, Policy
from convfind.problem import ConvProblem
from convfind.problem.contract import Problem
from convfind.types import Direction
from convfind_torch import comparison
from convfind_torch.bound_weights import BoundWeights
from convfind_torch.call import Call
from convfind_torch.layer import Layer
from convfind_torch.place import Place, Run
from convfind_torch.places import open_place, stream_of
from convfind_torch.route import Route, Way

_LOG = logging.getLogger("convfind.torch")

#: Forms of convolutions that are remembered.
_MOST_ROUTES = 4096

#: Why a convolution that is first met in a capture is left to PyTorch.
_CAPTURING = "nothing is found while a CUDA graph is captured; call the model once before"


class Asked(NamedTuple):
    """A problem that a find is asked for, with the place and the policy of it."""

    place: Place
    policy: Policy
    problem: Problem


class Engine:
    """Open devices, and the route of every form of convolution that was asked for."""

    def __init__(self) -> None:
        self._places: dict[tuple[torch.device, int], Place | str] = {}
        self._routes = RecentlyUsed[Hashable, Route](_MOST_ROUTES)
        self._found = RecentlyUsed[Asked, FindResult](_MOST_ROUTES)
        #: Weights that were packed once.
        self.bound = BoundWeights()
        self._layers = WeakSet[Layer]()
        self._deciding = RLock()

    @cached_property
    def comparisons(self) -> FindDb:
        """The times of convfind's convolutions beside PyTorch's."""
        return comparison.open_comparisons()

    @property
    def layers(self) -> list[Layer]:
        """The layers that asked for convolutions and are still there, by name."""
        return sorted(self._layers, key=lambda layer: layer.name)

    def compute(self, call: Call) -> torch.Tensor:
        """Compute a convolution or a gradient, wherever that is fastest; records no gradient."""
        return self.computed(call, self.route(call))

    def computed(self, call: Call, route: Route) -> torch.Tensor:
        """Compute a call by its route; records no gradient."""
        way, tensors = route.way, call.tensors  # once: another thread may give the way up
        if way is None or not way.place.is_usable:
            return call.pytorch()
        try:
            bound = self._bound(way, call)
            if bound is not None:
                del tensors["w"]
            return way.run(tensors, bound)
        except ConvfindError as error:
            _LOG.warning("%s is left to PyTorch: %s", route.description, error)
            route.way, route.reason = None, str(error)
            return call.pytorch()

    def route(self, call: Call) -> Route:
        """Return where a call is computed; decides at the first one of its form."""
        layer, form = call.layer, call.form
        route = layer.known.get(form)
        if route is None:
            route = self._shared(form, call)
            if route.is_final:
                layer.known.put(form, route)
            if route not in layer.routes:
                self.note(layer, route)
        route.calls += 1
        return route

    def _shared(self, form: Hashable, call: Call) -> Route:
        """Return the route of all layers with the same options."""
        key = (form, call.layer.word)
        route = self._routes.get(key)
        if route is None:
            with self._deciding:
                route = self._routes.get(key)
                if route is None:
                    route = self._decided(call)
                    if route.is_final:
                        self._routes.put(key, route)
        return route

    def asked(self, call: Call) -> Asked | None:
        """Return what the find of a call asks for; None where the call is PyTorch's anyway."""
        place = self.place(call.x)
        if call.obstacle or isinstance(place, str) or not place.is_usable or place.is_capturing:
            return None
        try:
            return Asked(place, _policy_of(call, place), call.problem)
        except ProblemError:
            return None

    def find_ahead(self, asked: Iterable[Asked]) -> None:
        """Find what calls will ask for as one batch, which takes less time than one by one.

        Failures are left to the finds that follow. A time budget is for each find: all of them
        together have the sum.
        """
        batches = defaultdict[tuple[Place, Policy], list[Problem]](list)
        for one in asked:
            batches[one.place, one.policy].append(one.problem)
        for (place, policy), problems in batches.items():
            fields, count = _keywords(policy), len(set(problems))
            if policy.time_budget is not None:
                fields["time_budget"] = policy.time_budget * count
            _LOG.info("%d problems are found on %s", count, place.handle.target.name)
            with place.lock, suppress(ConvfindError):
                found = place.handle.find_all(problems, policy.mode, **fields)
                for problem, result in found.items():
                    self._found.put(Asked(place, policy, problem), result)
            place.trim()

    def is_left(
        self, call: Call, needs: tuple[bool, bool], recorded: Callable[[Call], torch.Tensor]
    ) -> bool:
        """Return whether a forward call is PyTorch's, and so are the gradients that it needs.

        True from the first call on that finds all of this decided.

        Args:
            call: the forward call.
            needs: whether x and w want gradients.
            recorded: computes such a call, and records gradients that are convfind's.
        """
        return bool(self.left(call, needs, recorded))

    def left(
        self, call: Call, needs: tuple[bool, bool], recorded: Callable[[Call], torch.Tensor]
    ) -> tuple[Route, ...] | None:
        """Return the routes of a forward call and its gradients where all of them are PyTorch's.

        Then PyTorch's own operator records them at a fraction of the cost.

        Args:
            call: the forward call.
            needs: whether x and w want gradients.
            recorded: computes such a call, and records gradients that are convfind's.

        Returns:
            None as long as not all of this is decided; no routes where one is convfind's.
        """
        layer, form = call.layer, call.form
        left = layer.left.get((form, needs))
        if left is not None:
            return left
        gradients = (Direction.BACKWARD_DATA, Direction.BACKWARD_WEIGHTS)
        forms = [form, *(call.gradient(one).form for one in compress(gradients, needs))]
        routes = [route for one in forms if (route := layer.known.get(one)) is not None]
        if len(routes) < len(forms):
            return None
        ours = next((route.way for route in routes if route.is_ours), None)
        if ours is None:
            left = tuple(routes)
        elif not (ours.place.is_asynchronous and any(needs) and layer.options.keep_faster):
            left = ()
        elif ours.place.is_capturing:
            return None
        else:
            counts = [route.calls for route in routes]
            left = self._slower_with_gradients(call, needs, ours.place, recorded)
            for route, calls in zip(routes, counts, strict=True):
                route.calls = calls
        layer.left.put((form, needs), left)
        return left

    def _slower_with_gradients(
        self,
        call: Call,
        needs: tuple[bool, bool],
        place: Place,
        recorded: Callable[[Call], torch.Tensor],
    ) -> tuple[Route, ...]:
        """Return a route to PyTorch where it is faster with all that recording gradients costs.

        Each of the kernels was compared without that, and small ones do not pay for it.
        """
        found = comparison.median_of(
            *comparison.in_turns(
                place,
                lambda: call.with_gradients(recorded, needs),
                lambda: call.with_gradients(Call.pytorch_with_gradients, needs),
                replayed=call.layer.options.cuda_graphs,
            )
        )
        if found.gain > 1:
            return ()
        reason = "PyTorch's own is faster with its gradients"
        route = Route(f"{call.problem.key} with gradients", reason, comparison=found)
        self.note(call.layer, route)
        return (route,)

    def note(self, layer: Layer, route: Route) -> None:
        """Keep a route of a layer for the report."""
        layer.note(route)
        self._layers.add(layer)

    def _decided(self, call: Call) -> Route:
        if call.obstacle:
            return Route(str(call), call.obstacle)
        try:
            problem = call.problem
        except ProblemError as error:
            return Route(str(call), str(error))
        place = self.place(call.x)
        if isinstance(place, str):
            return Route(problem.key, place)
        if not place.is_usable:
            return Route(problem.key, "the device was opened before this process was forked")
        if place.is_capturing:
            _LOG.warning("%s is PyTorch's in this graph: %s", problem.key, _CAPTURING)
            return Route(problem.key, _CAPTURING, is_final=False)
        try:
            try:
                return self._prepared(place, problem, call)
            except DeviceError:
                if not place.make_room():
                    raise
                return self._prepared(place, problem, call)
        except ConvfindError as error:
            return Route(problem.key, str(error))
        finally:
            place.trim()

    def _prepared(self, place: Place, problem: ConvProblem, call: Call) -> Route:
        """Find, prepare, and compare with PyTorch's own where that is asked for."""
        policy = _policy_of(call, place)
        with place.lock:
            found = self._found.get(Asked(place, policy, problem))
            if found is None:
                found = place.handle.find(problem, policy.mode, **_keywords(policy))
            convolution = place.handle.prepare(found.best)
        route = Route(problem.key, f"found by {policy.mode.name}")
        route.way = Way(problem, place, convolution, call.memory_format)
        if call.layer.options.keep_faster:
            self._compare(route, call)
        return route

    def _bound(self, way: Way, call: Call) -> Run | None:
        """Return the convolution with the call's weights fixed; None where it has to read them.

        A graph of the caller's reads them in every replay: nobody would notice that they changed.
        """
        if not call.constant or way.place.is_capturing:
            return None
        binding = self.bound.binding(way, call.w)
        return None if binding is None else binding.run

    def _compare(self, route: Route, call: Call) -> None:
        way, database = route.way, self.comparisons
        assert way is not None
        given = (database, way.place, way.convolution.solution, way.problem)
        replayed = call.layer.options.cuda_graphs
        known = comparison.recorded(*given, replayed=replayed)
        if known is None:
            tensors = call.tensors
            bound = self._bound(way, call)
            if bound is not None:
                del tensors["w"]
            known = comparison.measured(
                *given, lambda: way.run(tensors, bound), call.pytorch, replayed=replayed
            )
        route.comparison, route.reason = known, "faster than PyTorch's own"
        if known.gain <= 1:
            route.way, route.reason = None, "PyTorch's own is faster"

    def place(self, tensor: torch.Tensor) -> Place | str:
        """Return where a tensor's device computes; else why convfind has no such device."""
        key = (tensor.device, stream_of(tensor))
        if key not in self._places:
            self._places[key] = open_place(*key)
        return self._places[key]


def _policy_of(call: Call, place: Place) -> Policy:
    allowed = call.layer.policy_on(place.handle.target.kind)
    return allowed.with_changes(constant_weights=call.constant)


def _keywords(policy: Policy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in POLICY_FIELDS - {"enforce"}}


@lru_cache(maxsize=1)
def engine() -> Engine:
    """Return the engine of this process; devices are opened at their first convolution."""
    return Engine()
