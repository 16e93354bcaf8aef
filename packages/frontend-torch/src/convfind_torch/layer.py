"""`Layer`: who asks for convolutions: a module's name, its options, and its routes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from convfind.device.target import DeviceKind
from convfind.policy import Policy
from convfind_torch.options import Options

if TYPE_CHECKING:
    from convfind_torch.quick_call import QuickCall, QuickStep, ReadyWay
    from convfind_torch.route import Route


Kept = TypeVar("Kept")

#: Routes and forms that a layer remembers.
_MOST = 512
#: Forms of a module's calls up to which its sizes count as fixed; in training each has three.
_MOST_FIXED = 12


class Remembered(dict[Hashable, Kept]):
    """Knowledge by the form of a call. Forms without end are forgotten all at once."""

    def put(self, form: Hashable, known: Kept) -> None:
        """Remember what is known of a form."""
        if len(self) >= _MOST:
            self.clear()
        self[form] = known


@dataclass(eq=False, slots=True, weakref_slot=True)
class Layer:
    """A caller, whose copies and saved forms know name and options, but no routes."""

    name: str
    options: Options
    is_shared: bool = False  # asks for many convolutions, not for a module's
    word: str = field(init=False)  # the options in compiled graphs
    routes: dict[Route, None] = field(default_factory=dict)  # in order of their first calls
    #: Routes by the form of a call.
    known: Remembered[Route] = field(default_factory=Remembered)
    #: Calls that go straight to the kernels, by all that they depend on; a route is PyTorch's.
    quick: Remembered[QuickCall | Route] = field(default_factory=Remembered)
    #: Calls with their gradients, also by whose are needed.
    steps: Remembered[QuickStep] = field(default_factory=Remembered)
    #: Gradients of operators in graphs.
    gradients: Remembered[ReadyWay] = field(default_factory=Remembered)
    #: Routes of a call and its gradients where all are PyTorch's; none where one is convfind's.
    left: Remembered[tuple[Route, ...]] = field(default_factory=Remembered)

    def __post_init__(self) -> None:
        self.word = self.options.word

    def policy_on(self, kind: DeviceKind) -> Policy:
        """Return what the next find on a kind of device may do."""
        if self.is_shared or len(self.known) < _MOST_FIXED:
            return self.options.policy_on(kind)
        return self.options.policy

    def note(self, route: Route) -> None:
        """Keep a route for the report; of forms without end the last."""
        if len(self.routes) >= _MOST:
            del self.routes[next(iter(self.routes))]
        self.routes[route] = None

    def __reduce__(self) -> tuple[type[Layer], tuple[str, Options, bool]]:
        return Layer, (self.name, self.options, self.is_shared)

    def __deepcopy__(self, memo: dict[int, object]) -> Layer:
        return Layer(self.name, self.options, self.is_shared)


@lru_cache(maxsize=64)
def anonymous(name: str, options: Options) -> Layer:
    """Return the layer of callers without a module: the functions, and what is patched."""
    return Layer(name, options, is_shared=True)
