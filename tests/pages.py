#!/usr/bin/env python3
"""Holds the pages, README.md in the root and in folders, to the tree and to the program.

    python3 tests/pages.py [HETERPS]       prints TAP; without a program what needs one is skipped
    python3 tests/pages.py --list          the commands of all pages that no test here runs, each with its reason

Links resolve, tables are whole, the README is short, files and flags that are named exist, and the settings
are the program's. Every command of a block of code that stands behind "$" is run, in the order of pages, in
one folder and on less data, and what it prints is compared in shape: line by line, without numbers, units and
times; "..." and "…" stand for any lines. A command that is not run, in a block or within a sentence or a
table, has a reason, and every reason has a command."""
import glob, os, re, subprocess, sys, tempfile

root = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
os.chdir(root)
README_LINES = 250
# In order: what a page's commands make, later ones use.
PAGES = ["README.md"] + sorted(glob.glob("*/README.md") + glob.glob("engine/*/README.md"))
text = {page: open(page, encoding="utf-8").read() for page in PAGES}
count = failed = 0

# Data is generated with this part of the rows.
LESS = 15
# Before the command that begins so: a shell's words.
BEFORE = {
    "heterps-run fsck model":
        "rm -rf model; heterps-run ctrdnn.bin --data train.tsv --out model -q --set checkpoint.every=25 "
        "--set checkpoint.keep=2 --set train.steps_max=30 && "
        "printf x | dd of=model/emb.30.rows bs=1 seek=100 conv=notrunc",
    "heterps-run launch --local 3 -- graph.bin":
        "heterps-run compile samples/ctrdnn.cfg -o graph.bin -q --set train.lanes=16",
    "heterps-run graph.bin": "cp ctrdnn.bin graph.bin",
}
# A command that begins so is run with these flags, too, and of what it prints the lines from the first that
# has one text to the first that has the other are compared.
IN_PART = {"heterps-run bench": (" --quick --repeats 1", "medians of", "least - greatest")}
# Of these lines only the first word is compared: what follows depends on what was slow.
FREE_LINES = {"time", "life", "memory", "launch"}
# Commands of blocks of code that are not run here: how they begin, and why.
NOT_RUN = [
    ("./build.sh demo", "long: a minute; CI runs its commands one by one"),
    ("./build.sh test", "long: CI is this command"),
    ("heterps-run doctor ctrdnn.bin",
     "its output depends on this machine's memory; tests/e2e/test_doctor.sh runs doctor"),
    ("heterps-run graph.bin --data train.tsv --out model --metrics",
     "it goes on until it is asked; tests/e2e/test_metrics.sh runs it"),
    ("curl ", "it asks a server; tests/e2e/test_serve.sh, test_serve_learn.sh and test_metrics.sh do"),
    ("heterps-run serve", "a server; tests/e2e/test_serve.sh, test_serve_learn.sh and test_lean.sh run it"),
    ("heterps-run export graph.bin --model model --for serving", "tests/e2e/test_lean.sh runs it"),
    ("heterps-run compile samples/ctrdnn.cfg -o graph.bin", "tests/e2e/test_samples.sh compiles all samples"),
    ("heterps-run gen criteo --rows 100000 -o train.tsv", "tests/e2e/test_gen.sh runs it"),
    ("heterps-run key -o cluster.key", "tests/e2e/test_cluster_key.sh runs it"),
    ("heterps-run graph.bin --data train.tsv --out model --nodes",
     "a cluster; tests/e2e/test_nodes.sh runs it on one machine"),
    ("heterps-run launch --local 4 -- graph.bin", "long: four nodes; tests/e2e/test_nodes.sh runs fewer"),
    ("heterps-run launch --hosts", "a cluster; tests/e2e/test_hosts.sh runs it on hosts that are network namespaces"),
    ("heterps-run launch --local 3 -- model.bin", "two lines, and workers; tests/e2e/test_waves.sh runs it"),
    ("heterps-run launch --local 3 -- doctor --cluster",
     "its link was cut by hand; tests/e2e/test_doctor_cluster.sh cuts it"),
    ("torchrun", "a cluster, and a launcher of PyTorch's; tests/quality/torchrun.sh runs it"),
    ("srun", "a cluster, and Slurm; tests/quality/slurm.sh runs it"),
    ("mpiexec", "a cluster; tests/e2e/test_nodes.sh runs it on one machine"),
    ("heterps-run graph.bin --data 'http://", "an object store; tests/e2e/test_web.sh has a server"),
    ("heterps-run devices", "it tells of the machine; tests/e2e/test_devices.sh runs it"),
    ("heterps-run plan ctrdnn.bin --cluster",
     "what it measures decides which plans it lists; tests/e2e/test_plan.sh runs it"),
]
# Commands within a sentence or a table: how they begin, without "heterps-run" and without variables but TESTS and MODE,
# and what keeps CI from running them as they stand there, or the tests that run one that begins so, which together name
# its flags and subjects; {a,b} stands for a and for b.
# Where several lines fit, of NOT_RUN, too, the longest one counts.
QUIET = "its figures take minutes, on a machine without other work"
INLINE = [
    ("TESTS=quality_", "real data, in ../shared/data; CI runs this test, which skips what has no data"),
    ("TESTS=", "CI runs this test"),
    ("MODE={asan,tsan} ./build.sh test", "long; .ci/run runs those of its tests in which a sanitizer sees more"),
    ("./build.sh fuzz", "CI runs it"),
    ("./build.sh bench",
     "CI runs it, and none of the programs that it builds: their figures take minutes, on a machine without "
     "other work"),
    ("./build.sh install", "tests/e2e/test_install.sh runs it"),
    ("./build.sh", "CI runs it with a verb, by gcc and, for ./build.sh fuzz, by clang"),
    ("./build.sh card", "a card: it builds what tests/gpu.sh runs there"),
    ("build/release/heterps-emu", "tests/e2e/test_cards.sh runs it"),
    ("build/release/tests/{sched/test_rl,sched/test_exact,engine/plan/test_places}", "CI runs this test"),
    ("build/release/tests/engine/node/test_reduce", "half an hour with SEEDS=20; CI runs this test"),
    ("build/release/tests/gpu/check_ops", "a card; tests/gpu/test_ops.c does the same on the emulation"),
    ("build/release/tests/bench/serve_bench", "other servers, which it is compared with, and minutes"),
    ("build/release/tests/bench/", QUIET + "; .ci/run builds it"),
    ("sh tests/gpu.sh", "a card; tests/e2e/test_gpu_script.sh runs it on an emulated driver"),
    ("python3 tests/pages.py", "tests/e2e/test_pages.sh runs it"),
    ("python3 tests/pages.py --list", "a list for people, which tests nothing"),
    ("python3 tests/bench/{figure11,slowdown}.py", QUIET),
    ("python3 tests/bench/{cpu,rows,sums}_table.py", "other programs, which it is compared with, and half an hour"),
    ("sh tests/bench/saves.sh", QUIET),
    ("sh tests/bench/e2e_torch.sh", "another program, PyTorch"),
    ("python3 tests/others/torch_{nodes,card}.py", "another program, PyTorch"),
    ("sh tests/quality/crash.sh", "long: tests/e2e/test_crash.sh and tests/e2e/test_fsck.sh a thousand times"),
    ("sh tests/quality/generated.sh", "minutes; tests/e2e/test_quality_gen.sh runs it on fewer rows"),
    ("sh tests/quality/wsp.sh", "minutes; tests/e2e/test_wsp.sh runs it on fewer rows, from one seed"),
    ("sh tests/quality/{cuts,hosts,overlap,rows}.sh", "a root's rights, for network namespaces, and minutes"),
    ("sh tests/quality/{web,slurm}.sh", "a root's rights, for namespaces, and another program, nginx or Slurm"),
    ("sh tests/quality/{mpi,torchrun,prometheus}.sh", "another program: Open MPI, PyTorch's torchrun or Prometheus"),
    ("sh tests/quality/gowalla.sh", "real data, Gowalla's check-ins, and minutes"),
    ("sh tests/quality/{apart,nodes,nodes_use,stages}.sh",
     "long: dozens of trainings; tests/e2e/test_nodes.sh kills nodes a few times"),
    ("sh tests/quality/members.sh", "long: 100,000 seeds, of which tests/engine/node/test_member.c has 500"),
    ("sh tests/quality/learn_crash.sh", "long: 300 crashes, of which tests/e2e/test_serve_learn.sh has 6"),
    ("sh tests/quality/{exact,hostile,nodes_samples,nodes_speed,pairs,reduce,soak}.sh", "minutes, of soak.sh an hour"),
    ("sh tests/quality/bytes.sh", "it compares two programs, and takes minutes"),
    ("sh tests/quality/twice.sh", "minutes; .ci/run runs it with heterps-run, and so builds once"),
    ("python3 tests/quality/mutate.py", "hours; tests/e2e/test_mutate.sh runs it on a tree of one function"),
    ("python3 tests/quality/{loss,predict,serve_load,waves_auc}.py", QUIET),
    ("python3 tests/quality/{hetpipe,links,ralp}.py", "a root's rights, for network namespaces, and minutes"),
    ("python3 tests/quality/{defaults,trees_import,trees_others,trees_sst}.py DATA",
     "real data, and minutes; PyTorch or others, which it is compared with"),
    ("… --only", "the command of the line above it"),
    ("grep -rE", "this test looks for its words"),
    ("grep -o", "a figure of a trace; tests/e2e/test_trace_nodes.sh reads the same"),
    ("systemctl", "systemd; tests/e2e/test_install.sh reads the unit"),
    ("compile", "tests/e2e/test_samples.sh runs it"),
    ("GRAPH", "a training, as tests/e2e/test_train.sh has many"),
    ("graph.bin --cluster", "tests/e2e/test_plan.sh runs it"),
    ("eval", "tests/e2e/test_eval_sets.sh runs it"),
    ("eval {GRAPH,--held-out}", "tests/e2e/test_eval_sets.sh and test_readers.sh run it"),
    ("predict", "tests/e2e/test_columns.sh runs it"),
    ("predict --tree-nodes", "tests/e2e/test_trees.sh runs it"),
    ("serve", "tests/e2e/test_serve.sh runs it"),
    ("export {GRAPH --model DIR --for,--for} serving", "tests/e2e/test_lean.sh runs it"),
    ("export", "tests/e2e/test_onnx.sh runs it"),
    ("export GRAPH --model DIR -o DIR2", "tests/e2e/test_import.sh runs it"),
    ("import", "tests/e2e/test_import.sh runs it"),
    ("inspect", "tests/e2e/test_inspect.sh runs it"),
    ("fsck", "tests/e2e/test_fsck.sh runs it"),
    ("gen", "tests/e2e/test_gen.sh runs it"),
    ("gen mathfunc", "tests/e2e/test_trees.sh runs it"),
    ("doctor --cluster", "tests/e2e/test_doctor_cluster.sh runs it"),
    ("doctor", "tests/e2e/test_doctor.sh runs it"),
    ("plan-memory", "tests/e2e/test_doctor.sh runs it"),
    ("devices", "tests/e2e/test_devices.sh runs it"),
    ("bench", QUIET + "; tests/e2e/test_bench.sh runs it with --quick"),
    ("bench card", "a card; tests/engine/bench/test_bench_card.c measures an emulated one"),
    ("bench parse criteo-cached", "tests/engine/bench/test_subjects.c runs it"),
    ("launch", "tests/e2e/test_nodes.sh runs it"),
    ("launch --hosts … -- doctor", "a cluster; tests/e2e/test_doctor_cluster.sh and test_hosts.sh run it, each a half"),
    ("trace", "tests/e2e/test_trace_nodes.sh runs it"),
    ("key", "tests/e2e/test_cluster_key.sh runs it"),
    ("profile", "tests/e2e/test_profile.sh runs it"),
    ("plan GRAPH --cluster cfg/h100.cfg --trees", "tests/e2e/test_trees.sh runs it"),
    ("plan", "tests/e2e/test_plan.sh runs it"),
    ("simulate", "tests/e2e/test_simulate.sh runs it"),
    ("pretrain", "tests/e2e/test_plan.sh runs it"),
    ("VERB --help", "tests/e2e/flags.sh runs it"),
    ("help", "tests/e2e/test_cli.sh runs it"),
    ("help notices", "tests/e2e/test_install.sh runs it"),
    ("help settings.md", "tests/e2e/test_defaults.sh runs it"),
]
PROGRAMS = r"(?:heterps-run|\./build\.sh|sh|curl|python3|torchrun|srun|mpiexec)\b"


