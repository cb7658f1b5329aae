#!/usr/bin/env python3
"""Asks `heterps-run serve` what a client could, and prints a line "ok NAME" or "not ok NAME: why" for each test.

    python3 tests/e2e/serve_check.py PROGRAM FOLDER

FOLDER has what test_serve.sh puts there: models with their data, and what `predict` says of these."""
import base64, html.parser, json, os, select, shutil, signal, socket, struct, subprocess, sys, threading, time
import urllib.parse

import serve_server
from checks import read, run_tests, same, test

program, folder = sys.argv[1:3]
os.chdir(folder)


class Server(serve_server.Server):
    """Of the tiny model, unless `model` says another."""

    def __init__(self, *flags, model=("tiny.bin", "--model", "model"), **more):
        super().__init__(program, *model, *flags, **more)


def everything(s):
    """What comes until the other side closes."""
    text = b""
    while piece := s.recv(65536):
        text += piece
    return text


# --- answers -----------------------------------------------------------------------------------------


@test
def answers_are_those_of_predict():
    lines, expected = read("rows.tsv").splitlines(True), read("plain").splitlines(True)
    with Server() as server:
        status, headers, body = server.ask(b"".join(lines))
        same((status, body), (200, b"".join(expected)), "a file")
        assert int(headers["Heterps-Version"]) > 0, headers
        assert "Heterps-Bad-Lines" not in headers, headers
        c = server.connect()
        for line, answer in list(zip(lines, expected))[:200]:
            same(server.ask(line, connection=c)[2], answer, "a line")
            same(server.ask(line.rstrip(b"\n"), connection=c)[2], answer, "a line without its end")
        # In pieces that end anywhere in micro-batches.
        for begin, end in ((0, 63), (63, 64), (64, 129), (129, 700), (700, len(lines))):
            same(server.ask(b"".join(lines[begin:end]), connection=c)[2], b"".join(expected[begin:end]), "some lines")


