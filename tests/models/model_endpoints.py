"""An endpoint on loopback that replies what a test recorded and looks at each request as the real one would."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from tests.models.protocols import Protocol, Reply, Said

LATE = 6.0
"""Seconds, for clients that wait for less."""

T = TypeVar("T", bound="Endpoint")


class Endpoint:
    """Hands out its replies in order. What was wrong with a request is in `wrong`, and answered with HTTP 400."""

    def __init__(self, protocol: Protocol, replies: list[Reply]) -> None:
        self.protocol = protocol
        self.replies = replies
        self.models: Reply | None = None
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.wrong: list[str] = []
        self.url = ""

    @property
    def heard(self) -> list[Said]:
        """The last request's messages."""
        return self.protocol.said(self.bodies[-1])

    def look(self, key: str | None, model: str) -> Reply:
        """Asked whether it has a model: it has every one, where `models` says nothing else."""
        return self.models or Reply(
            200, {"id": model, "type": "model", "object": "model", "display_name": model, "created": 1}
        )

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        try:
            assert path == self.protocol.path
            self.protocol.check(body)
            said = self.protocol.said(body)
            ids = [call for one in said for call in one.calls]
            assert len(ids) == len(set(ids)), "ids of calls are unique"
            if self.bodies:
                before = self.bodies[0]
                assert self.protocol.static(body) == self.protocol.static(before), "the prefix stays as it is"
                earlier = self.protocol.said(self.bodies[-1])
                assert said[: len(earlier)] == earlier, "what was said stays as it is"
        except (AssertionError, KeyError, ValueError) as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            return self.protocol.error(400, "invalid_request_error", str(error))
        self.bodies.append(body)
        self.keys.append(key)
        return self.replies.pop(0)


class Forgetful(Endpoint):
    """Takes each request for the first: of several conversations, or of one that was shortened."""

    def __init__(self, protocol: Protocol, replies: list[Reply]) -> None:
        super().__init__(protocol, replies)
        self.asked: list[dict[str, Any]] = []

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> Reply:
        self.asked.append(body)
        self.bodies.clear()
        return super().answer(path, key, body)


@contextmanager
def playing(protocol: Protocol, *replies: Reply) -> Iterator[Endpoint]:
    """Serve the replies; afterwards all of them were asked for, by requests with nothing wrong about them."""
    with serving(Endpoint(protocol, list(replies))) as endpoint:
        yield endpoint


@contextmanager
def serving(endpoint: T) -> Iterator[T]:
    """Serve it on loopback; afterwards nothing was wrong with the requests, and there is nothing left to say."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(endpoint.look(self.headers["authorization"], self.path.rpartition("/models/")[2]))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(endpoint.answer(self.path.partition("?")[0], self.headers["authorization"], body))

        def _send(self, reply: Reply) -> None:
            if reply.broken == "late":
                time.sleep(LATE)
            if reply.broken in ("dropped", "late"):
                self.close_connection = True
                return
            page = isinstance(reply.body, str)
            data = (reply.body if page else json.dumps(reply.body)).encode()
            self.send_response(reply.status)
            html = page and reply.body.startswith("<")
            self.send_header("content-type", "text/html" if html else "application/json")
            for name, value in reply.headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if reply.broken == "half":
                data, self.close_connection = data[: len(data) // 2], True
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}{endpoint.protocol.base}"
    try:
        yield endpoint
        assert not endpoint.wrong, endpoint.wrong
        assert not endpoint.replies, f"{len(endpoint.replies)} replies were never asked for"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
