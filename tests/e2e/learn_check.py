#!/usr/bin/env python3
"""Teaches `heterps-run serve --learn`, and prints a line "ok NAME" or "not ok NAME: why" for each test.

    python3 tests/e2e/learn_check.py PROGRAM FOLDER [KILLS]

FOLDER has what test_serve_learn.sh puts there; with KILLS only the test of crashes runs, with so many."""
import filecmp, os, shutil, subprocess, sys, threading, time

import learn_client, serve_server
from checks import read, run_tests, same, test, tests

program, folder = sys.argv[1:3]
kills = int(sys.argv[3]) if len(sys.argv) > 3 else 0
os.chdir(folder)
PUBLISH = "serve.publish=5"


def run(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (arguments, done.stderr)
    return done


def copy(name, of="model"):
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(of, name)
    return name


def exported(name, graph="tiny.bin"):
    shutil.rmtree(name + ".values", ignore_errors=True)
    run("export", graph, "--model", name, "-o", name + ".values", "-q")
    return name + ".values"


def same_values(one, other, graph="tiny.bin"):
    one, other = exported(one, graph), exported(other, graph)
    files = sorted(os.listdir(one))
    same(sorted(os.listdir(other)), files)
    same(filecmp.cmpfiles(one, other, files, shallow=False), (files, [], []), "files of both")


class Server(serve_server.Server):
    def __init__(self, model, *flags, graph="tiny.bin"):
        super().__init__(program, graph, "--model", model, "--learn", "--set", PUBLISH, *flags)


def until(condition, what):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def metrics(server):
    text = server.ask(path="/metrics")[2].decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def from_file(name, data, graph="tiny.bin", of="model"):
    """What a training from a file makes of the same model."""
    run(graph, "--data", data, "--continue", copy(name, of), "-q", "--set", "data.bad_lines=skip")


@test
def lines_are_learned_as_from_a_file():
    lines = read("next.tsv").splitlines(True)
    from_file("offline", "next.tsv")
    with Server(copy("online"), "--learn-threads", "2") as server:
        first = learn_client.position(server)
        before = server.ask(lines[0])
        same(server.ask(path="/version")[0], 200)
        at = 0
        for size in (1, 63, 1, 1, 200, 7, 64, 500, 1, 3002):
            at += learn_client.teach(server, lines[at : at + size], first + at, batch=size)
        same(at, len(lines), "lines")
        until(lambda: learn_client.position(server) > first + len(lines) - 5 * 64, "saves on the way")  # 5 steps of 64
        until(lambda: server.ask(lines[0])[1]["Heterps-Version"] != before[1]["Heterps-Version"], "a new version")
        assert server.ask(lines[0])[2] != before[2], "another answer"
        m = metrics(server)
        same(m['heterps_learn_read{model="model"}'], str(first + len(lines)))
        same(m['heterps_learning{model="model"}'], "1")
        if shutil.which("promtool"):
            text = server.ask(path="/metrics")[2].decode()
            found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            same((found.returncode, found.stdout + found.stderr), (0, ""), "promtool")
    same_values("online", "offline")


@test
def lines_of_many_and_bad_ones_have_numbers():
    lines = read("next.tsv").splitlines(True)
    with Server(copy("online")) as server:
        first = learn_client.position(server)
        status, headers, body = server.ask(b"no line\n" + lines[0] + b"\n1\t2\n" + lines[1], path="/learn/model")
        same((status, body), (200, b"nan\n%d\nnan\nnan\n%d\n" % (first + 1, first + 2)))
        same(headers["Heterps-Bad-Lines"], "3")
        assert "found 1" in headers["Heterps-Bad-Line"], headers
        same(server.ask(lines[2].split(b"\t", 1)[1], path="/learn")[2], b"nan\n", "a line without a label")
        same(server.ask(b"", path="/learn")[::2], (200, b""), "nothing")
        same(server.ask(b"x\n", path="/learn")[::2], (200, b"nan\n"), "nothing good")
        status, _, body = server.ask(lines[2], path=f"/learn?after={first}")
        assert status == 409 and f"found {first + 2} as the last one".encode() in body, (status, body)
        same(server.ask(lines[2], path=f"/learn?after={first + 2}")[::2], (200, b"%d\n" % (first + 3)))
        same(server.ask(lines[2], path="/learn?after=x")[0], 400)
        read_before = metrics(server)['heterps_learn_read{model="model"}']
        for query in ("after=", "after=" + 30 * "1", "id=", "id=" + 200 * "a", "id=x&flag", f"id=x&after={first + 3}"):
            same(server.ask(b"1\n", path="/learn?" + query)[0], 400, query)
        same(server.ask(lines[2], path="/learn", headers={"Content-Encoding": "gzip"})[0], 415)
        same(metrics(server)['heterps_learn_read{model="model"}'], read_before,
             "what cannot be understood is not learned")
        same(server.ask(lines[2], path="/learn/none")[0], 404)
        same(metrics(server)['heterps_learn_bad_lines_total{model="model"}'], "5")
        same(int(server.ask(path="/learn/position")[2]), first, "nothing is saved yet")
    same_values("online", "model")  # no step was whole
    with serve_server.Server(program, "tiny.bin", "--model", "model") as server:
        same(server.ask(lines[0], path="/learn")[0], 404, "no --learn")
        same(server.ask(path="/learn/position")[0], 404)


@test
def lines_of_many_clients_are_learned_in_the_order_of_their_numbers():
    lines = read("next.tsv").splitlines(True)[:3200]
    numbers, wrong = {}, []
    plain = b"".join(line.split(b"\t", 1)[1] for line in lines[:40])

    def client(server, own):
        c = server.connect()
        try:
            for at in range(0, len(own), 17):
                status, _, body = server.ask(b"".join(own[at : at + 17]), path="/learn", connection=c)
                assert status == 200, (status, body)
                for line, number in zip(own[at : at + 17], body.split()):
                    numbers[int(number)] = line
                assert server.ask(plain, connection=c)[2].count(b"\n") == 40
        except Exception as error:
            wrong.append(repr(error))
        c.close()

    with Server(copy("online"), "--threads", "2") as server:
        first = learn_client.position(server)
        threads = [threading.Thread(target=client, args=(server, lines[i::8])) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    same(wrong, [])
    same(sorted(numbers), list(range(first + 1, first + 1 + len(lines))), "numbers")
    with open("order.tsv", "wb") as file:
        file.writelines(numbers[n] for n in sorted(numbers))
    from_file("offline", "order.tsv")
    same_values("online", "offline")


@test
def learning_that_fails_leaves_predicting():
    lines = read("next.tsv").splitlines(True)
    server = Server(copy("online"))
    server.__enter__()
    try:
        expected = server.ask(lines[0])[2]
        shutil.rmtree("online")
        c, status, sent = server.connect(), 200, 0
        while status == 200:
            status, _, body = server.ask(b"".join(lines[sent : sent + 64]), path="/learn", connection=c)
            sent += 64
            assert sent < len(lines), "it goes on without a directory"
            time.sleep(0.02)
        assert status == 503 and b"learning has ended" in body, (status, body)
        same(server.ask(lines[0], path="/learn")[0], 503)
        same(metrics(server)['heterps_learning{model="model"}'], "0")
        same(server.ask(lines[0])[::2], (200, expected), "a prediction")
        same(server.ask(path="/readyz")[0], 200)
    finally:
        status = server.end()
    assert status == 1 and "learning has ended: " in server.said, (status, server.said)


@test
def labels_join_their_request_by_id():
    rows = read("next.tsv").splitlines(True)[:640]
    plain = [row.split(b"\t", 1)[1] for row in rows]
    labels = [row.split(b"\t", 1)[0] + b"\n" for row in rows]
    with open("joined.tsv", "wb") as file:
        file.writelines(rows)
    from_file("offline", "joined.tsv")
    with Server(copy("online")) as server:
        for i in range(0, 640, 160):
            id = f"a%20{i}" if i else "first"
            asked = plain[i : i + 160] if i != 160 else [b"\t" + row for row in plain[i : i + 160]]
            expected = server.ask(b"".join(asked))[2]
            same(server.ask(b"".join(asked), path=f"/predict?id={id}")[2], expected)
        same(server.ask(b"1\n", path="/learn?id=first")[0], 400, "too few labels")
        same(server.ask(b"".join(labels[:160]) + b"1\n", path="/learn?id=first")[0], 400, "too many")
        for i in range(0, 640, 160):
            id = f"a%20{i}" if i else "first"
            status, _, body = server.ask(b"".join(labels[i : i + 160]), path=f"/learn?id={id}")
            same((status, body.count(b"\n")), (200, 160))
        same(server.ask(b"1\n", path="/learn?id=first")[0], 404, "learned already")
        same(server.ask(b"1\n", path="/learn?id=never")[0], 404)
        same(metrics(server)['heterps_join_taken_total{model="model"}'], "4")
    same_values("online", "offline")
    with Server(copy("online"), "--set", "serve.join=1") as server:
        server.ask(plain[0], path="/predict?id=late")
        until(lambda: metrics(server)['heterps_join_expired_total{model="model"}'] == "1", "its time is over")
        same(server.ask(b"1\n", path="/learn?id=late")[0], 404)
    with Server(copy("online"), "--set", "serve.join_ram=1024") as server:
        for i in range(20):
            server.ask(plain[i], path=f"/predict?id={i}")
        m = metrics(server)
        assert 0 < int(m['heterps_join_waiting{model="model"}']) < 10, m
        same(server.ask(b"1\n", path="/learn?id=0")[0], 404)
        same(server.ask(b"\n", path="/learn?id=19")[::2], (200, b""), "no label")
    most = 20
    text = b"".join(plain[:most])  # as much as a request may have; with labels it is more
    with Server(copy("online"), "--set", f"serve.body={len(text)}") as server:
        same(server.ask(text, path="/predict?id=most")[0], 200)
        same(server.ask(b"".join(labels[:most]), path="/learn?id=most")[2].count(b"\n"), most, "within serve.body each")
        server.ask(plain[0], path="/predict?id=long")
        same(server.ask(b"1" * (len(text) + 1), path="/learn?id=long")[0], 413, "labels have the same bound")


@test
def lines_that_are_refused_do_not_wait_for_labels():
    rows = read("next.tsv").splitlines(True)[:20]  # more than one of the two models takes
    plain, labels = (b"".join(row.split(b"\t", 1)[part] + b"\n" * (1 - part) for row in rows) for part in (1, 0))
    run("compile", "tiny.cfg", "-o", "small.bin", "-q", "--set", "serve.body=1024")
    models = ("--model", f"small=small.bin:{copy('online')}", "--model", f"tiny=tiny.bin:{copy('other')}")
    with serve_server.Server(program, *models, "--learn", "--set", PUBLISH) as server:
        for name, predicts, learns in (("small", 413, 404), ("tiny", 200, 200)):
            same(server.ask(plain, path=f"/predict/{name}?id=1")[0], predicts, name)
            same(server.ask(labels, path=f"/learn/{name}?id=1")[0], learns, name)


@test
def labels_join_lines_of_csv():
    head, body = b'id,age,job,tags\n', [b'%d,%d,"s, ""%d""",a|b\n' % (i, i % 60, i % 7) for i in range(32)]
    with open("joined.csv", "wb") as file:
        file.write(b"id,age,job,tags,click\n"
                   + b"".join(row[:-1] + b",%d\n" % (i % 3 == 0) for i, row in enumerate(body)))
    from_file("offline", "joined.csv", "csv.bin", "csv.model")
    with Server(copy("online", "csv.model"), graph="csv.bin") as server:
        server.ask(head + b"".join(body[:10]), path="/predict?id=1")
        empty = b"".join(row.replace(b",", b",,", 1) for row in body[10:])
        server.ask(b"id,click,age,job,tags\r\n" + empty, path="/predict?id=2")
        for id, begin, end in ((1, 0, 10), (2, 10, 32)):
            status, _, answer = server.ask(b"".join(b"%d\r\n" % (i % 3 == 0) for i in range(begin, end)),
                                           path=f"/learn?id={id}")
            same((status, b"nan" in answer, answer.count(b"\n")), (200, False, end - begin), answer)
        last = int(metrics(server)['heterps_learn_read{model="model"}'])
        status, _, body = server.ask(b"age,job\n30,cook\n", path=f"/learn?after={last}")
        assert status == 400 and body.startswith(b"line 1: "), ("it is in its place, and malformed", status, body)
    same_values("online", "offline", "csv.bin")


@test
def figures_are_of_all_losses_by_their_whole_names():
    names = [100 * "l" + f"ong{i}" for i in range(8)]
    with open("long.cfg", "w") as file:
        file.write(open("csv.cfg").read().replace("[loss bce]", f"[loss {names[0]}]"))
        for i, name in enumerate(names[1:]):
            file.write(f"[fc y{i}]\ninput = x\nunits = 1\n[loss {name}]\ninput = y{i}\nlabel = click\n")
    run("compile", "long.cfg", "-o", "long.bin", "-q")
    run("long.bin", "--data", "one.csv", "--out", "long.model", "-q")
    body = b"id,age,job,tags,click\n" + b"".join(b"%d,%d,s,a|b,%d\n" % (i, i % 60, i % 2) for i in range(64))
    with Server("long.model", graph="long.bin") as server:
        def told():
            same(server.ask(body, path="/learn")[0], 200)
            return [key for key in metrics(server) if key.startswith("heterps_learn_figure")]
        until(told, "figures")
        same({key.split('head="')[1].split('"')[0] for key in told()}, set(names))


@test
def what_is_killed_loses_and_doubles_nothing():
    lines = read("next.tsv").splitlines(True)
    count = len(lines) // 64 * 64
    with open("whole.tsv", "wb") as file:
        file.writelines(lines[:count])
    from_file("offline", "whole.tsv")
    copy("online")
    learn_client.crashes(program, ("tiny.bin", "--model", "online"), lines[:count], kills or 6, 5,
                         ("--set", PUBLISH, "--learn-threads", "1"))
    same_values("online", "offline")


sys.exit(1 if run_tests(tests[-1:] if kills else tests) else 0)
