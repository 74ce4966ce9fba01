"""All checks of the hosts' files, and of how the hosts understand them."""

from __future__ import annotations

from mcp_launch.doctor.checks import (
    agent_timeouts,
    allowlists,
    changed_tools,
    directory,
    misplaced_table,
    names,
    not_approved,
    not_wrapped,
    packages,
    refused_keys,
    secret_in_git,
    skipped_entries,
    unexpanded_variables,
    unreadable_file,
)

# Checks of a single server that a host starts.
OF_ITEMS = (
    *directory.OF_ITEMS,
    *unexpanded_variables.OF_ITEMS,
    *packages.OF_ITEMS,
    *agent_timeouts.OF_ITEMS,
    *not_wrapped.OF_ITEMS,
    *allowlists.OF_ITEMS,
)

# Checks of everything, including disabled and remote servers.
OF_ALL = (
    *unreadable_file.OF_ALL,
    *refused_keys.OF_ALL,
    *skipped_entries.OF_ALL,
    *misplaced_table.OF_ALL,
    *not_approved.OF_ALL,
    *names.OF_ALL,
    *secret_in_git.OF_ALL,
    *changed_tools.OF_ALL,
    *not_wrapped.OF_ALL,
)
