#!/usr/bin/python3
"""Compares heterps-run with the machine's limits and with what one would use instead, on this machine, and
prints a table: what, against what, the figure asked for, the figure found, the command that gives it.

    python3 tests/bench/cpu_table.py [--rounds 5] [--only PATTERN] [--wrap 'nice -n -10'] [--markdown] [--list]

Both sides of a line run in turn, a round after the other, and medians count; `heterps-run bench` does that by
itself for limits. --wrap is put before every command that is timed. Each side counts with the best of its
configurations: the first round tries all, the others repeat that one. What is not installed is left out, with
the reason. Takes about half an hour whole; `--only ctrdnn1` some minutes.

Needs ./heterps-run; and, each for its lines,
    OTHERS    a folder (default ../shared/peers) with gemm_dn, gemm_xs (products by oneDNN and LIBXSMM) and
              torch_ctr.py (PyTorch on batches in memory)
    PYTHON    an interpreter (default /usr/bin/python3) with torch, and numba for its compiled parser
    dnnl.h    of oneDNN 2, to compile tests/others/fc_onednn.c

PyTorch is run as it comes, and tuned: OpenBLAS with OpenMP, so that there is one pool of threads, the kernels
of its greatest instruction set forced, its threads bound. Bound threads hand their one core down to a
DataLoader's processes and to a thread that parses, so from a text file it is run bound and not. gemm_dn and
gemm_xs go by the clock on the wall and one thread of ours by its own, so their line wants a machine that
nobody else uses. Ours trains with micro-batches of up to 2048 examples, as suits a plan of one stage."""
import glob
import os
import re
import shutil
import subprocess
import sys

import table
from table import HETERPS, PLAIN, ROOT, Skip, median

OTHERS = os.environ.get("OTHERS", os.path.join(ROOT, "../shared/peers"))
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
BATCHES = (512, 2048, 8192)
MICRO = 2048
BOUND = {"OMP_PROC_BIND": "true"}
SIZES = (64, 128, 256, 512, 1024, 2048)
STEPS = ((512, 512, 429), (512, 256, 512), (512, 128, 256), (512, 64, 221))  # M N K: layers of ctrdnn and ctrdnn1


def tuned():
    """OpenBLAS' newest kernels, which it does not choose by itself where it does not know the processor."""
    with open("/proc/cpuinfo") as file:
        flags = re.search(r"^flags\s*:(.*)$", file.read(), re.M)
    flags = flags[1].split() if flags else []
    for flag, core in (("avx512_bf16", "Cooperlake"), ("avx512vl", "SkylakeX"), ("avx2", "Haswell")):
        if flag in flags:
            return {"OPENBLAS_CORETYPE": core}
    return {}


def has_module(name):
    try:
        return subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True).returncode == 0
    except OSError:
        return False


