"""Find what is wrong with the servers of all hosts, and how to fix it."""
