"""What the hosts' files say, and what the hosts make of it."""

from __future__ import annotations

from mcp_launch.doctor import (
    agents,
    approval,
    claudekeys,
    codexkeys,
    directories,
    expansion,
    exposure,
    files,
    misplaced,
    naming,
    packages,
    policies,
    wrapped,
)

# Checks of one server that a host starts.
OF_ITEMS = (
    *directories.OF_ITEMS,
    *expansion.OF_ITEMS,
    *packages.OF_ITEMS,
    *agents.OF_ITEMS,
    *wrapped.OF_ITEMS,
    *policies.OF_ITEMS,
)

# Checks of everything, also of what is disabled or only connected to.
OF_ALL = (
    *files.OF_ALL,
    *codexkeys.OF_ALL,
    *claudekeys.OF_ALL,
    *misplaced.OF_ALL,
    *approval.OF_ALL,
    *naming.OF_ALL,
    *exposure.OF_ALL,
)
