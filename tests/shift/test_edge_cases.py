"""LabelShift where data are few, odd, many, absent or wrong: honest answers, and nothing lost."""

import threading
import warnings

import numpy as np
import pytest

import decal
from decal.shift import Near


def draw(n, frequencies, rng, sharpness=2.0):
    K = len(frequencies)
    y = rng.choice(K, p=frequencies, size=n)
    x = rng.normal(size=(n, K))
    x[np.arange(n), y] += sharpness
    return sharpness * x, y


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    return decal.LabelShift(calibrate=False).fit(
        *draw(500, [0.5, 0.3, 0.2], rng), classes=["a", "b", "c"]
    )


def copied(shift):
    """A LabelShift of the same calibration that has observed nothing."""
    return shift.unobserved()


def test_one_input_says_little(three):
    lone = copied(three).observe([[3.0, 0.0, 0.0]])
    found = lone.frequencies
    assert found.upper[0] == pytest.approx(1)
    assert np.all(found.lower[1:] == pytest.approx(0))
    assert np.all(found.upper - found.lower > 0.5)
    assert repr(found).startswith("Frequencies: 1 input, 3 classes")
    assert lone.test().p_value > 0.01
    assert (lone.predict([[0.0, 0.0, 0.0]]).upper > 0.8).all()


def test_identical_rows_count_like_one_with_their_weight(three):
    z = [[0.5, 0.2, 0.0]]
    many = copied(three).observe(z * 200)
    weighted = copied(three).observe(z, sample_weight=[200.0])
    new = [[0.0, 1.0, 0.0]]
    # Which class makes one input likeliest depends on labels, of which there are few.
    with pytest.warns(decal.AnswerWarning, match="may be anything"):
        estimates = [shift.frequencies.estimate for shift in (many, weighted)]
    assert estimates[0] == pytest.approx(estimates[1], abs=1e-6)
    assert many.point(new) == pytest.approx(weighted.point(new), abs=1e-6)
    assert many.predict(new).upper == pytest.approx(weighted.predict(new).upper, abs=2e-3)


def test_two_classes_have_one_prevalence():
    rng = np.random.default_rng(1)
    shift = decal.LabelShift(calibrate=False).fit(*draw(400, [0.7, 0.3], rng))
    shift.observe(draw(300, [0.9, 0.1], rng)[0])
    found, test = shift.frequencies, shift.test()
    assert found.lower == pytest.approx(1 - found.upper[::-1], abs=1e-6)
    assert test.p_values == pytest.approx(np.full(2, test.p_value), rel=1e-4)
    z = np.array([[0.0, 1.0]])
    credal = shift.predict(z)
    for x, bound in ((found.lower[1], credal.lower), (found.upper[1], credal.upper)):
        assert shift.predict(z, frequencies={1: x}).point[0, 1] == pytest.approx(
            bound[0, 1], abs=2e-3
        )


def test_a_thousand_classes_work():
    rng = np.random.default_rng(2)
    K = 1000
    labels = np.arange(2 * K) % K
    logits = rng.normal(size=(2 * K, K))
    logits[np.arange(2 * K), labels] += 6
    shift = decal.LabelShift(calibrate=False).fit(logits, labels)
    seen = labels < 50
    shift.observe(logits[seen])
    with pytest.warns(decal.AnswerWarning, match="may be anything"):  # there are two labels of each
        found = shift.frequencies
    assert found.estimate[:50].sum() > 0.9
    known = decal.LabelShift(calibrate=False).fit(logits, labels, frequencies=np.full(K, 1 / K))
    assert known.observe(logits[seen]).frequencies.upper.max() < 0.15
    assert np.all((found.lower <= found.estimate) & (found.estimate <= found.upper))
    credal = shift.predict(logits[:2])
    assert np.all((credal.lower <= credal.point) & (credal.point <= credal.upper))
    assert "and 988 that changed less" in repr(found)
    for supposed in ({7: (0.1, 0.5)}, Near(ratio=2)):
        sets = shift.predict(logits[:1], frequencies=supposed)
        assert np.all((sets.lower <= sets.point) & (sets.point <= sets.upper))


