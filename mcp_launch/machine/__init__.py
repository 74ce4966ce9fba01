"""Inspect this machine: hosts and their servers, our installation, running processes."""
