#!/usr/bin/env python3
"""Whether a server answers a file with what `predict` says of it:

    python3 tests/e2e/serve_same.py PROGRAM GRAPH MODEL DATA PREDICTIONS [FLAG…]

Asks for all of DATA at once, twice at the same time, and prints the first line that differs."""
import sys, threading

import serve_server

program, graph, model, data_path, expected_path, *flags = sys.argv[1:]
data, expected = open(data_path, "rb").read(), open(expected_path, "rb").read()
found = []
with serve_server.Server(program, graph, "--model", model, *flags) as server:
    threads = [threading.Thread(target=lambda: found.append(server.ask(data))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
for status, _, body in found:
    if (status, body) == (200, expected):
        continue
    lines, others = expected.splitlines(), body.splitlines()
    differing = next((i for i, (a, b) in enumerate(zip(lines, others)) if a != b), min(len(lines), len(others)))
    print(f"status {status}, {len(others)} lines for {len(lines)}; line {differing + 1}: "
          f"{others[differing : differing + 1]} for {lines[differing : differing + 1]}")
    sys.exit(1)
sys.exit(len(found) != 2)
