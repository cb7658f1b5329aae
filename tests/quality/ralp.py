#!/usr/bin/env python3
"""RALP's speed-up over all-reduce by real processes over shaped links.

    python3 tests/quality/ralp.py [--program ./heterps-run] [--rounds 3] [--nets vgg11,…] [--classes 1001]
                                   [--factor 512] [--steps 8]

NODES nodes, each in a network namespace of its own on one bridge, send and receive at RATE / FACTOR each way,
shaped by tc's tbf. They train a net as all-reduce, every layer on all nodes; as RALP-N, the front on all but
one and the back on the last; and as RALP-H, the front on half of the nodes and the back on one more. Devices
are `paced`: they take a card's time. What crosses nodes is real: gradients, parameters and activations of a
graph with as many parameters before and behind the split, and as much that crosses it, as the net has, all
of it divided by FACTOR, the links' rate, too. Needs ./heterps-run, and what `./build.sh bench` builds.

Given, before anything is run: where a net is split, its bytes and operations (`plan --net`); RATE, the one link rate
that build/release/tests/bench/paper_ralp fits to VGG11 x 4, 120.6 images/s; and one compute rate a net, that of a
card alone as published, which paper_ralp cites and prints. The front's share of it is its share of operations.

Prints for every net images a second of each, RALP over all-reduce, and bytes a step of the node that sends most,
scaled back. Medians of ROUNDS turns. Status 1 unless AlexNet, Overfeat, VGG11 and VGG19 gain 1.2 times by RALP-N,
and the others lie between 0.85 and 1.3; with 21,841 classes, unless RALP-H beats all-reduce for each of the four;
77 with a sentence where there can be no namespaces.

Source: RALP, sections 4 and 6, Table 3 and figure 8."""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
NODES = 8
PACKET = 1514 / 1448  # bytes on an Ethernet a byte of TCP
TITLES = {"alexnet": "AlexNet", "googlenet": "GoogLeNet", "inception3": "Inception-v3", "overfeat": "Overfeat",
          "resnet50": "ResNet-50", "vgg11": "VGG11", "vgg19": "VGG19"}
BATCHES = {"alexnet": 512, "googlenet": 32, "inception3": 32, "overfeat": 512, "resnet50": 64, "vgg11": 64,
           "vgg19": 64}
FRIENDLY = {"alexnet", "overfeat", "vgg11", "vgg19"}


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def namespaces_enter():
    """Goes on in new namespaces, as the only process in them."""
    if os.environ.get("NAMESPACES_INSIDE") == "yes":
        return
    can = shutil.which("tc") and subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True)
    if not can or can.returncode != 0:
        print(f"{os.path.basename(sys.argv[0])}: there can be no network namespaces here (root, Debian: iproute2)",
              file=sys.stderr)
        sys.exit(77)
    os.environ["NAMESPACES_INSIDE"] = "yes"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
                          sys.executable, *sys.argv])


def bridge_make(name):
    run("ip", "link", "add", name, "type", "bridge")
    run("ip", "link", "set", name, "up")


def node_make(n, bridge):
    """Node n in a namespace of its own, on a cable to the bridge."""
    run("ip", "netns", "add", f"n{n}")
    run("ip", "link", "add", f"cable{n}", "type", "veth", "peer", "name", "eth0", "netns", f"n{n}")
    run("ip", "link", "set", f"cable{n}", "master", bridge, "up")
    run("ip", "-n", f"n{n}", "address", "add", f"10.77.1.{n + 1}/24", "dev", "eth0")
    for device in ("eth0", "lo"):
        run("ip", "-n", f"n{n}", "link", "set", device, "up")


def places_make():
    """Where names of namespaces lie, for this process and its children alone."""
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    os.mkdir("/run/netns")


def links_make(bits):
    """A bridge, and nodes on cables of that rate each way."""
    places_make()
    bridge_make("bridge")
    shape = ["root", "tbf", "rate", f"{bits:.0f}bit", "burst", "128kb", "latency", "100ms"]
    for n in range(NODES):
        node_make(n, "bridge")
        run("tc", "qdisc", "add", "dev", f"cable{n}", *shape)
        run("tc", "-n", f"n{n}", "qdisc", "add", "dev", "eth0", *shape)


def paper_rates():
    """The link's bytes a second, and images a second of a card by title, as paper_ralp has them."""
    program = f"{ROOT}/build/release/tests/bench/paper_ralp"
    if not os.path.exists(program):
        sys.exit("ralp.py: build/release/tests/bench/paper_ralp is not there; run ./build.sh bench")
    text = run(program)
    rate, cards = re.search(r"receives ([\d.]+) GB/s each way .*alone: (.*)\.\n", text).groups()
    return float(rate) * 1e9, {name: float(n) for name, n in re.findall(r"([A-Z][\w-]*) (\d+)", cards)}


