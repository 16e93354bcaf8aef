"""Training and scoring of heuristics: models that rank solvers, trained on databases."""