def check(name, wrong):
    global count, failed
    count += 1
    failed += bool(wrong)
    print(f"{'not ok' if wrong else 'ok'} {count} - {name}")
    for line in wrong[:20]:
        print(f"# {line}")


def code_of(page):
    """[(line number, [lines], language)] of blocks of code, fenced or indented."""
    found, block, language, fenced = [], [], "", False
    for n, line in enumerate(text[page].splitlines() + [""], 1):
        if line.startswith("```"):
            if fenced:
                found.append((begin, block, language))
            fenced, block, language, begin = not fenced, [], line[3:], n + 1
        elif fenced:
            block.append(line)
        elif line.startswith("    ") and (block or not previous.strip()):
            if not block:
                begin, language = n, ""
            block.append(line[4:])
        elif block and line.strip():
            found.append((begin, block, language))
            block = []
        elif block:
            block.append("")
        previous = line
    if block:
        found.append((begin, block, language))
    return found


def prose_of(page):
    """The page's lines, those of code empty."""
    lines = text[page].splitlines()
    for begin, block, _ in code_of(page):
        for i in range(begin - 1, begin - 1 + len(block)):
            if i < len(lines):
                lines[i] = ""
    return lines


def spans_of(page):
    """[(line number, code within a sentence or a table)]; a span that crosses a line has a blank there."""
    prose = "\n".join(prose_of(page))
    return [(prose.count("\n", 0, m.start()) + 1, re.sub(r"\s*\n\s*", " ", m[1]))
            for m in re.finditer(r"`((?:[^`\n]|\n(?!\s*\n))+)`", prose)]


