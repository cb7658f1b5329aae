#!/usr/bin/python3
"""Compares sums of gradients over links (`heterps-run bench net`) with what one would use instead, with a
plain ring, with copies of the same bytes by the same processes and with a shaped wire, on this machine, and
prints a table: what, against what, the figure asked for, the figure found, the command that gives it.

    python3 tests/bench/sums_table.py [--rounds 5] [--only PATTERN] [--wrap 'nice -n -10'] [--markdown] [--list]

All sides of a line run in turn, a round after the other; of each round the ratio counts, and the median of
these is shown, so a machine that others use, too, is judged rightly. Ratios are of rates: greater is better;
but where "at most" stands before what it is compared with. What is not installed is left out, with the
reason. Needs ./heterps-run; and, each for its lines,
    Open MPI           mpicc.openmpi and mpirun.openmpi (Debian: openmpi-bin, libopenmpi-dev), or MPICC and
                       MPIRUN in the environment
    PyTorch            with Gloo, of the interpreter PYTHON (default: python3)
    a shaped wire      root, ip and tc (Debian: iproute2): loopback of a network namespace, through a tbf
RATE (default: 1gbit) is that of each process for lines of a shaped wire; all share the one loopback, which
has as many times that."""
import array
import json
import os
import re
import shutil
import subprocess
import sys

import table
from table import HETERPS, Skip, median

RATE = os.environ.get("RATE", "1gbit")
PYTHON = os.environ.get("PYTHON", "python3")
MPICC = os.environ.get("MPICC", "mpicc.openmpi")
MPIRUN = os.environ.get("MPIRUN", "mpirun.openmpi")
ROOT_TOO = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SIZES = {"64 MiB": 64 << 20, "4 MiB": 4 << 20, "1 KiB": 1024}


def bytes_a_second(rate):
    return {"gbit": 1e9, "mbit": 1e6}[rate[-4:]] * float(rate[:-4]) / 8


class Table(table.Table):
    def __init__(self, options):
        super().__init__(options)
        self.rounds_of = {}

    # --- sides: {(size, processes): GB/s each way of a process, or microseconds of 1 KiB} -----------------

    def ours(self, count=None):
        """By name, of `plain`, `sealed`, `ring`, and of their limit; shaped for so many processes, if any."""
        prefix = []
        if count:
            rate = f"{int(count * bytes_a_second(RATE) * 8)}bit"
            shape = (f"ip link set lo up && tc qdisc add dev lo root tbf rate {rate} burst 1mb latency 100ms && "
                     "exec \"$@\"")
            prefix = ["unshare", "--net", "sh", "-c", shape, "sh"]
            if subprocess.run(prefix + ["true"], capture_output=True).returncode != 0:
                raise Skip("there can be no shaped loopback here (root, Debian: iproute2)")
        found = {}
        for f in self.bench("net --repeats 1", prefix):
            summed = re.fullmatch(r"(\d+ [KM]iB) summed by (\d), (\w+)", f["name"])
            if summed:
                key = summed[1], int(summed[2])
                found.setdefault(summed[3], {})[key] = f["median"]
                found.setdefault("copy", {})[key] = f["limit"]
            elif f["name"] == "1 KiB there and back, plain":
                found["turn"] = {("1 KiB", 2): f["limit"]}
        return found

    @staticmethod
    def values(output, count):
        """Of what another program prints, in the units of bench."""
        found = {}
        for name, seconds in re.findall(r"(\d+ [KM]iB): ([\d.]+) s", output):
            moved = 2 * SIZES[name] * (count - 1) / count
            found[name, count] = float(seconds) * 1e6 if name == "1 KiB" else moved * 1e-9 / float(seconds)
        if len(found) != len(SIZES):
            raise Skip(f"another program prints {output[:80]!r}")
        return found

    def mpi_program(self):
        program = os.path.join(self.folder, "sums_mpi")
        build = [MPICC, "-O3", "-o", program, "tests/others/sums_mpi.c"]
        if (not shutil.which(MPICC) or not shutil.which(MPIRUN)
                or subprocess.run(build, cwd=table.ROOT, capture_output=True).returncode != 0):
            raise Skip("tests/others/sums_mpi.c does not compile: apt-get install openmpi-bin libopenmpi-dev")
        return program

    def mpi(self, count, *path):
        program = self.once("mpi", self.mpi_program)
        options = ["--oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
                   "--mca", "btl_tcp_if_include", "lo"]
        said = self.run([MPIRUN, *options, "-np", str(count), program, *path], ROOT_TOO)
        return None if path else self.values(said, count)

    def gloo(self, count, *path):
        said = self.run([PYTHON, "tests/others/sums_gloo.py", str(count), *path], {"OMP_NUM_THREADS": "1"})
        return None if path else self.values(said, count)

    def differ(self, name, one, two):
        """Percent of the sums of the same four lanes that are other bits by so many processes."""
        sums = []
        for count in (one, two):
            path = os.path.join(self.folder, f"{name}.{count}")
            getattr(self, name)(count, path)
            sums.append(array.array("I", open(path, "rb").read()))
        return 100 * sum(a != b for a, b in zip(*sums)) / len(sums[0])

    def ours_differ(self, side):
        """The same by bench, of two and of four processes: links, or ring."""
        lines = self.run([HETERPS, "bench", "--json", "net", "--repeats", "1"]).splitlines()
        return next(event[f"{side}_differ_percent"] for event in map(json.loads, lines)
                    if f"{side}_differ_percent" in event)

    # --- rounds -----------------------------------------------------------------------------------------------

    def other(self, name, count):
        """Another program that is not there is left out of all rounds."""
        def measure():
            try:
                return getattr(self, name)(count)
            except Skip as skip:
                print(f"    {name}: left out: {skip}", file=sys.stderr)
                return {}
        return measure

    def together(self):
        """Rounds of all sides but a shaped wire: [{side: {(size, processes): value}}]."""
        def measure():
            rounds = []
            for _ in range(self.rounds):
                sides = self.ours()
                for name in ("mpi", "gloo"):
                    sides[name] = {**self.other(name, 2)(), **self.other(name, 4)()}
                rounds.append(sides)
                for key in sides["plain"]:
                    line = ", ".join(f"{side} {of[key]:.3g}" for side, of in sides.items() if key in of)
                    print(f"    {key[0]} by {key[1]}: {line} {'us' if key[0] == '1 KiB' else 'GB/s'}", file=sys.stderr)
            return rounds
        return self.once("together", measure)

    def over(self, size, count, *names, side="plain"):
        """The median of ours over the better of these."""
        shares = []
        for sides in self.together():
            rates = [sides[name][size, count] for name in names if (size, count) in sides.get(name, {})]
            if not rates:
                raise Skip(f"neither of {', '.join(names)} is there")
            shares.append(sides[side][size, count] / max(rates))
        return median(shares)

    def shaped(self, count):
        return self.once(f"shaped {count}", lambda: [self.ours(count) for _ in range(self.rounds)])

    def wire(self, size, count):
        """Time over the wire's own."""
        return median(bytes_a_second(RATE) * 1e-9 / sides["plain"][size, count] for sides in self.shaped(count))

    def sealing(self, size, count):
        return median(sides["plain"][size, count] / sides["sealed"][size, count] for sides in self.shaped(count))


