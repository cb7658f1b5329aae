"""A server of files for tests:  web_server.py FOLDER LOG

Prints its port, then serves FOLDER until it is killed, and writes a line an answer: target, range, code,
bytes. What it does on the way is said by the query: whole (no ranges), chunked (nor a length), cut=N (every
other body is cut after N bytes), change=N (from its N-th request on the address has another version), plain
(no version), busy (every third answer is 503). /webhdfs/v1/NAME is as WebHDFS, with a data node elsewhere."""
import http.server, json, os, re, sys, threading, urllib.parse

folder, log = sys.argv[1], open(sys.argv[2], "a", buffering=1)
lock, numbers = threading.Lock(), {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or every second answer waits 40 ms for an acknowledgement

    def log_message(self, *arguments):
        pass

    def answer(self, code, head, body, sent=None):
        if sent is not None and sent < len(body):
            self.close_connection = True
        with lock:
            log.write(f"{self.path} {self.headers.get('Range', '-')} {code} {len(body)}\n")
        self.send_response(code)
        for name, value in head.items():
            self.send_header(name, value)
        if "Transfer-Encoding" not in head:
            self.send_header("Content-Length", len(body))
        self.end_headers()
        part = body[:sent]
        if "Transfer-Encoding" in head:
            for at in range(0, len(part), 5000):
                piece = part[at : at + 5000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            part = b"0\r\n\r\n"
        self.wfile.write(part)

    def do_GET(self):
        try:
            self.get()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def get(self):
        url = urllib.parse.urlsplit(self.path)
        asked = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        with lock:
            number = numbers[self.path] = numbers.get(self.path, 0) + 1
        name = os.path.join(folder, url.path.split("/webhdfs/v1/")[-1].lstrip("/"))
        if not os.path.isfile(name):
            return self.answer(404, {}, b"not there")
        if "busy" in asked and number % 3 == 0:
            return self.answer(503, {}, b"later")
        data = open(name, "rb").read()
        if asked.get("op") == "GETFILESTATUS":
            about = {"type": "FILE", "length": len(data), "modificationTime": int(os.stat(name).st_mtime * 1000)}
            return self.answer(200, {}, json.dumps({"FileStatus": about}).encode())
        if asked.get("op") == "OPEN" and "node" not in asked:
            return self.answer(307, {"Location": f"http://localhost:{self.server.server_port}{self.path}&node=1"}, b"")
        head = ({} if "op" in asked or "plain" in asked
                else {"ETag": f'"{"new" if number >= int(asked.get("change", 1 << 60)) else "old"}"'})
        sent = int(asked["cut"]) if "cut" in asked and number % 2 == 0 else None
        if "op" in asked:
            at = int(asked.get("offset", 0))
            return self.answer(200, head, data[at : at + int(asked.get("length", len(data)))], sent)
        if "chunked" in asked:
            return self.answer(200, head | {"Transfer-Encoding": "chunked"}, data, sent)
        wanted = re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range", ""))
        if "whole" in asked or not wanted:
            return self.answer(200, head, data, sent)
        first, last = int(wanted[1]), min(int(wanted[2] or len(data) - 1), len(data) - 1)
        if first >= len(data):
            return self.answer(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
        self.answer(206, head | {"Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first : last + 1], sent)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
