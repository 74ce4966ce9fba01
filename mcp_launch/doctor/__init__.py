"""Find out what is wrong with the servers of all hosts, and say what to do about it."""
