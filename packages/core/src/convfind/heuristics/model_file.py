"""Model files: a NumPy npz with arrays and one text of metadata."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from convfind.arguments import shortened
from convfind.cached import cached_property
from convfind.errors import ModelError
from convfind.heuristics.domain import Domain, Region, kind_of, kind_text
from convfind.heuristics.features import FEATURES, FEATURES_VERSION, SIZES
from convfind.heuristics.neighbours import MORE_INPUTS, Relation
from convfind.heuristics.network import Network
from convfind.heuristics.ramps import Ramps
from convfind.types import Direction

FORMAT = 4

_METADATA = "metadata"
_LARGEST = 256 << 20  # bytes of all arrays; models have a few MiB


class ModelDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that a model was trained on."""

    identity: str
    compute_units: int


class Training(msgspec.Struct, frozen=True, kw_only=True):
    """Origin of a model. ``scores`` are for problems that it did not see."""

    program: str = ""
    seed: int = 0
    problems: int = 0
    data_sha256: str = ""
    split: str = "family"  # what was held out, by a hash with the seed: families or problems
    held_out: float = 0.0  # share of it
    scores: dict[str, dict[str, float]] = {}  # by device identity


class _NetworkHead(msgspec.Struct, frozen=True, kw_only=True):
    direction: Direction
    solvers: tuple[str, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    kinds: tuple[tuple[int, ...], ...]
    sharpness: float
    layers: int
    evidence: tuple[tuple[Relation, tuple[str, ...]], ...]
    weak: tuple[Region, ...] = ()


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    features: int
    devices: tuple[ModelDevice, ...]
    siblings: tuple[str, ...]
    training: Training
    networks: tuple[_NetworkHead, ...]


@dataclass(frozen=True)
class Model:
    """Networks, each for its kinds of problems; their devices; their origin.

    ``siblings`` are the identities of devices whose records its networks can use.
    """

    devices: tuple[ModelDevice, ...]
    networks: tuple[Network, ...]
    training: Training
    siblings: tuple[str, ...] = ()

    @cached_property
    def relations(self) -> frozenset[Relation]:
        """Relations of all neighbours that any network can use."""
        return frozenset(relation for network in self.networks for relation in network.relations)

    def relations_for(self, direction: Direction, row: Sequence[int]) -> frozenset[Relation]:
        """Return the relations of neighbours that a network for a problem's `sizes` can use."""
        kind = kind_of(row)
        return frozenset(
            relation
            for network in self.networks
            if network.direction is direction and kind in network.domain.kinds
            for relation in network.relations
        )

    @cached_property
    def _by_kind(self) -> dict[tuple[Direction, tuple[int, ...], _Relations], Network]:
        return {
            (network.direction, kind, network.relations): network
            for network in self.networks
            for kind in network.domain.kinds
        }

    def network(
        self, direction: Direction, row: Sequence[int], known: _Relations = ()
    ) -> Network | str:
        """Return the network for a problem, by its `sizes`, or why there is none.

        Among several it is the one that uses most neighbours; ``known`` are the relations of
        the existing neighbours, in their order.
        """
        kind = kind_of(row)
        found = self._by_kind.get((direction, kind, known))
        if found is not None:
            return found
        for relations in (*((relation,) for relation in reversed(known)), ()):
            found = self._by_kind.get((direction, kind, relations))
            if found is not None:
                return found
        if all(network.direction is not direction for network in self.networks):
            return f"not trained on {direction.short}"
        kinds = {kind for other, kind, _ in self._by_kind if other is direction}
        alone = " without a neighbour" if kind in kinds else ""
        return f"not trained on {kind_text(row)}{alone}"


_Relations = tuple[Relation, ...]


def write_model(path: Path, model: Model) -> None:
    """Write a model, whole or not at all; weights as float16. Raises `OSError`."""
    arrays: dict[str, NDArray[Any]] = {}
    heads = []
    for place, network in enumerate(model.networks):
        heads.append(
            _NetworkHead(
                direction=network.direction,
                solvers=network.solvers,
                low=network.domain.low,
                high=network.domain.high,
                kinds=tuple(sorted(network.domain.kinds)),
                sharpness=network.sharpness,
                layers=len(network.weights),
                evidence=network.evidence,
                weak=tuple(sorted(network.domain.weak)),
            )
        )
        arrays[f"{place}.ramp_feature"] = network.ramps.feature
        arrays[f"{place}.ramp_low"] = network.ramps.low
        arrays[f"{place}.ramp_high"] = network.ramps.high
        arrays[f"{place}.mean"] = network.mean
        arrays[f"{place}.scale"] = network.scale
        for number, (weights, biases) in enumerate(
            zip(network.weights, network.biases, strict=True)
        ):
            arrays[f"{place}.weights{number}"] = weights.astype(np.float16)
            arrays[f"{place}.biases{number}"] = biases
    head = _Head(
        format=FORMAT,
        features=FEATURES_VERSION,
        devices=model.devices,
        siblings=model.siblings,
        training=model.training,
        networks=tuple(heads),
    )
    arrays[_METADATA] = np.frombuffer(msgspec.json.encode(head, order="sorted"), np.uint8)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_model(path: Path) -> Model:
    """Read a model.

    Raises:
        ModelError: the file is missing, damaged, or made by another version of convfind.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if sum(member.file_size for member in archive.zip.infolist()) > _LARGEST:
                msg = f"it expands to more than {_LARGEST >> 20} MiB"
                raise ModelError(msg)
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except FileNotFoundError as exc:
        msg = f"model {path} does not exist"
        raise ModelError(msg) from exc
    except ValueError as exc:  # NumPy took it for a pickle, and says how to trust it
        msg = f"model {path} is damaged or no model"
        raise ModelError(msg) from exc
    except Exception as exc:  # NumPy does not document what its parsers raise for damaged files
        msg = f"model {path} is damaged or no model: {_told(exc)}"
        raise ModelError(msg) from exc
    try:
        text = arrays[_METADATA].tobytes()
        versions = msgspec.json.decode(text, type=_Versions)
        if (versions.format, versions.features) != (FORMAT, FEATURES_VERSION):
            msg = (
                f"model {path} has format {versions.format} and features {versions.features}, "
                f"not {FORMAT} and {FEATURES_VERSION}; train it again with this convfind"
            )
            raise ModelError(msg)
        head = msgspec.json.decode(text, type=_Head)
        networks = tuple(
            _network(place, described, arrays) for place, described in enumerate(head.networks)
        )
        for network in networks:
            _check(network, len(head.devices))
    except (KeyError, ValueError, AttributeError, IndexError, msgspec.MsgspecError) as exc:
        msg = f"model {path} is damaged: {_told(exc)}"
        raise ModelError(msg) from exc
    return Model(head.devices, networks, head.training, head.siblings)


def _told(error: Exception) -> str:
    """Return the beginning of what a parser says, which may repeat all of a file."""
    return shortened(str(error).partition("\n")[0])


class _Versions(msgspec.Struct, frozen=True):
    format: int
    features: int


def _network(place: int, head: _NetworkHead, arrays: Mapping[str, NDArray[Any]]) -> Network:
    def numbers(name: str) -> NDArray[np.float32]:
        return np.ascontiguousarray(arrays[f"{place}.{name}"], np.float32)

    return Network(
        head.direction,
        head.solvers,
        Domain(head.low, head.high, frozenset(head.kinds), frozenset(head.weak)),
        head.sharpness,
        numbers("mean"),
        numbers("scale"),
        tuple(numbers(f"weights{number}") for number in range(head.layers)),
        tuple(numbers(f"biases{number}") for number in range(head.layers)),
        head.evidence,
        Ramps(
            np.ascontiguousarray(arrays[f"{place}.ramp_feature"], np.int64),
            numbers("ramp_low"),
            numbers("ramp_high"),
        ),
    )


def _check(network: Network, devices: int) -> None:
    """Raise `ValueError` if the parts do not fit each other or are not numbers."""
    weights, biases, ramps = network.weights, network.biases, network.ramps
    inputs = len(network.mean)
    fits = (
        len(weights) >= 2
        and inputs
        == FEATURES + sum(len(ids) + MORE_INPUTS for _, ids in network.evidence) + len(ramps)
        and ramps.feature.shape == ramps.low.shape == ramps.high.shape == (len(ramps),)
        and all(0 <= place < FEATURES for place in ramps.feature.tolist())
        and len(network.scale) == inputs
        and len(network.domain.low) == len(network.domain.high) == SIZES.index("spatial_rank")
        and biases[0].shape == (devices, len(weights[0]))
        and all(
            bias.shape == (len(matrix),)
            for bias, matrix in zip(biases[1:], weights[1:], strict=True)
        )
        and len(weights[-1]) == len(network.solvers)
    )
    for matrix in weights:
        fits = fits and matrix.ndim == 2 and matrix.shape[1] == inputs
        inputs = len(matrix)
    if not fits:
        msg = f"the arrays for {network.direction.short} do not fit each other"
        raise ValueError(msg)
    numbers = (ramps.low, ramps.high, network.mean, network.scale, *weights, *biases)
    if not all(np.isfinite(array).all() for array in numbers) or not network.scale.all():
        msg = f"the arrays for {network.direction.short} are not all finite"
        raise ValueError(msg)
