"""Usage: python3 hostile.py listen PORT FILE          keeps in FILE the first 64 bytes of a connection, and ends
          python3 hostile.py attack RATE PROCESSES GREETINGS PORT…   connects RATE times a second in all, by
                                                       PROCESSES processes, to these ports of 127.0.0.1 in turn,
                                                       until SIGTERM; then prints how many connections of each
                                                       kind there were, and how many were refused by nobody
                                                       being there

What hostile.sh does to nodes that train. GREETINGS: files of 64 bytes each, with which nodes of the job, and
of jobs with another key, have begun a connection. Kinds: bytes at random, more or fewer than a greeting; a
greeting cut short; a greeting sent again; a greeting answered by its own answer, there and to another node;
words of HTTP. Beside these some connections stay open, and send a byte a second, or nothing. A process that
cannot keep its rate connects as fast as it can, but never makes up for more than a tenth of a second."""
import json
import os
import random
import signal
import socket
import struct
import sys
import time

GREETING_BYTES = 64
SLOW = 40


def opened(port, timeout=0.2):
    """A connection that ends with a reset, so that no port waits for nothing."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.settimeout(timeout)
    try:
        s.connect(("127.0.0.1", port))
    except OSError:
        s.close()
        return None
    return s


def listen(port, path):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
        s.listen()
        s.settimeout(20)
        link, _ = s.accept()
        greeting = link.recv(GREETING_BYTES, socket.MSG_WAITALL)
        link.close()
    with open(path, "wb") as file:
        file.write(greeting)
    return len(greeting) != GREETING_BYTES


def reflect(s, greeting, other):
    """What the node answers goes back to it, and to another one."""
    s.sendall(greeting)
    answer = s.recv(GREETING_BYTES)
    s.sendall(answer or greeting)
    beside = opened(other)
    if beside:
        beside.sendall(answer or greeting)
        beside.close()


def attack(rate, greetings, ports, seed):
    """One process: (connections, of which nobody was there, {kind: count})."""
    draw = random.Random(seed)
    kinds = {
        "random bytes": lambda s, g, o: s.sendall(draw.randbytes(draw.choice((1, 63, 64, 200)))),
        "cut short": lambda s, g, o: s.sendall(g[:draw.randrange(1, 64)]),
        "sent again": lambda s, g, o: s.sendall(g + draw.randbytes(draw.choice((0, 32)))),
        "reflected": reflect,
        "HTTP": lambda s, g, o: s.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
    }
    names = list(kinds)
    order = draw.choices(names, (30, 20, 25, 5, 20), k=4096)
    counts, nobody, over, slow = dict.fromkeys(kinds, 0), 0, [], []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    due, done, fed = time.monotonic(), 0, 0
    while not over:
        now = time.monotonic()
        if due > now:
            time.sleep(min(due - now, 0.01))
            continue
        due = max(due, now - 0.1) + 1 / rate
        port = ports[(done + seed) % len(ports)]
        kind = order[done % len(order)]
        s = opened(port)
        if s is None:
            nobody += 1
        else:
            try:
                kinds[kind](s, greetings[done % len(greetings)], ports[(done + seed + 1) % len(ports)])
            except OSError:
                pass  # it has hung up already
            s.close()
        counts[kind] += 1
        done += 1
        if now - fed < 1:
            continue
        fed, slow = now, [s for s in slow if draw.random() < 0.9]
        for s in slow:
            try:
                s.send(b"H")
            except OSError:
                pass
        slow += [s for s in (opened(ports[i % len(ports)]) for i in range(SLOW - len(slow))) if s]
    return done, nobody, counts


def attack_all(rate, processes, greetings, ports):
    over, reads, children = [], [], []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    for seed in range(processes):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            os.write(write, json.dumps(attack(rate / processes, greetings, ports, seed)).encode())
            os._exit(0)
        os.close(write)
        reads.append(read)
        children.append(child)
    while not over:
        time.sleep(0.1)
    for child in children:
        os.kill(child, signal.SIGTERM)
    said = [json.loads(os.read(read, 65536) or "[0, 0, {}]") for read in reads]
    for child in children:
        os.waitpid(child, 0)
    kinds = {kind: sum(of[2].get(kind, 0) for of in said) for kind in said[0][2]}
    print(sum(of[0] for of in said), sum(of[1] for of in said),
          ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    return 0


def main(what, *arguments):
    if what == "listen":
        return listen(int(arguments[0]), arguments[1])
    greetings = [open(path, "rb").read() for path in arguments[2].split(",")]
    return attack_all(float(arguments[0]), int(arguments[1]), greetings, [int(port) for port in arguments[3:]])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
