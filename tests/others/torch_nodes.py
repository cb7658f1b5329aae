#!/usr/bin/env python3
"""samples/ctrdnn.cfg on two processes of one core, by heterps-run, by PyTorch 2's DistributedDataParallel
over Gloo with sparse gradients, and by TorchRec over Gloo, in turn, from memory; and what the number of
processes does to the bits of each.

    python3 tests/others/torch_nodes.py PROGRAM [--rounds 5] [--rows 32768] [--batch 4096] [--passes 3]
                                                [--torchrec PYTHON]

Prints examples/s of all, the ratio of each round to the better of the others, the median of these ratios, and
digests of the trained parameters for one and for two processes. Rows are 16 floats with Adagrad everywhere;
PyTorch's tables have as many rows as the data have values, ours grow. The first pass is not counted: it reads
text, or warms up.

TorchRec is that of the interpreter --torchrec (default: this one): one EmbeddingBagCollection whose 26
columns share a table, cut by rows, Adagrad fused into its backward pass, the dense part in DDP. Its kernels
are fbgemm-gpu-cpu's, whose binary fits one version of PyTorch each: 1.9.0 loads beside 2.14.1, and not beside
2.15.0, where symbols are missing. TorchRec asks for fbgemm-gpu, whose files have the names of
fbgemm-gpu-cpu's, and load only beside a card. So
    python3 -m venv rec && rec/bin/pip install torch==2.14.1 torchrec==1.9.2 numpy
    rec/bin/pip uninstall -y fbgemm-gpu
    rec/bin/pip install --force-reinstall --no-deps fbgemm-gpu-cpu==1.9.0
and --torchrec rec/bin/python. Where it does not load it is left out, with its reason. Status 1
if the median is below 1.35, or the number of processes changes our bits."""
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


def worker(who, rank, world, port, folder, batch, passes):
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

    sizes = (FIELDS * DIM + DENSE, *UNITS)
    layers = nn.Sequential(*(m for a, b in zip(sizes, UNITS) for m in (nn.Linear(a, b), nn.ReLU())),
                           nn.Linear(UNITS[-1], 1))
    make = torchrec_net if who == "torchrec" else ddp_net
    net, optimizers, parameters = make(layers, int(data["count"]), world)
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
            loss_of(net(dense[own], keys[own]), label[own]).backward()
            for optimizer in optimizers:
                optimizer.step()
    dist.barrier()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        loss = torch.tensor([float(loss_of(net(dense[rank * share:(rank + 1) * share],
                                               keys[rank * share:(rank + 1) * share]),
                                           label[rank * share:(rank + 1) * share]))])
    dist.all_reduce(loss)
    whole = parameters()
    if rank == 0:
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in whole)).hexdigest()[:16]
        print(json.dumps({"seconds": seconds, "digest": digest, "loss": float(loss) / world}))
    dist.destroy_process_group()


