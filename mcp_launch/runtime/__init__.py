"""All input and output of a launch: the only package that acts while a server is served."""
