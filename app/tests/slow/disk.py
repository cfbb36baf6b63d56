#!/usr/bin/python3
"""A disk that is slow: whoever opens one of these files waits until a line is said here.

Opening a file on which somebody holds a lease blocks until the holder lets go, or for 45 seconds
(fcntl(2), /proc/sys/fs/lease-break-time). In the end it tells for how many files somebody waited.
"""

import fcntl
import json
import signal
import sys

# The kernel says by this that somebody waits, and would end who does not listen.
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = [open(path, "rb") for path in sys.argv[1:]]
for file in held:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print(json.dumps({"held": len(held)}), flush=True)
sys.stdin.readline()
leases = [fcntl.fcntl(file, fcntl.F_GETLEASE) for file in held]
for file in held:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
print(json.dumps({"waited_for": sum(lease != fcntl.F_WRLCK for lease in leases)}), flush=True)
