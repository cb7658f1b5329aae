#!/usr/bin/env python3
"""Stops all threads of a node but the one that has its links, as a file system or a driver that hangs would.

    python3 tests/e2e/stuck.py PID SECONDS

Prints "stuck" when they stand still; goes on for so long. Exit status 77: the system does not let it."""
import ctypes, os, sys, time

SEIZE, INTERRUPT = 0x4206, 0x4207
libc = ctypes.CDLL(None, use_errno=True)
pid, seconds = int(sys.argv[1]), float(sys.argv[2])
threads = sorted(int(t) for t in os.listdir(f"/proc/{pid}/task"))
for t in threads[:1] + threads[2:]:  # a node starts the thread of its links first
    if libc.ptrace(SEIZE, t, None, None) != 0 or libc.ptrace(INTERRUPT, t, None, None) != 0:
        print(f"cannot stop thread {t}: {os.strerror(ctypes.get_errno())}")
        sys.exit(77)
print("stuck", flush=True)
time.sleep(seconds)
