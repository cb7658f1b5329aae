"""A server for tests to ask."""
import http.client, signal, socket, subprocess


class Server:
    """`heterps-run serve` with these arguments, at an address of its own; ended with the block, when it has
    to end with 0."""

    def __init__(self, program, *arguments, listen="127.0.0.1:0"):
        self.arguments = [program, "serve", "--listen", listen, *arguments]

    def begin(self):
        """Waits until it says where it listens; a block that is entered later ends it."""
        self.process = subprocess.Popen(self.arguments, stderr=subprocess.PIPE, text=True)
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if "http://" in line:
                self.host, self.port = line.split("http://")[1].strip().rsplit(":", 1)
                self.host, self.port = self.host.replace("0.0.0.0", "127.0.0.1"), int(self.port)
                return
        raise AssertionError(f"no address: {self.said}")

    def __enter__(self):
        if not hasattr(self, "process"):
            self.begin()
        return self

    def line(self, words):
        """The next line that it says with these words in it."""
        for line in self.process.stderr:
            self.said += line
            if words in line:
                return line
        raise AssertionError(f"it never says {words}: {self.said}")

    def end(self):
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.said += self.process.stderr.read()
        return self.process.wait(60)

    def __exit__(self, kind, value, trace):
        status = self.end()
        assert kind or status == 0, f"exit status {status}: {self.said}"

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=30)

    def socket(self):
        return socket.create_connection((self.host, self.port), timeout=30)

    def ask(self, body=None, path="/predict", method=None, headers={}, connection=None):
        """(status, headers, body)"""
        c = connection or self.connect()
        c.request(method or ("POST" if body is not None else "GET"), path, body=body, headers=headers)
        answer = c.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        if connection is None:
            c.close()
        return found
