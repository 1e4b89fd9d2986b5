"""Three classes in a triangle: its polygon against linear programs over the credal set."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from browser.reading import PLAYWRIGHT, SETTLED, circles, corners, set_level

pytestmark = pytest.mark.browser
expect = pytest.importorskip("playwright.sync_api", reason=PLAYWRIGHT).expect


def furthest(lower, upper, three, direction):
    """Greatest expectation of a direction, given one of three classes, over a box.

    Charnes and Cooper: with x = p / p(three) and t = 1 / p(three) it is a linear program.
    """
    K = len(lower)
    objective = np.zeros(K + 1)
    objective[three] = -direction
    inside = np.zeros((1, K + 1))
    inside[0, three] = 1
    total = np.append(np.ones(K), -1.0)[None]
    bounds = np.vstack(
        [
            np.column_stack([-np.eye(K), lower]),
            np.column_stack([np.eye(K), -upper]),
        ]
    )
    found = linprog(
        objective,
        A_ub=bounds,
        b_ub=np.zeros(2 * K),
        A_eq=np.vstack([inside, total]),
        b_eq=[1, 0],
        bounds=[(0, None)] * (K + 1),
    )
    assert found.status == 0
    return -found.fun


def distributions(page, points):
    """Points of the picture as distributions of its three classes, by its outline."""
    left, right, top = corners(page, "triangle", "outline")[0]
    frame = np.vstack([np.column_stack([left, right, top]), np.ones(3)])
    points = np.asarray(points).reshape(-1, 2)
    return np.linalg.solve(frame, np.column_stack([points, np.ones(len(points))]).T).T


@pytest.mark.parametrize("three", ["0,1,2", "4,1,3"])
def test_the_polygon_is_the_credal_set_given_three_classes(open_page, one, three):
    page = open_page(one.path)
    chosen = [int(k) for k in three.split(",")]
    for at, k in enumerate(chosen):
        page.get_by_test_id(f"corner-{at}").select_option(str(k))
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    for level, row in ((2, 4), (4, 17)):
        set_level(page, level)
        page.locator(f"tr[data-row='{row}']").click()
        page.evaluate(SETTLED)
        credal = one.sets[0][level]
        lower, upper = credal.lower[row], credal.upper[row]
        polygon = distributions(page, corners(page, "triangle", "credal")[0])
        for angle in angles:
            direction = np.array([np.cos(angle), np.sin(angle), 0.3])
            expected = furthest(lower, upper, chosen, direction)
            assert (polygon @ direction).max() == pytest.approx(expected, abs=2e-5)
        point = distributions(page, circles(page, "triangle", "point")[:, :2])[0]
        p = credal.point[row, chosen]
        np.testing.assert_allclose(point, p / p.sum(), atol=1e-5)
        truth = distributions(page, corners(page, "triangle", "truth")[0].mean(axis=0))[0]
        q = one.truth[row, chosen]
        np.testing.assert_allclose(truth, q / q.sum(), atol=1e-5)
    names = ", ".join(one.classes[k] for k in chosen)
    expect(page.get_by_test_id("triangle-words")).to_contain_text(f"one of {names}")
    page.wait_for_function(
        "(three) => location.hash.includes(three)", arg=three.replace(",", "%2C")
    )


def test_other_inputs_are_points_to_choose(open_page, one):
    page = open_page(one.path)
    page.get_by_test_id("triangle-host").scroll_into_view_if_needed()
    box = page.get_by_test_id("triangle-host").bounding_box()
    for at in range(3):
        page.get_by_test_id(f"corner-{at}").select_option(str(at))
    page.evaluate(SETTLED)
    left, right, top = corners(page, "triangle", "outline")[0]
    p = one.sets[0][3].point[:, :3]
    places = (p / p.sum(axis=1, keepdims=True)) @ np.array([left, right, top])
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(26)
    alone = int(np.argmax(apart.min(axis=1)))
    page.mouse.click(box["x"] + places[alone, 0], box["y"] + places[alone, 1])
    expect(page.get_by_test_id("detail-title")).to_have_text(f"Input {alone}")
