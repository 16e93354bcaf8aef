"""Saved plans: one safetensors file, whose metadata say what runs and whose tensor is the weights.

There is no code in it. When it is read, the solvers that are installed give the steps again, and
device, versions and kernel files have to be those of the plan. A checksum of all that is in it
tells a damaged file, which might compute something else; it does not tell who wrote the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from convfind.arguments import shortened
from convfind.errors import ConvfindError
from convfind.find.solution import Solution
from convfind.handle import Handle
from convfind_networks.errors import PlanError
from convfind_networks.plan.host_memory import aligned
from convfind_networks.plan.problem_document import document_of, problem_of
from convfind_networks.plan.recipes import recipe_of
from convfind_networks.plan.schedule import CONSTANTS, Place, Port, Schedule, Task
from convfind_networks.tensor_type import Array, TensorType

if TYPE_CHECKING:
    from convfind.plugins.registry import Registry
    from convfind_networks.plan.plan import Plan

_FORMAT = 3
_METADATA, _CHECKSUM = "convfind_plan", "convfind_checksum"
#: NumPy's letters for kinds of numbers; V is what it has for those of ml_dtypes.
_KINDS = "biufV"
#: Bytes of the weights that are read or written at a time.
_PIECE = 2**20
#: Files of safetensors have their tensors from a multiple of it on.
_HEADER_ALIGNMENT = 8


class _SavedTask(msgspec.Struct, frozen=True):
    node: str
    operation: str
    problem: dict[str, Any]
    solution: msgspec.Raw
    solver_version: int
    source_hash: str
    places: dict[str, tuple[str, int]]
    in_place: tuple[str, ...]
    choice: str


class _SavedPort(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    place: tuple[str, int]
    index_sizes: tuple[int, ...] = ()


class _SavedSchedule(msgspec.Struct, frozen=True):
    format: int
    network: str
    device: str
    tasks: tuple[_SavedTask, ...]
    inputs: tuple[_SavedPort, ...]
    outputs: tuple[_SavedPort, ...]
    arena: int
    constants: int
    lower_bound: int
    notes: tuple[str, ...]


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan to a file. Raises `OSError`.

    The weights come from the device in pieces, once for the checksum, which stands before them,
    and once for the file, so that they take no memory of the host's.
    """
    schedule = plan.schedule
    text = msgspec.json.encode(_saved(schedule)).decode()
    checksum = new_checksum(text)
    for piece in _pieces(plan):
        checksum.update(piece.data)
    metadata = {_METADATA: text, _CHECKSUM: checksum.hexdigest()}
    size = schedule.constants
    weights = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = msgspec.json.encode({"__metadata__": metadata, CONSTANTS: weights})
    header += b" " * (-len(header) % _HEADER_ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for piece in _pieces(plan):
            file.write(piece.data)


def _pieces(plan: Plan) -> Iterator[Array]:
    """Yield the weights; each piece lies where the one before has lain."""
    size, read = plan.schedule.constants, plan.handle.session.device.read
    memory = np.empty(min(size, _PIECE), np.uint8)
    for at in range(0, size, _PIECE):
        piece = memory[: size - at]
        read(plan.memory[CONSTANTS], piece, at)
        yield piece


def new_checksum(text: str) -> blake2b:
    """Return a checksum that has seen the document, and is to see the weights."""
    return blake2b(text.encode(), digest_size=16)


def load_plan(plan: type[Plan], path: Path, handle: Handle) -> Plan:
    """Read a plan and make it ready as this type.

    Raises:
        PlanError: the file is missing or no plan, or the plan is for another device, or solvers
            are missing or differ from those that it was made with.
    """
    file = _opened(path)
    saved = file.saved
    if saved.device not in handle.target.identities:
        told = f"is for {saved.device}, and this is {handle.target.identity}"
        raise PlanError(f"plan {path} {told}; compile the network here")
    with ThreadPoolExecutor(max_workers=1) as reader:
        reading = reader.submit(file.weights)
        try:
            schedule = _schedule(saved, handle.registry)
            _check_ports(schedule, handle.target.global_memory)
            recipes = [_recipe(handle, task) for task in schedule.tasks]
            handle.session.kernels.load_or_raise(one for each in recipes for one in each.programs)
            # Memory that the device shares is used where it is.
            weights = reading.result()
            constants = handle.session.device.upload(weights) if weights.size else None
            return plan.ready(handle, schedule, recipes, constants)
        except Exception as error:
            reading.result()  # says so where damage is behind whatever else is wrong
            if isinstance(error, PlanError):
                raise PlanError(f"plan {path}: {_told(error)}") from error
            if isinstance(error, (ConvfindError, ValueError, TypeError, KeyError)):
                told = _told(error)
                raise PlanError(f"plan {path}: {told}; compile the network again") from error
            raise


def _told(error: Exception) -> str:
    """Return an error in one line of a bounded length: it may repeat what stands in the file."""
    return shortened(" ".join(str(error).split()), 500)


@dataclass(frozen=True)
class _PlanFile:
    """A plan's file: its document, and where its weights begin."""

    path: Path
    saved: _SavedSchedule
    text: str
    checksum: str | None
    begin: int

    def weights(self) -> Array:
        """Read the weights. Raises `PlanError` where these or the document have changed.

        They lie where devices that share the host's memory can use them.
        """
        weights = aligned(self.saved.constants)
        checksum = new_checksum(self.text)
        try:
            with self.path.open("rb") as file:
                file.seek(self.begin)
                for at in range(0, weights.size, _PIECE):
                    piece = weights[at : at + _PIECE]
                    file.readinto(piece.data)
                    checksum.update(piece.data)  # while it is in a cache
        except OSError as error:
            raise _unreadable(self.path, error) from error
        if self.checksum != checksum.hexdigest():
            told = "it is not as it was saved; compile again"
            raise PlanError(f"plan {self.path} is damaged: {told}")
        return weights


def _opened(path: Path) -> _PlanFile:
    """Read all but the weights. Raises `PlanError`."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "numpy") as file:
            metadata = file.metadata() or {}
            if _METADATA not in metadata:
                raise PlanError(f"{path} is no plan; `convfind network compile` writes one")
            text = metadata[_METADATA]
            saved = msgspec.json.decode(text, type=_SavedSchedule)
            weights = file.get_slice(CONSTANTS)
            kind, shape = weights.get_dtype(), tuple(weights.get_shape())
        begin = _begin(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    except (SafetensorError, msgspec.MsgspecError, ValueError) as error:
        raise PlanError(f"{path} is no plan: {_told(error)}") from error
    if saved.format != _FORMAT:
        raise PlanError(f"plan {path} has format {saved.format}, not {_FORMAT}; compile again")
    if kind != "U8" or shape != (saved.constants,):
        raise PlanError(f"plan {path} is damaged: its weights are not {saved.constants} bytes")
    return _PlanFile(path, saved, text, metadata.get(_CHECKSUM), begin)


def _begin(path: Path) -> int:
    """Return the byte of a file of safetensors at which the weights begin."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = msgspec.json.decode(file.read(size), type=dict[str, Any])
    offset: int = header[CONSTANTS]["data_offsets"][0]
    return 8 + size + offset


def _unreadable(path: Path, error: OSError) -> PlanError:
    return PlanError(f"cannot read plan {path}: {error.strerror or error}")


def _recipe(handle: Handle, task: Task) -> Any:
    version = handle.registry.solver(task.solution.solver).version
    if version != task.solver_version:
        made, here = task.solver_version, version
        told = f"{task.solution.solver} has version {here} here and had {made}"
        raise PlanError(f"{told}; compile the network again")
    recipe = recipe_of(handle, task.problem, task.solution)
    if recipe.source_hash != task.source_hash:
        raise PlanError(f"the kernels of {recipe.solver} have changed; compile the network again")
    return recipe


def _saved(schedule: Schedule) -> _SavedSchedule:
    return _SavedSchedule(
        format=_FORMAT,
        network=schedule.network,
        device=schedule.device,
        tasks=tuple(
            _SavedTask(
                task.node,
                task.operation,
                document_of(task.problem),
                msgspec.Raw(task.solution.to_bytes()),
                task.solver_version,
                task.source_hash,
                {name: (one.memory, one.offset) for name, one in task.places.items()},
                tuple(sorted(task.in_place)),
                task.choice,
            )
            for task in schedule.tasks
        ),
        inputs=tuple(map(_saved_port, schedule.inputs)),
        outputs=tuple(map(_saved_port, schedule.outputs)),
        arena=schedule.arena,
        constants=schedule.constants,
        lower_bound=schedule.lower_bound,
        notes=schedule.notes,
    )


def _saved_port(port: Port) -> _SavedPort:
    place = (port.place.memory, port.place.offset)
    return _SavedPort(port.name, port.type.dtype.name, port.type.shape, place, port.index_sizes)


def _schedule(saved: _SavedSchedule, registry: Registry) -> Schedule:
    return Schedule(
        network=saved.network,
        device=saved.device,
        tasks=tuple(
            Task(
                one.node,
                one.operation,
                problem_of(one.problem, registry),
                Solution.from_bytes(bytes(one.solution)),
                one.solver_version,
                one.source_hash,
                {name: Place(*place) for name, place in one.places.items()},
                frozenset(one.in_place),
                one.choice,
            )
            for one in saved.tasks
        ),
        inputs=tuple(map(_port, saved.inputs)),
        outputs=tuple(map(_port, saved.outputs)),
        arena=saved.arena,
        constants=saved.constants,
        lower_bound=saved.lower_bound,
        notes=saved.notes,
    )


def _check_ports(schedule: Schedule, most: int) -> None:
    """Raise `PlanError` where an input or output would bring less memory than kernels count on.

    Or where one takes more than ``most`` bytes, if that is not 0.
    """
    for port in (*schedule.inputs, *schedule.outputs):
        if most and port.type.nbytes > most:
            raise PlanError(f"{port.name} takes {port.type.nbytes} bytes, and there are {most}")
    for at, port in enumerate(schedule.inputs):
        if port.place != Place(f"input{at}"):
            raise PlanError(f"input {port.name} lies in {port.place.memory}")
    sizes = schedule.sizes
    owners = {f"output{at}": port for at, port in enumerate(schedule.outputs)}
    for port in schedule.outputs:
        memory, begin = port.place.memory, port.place.offset
        if not 0 <= begin <= begin + port.type.nbytes <= sizes.get(memory, -1):
            raise PlanError(f"output {port.name} lies outside of {memory}")
        # Who brings the memory has to be the one whose size counts.
        owner = owners.get(memory)
        if owner and owner.place != Place(memory):
            raise PlanError(f"output {port.name} lies in {memory}, which is another's")


def _port(saved: _SavedPort) -> Port:
    kind = TensorType(_element_type(saved.dtype), saved.shape)
    return Port(saved.name, kind, Place(*saved.place), saved.index_sizes)


def _element_type(name: str) -> np.dtype[Any]:
    """Return a type by the name that `_saved_port` wrote. Raises `TypeError`, `ValueError`."""
    import ml_dtypes  # noqa: F401  # which gives NumPy the names of its types

    dtype = np.dtype(name)
    if dtype.name != name or dtype.kind not in _KINDS:
        raise ValueError(f"{name} is no type of elements")
    return dtype