def slugs(page):
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for line in prose_of(page)
            for h in re.findall(r"^#+ (.*)", line)}


# --- links and tables

wrong = []
for page in PAGES:
    for n, line in enumerate(prose_of(page), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"https?://", target):
                continue
            path, _, anchor = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(to):
                wrong.append(f"{page}:{n}: there is no {to}")
            elif anchor and (to not in text or anchor not in slugs(to)):
                wrong.append(f"{page}:{n}: {to} has no header #{anchor}")
check("links of all pages resolve", wrong)
linked = {os.path.normpath(os.path.join(os.path.dirname(p), t.partition("#")[0])) for p in PAGES
          for t in re.findall(r"\]\(([^)\s]+)\)", text[p])}
check("every page is linked from another one", [page for page in PAGES if page not in linked])

samples = [f for f in glob.glob("samples/*") if f != "samples/README.md"]
check("every sample is linked from samples/README.md",
      [f for f in samples if f"({os.path.basename(f)})" not in text["samples/README.md"]])

wrong = []
for page in PAGES:
    last = 0
    for n, line in enumerate(text[page].splitlines(), 1):
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if last and cells and cells != last:
            wrong.append(f"{page}:{n}: {cells - 1} cells, expected {last - 1}")
        last = cells
check("headers have one empty line above them, and there are never two", [
    f"{page}:{n}" for page in PAGES for n, (above, line) in enumerate(zip(prose_of(page), prose_of(page)[1:]), 2)
    if line.startswith("#") and above and not above.startswith("<!--") or not text[page].splitlines()[n - 2]
    and not text[page].splitlines()[n - 1]])
