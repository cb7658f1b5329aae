#!/usr/bin/env python3
"""Holds the tree to its layout where .clang-format alone would take longer: blanks, tabs, ends of files,
columns, includes, comments, texts.

    python3 tests/format.py [-v] [FILE...]        prints TAP; -v: every place that counts; without FILE: all
                                                  tracked or new files

Not checked: bytes that tests compare (tests/golden, tests/fuzz/corpus)."""
import os, re, subprocess, sys

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
verbose = "-v" in sys.argv
named = [a for a in sys.argv[1:] if a != "-v"]
COLUMNS = 120
WORDS = 110  # columns of a comment's sentences, where no code stands before it; drawings and tables have all
C = (".c", ".h", ".cu", ".def")
listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                        capture_output=True, text=True)
if listed.returncode:  # a parcel without git
    listed = subprocess.run(["find", ".ci", "README.md", "build.sh", "cfg", "engine", "gpu", "graph", "io", "samples",
                             "sched", "tests", "-type", "f"],
                            capture_output=True, text=True, check=True)
text = {}
for f in named or sorted(listed.stdout.split("\n")):
    if os.path.isfile(f) and not f.startswith(("tests/golden/", "tests/fuzz/corpus/")):
        with open(f, "rb") as file:
            whole = file.read()
        if b"\0" not in whole:
            text[f] = whole.decode("utf-8")
lines = {f: t.split("\n") for f, t in text.items()}
code = [f for f in text if f.endswith(C)]
scripts = [f for f, t in text.items() if f.endswith((".sh", ".py")) or t.startswith("#!")]
count = failed = 0


def check(name, wrong):
    global count, failed
    count += 1
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} - {name}")
    for line in wrong[: None if verbose else 20]:
        print(f"# {line}")
    if len(wrong) > 20 and not verbose:
        print(f"# and {len(wrong) - 20} more: -v lists them")


def found(pattern, files, what):
    """Places of a pattern, whole texts at a time: most files have none."""
    return [f"{f}:{text[f].count(chr(10), 0, m.start()) + 1}: {what}" for f in files
            for m in re.finditer(pattern, text[f])]


def includes_of(f):
    """The quoted includes of a file, in runs that neither a blank line nor another line parts: [[(line, name)]]."""
    runs, run = [], []
    for n, line in enumerate(lines[f], 1):
        name = re.match(r'#include "([^"]+)"', line)
        if name:
            run.append((n, name[1]))
        elif run:
            runs.append(run)
            run = []
    return runs + [run] if run else runs


def include_order(f):
    """The first include of all is what the file implements or tests, wherever it lies; each run is sorted."""
    for i, run in enumerate(includes_of(f)):
        for (_, a), (n, b) in zip(run[i == 0:], run[(i == 0) + 1:]):
            if b <= a:
                yield f'{f}:{n}: "{b}" behind "{a}"'


def code_and_comment(line):
    """(columns of the code, column of the comment of one line behind it, columns of the comment without
    padding), or None."""
    if not line.endswith("*/"):
        return None
    at = line.rfind("/*")
    before = line[:at].rstrip()
    if at <= 0 or not before.strip() or before.count('"') % 2 or "*/" in line[at:-2]:
        return None
    return len(before), at, len(line[at:-2].rstrip()) + 3


def comments_apart(f):
    """Comments behind the code of two lines that follow each other begin in one column, where both have room for it."""
    last = None
    for n, line in enumerate(lines[f], 1):
        this = code_and_comment(line)
        if this and last and this[1] != last[1] and max(this[0], last[0]) + 1 + max(this[2], last[2]) <= COLUMNS:
            yield f"{f}:{n}: comment in column {this[1] + 1}, above it in {last[1] + 1}"
        last = this


