"""Usage: python3 sums_gloo.py N [FILE]: what sums_table.py compares sums over links with: torch.distributed's
all_reduce by Gloo, N processes over loopback. Prints for 64 MiB, 4 MiB and 1 KiB the median of the seconds of
a turn, each of which the slowest process ends. With FILE it does not: then four lanes of numbers are added up,
each process adding its own ones first, and the sums are written there, to compare with those of another N."""
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

SIZES = (("64 MiB", 64 << 20, 3), ("4 MiB", 4 << 20, 16), ("1 KiB", 1024, 200))


LANES, LANE = 4, 1 << 20


def lanes_add(rank, count, path):
    """Sums of the same four lanes, whoever has them."""
    own = None
    for lane in range(rank * LANES // count, (rank + 1) * LANES // count):
        numbers = torch.randn(LANE, generator=torch.Generator().manual_seed(lane))
        own = numbers if own is None else own + numbers
    dist.all_reduce(own)
    if rank == 0:
        with open(path, "wb") as file:
            file.write(own.numpy().tobytes())


def turns(rank, count, port, path):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=count)
    if path:
        lanes_add(rank, count, path)
    for name, size, turn_count in () if path else SIZES:
        own, seconds = torch.empty(size // 4), []
        for turn in range(turn_count + 1):  # the first one is not counted
            own.fill_(rank + 1)
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(own)
            here = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
            dist.all_reduce(here, dist.ReduceOp.MAX)
            if turn:
                seconds.append(float(here))
        assert float(own[0]) == count * (count + 1) / 2
        if rank == 0:
            print(f"{name}: {statistics.median(seconds):.9f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = free.getsockname()[1]
    processes.spawn(turns,
                    args=(int(sys.argv[1]), found, sys.argv[2] if len(sys.argv) > 2 else None), nprocs=int(sys.argv[1]))
