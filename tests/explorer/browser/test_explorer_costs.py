"""A decision with costs: the page answers as decal does, on thousands of inputs."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from browser.reading import PLAYWRIGHT, SETTLED, agrees, axes, circles, drawn_data, exported_table
from decal.credal import decisions
from decal.explorer import explore

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect

K, N = 4, 3000
NAMES = [*"abcd", "abstain"]
ALPHAS = [1, 0.95, 0.8]
MATRIX = np.array([[1, 0, 0, -2], [0, 1, 0.5, 0], [0.2, 0, 1, 0], [-1, 0, 0.3, 2]])
RULES = ["gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret"]
RULES += ["maximality", "interval_dominance", "e_admissible"]


@pytest.fixture(scope="module")
def priced(tmp_path_factory):
    """A page of 3,000 inputs; the bounds that it holds, labels and points."""
    z, labels, _ = drawn_data(N, K)
    model = decal.decalibrate(*drawn_data(300, K, seed=1)[:2], alpha=0.8, classes="abcd")
    page = explore(model, z, labels=labels, alphas=ALPHAS, start=0.95)
    path = tmp_path_factory.mktemp("costs") / "page.html"
    page.save(path)
    arrays = {name: array.astype(float) for name, array in page.payload.arrays.items()}
    for level in range(len(ALPHAS)):  # what 32 bits leave of the bounds, made reachable again
        box = decal.IntervalCredalSet(arrays["0/lower"][level], arrays["0/upper"][level]).tighten()
        arrays["0/lower"][level], arrays["0/upper"][level] = box.lower, box.upper
    return path, arrays, labels


def opened(open_page, path, **state):
    words = "&".join(f"{name}={value}" for name, value in state.items())
    page = open_page(f"{path.as_uri()}#{words}&sort=input")
    page.get_by_test_id("costs").scroll_into_view_if_needed()
    page.get_by_test_id("shares").locator("td").first.wait_for()
    page.evaluate(SETTLED)
    return page


def kept_by(lower, upper, rule, utility):
    found = decisions.decide(lower, upper, rule, utility=utility)
    return found if found.ndim == 2 else np.eye(K + 1, dtype=bool)[found]


@pytest.mark.parametrize("priced_by", ["abstention", "matrix"])
def test_decisions_with_costs_are_those_of_decal(open_page, priced, priced_by):
    path, arrays, _ = priced
    lower, upper = arrays["0/lower"][1], arrays["0/upper"][1]
    cost = 0.35
    utility = decisions.abstention_utility(K, cost=cost)
    state = {"alpha": 0.95, "cost": cost}
    if priced_by == "matrix":
        utility[:K] = MATRIX
        state["utility"] = ",".join(f"{u:g}" for u in MATRIX.ravel())
    worst, best = decisions.expectation(lower, upper, utility)
    page = opened(open_page, path, **state)
    for rule in RULES:
        page.get_by_test_id("cost-rule").select_option(rule)
        page.evaluate(SETTLED)
        kept = kept_by(lower, upper, rule, utility)
        lines = exported_table(page)
        assert [int(line["row"]) for line in lines] == list(range(N))
        first = kept.argmax(axis=1)
        for i, line in enumerate(lines):
            names = "; ".join(np.array(NAMES)[kept[i]])
            assert line["decision with costs"] == names, (rule, i)
            assert float(line["its worst case"]) == pytest.approx(worst[i, first[i]], abs=1e-9)
            assert float(line["its best case"]) == pytest.approx(best[i, first[i]], abs=1e-9)
        assert len({line["decision with costs"] for line in lines}) > 1


def expected_shares(kept, labels, utility):
    """Share abstained, errors among the rest, mean utility: several kept are no decision."""
    alone = kept.sum(axis=1) == 1
    action = np.where(alone, kept.argmax(axis=1), K)
    named = action < K
    return 1 - named.mean(), (action != labels)[named].mean(), utility[action, labels].mean()


def test_shares_compare_the_sets_with_the_model_alone(open_page, priced):
    path, arrays, labels = priced
    lower, upper, point = arrays["0/lower"][1], arrays["0/upper"][1], arrays["0/point"]
    page = opened(open_page, path, alpha=0.95)
    for rule, cost in (("gamma_maximin", 0.5), ("maximality", 0.4), ("gamma_maximin", 0.65)):
        page.get_by_test_id("cost-rule").select_option(rule)
        page.get_by_test_id("cost").fill(str(cost))
        page.evaluate(SETTLED)
        utility = decisions.abstention_utility(K, cost=cost)
        by_model = np.eye(K + 1, dtype=bool)[(point @ utility.T).argmax(axis=1)]
        sides = [kept_by(lower, upper, rule, utility), by_model]
        x, y = axes(page, "risk")
        for side, kept in enumerate(sides):
            abstained, errors, earned = expected_shares(kept, labels, utility)
            text = {n: page.get_by_test_id(f"{n}-{side}").text_content() for n in SHARES}
            assert agrees(text["abstained"], 100 * abstained)
            assert agrees(text["errors"], 100 * errors)
            assert agrees(text["utility"], earned)
            cx, cy, _ = circles(page, "risk", ["risk-credal", "risk-alone"][side] + ".now")[0]
            assert x(cx) == pytest.approx(1 - abstained, abs=1e-6)
            assert y(cy) == pytest.approx(errors, abs=1e-6)


SHARES = ("abstained", "errors", "utility")


def test_risk_curves_take_the_surest_first(open_page, priced):
    path, arrays, labels = priced
    page = opened(open_page, path, alpha=0.95)
    x, y = axes(page, "risk")
    scores = {"risk-credal": arrays["0/lower"][1], "risk-alone": arrays["0/point"]}
    for name, table in scores.items():
        path_text = page.get_by_test_id("risk").locator(f"path.{name}").get_attribute("d")
        points = np.array([p.split(",") for p in path_text[1:].split("L")], dtype=float)
        ranked = np.argsort(-table.max(axis=1), kind="stable")
        wrong = (table.argmax(axis=1) != labels)[ranked].cumsum()
        for px, py in points[10::40]:
            share = x(px)
            count = round(float(share) * N)
            assert y(py) == pytest.approx(wrong[count - 1] / count, abs=2e-3)


def test_one_input_is_decided_with_its_numbers_and_utilities_are_edited(open_page, priced):
    path, arrays, _ = priced
    page = opened(open_page, path, alpha=0.95, cost=0.4, input=17)
    lower, upper = arrays["0/lower"][1, [17]], arrays["0/upper"][1, [17]]

    def check(utility):
        taken = decisions.decide(lower, upper, "gamma_maximin", utility=utility)[0]
        said = "abstain" if taken == K else f"name “{NAMES[taken]}”"
        expect(page.get_by_test_id("said")).to_have_text(f"Input 17: {said}")
        worst, best = decisions.expectation(lower, upper, utility)
        for action in range(K + 1):
            cells = page.get_by_test_id("verdict").locator(f"tr[data-action='{action}'] td")
            assert agrees(cells.nth(0).text_content(), worst[0, action])
            assert agrees(cells.nth(1).text_content(), best[0, action])
            assert (cells.nth(2).text_content() == "✓") == (action == taken)

    utility = decisions.abstention_utility(K, cost=0.4)
    check(utility)
    page.get_by_test_id("utilities").locator("summary").click()
    for a, k, value in ((0, 3, -1.5), (2, 2, 0.8)):
        page.get_by_test_id(f"utility-{a}-{k}").fill(str(value))
        page.get_by_test_id(f"utility-{a}-{k}").blur()
        utility[a, k] = value
        page.evaluate(SETTLED)
        check(utility)
    page.wait_for_function(  # the address is written a moment after an edit
        "() => ['-1.5', '0.8'].every((edit) => location.hash.includes(edit))"
    )
    page.reload()
    page.get_by_test_id("costs").scroll_into_view_if_needed()
    page.get_by_test_id("said").wait_for()
    check(utility)
    page.get_by_test_id("utilities").locator("summary").click()
    page.get_by_test_id("utility-reset").click()
    page.evaluate(SETTLED)
    check(decisions.abstention_utility(K, cost=0.4))
