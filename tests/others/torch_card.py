#!/usr/bin/python3
"""samples/ctrdnn.cfg, ctrdnn2.cfg and dcnv2.cfg in PyTorch: on a card what tests/gpu.sh compares training
there with; on processors what `heterps-run bench train MODEL` is compared with.

    torch_card.py MODEL BATCH PRECISION SECONDS [cuda|cpu]    MODEL: ctrdnn, ctrdnn2, dcnv2; PRECISION: f32 (on
                                                              a card TF32), bf16 (autocast)

Prints samples a second of the fastest of these, and which it was; the time is divided among them. Told to end
(SIGTERM), it prints that of those that it has measured: a compiler may take long.
    sparse    gradients of rows are sparse, torch.optim.Adagrad
    dense     all gradients are dense, Adagrad by foreach calls
    graph     the same, a whole step as one CUDA graph; of cards
    compiled  as dense, the model by torch.compile
Batches are made beforehand and lie in pinned memory; each is copied to the card when its step comes. 26
fields of V values each, drawn by Zipf's law (1.05); in dcnv2 a field has half as many keys as it may have."""
import os
import signal
import sys
import time

model_name, batch, precision, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
device = sys.argv[5] if len(sys.argv) > 5 else "cuda"
if (model_name not in ("ctrdnn", "ctrdnn2", "dcnv2") or precision not in ("f32", "bf16")
        or device not in ("cuda", "cpu")):
    sys.exit(__doc__)
import numpy as np
import torch
from torch import nn

DENSE, FIELDS, V, WARM, BATCHES, RATE = 13, 26, 38461, 5, 16, 0.01
KEYS = {1: 3, 2: 2, 4: 2, 5: 6, 10: 7, 11: 3, 12: 8, 14: 6, 15: 9, 16: 5, 20: 12, 21: 100, 22: 27, 23: 10, 24: 3}
PLACE = torch.device(device)
SIZES = {"ctrdnn": (16, (512, 256, 128)), "ctrdnn2": (64, (2048, 1024, 512, 256)),
         "dcnv2": (128, (1024, 1024, 512, 256))}
is_card = device == "cuda"
torch.manual_seed(1)
torch.set_float32_matmul_precision("high")


def layers(sizes, ends_linear):
    made = []
    for i, (inputs, units) in enumerate(zip(sizes, sizes[1:])):
        made.append(nn.Linear(inputs, units))
        if not ends_linear or i + 2 < len(sizes):
            made.append(nn.ReLU())
    return nn.Sequential(*made)


class Model(nn.Module):
    def __init__(self, is_sparse):
        super().__init__()
        self.is_dcn = model_name == "dcnv2"
        self.dim, units = SIZES[model_name]
        self.rows = nn.EmbeddingBag(V * FIELDS, self.dim, mode="sum", sparse=is_sparse, include_last_offset=True)
        nn.init.uniform_(self.rows.weight, -0.01, 0.01)
        if self.is_dcn:
            width = 27 * self.dim
            self.bottom = layers([DENSE, 512, 256, 128], False)
            self.down = nn.ModuleList(nn.Linear(width, 512, bias=False) for _ in range(3))
            self.up = nn.ModuleList(nn.Linear(512, width) for _ in range(3))
            self.top = layers([width, *units, 1], True)
        else:
            self.top = layers([FIELDS * self.dim + DENSE, *units, 1], True)

    def forward(self, keys, offsets, dense):
        rows = self.rows(keys, offsets).view(batch, -1)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            if not self.is_dcn:
                return self.top(torch.cat([rows, dense], 1)).float().squeeze(1)
            x0 = torch.cat([self.bottom(dense).float(), rows], 1)
            x = x0
            for down, up in zip(self.down, self.up):
                x = torch.addcmul(x, x0, up(down(x)).float())
            return self.top(x).float().squeeze(1)


