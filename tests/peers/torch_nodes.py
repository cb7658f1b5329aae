#!/usr/bin/env python3
"""samples/ctrdnn.cfg on two processes of one core, by heterps-run and by PyTorch 2's DistributedDataParallel over Gloo with
sparse gradients, in turn, from memory; and what the number of processes does to the bits of each.

    python3 tests/peers/torch_nodes.py PROGRAM [--rounds 5] [--rows 32768] [--batch 4096] [--passes 3]

Prints examples/s of both, the ratio of each round and their median, and digests of the trained parameters for one and for
two processes. Says whether TorchRec loads here, or why not. Rows of
both are 16 floats with Adagrad; PyTorch's tables have as many rows as the data have values, ours grow. The first pass is not
counted: it reads text, or warms up."""
import argparse, hashlib, json, os, socket, statistics, subprocess, sys, tempfile, time

DENSE, FIELDS, DIM, UNITS = 13, 26, 16, (512, 256, 128)


def arrays(path):
    """Labels, logarithms, and keys numbered as they come, of a text of Criteo's."""
    import numpy as np

    label, dense, keys, numbers = [], [], [], {}
    with open(path) as file:
        for line in file:
            columns = line.rstrip("\n").split("\t")
            label.append(float(columns[0]))
            dense.append([0.0 if x == "" else float(np.sign(int(x)) * np.log1p(abs(int(x)))) for x in columns[1:14]])
            keys.append([numbers.setdefault((f, x), len(numbers)) for f, x in enumerate(columns[14:])])
    return np.array(label, np.float32), np.array(dense, np.float32), np.array(keys, np.int64), len(numbers)


def worker(rank, world, port, folder, batch, passes):
    """One process: prints seconds of the passes behind the first, and a digest of all parameters."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    data = np.load(f"{folder}/data.npz")
    label, dense, keys = (torch.from_numpy(data[n]) for n in ("label", "dense", "keys"))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Embedding(int(data["count"]), DIM, sparse=True)
            nn.init.uniform_(self.rows.weight, -0.01, 0.01)
            sizes = (FIELDS * DIM + DENSE, *UNITS)
            self.layers = nn.Sequential(*(m for a, b in zip(sizes, UNITS) for m in (nn.Linear(a, b), nn.ReLU())), nn.Linear(UNITS[-1], 1))

        def forward(self, dense, keys):
            return self.layers(torch.cat([self.rows(keys).view(len(keys), -1), dense], 1)).squeeze(1)

    net = Net()
    ddp = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    optimizers = [torch.optim.Adagrad(net.rows.parameters(), lr=0.03), torch.optim.Adagrad(net.layers.parameters(), lr=0.01)]
    loss_of = nn.BCEWithLogitsLoss()
    share = batch // world
    begin = None
    for epoch in range(passes + 1):
        if epoch == 1:
            dist.barrier()
            begin = time.perf_counter()
        for at in range(0, len(label) - batch + 1, batch):
            own = slice(at + rank * share, at + (rank + 1) * share)
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss_of(ddp(dense[own], keys[own]), label[own]).backward()
            for optimizer in optimizers:
                optimizer.step()
    dist.barrier()
    seconds = time.perf_counter() - begin
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()[:16]
    if rank == 0:
        print(json.dumps({"seconds": seconds, "digest": digest, "loss": float(loss_of(net(dense[:batch], keys[:batch]), label[:batch]))}))
    dist.destroy_process_group()


def port_free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torch_run(world, o):
    port = port_free()
    command = [sys.executable, os.path.abspath(__file__), "--worker", o.folder, str(world), str(port), str(o.batch), str(o.passes)]
    running = [subprocess.Popen([*command, str(r)], stdout=subprocess.PIPE, text=True) for r in range(world)]
    said = [p.communicate()[0] for p in running]
    assert all(p.returncode == 0 for p in running), said
    return json.loads(said[0].splitlines()[-1])


def ours_seconds(nodes, o, passes):
    graph = ["g.bin", "--data", "data.tsv", "--threads", "1", "--log", "json", "--set", f"train.epochs={passes}", "--out", f"m{nodes}"]
    subprocess.run(["rm", "-rf", f"m{nodes}"], check=True)
    command = [o.program, *graph] if nodes == 1 else [o.program, "launch", "--local", str(nodes), "--", *graph]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert said.returncode == 0, said.stderr[-500:]
    return next(e["seconds"] for e in map(json.loads, said.stdout.splitlines()) if e["event"] == "done")


def ours_run(nodes, o):
    first = ours_seconds(nodes, o, 1)
    seconds = ours_seconds(nodes, o, o.passes + 1) - first
    subprocess.run(["rm", "-rf", "x"], check=True)
    subprocess.run([o.program, "export", "g.bin", "--model", f"m{nodes}", "-o", "x", "-q"], check=True)
    digest = hashlib.sha256(b"".join(open(f"x/{f}", "rb").read() for f in sorted(os.listdir("x")))).hexdigest()[:16]
    return {"seconds": seconds, "digest": digest}


def torchrec_tell():
    said = subprocess.run([sys.executable, "-c", "import torchrec"], stderr=subprocess.PIPE, text=True)
    print("TorchRec", "loads; it is not run yet" if said.returncode == 0 else f"does not load: {said.stderr.strip().splitlines()[-1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    for name, value in (("rounds", 5), ("rows", 32768), ("batch", 4096), ("passes", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    o.program = os.path.abspath(o.program)
    sample = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples/ctrdnn.cfg")
    import numpy as np

    with tempfile.TemporaryDirectory() as o.folder:
        os.chdir(o.folder)
        subprocess.run([o.program, "gen", "criteo", "--rows", str(o.rows), "-o", "data.tsv", "-q"], check=True)
        subprocess.run([o.program, "compile", sample, "-o", "g.bin", "-q", "--set", f"train.batch={o.batch}", "--set", "train.lanes=2",
                        "--set", "cache.ram=1GiB"], check=True)
        label, dense, keys, count = arrays("data.tsv")
        np.savez("data.npz", label=label, dense=dense, keys=keys, count=count)
        rates, ratios = {"ours": [], "torch": []}, []
        for turn in range(o.rounds):
            found = {}
            for who in ("ours", "torch") if turn % 2 == 0 else ("torch", "ours"):
                found[who] = ours_run(2, o) if who == "ours" else torch_run(2, o)
                rates[who].append(o.rows * o.passes / found[who]["seconds"])
            ratios.append(rates["ours"][-1] / rates["torch"][-1])
            print(f"round {turn + 1}: heterps-run {rates['ours'][-1]:.0f}, DDP {rates['torch'][-1]:.0f} examples/s, ratio {ratios[-1]:.2f}", flush=True)
        print(f"median of {o.rounds}: heterps-run {statistics.median(rates['ours']):.0f}, DDP {statistics.median(rates['torch']):.0f} examples/s, "
              f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        for who, run in (("heterps-run", ours_run), ("DDP", torch_run)):
            one, two = (run(n, o)["digest"] for n in (1, 2))
            print(f"bits of {who}: one process {one}, two {two}: {'the same' if one == two else 'others'}")
        torchrec_tell()


if len(sys.argv) > 1 and sys.argv[1] == "--worker":
    folder, world, port, batch, passes, rank = sys.argv[2], *map(int, sys.argv[3:])
    worker(rank, world, port, folder, batch, passes)
else:
    main()
