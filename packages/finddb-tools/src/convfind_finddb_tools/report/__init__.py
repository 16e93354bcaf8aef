"""Reports: a model's gain from a database, as one HTML page."""
