"""All the I/O while a server is served: one loop, its streams, and the server's end."""