def one_core():
    """What confines a command to one processor."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


class Table(table.Table):
    # --- the machine's limits -------------------------------------------------------------------------

    def products(self, precision):
        shares = self.once(f"products {precision}", lambda: [
            f["share"] for f in self.bench(f"gemm --threads 1 --precision {precision} --repeats {self.rounds}")
            if "step" not in f["name"]])
        return {"median": median(shares), "worst": min(shares)}

    def share(self, arguments):
        """The least share of a subject's figures."""
        return min(f["share"] for f in self.bench(f"{arguments} --repeats {self.rounds}") if "share" in f)

    def parse(self):
        return next(f["median"] for f in self.bench(f"parse criteo --repeats {self.rounds}") if f["unit"] == "GB/s")

    def flops(self, model, precision):
        return self.bench(f"train {model} --threads 2 --precision {precision} --set train.micro={MICRO} "
                          f"--repeats {self.rounds}")[0]["share"]

    # --- other programs of products ----------------------------------------------------------------------------

    def products_others(self):
        programs = ([[os.path.join(OTHERS, "gemm_dn"), "1", "0", "0", packed] for packed in "01"]
                    + [[os.path.join(OTHERS, "gemm_xs"), "1"]])
        programs = [p for p in programs if os.access(p[0], os.X_OK)]
        if not programs:
            raise Skip(f"neither gemm_dn nor gemm_xs in {OTHERS}")
        ours, theirs = {}, [{} for _ in programs]
        for _ in range(self.rounds):
            for f in self.bench("gemm --threads 1 --precision f32 --repeats 1"):
                if f["name"] == "forward":
                    ours.setdefault((f["M"], f["N"], f["K"]), []).append(f["median"])
            for program, found in zip(programs, theirs):
                for line in self.run(program, {"OMP_NUM_THREADS": "1"}).splitlines():
                    shape = re.search(r"M=(\d+) N=(\d+):", line)
                    for k, rate in re.findall(r" K(\d+)=(\d+)", line) if shape else []:
                        found.setdefault((int(shape[1]), int(shape[2]), int(k)), []).append(float(rate))
        return median([median(rates) / max(median(found[shape]) for found in theirs if shape in found)
                       for shape, rates in ours.items()])

    def step_other(self):
        program = os.path.join(self.folder, "fc_onednn")
        compiler = shutil.which(os.environ.get("CC", "gcc"))
        build = [compiler or "gcc", "-O3", "-march=native", "-o", program, "tests/others/fc_onednn.c", "-ldnnl", "-lm"]
        if not compiler or subprocess.run(build, cwd=ROOT, capture_output=True).returncode != 0:
            raise Skip("tests/others/fc_onednn.c does not compile: apt-get install libdnnl-dev")
        ours, theirs = {}, {}
        for _ in range(self.rounds):
            for f in self.bench("gemm --threads 1 --precision f32 --repeats 1 "
                                + " ".join("--shape {}x{}x{}".format(*shape) for shape in STEPS)):
                if "step" in f["name"]:
                    ours.setdefault((f["M"], f["N"], f["K"]), []).append(f["median"])
            shapes = [str(number) for shape in ours for number in map(int, shape)]
            for line in self.run([program, *shapes], {"OMP_NUM_THREADS": "1"}).splitlines():
                *shape, rate = line.split()
                theirs.setdefault(tuple(map(float, shape)), []).append(float(rate))
        return median([median(rates) / median(theirs[shape]) for shape, rates in ours.items()])

    # --- PyTorch --------------------------------------------------------------------------------------

    def torch_environment(self):
        def find():
            if not has_module("torch"):
                raise Skip(f"{PYTHON} has no torch: apt-get install python3-torch")
            blas = glob.glob("/usr/lib/*/openblas-openmp")
            if not blas:  # without it Debian's PyTorch multiplies with the reference BLAS, which would flatter us
                raise Skip("apt-get install libopenblas0-openmp")
            return {**tuned(), "LD_LIBRARY_PATH": blas[0]}
        return self.once("torch", find)

    def training(self, model, precision, tuned):
        """Ours over PyTorch's, each at its best batch."""
        program = os.path.join(OTHERS, "torch_ctr.py")
        environment = {**self.torch_environment(), **BOUND}
        if not os.access(program, os.R_OK):
            raise Skip(f"no torch_ctr.py in {OTHERS}")
        name = {"ctrdnn": "base", "ctrdnn1": "dnn1", "ctrdnn2": "dnn2"}[model]

        def heterps(batch):
            sets = f"--set train.batch={batch} --set train.micro={min(batch, MICRO)}"
            return self.bench(f"train {model} --threads 2 --precision {precision} --repeats 1 {sets}")[0]["median"]

        def torch(batch, environment):
            command = ([PYTHON, program, name, str(batch), "2", "adagrad", "single"]
                       + (["bf16"] if precision == "bf16" else []))
            return self.rate(r"(\d+) samples/s", command, {"SECS": "3", **environment})

        def measure():
            ours, theirs, plain = self.turns(*({b: lambda b=b, f=f: f(b) for b in BATCHES} for f in (
                heterps, lambda b: torch(b, environment), lambda b: torch(b, PLAIN))))
            print(f"    {model} {precision}: ours {ours:,.0f}, PyTorch tuned {theirs:,.0f}, "
                  f"as it comes {plain:,.0f} samples/s", file=sys.stderr)
            return ours / theirs, ours / plain
        return self.once(f"train {model} {precision}", measure)[0 if tuned else 1]

    def gang(self, model):
        """Ours on two cores over ours on one, whose threads all share that one."""
        def rate(threads):
            prefix = one_core() if threads == 1 else []
            return self.bench(f"train {model} --threads {threads} --precision f32 --set train.micro={MICRO} "
                              "--repeats 1", prefix)[0]["median"]

        one, two = self.turns({1: lambda: rate(1)}, {2: lambda: rate(2)})
        return two / one

    # --- from a text file -----------------------------------------------------------------------------

    def text(self):
        def make():
            path, graph = os.path.join(self.folder, "clicks.tsv"), os.path.join(self.folder, "ctrdnn1.bin")
            for command in (["gen", "criteo", "--rows", "1000000", "--vocab", "38461", "-o", path],
                            ["compile", "samples/ctrdnn1.cfg", "--set", "train.batch=2048", "-o", graph]):
                self.run([HETERPS, *command, "-q"])
            return path, graph
        return self.once("text", make)

    def ours_from_text(self, threads):
        path, graph = self.text()
        command = ((one_core() if threads == 1 else []) + [HETERPS, graph, "--data", path,
                                                           "--threads", str(threads), "--log", "json"])
        return self.rate(r'"event":"done".*"samples_per_s":([\d.]+)', command)

    def end_to_end(self, readers):
        environment = self.torch_environment()
        if any(reader.startswith("numba") for reader, _ in readers) and not has_module("numba"):
            raise Skip(f"{PYTHON} has no numba: apt-get install python3-numba")
        path, _ = self.text()

        def torch(reader, threads, bound):
            command = [PYTHON, "tests/others/torch_ctrdnn1.py", path, reader, str(threads), "2048", "6"]
            return self.rate(r"^(\d+)$", command, {**environment, **bound})

        configurations = {(*reader, bool(bound)): lambda r=reader, b=bound: torch(*r, b) for reader in readers
                          for bound in (PLAIN, BOUND)}
        ours, theirs = self.turns({"": lambda: self.ours_from_text(2)}, configurations)
        print(f"    ctrdnn1 from text: ours {ours:,.0f}, PyTorch {theirs:,.0f} samples/s", file=sys.stderr)
        return ours / theirs

    def two_cores(self):
        if len(os.sched_getaffinity(0)) < 2:
            raise Skip("one core")
        rates = [(self.ours_from_text(1), self.ours_from_text(2)) for _ in range(self.rounds)]
        return median(two for _, two in rates) / median(one for one, _ in rates)


