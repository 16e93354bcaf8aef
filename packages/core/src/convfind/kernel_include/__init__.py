"""Headers that shared kernels include; data files only."""
