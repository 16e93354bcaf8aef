"""A find, from problem to ranked solutions: start reading at `finder.py`."""
