#!/bin/sh
# kill -9 at random moments of a training that saves at every step, resumed until it is through: every save
# that is there verifies after each kill, and what comes out is, byte for byte, what an undisturbed run gives.
# CRASHES=N: so many kills (tests/quality/crash.sh: 1,000).
. "$(dirname "$0")/lib.sh"
cat >"$work/model.cfg" <<'CFG'
[data]
shuffle = 100
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 8
optimizer = adam 0.01
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h]
input = x
units = 16
activation = relu
[dropout d]
input = h
[fc y]
input = d
units = 1
[loss bce]
input = y
[train]
batch = 100
epochs = 2
[checkpoint]
every = 1
keep = 3
[store]
ram = 16MiB
CFG
"$HETERPS" compile "$work/model.cfg" -o "$work/graph.bin" -q && rows 2000 "$work/data.tsv" ||
    { echo "not ok 1 - fixture"; exit 1; }
python3 - "$HETERPS" "$work" "${CRASHES:-40}" "${SEED:-$(date +%s)}" <<'PYTHON'
import filecmp, os, random, shutil, subprocess, sys, time
program, work, kills, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
pick = random.Random(seed)
graph, data, model = (work + "/" + name for name in ("graph.bin", "data.tsv", "model"))

def heterps(*arguments):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)

def export(name, of):
    shutil.rmtree(work + "/" + name, ignore_errors=True)
    done = heterps("export", graph, "--model", of, "-o", work + "/" + name, "-q")
    return "" if done.returncode == 0 else done.stderr

def training(where):
    threads = ["--threads", pick.choice("12"), "--set", "checkpoint.wait=" + pick.choice(["yes", "no"]), "-q"]
    how = ["--resume", where] if os.path.exists(where + "/manifest.json") else ["--out", where]
    return subprocess.Popen([program, graph, "--data", data] + how + threads, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

# What fsck says of the directory: "" where all is well.
def fsck():
    done = heterps("fsck", model)
    counted["leftover"] += "\nleftover" in "\n" + done.stdout
    if os.path.exists(model + "/manifest.json"):
        return "" if done.returncode == 0 and "whole    " in done.stdout else done.stdout + done.stderr
    counted["early"] += 1
    return "" if not os.path.exists(model) or "expected a save, found no" in done.stderr else done.stdout + done.stderr

def run_through():
    """One training, killed until it ends by itself or there are kills enough; what is wrong with it."""
    global span_s
    shutil.rmtree(model, ignore_errors=True)
    before = counted["kill"]
    while True:
        child = training(model)
        try:
            _, error = child.communicate(timeout=pick.random() * span_s if counted["kill"] < kills else 300)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            counted["kill"] += 1
            wrong = fsck()
            if wrong: return "after kill %d:\n%s" % (counted["kill"], wrong)
            if counted["kill"] - before > 12: span_s *= 1.1
            continue
        if child.returncode: return "the training fails after %d kills: %s" % (counted["kill"], error.decode())
        counted["run"] += 1
        if counted["kill"] - before < 6: span_s *= 0.7
        files = sorted(os.listdir(work + "/whole"))
        wrong = fsck() or export("resumed", model)
        if not wrong and filecmp.cmpfiles(work + "/whole", work + "/resumed", files, shallow=False)[0] != files:
            wrong = "other bytes than the undisturbed run's"
        # Two, where few saves were waited for. Four, where the kill came behind the last save and before the
        # oldest was removed: a run with nothing left to do removes nothing.
        if not wrong and sum(name.startswith("manifest") for name in os.listdir(model)) not in (2, 3, 4):
            wrong = "not three saves: %s" % os.listdir(model)
        return wrong

counted = dict.fromkeys(("kill", "run", "leftover", "early"), 0)
begin = time.monotonic()
child = training(work + "/straight")
wrong = child.communicate()[1].decode() or export("whole", work + "/straight")
span_s = (time.monotonic() - begin) / 4 # and then such that a training takes some 6 to 12 attempts
while not wrong and counted["kill"] < kills: wrong = run_through()
print("%s 1 - killed at random moments and resumed: whole after every kill, the same bytes in the end"
      % ("not ok" if wrong else "ok"))
for text in wrong.splitlines(): print("#", text)
print("# %d kills in %d trainings of up to 40 saves: %d left files behind, %d came before the first save; seed %d" %
      (counted["kill"], counted["run"], counted["leftover"], counted["early"], seed))
print("1..1")
sys.exit(bool(wrong))
PYTHON