@test
def answers_of_many_at_once_do_not_mix():
    lines, expected = read("rows.tsv").splitlines(True), read("plain").splitlines(True)
    wrong = []

    def client(server, number):
        c = server.connect()
        for turn in range(30):
            begin = (number * 37 + turn * 11) % 2900
            count = 1 + (number * turn) % 90 * (turn % 3 == 0)
            if server.ask(b"".join(lines[begin : begin + count]),
                          connection=c)[2] != b"".join(expected[begin : begin + count]):
                wrong.append((number, turn))
        c.close()

    for flags in ((), ("--threads", "3", "--set", "serve.wait=2")):
        with Server(*flags) as server:
            threads = [threading.Thread(target=client, args=(server, i)) for i in range(64)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    same(wrong, [], "clients and turns")


@test
def malformed_lines_are_answered_in_place():
    lines, expected = read("rows.tsv").splitlines(True), read("plain").splitlines(True)
    with Server() as server:
        status, headers, body = server.ask(lines[0] + b"no line\n\n" + lines[1].split(b"\t", 1)[1] + b"1\tx\n")
        same((status, body), (200, expected[0] + b"nan\nnan\n" + expected[1] + b"nan\n"))
        same(headers["Heterps-Bad-Lines"], "3")
        same(headers["Heterps-Bad-Line"], "line 2: expected 40 or 39 columns separated by tabs, found 1")
        for empty in (b"", b"\n"):
            same(server.ask(empty)[::2], (200, b""), "nothing")


@test
def csv_is_read_as_a_file():
    with Server(model=("csv.bin", "--model", "csv.model")) as server:
        same(server.ask(read("one.csv"))[::2], (200, read("csv.plain")))
        same(server.ask(b"click,tags,job,age\n0,,cook,40\n")[::2],
             server.ask(b"age,job,tags\n40,cook,\n")[::2], "other orders")
        status, _, body = server.ask(b"age,tags\n40,a\n")
        assert status == 400 and body.startswith(b"line 1: "), (status, body)
        same(server.ask(read("one.csv"))[::2], (200, read("csv.plain")), "after a wrong one")


@test
def models_have_names():
    with Server(model=("--model", "a=tiny.bin:model", "--model", "b.2=csv.bin:csv.model")) as server:
        same(server.ask(read("rows.tsv"), path="/predict/a")[2], read("plain"))
        same(server.ask(read("one.csv"), path="/predict/b.2")[2], read("csv.plain"))
        same(server.ask(read("rows.tsv"))[2], read("plain"), "the first")
        same(server.ask(b"", path="/predict/c")[0], 404)


class Form(html.parser.HTMLParser):
    """The fields of a page's first form, its answer, and what it loads or runs."""

    def __init__(self, page):
        super().__init__()
        self.names, self.values, self.answer, self.loads, self.inside, self.label = {}, {}, None, [], None, ""
        self.feed(page.decode())

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.inside = "answer" if a.get("class") == "answer" else tag
        if tag == "input":
            self.names[self.label] = a["name"]
            self.values[self.label] = a["value"]
        self.loads += [a[k] for k in ("src", "href", "action", "onclick") if k in a] + [tag] * (tag == "script")

    def handle_data(self, text):
        if self.inside == "label":
            self.label = text
        if self.inside == "answer":
            self.answer = (self.answer or "") + text

    def handle_endtag(self, tag):
        self.inside = None


@test
def a_page_has_a_form_of_the_columns():
    line, expected = read("rows.tsv").splitlines()[0].decode().split("\t"), read("plain").splitlines(True)[0].decode()
    columns = [f"I{i + 1}" for i in range(13)] + [f"C{i + 1}" for i in range(26)]
    with Server() as server:
        status, headers, body = server.ask(path="/")
        page = Form(body)
        same((status, list(page.names)), (200, columns))
        assert "default-src 'none'" in headers["Content-Security-Policy"], headers
        assert all(load.startswith("/") for load in page.loads), page.loads
        fields = urllib.parse.urlencode({page.names[c]: v for c, v in zip(columns, line[1:])})
        status, _, body = server.ask(fields, path="/page/model")
        page = Form(body)
        same((status, page.answer), (200, expected))
        same(list(page.values.values()), line[1:], "what was sent")
        same(Form(server.ask(urllib.parse.urlencode({"lines": "\t".join(line)}), path="/page/model")[2]).answer,
             expected)
        status, _, body = server.ask(urllib.parse.urlencode({"lines": "<b>&\"'", "c0": "<i>"}), path="/page/model")
        assert status == 200 and b"<b>" not in body and b"<i>" not in body and b"&lt;b&gt;&amp;" in body, body
        same(server.ask(urllib.parse.urlencode({"c0": "1\t2"}), path="/page/model")[::2],
             (400, b"column I1: expected a value without tabs, which is between columns\n"))
        same(server.ask("no form", path="/page/model")[0], 400)
        same(server.ask("c0=" + "1" * 300000, path="/page/model")[0], 400)
        assert b"http-equiv=\"refresh\"" in server.ask(path="/figures/model")[2]
    with Server(model=("--model", "a=tiny.bin:model", "--model", "b=csv.bin:csv.model")) as server:
        assert b"href=\"/page/b\"" in server.ask(path="/")[2]
        page = Form(server.ask(path="/page/b")[2])
        same(list(page.names), ["age", "job", "tags"])
        fields = {page.names[c]: v for c, v in (("age", "30"), ("job", 'smith, "J"'), ("tags", "a|b"))}
        same(Form(server.ask(urllib.parse.urlencode(fields), path="/page/b")[2]).answer,
             read("csv.plain").splitlines(True)[0].decode())


@test
def figures_are_those_of_what_was_asked():
    lines = read("rows.tsv").splitlines(True)

    def figures(server):
        text = server.ask(path="/metrics")[2].decode()
        return text, dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    with Server() as server:
        server.ask(b"".join(lines))
        server.ask(lines[0] + b"x\n")
        server.ask(path="/none")
        text, f = figures(server)
        same(f['heterps_examples_total{model="model"}'], "3002")
        same(f['heterps_bad_lines_total{model="model"}'], "1")
        same(f['heterps_request_duration_seconds_count{model="model"}'], "2")
        same(f['heterps_request_duration_seconds_bucket{model="model",le="+Inf"}'], "2")
        same((f['heterps_http_answers_total{code="200"}'], f['heterps_http_answers_total{code="404"}']), ("2", "1"))
        same((f["heterps_http_connections"], f['heterps_requests_waiting{model="model"}']), ("1", "0"))
        assert int(f['heterps_model_step{model="model"}']) > 0
        if shutil.which("promtool"):
            found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            same((found.returncode, found.stdout + found.stderr), (0, ""), "promtool")
        for _ in range(100):  # closed connections, and what they held, are gone soon
            f = figures(server)[1]
            if f["heterps_http_connections"] == "1" and f["heterps_http_held_bytes"] == "0":
                break
        same((f["heterps_http_connections"], f["heterps_http_held_bytes"]), ("1", "0"))


@test
def tensors_are_answered_by_tensors():
    lines, expected = read("rows.tsv").decode().splitlines()[:5], read("plain").decode().split()[:5]
    columns = [f"I{i + 1}" for i in range(13)] + [f"C{i + 1}" for i in range(26)]
    rows = [line.split("\t")[1:] for line in lines]
    inputs = [{"name": c, "datatype": "BYTES", "shape": [5], "data": [row[k] for row in rows]}
              for k, c in enumerate(columns)]

    def infer(server, request, path="/v2/models/model/infer", **headers):
        status, headers, body = server.ask(json.dumps(request), path=path, headers=headers)
        return status, headers, body

    with Server() as server:
        same(server.ask(path="/v2")[0], 200)
        same([server.ask(path=f"/v2/health/{what}")[0] for what in ("live", "ready")], [200, 200])
        model = json.loads(server.ask(path="/v2/models/model")[2])
        same(([i["name"] for i in model["inputs"]], [o["name"] for o in model["outputs"]]), (columns, ["bce"]))
        version = model["versions"][0]
        for path in ("/v2/models/model/infer", f"/v2/models/model/versions/{version}/infer"):
            status, headers, body = infer(server, {"id": "7", "inputs": inputs}, path)
            answer = json.loads(body, parse_float=str)
            same((status, headers["Content-Type"], headers["Heterps-Version"]), (200, "application/json", version))
            same(answer, {"model_name": "model", "model_version": version, "id": "7",
                          "outputs": [{"name": "bce", "datatype": "FP32", "shape": [5], "data": expected}]})
        status, headers, body = infer(server, {"inputs": inputs, "parameters": {"binary_data_output": True}})
        end = int(headers["Inference-Header-Content-Length"])
        same(json.loads(body[:end])["outputs"][0]["parameters"], {"binary_data_size": 20})
        same(struct.unpack("<5f", body[end:]), struct.unpack("<5f", struct.pack("<5f", *map(float, expected))))
        # Columns that are not there are absent; one that is wrong is told.
        same(json.loads(infer(server, {"inputs": inputs[3:9]})[2], parse_float=str)["outputs"][0]["data"],
             server.ask("".join("\t" * 3 + "\t".join(row[3:9]) + "\t" * 30 + "\n" for row in rows))[2].decode().split())
        wrong = [dict(inputs[0], data=["1", "2", "x", "3", "4"])]
        same(infer(server, {"inputs": wrong})[::2],
             (400, b'{"error":"example 3: column 1 (I1): expected an integer, found \\"x\\""}\n'))
        for path, status in (("/v2/models/no/infer", 404), ("/v2/models/model/versions/0/infer", 404),
                             ("/v2/models/model/no", 404),
                             ("/v2/no", 404), ("/v2/models/", 404)):
            found = infer(server, {"inputs": inputs}, path)
            assert found[0] == status and "error" in json.loads(found[2]), (path, found)
        same(infer(server, {"inputs": inputs}, **{"Inference-Header-Content-Length": "x"})[0], 400)
        same(infer(server, {"inputs": inputs}, **{"Inference-Header-Content-Length": "999999"})[0], 400)
        same(server.ask(b"", path="/v2/models/model/infer")[0], 400)


@test
def words_are_the_best_of_the_vocabulary():
    lines, expected = read("users.txt").splitlines(True), read("towers.plain").splitlines(True)
    with Server(model=("towers.bin", "--model", "towers.model")) as server:
        same(server.ask(b"".join(lines))[::2], (200, b"".join(expected)))
        for line, answer in list(zip(lines, expected))[:50]:
            same(server.ask(line)[2], answer)
        same(server.ask(lines[0] + lines[1] + lines[0])[2], expected[0] + expected[1], "a user twice, as in a file")
        for k in (1, 5, 20):
            found = server.ask(b"".join(lines), path=f"/v2/models/model/top?k={k}")
            same(found[::2], (200, b"".join(b"\t".join(line.split()[:k]) + b"\n" for line in expected)), k)
        more = server.ask(lines[0], path="/v2/models/model/top?k=1000")[2].split()
        known = set(read("pairs").splitlines()[0].split()[1:])
        same((more[:20], len(more), known & set(more)), (expected[0].split(), 30 - len(known), set()),
             "all that are new to him")
        past = lines[1].strip() + b" " + b" ".join(more[:3]) + b"\n"
        same(set(server.ask(past, path="/v2/models/model/top?k=1000")[2].split()) & set(more[:3]), set(),
             "nor what the line tells")
        same(server.ask(lines[0], path="/v2/models/model/top")[2], expected[0])
        for wrong in ("k=0", "k=1001", "k=", "n=5"):
            same(server.ask(lines[0], path="/v2/models/model/top?" + wrong)[0], 400, wrong)
        same(json.loads(server.ask(path="/v2/models/model")[2])["outputs"],
             [{"name": "drawn_softmax", "datatype": "BYTES", "shape": [-1, 20]}])
        users = {"name": "text", "datatype": "BYTES", "shape": [3],
                 "data": [lines[i].decode().strip() for i in (0, 1, 0)]}
        answer = json.loads(server.ask(json.dumps({"inputs": [users]}), path="/v2/models/model/infer")[2])
        same(answer["outputs"][0]["shape"], [3, 20])
        same(answer["outputs"][0]["data"], b"".join(expected[i] for i in (0, 1, 0)).decode().split())
        users = dict(users, shape=[1], data=["u1 i1 i2"])
        same(server.ask(json.dumps({"inputs": [users]}), path="/v2/models/model/infer")[0], 400,
             "two predictions of a line")
    with Server() as server:
        same(server.ask(b"", path="/v2/models/model/top")[0], 404)


# --- versions ----------------------------------------------------------------------------------------


def until(what, condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within 30 s: {what}")


def predictions(directory, version, data="some.tsv"):
    """What predict says of some.tsv by the save of that name, which is older than the newest or that."""
    manifest = f"{directory}/manifest.{version}.json"
    path = manifest if os.path.exists(manifest) else directory
    return subprocess.run([program, "predict", "tiny.bin", "--model", path, "--data", data, "-q"],
                          capture_output=True, check=True).stdout


@test
def saves_are_taken_while_it_is_asked():
    shutil.copytree("model", "grows")
    lines = read("rows.tsv").splitlines(True)[:40]
    with open("some.tsv", "wb") as file:
        file.write(b"".join(lines))
    found, failed, over = {}, [], threading.Event()

    def client(server, number):
        c = server.connect()
        while not over.is_set():
            status, headers, body = server.ask(b"".join(lines), connection=c)
            if status != 200:
                failed.append((number, status, body))
            found.setdefault(headers.get("Heterps-Version"), set()).add(body)
        c.close()

    with Server(model=("tiny.bin", "--model", "grows")) as server:
        threads = [threading.Thread(target=client, args=(server, i)) for i in range(16)]
        for t in threads:
            t.start()
        first = server.ask(b"")[1]["Heterps-Version"]
        # Saves of every third step, as fast as they come, all kept; the server takes what it finds.
        subprocess.run([program, "tiny.bin", "--data", "rows.tsv", "--continue", "grows", "--out", "grows", "-q",
                        "--set", "train.steps_max=40",
                        "--set", "checkpoint.every=3", "--set", "checkpoint.wait=yes", "--set", "checkpoint.keep=1000"],
                       check=True, stdin=subprocess.DEVNULL)
        last = json.loads(server.ask(path="/version")[2])["older"]
        newest = str(int(first) + 40)
        until("the newest is taken", lambda: server.ask(b"")[1]["Heterps-Version"] == newest)
        over.set()
        for t in threads:
            t.join()
        assert first in last, last
        text, status = server.ask(path="/metrics")[2].decode(), server.ask(lines[0])[0]
        same(status, 200)
        assert f'heterps_model_step{{model="model"}} {newest}\n' in text
    same(failed, [], "requests")
    assert first in found and newest in found, found.keys()
    for version, bodies in found.items():
        same(len(bodies), 1, f"answers of version {version}")
        same(bodies.pop(), predictions("grows", version), f"version {version}")


def priorities(server):
    folder, found = f"/proc/{server.process.pid}/task", set()
    for thread in os.listdir(folder):
        try:
            found.add(int(open(f"{folder}/{thread}/stat").read().rsplit(")", 1)[1].split()[16]))
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return found


@test
def a_version_can_be_asked_for():
    line = read("rows.tsv").splitlines(True)[0]
    newest = None
    with Server(model=("tiny.bin", "--model", "grows")) as server:
        state = json.loads(server.ask(path="/version")[2])
        newest, older = state["version"], state["older"]
        same((state["held"], len(older) > 3, newest in older), (False, True, False))
        status, headers, body = server.ask(older[1] + "\n", path="/version")
        same((status, body.decode().strip(), headers["Heterps-Version"]), (200, older[1], older[1]))
        same(server.ask(read("some.tsv"))[2], predictions("grows", older[1]))
        same(json.loads(server.ask(path="/version/model")[2])["held"], True)
        # It stays, whatever is saved.
        shutil.copy("grows/manifest.json", "grows/copy")
        os.rename("grows/copy", "grows/manifest.json")
        time.sleep(0.7)
        same(server.ask(line)[1]["Heterps-Version"], older[1])
        for name, code in (("1", 409), ("", 400), ("../x", 400), ("9" * 60, 400)):
            same(server.ask(name, path="/version")[0], code, name)
        same(server.ask(newest, path="/version")[0], 200)
        same(server.ask(older[0], path="/version")[0], 200)
        same(server.ask("newest", path="/version")[::2], (200, newest.encode() + b"\n"))
        same(json.loads(server.ask(path="/version")[2])["held"], False)
        same(server.ask(read("some.tsv"))[2], predictions("grows", newest))
        same(server.ask("newest", path="/version", headers={"Origin": "http://other.example"})[0], 403, "another page")
        same(server.ask("newest", path="/version", headers={"Origin": f"http://127.0.0.1:{server.port}"})[0],
             200, "our page")
    with Server(model=("tiny.bin", "--model", f"grows/manifest.{older[0]}.json")) as server:
        same(server.ask(line)[1]["Heterps-Version"], older[0])
        same(server.ask("newest", path="/version")[2].decode().strip(), newest)
        same(priorities(server), {os.getpriority(os.PRIO_PROCESS, 0)}, "priorities of the threads behind a change")


@test
def a_broken_save_changes_nothing():
    shutil.copytree("model", "breaks")
    lines, expected = read("rows.tsv"), read("plain")
    with Server(model=("tiny.bin", "--model", "breaks")) as server:
        version = server.ask(lines)[1]["Heterps-Version"]
        rows = next(name for name in os.listdir("breaks") if name.endswith(".rows"))
        whole = read(f"breaks/{rows}")
        for wrong in ("rows", "manifest"):
            os.unlink(f"breaks/{rows}")
            with open(f"breaks/{rows}", "wb") as file:
                file.write(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:] if wrong == "rows" else whole)
            manifest = read("model/manifest.json")
            with open("breaks/new", "wb") as file:
                file.write(manifest[:-9] if wrong == "manifest" else manifest)
            os.rename("breaks/new", "breaks/manifest.json")
            line = server.line("warning")
            assert ("warning: model model: the new save in breaks is not taken: breaks/" in line
                    and f"version {version} stays" in line), line
            same(server.ask(lines)[::2], (200, expected))
            same(server.ask("newest", path="/version")[0], 409)
        with open("breaks/new", "wb") as file:
            file.write(read("model/manifest.json"))
        os.rename("breaks/new", "breaks/manifest.json")
        server.line(f"version {version}, in place of {version}")
        same(server.ask(lines)[::2], (200, expected))


@test
def rows_on_disk_are_served_and_stay():
    os.mkdir("disk")
    flags = [word for flag in ("store.ram=9MiB", "store.ssd=8MiB", f"store.path={folder}/disk")
             for word in ("--set", flag)]
    with Server(*flags) as server:
        assert "new saves are not taken" in server.said, server.said
        same(server.ask(read("rows.tsv"))[::2], (200, read("plain")))
        same(server.ask("newest", path="/version")[0], 409)


# --- HTTP --------------------------------------------------------------------------------------------


@test
def what_is_no_request_is_refused():
    with Server("--set", "serve.body=4KiB") as server:
        same(server.ask(path="/nothing")[0], 404)
        same(server.ask(path="/predict/")[0], 404)
        status, headers, _ = server.ask(path="/predict")
        same((status, headers["Allow"]), (405, "POST"))
        status, headers, _ = server.ask(b"", path="/healthz")
        same((status, headers["Allow"]), (405, "GET, HEAD"))
        same(server.ask(path="/healthz", method="HEAD")[::2], (200, b""))
        same(server.ask(path="/healthz")[::2], (200, b"ok\n"))
        same(server.ask(path="/readyz")[::2], (200, b"ok\n"))
        same(server.ask(b"x" * 4097)[0], 413, "a large body")
        same(server.ask(b"", headers={"Content-Encoding": "gzip"})[0], 415, "a packed body")
        for text, expected in (
            (b"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", b"501"),
            (b"POST /predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
            (b"POST /predict HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
            (b"GET /healthz HTTP/1.1\r\nA: " + b"b" * 100000 + b"\r\n\r\n", b"400"),
            (b"no http\r\n\r\n", b"400"),
            (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
        ):
            with server.socket() as s:
                s.sendall(text)
                try:
                    found = everything(s)
                except ConnectionResetError:
                    continue  # it was told, and closed before all of it was read
                assert expected in found.split(b"\r\n")[0] or not found, (text[:40], found[:100])
        same(server.ask(read("rows.tsv")[:300].split(b"\n")[0])[0], 200, "the next")


@test
def bodies_may_come_in_chunks():
    lines, expected = read("rows.tsv").splitlines(True)[:300], b"".join(read("plain").splitlines(True)[:300])
    with Server() as server:
        c = server.connect()
        c.request("POST", "/predict", body=iter(lines), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        same(c.getresponse().read(), expected)
        with server.socket() as s:
            text = b"".join(lines)
            s.sendall(b"POST /predict HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(text))
            assert b"100" in s.recv(1000)
            s.sendall(text)
            same(everything(s).split(b"\r\n\r\n", 1)[1], expected, "behind a 100")


@test
def tokens_are_needed_where_there_are_some():
    with open("tokens", "w") as file:
        file.write("# ours\n0123456789abcdef\nfedcba9876543210\n")
    line, expected = read("rows.tsv").splitlines(True)[0], read("plain").splitlines(True)[0]
    with Server("--token-file", "tokens") as server:
        status, headers, _ = server.ask(line)
        assert status == 401 and headers["WWW-Authenticate"].startswith("Basic "), (status, headers)
        for wrong in ("Bearer 0123456789abcdee", "Bearer ", "Basic " + base64.b64encode(b"0123456789abcdef:").decode()):
            same(server.ask(line, headers={"Authorization": wrong})[0], 401, wrong)
        for right in ("Bearer fedcba9876543210", "Basic " + base64.b64encode(b"me:0123456789abcdef").decode()):
            same(server.ask(line, headers={"Authorization": right})[::2], (200, expected), right)
        same(server.ask(path="/healthz")[0], 200)
        same(server.ask(path="/readyz")[0], 200)


@test
def beyond_this_machine_it_has_to_be_said():
    with Server("--insecure", listen="0.0.0.0:0") as server:
        assert "warning: --insecure: whoever reaches 0.0.0.0:0 may ask" in server.said, server.said
        same(server.ask(path="/healthz")[0], 200)


# --- bounds ------------------------------------------------------------------------------------------


@test
def a_full_queue_says_so():
    line, expected = read("rows.tsv").splitlines(True)[0], read("plain").splitlines(True)[0]
    # A request waits for a minute, or until nobody else could ask.
    with Server("--set", "serve.queue=1", "--set", "serve.wait=60000") as server:
        one, other = server.connect(), server.connect()
        for c in (one, other):  # both are open
            same(server.ask(path="/healthz", connection=c)[0], 200)
        for c in (one, other):
            c.request("POST", "/predict", body=line)
        refused = select.select([one.sock, other.sock], [], [], 60)[0]
        assert refused, "nobody is refused"
        one, other = (other, one) if refused[0] is one.sock else (one, other)
        answer = other.getresponse()
        same((answer.status, answer.headers["Retry-After"]), (503, "1"))
        other.close()
        same(one.getresponse().read(), expected)


@test
def batches_go_when_everybody_waits():
    lines, expected = read("rows.tsv").splitlines(True)[:8], read("plain").splitlines(True)[:8]
    with Server("--set", "serve.wait=60000") as server:
        connections = [server.connect() for _ in lines]
        for c in connections:  # all are open before anybody waits
            same(server.ask(path="/healthz", connection=c)[0], 200)
        for _ in range(3):
            for c, line in zip(connections, lines):
                c.request("POST", "/predict", body=line)
            same([c.getresponse().read() for c in connections], expected)


@test
def slow_and_idle_clients_are_let_go():
    with Server("--patience", "1", "--idle", "600") as server:
        with server.socket() as s, server.socket() as other:
            s.sendall(b"POST /predict HTTP/1.1\r\nContent-Length: 100\r\n\r\nsome")
            other.sendall(b"GET /healthz HTTP/1.1\r\nA")
            same(everything(s), b"")
            same(everything(other), b"")
    with Server("--idle", "1") as server:
        with server.socket() as s:
            same(everything(s), b"")
        c = server.connect()
        same(server.ask(path="/healthz", connection=c)[0], 200)
        same(c.sock.recv(1), b"", "after a request")


@test
def connections_are_bounded():
    with Server("--connections", "2") as server:
        one, two = server.connect(), server.connect()
        same([server.ask(path="/healthz", connection=c)[0] for c in (one, two)], [200, 200])
        three = server.connect()
        three.request("GET", "/healthz")
        same(server.ask(path="/healthz", connection=two)[0], 200)
        three.sock.settimeout(0.3)
        try:
            three.sock.recv(1)
            raise AssertionError("a third was answered")
        except socket.timeout:
            pass
        three.sock.settimeout(60)
        one.close()
        assert three.sock.recv(12).startswith(b"HTTP/1.1 200")


@test
def requests_in_memory_are_bounded():
    # Four bodies of 64 KiB may be held; more than that of requests that do not end are closed, and small ones
    # are answered.
    line, expected = read("rows.tsv").splitlines(True)[0], read("plain").splitlines(True)[0]
    with Server("--set", "serve.body=64KiB") as server:
        many = [server.socket() for _ in range(40)]
        closed = set()
        for s in many:
            try:
                s.sendall(b"POST /predict HTTP/1.1\r\nContent-Length: 65536\r\n\r\n" + b"x" * 40000)
            except OSError:
                closed.add(s)
        while len(closed) <= 20:  # nothing is answered: what can be read is an end
            ended = select.select([s for s in many if s not in closed], [], [], 30)[0]
            assert ended, f"{len(closed)} are closed"
            closed.update(ended)
        for s in many:
            s.close()
        for _ in range(100):  # until it has seen that they are closed
            status, _, body = server.ask(line)
            if status != 503:
                break
        same(body, expected)


@test
def a_large_answer_is_held_within_the_bound():
    known = read("users.txt").splitlines(True)[0]
    lines = b"".join(b"v%d\n" % i for i in range(8000))  # of users who are new: 30 words each
    with Server("--set", "serve.body=64KiB", model=("towers.bin", "--model", "towers.model")) as server:
        top = "/v2/models/model/top?k=30"
        status, _, body = server.ask(lines, path=top)
        assert status == 503 and b"ask for fewer lines" in json.loads(body)["error"].encode(), (status, body)
        assert b"\nheterps_http_held_bytes 0\n" in server.ask(path="/metrics")[2]
        same(len(server.ask(b"".join(lines.splitlines(True)[:100]), path=top)[2].splitlines()), 100, "fewer")
        same(server.ask(known)[0], 200)


@test
def errors_of_infer_are_objects():
    with Server("--set", "serve.body=1KiB", model=("csv.bin", "--model", "csv.model")) as server:
        for path in ("/v2/models/model/infer", "/v2/models/model/top"):
            status, headers, body = server.ask(b"\x1f\x8b", path=path, headers={"Content-Encoding": "gzip"})
            same((status, headers["Content-Type"]), (415 if "infer" in path else 404, "application/json"), path)
            assert "error" in json.loads(body), body
        status, _, body = server.ask(b"x" * 5000)  # the client finds the answer, though it sends more than is read
        same(status, 413)


@test
def clients_that_go_away_harm_nobody():
    lines, expected = read("rows.tsv").splitlines(True), read("plain").splitlines(True)
    with Server() as server:
        for i in range(100):
            with server.socket() as s:
                text = b"".join(lines[: 1 + i * 20])
                s.sendall(b"POST /predict HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(text)
                          + text[: len(text) if i % 2 else 50])
            if i % 10 == 0:
                same(server.ask(lines[i])[2], expected[i])
        same(server.ask(b"".join(lines))[2], b"".join(expected))


# --- ending ------------------------------------------------------------------------------------------


@test
def a_signal_lets_what_was_asked_be_answered():
    line, expected = read("rows.tsv").splitlines(True)[0], read("plain").splitlines(True)[0]
    with Server("--set", "serve.wait=60000") as server:
        idle, half, waits = server.connect(), server.connect(), server.connect()
        idle.connect()
        same(server.ask(path="/healthz", connection=idle)[0], 200)
        waits.request("POST", "/predict", body=line)
        half.connect()
        half.sock.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(line) + line[:10])
        while b"ok" not in server.ask(path="/readyz", connection=idle)[2]:
            pass
        server.process.send_signal(signal.SIGTERM)
        answer = waits.getresponse()
        same((answer.status, answer.read()), (200, expected))
        time.sleep(0.2)  # it waits for the other half
        half.sock.sendall(line[10:])
        found = everything(half.sock)
        assert found.endswith(expected) and b"Connection: close" in found, found
        same(server.process.wait(60), 0)


@test
def a_signal_ends_what_takes_longer_than_patience():
    lines = b"".join(b"v%d\n" % i for i in range(1500000))  # ranked for minutes on a busy machine
    with Server("--patience", "1", model=("towers.bin", "--model", "towers.model")) as server:
        asks = server.connect()
        asks.request("POST", "/v2/models/model/top?k=30", body=lines)
        while b'heterps_requests_waiting{model="model"} 1' not in server.ask(path="/metrics")[2]:
            pass
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        same(server.process.wait(60), 0)
        assert time.monotonic() - begin < 20, time.monotonic() - begin


run_tests()
