"""Downloads, against a real server on this machine that breaks off, lies and refuses."""

import hashlib
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from decal_lab.data import DamagedDataError, MissingDataError, cache_folder, fetch

CONTENT = bytes(range(256)) * 4096  # one MiB
MD5 = hashlib.md5(CONTENT).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Site:
    """What the server has and how it behaves; the ranges asked for, and the bytes sent."""

    def __init__(self):
        self.content = CONTENT
        self.tag = '"one"'
        self.ranges = True
        self.lengths = True
        self.breaks = []  # how many bytes to send before closing, one per request, then all
        self.answers = []  # status codes to give first
        self.moved = None  # the address to go to instead
        self.log, self.sent = [], []


def handler(site):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = self.headers.get("Range")
            site.log.append(asked)
            if site.moved:
                self.send_response(302)
                self.send_header("Location", site.moved)
                self.end_headers()
                return
            if site.answers:
                site.sent.append(0)
                self.send_error(site.answers.pop(0))
                return
            start = int(re.match(r"bytes=(\d+)-", asked)[1]) if asked and site.ranges else 0
            changed = self.headers.get("If-Range") not in (None, site.tag)
            start = 0 if changed else start
            if start >= len(site.content):
                site.sent.append(0)  # before the answer, which the test may be waiting for
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(site.content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = site.content[start:]
            self.send_response(206 if start else 200)
            if start:
                end = len(site.content)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
            if site.lengths:
                self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", site.tag)
            self.end_headers()
            body = body[: site.breaks.pop(0)] if site.breaks else body
            site.sent.append(len(body))
            self.wfile.write(body)
            self.wfile.flush()
            self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler


@contextmanager
def serving(site, host="127.0.0.1"):
    server = ThreadingHTTPServer((host, 0), handler(site))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}/data/file.bin"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def url(site):
    with serving(site) as address:
        yield address


def nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/file.bin"


def files_in(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_downloaded_once_and_its_digest_recorded(url, site, tmp_path):
    path = fetch(url, tmp_path / "deep" / "file.bin", md5=MD5, sha256=SHA256, size=len(CONTENT))
    assert path.read_bytes() == CONTENT
    assert fetch(url, path, md5=MD5) == path
    assert site.log == [None]
    assert files_in(path.parent) == ["file.bin", "file.bin.sha256"]
    assert (tmp_path / "deep" / "file.bin.sha256").read_text() == f"{SHA256}  file.bin\n"


def test_a_download_that_breaks_off_goes_on_where_it_stopped(url, site, tmp_path):
    site.breaks = [300_000, 200_000]
    path = fetch(url, tmp_path / "file.bin", md5=MD5, pause=0)
    assert path.read_bytes() == CONTENT
    assert site.log == [None, "bytes=300000-", "bytes=500000-"]
    assert sum(site.sent) == len(CONTENT), "nothing is fetched twice"


def test_a_later_call_continues_what_an_earlier_one_left(url, site, tmp_path):
    site.breaks = [400_000]

    def stop(done, _total):
        if done == 400_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(url, tmp_path / "file.bin", md5=MD5, progress=stop, pause=0)
    assert files_in(tmp_path) == ["file.bin.part"]
    fetch(url, tmp_path / "file.bin", md5=MD5)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert site.log == [None, "bytes=400000-"]


def test_without_a_digest_an_old_part_is_not_trusted(url, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"of another file")
    assert fetch(url, tmp_path / "file.bin").read_bytes() == CONTENT
    assert site.log == [None]


def test_a_file_that_changes_while_it_is_fetched_is_fetched_anew(url, site, tmp_path):
    site.breaks = [1000]
    new = b"new" * 1000

    def change(done, _total):
        if done == 1000:
            site.content, site.tag = new, '"two"'

    assert fetch(url, tmp_path / "file.bin", progress=change, pause=0).read_bytes() == new
    assert site.log == [None, "bytes=1000-"]


def test_a_complete_part_is_only_checked_and_named(url, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(url, tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT
    assert site.sent == [0]


def test_a_part_longer_than_the_file_is_thrown_away(url, site, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert fetch(url, tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT
    assert site.log == [f"bytes={len(CONTENT) + 4}-", None]


def test_a_server_that_knows_no_ranges_sends_all_again(url, site, tmp_path):
    site.ranges, site.breaks = False, [300_000]
    assert fetch(url, tmp_path / "file.bin", md5=MD5, pause=0).read_bytes() == CONTENT
    assert site.sent == [300_000, len(CONTENT)]


def test_a_server_that_tells_no_length_is_believed_if_the_digest_agrees(url, site, tmp_path):
    site.lengths = False
    seen = []
    path = fetch(url, tmp_path / "file.bin", md5=MD5, progress=lambda *at: seen.append(at))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), None)


def test_a_wrong_digest_is_refused_and_the_file_not_kept(url, site, tmp_path):
    site.content = CONTENT[:-1] + b"!"
    with pytest.raises(
        DamagedDataError, match=rf"file.bin must have the md5 {MD5}: got \w+. It was"
    ):
        fetch(url, tmp_path / "file.bin", md5=MD5)
    assert files_in(tmp_path) == []
    site.content = CONTENT
    assert fetch(url, tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"sha256": "0" * 64}, "must have the sha256 000"),
        ({"size": 5}, r"must have 5 bytes: got 1,048,576"),
        ({"start": b"PK"}, r"must begin with b'PK': got b'\\x00\\x01'"),
    ],
)
def test_whatever_is_known_of_a_file_is_checked(url, tmp_path, known, message):
    with pytest.raises(DamagedDataError, match=message):
        fetch(url, tmp_path / "file.bin", **known)
    assert files_in(tmp_path) == []


