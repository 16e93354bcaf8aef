"""Right and fast: references, error bounds, timing."""