class Net:
    """A net's bytes and times, and the graphs that stand for it."""

    rate = 0.01  # of learning

    def __init__(self, program, name, classes, factor, images):
        self.program, self.name, self.batch, self.images = program, name, BATCHES[name], images
        subprocess.run([program, "plan", "--net", name, "--classes", str(classes), "--batch", str(self.batch),
                        "--cluster", f"{ROOT}/cfg/paper2.cfg", "--method", "ralp", "--instance-out", "net.json",
                        "-o", "net.plan", "-q"], capture_output=True)
        with open("net.json") as file:
            layers = json.load(file)["layers"]
        with open("net.plan") as file:
            last = json.load(file)["stages"][0]["last"]
        front, back = layers[:last + 1], layers[last + 1:]
        # Of a core, whose times are operations alone: the slowest part.
        seconds = [sum(layer["oct"][0] - layer["fixed"][0] for layer in half) for half in (front, back)]
        self.front_share = seconds[0] / sum(seconds)
        crossing = max(1, round(front[-1]["cut_bytes"] / 8 / factor))
        weights = [sum(layer["weight_bytes"] for layer in half) / 4 / factor for half in (front, back)]
        widths = weights[0] / (14 + crossing), weights[1] / (crossing + 2)
        self.widths = [max(1, round(widths[0])), crossing, max(1, round(widths[1]))]

    def graph(self, lanes):
        """Compiled for as many workers."""
        text = "[model]\nname = net\n[data]\ndense = I1..I13\n"
        given = "dense"
        for number, units in enumerate([*self.widths, 1]):
            text += f"[fc f{number}]\ninput = {given}\nunits = {units}\n"
            given = f"f{number}"
        text += (f"[loss bce]\ninput = {given}\n[train]\nbatch = {lanes * self.batch}\nmicro = {self.batch}\n"
                 f"lanes = {lanes}\noptimizer = sgd {self.rate:f}\nprogressive = 0\n")
        with open("net.cfg", "w") as file:
            file.write(text)
        run(self.program, "compile", "net.cfg", "-o", "net.bin", "-q")

    def plan(self, workers, is_split):
        """Layers are f0..f3 and the loss; the front is f0 and f1."""
        whole, every = 1 / self.images, list(range(workers))
        stages = [(0, 4, whole, every)]
        if is_split:
            stages = [(0, 1, whole * self.front_share, every), (2, 4, whole * (1 - self.front_share), [workers])]
        with open("plan.json", "w") as file:
            json.dump({"format": "heterps-solution-1",
                       "types": [{"name": name, "device": "paced", "price_per_hour": 1, "limit": workers}
                                 for name in ("card", "back")[:len(stages)]],
                       "stages": [{"first": first, "last": last, "type": number, "k": 1, "replicas": 1,
                                   "et": max(seconds, 1e-9), "nodes": nodes}
                                  for number, (first, last, seconds, nodes) in enumerate(stages)]}, file)

    def train(self, workers, is_split, steps):
        """Images a second, and bytes a step of the node that sends most. The back has a node of its own."""
        count = workers + is_split
        self.graph(workers)
        self.plan(workers, is_split)
        run(self.program, "gen", "criteo", "--rows", str(workers * self.batch * 2), "-o", "data.tsv", "-q")
        places = ",".join(f"10.77.1.{n + 1}:4711" for n in range(count))
        train = [self.program, "net.bin", "--data", "data.tsv", "--nodes", places, "--insecure", "--plan", "plan.json",
                 "--set", f"train.steps_max={steps}", "--set", "train.epochs=1000", "--trace", "trace.json"]
        others = [subprocess.Popen(["ip", "netns", "exec", f"n{n}", *train, "--rank", str(n), "-q"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                  for n in range(1, count)]
        text = run("ip", "netns", "exec", "n0", *train, "--rank", "0", "--log", "json")
        for process in others:
            process.wait()
        nodes = next(e for e in map(json.loads, text.splitlines()) if e["event"] == "nodes")
        with open("trace.json.0") as file:
            trace = json.load(file)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        spans = [e for e in events if e.get("cat") == "update"]
        ends = [max(s["ts"] + s["dur"] for s in spans if s["args"]["step"] == step) for step in (0, steps - 1)]
        rate = (steps - 1) * workers * self.batch / (ends[1] - ends[0]) * 1e6
        return rate, max(each["sent_bytes_a_step"] for each in nodes["each"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=f"{ROOT}/heterps-run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nets", default=",".join(TITLES))
    parser.add_argument("--classes", type=int, default=1001)
    parser.add_argument("--factor", type=float, default=512)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    namespaces_enter()
    program = os.path.abspath(options.program)
    rate, cards = paper_rates()
    links_make(rate / options.factor * 8 * PACKET)
    print(f"{NODES} nodes, links of {rate / 1e9:.2f} GB/s each way; bytes and links divided by {options.factor:g}\n\n"
          "| net | a card alone | all-reduce | RALP-H | of it | RALP-N | of it | sent a step | RALP-H | RALP-N |\n"
          "|---|---|---|---|---|---|---|---|---|---|", flush=True)
    is_right, ways = True, ((NODES, False), (NODES // 2, True), (NODES - 1, True))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in options.nets.split(","):
            net = Net(program, name, options.classes, options.factor, cards[TITLES[name]])
            turns = [[net.train(*way, options.steps) for way in ways] for _ in range(options.rounds)]
            rates, sent = ([statistics.median(turn[way][k] for turn in turns) for way in range(3)] for k in (0, 1))
            half, most = (rates[way] / rates[0] for way in (1, 2))
            if options.classes >= 21841:
                is_right &= name not in FRIENDLY or half > 1
            else:
                is_right &= most >= 1.2 if name in FRIENDLY else 0.85 <= most <= 1.3
            mib = " | ".join(f"{count * options.factor / 2**20:,.0f} MiB" for count in sent)
            print(f"| {TITLES[name]} | {net.images:,.0f} | {rates[0]:,.1f} | {rates[1]:,.1f} | {half:.2f} | "
                  f"{rates[2]:,.1f} | {most:.2f} | {mib} |", flush=True)
        os.chdir("/")
    sys.exit(int(not is_right))


if __name__ == "__main__":
    main()
