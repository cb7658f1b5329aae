#!/usr/bin/env python3
"""A device slows down threefold while a graph trains on a cluster: what planning anew brings back.

    python3 tests/bench/slowdown.py [--program ./heterps-run] [--steps 1400]

Two types of one core each; from the middle of the run on, all that the first does takes 3 times as long. A
second run knows that from the start, and so has the plan made for it. Printed: samples a second before,
slowed, after planning anew, and of the second run; medians of what is told every second."""
import argparse, json, os, statistics, tempfile

from figure11 import GOAL, MODELS, run

TYPE = "[type {}]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = 1\n{}\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="./heterps-run")
    parser.add_argument("--steps", type=int, default=1400)
    options = parser.parse_args()
    program, work = options.program, tempfile.mkdtemp()
    data, graph, model = (os.path.join(work, name) for name in ("data.tsv", "m.bin", "m.cfg"))
    open(model, "w").write(MODELS["deep"])
    run(program, "gen", "criteo", "--rows", "200000", "-o", data, "-q")
    run(program, "compile", model, "-o", graph, "-q")

    def train(slow):
        cluster = os.path.join(work, "cluster.cfg")
        open(cluster, "w").write(TYPE.format("a", slow) + TYPE.format("b", "") + GOAL)
        out = run(program, graph, "--cluster", cluster, "--no-cache", "--data", data, "--log", "json",
                  "--set", "train.epochs=1000",
                  "--set", f"train.steps_max={options.steps}")
        return [json.loads(line) for line in out.splitlines()]

    def rate(events, begin, end):
        rates = [e["samples_per_s"] for e in events if e["event"] == "progress" and begin < e["step"] <= end]
        return statistics.median(rates) if rates else float("nan")

    slowed_from = options.steps * 2 // 5
    events, known = train(f"slow = all 3\nslow_from = {slowed_from}"), train("slow = all 3")
    replans = [e for e in events if e["event"] == "replan" and e["changed"] and e["step"] > slowed_from]
    if not replans:
        raise SystemExit("not planned anew")
    first, last = replans[0]["step"], replans[-1]["step"]
    before, slowed, after = (rate(events, 100, slowed_from), rate(events, slowed_from + 20, first),
                             rate(events, last, options.steps))
    other = rate(known, 100, options.steps)
    print(f"before {before:,.0f}, slowed {slowed:,.0f}, "
          f"planned anew at step {first} (slowed from {slowed_from}): {after:,.0f}; "
          f"the plan made for it {other:,.0f}: {after / other:.2f} of it")


main()
