"""Operators that cannot run here, whatever their inputs, and why."""

from __future__ import annotations

from collections.abc import Mapping

_DATA = "the shape of its result depends on data; end the network before it, by outputs=[...]"
_RANDOM = "it is random"
_TEXT = "it reads or writes texts"

_REFUSALS: Mapping[str, str] = {
    **dict.fromkeys(("NonMaxSuppression", "MaxRoiPool"), _DATA),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), _RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _TEXT),
    **dict.fromkeys(("TfIdfVectorizer", "LabelEncoder"), _TEXT),
    "ImageDecoder": "it reads files; decode images before",
}

_DOMAINS = {"": _REFUSALS, "ai.onnx": _REFUSALS}


def refusal(domain: str, operator: str) -> str:
    """Return why an operator without a function here is refused."""
    if domain == "com.microsoft.nchwc":
        return "its layout is one CPU's; save the optimised model at the level EXTENDED instead"
    return _DOMAINS.get(domain, {}).get(operator, "no such operator here")
