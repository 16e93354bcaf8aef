"""Training and scoring of heuristics: models that rank solvers from what databases hold."""
