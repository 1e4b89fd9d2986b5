"""Progress bars: drawn by rich, or not at all."""

import io
import subprocess
import sys

import pytest

from decal.io.progress import progress_bar, tracked

PACKAGES = ("rich.progress",)


def screen(monkeypatch, *, terminal=True, only=None):
    """An error stream; with `only` empty, rich is not installed."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    if only is not None:
        pytest.importorskip(only.split(".")[0]) if only else None
        for package in PACKAGES:
            if package != only:
                monkeypatch.setitem(sys.modules, package, None)
    return stream


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_shows_title_numbers_unit_and_note(monkeypatch, package, terminal):
    shown = screen(monkeypatch, terminal=terminal, only=package)
    with progress_bar("fitting", 5, unit="rows", show=True, done=1) as bar:
        bar.advance(3)
        bar.describe("loss 0.5")
        bar.advance()
        assert (bar.done, bar.total, bar.note) == (5, 5, "loss 0.5")
    for word in ("fitting", "5/5", "rows", "loss 0.5"):
        assert word in shown.getvalue()


@pytest.mark.parametrize("package", [*PACKAGES, ""])
def test_nothing_is_drawn_unless_asked_for_or_without_a_package(monkeypatch, package):
    shown = screen(monkeypatch, only=package)
    with progress_bar("fitting", 5, unit="rows", show=not package) as bar:
        bar.advance(5)
        bar.describe("more")
    assert bar.done == 5
    assert shown.getvalue() == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_total_may_be_unknown_and_become_known(monkeypatch, package):
    shown = screen(monkeypatch, only=package)
    with progress_bar("reading", unit="rows", show=True) as bar:
        bar.advance(2)
        bar.update(7, 8)
    assert "7/8" in shown.getvalue()


def test_tracked_items_are_all_there_and_counted(monkeypatch):
    shown = screen(monkeypatch, only="rich.progress")
    assert list(tracked("abc", "letters", unit="letters", show=True)) == ["a", "b", "c"]
    assert "3/3" in shown.getvalue()
    assert list(tracked(iter("abc"), "letters", unit="letters", show=True)) == ["a", "b", "c"]
    assert "3/?" in shown.getvalue()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_bar_is_closed_after_an_error(monkeypatch, package):
    shown = screen(monkeypatch, only=package)

    def failing():
        yield 1
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        list(tracked(failing(), "reading", unit="rows", show=True))
    size = len(shown.getvalue())
    with progress_bar("hidden", unit="rows", show=False) as bar:
        bar.advance()
    assert len(shown.getvalue()) == size


@pytest.mark.parametrize("package", PACKAGES)
def test_bytes_are_shown_in_larger_units(monkeypatch, package):
    shown = screen(monkeypatch, only=package)
    with progress_bar("svhn", unit="B", show=True) as bar:
        bar.update(1_500_000, 3_000_000)
    assert "1.5" in shown.getvalue()


def test_nothing_is_imported_before_a_bar_is_shown():
    code = (
        "import sys; from decal.io.progress import progress_bar\n"
        "with progress_bar('x', unit='rows', show=False) as bar: bar.advance()\n"
        "print({'rich'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
