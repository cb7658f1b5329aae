#!/usr/bin/env python3
"""Holds the tree to its structure: the order of folders in engine/ROOMS, what the pipeline may not know, and sizes of functions and files.

    python3 tests/structure.py [-v]        prints TAP, and the figures after "#"; -v: also every place that counts

Includes are read from all tracked or new .c, .h, .cu and .def files outside of tests; functions by their braces at column 0."""
import os, re, subprocess, sys
from collections import defaultdict

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
os.chdir(root)
verbose = "-v" in sys.argv
files = sorted(f for f in subprocess.run(["find", "engine", "cfg", "graph", "gpu", "io", "sched", "-name", "*.[ch]", "-o", "-name", "*.cu", "-o",
                                          "-name", "*.def"], capture_output=True, text=True, check=True).stdout.split())
text = {f: open(f, encoding="utf-8").read() for f in files}
count = failed = 0

# Files of more than this many lines, each with its reason.
FILE_LINES, FILES_MAX, FUNCTION_LINES = 700, 3, 80
LONG_FILES = {}


def check(name, wrong):
    global count, failed
    count += 1
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} - {name}")
    for line in wrong[: None if verbose else 20]:
        print(f"# {line}")


def rooms():
    """[(folder, allowed)]: allowed None: every folder above it."""
    listed = []
    for line in open("engine/ROOMS", encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        allowed = set()
        for word in words[1:]:
            if word in ("-", "*") or os.path.isdir(word):
                allowed.add(word)
            else:
                break
        listed.append((words[0], None if "*" in allowed else allowed - {"-"}))
    return listed


order = rooms()
place = {folder: i for i, (folder, _) in enumerate(order)}


def room_of(path):
    """The listed folder that a path lies in: the longest."""
    folder = os.path.dirname(path)
    while folder and folder not in place:
        folder = os.path.dirname(folder)
    return folder


edges = defaultdict(list)
for f in files:
    for n, line in enumerate(text[f].splitlines(), 1):
        found = re.match(r'\s*#\s*include "([^"]+)"', line)
        if found and "/" in found[1]:
            edges[room_of(f), room_of(found[1])].append(f"{f}:{n} includes {found[1]}")

check("every folder with code is listed in engine/ROOMS",
      sorted({f"{os.path.dirname(f)} is not listed" for f in files if not room_of(f)} | {f"{r} does not exist" for r, _ in order if not os.path.isdir(r)}))
wrong = []
for (a, b), at in sorted(edges.items()):
    allowed = dict(order).get(a)
    if a != b and (place.get(b, 999) > place.get(a, -1) or (allowed is not None and b not in allowed)):
        wrong += at
check("folders include only what engine/ROOMS lets them", wrong)

# Cycles of folders: strongly connected components of more than one.
after = defaultdict(set)
for a, b in edges:
    if a != b:
        after[a].add(b)


def reaches(a):
    seen, todo = set(), [a]
    while todo:
        for b in after[todo.pop()]:
            if b not in seen:
                seen.add(b)
                todo.append(b)
    return seen


knots = {frozenset({a} | {b for b in reaches(a) if a in reaches(b)}) for a in list(after) if a in reaches(a)}
check("no cycle of folders", [" <-> ".join(sorted(k)) for k in knots])


def places(pattern, folders):
    return [f"{f}:{n}: {line.strip()}" for f in files if os.path.dirname(f) in folders for n, line in enumerate(text[f].splitlines(), 1)
            if re.search(pattern, line)]


sync_places = places(r"\bSYNC_[A-Z]", ["engine/pipe"])
device_places = places(r"\bis_card\b|\bis_sim\b", ["engine/pipe", "engine/sync", "engine/run", "engine/crew"])
check("the pipeline names no synchronisation", sync_places)
check("pipeline, synchronisations and runs ask for no kind of device", device_places)

lengths = []
for f in files:
    if not f.endswith((".c", ".h", ".cu")):
        continue
    lines = text[f].splitlines()
    begin = None
    for n, line in enumerate(lines, 1):
        if line == "{" and n > 1 and not lines[n - 2].startswith(("struct", "enum", "union", "#")) and "=" not in lines[n - 2]:
            begin = n
        if line.startswith("}") and begin:
            lengths.append((n - begin + 2, f"{f}:{begin - 1}"))
            begin = None
lengths.sort(reverse=True)
check(f"no function has more than {FUNCTION_LINES} lines", [f"{at}: {n} lines" for n, at in lengths if n > FUNCTION_LINES])
long_files = {f: text[f].count("\n") for f in files if text[f].count("\n") > FILE_LINES}
check(f"at most {FILES_MAX} files have more than {FILE_LINES} lines, each with its reason",
      [f"{f}: {n} lines, no reason given in tests/structure.py" for f, n in long_files.items() if f not in LONG_FILES]
      + ([f"{len(long_files)} such files"] if len(long_files) > FILES_MAX else []))
product_lines = sum(t.count("\n") for t in text.values())
print(f"# folders {len(order)}, cycles of folders {len(knots)}, includes between folders {sum(len(v) for k, v in edges.items() if k[0] != k[1])}")
print(f"# SYNC_ in engine/pipe {len(sync_places)}; is_card, is_sim in engine/pipe, engine/sync and the run {len(device_places)}")
print(f"# functions {len(lengths)}, over {FUNCTION_LINES} lines {sum(n > FUNCTION_LINES for n, _ in lengths)}, the longest {lengths[0][0]} ({lengths[0][1]})")
print(f"# files over {FILE_LINES} lines: {', '.join(f'{f} {n}' for f, n in long_files.items()) or 'none'}; product lines {product_lines}")
print(f"1..{count}")
sys.exit(failed != 0)
