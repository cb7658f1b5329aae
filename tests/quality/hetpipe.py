#!/usr/bin/env python3
"""HetPipe's Table 4, ED-local, by real processes over shaped links.

    python3 tests/quality/hetpipe.py [--program ./heterps-run] [--nets vgg19,resnet152] [--cards 4,8,12,16]
                                      [--factor 128] [--slower 4] [--waves 16] [--rounds 3] [--all-reduce]

Machines of four cards: V, VR, VRQ and VRQG of cfg/hetpipe-NET.cfg. A card is a process in a network namespace of its
own, with a `sim` device that takes the card's time. The cards of a machine are on a bridge, by cables of the text's
link_bandwidth each way; and on a bridge of all machines, where each receives a fourth of network_bandwidth, its
worker's share in the simulation. Streams share a link evenly. `plan --workers -o` makes the plan, with the paper's
minibatches in flight; processes take its times, its cuts' bytes and its nodes. What crosses is real: activations,
gradients and waves of a graph with as many parameters in each stage, and as much that crosses each cut, as the net
has. Bytes are divided by FACTOR, times are multiplied by SLOWER, and links divided by both; figures are printed as of
the real cards.

Prints images a second: the paper's; HetPipe's model, where a card receives or computes; the simulation of what
nodes of this program do, which receive while they compute (both of `plan --workers`); processes, and the ratio of
processes to this simulation. Medians of ROUNDS turns. With --all-reduce also one turn of all cards by bsp, whose
owners send to all, beside Horovod's of the paper and of the ring that `plan` reckons.

Seven minutes a round. Status 1 unless all ratios lie between 0.9 and 1.1; 77 with a sentence where there can be no
namespaces.

Source: HetPipe, section 8, Tables 1 and 4."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from ralp import Net, ROOT, bridge_make, namespaces_enter, node_make, places_make, run

BATCH = 32
MACHINES = "VRQG"  # in the order of the sets
PER_MACHINE = 4
IN_FLIGHT = {"vgg19": (5, 4, 5, 5), "resnet152": (5, 5, 6, 7)}  # of Table 4, a worker
PAPER = {"vgg19": (300, 530, 572, 606), "resnet152": (256, 516, 538, 580)}
HOROVOD = {"vgg19": (164, 205, 265, 339), "resnet152": (233, 353, 415, None)}
TITLES = {"vgg19": "VGG-19", "resnet152": "ResNet-152"}
MTU = 4000
PACKET = (MTU + 14) / (MTU - 52)  # bytes on an Ethernet a byte of TCP
WINDOW = 12  # packets that a connection may have on its way: queues of more would hold small messages up


def cluster_make(name, machines):
    """The types of these machines, of the project's text; its two bandwidths."""
    with open(f"{ROOT}/cfg/hetpipe-{name}.cfg") as file:
        sections = re.findall(r"^(\[.*?)(?=^\[|\Z)", file.read(), re.M | re.S)
    text = "".join(s for s in sections if s[6] in machines or not s.startswith("[type"))
    with open("cluster.cfg", "w") as file:
        file.write(text)
    keys = "link_bandwidth", "network_bandwidth"
    return [float(re.search(rf"^{key} = (.*)$", text, re.M).group(1)) for key in keys]


def shape(rate, device, key, peers, namespace=None):
    """Shapes what leaves a device: peers that send share it evenly, and receipts wait for nobody, as on a switch with
    a queue a stream. key: src or dst, which names the peer."""
    tc = ["tc", *(["-n", namespace] if namespace else [])]
    bits = rate * 8 * PACKET

    def class_add(name, parent, share, first):
        run(*tc, "class", "add", "dev", device, "parent", parent, "classid", name, "htb", "rate",
            f"{bits * share:.0f}bit", "ceil", f"{bits:.0f}bit", "burst", "5kb", "cburst", "5kb", "quantum", str(MTU),
            "prio", str(first))

    def filter_add(prio, match, name):
        run(*tc, "filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "prio", str(prio), "u32", "match",
            *match, "flowid", name)

    run(*tc, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "2")
    class_add("1:1", "1:", 1, 0)
    class_add("1:2", "1:1", 0.1, 0)
    filter_add(1, ["u16", "0", "0xff80", "at", "2"], "1:2")  # up to 127 bytes
    for peer in peers:
        name = f"1:{peer + 16:x}"
        class_add(name, "1:1", 0.9 / len(peers), 1)
        filter_add(2, ["ip", key, f"10.77.1.{peer + 1}"], name)


def cable_tune(n, inside, outside):
    """Packets of MTU, alone, so that a long one holds nobody up; what routes of a connection say."""
    for command in (["ip", "-n", f"n{n}", "link", "set", inside], ["ip", "link", "set", outside]):
        run(*command, "mtu", str(MTU), "gso_max_segs", "1", "up")
    return ["dev", inside, "src", f"10.77.1.{n + 1}", "cwnd", "lock", str(WINDOW)]