def test_the_first_download_is_trusted_and_later_ones_must_agree(url, site, tmp_path):
    path = fetch(url, tmp_path / "file.bin")
    path.unlink()
    site.content = b"something else"
    with pytest.raises(
        DamagedDataError, match="must be the file first downloaded.*Remove file.bin.sha256"
    ):
        fetch(url, path)
    assert files_in(tmp_path) == ["file.bin.sha256"]
    site.content = CONTENT
    assert fetch(url, path).read_bytes() == CONTENT


def test_a_file_put_there_by_hand_is_checked_and_then_used(url, site, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"wrong")
    with pytest.raises(DamagedDataError, match="Remove it, or put the right file in its place"):
        fetch(url, path, md5=MD5)
    path.write_bytes(CONTENT)
    assert fetch(url, path, md5=MD5) == path
    assert site.log == []


def test_a_file_replaced_by_hand_later_is_checked_again(url, tmp_path):
    path = fetch(url, tmp_path / "file.bin", md5=MD5)
    later = path.with_name("file.bin.sha256").stat().st_mtime + 5
    path.write_bytes(b"wrong")
    os.utime(path, (later, later))
    with pytest.raises(DamagedDataError, match=MD5):
        fetch(url, path, md5=MD5)


@pytest.mark.parametrize("known", [{"md5": MD5}, {"sha256": SHA256}, {}])
def test_a_file_altered_with_its_times_kept_is_noticed(url, tmp_path, known):
    path = fetch(url, tmp_path / "file.bin", **known)
    before = path.stat()
    path.write_bytes(CONTENT[:-1] + b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DamagedDataError, match="file.bin must"):
        fetch(url, path, **known)


def test_a_download_that_may_be_cut_short_is_not_kept(url, site, tmp_path):
    site.lengths, site.breaks = False, [300_000]
    message = "says neither how long the file is nor is a digest known"
    with pytest.raises(MissingDataError, match=message):
        fetch(url, tmp_path / "file.bin", pause=0)
    assert files_in(tmp_path) == []


def test_a_link_at_the_name_of_the_part_is_not_followed(url, tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "file.bin.part").symlink_to(tmp_path / "victim")
    with pytest.raises(MissingDataError, match="file.bin.part"):
        fetch(url, tmp_path / "file.bin", md5=MD5, pause=0)
    assert (tmp_path / "victim").read_text() == "precious"


def test_what_anybody_on_the_way_could_alter_needs_a_digest(tmp_path):
    for known in ({}, {"size": 5, "start": b"PK"}):
        with pytest.raises(
            ValueError, match="url must start with https:// where no digest is known: got 'http://"
        ):
            fetch("http://no-such-host.invalid/file.bin", tmp_path / "file.bin", **known)
    with pytest.raises(MissingDataError):
        fetch("http://no-such-host.invalid/file.bin", tmp_path / "file.bin", md5=MD5)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_an_address_that_leads_to_an_open_one_needs_a_digest(url, site, tmp_path):
    with serving(Site(), "127.0.0.2") as elsewhere:
        site.moved = elsewhere
        with pytest.raises(MissingDataError, match="led to http://127.0.0.2.*on the way"):
            fetch(url, tmp_path / "file.bin", pause=0)
        assert files_in(tmp_path) == []
        assert fetch(url, tmp_path / "file.bin", sha256=SHA256).read_bytes() == CONTENT


