"""Usage: python3 make_plan.py FILE "STAGE … [+SERVICE]": writes a plan.json. A stage is FIRST-LAST:K:REPLICAS,
layers on CPU cores, or FIRST-LAST:DEVICE[=K], as in "0-1:1:1 2-3:2:2 +1" and "0-1:cpu 2-4:cuda:0 5-5:emu=2",
with @NODE behind it where stages lie on nodes, or @NODE+NODE for a stage on several; at the end service cores, if
any."""
import json
import sys

path, notation = sys.argv[1:]
plan = {"format": "heterps-solution-1", "types": [], "stages": []}
for word in notation.split():
    if word.startswith("+"):
        plan["service_cores"] = int(word)
        continue
    word, _, node = word.partition("@")
    layers, rest = word.split(":", 1)
    first, last = map(int, layers.split("-"))
    stage = {"first": first, "last": last}
    if "+" in node:
        stage["nodes"] = [int(n) for n in node.split("+")]
    elif node:
        stage["node"] = int(node)
    if rest[0].isdigit():
        device, (k, replicas) = "cpu", rest.split(":")
        stage["replicas"] = int(replicas)
    else:
        device, k = (rest.split("=") + ["1"])[:2]
    names = [t["name"] for t in plan["types"]]
    if device not in names:
        plan["types"].append({"name": device, "device": device, "price_per_hour": 0.04, "limit": 64})
        names.append(device)
    plan["stages"].append({**stage, "type": names.index(device), "k": int(k)})
with open(path, "w") as file:
    json.dump(plan, file, indent=1)
