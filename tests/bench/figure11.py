#!/usr/bin/env python3
"""Figure 11 of HeterPS for real: what every method's plan costs where it trains, on two nodes of unlike speed.

    python3 tests/bench/figure11.py [--program ./heterps-run] [--rounds 3] [--seconds 8] [--models matchnet,…]

Node 0 has cores, node 1 two cards, at HeterPS's prices of an hour. Both are `paced` devices, which compute for
real and end when their profile says: a core takes FC_SLOW times as long in fully connected layers as a core of
this machine, a card CARD_SLOW times as long in look-ups, whose rows come over its bus. A share ALPHA of a layer
divides among units, for a machine with few cores cannot tell how so many divide. All times are TIME_SCALE
times as long, so that both nodes' units find the processor here, or longer, so that a run has at most RATE_MAX
examples a second and little of a pass is the machine's own.

For each model a tight and a loose limit, shares of the most that a plan can reach. Each method plans; each
distinct plan is trained by `launch --local 2`, or by one process where it lies on one node, all in turn, ROUNDS
times. Printed: expected and measured examples a second, as if the times were not scaled; USD for a million
examples, measured; that over the cost of `auto`, beside what the paper has over its own method at most. A plan
that misses the limit has no cost. Status 1 unless auto costs at most what the cheapest measured plan does / 0.98,
and on one model both single types cost 1.5 times as much, or miss the limit.

Source: Liu et al., "HeterPS", 2021, section 6.2, figure 11."""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
FC_SLOW, CARD_SLOW, TIME_SCALE, RATE_MAX = 100, 8, 32, 1000
CORES, CARDS = 16, 2
BATCH, MICRO, ALPHA = 128, 16, 0.95
PRICES = {"core": 0.04, "card": 2.42}
LIMITS = {"tight": 0.9, "loose": 0.3}
METHODS = ["auto", "exact", "rl", "rl-rnn", "bo", "genetic", "greedy", "cpu", "gpu", "heuristic", "inverse"]
PAPER = {"rl": 0, "rl-rnn": 6.86, "bo": 1.98, "genetic": 0.135, "greedy": 1.59, "cpu": 3.36, "gpu": 10.44,
         "heuristic": 1.59}
NEAR = 0.97  # of the limit: a run that reaches this much has not missed it
MODELS = {"matchnet": "matchnet", "ctrdnn": "ctrdnn16", "2emb": "2emb", "nce": "nce"}


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def types(device, more):
    """The two sections of a cluster's types."""
    text = ""
    for number, (name, slow) in enumerate((("core", f"fc {FC_SLOW}"), ("card", f"embedding {CARD_SLOW}"))):
        text += (f"[type {name}]\ndevice = {device}\nprice_per_hour = {PRICES[name]}\n" +
                 more(name, number, slow))
    return text


def cluster(goal):
    limits = {"core": CORES, "card": CARDS}
    return (f"[goal]\nthroughput = {goal}\n" +
            types("paced", lambda name, number, slow: f"profile = stored.json\nlimit = {limits[name]}\n"
                                                      f"node = {number}\n") +
            "[node 0]\ncores = 64\n[node 1]\ncores = 64\n[link]\nbandwidth = 1e10\nlatency = 1e-5\n")


def words(path):
    """A text with Zipf's law, for the language model."""
    draw = random.Random(1)
    known = [f"w{i}" for i in range(5000)]
    weights = [1 / (i + 1) for i in range(len(known))]
    with open(path, "w") as file:
        for _ in range(5000):
            file.write(" ".join(draw.choices(known, weights, k=20)) + "\n")


