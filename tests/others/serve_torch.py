"""PyTorch 2 behind granian, the server in Rust that is the fastest of pip's at the time of writing: POST
/predict with lines of Criteo, answered by the predictions of samples/ctrdnn.cfg's net, each request by
itself. What tests/bench/serve_bench compares with:

    pip install torch granian
    OTHER='python3 tests/others/serve_torch.py' build/release/tests/bench/serve_bench …

The net has weights at random and a table of a million rows of 16, in which the hash of field and text finds a
row: what it answers means nothing, what it takes is what a trained one takes. One process, one thread each of
server and net; no line is checked. RUNTIME=eager: without torch.compile, which is the default."""
import math, os, sys

import torch
from torch import nn

NUMBERS, FIELDS, WIDTH, ROWS = 13, 26, 16, 1 << 20


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(ROWS, WIDTH)
        nn.init.uniform_(self.emb.weight, -0.01, 0.01)
        self.layers = nn.Sequential(nn.Linear(FIELDS * WIDTH + NUMBERS, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                                    nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, keys, numbers):
        return torch.sigmoid(self.layers(torch.cat([self.emb(keys).flatten(1), numbers], 1)))


def log1p_of(text):
    x = float(text) if text else 0.0
    return math.copysign(math.log1p(abs(x)), x)


def predictions(net, body):
    keys, numbers = [], []
    for line in body.decode().splitlines():
        columns = line.split('\t')
        numbers.append([log1p_of(t) for t in columns[-FIELDS - NUMBERS:-FIELDS]])
        keys.append([hash((f, t)) % ROWS for f, t in enumerate(columns[-FIELDS:])])
    with torch.inference_mode():
        found = net(torch.tensor(keys), torch.tensor(numbers)).flatten().tolist()
    return ''.join(f'{p:.9g}\n' for p in found).encode()


class App:
    def __rsgi_init__(self, loop):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.net = Net().eval()
        if os.environ.get('RUNTIME') != 'eager':
            self.net = torch.compile(self.net, dynamic=True)
        line = b'\t'.join([b'0'] + [b'1'] * NUMBERS + [b'05db9164'] * FIELDS) + b'\n'
        for count in (1, 256):  # compiles
            predictions(self.net, line * count)
        print(f'http://127.0.0.1:{os.environ["PORT"]}', file=sys.stderr, flush=True)

    async def __rsgi__(self, scope, protocol):
        protocol.response_bytes(200, [('content-type', 'text/plain')], predictions(self.net, await protocol()))


app = App()

if __name__ == '__main__':
    import socket

    from granian import Granian

    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        os.environ['PORT'] = str(s.getsockname()[1])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    Granian('serve_torch:app', port=int(os.environ['PORT']), interface='rsgi', workers=1, runtime_threads=1,
            log_enabled=False).serve()