def test_an_absent_file_says_what_to_put_where(url, site, tmp_path):
    site.answers = [404]
    message = (
        r"cifar-10 could not be downloaded \(no network\?\): put file.bin into .*"
        rf"{tmp_path.name}, or pass folder=.*127.0.0.1:\d+: answered 404"
    )
    with pytest.raises(MissingDataError, match=message):
        fetch(url, tmp_path / "file.bin", what="cifar-10", pause=0)
    assert site.log == [None], "a refusal is final"
    assert files_in(tmp_path) == []


def test_a_busy_server_is_asked_again(url, site, tmp_path):
    site.answers = [503, 429]
    assert fetch(url, tmp_path / "file.bin", md5=MD5, pause=0).read_bytes() == CONTENT
    assert len(site.log) == 3


def test_a_server_that_never_gets_further_is_given_up(url, site, tmp_path):
    site.breaks = [1000] + [0] * 10
    with pytest.raises(MissingDataError, match="broke off after 1,000 of"):
        fetch(url, tmp_path / "file.bin", md5=MD5, pause=0)
    assert len(site.log) == 5, "one that brought something, then four in a row that did not"
    assert files_in(tmp_path) == ["file.bin.part"], "what is there is kept for later"


def test_a_server_that_starts_over_and_over_is_given_up(url, site, tmp_path):
    site.ranges, site.breaks = False, [1000, 2000] * 20
    with pytest.raises(MissingDataError, match="broke off"):
        fetch(url, tmp_path / "file.bin", md5=MD5, pause=0)
    assert len(site.log) == 6


def test_the_next_address_is_tried_when_nobody_answers_at_the_first(url, tmp_path):
    assert fetch([nobody_listens(), url], tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT


def test_the_next_address_is_tried_when_the_first_has_another_file(url, tmp_path):
    liar = Site()
    liar.content = b"<html>This page has moved.</html>"
    with serving(liar) as wrong:
        assert fetch([wrong, url], tmp_path / "file.bin", md5=MD5).read_bytes() == CONTENT
        (tmp_path / "file.bin").unlink()
        with pytest.raises(DamagedDataError, match=MD5):
            fetch([wrong, nobody_listens()], tmp_path / "file.bin", md5=MD5)
    assert files_in(tmp_path) == ["file.bin.sha256"]


def test_without_a_network_the_answer_comes_at_once(tmp_path):
    with pytest.raises(MissingDataError, match=r"could not be downloaded \(no network\?\)"):
        fetch("https://no-such-host.invalid/file.bin", tmp_path / "file.bin", pause=1000)


def test_only_web_addresses_are_opened(tmp_path):
    with pytest.raises(ValueError, match="url must start with http"):
        fetch("file:///etc/hosts", tmp_path / "hosts")


def test_a_cache_that_cannot_be_written_is_named(url, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(MissingDataError, match="cannot be kept in .*Set DECAL_CACHE"):
        fetch(url, tmp_path / "cache" / "file.bin")


def fetch_there(url, path, answers):
    os.environ["no_proxy"] = "*"
    answers.put(fetch(url, path, md5=MD5).read_bytes() == CONTENT)


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked")
def test_two_processes_download_a_file_once(url, site, tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [
        context.Process(target=fetch_there, args=(url, tmp_path / "file.bin", answers))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    assert [answers.get(timeout=300) for _ in workers] == [True, True]
    for worker in workers:
        worker.join()
    assert site.sent == [len(CONTENT)]


def test_progress_counts_from_what_is_there_to_all(url, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:100_000])
    seen = []
    fetch(url, tmp_path / "file.bin", md5=MD5, progress=lambda *at: seen.append(at))
    assert seen[0] == (100_000, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_nothing_is_drawn_unless_the_error_stream_is_a_terminal(url, tmp_path, capfd):
    fetch(url, tmp_path / "file.bin")
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_sees_how_far_it_is(url, tmp_path):
    call = f"fetch({url!r}, {str(tmp_path / 'file')!r}, what='svhn')"
    code = f"from decal_lab.data import fetch; {call}"
    master, slave = os.openpty()
    try:
        subprocess.run([sys.executable, "-c", code], stderr=slave, check=True, timeout=120)
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(master)
        os.close(slave)
    assert "svhn" in shown
    assert "1.0" in shown  # MB


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("DECAL_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("DECAL_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "decal"
