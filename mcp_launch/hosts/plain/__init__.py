"""Hosts that need little more than the places of their files: a few modules of rows.

To add another such host to `wrap` and `doctor`, add a row to the module that fits: its places, and
in `HostQuirks` whatever else is known about it. `hosts` recognises its process.
"""
