#!/usr/bin/env python3
"""Holds the tree to its structure: the order of folders in engine/ROOMS, what the pipeline may not know, and
sizes of functions and files.

    python3 tests/structure.py [-v]        prints TAP, and the figures after "#"; -v: also every place that counts

Includes are read from all tracked or new .c, .h, .cu and .def files outside of tests; functions by their
braces at column 0."""
import os, re, subprocess, sys
from collections import defaultdict

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
os.chdir(root)
verbose = "-v" in sys.argv
files = sorted(f for f in subprocess.run(["find", "engine", "cfg", "graph", "gpu", "io", "sched", "-name", "*.[ch]",
                                          "-o", "-name", "*.cu", "-o",
                                          "-name", "*.def"], capture_output=True, text=True, check=True).stdout.split())
text = {f: open(f, encoding="utf-8").read() for f in files}
count = failed = 0

# Files of more than this many lines, each with its reason.
FILE_LINES, FILES_MAX, FUNCTION_LINES = 700, 3, 80
LONG_FILES = {
    "graph/graph_check.c":
        "one check after another of what a file may hold, in the order of its sections: read front to back",
}


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
      sorted({f"{os.path.dirname(f)} is not listed" for f in files if not room_of(f)}
             | {f"{r} does not exist" for r, _ in order if not os.path.isdir(r)}))
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
    return [f"{f}:{n}: {line.strip()}" for f in files if os.path.dirname(f) in folders
            for n, line in enumerate(text[f].splitlines(), 1)
            if re.search(pattern, line)]


sync_places = places(r"\bSYNC_[A-Z]", ["engine/pipe"])
device_places = places(r"\bis_card\b|\bis_sim\b", ["engine/pipe", "engine/sync", "engine/run", "engine/crew"])
check("the pipeline names no synchronisation", sync_places)
check("pipeline, synchronisations and runs ask for no kind of device", device_places)

def bare(source):
    """The source with comments, literals and lines of the preprocessor blanked out, place by place."""
    return re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'" + r'|^[ \t]*#(?:[^\n\\]|\\.)*',
                  lambda m: re.sub(r"[^\n]", " ", m[0]),
                  source, flags=re.S | re.M)


def pair_of(source, at, step):
    """Where the parenthesis at `at` has its other one."""
    depth = 0
    while True:
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        if depth == 0:
            return at
        at += step


def functions_of(source):
    """{name, or ->name of a pointer in a table: whether it returns a status} of what a file declares, and the
    names of its prototypes whose status may be ignored."""
    found, loose = {"->" + name: True for name in re.findall(r"\bstatus \(\*(\w+)\)\s*\(", source)}, []
    for m in re.finditer(r"^((?:static |inline |MUST_USE |_Noreturn )*)(\w[\w ]*[ *]+)(\w+)\(", source, re.M):
        found[m[3]] = m[2].strip() == "status"
        is_defined = source[pair_of(source, m.end() - 1, 1) + 1:].lstrip()[:1] == "{"
        if found[m[3]] and not is_defined and "MUST_USE" not in m[1] and "static" not in m[1]:
            loose.append(m[3])
    return found, loose


def thrown_away(source, names):
    """(line, name) of calls that are a statement of their own, or a void one."""
    for m in re.finditer(r"\b((?:[\w.\[\]]+(?:->|\.))*)(\w+)\(", source):
        before = source[:m.start()].rstrip() if ("->" if m[1] else "") + m[2] in names else ""
        if not before or not source[pair_of(source, m.end() - 1, 1) + 1:].lstrip().startswith(";"):
            continue
        is_alone = before[-1] in ";{}" or re.search(r"\b(else|do)$", before)
        if before[-1] == ")":
            begin = pair_of(before, len(before) - 1, -1)
            is_alone = before[begin:] == "(void)" or re.search(r"\b(if|while|for|switch)$", before[:begin].rstrip())
        if is_alone:
            yield source.count("\n", 0, m.start()) + 1, m[2]


code = {f: bare(t) for f, t in text.items() if not f.endswith(".def")}
declared = {f: functions_of(c) for f, c in code.items()}
other = {"->" + name for c in code.values()
         for kind, name in re.findall(r"(\w+) \**\(\*(\w+)\)\s*\(", c) if kind != "status"}
shared = {name for f in code if f.endswith(".h") for name, is_status in declared[f][0].items() if is_status} - other
check("every prototype that returns a status is MUST_USE",
      [f"{f}: {name}" for f in code if f.endswith(".h") for name in declared[f][1]])
check("no call throws a status away",
      [f"{f}:{n}: {name}" for f, c in code.items()
       for n, name in thrown_away(c,
                                  {name for name in shared | set(declared[f][0]) if declared[f][0].get(name, True)})])

tests = {f: bare(open(f, encoding="utf-8").read())
         for f in sorted(subprocess.run(["find", "tests", "-name", "*.[ch]"], capture_output=True, text=True,
                                        check=True).stdout.split())}

# Names of the C library that a reader would take for its own.
LIBC = set("""abs accept access bind chdir close connect dup exit fork free getenv index kill link listen lseek malloc
mmap open openat pause pipe poll printf raise read recv remove rename select send shutdown signal sleep socket
splice stat step sync time times truncate umask unlink wait write""".split())
shadows = [f"{f}: {name}" for f, c in [*code.items(), *tests.items()]
           for name in re.findall(r"^static (?:\w+ )*[\w ]+[ *]+(\w+)\(", c, re.M) if name in LIBC]
