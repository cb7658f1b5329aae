#!/usr/bin/env python3
"""Asks a training for its figures while it runs, and prints a line "ok NAME" or "not ok NAME: why" for each test.

    python3 tests/e2e/metrics_check.py PROGRAM FOLDER

FOLDER has what test_metrics.sh puts there: a graph, and its data."""
import base64, filecmp, http.client, json, os, shutil, signal, socket, subprocess, sys, time

from checks import read, run_tests, same, test

program, folder = sys.argv[1:3]
os.chdir(folder)
BATCH = 64
LIMIT = 60


def until(what, condition):
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


class Training:
    """`heterps-run ARGUMENTS --metrics …`, and where it listens; killed with the block if it runs still."""

    def __init__(self, *arguments, metrics="127.0.0.1:0"):
        self.command = [program, *arguments, "--metrics", metrics]

    def __enter__(self):
        self.out, self.error = open("run.out", "w+"), open("run.err", "w+")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.error)
        return self

    def __exit__(self, *how):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def events(self, name):
        return [e for e in map(json.loads, (line for line in read("run.out").splitlines(True) if line.endswith(b"\n")))
                if e["event"] == name]

    def address(self, name="http://"):
        def find():
            assert self.process.poll() is None, read("run.err")
            for event in self.events("metrics"):
                return event["address"]
            for line in read("run.err").decode().splitlines():
                if name in line and "/metrics" in line:
                    return line.split("http://")[1].split("/")[0]

        return until("an address", find)

    def ask(self, path, method="GET", headers={}, address=None):
        c = http.client.HTTPConnection(*(address or self.address()).rsplit(":", 1), timeout=LIMIT)
        c.request(method, path, headers=headers)
        answer = c.getresponse()
        body = answer.read().decode()
        c.close()
        return answer.status, body

    def metrics(self, **more):
        status, self.text = self.ask("/metrics", **more)
        same(status, 200)
        return {k: float(v)
                for k, v in (line.rsplit(" ", 1) for line in self.text.splitlines() if not line.startswith("#"))}

    def is_ready(self):
        return self.ask("/readyz")[0] == 200

    def end(self):
        status = self.process.wait(LIMIT)
        return status


class Pipe:
    """A named pipe that has a writer until it is closed."""

    def __init__(self, name):
        if os.path.exists(name):
            os.remove(name)
        os.mkfifo(name)
        self.name = name

    def open(self):
        self.fd = os.open(self.name, os.O_RDWR)

    def put(self, data):
        end = time.monotonic() + LIMIT
        os.set_blocking(self.fd, False)
        while data:
            assert time.monotonic() < end, f"nobody reads {self.name}"
            try:
                data = data[os.write(self.fd, data[:4096]) :]
            except BlockingIOError:
                time.sleep(0.01)

    def close(self):
        os.close(self.fd)


def exported(model):
    shutil.rmtree(model + ".values", ignore_errors=True)
    subprocess.run([program, "export", "tiny.bin", "--model", model, "-o", model + ".values", "-q"], check=True)
    return model + ".values"


def same_values(one, other):
    one, other = exported(one), exported(other)
    files = sorted(os.listdir(one))
    same(sorted(os.listdir(other)), files)
    same(filecmp.cmpfiles(one, other, files, shallow=False), (files, [], []), "files of both")


def near(found, expected, what):
    """Counts are the same; other numbers are as near as nine digits of them."""
    if isinstance(expected, int):
        return same(found, expected, what)
    assert abs(found - expected) <= 1e-5 * max(1, abs(expected)), f"{what}: found {found}, expected {expected}"


def promtool(text):
    if shutil.which("promtool"):
        found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        same((found.returncode, found.stdout + found.stderr), (0, ""), "promtool")


