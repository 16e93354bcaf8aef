"""What solvers are built from."""