def make_batches():
    draw = np.random.default_rng(1)
    share = np.cumsum(np.arange(1, V + 1) ** -1.05)
    share /= share[-1]
    counts = [(KEYS.get(f + 1, 1) + 1) // 2 if model_name == "dcnv2" else 1 for f in range(FIELDS)]
    offsets = np.concatenate([[0], np.cumsum(np.tile(counts, batch))]).astype(np.int64)
    first = np.tile(np.repeat(np.arange(FIELDS) * V, counts), batch)
    made = []
    for _ in range(BATCHES):
        keys = np.minimum(np.searchsorted(share, draw.random(len(first))), V - 1) + first
        dense = draw.standard_normal((batch, DENSE), dtype=np.float32)
        label = draw.integers(0, 2, batch).astype(np.float32)
        one = [torch.from_numpy(x) for x in (keys.astype(np.int64), dense, label)]
        made.append([x.pin_memory() for x in one] if is_card else one)
    return torch.from_numpy(offsets).to(PLACE), made


offsets, batches = make_batches()
loss_of = nn.BCEWithLogitsLoss()


def adagrad(parameters):
    """Adagrad by calls that take all parameters at a time, which a CUDA graph can hold; gradients stay where
    they are and become 0."""
    weights = list(parameters)
    sums = [torch.zeros_like(w) for w in weights]

    @torch.no_grad()
    def step():
        grads = [w.grad for w in weights]
        torch._foreach_addcmul_(sums, grads, grads)
        roots = torch._foreach_sqrt(sums)
        torch._foreach_add_(roots, 1e-10)
        torch._foreach_addcdiv_(weights, grads, roots, value=-RATE)
        torch._foreach_zero_(grads)

    return step


def way(name):
    """A function that trains on the batch that lies in `there`."""
    model = Model(name == "sparse").to(PLACE)
    there = [x.to(PLACE, copy=True) for x in batches[0]]
    if name == "sparse":
        optimizers = [torch.optim.Adagrad(model.rows.parameters(), lr=RATE),
                      torch.optim.Adagrad(list(model.top.parameters()), lr=RATE, foreach=True)]
        if model.is_dcn:
            others = [p for part in (model.bottom, model.down, model.up) for p in part.parameters()]
            optimizers.append(torch.optim.Adagrad(others, lr=RATE, foreach=True))

        def train():
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss_of(model(there[0], offsets, there[1]), there[2]).backward()
            for optimizer in optimizers:
                optimizer.step()

        return there, train
    run = torch.compile(model) if name == "compiled" else model
    step = adagrad(model.parameters())

    def train():
        loss_of(run(there[0], offsets, there[1]), there[2]).backward()
        step()

    if name != "graph":
        return there, train
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            train()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()
    return there, graph.replay


def finish():
    if is_card:
        torch.cuda.synchronize()


def rate(name, limit):
    there, train = way(name)
    steps, begin = -WARM, 0
    while True:
        if steps == 0:
            finish()
            begin = time.perf_counter()
        for to, source in zip(there, batches[steps % BATCHES]):
            to.copy_(source, non_blocking=True)
        train()
        steps += 1
        if steps > 0 and steps % (20 if is_card else 2) == 0:
            finish()
            spent = time.perf_counter() - begin
            if spent > limit:
                return steps * batch / spent


found = []


def tell():
    if not found:
        sys.exit("torch_card.py: no way to train works here")
    best = max(found)
    print(f"{best[0]:.0f} {best[1]}", flush=True)
    print(", ".join(f"{name} {value:.0f}" for value, name in found), file=sys.stderr, flush=True)


def end(number, frame):
    try:
        tell()
    finally:
        os._exit(0 if found else 1)


signal.signal(signal.SIGTERM, end)
ways = ("sparse", "dense", "graph", "compiled") if is_card else ("sparse", "dense", "compiled")
for name in ways:
    try:
        found.append((rate(name, seconds / len(ways)), name))
    except Exception as error:  # one that does not work here
        print(f"{name}: {str(error).splitlines()[:1]}", file=sys.stderr)
    if is_card:
        torch.cuda.empty_cache()
tell()