def ddp_net(layers, count, world):
    """The net, its optimizers, and what gives all parameters."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = nn.Embedding(count, DIM, sparse=True)
            nn.init.uniform_(self.rows.weight, -0.01, 0.01)
            self.layers = layers

        def forward(self, dense, keys):
            return self.layers(torch.cat([self.rows(keys).view(len(keys), -1), dense], 1)).squeeze(1)

    net = Net()
    optimizers = [torch.optim.Adagrad(net.rows.parameters(), lr=0.03),
                  torch.optim.Adagrad(net.layers.parameters(), lr=0.01)]
    return nn.parallel.DistributedDataParallel(net) if world > 1 else net, optimizers, lambda: list(net.parameters())


def torchrec_net(layers, count, world):
    """The same; the table is cut by rows, and updated within the backward pass."""
    import torch
    import torch.distributed as dist
    import torchrec
    from torch import nn
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.sharding_plan import construct_module_sharding_plan, row_wise
    from torchrec.distributed.types import ShardingEnv, ShardingPlan
    from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

    columns = [f"C{f}" for f in range(FIELDS)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torchrec.EmbeddingBagCollection(
                tables=[torchrec.EmbeddingBagConfig(name="emb", embedding_dim=DIM,
                                                    num_embeddings=count, feature_names=columns,
                                                    init_fn=lambda w: nn.init.uniform_(w, -0.01, 0.01))],
                device=torch.device("cpu"))
            self.layers = layers

        def forward(self, dense, keys):
            jagged = torchrec.KeyedJaggedTensor(columns, keys.t().reshape(-1),
                                                lengths=torch.ones(keys.numel(), dtype=torch.int32))
            return self.layers(torch.cat([self.rows(jagged).values(), dense], 1)).squeeze(1)

    net = Net()
    apply_optimizer_in_backward(torch.optim.Adagrad, net.rows.parameters(), {"lr": 0.03})
    cut = construct_module_sharding_plan(net.rows, {"emb": row_wise(compute_kernel="fused")},
                                         EmbeddingBagCollectionSharder(),
                                         local_size=world, world_size=world, device_type="cpu")
    model = DistributedModelParallel(net, env=ShardingEnv.from_process_group(dist.group.WORLD),
                                     device=torch.device("cpu"),
                                     plan=ShardingPlan({"rows": cut}))

    def parameters():
        whole = []
        for value in model.state_dict().values():
            if hasattr(value, "local_shards"):
                place = torch.empty(value.size()) if dist.get_rank() == 0 else None
                value.gather(0, place)
                value = place
            whole.append(value)
        return whole

    return model, [torch.optim.Adagrad(layers.parameters(), lr=0.01)], parameters


def port_free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def other_run(who, world, o):
    port, python = port_free(), o.torchrec if who == "TorchRec" else sys.executable
    command = [python, os.path.abspath(__file__), "--worker", who.lower(), o.folder, str(world), str(port),
               str(o.batch), str(o.passes)]
    running = [subprocess.Popen([*command, str(r)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for r in range(world)]
    said = [p.communicate() for p in running]
    if any(p.returncode for p in running):
        raise RuntimeError(said[0][1][-2000:])
    return json.loads(said[0][0].splitlines()[-1])


def ours_seconds(nodes, o, passes):
    graph = ["g.bin", "--data", "data.tsv", "--threads", "1", "--log", "json",
             "--set", f"train.epochs={passes}", "--out", f"m{nodes}"]
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


def torchrec_loads(o):
    said = subprocess.run([o.torchrec, "-c", "import torchrec, torch; print(torchrec.__version__, torch.__version__)"],
                          capture_output=True, text=True)
    if said.returncode != 0:
        print(f"TorchRec is left out: it does not load: {said.stderr.strip().splitlines()[-1]}")
        return False
    print("TorchRec {} beside PyTorch {}".format(*said.stdout.split()[-2:]))
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    for name, value in (("rounds", 5), ("rows", 32768), ("batch", 4096), ("passes", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--torchrec", default=sys.executable)
    o = parser.parse_args()
    o.program = os.path.abspath(o.program)
    sample = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples/ctrdnn.cfg")
    import numpy as np

    with tempfile.TemporaryDirectory() as o.folder:
        os.chdir(o.folder)
        subprocess.run([o.program, "gen", "criteo", "--rows", str(o.rows), "-o", "data.tsv", "-q"], check=True)
        subprocess.run([o.program, "compile", sample, "-o", "g.bin", "-q", "--set", f"train.batch={o.batch}",
                        "--set", "train.lanes=2",
                        "--set", "cache.ram=1GiB"], check=True)
        label, dense, keys, count = arrays("data.tsv")
        np.savez("data.npz", label=label, dense=dense, keys=keys, count=count)
        runs = {"heterps-run": ours_run, "DDP": lambda n, o: other_run("DDP", n, o)}
        if torchrec_loads(o):
            runs["TorchRec"] = lambda n, o: other_run("TorchRec", n, o)
        names, rates, ratios = list(runs), {name: [] for name in runs}, []
        for turn in range(o.rounds):
            for name in names if turn % 2 == 0 else names[::-1]:
                rates[name].append(o.rows // o.batch * o.batch * o.passes / runs[name](2, o)["seconds"])
            ratios.append(rates["heterps-run"][-1] / max(rates[name][-1] for name in names[1:]))
            print(f"round {turn + 1}: " + ", ".join(f"{name} {rates[name][-1]:.0f}" for name in names)
                  + f" examples/s, over the better one {ratios[-1]:.2f}", flush=True)
        print(f"median of {o.rounds}: " + ", ".join(f"{name} {statistics.median(rates[name]):.0f}" for name in names) +
              f" examples/s, over the better one {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f})")
        is_met = statistics.median(ratios) >= 1.35
        for name in names:
            one, two = (runs[name](n, o) for n in (1, 2))
            losses = f", losses {one['loss']:.6f} and {two['loss']:.6f}" if "loss" in one else ""
            print(f"bits of {name}: one process {one['digest']}, two {two['digest']}: "
                  f"{'the same' if one['digest'] == two['digest'] else 'others'}{losses}")
            is_met &= name != "heterps-run" or one["digest"] == two["digest"]
        sys.exit(not is_met)


if len(sys.argv) > 1 and sys.argv[1] == "--worker":
    who, folder, world, port, batch, passes, rank = sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
    worker(who, rank, world, port, folder, batch, passes)
else:
    main()