def code_alone(line):
    """The line's code: blanks in place of comments that end on it, no letters in texts. A comment that goes
    on stays as /*."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"', lambda text: '"' + "x" * (len(text[0]) - 2) + '"', line.rstrip("\\ "))
    return re.sub(r"/\*.*?\*/", " ", line).rstrip()


def comments_torn(f):
    """Comments behind code that go on in the next line, and statements of two lines that fit in one without
    the comment at their end."""
    above, begins, inside = "", True, False
    for n, line in enumerate(lines[f], 1):
        if inside:
            inside = "*/" not in line
            continue
        this, opened, _ = code_alone(line).partition("/*")
        inside = opened != ""
        if inside and this.strip():
            yield f"{f}:{n}: the comment behind code has several lines: place it above"
        if (begins and above.endswith(",") and this.endswith(";") and line.endswith("*/")
                and len(above + " " + this.lstrip()) <= COLUMNS):
            yield f"{f}:{n}: the comment cuts a statement in two: place it above"
        if this.strip():
            begins, above = not above or above[-1] in ";{}>", this


def comments_wide(f):
    """Sentences of a comment without code that run past WORDS. What is drawn, indented or in columns is no sentence."""
    drawn = re.compile(r"[─│┌┐└┘├┤┬┴┼▶◀▲▼═║┃━]|-->|<--|\S {2,}\S|^ {4}")
    inside = False
    for n, line in enumerate(lines[f], 1):
        words = line.strip()
        alone = re.match(r"/\*(?!.*\*/.)", words)  # code may follow a comment that ends
        begins = alone and "*/" not in words
        if (inside or alone) and len(line) > WORDS and not drawn.search(re.sub(r"^(/\*|\*)? ?", "", words)):
            yield f"{f}:{n}: {len(line)}"
        inside = (inside or begins) and "*/" not in words


def texts_cut(f):
    """Texts in several literals that are cut in mid-phrase. Good is behind a line end, a sentence, a clause,
    a bracket or a column, before a bracket, a tag or a flag, and where the next word has no room. Only cuts
    at a blank count: others have their reasons."""
    for n in [n for n, line in enumerate(lines[f][1:], 1) if line.lstrip()[:1] == '"']:
        above, line = lines[f][n - 1], lines[f][n].lstrip()
        room = COLUMNS - 2 if above.endswith("\\") else COLUMNS
        above = above.rstrip(" \\")
        last = re.search(r'"((?:\\.|[^"\\])*[^ ]) "$', above)
        word = re.match(r'"((?:\\.|[^"\\ ])+)( ?)("[^"]*$)?', line)
        if last is None or word is None:
            continue
        phrase = last[1].replace("\\\\", "")
        if "\\n" in re.sub(r"^(\\n)+|\\n$", "", phrase):
            yield f"{f}:{n}: cut in mid-line, with a line end before"
        elif not re.search(r"""([.?!;:,|)\]}>]|\\n)['`"\\]*$""", phrase) and word[1][0] not in "([{<-|":
            added = len(word[1]) + len(word[2]) + (len(word[3]) - 1 if word[3] else 0)
            if len(above) + added <= room:
                yield f"{f}:{n}: cut before \"{word[1]}\""


check("no line ends in a blank", found(r"[ \t\r]+(?=\n)", text, "blank"))
check("no tab", found(r"\t", text, "tab"))
check("files end in one line feed", [f for f, t in text.items() if t and (not t.endswith("\n") or t.endswith("\n\n"))])
check(f"no line of C or of a script runs past {COLUMNS} columns",
      [f"{f}:{n}: {len(l)}" for f in code + scripts + [f for f in text if f.endswith(".cc")]
       for n, l in enumerate(lines[f], 1) if len(l) > COLUMNS])
check("a comment behind code has one line and cuts no statement", [w for f in code for w in comments_torn(f)])
check(f"no sentence of a comment runs past {WORDS} columns", [w for f in code for w in comments_wide(f)])
check("never two empty lines in C", found(r"\n\n\n", code, "empty"))
check("includes are in the order of folders", [w for f in code for w in include_order(f)])
check("comments behind lines that follow each other are aligned", [w for f in code for w in comments_apart(f)])
check("rows of flags and keys name their members",
      found(r'\{[\s\\]*(?:"[^"\n]*"|#\w+),[\s\\]*(?:FLAG|CFG)_', code, "a row without names"))
check("texts are cut where a phrase ends, or where the next word has no room", [w for f in code for w in texts_cut(f)])
check("a star stands at the name of its pointer",
      found(r"(?m)^ +(?:const )?(?:struct )?\w+ \* \w+;", code, "a star apart"))
print(f"1..{count}")
sys.exit(failed != 0)