def machines_make(count, inside, between, scale):
    """A bridge for each machine with its cards, and one for all cards, on which a card, as its worker's, has an even
    share of what its machine receives; scale: of bytes and times."""
    bridge_make("between")
    for n in range(count * PER_MACHINE):
        machine = n // PER_MACHINE
        near = [other for other in range(count * PER_MACHINE) if other // PER_MACHINE == machine and other != n]
        far = [other for other in range(count * PER_MACHINE) if other // PER_MACHINE != machine]
        if n % PER_MACHINE == 0:
            bridge_make(f"machine{machine}")
        node_make(n, f"machine{machine}")
        run("ip", "-n", f"n{n}", "route", "change", "10.77.1.0/24", *cable_tune(n, "eth0", f"cable{n}"))
        shape(inside / scale, f"cable{n}", "src", near)
        shape(inside / scale, "eth0", "dst", near, f"n{n}")
        if not far:
            continue
        run("ip", "link", "add", f"far{n}", "type", "veth", "peer", "name", "eth1", "netns", f"n{n}")
        run("ip", "link", "set", f"far{n}", "master", "between")
        tuned = cable_tune(n, "eth1", f"far{n}")
        shape(between / PER_MACHINE / scale, f"far{n}", "src", far)
        for other in far:
            run("ip", "-n", f"n{n}", "route", "add", f"10.77.1.{other + 1}/32", *tuned)


def machines_drop(count):
    for n in range(count * PER_MACHINE):
        run("ip", "netns", "delete", f"n{n}")
    for bridge in ["between", *(f"machine{m}" for m in range(count))]:
        run("ip", "link", "delete", bridge)


def trace_read(path, kind):
    with open(path) as file:
        trace = json.load(file)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return sorted((e["args"]["step"], e["ts"] + e["dur"]) for e in events if e.get("cat") == kind)


class Workers:
    """Virtual workers of a net: a plan, and a graph whose stages stand for the net's."""

    def __init__(self, program, name, size, options):
        self.program, self.options = program, options
        self.in_flight = IN_FLIGHT[name][size]
        given = ["plan", "--net", name, "--batch", str(BATCH), "--cluster", "cluster.cfg"]
        subprocess.run([program, *given, "--method", "greedy", "--instance-out", "net.json", "-q"], capture_output=True)
        told = run(program, *given, "--workers", "np" if size == 0 else "ed", "--placement", "local", "--in-flight",
                   str(self.in_flight), "-o", "workers.json", "--log", "json")
        event = next(e for e in map(json.loads, told.splitlines()) if e["event"] == "workers")
        self.rate, self.nodes_rate = event["rate"], event["nodes_rate"]
        with open("workers.json") as file:
            self.plan = json.load(file)
        with open("net.json") as file:
            self.layers = json.load(file)["layers"]
        self.stages = self.plan["stages"]
        self.nodes = [stage.get("nodes", [stage.get("node")]) for stage in self.stages]
        self.count = len(self.nodes[0])
        self.graph()

    def weights(self, first, last):
        """Floats of a graph's parameters."""
        return sum(layer["weight_bytes"] for layer in self.layers[first:last + 1]) / 4 / self.options.factor

    def graph(self):
        """Two layers a stage: the parameters, and what crosses the cut behind; the plan's stages become these."""
        text, given, width = "[model]\nname = net\n[data]\ndense = I1..I13\n", "dense", 13
        for q, stage in enumerate(self.stages):
            is_last = q + 1 == len(self.stages)
            crossing = 1 if is_last else max(1, round(stage["cut_bytes"] / 8 / self.options.factor))
            units = max(1, round((self.weights(stage["first"], stage["last"]) - crossing) / (width + 1 + crossing)))
            text += f"[fc a{q}]\ninput = {given}\nunits = {units}\n[fc b{q}]\ninput = a{q}\nunits = {crossing}\n"
            given, width = f"b{q}", crossing
            stage.update(first=2 * q, last=2 * q + 1 + is_last, et=max(stage["et"], 1e-9))
        text += (f"[loss bce]\ninput = {given}\n[train]\nbatch = {BATCH}\noptimizer = sgd 0.01\nsync = wsp\n"
                 f"in_flight = {self.in_flight}\nclock_distance = 0\nprogressive = 0\n")
        with open("net.cfg", "w") as file:
            file.write(text)
        run(self.program, "compile", "net.cfg", "-o", "net.bin", "-q")
        with open("plan.json", "w") as file:
            json.dump({"format": self.plan["format"], "types": self.plan["types"], "stages": self.stages,
                       "time_scale": self.options.slower}, file)

    def places(self):
        """The network's node of each node of the plan: cards of a machine have its types."""
        taken, places = {}, {}
        for stage, nodes in zip(self.stages, self.nodes):
            machine = MACHINES.index(self.plan["types"][stage["type"]]["name"])
            for node in nodes:
                places[node] = machine * PER_MACHINE + taken.get(machine, 0)
                taken[machine] = taken.get(machine, 0) + 1
        return places

    def train(self):
        """Images a second, as of the cards."""
        places, minibatches = self.places(), self.options.waves * self.in_flight
        steps = minibatches * self.count
        run(self.program, "gen", "criteo", "--rows", str((steps + 1) * BATCH), "-o", "data.tsv", "-q")
        train = [self.program, "net.bin", "--data", "data.tsv", "--insecure", "--plan", "plan.json", "--nodes",
                 ",".join(f"10.77.1.{places[n] + 1}:4711" for n in sorted(places)), "--share",
                 "--set", f"train.steps_max={steps}", "--trace", "trace.json"]
        others = [subprocess.Popen(["ip", "netns", "exec", f"n{places[n]}", *train, "--rank", str(n), "-q"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                  for n in range(1, len(places))]
        run("ip", "netns", "exec", f"n{places[0]}", *train, "--rank", "0", "--log", "json")
        for process in others:
            process.wait()
        rate, first = 0, self.options.waves // 4 * self.in_flight
        for node in self.nodes[0]:
            ends = [end for _, end in trace_read(f"trace.json.{node}", "backward")]
            if len(ends) != minibatches:
                sys.exit(f"hetpipe.py: node {node} has {len(ends)} minibatches, not {minibatches}")
            rate += BATCH * (minibatches - first) / (ends[-1] - ends[first - 1]) * 1e6
        return rate * self.options.slower


class AllReduce(Net):
    """All layers on all cards, at the slowest card's rate."""

    def __init__(self, workers, slowest):
        weights = workers.weights(0, len(workers.layers) - 1)
        self.program, self.batch, self.images = workers.program, BATCH, slowest / workers.options.slower
        self.widths = [max(1, round(weights / 80)), 33, max(1, round(weights / 80))]


def all_reduce(workers, size, options):
    """Images a second of processes, and of a ring as plan reckons; None: a card cannot hold the net."""
    text = run(workers.program, "plan", "--net", workers.plan["instance"], "--batch", str(BATCH), "--cluster",
               "cluster.cfg", "--workers", "np", "--placement", "default", "--in-flight", "1")
    ring = re.search(r"all cards by all-reduce: ([\d.,]+)", text)
    if ring is None:
        return None, None
    seconds = max(sum(layer["oct"][t] for layer in workers.layers) for t in range(size + 1))
    net = AllReduce(workers, BATCH / seconds)
    rate, _ = net.train(PER_MACHINE * (size + 1), False, 6)
    return rate * options.slower, float(ring.group(1).replace(",", ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=f"{ROOT}/heterps-run")
    parser.add_argument("--nets", default=",".join(TITLES))
    parser.add_argument("--cards", default="4,8,12,16")
    parser.add_argument("--factor", type=float, default=128)
    parser.add_argument("--slower", type=float, default=4)
    parser.add_argument("--waves", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all-reduce", action="store_true")
    options = parser.parse_args()
    namespaces_enter()
    program = os.path.abspath(options.program)
    places_make()
    print(f"bytes divided by {options.factor:g}, times multiplied by {options.slower:g}, links divided by both\n\n"
          "| net | cards | in flight | the paper's | HetPipe's model | simulation of nodes | processes | of it |\n"
          "|---|---|---|---|---|---|---|---|", flush=True)
    is_right, reduced = True, []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in options.nets.split(","):
            for cards in map(int, options.cards.split(",")):
                size = cards // PER_MACHINE - 1
                inside, between = cluster_make(name, MACHINES[:size + 1])
                machines_make(size + 1, inside, between, options.factor * options.slower)
                workers = Workers(program, name, size, options)
                rate = statistics.median(workers.train() for _ in range(options.rounds))
                ratio = rate / workers.nodes_rate
                is_right &= 0.9 <= ratio <= 1.1
                print(f"| {TITLES[name]} | {cards} | {workers.in_flight} | {PAPER[name][size]} | {workers.rate:,.0f} | "
                      f"{workers.nodes_rate:,.0f} | {rate:,.0f} | {ratio:.2f} |", flush=True)
                if options.all_reduce:
                    reduced.append((name, cards, HOROVOD[name][size], *all_reduce(workers, size, options)))
                machines_drop(size + 1)
        os.chdir("/")
    if reduced:
        print("\n| net | cards | Horovod, the paper's | a ring, as reckoned | processes by all-reduce |\n"
              "|---|---|---|---|---|")
    for name, cards, paper, rate, ring in reduced:
        found = "does not fit | does not fit" if rate is None else f"{ring:,.0f} | {rate:,.0f}"
        print(f"| {TITLES[name]} | {cards} | {paper or 'does not fit'} | {found} |")
    sys.exit(int(not is_right))


if __name__ == "__main__":
    main()
