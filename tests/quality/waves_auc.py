#!/usr/bin/env python3
"""Usage: python3 tests/quality/waves_auc.py [DATA] [--heterps PATH] [--seeds 3] [--distances 0,4,32]
                                          [--only auc|bounds] [--exact]

How long nodes take to an AUC under train.sync = wsp, by clock distance D; needs ./heterps-run.

Workers are processes over loopback, each a pipeline of two stages on `paced` devices, which compute for real
and take the time of a plan. One worker at a time is slow, in turn: FACTOR times as slow for TURN waves, then
the next one. DATA is a folder with adult/adult.data and adult/adult.test (UCI Adult); without it the data are
clicks of `gen criteo`. Beside the workers one process trains under bsp, with the same minibatches, passes and
seed: every D has to come within BOUND of its AUC. The time to an AUC is the clock's from the first step on,
less that of evaluations, to where the line between two evaluations first reaches bsp's last AUC less BOUND.
Means over seeds. Staleness: updates of another worker that a forward pass missed.

`bounds` has a worker that is always slow, so that others run as far ahead as D lets them. Staleness has to reach its
bounds, Nm - 1 of own updates and (D + 1) Nm + Nm - 2 of another worker's, and never to exceed them.

`--exact`: train.exact, so that a minibatch always misses all that D lets it miss; of one stage, since a worker then has
one minibatch under way. For comparison: only staleness is checked.

Source: HetPipe (Park et al., USENIX ATC 2020), sections 5 and 8.4: D = 4 takes 28 % less than D = 0, D = 32 is 4.7 %
behind D = 4. Status 1 unless D = 4 takes at most 0.85 of D = 0's time, D = 32 at least D = 4's, all have the AUC, and
bounds are reached and held."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
WORKERS, IN_FLIGHT, BATCH = 4, 2, 32
FACTOR, TURN = 4, 2  # times as slow, for so many waves
STAGE_SECONDS = 0.012  # of a minibatch, at each of the two stages, while it is not slow
WARMUP = 400  # steps in which rates rise: else who begins first runs away with the accumulators of adagrad
EVALUATIONS = 12  # a run, about, behind whole rounds of turns: each ends the job, so that waves begin anew
BOUND = 0.003


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def prepare(o, folder):
    """The graph, training and test data; and how many steps there are."""
    if o.data:
        train, test, sample = f"{o.data}/adult/adult.data", f"{o.data}/adult/adult.test", "adult"
        rows, passes = sum(1 for line in open(train) if line.strip()) - 1, 3
    else:
        train, test, sample, rows = f"{folder}/train.tsv", f"{folder}/test.tsv", "ctrdnn1", 98304
        passes = 1  # a second one overfits
        run(o.heterps, "gen", "criteo", "--rows", str(rows), "--seed", "5", "-o", train, "-q")
        run(o.heterps, "gen", "criteo", "--rows", "30000", "--skip", str(rows), "--seed", "5", "-o", test, "-q")
    run(o.heterps, "compile", f"{ROOT}/samples/{sample}.cfg", "-o", f"{folder}/graph.bin", "-q", "--set",
        f"train.batch={BATCH}", "--set", f"train.epochs={passes}", "--set", "store.ram=64MiB", "--set",
        f"train.in_flight={IN_FLIGHT}", "--set", f"train.schedule=constant warmup={WARMUP}")
    return f"{folder}/graph.bin", train, test, passes * -(-rows // BATCH)


def layers_of(o, graph):
    lines = subprocess.run([o.heterps, "inspect", graph], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("Layers:")) + 2
    return lines.index("", first) - first - 1  # behind them is their sum


def plan_write(path, layers, slow, is_exact):
    """Two stages on a unit each, one where a minibatch is alone; slow: what the type says of it."""
    parts = ((0, layers - 1),) if is_exact else ((0, layers // 2 - 1), (layers // 2, layers - 1))
    stages = [{"first": first, "last": last, "type": 0, "k": 1, "replicas": 1, "et": STAGE_SECONDS / BATCH}
              for first, last in parts]
    kind = {"name": "paced", "device": "paced", "price_per_hour": 1, "limit": 2, **slow}
    with open(path, "w") as file:
        json.dump({"format": "heterps-solution-1", "types": [kind], "stages": stages}, file)


def by_turns(worker):
    turn = TURN * IN_FLIGHT * WORKERS  # steps are dealt out to workers in turn
    return {"slow": f"all {FACTOR}", "slow_from": worker * turn, "slow_for": turn, "slow_every": WORKERS * turn}


def ports_free(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def events_of(commands, folder):
    """Starts them; what the first says, each with when it came."""
    logs = [open(f"{folder}/log.{i}", "w+") for i in range(len(commands))]
    nodes = [subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if i == 0 else subprocess.DEVNULL,
                              stderr=logs[i], text=True) for i, c in enumerate(commands)]
    events = [{**json.loads(line), "at": time.monotonic()} for line in nodes[0].stdout]
    ended = [node.wait() for node in nodes]
    for log in logs:
        log.seek(0)
    texts = [log.read() for log in logs]
    if any(ended):
        sys.exit(f"a node ended with {ended}:\n" + "\n".join(texts))
    for text in sorted({line for text in texts for line in text.splitlines() if "paced" in line}):
        print("# " + text, flush=True)
    return events


def train(o, folder, job, seed, distance, slow_of, more=(), is_exact=False):
    graph, data, test, layers = job
    nodes = ",".join(f"127.0.0.1:{port}" for port in ports_free(WORKERS))
    commands = []
    for worker in range(WORKERS):
        plan_write(f"{folder}/plan.{worker}", layers, slow_of(worker), is_exact)
        commands.append([o.heterps, graph, "--data", data, "--nodes", nodes,
                         "--rank", str(worker), "--insecure", "--share",
                         "--plan", f"{folder}/plan.{worker}", "--log", "json", "--set", "train.sync=wsp", "--set",
                         f"train.clock_distance={distance}", "--set", f"train.seed={seed}", "--set",
                         f"train.exact={'yes' if is_exact else 'no'}", *more])
        if test:
            commands[-1] += ["--eval", test]
    return events_of(commands, folder)


def last(events, name):
    return [e for e in events if e["event"] == name][-1]


def curve_of(events):
    """(seconds, AUC) at each evaluation."""
    begin, spent, points = next(e["at"] for e in events if e["event"] == "progress"), 0, []
    seen = set()
    for e in events:
        if e["event"] == "eval" and e["step"] not in seen:
            seen.add(e["step"])
            spent += e["seconds"]
            points.append((e["at"] - begin - spent, e["auc"]))
    return points


def time_to(points, auc):
    before = (0, 0.5)
    for seconds, now in points:
        if now >= auc:
            return before[0] + (seconds - before[0]) * (auc - before[1]) / (now - before[1])
        before = seconds, now
    return float("inf")


def to_auc(o, folder, job, steps):
    graph, data, test, _ = job
    turns = WORKERS * TURN * IN_FLIGHT * WORKERS  # steps in which each worker has its turn
    every = ["--set", f"eval.every={turns * max(1, round(steps / EVALUATIONS / turns))}"]
    distances = [int(d) for d in o.distances.split(",")]
    found = {d: [] for d in distances}
    best = []
    for seed in range(1, o.seeds + 1):
        bsp = events_of([[o.heterps, graph, "--data", data, "--eval", test, "--log", "json",
                          "--set", f"train.seed={seed}"]],
                        folder)
        best.append(last(bsp, "eval")["auc"])
        print(f"# seed {seed}: bsp {best[-1]:.4f}", flush=True)
        for d in distances:
            events = train(o, folder, job, seed, d, by_turns, every, o.exact)
            points, stale = curve_of(events), last(events, "done")["staleness"]
            found[d].append((time_to(points, best[-1] - BOUND), points[-1][1], points[-1][0], stale))
            print(f"#   D {d:2}: {found[d][-1][0]:.2f} s of {points[-1][0]:.2f}; AUC " +
                  " ".join(f"{auc:.4f}" for _, auc in points), flush=True)
    print(f"\n| D | s to bsp's AUC less {BOUND} | over the first | s in all | over the first | AUC less bsp's "
          "| missing of others, mean | most | bound |\n|---|---|---|---|---|---|---|---|---|")
    seconds, apart = {}, {}
    for d in distances:
        mean = lambda i: statistics.mean(x[i] for x in found[d])
        seconds[d], apart[d] = mean(0), mean(1) - statistics.mean(best)
        whole = statistics.mean(x[2] for x in found[distances[0]])
        print(f"| {d} | {seconds[d]:.2f} | {seconds[d] / seconds[distances[0]]:.3f} "
              f"| {mean(2):.2f} | {mean(2) / whole:.3f} "
              f"| {apart[d]:+.4f} | {statistics.mean(x[3]['global_mean'] for x in found[d]):.2f} "
              f"| {max(x[3]['global_max'] for x in found[d])} | {found[d][0][3]['global_bound']} |")
    checks = [(all(x[3]["global_max"] <= x[3]["global_bound"]
                   and x[3]["local_max"] <= x[3]["local_bound"] for x in found[d]),
                f"D = {d}: staleness is within its bounds") for d in distances]
    if o.exact:
        return checks
    checks += [(apart[d] >= -BOUND, f"D = {d}: the AUC is within {BOUND} of bsp's, or above") for d in distances]
    if 0 in seconds and 4 in seconds:
        checks.append((seconds[4] <= 0.85 * seconds[0],
                       f"D = 4 takes {seconds[4] / seconds[0]:.3f} of D = 0's time; asked: 0.85"))
    if 4 in seconds and 32 in seconds:
        checks.append((seconds[32] >= seconds[4],
                       f"D = 32 takes {seconds[32] / seconds[4]:.3f} of D = 4's time; asked: at least 1"))
    return checks


def bounds(o, folder, job):
    checks = []
    for d in (0, 1, 4, 32):
        steps = WORKERS * IN_FLIGHT * (3 * d + 20)
        slow = lambda worker: {"slow": "all 8"} if worker == 1 else {}
        s = last(train(o, folder, (job[0], job[1], None, job[3]), 1, d, slow, ["--set", f"train.steps_max={steps}"]),
                 "done")["staleness"]
        print(f"# D {d:2}, one always slow: misses {s['local_max']} of its own at most, bound {s['local_bound']}; "
              f"{s['global_max']} of another, bound {s['global_bound']}", flush=True)
        checks.append(((s["local_max"], s["global_max"]) == (s["local_bound"], s["global_bound"]) ==
                       (IN_FLIGHT - 1, (d + 1) * IN_FLIGHT + IN_FLIGHT - 2),
                       f"D = {d}: staleness reaches its bounds, and no more"))
    return checks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--heterps", default=f"{ROOT}/heterps-run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--distances", default="0,4,32")
    parser.add_argument("--only", choices=("auc", "bounds"))
    parser.add_argument("--exact", action="store_true")
    o = parser.parse_args()
    o.heterps = os.path.abspath(o.heterps)
    with tempfile.TemporaryDirectory() as folder:
        graph, data, test, steps = prepare(o, folder)
        job = graph, data, test, layers_of(o, graph)
        checks = bounds(o, folder, job) if o.only != "auc" else []
        checks += to_auc(o, folder, job, steps) if o.only != "bounds" else []
    for i, (is_good, what) in enumerate(checks, 1):
        print(f"{'ok' if is_good else 'not ok'} {i} - {what}")
    print(f"# load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    sys.exit(not all(is_good for is_good, _ in checks))


if __name__ == "__main__":
    main()
