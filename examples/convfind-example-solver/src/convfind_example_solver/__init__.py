"""A convfind plugin with one solver, as a third party would write it."""