def run_by_pipes(lines, *flags):
    """Trains on lines that come through a pipe, the second half when the first is learned, and stands still
    behind the last step, where the evaluation waits for its data. Returns the metrics on the way, then those
    at the end, and the event `done`."""
    data, held = Pipe("data.pipe"), Pipe("eval.pipe")
    held.open()
    held.put(lines[0])  # what says whether it is packed is read first
    shutil.rmtree("model", ignore_errors=True)
    half = len(lines) // 2 // BATCH * BATCH
    with Training("tiny.bin", "--data", data.name, "--eval", held.name, "--out", "model", "--log", "json", *flags) as t:
        same(t.ask("/healthz")[0], 200)
        status, why = t.ask("/readyz")
        same((status, why), (503, "training has not begun yet\n"), "nobody has opened the pipe")
        assert "heterps_train_step" not in t.metrics()
        data.open()
        data.put(b"".join(lines[:half]))
        until("ready", t.is_ready)
        on_the_way = until("steps", lambda: (m := t.metrics())["heterps_train_examples_total"] >= half / 2 and m)
        promtool(t.text)
        same(t.ask("/readyz")[0], 200)
        data.put(b"nonsense\n" + b"".join(lines[half:]))
        data.close()
        done = until("the last step", lambda: t.events("done"))[0]
        status, why = t.ask("/readyz")
        same((status, why), (503, "training is ending\n"), "behind the last step")
        until("the save", lambda: t.metrics().get("heterps_train_saved_step") == done["step"])
        at_end, told = t.metrics(), t.events("progress")[-1]
        done["saves"] = len(t.events("checkpoint"))  # the last one may have been made beside training, or behind it
        promtool(t.text)
        same(t.ask("/healthz")[0], 200)
        held.close()
        same(t.end(), 0)
    return half, on_the_way, at_end, done, told


@test
def figures_are_those_of_the_report():
    lines = read("rows.tsv").splitlines(True)
    half, way, end, done, told = run_by_pipes(lines, "--set", "data.bad_lines=skip", "--set", "checkpoint.every=7")
    assert way["heterps_train_step"] * BATCH <= half and way["heterps_train_examples_read_total"] <= half, way
    same((way["heterps_train_epoch"], way["heterps_train_bad_lines_total"]), (0, 0))
    for name, expected in (
        ("heterps_train_step", done["step"]),
        ("heterps_train_examples_total", done["samples"]),
        ("heterps_train_examples_read_total", len(lines)),
        ("heterps_train_bad_lines_total", 1),
        ('heterps_train_rows{table="emb"}', done["store"]["emb"]),
        ("heterps_train_loss", told["loss"]),
        ("heterps_train_examples_per_second", told["samples_per_s"]),
        ("heterps_train_window", told["window"]),
        ('heterps_train_figure{head="bce",figure="auc"}', told["heads"][0]["auc"]),
        ('heterps_train_figure{head="bce",figure="logloss"}', told["heads"][0]["logloss"]),
        ("heterps_train_workers", done["stages"][0]["workers"]),
    ):
        near(end[name], expected, name)
    same((done["samples"], done["bad_lines"]), (len(lines), 1))
    all_seconds = end["heterps_train_seconds_total"] * end["heterps_train_workers"]
    for phase in ("forward", "backward", "update"):
        found = end[f'heterps_train_worker_seconds_total{{phase="{phase}"}}'] / all_seconds
        assert found > 0, phase
        near(found, done["stages"][0][phase], phase)
    near(end['heterps_train_time_share{phase="computing"}'], done["stages"][0]["busy"], "computing")
    near(end['heterps_train_time_share{phase="computing"}'] + end['heterps_train_time_share{phase="waiting"}'],
         1.0, "workers")
    near(end['heterps_train_time_share{phase="reading"}'], done["reading"]["busy"], "reading")
    same(end["heterps_train_saves_total"], done["saves"], "saves")
    assert end["heterps_train_save_seconds_total"] >= end["heterps_train_last_save_seconds"] > 0, end
    assert 0 < end["heterps_resident_memory_bytes"] <= end["heterps_resident_memory_max_bytes"], end
    same(end["heterps_planned_memory_bytes"], done["memory_bytes"])
    for name in way:
        if name.split("{")[0].endswith("_total"):
            assert way[name] <= end[name], f"{name} goes back: {way[name]}, {end[name]}"
    plain = ("tiny.bin", "--data", "rows.tsv", "--out", "plain", "-q")
    subprocess.run([program, *plain], check=True, stdin=subprocess.DEVNULL)
    same_values("model", "plain")


@test
def figures_of_rows_on_disk_are_those_of_the_report():
    lines = read("wide.tsv").splitlines(True)
    ssd = ("--set", "store.ram=9MiB", "--set", "store.ssd=16MiB", "--set", "store.path=rows")
    shutil.rmtree("rows", ignore_errors=True)
    _, way, end, done, _ = run_by_pipes(lines, "--set", "data.bad_lines=skip", *ssd)
    disk = done["disk"]["emb"]
    label = '{table="emb"}'
    assert disk["rows_fetched"] > 0 and disk["disk_rows"] > 0, disk
    same(end["heterps_train_ram_hits_total" + label] + end["heterps_train_ssd_hits_total" + label],
         disk["rows_touched"])
    for name, field in (
        ("ssd_hits_total", "rows_fetched"),
        ("ram_rows", "ram_rows"),
        ("ssd_rows", "disk_rows"),
        ("ssd_reads_total", "reads"),
        ("ssd_read_bytes_total", "read_bytes"),
        ("ssd_written_bytes_total", "write_bytes"),
    ):
        # Its last save is behind the report.
        assert end[f"heterps_train_{name}{label}"] >= disk[field] > 0, (name, end, disk)
        if name not in ("ram_rows", "ssd_rows", "ssd_written_bytes_total"):
            same(end[f"heterps_train_{name}{label}"], disk[field], name)
    assert 0 < way["heterps_train_ram_hits_total" + label] < end["heterps_train_ram_hits_total" + label], way


