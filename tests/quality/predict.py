#!/usr/bin/env python3
"""Compares what `plan` expects of a run with what the run reaches, for models and cluster shapes.

Usage: python3 tests/quality/predict.py [--heterps ./heterps-run] [--rounds 5] [--models ctrdnn,ctrdnn1,…]
           [--shapes cores,spare,types,nodes,split] [--set SECTION.KEY=VALUE]

Shapes: cores: all cores here are of one type; spare: one core less; types: two types, of half of the cores each;
nodes: two nodes share all layers, each with half of the cores; split: the planner may lay layers on either of two
nodes. One node is tried by `plan --try`; two run by `launch --local 2`, whose links `doctor --cluster` measures
first. All shapes of all models take turns, ROUNDS times, each with a profile of its own. Prints for every model and
shape the medians of the expected rate and of the measured one, and measured over expected, median, least and
greatest; then the median of all and the worst. Status 1 if these are beyond 5 % and 15 %. A busy machine measures
its neighbours: a line says how busy it was.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROWS = {"matchnet": 200_000, "ctrdnn1": 2_000_000}
SECONDS = 6  # of a measured run, about


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heterps", default="./heterps-run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", default="ctrdnn,ctrdnn1,matchnet,dlrm")
    parser.add_argument("--shapes", default="cores,spare,types,nodes,split")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    program, samples = os.path.abspath(options.heterps), os.path.join(os.path.dirname(__file__), "../../samples")
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(program, folder, options.set)
        found = {}
        for model in options.models.split(","):
            trial.prepare(model, os.path.join(samples, model + ".cfg"))
        for number in range(options.rounds):
            for model in options.models.split(","):
                for shape in options.shapes.split(","):
                    found.setdefault((model, shape), []).append(trial.measure(model, shape))
            print(f"round {number + 1} of {options.rounds}: load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    sys.exit(tell(found))


def tell(found):
    """The table; returns the status."""
    print(f"{'model':10}{'shape':8}{'expected':>12}{'measured':>12}{'of it':>8}{'least':>8}{'greatest':>10}")
    ratios, worst = [], 1
    for (model, shape), pairs in found.items():
        expected, measured = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        of = [m / e for e, m in pairs]
        ratio = statistics.median(of)
        ratios.append(ratio)
        worst = max(worst, ratio, 1 / ratio)
        print(f"{model:10}{shape:8}{expected:12,.0f}{measured:12,.0f}{ratio:8.3f}{min(of):8.3f}{max(of):10.3f}")
    median = statistics.median(ratios)
    print(f"median of all {median:.3f} (asked 0.95 to 1.05), the worst off by {worst - 1:.1%} (asked 15 %)")
    return int(abs(median - 1) > 0.05 or worst > 1.15)


class Trial:
    def __init__(self, program, folder, settings):
        self.program, self.folder, self.settings = program, folder, [t for s in settings for t in ("--set", s)]
        self.cores = len(os.sched_getaffinity(0))

    def run(self, *arguments, before=()):
        done = subprocess.run([*before, self.program, *arguments], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"heterps-run {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def prepare(self, model, text):
        """A graph for one node, one with a lane for each of two, and data."""
        for lanes in (1, 2):
            self.run("compile", text, "-o", f"{model}.{lanes}.bin", "-q", "--set", f"train.lanes={lanes}",
                     *self.settings)
        what = f"{model}.1.bin" if model == "matchnet" else "criteo"
        self.run("gen", what, "--rows", str(ROWS.get(model, 500_000)), "-o", f"{model}.data", "-q")

    def cluster(self, shape):
        half = max(1, self.cores // 2)
        types = {"cores": [("cpu", self.cores, "")], "spare": [("cpu", max(1, self.cores - 1), "")],
                 "types": [("cpu", half, ""), ("other", half, "")],
                 "nodes": [("cpu", half, "nodes = 0, 1\n")],
                 "split": [("cpu", half, "node = 0\n"), ("other", half, "node = 1\n")]}[shape]
        text = "[goal]\nthroughput = max\n"
        for name, limit, node in types:
            text += f"[type {name}]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = {limit}\n{node}"
        if "node" in types[0][2]:
            self.run("launch", "--local", "2", "--", "doctor", "--cluster", "--links", "links.cfg")
            text += open(os.path.join(self.folder, "links.cfg")).read()
        with open(os.path.join(self.folder, "cluster.cfg"), "w") as file:
            file.write(text)
        return len(types[0][2]) > 0

    def measure(self, model, shape):
        """Expected and measured examples/s."""
        has_nodes = self.cluster(shape)
        lanes = 2 if shape == "nodes" else 1
        plan = ["plan", f"{model}.{lanes}.bin", "--cluster", "cluster.cfg", "--data", f"{model}.data", "--no-cache",
                "--log", "json", "-o", "plan.json"]
        if has_nodes:
            event = self.event(self.run(*plan), "plan")
            done = self.launched(model, lanes)
            return event["expected"], done
        # The plan of auto is by the first of these methods that is there; --try adds others.
        events = {}
        for event in self.events(self.run(*plan, "--try", str(SECONDS))):
            if event["event"] == "plan" and "measured" in event:
                events.setdefault(event["method"], event)
        for method in ("adapted", "exact", "rl", "rl+polish"):
            if method in events:
                return events[method]["expected"], events[method]["measured"]
        sys.exit(f"{model}, {shape}: the plan was not tried")

    def launched(self, model, lanes):
        """Examples/s of a run of the plan's nodes; a plan on one node runs there alone."""
        with open(os.path.join(self.folder, "plan.json")) as file:
            plan = json.load(file)
        count = len({n for s in plan["stages"] for n in s.get("nodes", [s["node"]] if "node" in s else [])})
        train = [f"{model}.{lanes}.bin", "--data", f"{model}.data", "--plan", "plan.json", "--log", "json"]
        nodes = ["launch", "--local", str(count), "--"] if count > 1 else []
        # A node has half of the cores, also where it is the only one.
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[: max(1, self.cores // 2)]))
        if nodes:
            text = self.run(*nodes, *train, "--share")
        else:
            text = self.run(*train, before=["taskset", "-c", cores])
        return self.event(text, "done")["samples_per_s"]

    @staticmethod
    def events(text):
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def event(self, text, name):
        return next(e for e in self.events(text) if e["event"] == name)


if __name__ == "__main__":
    main()
