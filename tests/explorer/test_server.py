"""The page on an address of this machine only."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import contextmanager

import pytest

from decal.explorer._page import policy
from decal.explorer._server import PageServer, serve


@contextmanager
def running(text):
    with PageServer(text, policy("main.js")) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def test_the_server_serves_one_page_to_this_machine():
    with running("<p>äöü</p>") as server:
        assert server.server_address[0] == "127.0.0.1"
        for path in ("/", "/?a=1"):
            answer, text = ask(server, path)
            assert (answer.status, text) == (200, "<p>äöü</p>")
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert ask(server, "/", "HEAD")[1] == ""
        assert ask(server, "/../etc/passwd")[0].status == 404
        assert ask(server, "/page.html")[0].status == 404
        assert ask(server, "/", "POST")[0].status == 501


def test_the_server_refuses_names_that_others_let_point_here():
    with running("secret") as server:
        port = server.server_port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST:8888", "localhost"):
            assert ask(server, Host=host)[0].status == 200
        for host in ("evil.example", f"evil.example:{port}", "", f"127.0.0.1.evil:{port}"):
            answer, text = ask(server, Host=host)
            assert answer.status == 403
            assert "secret" not in text
        with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
            raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"403" in raw.recv(100)


def test_a_port_in_use_is_named():
    with running("") as server:
        taken = server.server_port
        with pytest.raises(ValueError, match=rf"port must be free, 0 to 65535: got {taken}"):
            serve("", "", port=taken)
    with pytest.raises(ValueError, match="port must be free, 0 to 65535: got 70000"):
        serve("", "", port=70000)
