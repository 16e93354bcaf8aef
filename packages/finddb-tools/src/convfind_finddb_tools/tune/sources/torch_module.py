"""The convolutions that a PyTorch module runs on an example, forward and backward.

The module runs once while every operator that it dispatches is listened to: functional calls, and
the types that autocast chooses, are seen as they are. Nothing here imports PyTorch: the user's
module has brought it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from convfind.errors import ProblemError
from convfind.problem import ConvProblem
from convfind.types import ConvMode, DataType, Direction, Layout
from convfind_finddb_tools.tune.workload import Found, Reading, Refusal

_FORM = (
    "package.module:factory, where factory() returns (module, inputs) or (module, inputs, named)"
)


def read_torch_module(factory: str, *, backward: bool) -> Reading:
    """Run a module once and return the convolutions that it ran.

    Args:
        factory: ``package.module:name`` of a callable without arguments that returns a module, its
            inputs (a tensor, or a tuple of arguments) and, if needed, a dict of named arguments.
            The current folder is searched too. Tensors of the device "meta" compute nothing.
        backward: run the gradient of the sum of all outputs too.

    Raises:
        ProblemError: the factory cannot be imported, or the module fails.
    """
    module, arguments, named = _made(factory)
    found: list[Found] = []
    refused: list[Refusal] = []
    names: list[str] = []

    def hear(directions: Sequence[Direction], *convolution: Any) -> None:
        label = names[-1] if names else ""
        for direction in directions:
            try:
                found.append(Found(_problem(direction, *convolution), name=label))
            except ProblemError as exc:
                refused.append(Refusal(label or str(direction), str(exc)))

    try:
        with ExitStack() as stack:
            for hook in _follow(module, names):
                stack.callback(hook.remove)
            if not backward:
                stack.enter_context(import_module("torch").no_grad())
            stack.enter_context(_listener(hear))
            outputs = module(*arguments, **named)
            if backward:
                _sum(outputs).backward()
    except Exception as exc:  # the user's code
        what = f"a module that runs on its inputs ({type(exc).__name__}: {exc})"
        raise ProblemError("--torch", factory, what) from exc
    if not found:
        first = f": {refused[0].reason}" if refused else ""
        raise ProblemError("--torch", factory, f"a module that runs convolutions{first}")
    return Reading(factory, tuple(found), refused=tuple(refused))


def _made(factory: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    name, colon, attribute = factory.partition(":")
    if not (name and colon and attribute):
        raise ProblemError("--torch", factory, _FORM)
    with suppress(OSError):  # the current folder may be gone
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.insert(0, here)
    try:
        made = getattr(import_module(name), attribute)()
    except Exception as exc:  # the user's code
        raise ProblemError("--torch", factory, f"{_FORM} ({type(exc).__name__}: {exc})") from exc
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not hasattr(made[0], "modules"):
        raise ProblemError("--torch", factory, f"{_FORM}; it returned {type(made).__name__}")
    module, inputs, *rest = made
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return module, arguments, dict(rest[0]) if rest else {}


def _follow(module: Any, names: list[str]) -> Iterator[Any]:
    """Keep the name of the module that is running at the end of a list."""
    for name, part in module.named_modules():
        if name:
            yield part.register_forward_pre_hook(lambda *_, name=name: names.append(name))
            yield part.register_forward_hook(lambda *_: (names.pop(), None)[1])


def _listener(hear: Callable[..., None]) -> Any:
    base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

    class Listener(base):  # type: ignore[misc]  # the base is known at run time only
        """Hears of every operator and runs it."""

        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if str(function) == "aten.convolution.default":
                x, w, _, *geometry = args
                hear((Direction.FORWARD,), x, w, *geometry)
            elif str(function) == "aten.convolution_backward.default":
                _, x, w, _, *geometry, wanted = args
                kinds = (Direction.BACKWARD_DATA, Direction.BACKWARD_WEIGHTS)
                chosen = [kind for kind, want in zip(kinds, wanted, strict=False) if want]
                hear(chosen, x, w, *geometry)
            return function(*args, **(kwargs or {}))

    return Listener()


def _problem(
    direction: Direction,
    x: Any,
    w: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> ConvProblem:
    rank = x.dim() - 2
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype not in [known.value for known in DataType]:
        raise ProblemError("dtype", dtype, ", ".join(known.value for known in DataType))
    channels_last = not x.is_contiguous() and x.stride(1) == 1
    layouts = [layout for layout in Layout if layout.spatial_rank == rank]
    layout = next(one for one in layouts if one.value.endswith("C") == channels_last)

    def sizes(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers) if len(numbers) == rank else tuple(numbers) * rank

    return ConvProblem.create(
        direction,
        tuple(x.shape),
        tuple(w.shape),
        stride=sizes(stride),
        padding=sizes(padding),
        dilation=sizes(dilation),
        groups=groups,
        mode=ConvMode.TRANSPOSE if transposed else ConvMode.CONVOLUTION,
        output_padding=sizes(output_padding) if transposed else 0,
        dtype=dtype,
        layout=layout,
    )


def _sum(outputs: Any) -> Any:
    """Sum everything with a gradient in whatever a module returns."""
    if hasattr(outputs, "requires_grad"):
        return outputs.float().sum() if outputs.requires_grad else 0
    parts = outputs.values() if isinstance(outputs, dict) else outputs
    return (
        sum(_sum(part) for part in parts)
        if isinstance(parts, (list, tuple)) or isinstance(outputs, dict)
        else 0
    )
