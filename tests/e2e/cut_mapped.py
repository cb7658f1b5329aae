"""Runs a command, and cuts a file at the moment at which the command has mapped it, for the first time or a later one.

    python3 tests/e2e/cut_mapped.py FILE BYTES TIME COMMAND...

The command is traced until then, from system call to system call, and then let go. Exits as the command does,
with 128 and its number after a signal; 77: this machine lets nobody trace; 78: the command has ended without
mapping the file so often."""
import ctypes, os, sys

TRACEME, DETACH, SYSCALL = 0, 17, 24  # linux/ptrace.h
NOT_TRACED, NOT_MAPPED = 77, 78

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def is_mapped(pid, path):
    with open(f"/proc/{pid}/maps") as maps:
        return any(line.rstrip("\n").endswith(path) for line in maps)


def main(path, length, time, command):
    path = os.path.realpath(path)
    pid = os.fork()
    if pid == 0:
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(NOT_TRACED)
        os.execv(command[0], command)
    is_cut = was_mapped = False
    times = 0
    status = os.waitpid(pid, 0)[1]
    while os.WIFSTOPPED(status):
        is_now = is_mapped(pid, path)
        times += is_now and not was_mapped
        was_mapped = is_now
        if times == int(time):
            os.truncate(path, int(length))
            is_cut = True
        number = os.WSTOPSIG(status)
        passed_on = 0 if number == 5 else number  # SIGTRAP is the tracer's
        if libc.ptrace(DETACH if is_cut else SYSCALL, pid, None, passed_on) != 0:
            return NOT_TRACED
        status = os.waitpid(pid, 0)[1]
    ended = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return ended if is_cut or ended == NOT_TRACED else NOT_MAPPED


sys.exit(main(*sys.argv[1:4], sys.argv[4:]))
