#!/usr/bin/python3
"""Compares rows on a disk with the machine's limits and with what one would use instead, on this machine, and
prints a table: what, against what, the figure asked for, the figure found, the command that gives it.

    python3 tests/bench/rows_table.py [--rounds 5] [--only PATTERN] [--wrap 'nice -n -10'] [--markdown] [--list]

Both sides of a line run in turn, a round after the other, and medians count. --wrap is put before every
command that is timed. What is not installed is left out, with the reason. Takes about half an hour whole; on
memory and disk: some GB.

Needs ./heterps-run and what `./build.sh bench` builds; and, each for its lines,
    librocksdb-dev, liblmdb-dev     to compile tests/others/rows_rocksdb.cc and rows_lmdb.c
    a control group (version 1)     that bounds the page cache, which is all the cache that LMDB has: as root

In the environment
    ROWS       (default 4,000,000) of 64 B in the store; 20,000,000 is what the figures asked for are about
    EXAMPLES   (30,000) that are trained on, twice; ten times as many with ctrdnn1
    SCRATCH    a directory on the disk to be measured (default: for temporary files)

Rows are got and updated in batches of 13,312 keys, a row counts as often as it occurs. The RAM is a quarter
of the rows' 64 B each: all that heterps-run's store takes, its index and buffers included; RocksDB's block
cache, its index, filters and write buffers on top; LMDB's page cache. The flat file's rate is the most blocks
of 4 KiB a second that a bare ring reads, over the 3 of 4 rows that a cache of that size cannot have. Training
has RAM for a tenth of the rows besides the index of the others and buffers, 500,000 values a field, and is
compared with all rows in RAM, or with the lesser of that and the blocks that a bare ring reads over those
that an example read."""
import json
import os
import shutil
import subprocess
import sys

import table
from table import HETERPS, ROOT, Skip, median

ROWS = int(os.environ.get("ROWS", 4000000))
EXAMPLES = int(os.environ.get("EXAMPLES", 30000))
SCRATCH = os.environ.get("SCRATCH")
RAM = ROWS * 64 // 4
SECONDS = "4"
STORE = "build/release/tests/bench/store_bench"
OTHERS = {"RocksDB": ("rows_rocksdb.cc", "g++", "-lrocksdb", "librocksdb-dev"),
          "LMDB": ("rows_lmdb.c", "gcc", "-llmdb", "liblmdb-dev")}
GROUP = "/sys/fs/cgroup/memory/heterps_rows_table"
FLOATS = {"ctrdnn1": 16, "ctrdnn2": 128}  # of a row: its vector and Adagrad's state


