#!/usr/bin/env python3
"""`heterps-run serve` while its model changes and while others do it harm: no answer may be lost, mixed or wrong, and
clients must not wait much longer.

    python3 tests/quality/serve_load.py [--heterps PATH] [--only versions,rows,hostile] [--versions 1000]
                                        [--rows 1000000] [--requests 1000000] [--rate 2000] [--idle 10000]

versions: 64 clients ask for predictions while the version changes --versions times: each answer is that of the version
          that it names.
rows:     a save with at least --rows changed rows is taken while clients ask.
hostile:  --requests requests at random, --rate a second (bytes, methods, heads, bodies, JSON, tensors), while --idle
          connections stay idle and others send a byte a second.

rows and hostile print the 99th percentile of the answers' times before and meanwhile; hostile's "before" is while the
same requests go to a port that drops them, for making them takes the clients' core. hostile also prints by how much the
server's memory grew. The server has a core of its own, if there are two. Status 1 if an answer is lost, mixed or
wrong, if a percentile more than doubles, or if the server grows by more than it may hold (four times serve.body, and
64 KiB a connection)."""
import argparse, json, multiprocessing, os, random, resource, shutil, socket, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f'{ROOT}/tests/e2e')
from serve_server import Server  # noqa: E402

CLIENTS = 64
PROCESSES = 4  # that the clients are shared by: a process of Python asks one at a time
KEYS_NEW = 10  # of a line of 26, at least, those that no line before it has, where the vocabulary is large
LINES, BODIES = 8, 64  # of a request; of which there are so many
CONNECTION_BYTES = 65536
MODEL = '''[model]
name = load
[data]
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 8
init = uniform 0.1
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h]
input = x
units = 32
activation = relu
[fc y]
input = h
units = 1
[loss bce]
input = y
[train]
batch = 256
optimizer = adagrad 0.05
[store]
ram = 2GiB
'''


def must(*command, **more):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, **more).stdout


def train(o, folder, data, out, *flags):
    must(o.heterps, f'{folder}/load.bin', '--data', f'{folder}/{data}', '--out', f'{folder}/{out}', '-q',
         '--set', 'checkpoint.keep=1000',
         *flags)


def bodies_of(path):
    with open(path, 'rb') as file:
        return [b''.join(file.readline() for _ in range(LINES)) for _ in range(BODIES)]


# --- who asks -----------------------------------------------------------------------------------


