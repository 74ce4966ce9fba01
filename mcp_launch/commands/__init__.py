"""One module for each command; each has a function that returns an exit code."""
