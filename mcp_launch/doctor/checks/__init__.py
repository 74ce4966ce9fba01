"""The checks: one module for what can be wrong, each with functions that yield findings."""