class Bench:
    def __init__(self, options, folder):
        self.program, self.folder, self.seconds = os.path.abspath(options.program), folder, options.seconds

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def heterps(self, *arguments):
        return run(self.program, *arguments, cwd=self.folder)

    def plan(self, *arguments):
        """None: the method says that it cannot, or that no plan reaches the limit."""
        path = os.path.join(self.folder, "plan.json")
        if os.path.exists(path):
            os.remove(path)
        subprocess.run([self.program, "plan", *arguments, "-o", "plan.json", "-q"], cwd=self.folder,
                       stdin=subprocess.DEVNULL, capture_output=True)
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return json.load(file)

    def prepare(self, model):
        more = []
        if model == "nce":
            words(os.path.join(self.folder, "data"))
            more = ["--set", f"words.path={self.folder}/data"]
        self.heterps("compile", f"{ROOT}/samples/{MODELS[model]}.cfg", "-o", "graph.bin", "-q", "--set",
                     f"train.batch={BATCH}", "--set", f"train.micro={MICRO}", *more)
        if model != "nce":
            self.heterps("gen", "graph.bin", "--rows", "100000", "-o", "data", "-q")
        self.write("measured.cfg", types("cpu", lambda name, number, slow: f"limit = 1\nslow = {slow}\n"))
        self.heterps("profile", "graph.bin", "--cluster", "measured.cfg", "--data", "data", "-o", "stored.json",
                     "-q", "--no-cache")
        with open(os.path.join(self.folder, "stored.json")) as file:
            stored = json.load(file)
        for layer in stored["layers"]:
            layer["alpha"] = [ALPHA] * len(PRICES)
            layer.pop("alpha_low", None)
            layer.pop("alpha_high", None)
        self.write("stored.json", json.dumps(stored))
        self.write("cluster.cfg", cluster("max"))
        fastest = self.plan("graph.bin", "--cluster", "cluster.cfg", "--data", "data", "--no-cache")
        self.scale = max(TIME_SCALE, fastest["expected"] / RATE_MAX)
        return fastest["expected"]

    def plans(self, goal):
        """By method; as {"cost": …, "stages": …}."""
        self.write("cluster.cfg", cluster(goal))
        found = {"auto": self.plan("graph.bin", "--cluster", "cluster.cfg", "--data", "data", "--instance-out",
                                   "instance.json")}
        for method in METHODS[1:]:
            found[method] = self.plan("--instance", "instance.json", "--method", method, "--seconds", "2")
        for method, plan in found.items():
            if plan is None or any(stage["k"] == 0 for stage in plan["stages"]):
                print(f"{method} has no plan that can run", file=sys.stderr)
                found[method] = None
        return {method: plan for method, plan in found.items() if plan}

    def rate(self, plan):
        """Examples a second, as if times were not scaled: of whole steps, by the end of each in the run's trace."""
        self.write("run.json", json.dumps(dict(plan, time_scale=self.scale, feasible=True)))
        expected = plan.get("expected", plan["throughput"]) / self.scale
        steps = 1 + max(2, round(self.seconds * expected / BATCH))
        train = ["graph.bin", "--data", "data", "--plan", "run.json", "--trace", "trace.json", "-q", "--set",
                 f"train.steps_max={steps}", "--set", "train.epochs=1000"]
        self.heterps(*(["launch", "--local", "2", "--", *train] if "node" in plan["stages"][0] else train))
        with open(os.path.join(self.folder, "trace.json")) as file:
            trace = json.load(file)  # one node's file is a list of its events
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        spans = [event for event in events if event.get("cat") == "op"]
        ends = [max(s["ts"] + s["dur"] for s in spans if s["args"]["step"] == step) for step in (0, steps - 1)]
        return (steps - 1) * BATCH / (ends[1] - ends[0]) * 1e6 * self.scale


def shape(plan):
    names = plan["layers"]
    return " / ".join(f"{names[s['first']]}..{names[s['last']]} on {s['k']} {plan['types'][s['type']]['name']}"
                      for s in plan["stages"])


def cost(plan, rate):
    """USD for a million examples."""
    an_hour = sum(s["k"] * plan["types"][s["type"]]["price_per_hour"] for s in plan["stages"])
    return an_hour / 3600 * 1e6 / rate


def compare(bench, model, name, goal, rounds, rates):
    """Prints the rows of a model and limit; `rates` keeps what was measured under another limit. Returns auto's cost
    over the cheapest's, and the lesser single type's over auto's."""
    plans = bench.plans(goal)
    distinct = {}
    for method, plan in plans.items():
        distinct.setdefault(shape(plan), []).append(method)
    new = [key for key in distinct if key not in rates]
    for _ in range(rounds):
        for key in new:
            rates.setdefault(key, []).append(bench.rate(plans[distinct[key][0]]))
    costs = {}
    for key, methods in distinct.items():
        rate = statistics.median(rates[key])
        costs[key] = cost(plans[methods[0]], rate) if rate >= NEAR * goal else float("inf")
    auto = costs[shape(plans["auto"])]
    for key, methods in sorted(distinct.items(), key=lambda item: costs[item[0]]):
        plan, rate = plans[methods[0]], statistics.median(rates[key])
        expected = plan.get("expected", plan["throughput"])
        paper = ", ".join(f"{m} +{100 * PAPER[m]:.0f} %" for m in methods if PAPER.get(m))
        over = f"{100 * (costs[key] / auto - 1):+.1f} %" if costs[key] < float("inf") else "misses it"
        usd = f"{costs[key]:.3f}" if costs[key] < float("inf") else ""
        print(f"| {model} | {name}, {goal:,.0f}/s | {', '.join(methods)} | {key} | {expected:,.0f} | {rate:,.0f} | "
              f"{rate / expected:.3f} | {usd} | {over} | {paper} |", flush=True)
    singles = [costs[shape(plans[method])] for method in ("cpu", "gpu") if method in plans]
    is_missed = auto == float("inf")
    return (auto if is_missed else auto / min(costs.values())), (0 if is_missed else min(singles) / auto)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="./heterps-run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a measured run, about")
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    print("| model | limit | methods | plan | expected | measured | of it | USD a million | over auto | paper's most |"
          "\n|---|---|---|---|---|---|---|---|---|---|")
    over_best, over_single = [], []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        for model in options.models.split(","):
            fastest, rates = bench.prepare(model), {}
            for name, share in LIMITS.items():
                best, single = compare(bench, model, name, share * fastest, options.rounds, rates)
                over_best.append(best)
                over_single.append(single)
    print(f"auto costs at most {max(over_best):.3f} of the cheapest measured plan (asked 1/0.98); the cheaper single "
          f"type {min(over_single):.2f} to {max(over_single):.2f} of auto's cost (asked 1.5 on one model)")
    sys.exit(int(max(over_best) > 1 / 0.98 or max(over_single) < 1.5))


if __name__ == "__main__":
    main()
