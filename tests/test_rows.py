"""Rows: what belongs together stays together."""

import warnings

import numpy as np
import pytest

import decal
from decal.rows import Rows, require_possible
from decal.schema import Schema

Z = np.arange(12.0).reshape(4, 3)
Y = np.array([0, 2, 1, 2])


def table(**columns):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": Z[:, 0], "b": Z[:, 1], "c": Z[:, 2]} | columns)


def test_an_array_is_not_copied():
    rows = Rows.read(Z, Y)
    assert np.shares_memory(rows.logits, Z)
    assert rows.shape == (4, 3)
    assert len(rows) == 4


def test_columns_of_a_frame_are_found_by_name_whatever_their_order():
    frame = table(label=["a", "c", "b", "c"], weight=[1, 0, 2, 1])
    rows = Rows.read(frame[["weight", "c", "label", "a", "b"]], "label", sample_weight="weight")
    assert rows.classes == ("c", "a", "b")
    again = Rows.read(frame, "label", sample_weight="weight", classes=["c", "a", "b"])
    for one in (rows, again):
        assert np.array_equal(one.logits, Z[:, [2, 0, 1]])
        assert np.array_equal(one.labels, [1, 0, 2, 0])
        assert np.array_equal(one.weights, [1, 0, 2, 1])


def test_names_of_inputs_come_from_columns_values_or_the_index():
    frame = table(patient=["p", "q", "r", "s"])
    schema = Schema(3, ("a", "b", "c"))
    assert Rows.read(frame, ids="patient", schema=schema).ids["patient"].tolist() == list("pqrs")
    indexed = frame.set_index("patient")
    assert Rows.read(indexed, schema=schema).ids["patient"].tolist() == list("pqrs")
    assert Rows.read(Z, ids=list("pqrs")).ids["row"].tolist() == list("pqrs")


@pytest.mark.parametrize("some", [slice(1, 3), [2, 0], np.array([True, False, False, True])])
def test_picked_rows_take_all_that_belongs_to_them(some):
    rows = Rows(Z, Y, np.array([1.0, 2, 3, 4]), ("a", "b", "c"), {"id": np.arange(4)}, Z / 10)
    part = rows[some]
    assert np.array_equal(part.logits, Z[some])
    assert np.array_equal(part.labels, Y[some])
    assert np.array_equal(part.weights, rows.weights[some])
    assert np.array_equal(part.ids["id"], np.arange(4)[some])
    assert np.array_equal(part.truth, Z[some] / 10)
    assert part.classes == rows.classes


def test_parts_join_to_the_whole():
    rows = Rows(Z, Y, np.ones(4), ("a", "b", "c"), {"id": np.arange(4)})
    whole = Rows.join([rows[:1], rows[1:3], rows[3:]])
    for name in ("logits", "labels", "weights"):
        assert np.array_equal(getattr(whole, name), getattr(rows, name))
    assert np.array_equal(whole.ids["id"], np.arange(4))
    assert whole.truth is None


def test_rows_of_weight_zero_do_not_count():
    rows = Rows.read(Z, Y, sample_weight=[1, 0, 0, 2])
    assert np.array_equal(rows.counted().labels, [0, 2])
    assert Rows.read(Z, Y).counted().weights is None


def test_a_schema_says_what_is_let_in():
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    rows = Rows.read(p, Y, schema=Schema(probabilities=True))
    np.testing.assert_allclose(np.exp(rows.logits), p)
    with pytest.raises(ValueError, match="logits must have 4 columns"):
        Rows.read(Z, schema=Schema(width=4))
    masked = np.where(Z == 4, -np.inf, Z)
    assert np.isneginf(Rows.read(masked).logits[1, 1])
    with pytest.raises(ValueError, match="logits must be finite"):
        Rows.read(masked, schema=Schema(masks=False))
    with pytest.raises(ValueError, match="logits must have at least one row"):
        Rows.read(Z[:0])
    assert len(Rows.read(Z[:0], empty=True)) == 0


def test_labels_that_the_model_calls_impossible_are_refused():
    masked = np.where(Z == 5, -np.inf, Z)
    with pytest.raises(ValueError, match=r"not masked: got 2, whose logit is -inf, at index 1"):
        require_possible(Rows.read(masked, Y), Schema())
    p = np.array([[1.0, 0.0], [0.5, 0.5]])
    schema = Schema(probabilities=True)
    with pytest.raises(ValueError, match="positive probability: got 1, of probability 0, at ind"):
        require_possible(Rows.read(p, [1, 0], schema=schema), schema)


# What a Hugging Face pipeline returns


def as_pipeline(p, names):
    """For every row, its labels and scores, the most probable first."""
    rows = [sorted(zip(row, names, strict=True), reverse=True) for row in p.tolist()]
    return [[{"label": name, "score": score} for score, name in row] for row in rows]


def test_scores_of_a_pipeline_go_by_their_names():
    rng = np.random.default_rng(0)
    p, names = rng.dirichlet(np.ones(3), 200), ["cat", "ant", "bee"]
    y = np.array([rng.choice(3, p=row) for row in p])
    labels = [names[k] for k in y]
    d = decal.decalibrate(as_pipeline(p, names), labels, miss=0.1, probabilities=True)
    assert d.classes == ("ant", "bee", "cat")
    given = {"miss": 0.1, "probabilities": True, "classes": names}
    named = decal.decalibrate(as_pipeline(p, names), labels, **given)
    expected = decal.decalibrate(p, y, **given)
    assert named.promise == expected.promise
    assert np.array_equal(named.predict(as_pipeline(p, names)).upper, expected.predict(p).upper)
    with pytest.raises(ValueError, match="score for each of the 3 .*got no bee, in row 1.*top_k"):
        d.predict([as_pipeline(p, names)[0], as_pipeline(p[:1, :2], names[:2])[0]])
    for one in (as_pipeline(p, names)[0], [scores[0] for scores in as_pipeline(p, names)]):
        with pytest.raises(ValueError, match="logits must have all scores .*one text goes in a l"):
            d.predict(one)
    with pytest.warns(decal.InputWarning, match="must not be probabilities"):
        decal.Decalibrator().fit(as_pipeline(p, names), labels)


def test_a_real_pipeline_is_read():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    small = {"image_size": 8, "patch_size": 4, "hidden_size": 16, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2, "intermediate_size": 16, "num_labels": 3}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**small))
    image = pytest.importorskip("PIL.Image")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = transformers.ViTImageProcessor(size={"height": 8, "width": 8})
        pipe = transformers.pipeline(
            "image-classification", model=model, image_processor=reader, device="cpu"
        )
        pictures = [image.new("RGB", (8, 8), (k, 99, 255 - k)) for k in range(0, 250, 10)]
        found = pipe(pictures, top_k=None)
    y = np.arange(25) % 3
    d = decal.Decalibrator(0.9, probabilities=True).fit(found, [f"LABEL_{k}" for k in y])
    assert d.classes == ("LABEL_0", "LABEL_1", "LABEL_2")
    scores = {each["label"]: each["score"] for each in found[7]}
    rows = d.read(found).logits
    np.testing.assert_allclose(np.exp(rows[7]), [scores[name] for name in d.classes], atol=1e-9)
