"""The checks: one module for each kind of problem, with functions that yield findings."""
