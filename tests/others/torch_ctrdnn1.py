#!/usr/bin/python3
"""samples/ctrdnn1.cfg in PyTorch, trained from a Criteo text file: what cpu_table.py compares `heterps-run
GRAPH --data FILE` with.

    torch_ctrdnn1.py FILE READER THREADS BATCH SECONDS       prints samples a second

READER   dl0, dl1, dl2   a DataLoader over an IterableDataset that splits lines in Python, with so many worker processes
         numba           a parser compiled by numba, over the mapped file, between two steps
         numba_thread    the same in a thread of its own, beside the steps
The clock starts behind the first WARM steps, by when workers run and buffers are warm. Adagrad, float32; 26
fields hashed to V values each (their hexadecimal numbers modulo V), rows of 8, layers 64, 32, 1."""
import os
import queue
import sys
import threading
import time

path, reader, threads, batch, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(threads)
import numpy as np
import torch
from torch import nn

DENSE, FIELDS, V, DIM, WARM = 13, 26, 38461, 8, 3
torch.set_num_threads(threads)
torch.manual_seed(1)


class Lines(torch.utils.data.IterableDataset):
    """Each worker takes every n-th batch of lines."""

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        with open(path) as file:
            for number, line in enumerate(file):
                if worker is not None and number // batch % worker.num_workers != worker.id:
                    continue
                columns = line.rstrip("\n").split("\t")
                dense = np.array([np.log1p(max(int(x), 0)) if x else 0 for x in columns[1:14]], dtype=np.float32)
                keys = np.array([(int(x, 16) % V if x else 0) + f * V for f, x in enumerate(columns[14:])],
                                dtype=np.int64)
                yield dense, keys, np.float32(columns[0])


def loader(workers):
    return iter(torch.utils.data.DataLoader(Lines(), batch_size=batch, num_workers=workers))


def compiled():
    from numba import njit

    @njit(nogil=True)
    def parse(text, at, logs, dense, keys, label):
        count = 0
        while count < label.shape[0] and at < text.shape[0]:
            label[count] = text[at] - 48
            at += 2
            for n in range(DENSE):
                value, is_negative = 0, False
                while text[at] != 9:
                    if text[at] == 45:
                        is_negative = True
                    else:
                        value = 10 * value + text[at] - 48
                    at += 1
                at += 1
                if is_negative:
                    value = 0
                dense[count, n] = logs[value] if value < logs.shape[0] else np.log1p(value)
            for f in range(FIELDS):
                value = np.uint32(0)
                while text[at] > 10:
                    digit = text[at]
                    value = (value << np.uint32(4)) | np.uint32((digit & 15) + (9 if digit > 57 else 0))
                    at += 1
                at += 1
                keys[count, f] = np.int64(value) % V + f * V
            count += 1
        return count, at

    text = np.memmap(path, dtype=np.uint8, mode="r")
    logs = np.log1p(np.arange(4096)).astype(np.float32)

    def empty(count):
        return np.empty((count, DENSE), np.float32), np.empty((count, FIELDS), np.int64), np.empty(count, np.float32)

    parse(text, 0, logs, *empty(1))  # compiles

    def batches():
        at = 0
        while at < len(text):
            dense, keys, label = empty(batch)
            count, at = parse(text, at, logs, dense, keys, label)
            yield torch.from_numpy(dense[:count]), torch.from_numpy(keys[:count]), torch.from_numpy(label[:count])

    return batches


def beside(batches):
    ready = queue.Queue(8)

    def run():
        for item in batches():
            ready.put(item)
        ready.put(None)

    threading.Thread(target=run, daemon=True).start()
    return iter(ready.get, None)


if reader.startswith("dl"):
    source = lambda: loader(int(reader[2:]))
elif reader in ("numba", "numba_thread"):
    batches = compiled()
    source = batches if reader == "numba" else lambda: beside(batches)
else:
    sys.exit(f"torch_ctrdnn1.py: no reader {reader}")

rows = nn.Embedding(V * FIELDS, DIM, sparse=True)
nn.init.uniform_(rows.weight, -0.01, 0.01)
layers = nn.Sequential(nn.Linear(FIELDS * DIM + DENSE, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
optimizers = [torch.optim.Adagrad(rows.parameters(), lr=0.03), torch.optim.Adagrad(layers.parameters(), lr=0.01)]
loss_of = nn.BCEWithLogitsLoss()

examples, begin = 0, None
for step, (dense, keys, label) in enumerate(source()):
    if step == WARM:
        begin = time.perf_counter()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    logit = layers(torch.cat([rows(keys).view(len(keys), -1), dense], 1)).squeeze(1)
    loss_of(logit, label).backward()
    for optimizer in optimizers:
        optimizer.step()
    if begin is None:
        continue
    examples += len(label)
    if time.perf_counter() - begin > seconds:
        break
if begin is None:
    sys.exit(f"torch_ctrdnn1.py: {path} has too few lines for {WARM} steps of {batch}")
print(f"{examples / (time.perf_counter() - begin):.0f}", flush=True)
os._exit(0)  # workers of a DataLoader may still be reading
