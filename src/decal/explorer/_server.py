"""The explorer's page on an address of this machine only."""

from __future__ import annotations

import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from decal._base.errors import InputError

ADDRESS = "127.0.0.1"


class PageServer(ThreadingHTTPServer):
    """Serves one page at / to programs on this machine, with a content security policy.

    The Host header must be this machine's. So a web page elsewhere cannot read this page by giving
    this machine's address a name of its own (DNS rebinding). Port 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, html: str, policy: str, port: int = 0) -> None:
        self.page = html.encode("utf-8")
        self.policy = f"{policy}; frame-ancestors 'none'"
        super().__init__((ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "decal", ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        status, body, kind = HTTPStatus.OK, self.server.page, "text/html"
        host = self.headers.get("Host", "").lower().partition(":")[0]
        if host not in (ADDRESS, "localhost"):  # a tunnel may have changed the port
            status, body, kind = HTTPStatus.FORBIDDEN, b"Not for this host.\n", "text/plain"
        elif self.path.partition("?")[0] != "/":
            status, body, kind = HTTPStatus.NOT_FOUND, b"The page is at /.\n", "text/plain"
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": self.server.policy,
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the browser went away

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: the terminal belongs to whoever started the server."""


def serve(html: str, policy: str, *, port: int = 0, open_browser: bool = True) -> None:
    """Serve a page until interrupted, and print its address."""
    try:
        server = PageServer(html, policy, port)
    except (OSError, OverflowError) as error:
        rule = "be free, 0 to 65535"
        raise InputError("port", rule, f"{port} ({error})", "Port 0 takes a free one.") from error
    with server:
        # Printed now, even into a pipe.
        print(f"The explorer is at {server.url} (Ctrl-C to stop)", flush=True)
        if open_browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.", flush=True)