check("no static function has a name of the C library's", shadows)


def is_twin(same):
    """Kernels of one kind on processors and on cards share a name, and a .cu has it of the code that launches it."""
    return set(map(os.path.dirname, same)) == {"engine/device/cpu/isa", "gpu"}


named = defaultdict(list)
for f in files:
    named[os.path.basename(f)].append(f)
check("no two files have one name, but twins of kernels",
      [" and ".join(same) for same in named.values() if len(same) > 1 and not is_twin(same)])

# One letter, one meaning within a file: what it is declared as. CUDA's vectors of floats and of whole numbers
# have the same members.
DECLARED = re.compile(r"""(?<![\w.>])(?:(?P<tag>(?:struct|enum|union)\s+\w+)
    |(?P<number>(?:unsigned\s+|long\s+)*(?:int|unsigned|long|short|s?size_t|ptrdiff_t|nfds_t|u?int\d+_t))
    |(?P<real>float|double)
    |(?P<other>bool|char|status|json_t|FILE|type_index|(?!u?int|s?size_t|ptrdiff_t|nfds_t)\w+_t)
    |(?P<vector>v[fqdwu]))
    \s+(?:const\s+|restrict\s+)*(?:\*\s*(?:const\s+|restrict\s+)?)*(?P<letter>[A-Za-z])\b
    (?=\s*(?:[,;=)\[]|:\s))""", re.X)


def letters_of(source):
    """{letter: {what it is declared as: [line]}}. The kinds of whole numbers are one, and so are float and double."""
    found = defaultdict(lambda: defaultdict(list))
    for m in DECLARED.finditer(source):
        kind = "number" if m["number"] else "real" if m["real"] else "vector" if m["vector"] else m["tag"] or m["other"]
        names, depth, at = [(m["letter"], m.start())], 0, m.end()
        # What the same declaration declares besides
        while at < len(source) and depth >= 0 and not (source[at] == ";" and depth == 0):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(source[at], 0)
            more = (re.match(r",\s*(?:\*\s*)*(\w+)\s*(?=[,;=\[])", source[at:at + 60]) if depth == 0
                    and source[at] == "," else None)
            if source[at] == "," and depth == 0 and not more:
                break
            names += [(more[1], at)] if more and len(more[1]) == 1 else []
            at += 1
        for name, where in names:
            found[name][kind].append(source.count("\n", 0, where) + 1)
    return found


apart = [f"{f}: {letter}: " + "; ".join(f"{kind} in line {', '.join(map(str, at[:5]))}" for kind, at in kinds.items())
         for f, c in [*code.items(), *tests.items()] for letter, kinds in sorted(letters_of(c).items())
         if len(kinds) > 1 and not (f == "gpu/kernel.h" and letter in "xyzw")]
check("one letter has one meaning within a file", apart)

# Words to which the glossary of engine/README.md gives several meanings, each told by a noun before it.
check("no struct has a bare word of several meanings for its name",
      [f"{f}: struct {m[1]}" for f, c in code.items()
       for m in re.finditer(r"\bstruct (part|piece|place|block|batch)\s*\{", c)])

lengths = []
for f in files:
    if not f.endswith((".c", ".h", ".cu")):
        continue
    lines = text[f].splitlines()
    begin = None
    for n, line in enumerate(lines, 1):
        if (line == "{" and n > 1 and not lines[n - 2].startswith(("struct", "enum", "union", "#"))
                and "=" not in lines[n - 2]):
            begin = n
        if line.startswith("}") and begin:
            lengths.append((n - begin + 2, f"{f}:{begin - 1}"))
            begin = None
lengths.sort(reverse=True)
check(f"no function has more than {FUNCTION_LINES} lines",
      [f"{at}: {n} lines" for n, at in lengths if n > FUNCTION_LINES])
long_files = {f: text[f].count("\n") for f in files if text[f].count("\n") > FILE_LINES}
check(f"at most {FILES_MAX} files have more than {FILE_LINES} lines, each with its reason",
      [f"{f}: {n} lines, no reason given in tests/structure.py" for f, n in long_files.items() if f not in LONG_FILES]
      + ([f"{len(long_files)} such files"] if len(long_files) > FILES_MAX else []))
product_lines = sum(t.count("\n") for t in text.values())
print(f"# folders {len(order)}, cycles of folders {len(knots)}, "
      f"includes between folders {sum(len(v) for k, v in edges.items() if k[0] != k[1])}")
print(f"# SYNC_ in engine/pipe {len(sync_places)}; "
      f"is_card, is_sim in engine/pipe, engine/sync and the run {len(device_places)}")
print(f"# functions {len(lengths)}, over {FUNCTION_LINES} lines {sum(n > FUNCTION_LINES for n, _ in lengths)}, "
      f"the longest {lengths[0][0]} ({lengths[0][1]})")
print(f"# files over {FILE_LINES} lines: {', '.join(f'{f} {n}' for f, n in long_files.items()) or 'none'}; "
      f"product lines {product_lines}")
print(f"1..{count}")
sys.exit(failed != 0)
