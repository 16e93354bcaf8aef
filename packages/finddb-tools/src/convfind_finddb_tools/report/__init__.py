"""Reports: what a database means for a model, as one HTML page."""
