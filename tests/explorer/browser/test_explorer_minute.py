"""The explorer in 60 seconds, by somebody who is no statistician: what it takes, click by click.

| task | clicks |
|---|---|
| open the page | 0 |
| find an error that the model was sure of | 0: the page opens on one |
| say why it is one | 0: a sentence below its ranges |
| hand over a tenth to a person | 1: "Hand over" |
| export the list | 1: "Export list (CSV)" |
"""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, drawn_data, exported_table

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

LISTENING = """() => {
  window.clicks = [];
  for (const kind of ["click", "keydown"])
    addEventListener(kind, (event) => event.isTrusted && window.clicks.push(
      event.target.textContent), true);
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_sure_error_is_understood_and_a_tenth_handed_over_in_two_clicks(
    open_page, tmp_path, width
):
    known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    model = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    path = tmp_path / "page.html"
    model.explore(new.logits, labels=new.labels, texts=new.texts, title="Languages").save(path)
    page = open_page(path, width=width, height=800)
    page.evaluate(LISTENING)

    # The page says what is promised, and opens on an error: surely wrong, and caught.
    expect(page.get_by_test_id("promise")).to_have_text("Misses at most 1 in 10")
    row = int(page.locator("tr[aria-selected=true]").get_attribute("data-row"))
    p = np.exp(new.logits[row]) / np.exp(new.logits[row]).sum()
    said, truth = new.classes[p.argmax()], new.classes[new.labels[row]]
    assert new.texts[row] == "Limpar selección"  # as in the README and on the first page
    assert p.max() > 0.9
    assert said != truth
    assert sorted(model.report(new.logits[[row]]).possible[0]) == sorted([said, truth])
    expect(page.get_by_test_id("text")).to_have_text(new.texts[row])

    # Why: one sentence.
    why = page.get_by_test_id("sentence").text_content().replace("\xa0", " ")
    assert f"The model says {said}, {100 * p.max():.0f} %." in why
    assert "possible: ask a person." in why
    assert why.endswith(f"It is {truth}: the model is wrong, and the right class is kept.")

    # Hand over a tenth, and export it.
    page.get_by_role("button", name="Hand over").click()
    page.evaluate(SETTLED)
    found = exported_table(page)
    report = model.report(new.logits, check=0.1)
    assert [int(line["row"]) for line in found] == np.flatnonzero(report.check).tolist()
    possible = [line["possible"].split(" | ") for line in found]
    assert [sorted(names) for names in possible] == [
        sorted(p) for p in report.possible[report.check]
    ]
    assert page.evaluate("() => window.clicks") == ["Hand over", "Export list (CSV)"]


def test_label_shift_several_labels_and_language_models_look_the_same(open_page, tmp_path):
    z, labels, _ = drawn_data(400, 3)
    shift = decal.LabelShift().fit(z[:300], labels[:300]).observe(z[300:])
    answers = (z[:300] + np.random.default_rng(0).normal(size=(300, 3)) > 0).astype(int)
    several = decal.MultiLabelDecalibrator(alpha=0.9).fit(z[:300], answers, classes="abc")
    model = decal.decalibrate(z[:300], labels[:300], alpha=0.9, classes="abc")
    known = z[300:] - np.log(np.exp(z[300:]).sum(axis=1, keepdims=True))
    verbaliser = decal.llm.Verbaliser(["a", "b", "c"])
    masses = decal.llm.vocabulary_masses(known, ["a", "b", "c"], verbaliser, top=2)
    pages = {
        "model": model.explore(z[300:]),
        "shift": shift.explore(z[300:]),
        "several labels": several.predict(z[300:]).label("a").explore(),
        "language model": decal.llm.predict(model, masses).explore(),
    }
    parts = ("level", "route", "search", "table", "intervals", "sentence", "folded", "export-csv")
    for name, made in pages.items():
        made.save(tmp_path / "page.html")
        page = open_page(tmp_path / "page.html")
        for part in parts:
            expect(page.get_by_test_id(part)).to_be_visible()
        heads = page.get_by_test_id("table").get_by_role("columnheader").all_text_contents()
        assert heads == ["Input", "Model says", "How sure", "Possible"], name
        page.get_by_test_id("route-hand").click()
        page.evaluate(SETTLED)
        assert exported_table(page)