def test_a_class_that_is_never_predicted_may_still_occur():
    rng = np.random.default_rng(3)
    z, y = draw(600, [0.48, 0.48, 0.04], rng)
    z[:, 2] -= 20.0
    shift = decal.LabelShift().fit(z, y)
    assert not (z.argmax(axis=1) == 2).any()
    shift.observe(z[y == 2])
    assert shift.frequencies.estimate[2] > 0.5
    assert shift.predict(z[:5]).upper[:, 2].min() > 0


def test_a_class_without_labels_is_unknown_not_impossible():
    rng = np.random.default_rng(4)
    z, y = draw(300, [0.5, 0.5, 0.0], rng)
    with pytest.warns(decal.AnswerWarning, match="no labelled example is of class rare"):
        shift = decal.LabelShift(calibrate=False).fit(z, y, classes=["a", "b", "rare"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = shift.observe(z[:150]).frequencies
    assert (found.estimate[2], found.lower[2], found.upper[2]) == (0, 0, 1)
    assert np.isnan(shift.test().p_values[2])
    for supposed in (
        {"rare": (0.0, 0.1)},
        [(0, 1), (0, 1), (0, 0.5)],
        Near([0.4, 0.4, 0.2], kl=0.1),
    ):
        credal = shift.predict(z[:4], frequencies=supposed)
        assert np.array_equal(credal.lower, np.zeros((4, 3)))
        assert np.array_equal(credal.upper[:, 2], np.ones(4))
    for supposed in ({"a": 0.3}, {"rare": 0.0}, Near(ratio=3), Near("observed", chi2=1)):
        credal = shift.predict(z[:4], frequencies=supposed)
        assert np.array_equal(credal.upper[:, 2], np.zeros(4))


def test_a_frequency_of_zero_is_a_supposition_like_others(three):
    z = [[0.0, 0.0, 5.0], [-np.inf, -np.inf, 0.0]]
    credal = three.predict(z, frequencies={"c": 0.0})
    assert credal.upper[0, 2] == 0
    # Nothing else is possible for the second input: the supposition contradicts the model.
    assert np.all((credal.lower[1] <= credal.point[1]) & (credal.point[1] <= credal.upper[1]))
    assert credal.point.sum(axis=1) == pytest.approx([1, 1])


def test_near_the_observed_or_before_or_others(three):
    z = np.array([[1.0, 0.5, 0.0]])
    shift = copied(three).observe(np.eye(3)[[0, 1, 1, 2, 2, 2]])
    for center in ("before", "observed", [0.2, 0.2, 0.6]):
        exact = shift.predict(z, frequencies=Near(center, kl=0))
        for size in ({"kl": 0.05}, {"chi2": 0.1}, {"ratio": 1.3}):
            sets = shift.predict(z, frequencies=Near(center, **size))
            assert np.array_equal(sets.point, exact.point)
            assert np.all((sets.lower < exact.lower) & (sets.upper > exact.upper))
    assert shift.predict(z, frequencies=Near("observed", kl=0)).point == pytest.approx(
        shift.point(z)
    )
    with pytest.raises(decal.NotFittedError, match="must have observed"):
        three.predict(z, frequencies=Near("observed", kl=0.1))
    with pytest.raises(ValueError, match="center must have one number per class, 3: got 2"):
        three.predict(z, frequencies=Near([0.5, 0.5], kl=0.1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.observe([[np.nan, 0.0, 0.0]]), "logits must .* got nan"),
        (lambda s: s.observe([[0.0, 0.0]]), "logits must have 3 columns"),
        (lambda s: s.observe(np.empty((0, 3))), "logits must have at least one row"),
        (lambda s: s.observe([[0, 0, 0.0]], sample_weight=[-1.0]), "sample_weight must"),
        (lambda s: s.predict([[0.0, 0.0]]), "logits must have 3 columns"),
        (lambda s: s.merge(decal), "other must be a LabelShift"),
        (lambda s: s.merge(other_model()), "other must be fitted on the same data"),
        (lambda s: s.bootstrapped(20), "labelled must be given to bootstrapped"),
        (lambda s: s.bootstrapped(20, labelled=[[0.0]]), "labelled must be \\(logits, labels\\)"),
        (
            lambda s: s.bootstrapped(20, labelled=([[1, 0, 0], [0, 1, 0.0]], [0, 1])),
            "labelled must be the 500 examples that this was fitted on: got 2",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_lost(three, call, message):
    shift = copied(three).observe(np.eye(3))
    with pytest.raises(ValueError, match=message):
        call(shift)
    assert shift.frequencies.inputs == 3


def other_model():
    return decal.LabelShift(calibrate=False).fit(np.eye(3), [0, 1, 2]).observe(np.eye(3))


def test_logits_that_cannot_be_calibrated_are_refused_in_words_of_label_shift():
    with pytest.raises(ValueError, match=r"perfectly predictable for calibrate=True.*=False"):
        decal.LabelShift().fit([[5.0, 0], [4, 0], [0, 5], [0, 3]], [0, 0, 1, 1])


def test_threads_lose_nothing(three):
    shift = copied(three)
    rng = np.random.default_rng(5)
    z = draw(400, [0.2, 0.3, 0.5], rng)[0]
    failures = []

    def work(part):
        try:
            for row in np.array_split(z[part::4], 10):
                shift.observe(row)
                assert shift.point(row).shape == row.shape
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert shift.frequencies.inputs == 400
    whole = copied(three).observe(z)
    assert shift.frequencies.estimate == pytest.approx(whole.frequencies.estimate, abs=1e-8)


def test_many_small_pieces_are_kept_in_few(three):
    shift = copied(three)
    for row in np.eye(3)[np.arange(300) % 3]:
        shift.observe(row[None])
    assert len(shift._fitted.pending) < 12
    assert "300 unlabelled inputs observed" in repr(shift)
    with pytest.warns(decal.AnswerWarning, match="may be anything"):  # three kinds, all alike
        assert shift.frequencies.inputs == 300


def test_results_are_frames_and_read_well_in_notebooks(three):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    shift = copied(three).observe(np.eye(3)[[0, 1, 1, 2, 2, 2]])
    found, test = shift.frequencies, shift.test()
    frame = found.to_pandas()
    assert list(frame.columns) == ["before", "estimate", "lower", "upper"]
    assert frame.loc["b", "upper"] == found.upper[1]
    assert isinstance(test.to_pandas(), pandas.DataFrame)
    assert found.to_polars()["class"].to_list() == ["a", "b", "c"]
    assert isinstance(test.to_polars(), polars.DataFrame)
    assert test.to_polars()["p_value"].to_list() == pytest.approx(test.p_values.tolist())
    page = found._repr_html_()
    assert page.count("<table") == 1
    assert f"{found.lower[0]:.3f} to {found.upper[0]:.3f}" in page
    assert f"{test.p_value:.3g}" in repr(test)
    nasty = decal.LabelShift(calibrate=False).fit(
        [[2.0, 0], [0, 2]], [0, 1], classes=["<script>", "b" * 99]
    )
    nasty.observe([[1.0, 0.0]])
    assert "<script>" not in nasty.frequencies._repr_html_()
    assert max(map(len, repr(nasty.frequencies).splitlines())) < 90


def test_a_p_value_without_digits_is_not_zero(three):
    test = copied(three).observe([[0.0, 0.0, 9.0]], sample_weight=[1e4]).test()
    assert test.p_value == 0
    assert repr(test).startswith("ShiftTest: p-value below 1e-300, statistic")


def test_frames_keep_their_names(three):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    shift = copied(three).observe(np.eye(3))
    frame = pandas.DataFrame(np.eye(3)[:, ::-1], columns=["c", "b", "a"], index=["x", "y", "z"])
    assert shift.predict(frame).to_pandas().index[0] == ("x", "a")
    named = shift.predict(frame.assign(who=["p", "q", "r"]), ids="who")
    assert named.to_pandas().index[0] == ("p", "a")
    assert shift.point(frame) == pytest.approx(shift.predict(np.eye(3)).point)