check("each line of a table has as many cells as the one before", wrong)
lines = text["README.md"].count("\n")
check(f"README.md has at most {README_LINES} lines", [f"it has {lines}"] if lines > README_LINES else [])

# --- what pages name

ROOTS = ("engine", "cfg", "graph", "gpu", "io", "sched", "samples", "tests")
wrong = []
for page in PAGES:
    for n, line in enumerate(prose_of(page), 1):
        for path in re.findall(r"(?<![\w/.])((?:%s)/[\w./@-]+)" % "|".join(ROOTS), re.sub(r"`TESTS=[^`]*`", "", line)):
            path = path.rstrip(".")
            stands_for = re.search(r"[A-Z]{3,}", re.sub(r"README|ROOMS", "", path))
            if not stands_for and not glob.glob(path + "*"):
                wrong.append(f"{page}:{n}: there is no {path}")
check("files that pages name exist", wrong)

flags, verb = {}, None
for line in open("tests/golden/flags", encoding="utf-8"):
    if m := re.match(r"== (\S+)", line):
        verb = m[1]
        flags[verb] = set()
    elif m := re.match(r"  (-\S+)", line):
        flags[verb].add(m[1])
EXTRA = {"help": set(), "doctor": flags["doctor"] | flags["train"] | {"--cluster", "--wait"}}