class Table(table.Table):
    def __init__(self, options):
        super().__init__(options)
        if SCRATCH:
            shutil.rmtree(self.folder)
            self.folder = os.path.join(SCRATCH, "rows_table")
            os.makedirs(self.folder, exist_ok=True)
        self.rows = os.path.join(self.folder, "rows")

    def blocks(self):
        """Random blocks of 4 KiB a second that the disk gives at most."""
        figures = self.bench(f"disk {self.folder} --repeats 1")
        return 1e3 * max(max(f["median"], f.get("limit", 0)) for f in figures if f["name"].startswith("reads"))

    # --- the store ------------------------------------------------------------------------------------

    def store(self, pattern, what, live="0.85"):
        if not os.access(os.path.join(ROOT, STORE), os.X_OK):
            raise Skip(f"no {STORE}; run ./build.sh bench")
        return self.rate(pattern, [STORE, self.rows, str(ROWS), str(RAM), SECONDS, live, what])

    def got(self, what):
        return self.store(r"([\d.]+) rows/s", what)

    def flat(self):
        ours, limit = self.turns({"": lambda: self.got("get:uniform")}, {"": lambda: self.blocks() / 0.75})
        print(f"    get:uniform: ours {ours:,.0f}, a flat file {limit:,.0f} rows/s", file=sys.stderr)
        return ours / limit

    def other(self, name):
        """The command that measures another program, its rows made."""
        source, compiler, library, package = OTHERS[name]
        program, directory = os.path.join(self.folder, source.split(".")[0]), os.path.join(self.folder, name)
        build = [compiler, "-O2", "-o", program, f"tests/others/{source}", library, "-lm"]
        if not shutil.which(compiler) or subprocess.run(build, cwd=ROOT, capture_output=True).returncode != 0:
            raise Skip(f"tests/others/{source} does not compile: apt-get install {package}")
        os.makedirs(directory, exist_ok=True)
        command = [program, directory, str(ROWS), str(RAM), SECONDS]
        self.run(command, timed=False)
        return command

    def other_got(self, name, what):
        command = self.once(name, lambda: self.other(name))
        if name == "LMDB":
            try:
                os.makedirs(GROUP, exist_ok=True)
                with open(f"{GROUP}/memory.limit_in_bytes", "w") as file:
                    file.write(str(RAM))
                self.page_cache_empty(os.path.join(command[1], "data.mdb"))
            except OSError as error:
                raise Skip(f"no control group that bounds the page cache: {error}")
            command = ["sh", "-c", f'echo $$ >{GROUP}/tasks && exec "$@"', "sh"] + command
        return self.rate(r"([\d.]+) rows/s", command + [what])

    @staticmethod
    def page_cache_empty(path):
        """What another control group has read counts for nobody otherwise."""
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def over(self, what, name):
        ours, theirs = self.turns({"": lambda: self.got(what)}, {"": lambda: self.other_got(name, what)})
        print(f"    {what}: ours {ours:,.0f}, {name} {theirs:,.0f} rows/s", file=sys.stderr)
        return ours / theirs

    # --- training ---------------------------------------------------------------------------------------

    def data(self, examples, zipf):
        path = os.path.join(self.folder, f"{zipf}.{examples}.tsv")
        self.run([HETERPS, "gen", "criteo", "--rows", str(examples), "--vocab", "500000", "--zipf", str(zipf),
                  "-o", path, "-q"], timed=False)
        return path

    def graph(self, model):
        path = os.path.join(self.folder, f"{model}.bin")
        self.run([HETERPS, "compile", f"samples/{model}.cfg", "-o", path, "-q"], timed=False)
        return path

    def train(self, model, data, settings, timed=True):
        """The events of a run."""
        command = [HETERPS, self.once(model, lambda: self.graph(model)), "--data", data, "--log", "json"]
        for setting in settings:
            command += ["--set", setting]
        events = [json.loads(line) for line in self.run(command, timed=timed).splitlines()]
        return {event["event"]: event for event in events}

    def tiers(self, model, data):
        """Settings that give RAM for a tenth of the rows."""
        rows = sum(count for name, count in self.train(model, data, [], False)["done"]["store"].items()
                   if name != "used_bytes")
        row_bytes = 4 * FLOATS[model]
        disk = int(rows * (row_bytes + 8) / 0.8) + (16 << 20)
        ram = 64 << 20  # enough to open with; then as much less as its rows are too many
        for _ in range(2):
            settings = [f"store.ram={ram}", f"store.ssd={disk}", f"store.path={self.rows}"]
            parts = self.train(model, data, settings + ["train.steps_max=1"], False)["start"]["memory"]
            ram += int((rows * 0.1 * row_bytes
                        - parts["store rows"]) * (1 + parts["store index"] / parts["store rows"]))
            ram = max(ram, 4 << 20)
        return [f"store.ram={ram}", f"store.ssd={disk}", f"store.path={self.rows}"]

    def trained(self, model, zipf, against_disk):
        def measure():
            data = self.once(f"{zipf} {model}", lambda: self.data(EXAMPLES * (5 if model == "ctrdnn1" else 1), zipf))
            settings = self.once(f"{zipf} {model} tiers", lambda: self.tiers(model, data))
            ours, shares = [], []
            for _ in range(self.rounds):
                whole = self.train(model, data, ["train.epochs=2"])["done"]["samples_per_s"]
                done = self.train(model, data, ["train.epochs=2"] + settings)["done"]
                limit = whole
                if against_disk:
                    blocks = sum(disk["read_bytes"] for disk in done["disk"].values()) / 4096 / done["samples"]
                    limit = min(whole, self.blocks() / blocks)
                ours.append(done["samples_per_s"])
                shares.append(ours[-1] / limit)
                print(f"    {model} zipf {zipf}: {ours[-1]:,.0f}, all in RAM {whole:,.0f}, "
                      f"limit {limit:,.0f} samples/s", file=sys.stderr)
            return median(shares)
        return self.once(f"{model} {zipf} {against_disk}", measure)


def rows():
    """What is compared, against what, the figure asked for, how it is found, the command that shows it best."""
    script = "rows_table.py --only "
    tenth = "RAM for a tenth of the rows"
    yield (f"ctrdnn2, Zipf 1.05, {tenth}", "all rows in RAM", 0.90,
           lambda t: t.trained("ctrdnn2", 1.05, False), script + "ctrdnn2")
    yield (f"ctrdnn1, Zipf 1.05, {tenth}", "the lesser of RAM and the disk", 0.80,
           lambda t: t.trained("ctrdnn1", 1.05, True), script + "'ctrdnn1, Zipf'")
    yield (f"ctrdnn1, uniform, {tenth}", "the lesser of RAM and the disk", 0.80,
           lambda t: t.trained("ctrdnn1", 0, True), script + "'ctrdnn1, uniform'")
    yield "rows got, uniform, RAM a quarter", "a flat file and a bare ring", 0.70, Table.flat, script + "flat"
    for what, name, wanted in (("get:uniform", "RocksDB", 3.7), ("get:uniform", "LMDB", 3.7),
                               ("get:zipf", "RocksDB", 5), ("get:zipf", "LMDB", 5),
                               ("update:zipf", "RocksDB", 5), ("update:zipf", "LMDB", 5)):
        yield (f"rows, {what}, RAM a quarter", name, wanted, lambda t, w=what, n=name: t.over(w, n),
               script + f"'{what}.*{name}'")
    bench = "store_bench DIRECTORY"
    yield ("bytes of RAM a row there, beside its floats", "at most", 20,
           lambda t: t.store(r"in RAM, ([\d.]+) B each", "get:uniform"), bench)
    yield ("bytes of RAM a row on disk", "at most", 12,
           lambda t: t.store(r"on disk, ([\d.]+) B each", "get:uniform"), bench)
    yield ("bytes written, of rows that leave, disk 70 % live", "at most", 2.5,
           lambda t: t.store(r"([\d.]+) written", "update:uniform", "0.7"), bench)


if __name__ == "__main__":
    try:
        table.run(__doc__, rows, Table)
    finally:
        if os.path.isdir(GROUP):
            os.rmdir(GROUP)
