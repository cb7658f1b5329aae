"""Predicts with onnxruntime what `heterps-run predict` has predicted, and compares:

    python onnx_check.py MODEL.onnx FORMAT DATA PREDICTIONS [MISSING]

FORMAT is criteo, csv (with a header), tsv (without one, criteo's columns), libsvm or libffm."""
import csv, sys

import numpy, onnx, onnxruntime, xxhash

model, form, data, predictions = sys.argv[1:5]
missing = ("", sys.argv[5] if len(sys.argv) > 5 else "")
onnx.checker.check_model(onnx.load(model), full_check=True)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
seeds = session.get_modelmeta().custom_metadata_map
names = ["label"] + [f"I{i + 1}" for i in range(13)] + [f"C{i + 1}" for i in range(26)]


def rows():
    """Of each example texts by column, or lists of (id, value)."""
    with open(data) as file:
        if form in ("criteo", "tsv"):
            for line in file:
                yield dict(zip(names, line.rstrip("\n").split("\t")))
        elif form == "csv":
            for row in csv.DictReader(file, skipinitialspace=True):
                yield {name.strip(): value.strip() for name, value in row.items()}
        else:
            for line in file:
                row = {}
                for feature in line.split()[1:]:
                    parts = feature.split(":")
                    field = f"F{parts.pop(0)}" if form == "libffm" else "features"
                    row.setdefault(field, []).append((parts[0], float(parts[1]) if len(parts) > 1 else 1.0))
                yield row


examples = list(rows())
feed = {}
for i in session.get_inputs():
    width = i.shape[1]
    if i.type == "tensor(float)" and not i.name.endswith(".value"):
        feed[i.name] = numpy.array([[numpy.nan if e[i.name] in missing else float(e[i.name])] for e in examples],
                                   numpy.float32)
    if i.type != "tensor(int64)":
        continue
    seed = int(seeds[f"heterps.seed.{i.name}"])
    keys, values = numpy.zeros((len(examples), width), numpy.uint64), numpy.zeros((len(examples), width), numpy.float32)
    for n, e in enumerate(examples):
        found = e.get(i.name.removesuffix(".keys"), "")
        if isinstance(found, str):
            found = [(text, 1.0) for text in (found.split("|") if width > 1 else [found]) if text not in missing]
        for k, (text, value) in enumerate(found[:width]):
            keys[n, k], values[n, k] = xxhash.xxh3_64_intdigest(text.encode(), seed=seed), value
    feed[i.name] = keys.view(numpy.int64)
    if f"{i.name}.value" in [other.name for other in session.get_inputs()]:
        feed[f"{i.name}.value"] = values
found = numpy.concatenate(session.run(None, feed), axis=1)
expected = numpy.loadtxt(predictions, ndmin=2)
assert found.shape == expected.shape, (found.shape, expected.shape)
worst = numpy.max(numpy.abs(found - expected))
assert worst <= 1e-5, f"{worst} apart"
assert numpy.std(expected[:, 0]) > 0, "all predictions are the same"
print(f"# {model}: at most {worst:.1e} apart")