def rows():
    """What is compared, against what, the figure asked for, how it is found, the command that shows it best."""
    script = "sums_table.py --only "
    for count, wanted in ((2, 1.3), (4, 1.1)):
        yield (f"64 MiB by {count}", "the better of Gloo and Open MPI", wanted,
               lambda t, n=count: t.over("64 MiB", n, "mpi", "gloo"),
               script + f"'64 MiB by {count}.*Gloo'")
    for count in (2, 4):
        yield (f"4 MiB by {count}", "Open MPI", 1.0, lambda t, n=count: t.over("4 MiB", n, "mpi"),
               script + f"'4 MiB by {count}.*MPI'")
    for size in ("64 MiB", "4 MiB"):
        for count in (2, 4):
            yield (f"{size} by {count}", "a copy of the same bytes, both ways", 0.85 if size == "64 MiB" else None,
                   lambda t, s=size, n=count: t.over(s, n, "copy"), "heterps-run bench net")
            yield (f"{size} by {count}", "a plain ring", None,
                   lambda t, s=size, n=count: t.over(s, n, "ring"), "heterps-run bench net")
            yield (f"{size} by {count}, sealed", "a copy of the same bytes, both ways", None,
                   lambda t, s=size, n=count: t.over(s, n, "copy", side="sealed"), "heterps-run bench net")
    yield ("1 KiB by 2", "at most: round trips that do not sleep", 2.5,
           lambda t: t.over("1 KiB", 2, "turn"), "heterps-run bench net")
    what = "four lanes by 2 and by 4: % of floats that differ"
    for side, name in (("links", "at most: links"), ("ring", "a plain ring")):
        yield (what, name, 0 if side == "links" else None,
               lambda t, s=side: t.once(f"bits {s}", lambda: t.ours_differ(s)), "heterps-run bench net")
    for other, name in (("mpi", "Open MPI"), ("gloo", "Gloo")):
        yield what, name, None, lambda t, p=other: t.differ(p, 2, 4), script + "'differ'"
        yield (what.replace("2 and by 4", "1 and by 2"), name, None,
               lambda t, p=other: t.differ(p, 1, 2), script + "'differ'")
    for count in (2, 4):
        yield (f"64 MiB by {count}, {RATE} a process", "at most: the wire's time", 1.05,
               lambda t, n=count: t.wire("64 MiB", n),
               f"RATE={RATE} " + script + f"'by {count}.*wire'")
        yield (f"64 MiB by {count}, {RATE} a process, sealed", "at most: the same, plain", 1.03,
               lambda t, n=count: t.sealing("64 MiB", n),
               f"RATE={RATE} " + script + f"'by {count}.*sealed.*plain'")


if __name__ == "__main__":
    table.run(__doc__, rows, Table)
