"""Convolutions as matrix products of a runtime's library: the fallback of such a backend."""
