"""What leaves the explorer's page: pictures, tables, and its address."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import decal
from browser.reading import (
    PLAYWRIGHT,
    SETTLED,
    drawn_data,
    exported,
    exported_table,
    lines,
    order,
    set_level,
    table,
)
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

SET_RULES = {"e_admissible": "E-admissible", "maximality": "Maximality"}
ONE_RULES = {
    "gamma_maximin": "Γ-maximin",
    "gamma_maximax": "Γ-maximax",
    "hurwicz": "Hurwicz",
    "minimax_regret": "Minimax regret",
    "point": "Point",
}


def check_line(line, case, level, i, model=0, prefix="", classes=None):
    """One line of the CSV, every number against the credal set to 1e-6."""
    credal, columns = case.sets[model][level], case.columns(level, model)
    names = classes or case.classes
    assert float(line["alpha"]) == case.alphas[level]
    assert line["label"] == case.classes[case.labels[i]]
    assert line[f"{prefix}prediction"] == names[columns["prediction"][i]]
    assert int(line[f"{prefix}error"]) == columns["error"][i]
    assert int(line[f"{prefix}truth inside"]) == credal.contains(case.truth)[i]
    kept = credal.decide("e_admissible")
    assert int(line[f"{prefix}label E-admissible"]) == kept[i, case.labels[i]]
    for key in ("epistemic", "aleatoric", "total"):
        assert float(line[prefix + key]) == pytest.approx(columns[key][i], abs=1e-6)
    for key, title in SET_RULES.items():
        action = credal.decide(key)[i]
        assert int(line[f"{prefix}{title} size"]) == action.sum()
        assert set(line[prefix + title].split("; ")) == {names[k] for k in np.flatnonzero(action)}
    for key, title in ONE_RULES.items():
        assert line[prefix + title] == names[credal.decide(key)[i]]
    for k, name in enumerate(names):
        assert float(line[f"{prefix}lower {name}"]) == pytest.approx(credal.lower[i, k], abs=1e-6)
        assert float(line[f"{prefix}upper {name}"]) == pytest.approx(credal.upper[i, k], abs=1e-6)


def test_the_csv_has_every_number_of_the_listed_inputs(open_page, one):
    page = open_page(one.path)
    for level in (0, 5):
        set_level(page, level)
        page.get_by_test_id("sort-total").click()
        page.evaluate(SETTLED)
        found = exported_table(page)
        assert [int(line["row"]) for line in found] == order(page)
        for line in found:
            i = int(line["row"])
            assert line["text"] == one.texts[i]
            check_line(line, one, level, i)
    page.get_by_test_id("search").fill("odd")
    page.evaluate(SETTLED)
    assert {int(line["row"]) for line in exported_table(page)} == set(range(1, 26, 2))


def test_the_csv_of_two_models_has_both(open_page, two):
    page = open_page(two.path)
    set_level(page, 4)
    found = exported_table(page)
    assert len(found) == 26
    for line in found:
        i = two.rows.tolist().index(int(line["row"]))
        assert re.fullmatch(rf"Animal [A-Z]{line['row']}", line["name"])
        check_line(line, two, 4, i, 0, "English: ")
        check_line(line, two, 4, i, 1, "中文: ", ["蚁", "蜂", "猫", "狗", "鸸鹋"])


def test_the_csv_of_many_classes_tells_those_that_are_stored(open_page, tmp_path):
    z, labels, _ = drawn_data(6, 12)
    model = decal.decalibrate(*drawn_data(200, 12, seed=1)[:2], alpha=0.8)
    explore(model, z, labels=labels, alphas=[1, 0.8], slots=4).save(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    credal = model.predict(z)
    for line in exported_table(page):
        i = int(line["row"])
        parts = line["intervals"].split("; ")
        assert len(parts) == 5
        for part in parts[:4]:
            k, low, high = re.fullmatch(r"(\d+) (\d\.\d{3}) to (\d\.\d{3})", part).groups()
            assert float(low) == pytest.approx(credal.lower[i, int(k)], abs=6e-4)
            assert float(high) == pytest.approx(credal.upper[i, int(k)], abs=6e-4)
        assert parts[4].startswith("8 others ")


def pixels(data):
    Image = pytest.importorskip("PIL.Image", reason="needs decal[explore]")
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.format == "PNG"
        picture.load()
        return np.asarray(picture.convert("RGB"), dtype=np.int16)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_png_is_a_picture_of_the_charts(open_page, two, scheme):
    page = open_page(two.path, color_scheme=scheme)
    set_level(page, 4)
    data, name = exported(page, "png")
    assert name == "two-languages-alpha-0.6.png"
    found = pixels(data)
    height, width, _ = found.shape
    assert 1800 < width < 5000
    assert 1200 < height < 5000
    corner = found[4, 4]
    assert (corner.mean() > 200) == (scheme == "light")
    drawn = np.abs(found - corner).max(axis=2) > 60
    assert 0.01 < drawn.mean() < 0.5
    for axis in (0, 1):
        assert all(part.mean() > 0.002 for part in np.array_split(drawn, 4, axis=axis))
    colours = [(0x00, 0x72, 0xB2), (0x00, 0x85, 0x5F), (0xD5, 0x5E, 0x00)]
    if scheme == "dark":
        colours = [(0x56, 0xB4, 0xE9), (0x2F, 0xC4, 0x97), (0xDB, 0x76, 0x26)]
    for colour in colours:
        assert (np.abs(found - colour).max(axis=2) < 12).sum() > 200


def test_the_svg_stands_alone(open_page, one):
    page = open_page(one.path)
    data, name = exported(page, "svg")
    assert name == "five-animals-alpha-0.8.svg"
    root = ElementTree.fromstring(data)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.get("width")) > 800
    words = "".join(root.itertext())
    for word in ("Five animals", "α 0.8", "26 inputs", "Trade-off", "Uncertainty", "truth", "ant"):
        assert word in words
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        assert tag in {"svg", "g", "text", "title", "rect", "circle", "line", "path", "image"}
        for attribute, value in element.attrib.items():
            plain = attribute.rpartition("}")[2]
            assert not plain.startswith("on")
            assert plain not in {"class", "style", "src"}
            if plain == "href":
                assert value.startswith("data:image/png;base64,")
            else:
                assert not re.search(r"url\(|var\(|https?:|javascript:", value), (attribute, value)
    # Opened as a document of its own, it shows the bars where the page has them.
    bars = lines(page, "intervals", "bar")
    inside = [
        [float(line.get(end)) for end in ("x1", "x2")]
        for line in root.iter("{http://www.w3.org/2000/svg}line")
        if line.get("stroke-width") == "9px"
    ]
    for bar in bars:
        assert any(np.allclose(bar[:, 0], ends) for ends in inside)


# The address


def everything(page):
    """All that the reader can have chosen, as the page shows it."""
    page.evaluate(SETTLED)
    sort = page.locator("th[aria-sort=ascending], th[aria-sort=descending]")
    value = {
        name: page.get_by_test_id(name).input_value()
        for name in ("search", "filter-class", "filter-where", "filter-cases", "filter-rule")
    }
    pressed = page.locator("[aria-pressed=true]").evaluate_all(
        "(buttons) => buttons.map((button) => button.dataset.testid)"
    )
    return {
        **value,
        "pressed": pressed,
        "alpha": page.get_by_test_id("alpha-value").text_content(),
        "sort": (sort.text_content(), sort.get_attribute("aria-sort")),
        "input": page.get_by_test_id("detail-title").text_content(),
        "theme": page.get_by_test_id("theme").text_content(),
        "rows": table(page),
    }


def test_the_address_restores_all_that_was_chosen(open_page, two):
    page = open_page(two.path)
    first = everything(page)
    set_level(page, 5)
    page.get_by_test_id("show-difference").click()
    page.get_by_test_id("sort-aleatoric").click()
    page.get_by_test_id("sort-aleatoric").click()
    page.get_by_test_id("search").fill("animal")
    page.get_by_test_id("filter-class").select_option(label="cat")
    page.get_by_test_id("filter-where").select_option("set")
    page.get_by_test_id("filter-cases").select_option("errors")
    page.get_by_test_id("filter-rule").select_option("maximality")
    page.get_by_test_id("curve-size").click()
    page.get_by_test_id("cloud-models").click()
    page.get_by_test_id("theme").click()
    page.get_by_test_id("theme").click()
    page.get_by_test_id("next").click()
    before = everything(page)
    assert all(before[key] != first[key] for key in first)
    assert 0 < len(before["rows"]) < 26
    page.wait_for_function("(row) => location.hash.endsWith(`input=${row}`)", arg=chosen_row(page))
    address = page.url
    page.reload()
    page.get_by_test_id("spider").wait_for()
    assert everything(page) == before
    other = open_page(address, width=1300)
    assert everything(other) == before
    # An address that is typed in, or gone back to, is followed too.
    page.evaluate("() => { location.hash = '#alpha=0.95' }")
    expect(page.get_by_test_id("alpha-value")).to_have_text("0.95")
    assert everything(page) == {
        **first,
        "alpha": "0.95",
        "rows": everything(page)["rows"],
    }


def chosen_row(page):
    return page.locator("tr[aria-selected=true]").get_attribute("data-row")


@pytest.mark.parametrize(
    "hash_",
    [
        "#alpha=x&class=-3&input=99999&sort=__proto__&theme=<b>&rule=constructor&show=7",
        "#alpha=&class=&input=&sort=&query=&where=&cases=",
        "#%E0%A4%A&&&=&alpha=NaN&input=1e400&class=1.5",
    ],
)
def test_an_address_that_makes_no_sense_shows_the_first_view(open_page, one, hash_):
    first = everything(open_page(one.path))
    assert everything(open_page(one.path.as_uri() + hash_)) == first


def test_the_nearest_level_answers_for_one_that_is_not_there(open_page, one):
    page = open_page(one.path.as_uri() + "#alpha=0.62&input=9")
    expect(page.get_by_test_id("alpha-value")).to_have_text("0.6")
    expect(page.get_by_test_id("detail-title")).to_have_text("Input 9")
