"""Building blocks for solvers."""
