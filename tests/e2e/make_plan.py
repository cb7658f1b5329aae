"""Usage: python3 make_plan.py FILE "FIRST-LAST:K:REPLICAS …[ +SERVICE]": writes a plan.json of CPU stages, each given by its first and
last layer, its cores, and its replicas; at the end service cores, if any. As in "0-1:1:1 2-3:2:2 +1"."""
import json
import sys

path, notation = sys.argv[1:]
plan = {
    "format": "heterps-solution-1",
    "types": [{"name": "cpu", "device": "cpu", "price_per_hour": 0.04, "limit": 64}],
    "stages": [],
}
for word in notation.split():
    if word.startswith("+"):
        plan["service_cores"] = int(word)
        continue
    layers, k, replicas = word.split(":")
    first, last = map(int, layers.split("-"))
    plan["stages"].append({"first": first, "last": last, "type": 0, "k": int(k), "replicas": int(replicas)})
with open(path, "w") as file:
    json.dump(plan, file, indent=1)