@test
def only_who_has_a_token_gets_figures():
    token = "0123456789abcdef"
    with open("tokens", "w") as file:
        file.write(token + "\n")
    with Training("tiny.bin", "--data", "rows.tsv", "--out", "token.model", "--set", "train.epochs=1000000",
                  "--token-file", "tokens", metrics="0.0.0.0:0") as t:
        address = t.address().replace("0.0.0.0", "127.0.0.1")
        basic = base64.b64encode(f"me:{token}".encode()).decode()
        same(t.ask("/metrics", address=address)[0], 401)
        same(t.ask("/metrics", address=address, headers={"Authorization": "Bearer " + token[:-1] + "e"})[0], 401)
        same(t.ask("/metrics", address=address, headers={"Authorization": "Bearer " + token})[0], 200)
        same(t.ask("/metrics", address=address, headers={"Authorization": "Basic " + basic})[0], 200)
        same(t.ask("/healthz", address=address)[0], 200, "whoever asks")
        until("ready", lambda: t.ask("/readyz", address=address)[0] == 200)
        same(t.ask("/metrics", "POST", address=address)[0], 405)
        same(t.ask("/nothing", address=address)[0], 404)
        same(t.ask("/metrics/", address=address)[0], 404)
        t.process.send_signal(signal.SIGTERM)
        same(t.end(), 130 + signal.SIGTERM - signal.SIGINT)
        assert "--metrics 0.0.0.0:0 --token-file tokens" in read("run.err").decode(), "how to go on"


def ports_pair():
    """A port that is free, as is the next one."""
    for _ in range(100):
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            try:
                other.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except OSError:
                continue
            return one.getsockname()[1]
    raise AssertionError("no two ports")


class Launched(Training):
    def __init__(self, metrics):
        super().__init__("launch", "--local", "2", "--", "tiny.bin", "--data", "rows.tsv",
                         "--out", "nodes.model", "--insecure",
                         "--set", "train.epochs=1000000", "--set", "train.lanes=2", metrics=metrics)


def nodes_asked(t):
    for rank in (0, 1):
        address = t.address(f"[{rank}] metrics")
        until("ready", lambda: t.ask("/readyz", address=address)[0] == 200)
        m = until("steps", lambda: (m := t.metrics(address=address))["heterps_train_step"] > 2 and m)
        promtool(t.text)
        same((m["heterps_train_rank"], m["heterps_train_nodes"]), (rank, 2))
        # of rows that have just been asked for the sums are yet to be sent
        assert 0 < m["heterps_train_sent_bytes_least_total"] < 2 * m["heterps_train_sent_bytes_total"], m
        last = m[f'heterps_train_round_last_seconds_total{{node="{1 - rank}"}}']
        assert 0 < last <= m["heterps_train_round_seconds_total"], m
        assert m[f'heterps_train_waits_for{{node="{1 - rank}"}}'] in (0, 1), m
        assert 0 <= m["heterps_train_early_rows_total"] <= m["heterps_train_asked_rows_total"] > 0, m
    t.process.send_signal(signal.SIGTERM)
    same(t.end(), 75, read("run.err")[-500:])


@test
def each_node_has_figures_of_its_own():
    shutil.rmtree("nodes.model", ignore_errors=True)
    with Launched("127.0.0.1:0") as t:
        nodes_asked(t)


@test
def a_node_listens_at_the_port_and_its_rank():
    for _ in range(5):
        shutil.rmtree("nodes.model", ignore_errors=True)
        port = ports_pair()
        with Launched(f"127.0.0.1:{port}") as t:
            until("both, or none", lambda: read("run.err").count(b"] metrics") == 2 or t.process.poll() is not None)
            if t.process.poll() is not None and b"in use" in read("run.err"):
                continue  # somebody else has taken it since
            same([t.address(f"[{rank}] metrics") for rank in (0, 1)], [f"127.0.0.1:{port + rank}" for rank in (0, 1)])
            nodes_asked(t)
        return
    raise AssertionError("ports are taken as soon as they are free")


sys.exit(1 if run_tests() else 0)
