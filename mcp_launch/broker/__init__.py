"""Joins a host's connection with its server: whose a call is, and which server gets it."""
