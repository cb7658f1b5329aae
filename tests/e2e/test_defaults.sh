#!/bin/sh
# Defaults are promises: a graph that was compiled says by which version's rules it is read, and not what the
# defaults were then. Each default of a model's text, of an optimizer, of a schedule, of a cluster and of a
# table of layers is compared with tests/golden/defaults, which people write and no program.
. "$(dirname "$0")/lib.sh"

# GOLDEN TABLE: help's tables, those of settings in Markdown, then of clusters and layers in columns, hold
# what the list does.
cat >"$work/compare.py" <<'PYTHON'
import difflib, re, sys

def promise(name, now, *older):
    """One line of the list: what the oldest rules have first, then from which version on it is another.
    older: up to which rules, and what."""
    text = "%s = " % name
    for until, before in zip(older[::2], older[1::2]):
        if until: text += "%s; %d: " % (before, int(until) + 1)
    return (text + now).rstrip()

def promises(lines):
    found, section = [], ""
    for line in lines:
        if line.startswith("### "): section = line[4:].strip()
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        name = re.fullmatch(r"`(\w+)`", cells[0]) if cells else None
        if not name: continue
        if section in ("Optimizers", "Schedules"):
            for key, now, until, before in re.findall(r"`(\w+)=([^`]+)`(?: \(by rules up to (\d+): ([^)]+)\))?",
                                                      cells[1]):
                found.append(promise("%s %s %s" % (section[:-1].lower(), name[1], key), now, until, before))
        elif len(cells) == 6:
            old = re.search(r"; by rules up to (\d+) the default is `([^`]*)`(?:, up to (\d+) `([^`]*)`)?$", cells[5])
            found.append(promise("%s %s" % (section, name[1]), cells[2].strip("`"), *(old.groups() if old else ())))
    return found

def promises_in_columns(what, lines):
    """A section's name, type and default begin in the same column on each line."""
    found, sections = [], {}
    for line in lines:
        if line.startswith("["): keys = sections.setdefault(line.strip(), [])
        elif line.startswith("  "): keys.append(line.rstrip("\n"))
    for section, keys in sections.items():
        begin = max(re.match(r"  \S+ +\S+", key).end() for key in keys) + 2
        found += [promise("%s %s %s" % (what, section, key.split()[0]), re.split("  +", key[begin:])[0])
                  for key in keys]
    return found

golden, table, *others = sys.argv[1:]
found = promises(open(table))
for path in others: found += promises_in_columns(path.rsplit("/", 1)[-1], open(path))
expected = [line.rstrip("\n") for line in open(golden) if not line.startswith("#")]
if len(found) < 180: sys.exit("only %d defaults found in what help says" % len(found))
if found != expected:
    print("\n".join(difflib.unified_diff(expected, found, golden, "what this program does", lineterm="", n=0)))
    sys.exit("""A default is a promise to graphs that are compiled already. If it is to change: a new version of the
rules (RULES_NEWEST in cfg/rules.h, unless the one there is not released yet), UNTIL(the version before, the
old default) at the end of the key's line, so that older graphs keep theirs, and then the line of
tests/golden/defaults, by hand: KEY = OLD; VERSION: NEW. A new key gets a line there; one that goes breaks the
graphs that have it. Clusters and tables of layers say no version, so that their defaults stay.""")
PYTHON
golden=$root/tests/golden/defaults
"$HETERPS" help settings.md >"$work/table"
for what in cluster layers; do "$HETERPS" help $what >"$work/$what"; done
compare() { python3 "$work/compare.py" "$golden" "$@" "$work/layers" >"$work/said" 2>&1; }
# Shows all of what differs, and what to do then.
if compare "$work/table" "$work/cluster"; then ok 'each default is the one that was promised'; else
    not_ok 'each default is the one that was promised'
    note <"$work/said"
fi
# What this test would say of other tables.
found() { # PATTERN TABLE CLUSTER
    ! compare "$2" "$3" && grep -qF -e "$1" "$work/said" && grep -q RULES_NEWEST "$work/said" ||
        { cat "$work/said"; return 1; }
}
differs() { # PATTERN SED
    sed "$2" "$work/table" >"$work/other"
    other_bytes "$work/table" "$work/other" && found "$1" "$work/other" "$work/cluster"
}
differs_of_a_cluster() {
    mkdir "$work/cluster.other"
    sed '/^  epochs /s/ 1 / 2 /' "$work/cluster" >"$work/cluster.other/cluster"
    other_bytes "$work/cluster" "$work/cluster.other/cluster" &&
        found '+cluster [goal] epochs = 2' "$work/table" "$work/cluster.other/cluster"
}
check 'a changed default of a key is found' differs '+[eval] top = 10' '/^| `top` /s/`20`/`10`/'
check 'one of an op' differs '+[loss NAME, kind hinge] margin = 0.2' '/^| `margin` /s/`0.1`/`0.2`/'
check 'one of an optimizer' differs '+optimizer adamw decay = 0.1' '/^| `adamw` /s/`decay=0.01`/`decay=0.1`/'
check 'one of a schedule' differs '+schedule step factor = 0.1' '/^| `step` /s/`factor=0.5`/`factor=0.1`/'
check 'one that older graphs no longer keep' differs '-[train] batch = 2048; 9: 128' \
    '/^| `batch` /s/; by rules up to 8 the default is `2048`//'
check 'one that has changed twice' differs '-[train] optimizer = adagrad 0.01; 9: adagrad 0.04; 11: auto' \
    '/^| `optimizer` /s/, up to 10 `adagrad 0.04`//'
check 'one of a cluster' differs_of_a_cluster
check 'a new key' differs '+[train] news = 1' '/^| `lanes` /p; s/^| `lanes` /| `news` /'
finish
