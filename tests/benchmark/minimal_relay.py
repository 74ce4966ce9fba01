"""The smallest two-way relay there can be in Python: poll, read, write, nothing else."""

import os
import select
import sys

to_server, from_server = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(to_server[0], 0)
    os.dup2(from_server[1], 1)
    os.closerange(3, 20)
    os.execvp(sys.argv[1], sys.argv[1:])
os.close(to_server[0])
os.close(from_server[1])
sinks = {0: to_server[1], from_server[0]: 1}
poll = select.poll()
for source in sinks:
    poll.register(source, select.POLLIN)
while sinks:
    for fd, _ in poll.poll():
        data = os.read(fd, 65536)
        if data:
            os.write(sinks[fd], data)
        else:
            poll.unregister(fd)
            os.close(sinks.pop(fd))
os.waitpid(pid, 0)