def rows():
    """What is compared, against what, the figure asked for, how it is found, the command that shows it best."""
    bench = "heterps-run bench "
    limit = "measured peak of FMA"
    pairs = "measured peak of VDPBF16PS or FMA"
    yield ("float32 products, one core: median", limit, 0.90, lambda t: t.products("f32")["median"],
           bench + "gemm --threads 1 --precision f32")
    yield "the same: worst", limit, 0.80, lambda t: t.products("f32")["worst"], "the same"
    yield ("float32 products, one core", "best of oneDNN, LIBXSMM", 0.97, Table.products_others,
           "cpu_table.py --only LIBXSMM")
    yield ("bfloat16 products, one core: median", pairs, 0.88, lambda t: t.products("bf16")["median"],
           bench + "gemm --threads 1 --precision bf16")
    yield ("fc forward + backward + update", "oneDNN's three products and separate passes", 1.10, Table.step_other,
           "cpu_table.py --only separate")
    for subject in ("gather", "update"):
        yield (f"{subject} of resolved rows, 64 B and 256 B, one core: worst", "random rows of the same table", 0.90,
               lambda t, s=subject: t.share(f"{s} --threads 1"), bench + f"{subject} --threads 1")
    yield "look-up of 50 M keys, one core", "random rows of 64 B", 0.70, lambda t: t.share("lookup"), bench + "lookup"
    yield "Criteo text to micro-batches, one core", "GB/s", 1.0, Table.parse, bench + "parse criteo"
    for model, precisions in (("ctrdnn", {"f32": 2.0, "bf16": 2.0}), ("ctrdnn1", {"f32": 4.0}),
                              ("ctrdnn2", {"f32": 1.2, "bf16": 1.5})):
        for precision, wanted in precisions.items():
            for tuned in (True, False):
                yield (f"{model} {precision}, Adagrad, two cores, batches in memory",
                       "PyTorch, tuned" if tuned else "PyTorch as it comes",
                       wanted if tuned else None, lambda t, m=model, p=precision, u=tuned: t.training(m, p, u),
                       f"cpu_table.py --only '{model} {precision}'")
    yield ("ctrdnn f32, two cores, batches in memory", "one core", None, lambda t: t.gang("ctrdnn"),
           "cpu_table.py --only 'memory . one core'")
    for model, wanted in (("ctrdnn", (0.75, 0.60)), ("ctrdnn2", (0.82, 0.77)), ("dcnv2", (None, 0.60))):
        for precision, share, peak in zip(("f32", "bf16"), wanted, (limit, pairs)):
            if share:
                yield (f"{model} {precision}, two cores: operations", peak, share,
                       lambda t, m=model, p=precision: t.flops(m, p),
                       bench + f"train {model} --threads 2 --precision {precision} --set train.micro={MICRO}")
    yield ("ctrdnn1 from a Criteo text file, two cores", "PyTorch, DataLoader", 14.5,
           lambda t: t.end_to_end([("dl0", 2), ("dl1", 1), ("dl2", 1)]), "cpu_table.py --only DataLoader")
    yield ("ctrdnn1 from a Criteo text file, two cores", "PyTorch, parser compiled by numba",
           3.5, lambda t: t.end_to_end([("numba", 2), ("numba_thread", 2), ("numba_thread", 1)]),
           "cpu_table.py --only numba")
    yield ("ctrdnn1 from a Criteo text file, two cores", "one core", 1.9, Table.two_cores,
           "cpu_table.py --only 'file.*one core$'")


if __name__ == "__main__":
    table.run(__doc__, rows, Table)