def ask_all(host, port, bodies, over, results, connections):
    """Threads that ask until `over`; puts ({(version, number of the body, answer)}, [seconds], [what was no
    answer])."""
    import http.client
    answers, times, lost = set(), [], []

    def one(number):
        c, draw = http.client.HTTPConnection(host, port, timeout=60), random.Random(number)
        while not over.is_set():
            i = draw.randrange(len(bodies))
            begin = time.perf_counter()
            try:
                c.request('POST', '/predict', body=bodies[i])
                answer = c.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException) as e:
                lost.append(repr(e))
                c.close()
                continue
            times.append(time.perf_counter() - begin)
            if answer.status == 200:
                answers.add((answer.headers['Heterps-Version'], i, body))
            else:
                lost.append(f'{answer.status} {body[:80]}')

    threads = [threading.Thread(target=one, args=(k,)) for k in range(connections)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    results.put((answers, times, lost))


class Clients:
    """So many connections that ask while the block runs; then .answers, .times, .lost."""

    def __init__(self, server, bodies, connections, processes=PROCESSES):
        self.over, self.results = multiprocessing.Event(), multiprocessing.Queue()
        share = connections // processes
        self.all = [multiprocessing.Process(target=ask_all,
                                            args=(server.host, server.port, bodies, self.over, self.results, share))
                    for _ in range(processes)]

    def __enter__(self):
        for p in self.all:
            p.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.answers, self.times, self.lost = set(), [], []
        for _ in self.all:
            answers, times, lost = self.results.get()
            self.answers |= answers
            self.times += times
            self.lost += lost
        for p in self.all:
            p.join()


def percentile(times, part=0.99):
    return sorted(times)[int(len(times) * part)] * 1e3


# --- versions -----------------------------------------------------------------------------------


def expected_of(heterps, folder, directory, versions, bodies):
    """{version: [answer]}, as predict has them."""
    with open(f'{folder}/some.tsv', 'wb') as file:
        file.write(b''.join(bodies))
    found = {}
    for version in versions:
        older = f'{directory}/manifest.{version}.json'
        path = older if os.path.exists(older) else directory
        lines = must(heterps, 'predict', f'{folder}/load.bin', '--model', path,
                     '--data', f'{folder}/some.tsv', '-q').splitlines(True)
        found[version] = [b''.join(lines[i:i + LINES]) for i in range(0, len(lines), LINES)]
    return found


def wrong_of(answers, expected):
    return [(version, i, body[:60]) for version, i, body in answers if body != expected[version][i]]


def saves_make(o, folder):
    """Twenty saves of a training."""
    must(o.heterps, 'gen', 'criteo', '--rows', '20000', '-o', f'{folder}/train.tsv', '-q')
    train(o, folder, 'train.tsv', 'versions', '--set', 'train.steps_max=40', '--set', 'checkpoint.every=2',
          '--set', 'checkpoint.wait=yes')


def versions_run(o, folder, start):
    bodies = bodies_of(f'{folder}/train.tsv')
    with start(f'{folder}/versions') as server:
        state = json.loads(server.ask(path='/version')[2])
        names = sorted({*state['older'], state['version']}, key=int)
        expected, draw, refused = (expected_of(o.heterps, folder, f'{folder}/versions', names, bodies),
                                   random.Random(1), 0)
        begin = time.time()
        with Clients(server, bodies, CLIENTS) as clients:
            for _ in range(o.versions):
                refused += server.ask(draw.choice(names) + '\n', path='/version')[0] != 200
        seconds = time.time() - begin
    wrong, seen = wrong_of(clients.answers, expected), {version for version, _, _ in clients.answers}
    print(f'versions: {o.versions} changes between {len(names)} saves in {seconds:.0f} s, {refused} refused; '
          f'{len(clients.times)} requests by {CLIENTS} clients, of {len(seen)} versions: '
          f'{len(clients.lost)} lost, {len(wrong)} wrong or mixed {wrong[:2]} {clients.lost[:2]}', flush=True)
    return refused or wrong or clients.lost or (o.versions >= 10 * len(names) and len(seen) < len(names))


# --- rows ---------------------------------------------------------------------------------------


def rows_run(o, folder, start):
    lines = int(o.rows / KEYS_NEW)
    must(o.heterps, 'gen', 'criteo', '--rows', str(lines), '--vocab', '10000000', '--zipf', '0.5',
         '-o', f'{folder}/many.tsv', '-q')
    train(o, folder, 'many.tsv', 'rows')
    shutil.copytree(f'{folder}/rows', f'{folder}/taken')
    train(o, folder, 'many.tsv', 'rows', '--continue', f'{folder}/rows')
    manifest = json.load(open(f'{folder}/rows/manifest.json'))
    changed = manifest['tables'][0]['parts'][-1]
    bodies = bodies_of(f'{folder}/many.tsv')
    with start(f'{folder}/taken') as server:
        old = json.loads(server.ask(path='/version')[2])['version']
        with Clients(server, bodies, 8, 1) as quiet:
            time.sleep(5)
        with Clients(server, bodies, 8, 1) as busy:
            for name in os.listdir(f'{folder}/rows'):
                if not name.startswith('manifest.json') and not os.path.exists(f'{folder}/taken/{name}'):
                    os.link(f'{folder}/rows/{name}', f'{folder}/taken/{name}')
            shutil.copy(f'{folder}/rows/manifest.json', f'{folder}/taken/new')
            begin = time.time()
            os.rename(f'{folder}/taken/new', f'{folder}/taken/manifest.json')
            while json.loads(server.ask(path='/version')[2])['version'] == old and time.time() - begin < 60:
                time.sleep(0.01)
            seconds = time.time() - begin
        new = json.loads(server.ask(path='/version')[2])['version']
    expected = expected_of(o.heterps, folder, f'{folder}/rows', [new], bodies)
    expected |= expected_of(o.heterps, folder, f'{folder}/rows', [old], bodies)
    wrong = wrong_of(alone.answers | quiet.answers | busy.answers, expected)
    ratio = percentile(busy.times) / percentile(quiet.times)
    print(f'rows: {changed["rows"]} in {changed["bytes"] / 1e6:.0f} MB taken in {seconds:.2f} s; 99th percentile '
          f'{percentile(quiet.times):.2f} ms before, {percentile(busy.times):.2f} ms meanwhile: {ratio:.2f} times; '
          f'{len(quiet.lost + busy.lost)} lost, {len(wrong)} wrong', flush=True)
    return wrong or quiet.lost or busy.lost or new == old or ratio > 2


# --- harm ---------------------------------------------------------------------------------------


def request_at_random(draw, text):
    """Bytes of one connection: mostly something that is nearly right."""
    body = draw.choice((b'', text, text[:draw.randrange(len(text))], draw.randbytes(draw.randrange(300)),
                        b'{"inputs": [' * draw.randrange(50),
                        b'{"inputs": [{"name": "C1", "shape": [%d], "datatype": "BYTES", "data": ["a"]}]}'
                        % draw.randrange(-3, 1 << 40)))
    path = draw.choice((b'/predict', b'/v2/models/load/infer', b'/v2', b'/version', b'/learn', b'/',
                        b'/metrics', b'/page/load',
                        b'/' + draw.randbytes(20).hex().encode(),
                        b'/v2/models/load/top?k=%d' % draw.randrange(-5, 1 << 33)))
    length = draw.choice((len(body), len(body), len(body), draw.randrange(1 << 34), -1))
    kind = draw.randrange(10)
    if kind == 0:
        return draw.randbytes(draw.randrange(1, 400))
    method = draw.choice((b'POST', b'POST', b'GET', b'PUT', b'HEAD', draw.randbytes(3)))
    head = method + b' ' + path + b' HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n' % length
    if kind == 1:
        head += draw.choice((b'Transfer-Encoding: chunked\r\n', b'Expect: 100-continue\r\n',
                             b'Inference-Header-Content-Length: %d\r\n' % draw.randrange(-9, 400)))
    if kind == 2:
        head += b'A: ' + b'b' * draw.randrange(70000) + b'\r\n'
    return head + b'\r\n' + body


def harm(port, requests, rate, bodies, done):
    """Connects RATE times a second, each time with a request at random, and does not always wait for the answer."""
    draw, open_ones, begin = random.Random(7), [], time.time()
    for sent in range(requests):
        s = socket.socket()
        s.setblocking(True)
        s.settimeout(5)
        try:
            s.connect(('127.0.0.1', port))
            s.sendall(request_at_random(draw, draw.choice(bodies)))
        except OSError:
            pass
        open_ones.append(s)
        if len(open_ones) > 100:  # those that wait for more are left alone for as long
            open_ones.pop(0).close()
        ahead = begin + sent / rate - time.time()
        if ahead > 0:
            time.sleep(ahead)
        done.value = sent + 1
    for s in open_ones:
        s.close()


def idle(port, count, over):
    """Connections without a request, and every hundredth with one that comes a byte a second."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = []
    for _ in range(count):
        s = socket.socket()
        s.settimeout(30)
        s.connect(('127.0.0.1', port))
        held.append(s)
    text = b'POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n' + b'0' * 100000
    at = 0
    while not over.wait(1):
        for s in held[::100]:
            try:
                s.send(text[at:at + 1])
            except OSError:
                pass
        at += 1


def sink(listener):
    """Takes connections, and ends each at its first bytes."""
    while True:
        s = listener.accept()[0]
        s.settimeout(5)
        try:
            s.recv(1 << 20)
        except OSError:
            pass
        s.close()


def resident(pid):
    return int(open(f'/proc/{pid}/statm').read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def hostile_run(o, folder, start):
    bodies = bodies_of(f'{folder}/train.tsv')
    with start(f'{folder}/versions', '--set', 'serve.body=1MiB', '--patience', '5', '--idle', '3600') as server:
        version = json.loads(server.ask(path='/version')[2])['version']
        expected = expected_of(o.heterps, folder, f'{folder}/versions', [version], bodies)
        with Clients(server, bodies, 8, 1) as alone:
            time.sleep(10)
        over, done = multiprocessing.Event(), multiprocessing.Value('Q', 0)
        listener = socket.create_server(('127.0.0.1', 0), backlog=1024)
        elsewhere = [multiprocessing.Process(target=sink, args=(listener,)),
                     multiprocessing.Process(target=harm, args=(listener.getsockname()[1], 10 * o.rate, o.rate, bodies,
                                                                done))]
        for p in elsewhere:
            p.start()
        with Clients(server, bodies, 8, 1) as quiet:
            elsewhere[1].join()
        elsewhere[0].terminate()
        before = resident(server.process.pid)
        bad = [multiprocessing.Process(target=idle, args=(server.port, o.idle, over)),
               multiprocessing.Process(target=harm, args=(server.port, o.requests, o.rate, bodies, done))]
        for p in bad:
            p.start()
        with Clients(server, bodies, 8, 1) as busy:
            bad[1].join()
        grown = resident(server.process.pid) - before
        over.set()
        bad[0].join()
        alive = server.process.poll() is None and server.ask(path='/healthz')[0] == 200
    wrong = wrong_of(alone.answers | quiet.answers | busy.answers, expected)
    ratio = percentile(busy.times) / percentile(quiet.times)
    bound = 4 * (1 << 20) + CONNECTION_BYTES * (o.idle + 200)
    lost = alone.lost + quiet.lost + busy.lost
    print(f'hostile: {done.value} requests at random, {o.idle} idle connections; '
          f'{len(busy.times)} requests of others: {len(lost)} lost {lost[:2]}, {len(wrong)} wrong; '
          f'99th percentile {percentile(alone.times):.2f} ms alone, {percentile(quiet.times):.2f} ms while the same '
          f'requests go elsewhere, {percentile(busy.times):.2f} ms meanwhile: {ratio:.2f} times; '
          f'the server grew by {grown / 2**20:.0f} MiB, of {bound / 2**20:.0f}',
          flush=True)
    return wrong or lost or not alive or ratio > 2 or grown > bound


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--heterps', default=f'{ROOT}/heterps-run')
    parser.add_argument('--only', default='versions,rows,hostile')
    for name, value in (('versions', 1000), ('rows', 1000000), ('requests', 1000000), ('rate', 2000), ('idle', 10000)):
        parser.add_argument(f'--{name}', type=int, default=value)
    o = parser.parse_args()
    cores, failed = sorted(os.sched_getaffinity(0)), []
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/load.cfg', 'w') as file:
            file.write(MODEL)
        must(o.heterps, 'compile', f'{folder}/load.cfg', '-o', f'{folder}/load.bin', '-q')

        def start(directory, *flags):
            os.sched_setaffinity(0, {cores[0]})  # which the server takes over
            server = Server(o.heterps, f'{folder}/load.bin', '--model', directory, '--threads', '1', *flags)
            server.begin()
            os.sched_setaffinity(0, set(cores[1:] or cores))
            return server

        if o.only != 'rows':
            saves_make(o, folder)
        for name, run in (('versions', versions_run), ('rows', rows_run), ('hostile', hostile_run)):
            if name in o.only.split(',') and run(o, folder, start):
                failed.append(name)
    sys.exit(f'failed: {", ".join(failed)}' if failed else 0)


if __name__ == '__main__':
    main()
