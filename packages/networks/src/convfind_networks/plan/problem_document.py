"""Problems in saved plans: a kind, and the fields that its type takes by keyword."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from convfind.errors import ProblemError
from convfind.problem import Activation, ConvProblem

if TYPE_CHECKING:
    from convfind.plugins.registry import Registry

#: Numbers that JSON does not have, and types of ours, stand under these words.
_NUMBER, _ACTIVATION = "number", "activation"


def document_of(problem: Any) -> dict[str, Any]:
    """Return a problem as values of JSON."""
    if isinstance(problem, ConvProblem):
        return {"kind": problem.kind, "text": problem.text}
    given = {one.name: _plain(getattr(problem, one.name)) for one in fields(problem) if one.init}
    return {"kind": problem.kind, "fields": given}


def problem_of(document: dict[str, Any], registry: Registry) -> Any:
    """Return the problem that a document says.

    Raises:
        ProblemError: it says none, or of a kind that no installed package brings.
    """
    try:
        if document["kind"] == ConvProblem.kind:
            return ConvProblem.from_key(document["text"])
        make = registry.problem_type(document["kind"])
        return make(**{name: _read(value) for name, value in document["fields"].items()})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ProblemError):
            raise
        raise ProblemError("problem", document, "the kind and the fields of a problem") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Activation):
        return {_ACTIVATION: str(value)}
    if isinstance(value, float):
        return {_NUMBER: repr(value)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, str) else value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        if _ACTIVATION in value:
            return Activation.parse(value[_ACTIVATION])
        return float(value[_NUMBER])
    return tuple(map(_read, value)) if isinstance(value, list) else value
