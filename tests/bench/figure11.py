#!/usr/bin/env python3
"""Figure 11 for real: plans of every method, run by the pipeline on two kinds of CPU core.

    python3 tests/bench/figure11.py [--program ./heterps-run] [--rounds 3] [--seconds 4] [--models ctrdnn,…]

Two types of one core each: one takes 4 times as long in fully connected layers, the other in embedding
layers. Each model is profiled, planned by every method, and every distinct plan is trained, in turn, several
rounds; rates are medians. To the methods that tell CPUs from accelerators the second type is shown as an
accelerator. Printed: predicted and measured samples a second, the measured cost over that of `auto`."""
import argparse, json, os, statistics, subprocess, sys, tempfile

SLOW = {"a": "fc 4", "b": "embedding 4"}
CLUSTER = "".join(f"[type {name}]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = 1\nslow = {slow}\n"
                  for name, slow in SLOW.items())
GOAL = "[goal]\nthroughput = max\n"
METHODS = ["auto", "rl", "rl-rnn", "rl+polish", "climb", "bo", "genetic", "greedy", "cpu",
           "gpu", "heuristic", "inverse"]


def model(fields_dim, units):
    """A click model: embeddings of 26 fields, layers of these widths."""
    text = ("[model]\nname = m\n[data]\nformat = criteo\nlabel = label\ndense = I1..I13\nsparse = C1..C26\n"
            f"[table emb]\ndim = {fields_dim}\n[embedding e]\ntable = emb\ninput = sparse\n"
            "[concat x]\ninput = e, dense\n")
    last = "x"
    for i, width in enumerate(units):
        text += f"[fc h{i}]\ninput = {last}\nunits = {width}\nactivation = relu\n"
        last = f"h{i}"
    return text + (f"[fc y]\ninput = {last}\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n"
                   "[train]\nbatch = 2048\nmicro = 64\noptimizer = adagrad 0.01\n[store]\nram = 256MiB\n")


MODELS = {"narrow": model(64, [64, 32]), "even": model(64, [128, 64]), "deep": model(32, [128, 128, 64, 64, 32]),
          "wide": model(16, [512, 256, 128])}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def measured(program, graph, plan, data, steps):
    out = run(program, graph, "--plan", plan, "--data", data, "--log", "json", "--set", f"train.steps_max={steps}",
              "--set", "train.epochs=1000")
    progress = [e for e in map(json.loads, out.splitlines()) if e["event"] == "progress"]
    # Without the first second, in which the tables' rows are made.
    examples = [b["samples"] - a["samples"] for a, b in zip(progress, progress[1:])]
    seconds = [n / e["samples_per_s"] for n, e in zip(examples, progress[1:]) if e["samples_per_s"] > 0]
    return sum(examples) / sum(seconds)


def single(instance, kind):
    """The plan of all layers on one type."""
    seconds = sum(layer["oct"][kind] for layer in instance["layers"]) / instance["B_o"]
    return {"format": "heterps-solution-1", "types": instance["types"],
            "layers": [l["name"] for l in instance["layers"]],
            "stages": [{"first": 0, "last": instance["L"] - 1, "type": kind, "k": 1, "et": seconds}],
            "throughput": 1 / seconds}


def expected(plan, instance, micro_count=32, cores=2):
    """Formula 5, the filling, draining and update of a step, and reading, which shares the cores: as training
    prints it."""
    reading = instance.get("service", {}).get("seconds", 0)
    updates = [sum(l["update"][s["type"]] for l in instance["layers"][s["first"]:s["last"] + 1]
                   if "update" in l) / instance["B_o"]
               for s in plan["stages"]]
    times = [s["et"] for s in plan["stages"]]
    passes = [t - u for t, u in zip(times, updates)]
    step = max(passes) + (sum(passes) - max(passes)) / micro_count + max(updates)
    return 1 / max(step, (sum(times) + reading) / cores)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="./heterps-run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one run, about")
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    program, work = options.program, tempfile.mkdtemp()
    data = os.path.join(work, "data.tsv")
    run(program, "gen", "criteo", "--rows", "200000", "-o", data, "-q")
    print("| model | method | plan | predicted | measured | of predicted | cost over auto's |\n"
          "|---|---|---|---|---|---|---|")
    for name in options.models.split(","):
        path = {key: os.path.join(work, f"{name}.{key}") for key in ("cfg", "bin", "cluster", "inst", "shown")}
        open(path["cfg"], "w").write(MODELS[name])
        open(path["cluster"], "w").write(CLUSTER + GOAL)
        run(program, "compile", path["cfg"], "-o", path["bin"], "-q")
        run(program, "profile", path["bin"], "--cluster", path["cluster"], "-o", path["inst"], "--data", data, "-q")
        instance = json.load(open(path["inst"]))
        types = instance["types"]
        shown = dict(instance, types=[types[0], dict(types[1], device="cuda:0")])
        json.dump(shown, open(path["shown"], "w"))
        plans = {}
        for method in METHODS:
            plan_path = os.path.join(work, f"{name}.{method}.plan")
            source = path["inst"] if method == "auto" else path["shown"]
            subprocess.run([program, "plan", "--instance", source, "--method", method,
                            "--seconds", "1", "-o", plan_path, "-q"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            plans[method] = json.load(open(plan_path))
        plans["single a"], plans["single b"] = single(instance, 0), single(instance, 1)
        distinct = {}
        for method, plan in plans.items():
            plan["types"], plan["feasible"] = types, True
            key = json.dumps([(s["first"], s["last"], s["type"], s["k"]) for s in plan["stages"]])
            distinct.setdefault(key, []).append(method)
        rates = {key: [] for key in distinct}
        for _ in range(options.rounds):
            for key, methods in distinct.items():
                plan = plans[methods[0]]
                plan_path = os.path.join(work, "run.plan")
                json.dump(plan, open(plan_path, "w"))
                steps = max(2, int(options.seconds * expected(plan, instance) / 2048))
                rates[key].append(measured(program, path["bin"], plan_path, data, steps))
        median = {key: statistics.median(values) for key, values in rates.items()}
        units = {key: sum(s["k"] for s in plans[methods[0]]["stages"]) for key, methods in distinct.items()}
        cost = {key: units[key] / median[key] for key in distinct}
        auto = next(key for key, methods in distinct.items() if "auto" in methods)
        for key, methods in sorted(distinct.items(), key=lambda item: -median[item[0]]):
            plan = plans[methods[0]]
            predicted = expected(plan, instance)
            shape = " | ".join(f"{plan['layers'][s['first']]}..{plan['layers'][s['last']]} "
                               f"on {types[s['type']]['name']}" for s in plan["stages"])
            print(f"| {name} | {', '.join(methods)} | {shape.replace('|', '/')} | {predicted:,.0f} | "
                  f"{median[key]:,.0f} | {median[key] / predicted:.3f} | "
                  f"{100 * (cost[key] / cost[auto] - 1):+.1f} % |", flush=True)
        best = max(median.values())
        singles = [median[key] for key, methods in distinct.items() if set(methods) & {"single a", "single b"}]
        print(f"| {name} | | auto: {median[auto] / best:.3f} of the best measured, "
              f"{median[auto] / max(singles):.2f} times the better single type | | | | |")


if __name__ == "__main__":
    main()
