"""The model side of whole networks."""
