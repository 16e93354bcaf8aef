"""Operators that cannot run here, whatever their inputs, and why."""

from __future__ import annotations

from collections.abc import Mapping

_DATA = "the shape of its result depends on data; end the network before it, by outputs=[...]"
_RANDOM = "it is random"
_TEXT = "it reads or writes texts"

REFUSALS: Mapping[str, str] = {
    **dict.fromkeys(("NonMaxSuppression", "MaxRoiPool"), _DATA),
    **dict.fromkeys(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"), _RANDOM),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike"), _RANDOM),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"), _TEXT),
    **dict.fromkeys(("TfIdfVectorizer", "LabelEncoder"), _TEXT),
    "ImageDecoder": "it reads files; decode images before",
}
