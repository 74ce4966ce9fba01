"""Joins clients with servers, and decides everything about a message; no I/O, no clock."""
