"""A client that teaches `heterps-run serve --learn` a file's lines, whatever becomes of the server."""
import random, signal, time

import serve_server


def position(server):
    """Where a client has to go on from: the number of the last example that is saved."""
    status, _, body = server.ask(path="/learn/position")
    assert status == 200, (status, body)
    return int(body)


def teach(server, lines, first, batch=50, stop=None, connection=None):
    """Sends lines, of which lines[0] gets the number first + 1; returns when all are answered, or stop() says so."""
    c = connection or server.connect()
    done = 0
    while done < len(lines) and not (stop and stop()):
        piece = lines[done : done + batch]
        status, _, body = server.ask(b"".join(piece), path=f"/learn?after={first + done}", connection=c)
        if status == 503:
            time.sleep(0.01)
            continue
        assert status == 200, (status, body)
        expected = b"".join(b"%d\n" % (first + done + i + 1) for i in range(len(piece)))
        assert body == expected, (body[:100], expected[:100])
        done += len(piece)
    return done


def crashes(program, model, lines, count, seed, flags):
    """Teaches all lines to servers of which `count` are killed at random moments, most of them while a save
    is being written; each time the client goes on from the position."""
    chance = random.Random(seed)
    base, seen, repeated = None, 0, 0
    for turn in range(count + 1):
        server = serve_server.Server(program, *model, "--learn", *flags)
        with server if turn == count else Crash(server) as running:
            at = position(running)
            base = at if base is None else base
            assert at >= seen, f"what was saved up to {seen} is lost: {at}"
            done = at - base
            until = len(lines) if turn == count else min(len(lines), done + chance.randrange(2 * len(lines) // count))
            while done < until:
                done += teach(running, lines[done : min(until, done + 50)], base + done)
                if turn < count:
                    seen = position(running)
            time.sleep(chance.choice((0, chance.random() * 0.02)))
            repeated += base + done > seen
    assert repeated > count // 4, f"{repeated} of {count} were killed behind what was saved"


class Crash:
    """A server that is killed at the end of the block."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        return self.server.__enter__()

    def __exit__(self, *how):
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()
        self.server.process.stderr.close()
