"""`Layer`: who asks for convolutions: a module's name, its options, and its routes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from convfind_torch.options import Options

if TYPE_CHECKING:
    from convfind_torch.quick_call import QuickCall, QuickStep, ReadyWay
    from convfind_torch.route import Route


#: Routes and forms that a layer remembers.
_MOST = 512


@dataclass(eq=False, slots=True, weakref_slot=True)
class Layer:
    """A caller, whose copies and saved forms know name and options, but no routes."""

    name: str
    options: Options
    word: str = field(init=False)  # the options in compiled graphs
    routes: dict[Route, None] = field(default_factory=dict)  # in order of their first calls
    known: dict[Hashable, Route] = field(default_factory=dict)  # by the form of a call
    quick: dict[Hashable, QuickCall] = field(default_factory=dict)  # by all that it depends on
    aside: dict[Hashable, Route] = field(default_factory=dict)  # as quick, where PyTorch computes
    steps: dict[Hashable, QuickStep] = field(default_factory=dict)  # and by needs of gradients
    gradients: dict[Hashable, ReadyWay] = field(default_factory=dict)  # of operators in graphs
    #: Routes of a call and its gradients where all are PyTorch's; none where one is convfind's.
    left: dict[Hashable, tuple[Route, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.word = self.options.word

    def note(self, route: Route) -> None:
        """Keep a route for the report; of forms without end the last."""
        if len(self.routes) >= _MOST:
            del self.routes[next(iter(self.routes))]
        self.routes[route] = None

    def know(self, form: Hashable, route: Route) -> None:
        """Remember the route of a form."""
        if len(self.known) >= _MOST:
            self.known.clear()
        self.known[form] = route

    def hasten(self, form: Hashable, call: QuickCall) -> None:
        """Remember how a call of a form goes straight to the kernels."""
        if len(self.quick) >= _MOST:
            self.quick.clear()
        self.quick[form] = call

    def leave_aside(self, form: Hashable, route: Route) -> None:
        """Remember that PyTorch computes calls of a form."""
        if len(self.aside) >= _MOST:
            self.aside.clear()
        self.aside[form] = route

    def hasten_step(self, form: Hashable, step: QuickStep) -> None:
        """Remember how a call of a form and its gradients go straight to the kernels."""
        if len(self.steps) >= _MOST:
            self.steps.clear()
        self.steps[form] = step

    def hasten_gradient(self, form: Hashable, kernels: ReadyWay) -> None:
        """Remember how a gradient of a form goes straight to the kernels."""
        if len(self.gradients) >= _MOST:
            self.gradients.clear()
        self.gradients[form] = kernels

    def leave(self, form: Hashable, routes: tuple[Route, ...]) -> None:
        """Remember whether a form is PyTorch's with the gradients that it needs."""
        if len(self.left) >= _MOST:
            self.left.clear()
        self.left[form] = routes

    def __reduce__(self) -> tuple[type[Layer], tuple[str, Options]]:
        return Layer, (self.name, self.options)

    def __deepcopy__(self, memo: dict[int, object]) -> Layer:
        return Layer(self.name, self.options)


@lru_cache(maxsize=64)
def anonymous(name: str, options: Options) -> Layer:
    """Return the layer of callers without a module: the functions, and what is patched."""
    return Layer(name, options)
