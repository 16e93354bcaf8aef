"""A device as values, without a runtime."""
