"""``torch.compile(model, backend="convfind")``: graphs whose convolutions are convfind's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from convfind.errors import SettingsError
from convfind.policy import Mode
from convfind_torch.engine import engine
from convfind_torch.graph_calls import call_of, with_its_gradients
from convfind_torch.graph_modules import GraphModule, graph_module, is_convolution
from convfind_torch.inductor import compiled_by_inductor
from convfind_torch.leaving import is_left
from convfind_torch.options import Options
from convfind_torch.planning import NoPlan, planned
from convfind_torch.sizes import planned_by_sizes

_REST = ("plan", "inductor", "eager")


def compile_graph(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: Mode | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile one of Dynamo's graphs: convolutions by convfind, the rest by PyTorch.

    Without gradients, weights that are parameters are packed once, until a parameter's version
    changes.

    Args:
        graph: what Dynamo captured.
        example_inputs: its inputs, parameters among them.
        mode: how to find, as `convfind.Handle.find` takes it; None for the environment's mode,
            else ``HYBRID`` on GPUs unless sizes are symbolic.
        options: what `Options.of` takes, and ``rest``, what computes everything that is no
            convolution: ``"plan"`` (the default), a plan of convfind-networks where it takes the
            whole graph, no gradient is wanted and PyTorch is not faster, otherwise PyTorch's
            compiler; ``"inductor"``, always that; ``"eager"``, PyTorch's operators. And
            ``background``: True lets a plan serve by estimates at once, while finds and the
            comparison with PyTorch's own graph run in a thread; the better one of the two takes
            over between two calls. And ``cuda_graphs``: True lets PyTorch's compiler replay its
            kernels and convfind's as CUDA graphs, which takes the host's time away; as with its
            ``mode="reduce-overhead"``, results are valid until the next call. Plans are such
            graphs anyway.

    Raises:
        SettingsError: an unknown option or an illegal value; names the legal ones.
    """
    given = {**({} if mode is None else {"mode": mode}), **(options or {})}
    rest = given.pop("rest", "plan")
    if rest not in _REST:
        raise SettingsError("rest", rest, ", ".join(_REST))
    background = given.pop("background", False)
    if not isinstance(background, bool) or (background and rest != "plan"):
        raise SettingsError("background", background, 'True or False; True with rest="plan"')
    chosen = Options.of(**given)
    if all(isinstance(one, torch.Tensor) for one in example_inputs):
        chosen = chosen.for_fixed_sizes()
    if rest != "plan" or torch.is_grad_enabled():
        return _with_convolutions(graph, example_inputs, chosen, rest)
    try:
        fixed = partial(planned, options=chosen, background=background)
        return planned_by_sizes(graph, example_inputs, fixed)
    except NoPlan as refused:
        # Convolutions one by one, between PyTorch's operators, would lose its fusions, too.
        run = (
            compiled_by_inductor(graph, example_inputs, cuda_graphs=chosen.cuda_graphs)
            if refused.is_slower
            else _with_convolutions(graph, example_inputs, chosen, rest)
        )
        return refused.route.counted(run)


def _with_convolutions(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options, rest: str
) -> Callable[..., Any]:
    """Compile a graph by PyTorch, its convolutions replaced."""
    _replace_convolutions(graph, example_inputs, options)
    if rest != "eager":
        return compiled_by_inductor(graph, example_inputs, cuda_graphs=options.cuda_graphs)
    eager: Any = torch._dynamo.lookup_backend("aot_eager")
    run: Callable[..., Any] = eager(graph, list(example_inputs))
    return run


def _replace_convolutions(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options
) -> None:
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    parameters = {
        node
        for node, example in zip(placeholders, example_inputs, strict=False)
        if isinstance(example, nn.Parameter)
    }
    convolutions = [
        node
        for node in graph.graph.nodes
        if node.op == "call_function" and is_convolution(node.target)
    ]

    def module(node: torch.fx.Node) -> GraphModule:
        weight = node.kwargs["weight"] if len(node.args) < 2 else node.args[1]
        constant = weight in parameters and not torch.is_grad_enabled()
        policy = options.policy.with_changes(constant_weights=constant)
        return graph_module(node.target, replace(options, policy=policy))

    calls = (call_of(node, module(node)) for node in convolutions)
    engine().find_ahead(
        asked
        for call in calls
        if call is not None
        for one in with_its_gradients(call)
        if (asked := engine().asked(one)) is not None
    )
    for number, node in enumerate(convolutions):
        if torch.is_grad_enabled() and is_left(node, module(node)):
            continue
        name = f"convfind_{number}"
        graph.add_submodule(name, module(node))
        node.op, node.target = "call_module", name
    graph.recompile()
