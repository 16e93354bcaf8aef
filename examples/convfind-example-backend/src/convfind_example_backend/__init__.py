"""A convfind backend on NumPy, as a third party would write one."""
