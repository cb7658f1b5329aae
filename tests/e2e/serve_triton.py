#!/usr/bin/env python3
"""Asks a server by tritonclient[http], unchanged:  python3 serve_triton.py ADDRESS rows.tsv plain

rows.tsv are lines of Criteo, plain what `predict` says of them. Prints what differs; exits with 1 if anything does."""
import sys

import numpy
import tritonclient.http as triton

address, rows_path, plain_path = sys.argv[1:]
names = [f"I{i + 1}" for i in range(13)] + [f"C{i + 1}" for i in range(26)]
rows = [line.rstrip("\n").split("\t")[1:] for line in open(rows_path)][:700]
expected = numpy.array([line for line in open(plain_path)][:700], dtype=numpy.float64).astype(numpy.float32)
failed = 0


def check(name, good):
    global failed
    failed += not good
    if not good:
        print(f"not so: {name}")


client = triton.InferenceServerClient(address)
check("it is live, it and the model are ready",
      client.is_server_live() and client.is_server_ready() and client.is_model_ready("model"))
check("the server's metadata", "binary_tensor_data" in client.get_server_metadata()["extensions"])
metadata = client.get_model_metadata("model")
check("the model's columns", [i["name"] for i in metadata["inputs"]] == names)
check("what it predicts", metadata["outputs"] == [{"name": "bce", "datatype": "FP32", "shape": [-1]}])
version = metadata["versions"][0]

for binary in (True, False):
    inputs = []
    for k, name in enumerate(names):
        # Numbers as numbers where all are there; a column of texts that are numbers, as integers.
        texts = [row[k] for row in rows]
        is_number = k < 13 and all(texts)
        values = (numpy.array([float(t) for t in texts], numpy.float32) if is_number
                  else numpy.array([t.encode() for t in texts], numpy.object_))
        tensor = triton.InferInput(name, [len(rows)], "FP32" if is_number else "BYTES")
        tensor.set_data_from_numpy(values, binary_data=binary)
        inputs.append(tensor)
    for wanted in ([triton.InferRequestedOutput("bce", binary_data=True)],
                   [triton.InferRequestedOutput("bce", binary_data=False)], None):
        result = client.infer("model", inputs, model_version=version, outputs=wanted, request_id="seven")
        check(f"predictions, binary {binary}, {wanted}", numpy.array_equal(result.as_numpy("bce"), expected))
        answer = result.get_response()
        check("what else an answer has",
              (answer["model_name"], answer["model_version"], answer["id"]) == ("model", version, "seven"))

for name, model, wrong in (
    ("the model reads no column of that name", "model", "no"),
    ("there is no model of this name", "other", "I1"),
):
    tensor = triton.InferInput(wrong, [1], "FP32")
    tensor.set_data_from_numpy(numpy.zeros(1, numpy.float32))
    try:
        client.infer(model, [tensor])
        check(name, False)
    except triton.InferenceServerException as e:
        check(f"{name}, not {e}", name in str(e))
sys.exit(failed > 0)
