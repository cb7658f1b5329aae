#!/usr/bin/env python3
"""What division by bandwidth saves where one node's link is slower, by real processes over shaped links.

    python3 tests/quality/links.py [--program ./heterps-run] [--rounds 3] [--rate 400] [--steps 8]
                                    [--layers 16] [--units 512] [--nodes 3,4] [--slow 0.5,0.1]

NODES nodes, each in a network namespace of its own on one bridge, send and receive at RATE Mbit/s each way,
shaped by tc's tbf; one of them at SLOW times as much. They train LAYERS equal layers of UNITS, a lane each, with
hardly any computation: once as they are, with even slices, and once with cluster.bandwidth, which tells the rates.
In units of the time that the dense part takes at RATE, prints seconds a step of both, and what
engine/node/README.md reckons: the greatest of (1 + (K - 2) s) / b over the nodes, of share s and bandwidth b.
Medians of ROUNDS turns; nine minutes. Status 1 unless a step by bandwidth is shorter than an even one in each
case, and all trainings leave the same bytes; 77 with a sentence where there can be no namespaces."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from ralp import Net, PACKET, ROOT, bridge_make, namespaces_enter, node_make, places_make, run


def shape(n, mbit):
    """Sends and receives at that rate from now on."""
    form = ["root", "tbf", "rate", f"{mbit * 1000 * PACKET:.0f}kbit", "burst", "128kb", "latency", "100ms"]
    run("tc", "qdisc", "replace", "dev", f"cable{n}", *form)
    run("tc", "-n", f"n{n}", "qdisc", "replace", "dev", "eth0", *form)


class Deep(Net):
    """Equal layers, an example a lane; so slow to learn that no loss is infinite."""

    rate = 0.00001

    def __init__(self, program, layers, units):
        self.program, self.batch, self.widths = program, 1, [units] * layers

    def dense_bytes(self):
        ends = [13, *self.widths, 1]
        return 4 * sum((before + 1) * behind for before, behind in zip(ends, ends[1:]))


def reckon(rates):
    """The greatest (1 + (K - 2) s) / b with even shares s, and the least that it can be: all shares that nodes may
    have within the time sum up to 1."""
    count, most = len(rates), max(rates)
    even = (2 - 2 / count) * most / min(rates)
    low, high = most / min(rates), even  # its own sums alone
    for _ in range(100):
        middle = (low + high) / 2
        may = sum((middle * rate / most - 1) / (count - 2) for rate in rates) >= 1
        low, high = (low, middle) if may else (middle, high)
    return even, high


def train(program, nodes, steps, out, *more):
    """Seconds a step, and the trained bytes."""
    places = ",".join(f"10.77.1.{n + 1}:4711" for n in range(nodes))
    words = [program, "net.bin", "--data", "data.tsv", "--nodes", places, "--insecure", "--threads", "1",
             "--out", out, "--set", f"train.steps_max={steps}", "--set", "train.epochs=1000", *more]
    others = [subprocess.Popen(["ip", "netns", "exec", f"n{n}", *words, "--rank", str(n), "-q"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
              for n in range(1, nodes)]
    done = subprocess.run(["ip", "netns", "exec", "n0", *words, "--rank", "0", "--log", "json"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    for process in others:
        process.wait()
    if done.returncode:
        sys.exit(f"links.py: {done.stderr.strip()}")
    end = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "done"][-1]
    run(program, "export", "net.bin", "--model", out, "-o", f"{out}.values", "-q")
    with open(f"{out}.values/dense.safetensors", "rb") as file:
        return end["seconds"] / end["step"], file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=f"{ROOT}/heterps-run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=400)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--units", type=int, default=512)
    parser.add_argument("--nodes", default="3,4")
    parser.add_argument("--slow", default="0.5,0.1")
    options = parser.parse_args()
    all_nodes, all_slow = [int(n) for n in options.nodes.split(",")], [float(s) for s in options.slow.split(",")]
    namespaces_enter()
    program = os.path.abspath(options.program)
    os.environ["HETERPS_GPU"] = "off"
    places_make()
    bridge_make("bridge")
    for n in range(max(all_nodes)):
        node_make(n, "bridge")
    is_right = True
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(program, "gen", "criteo", "--rows", "64", "-o", "data.tsv", "-q")
        print("| nodes | the slow one's rate | even: reckoned | measured | by bandwidth: reckoned | measured | "
              "by bandwidth / even |\n|---|---|---|---|---|---|---|", flush=True)
        for nodes in all_nodes:
            net = Deep(program, options.layers, options.units)
            net.graph(nodes)
            unit = net.dense_bytes() * 8 / (options.rate * 1e6)
            for slow in all_slow:
                rates = [options.rate] * (nodes - 1) + [options.rate * slow]
                for n, rate in enumerate(rates):
                    shape(n, rate)
                told = "cluster.bandwidth=" + ",".join(f"{rate * 1e6 / 8:.0f}" for rate in rates)
                turns = [(train(program, nodes, options.steps, f"even{nodes}{slow}{turn}"),
                          train(program, nodes, options.steps, f"by{nodes}{slow}{turn}", "--set", told))
                         for turn in range(options.rounds)]
                even, by = (statistics.median(turn[k][0] for turn in turns) / unit for k in range(2))
                reckoned = reckon(rates)
                print(f"| {nodes} | {slow:g} | {reckoned[0]:.2f} | {even:.2f} | {reckoned[1]:.2f} | {by:.2f} | "
                      f"{by / even:.2f} |", flush=True)
                is_right &= by < even and len({one[1] for turn in turns for one in turn}) == 1
        os.chdir("/")
    sys.exit(int(not is_right))


if __name__ == "__main__":
    main()