def flags_wrong(words):
    """What is wrong with the words of a command behind heterps-run."""
    if "--" in words:
        at = words.index("--")
        return flags_wrong(words[:at]) or flags_wrong(words[at + 1:])
    verb = words[0] if words and words[0] in {**flags, **EXTRA} else "train"
    if verb == "train" and words and re.match(r"[a-z-]+$", words[0]) and words[0] not in ("train",):
        return f"no verb {words[0]}"
    for word in words:
        word = word.strip("[]").partition("=")[0]
        if (re.match(r"--[a-z]|-[a-z]$", word)
                and word not in EXTRA.get(verb, flags.get(verb, set())) | {"--help", "--version"}):
            return f"{verb} has no flag {word}"
    return None


def words_of(command):
    """Words up to what follows the program."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", re.split(r"\s[|>;&#]|\s{2,}#", command)[0]).split()


def braces(text):
    """The texts that a text with one {a,b} at most stands for."""
    m = re.match(r"(.*)\{(.*)\}(.*)$", text)
    return [m[1] + word + m[3] for word in m[2].split(",")] if m else [text]


def reasons():
    """(how a command begins, why it is not run), without "heterps-run" and braces."""
    return [(start.removeprefix("heterps-run "), why) for starts, why in INLINE + NOT_RUN for start in braces(starts)]


def reason_of(command):
    """The one of reasons() that a command within a sentence or a table begins with, the longest, or (None, None)."""
    command = re.sub(r"^[^|]*\| (?=heterps-run )", "", command)
    command = re.sub(r"^(?:(?!TESTS=|MODE=)[A-Z_]+=(?:'[^']*'|\S+) )+", "", command).removeprefix("heterps-run ")
    fitting = [(start, why) for start, why in reasons()
               if re.match(re.escape(start) + (r"(?![\w-])" if start[-1].isalnum() else ""), command)]
    return max(fitting, key=lambda reason: len(reason[0]), default=(None, None))


inline, wrong = [], []
for page in PAGES:
    for n, span in spans_of(page):
        m = (re.match(r"(?:[^|]*\| |(?:[A-Z_]+=\S+ )*)heterps-run (.*)", span)
             or re.match(rf"((?:GRAPH|{'|'.join(flags)}) \S.*)", span))
        if m and (why := flags_wrong(words_of(m[1]))):
            wrong.append(f"{page}:{n}: {span}: {why}")
        if m or re.match(r"(?:[A-Z_]+=(?:'[^']*'|\S+) )*(?:\./build\.sh|sh|python3|curl|torchrun|srun|mpiexec|grep|"
                         r"systemctl|build/\S+)(?: |$)|… --", span):
            inline.append((page, n, span, reason_of(span)))
        if m := re.match(r"grep -rE '(.*)'$", span):
            for word in m[1].split("|"):
                if not any(re.search(word, open(source, encoding="utf-8").read())
                           for source in glob.glob("[!bt]*/**/*.[ch]", recursive=True)):
                    wrong.append(f"{page}:{n}: {span}: no source has {word}")
        if re.match(r"(TESTS|MODE)=", span) and (m := re.match(r"TESTS='?([^' ]+)'? \./build\.sh test", span)):
            tests = glob.glob("tests/**/test_*", recursive=True)
            if not any(re.search(m[1].replace("\\|", "|"), t) for t in tests):
                wrong.append(f"{page}:{n}: {span}: no test is called so")
check("verbs, flags and tests that pages name exist", wrong)

# --- commands

commands, wrong = [], []
for page in PAGES:
    for begin, block, language in code_of(page):
        if language in ("python", "ini", "nginx"):
            continue
        has_prompt = any(line.startswith("$ ") for line in block)
        for i, line in enumerate(block):
            m = (re.match(r"\$ (.*)", line) if has_prompt
                 else re.match(rf"({'' if language == 'sh' else PROGRAMS}.*)", line))
            if m:
                end = next((j for j in range(i + 1, len(block)) if block[j].startswith("$ ")
                            or not has_prompt), len(block))
                why = next((reason for start, reason in NOT_RUN if m[1].startswith(start)), None)
                commands.append((page, begin + i, m[1], block[i + 1:end] if has_prompt else None, why))
                if m[1].startswith("heterps-run ") and (fault := flags_wrong(words_of(m[1])[1:])):
                    wrong.append(f"{page}:{begin + i}: {fault}")
                if why is None and not has_prompt:
                    wrong.append(f"{page}:{begin + i}: {m[1]}: give it a prompt ($) to be run, or a reason in NOT_RUN")
check("every command of a block is run here or has its reason", wrong)
check("every command within a sentence or a table has its reason",
      [f"{page}:{n}: {span}: give it a reason in INLINE" for page, n, span, (start, _) in inline if not start])
used = ({start for _, _, _, (start, _) in inline}
        | {start.removeprefix("heterps-run ") for start, _ in NOT_RUN if any(c[2].startswith(start) for c in commands)})
check("every reason is of a command", [start for start, _ in reasons() if start not in used])


def tests_of(why):
    """The files of tests that a reason names; one without a folder lies in tests/e2e."""
    return [name if "/" in name else f"tests/e2e/{name}"
            for name in re.findall(r"tests/\S+\.(?:sh|c)\b|\btest_\w+\.(?:sh|c)\b", why)]


def names_of(span):
    """What a test that runs the command must name: verb and subject together, but bench's; each flag, together with its
    value where this is a word; programs without their folder."""
    words = [word.strip("[]").partition("=")[0] for word in words_of(re.sub(r"^.*\bheterps-run ", "", span))]
    found = []
    for i, word in enumerate(words):
        after = words[i + 1] if i + 1 < len(words) else ""
        is_verb = word in {**flags, **EXTRA} and word != "bench" and (i == 0 or words[i - 1] == "--")
        pair = re.fullmatch(r"[a-z][a-z-]*(\.md)?", after) and (is_verb or re.match(r"--[a-z]", word))
        if pair or re.fullmatch(r"--[a-z-]+|[a-z-]+(\.md)?", word) and word not in ("python3", "sh"):
            found.append(f"{word} {after}" if pair else word)
        elif m := re.fullmatch(r"(?:tests|build)/(?:\S*/)?([\w-]+(?:\.sh|\.py)?)", word):
            found.append(m[1])
    return found


wrong = [f"{start}: there is no {test}" for start, why in reasons()
         for test in tests_of(why) if not os.path.isfile(test)]
for page, n, span, (start, why) in inline:
    if why and tests_of(why) and re.search(r"\bruns? it\b", why):
        told = "".join(open(test, encoding="utf-8").read() for test in tests_of(why) if os.path.isfile(test))
        missing = [name for name in names_of(span) if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", told)]
        wrong += ([f"{page}:{n}: {span}: {' and '.join(tests_of(why))} does not name {', '.join(missing)}"]
                  if missing else [])
check("tests that reasons name exist, and name what they run", wrong)

if "--list" in sys.argv:
    for page, n, command, _, why in commands:
        if why:
            print(f"{page}:{n}: {command}\n    {why}")
    for page, n, span, (_, why) in inline:
        print(f"{page}:{n}: {span}\n    {why}")


def shape(line):
    line = re.sub(r"[-+±]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", "#", line)
    line = re.sub(r"#\s?(KiB|MiB|GiB|B|ms|s|µs|ns|%|min)\b(/s)?", "#u", line)
    line = re.sub(r"#:#\b", "#", line)
    return re.sub(r"\s+", " ", re.sub(r"(# \w+?)s\b", r"\1", line)).strip()


def shapes(lines):
    """Shapes of lines; a line that goes on below is one, and the same line again is none."""
    found = []
    for line in lines:
        node = re.match(r"(\[\d+\]) ", line)
        rest = line[len(node[0]):] if node else line
        if re.match(r" {9,}\S", rest) and found:
            found[-1] += " " + shape(rest)
        elif rest.strip():
            found.append(shape(line))
    found = [f if (f.split() or [""])[1 if f.startswith("[") and " " in f else 0].strip() not in FREE_LINES
             else " ".join(f.split()[:2 if f.startswith("[") else 1])
             for f in found]
    return [f for i, f in enumerate(found) if i == 0 or f != found[i - 1]
            and not (f.split()[0] == "progress" == found[i - 1].split()[0])]


def between(lines, first, last):
    """The lines from the first that has one text to the first that has the other."""
    begin = next((i for i, line in enumerate(lines) if first in line), 0)
    return lines[begin:next((i for i, line in enumerate(lines) if last in line), len(lines)) + 1]


def differs(expected, found):
    """What of the expected lines is not found, in order; None if all are, and without "..." between no others."""
    pieces, at = [[]], 0
    for line in expected:
        if line.strip() in ("...", "…"):
            pieces.append([])
        else:
            pieces[-1].append(line)
    found = shapes(found)
    for i, piece in enumerate(pieces):
        piece = shapes(piece)
        places = [0] if i == 0 else range(at, len(found) - len(piece) + 1)
        if i == len(pieces) - 1 and i > 0 and piece:
            places = [len(found) - len(piece)]
        match = next((p for p in places if p >= at and found[p:p + len(piece)] == piece), None)
        if match is None:
            first = next((k for k, line in enumerate(piece) if line not in found), 0)
            return f"expected: {(piece or ['nothing'])[first]}; found: {' / '.join(found[at:at + 12])}"
        at = match + len(piece)
    if len(pieces) == 1 and at != len(found):
        return f"found besides: {found[at]}"
    return None


print(f"# {sum(1 for c in commands if c[4])} of {len(commands)} commands in blocks are not run here, each with its "
      "reason: python3 tests/pages.py --list")
program = next((a for a in sys.argv[1:] if not a.startswith("-")), None)
if program is None:
    if "--list" not in sys.argv:
        count += 1
        print(f"ok {count} - commands of pages # SKIP no program is given")
else:
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/bin")
        os.symlink(os.path.realpath(program), f"{folder}/bin/heterps-run")
        for name in ("samples", "cfg"):
            os.symlink(f"{root}/{name}", f"{folder}/{name}")
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}

        def run(command):
            return subprocess.run(["sh", "-c", command], cwd=folder, env=environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=120)

        settings = run("heterps-run help settings.md").stdout
        reference = text["cfg/README.md"].partition("<!-- settings -->\n")[2]
        check("the settings of cfg/README.md are those of the program", [] if settings == reference and settings else
              [next((f"{a!r} is not {b!r}" for a, b in zip(reference.splitlines(), settings.splitlines()) if a != b),
                    "one is longer")])
        for page, n, command, expected, why in commands:
            if why or expected is None:
                continue
            for start, words in BEFORE.items():
                if command.startswith(start):
                    run(words)
            less = command
            if " gen " in command:
                less = re.sub(r"\d{5,}", lambda m: str(int(m[0]) // LESS), command)
            if re.search("--plan |--threads 2", command) and len(os.sched_getaffinity(0)) < 2:
                count += 1
                print(f"ok {count} - {page}: {command} # SKIP it needs 2 cores")
                continue
            start = next((start for start in IN_PART if command.startswith(start)), None)
            done = run(less + IN_PART[start][0] if start else less)
            told = done.stdout.splitlines() # an error comes by another stream, and may come first
            if start:
                told, expected = between(told, *IN_PART[start][1:]), between(expected, *IN_PART[start][1:])
            fault = differs(expected, sorted(told, key=lambda line: line.startswith("heterps-run: error:")))
            fails = any(line.startswith("heterps-run: error:") for line in expected)
            if (done.returncode != 0) != fails:
                fault = f"exit status {done.returncode}: {done.stdout[-400:]}"
            check(f"{page}:{n}: {command[:90]}", [fault] if fault else [])
print(f"1..{count}")
sys.exit(failed != 0)
