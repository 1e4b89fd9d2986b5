"""Zero-shot classifiers: tiny CLIP, SigLIP and SigLIP-2, built and saved here, loaded as users do.

The oracle is the library itself: its model called on texts and images together.
"""

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("PIL")

from PIL import Image  # noqa: E402
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402

from decal.zeroshot import (  # noqa: E402
    TEMPLATES,
    OpenClipEncoder,
    TransformersEncoder,
    ZeroShotClassifier,
)
from decal.zeroshot._pretrained import NEW_TRANSFORMERS  # noqa: E402

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

LABELS = ("cat", "dog", "bird", "truck")
ENGLISH = "This is a photo of a {}"
TWO = ("This is a photo of a {}", "a {} is in this photo")
KINDS = ("clip", "siglip", "siglip2_fixed", "siglip2")  # SigLIP-2 of fixed size is a SigLIP
if not NEW_TRANSFORMERS:
    KINDS = KINDS[:3]  # see test_siglip2_of_any_size_needs_transformers_5
CAPS = {"clip": 48, "siglip": 16, "siglip2_fixed": 64, "siglip2": 64}
TOWER = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


# Tiny models


def clip_tokenizer():
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*letters, *(c + "</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    vocab = {p: k for k, p in enumerate(pieces)}
    if NEW_TRANSFORMERS:
        return transformers.CLIPTokenizer(vocab=vocab, merges=[])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vocab.json").write_text(json.dumps(vocab))
        Path(folder, "merges.txt").write_text("#version: 0.2\n")
        return transformers.CLIPTokenizerFast(f"{folder}/vocab.json", f"{folder}/merges.txt")


def pillow_processor(name):
    """The class of image processors that work with Pillow: the only one of transformers 4."""
    kind = f"{name}ImageProcessorPil" if NEW_TRANSFORMERS else f"{name}ImageProcessor"
    return getattr(transformers, kind)


def siglip_tokenizer():
    """As that of SigLIP: lower case, ends with </s>, which is also the padding; no mask."""
    words = ["<unk>", "</s>", "this", "is", "a", "photo", "of", "in", *LABELS]
    tokens = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, unk_token="<unk>"))
    tokens.normalizer = normalizers.Lowercase()
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        eos_token="</s>",
        pad_token="</s>",
        unk_token="<unk>",
        model_input_names=["input_ids"],
    )


def siglip2_tokenizer(name):
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *"abcdefghijklmnopqrstuvwxyz▁"]
    vocab = {p: k for k, p in enumerate(pieces)}
    options = {"padding_side": "right", "model_input_names": ["input_ids"]}
    if NEW_TRANSFORMERS:
        return getattr(transformers, name)(vocab=vocab, merges=[], **options)
    letters = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", fuse_unk=True))
    letters.normalizer = normalizers.Replace(" ", "▁")
    return getattr(transformers, f"{name}Fast")(tokenizer_object=letters, **options)


class Parts:
    """A processor to save. That of transformers 4 takes one class of tokenizers: save its parts."""

    def __init__(self, kind, images, tokenizer):
        self.parts = [kind(images, tokenizer)] if NEW_TRANSFORMERS else [images, tokenizer]

    def save_pretrained(self, folder):
        for part in self.parts:
            part.save_pretrained(folder)


def build(kind, tokenizer=None):
    """A model with random weights, its tokenizer, and its image processor (Pillow's)."""
    torch.manual_seed(0)
    text = TOWER | {"max_position_embeddings": CAPS[kind]}
    if kind == "clip":
        tokenizer = clip_tokenizer()
        end = tokenizer.eos_token_id
        text |= {"eos_token_id": end, "bos_token_id": end - 1, "pad_token_id": end}
        images = pillow_processor("CLIP")(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        )
        vision = TOWER | {"image_size": 32, "patch_size": 8}
        made = transformers.CLIPConfig, transformers.CLIPModel, transformers.CLIPProcessor
        extra = {"projection_dim": 24}
    elif kind in ("siglip", "siglip2_fixed"):
        if tokenizer is None:
            fixed = kind == "siglip2_fixed"
            tokenizer = siglip2_tokenizer("GemmaTokenizer") if fixed else siglip_tokenizer()
        end = tokenizer.eos_token_id
        text |= {"eos_token_id": end, "bos_token_id": end, "pad_token_id": tokenizer.pad_token_id}
        images = pillow_processor("Siglip")(size={"height": 32, "width": 32})
        vision = TOWER | {"image_size": 32, "patch_size": 8}
        made = transformers.SiglipConfig, transformers.SiglipModel, transformers.SiglipProcessor
        extra = {}
    else:
        tokenizer = siglip2_tokenizer("Siglip2Tokenizer")
        text |= {"eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0}
        images = pillow_processor("Siglip2")(patch_size=8, max_num_patches=16)
        vision = TOWER | {"num_patches": 16, "patch_size": 8}
        made = transformers.Siglip2Config, transformers.Siglip2Model, transformers.Siglip2Processor
        extra = {}
    config_class, model_class, processor_class = made
    text["vocab_size"] = len(tokenizer)
    model = model_class(config_class(text_config=text, vision_config=vision, **extra)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # weights large enough for texts to differ
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
        model.logit_scale.fill_(2.5)
        if kind != "clip":
            model.logit_bias.fill_(-7.0)
    return model, tokenizer, images, Parts(processor_class, images, tokenizer)


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    """A folder as `save_pretrained` writes it, and what was saved into it."""
    folder = tmp_path_factory.mktemp(request.param)
    model, tokenizer, images, processor = build(request.param)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return SimpleNamespace(
        kind=request.param, folder=folder, model=model, tokenizer=tokenizer, images=images
    )


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a_clip")
    model, _, _, processor = build("clip")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def pictures():
    """Seven images of several sizes."""
    rng = np.random.default_rng(0)
    sizes = [(32, 32), (20, 40), (64, 48), (33, 31), (90, 30), (32, 32), (50, 50)]
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in sizes]


def load(saved, labels=LABELS, **options):
    return ZeroShotClassifier.from_pretrained(saved.folder, labels, device="cpu", **options)


def outputs(saved, texts, images):
    """The library's own answer to texts and images together, padded as the model was trained."""
    padding = {"padding": True}
    if saved.kind != "clip":
        padding = {"padding": "max_length", "max_length": CAPS[saved.kind]}
    tokens = saved.tokenizer(list(texts), return_tensors="pt", **padding)
    with torch.no_grad():
        return saved.model(**tokens, **saved.images(images=images, return_tensors="pt"))


def named(template, labels=LABELS):
    return [template.format(label) for label in labels]


# Numbers


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_logits_are_those_of_the_library(saved, pictures, batch_size):
    logits = load(saved).logits(pictures, batch_size=batch_size)
    expected = outputs(saved, named(ENGLISH), pictures).logits_per_image.numpy()
    assert logits.shape == (7, 4)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert np.ptp(expected, axis=1).min() > 0.01  # or else the comparison would say little


def test_embeddings_are_those_of_the_library(saved, pictures):
    classifier = load(saved)
    embeddings = classifier.embeddings(pictures, batch_size=2)
    expected = outputs(saved, named(ENGLISH), pictures).image_embeds.numpy()
    np.testing.assert_allclose(embeddings, expected, atol=1e-6)
    np.testing.assert_allclose(
        classifier.logits_from_embeddings(embeddings), classifier.logits(pictures), atol=1e-5
    )


def test_several_templates_average_unit_vectors(saved, pictures):
    logits = load(saved, templates=TWO).logits(pictures)
    images = outputs(saved, named(TWO[0]), pictures).image_embeds
    expected = np.empty((len(pictures), len(LABELS)))
    for k, label in enumerate(LABELS):
        total = torch.zeros(images.shape[1])
        for template in TWO:
            vector = outputs(saved, [template.format(label)], pictures[:1]).text_embeds[0]
            total += vector / vector.norm()
        mean = total / len(TWO)
        for n in range(len(pictures)):
            cosine = images[n] @ mean / (images[n].norm() * mean.norm())
            expected[n, k] = saved.model.logit_scale.detach().exp() * cosine
            if saved.kind != "clip":
                expected[n, k] += saved.model.logit_bias.detach().item()
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_the_spread_of_templates_and_languages_is_their_hull(saved, pictures):
    several = load(saved, templates=TWO)
    other = several.replace(dict(zip(several.classes, LABELS[::-1], strict=True)))
    hull = several.spread(pictures, others=[other], batch_size=3)
    assert hull.vertices.shape == (len(pictures), 4, len(LABELS))
    assert hull.classes == several.classes
    for m, template in enumerate(TWO):
        alone = load(saved, templates=template).probabilities(pictures)
        np.testing.assert_allclose(hull.vertices[:, m], alone, atol=1e-5)
        np.testing.assert_allclose(hull.vertices[:, 2 + m], alone[:, ::-1], atol=1e-5)
    with pytest.raises(ValueError, match="others must be this model for the classes"):
        several.spread(pictures, others=[load(saved)])
    with pytest.raises(ValueError, match="others must be this model for the classes"):
        several.spread(pictures, others=[several.subset(LABELS[:2])])


def test_probabilities_are_a_softmax_over_labels_which_ignores_the_bias(saved, pictures):
    expected = outputs(saved, named(ENGLISH), pictures).logits_per_image
    found = load(saved).probabilities(pictures)
    np.testing.assert_allclose(found, torch.softmax(expected, dim=1), atol=1e-6)
    np.testing.assert_allclose(found, torch.softmax(expected + 7.0, dim=1), atol=1e-6)


def test_images_and_arrays_give_the_same_credal_sets(saved, pictures):
    classifier = load(saved)
    images, labels = pictures * 3, np.arange(21) % 4
    fitted = classifier.decalibrate(images, labels, alpha=0.9, batch_size=5)
    arrays = decal.decalibrate(classifier.logits(images), labels, alpha=0.9)
    np.testing.assert_allclose(fitted.shifts().lower, arrays.shifts().lower, atol=1e-6)
    credal = classifier.predict_credal(fitted, pictures, batch_size=2)
    expected = arrays.predict(classifier.logits(pictures))
    np.testing.assert_allclose(credal.lower, expected.lower, atol=1e-6)
    np.testing.assert_allclose(credal.upper, expected.upper, atol=1e-6)
    np.testing.assert_allclose(credal.point, classifier.probabilities(pictures), atol=1e-6)
    assert credal.classes == LABELS
    names = [LABELS[k] for k in labels]
    by_name = classifier.decalibrate(images, names, alpha=0.9)
    np.testing.assert_allclose(by_name.shifts().lower, fitted.shifts().lower, atol=1e-6)


def test_images_grant_wishes(saved, pictures):
    classifier = load(saved)
    images, labels = pictures * 9, np.arange(63) % 4
    d = classifier.decalibrate(images, labels, miss=0.2)
    assert d.promise.rows == 63
    expected = decal.decalibrate(classifier.logits(images), labels, miss=0.2, classes=LABELS)
    assert d.alpha == pytest.approx(expected.alpha)
    kept = classifier.predict_credal(d, images).possible()
    assert np.mean([LABELS[y] not in k for y, k in zip(labels, kept, strict=True)]) <= 0.2


def test_a_class_unseen_in_calibration_has_no_lower_end(clip_folder, pictures):
    classifier = ZeroShotClassifier.from_pretrained(clip_folder, LABELS)
    d = classifier.decalibrate(
        pictures, ["cat", "dog", "bird", "cat", "dog", "bird", "cat"], alpha=0.9
    )
    assert np.isneginf(d.shifts().lower[3])
    assert (classifier.predict_credal(d, pictures).lower[:, 3] == 0).all()


# Heads


def test_the_head_is_read_from_the_model(saved):
    assert load(saved).head == ("softmax" if saved.kind == "clip" else "sigmoid")


def test_nobody_can_say_which_head_a_model_has(saved):
    with pytest.raises(TypeError):
        TransformersEncoder(saved.model, saved.tokenizer, saved.images, head="softmax")
    other = "siglip" if saved.kind == "clip" else "clip"
    pretender = SimpleNamespace(
        config=SimpleNamespace(model_type=other, text_config=saved.model.config.text_config),
        logit_scale=saved.model.logit_scale,
    )
    if saved.kind != "clip":
        pretender.logit_bias = saved.model.logit_bias
    with pytest.raises(ValueError, match="logit_bias if and only if its head is a sigmoid"):
        TransformersEncoder(pretender, saved.tokenizer, saved.images)


@pytest.mark.parametrize("claimed", [kind for kind in ("siglip", "siglip2") if kind in KINDS])
def test_a_clip_whose_config_claims_to_be_a_siglip_is_refused(clip_folder, tmp_path, claimed):
    folder = shutil.copytree(clip_folder, tmp_path / "liar")
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = claimed
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="weights"):
        ZeroShotClassifier.from_pretrained(folder, LABELS)


def test_a_model_in_memory_is_put_into_evaluation_mode(saved, pictures):
    model, tokenizer, images, _ = build(saved.kind)
    classifier = ZeroShotClassifier(TransformersEncoder(model.train(), tokenizer, images), LABELS)
    assert not any(module.training for module in model.modules())
    expected = load(saved).logits(pictures)
    np.testing.assert_allclose(classifier.logits(pictures), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (
            torch.nn.Linear(2, 2),
            r"got a Linear without head. Pass TransformersEncoder\(model, tokenizer, image_proc",
        ),
        ("openai/clip", "got a str without head. Load a model with .*from_pretrained"),
    ],
)
def test_what_is_no_encoder_is_refused_with_what_makes_one(encoder, message):
    with pytest.raises(TypeError, match=f"encoder must have head, scale, bias.*{message}"):
        ZeroShotClassifier(encoder, LABELS)


def test_siglip2_of_any_size_needs_transformers_5(tmp_path, monkeypatch):
    if not hasattr(transformers, "Siglip2Config"):
        pytest.skip("this transformers does not know SigLIP-2")
    transformers.Siglip2Config().save_pretrained(tmp_path)
    monkeypatch.setattr("decal.zeroshot._encoders.NEW_TRANSFORMERS", False)
    with pytest.raises(ImportError, match=r"needs transformers 5, .*: got \d+\."):
        ZeroShotClassifier.from_pretrained(tmp_path, LABELS)


def test_siglip_without_its_bias_is_refused(tmp_path):
    model, _, _, processor = build("siglip")
    weights = {k: v for k, v in model.state_dict().items() if k != "logit_bias"}
    model.save_pretrained(tmp_path, state_dict=weights)
    processor.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"all weights of a SiglipModel.*without logit_bias"):
        ZeroShotClassifier.from_pretrained(tmp_path, LABELS)


def test_other_kinds_of_models_are_refused_before_their_weights_are_loaded(tmp_path):
    transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"one of clip, siglip, siglip2: got 'bert'"):
        ZeroShotClassifier.from_pretrained(tmp_path, LABELS)


# Texts


def test_siglip_texts_are_padded_to_the_full_length(saved, monkeypatch):
    seen = []
    tower = type(saved.model).get_text_features

    def spy(self, **inputs):
        seen.append(inputs["input_ids"].shape)
        return tower(self, **inputs)

    monkeypatch.setattr(type(saved.model), "get_text_features", spy)
    load(saved)
    assert (seen[0][1] == CAPS[saved.kind]) == (saved.kind != "clip")


def test_padding_matters_to_siglip_and_not_to_clip(saved, pictures):
    tokens = saved.tokenizer(named(ENGLISH), return_tensors="pt", padding=True)
    pixels = saved.images(images=pictures, return_tensors="pt")
    with torch.no_grad():
        short = saved.model(**tokens, **pixels).logits_per_image.numpy()
    same = np.allclose(load(saved).logits(pictures), short, atol=1e-4)
    assert same == (saved.kind == "clip")


class Counted:
    """An encoder that keeps a list of the texts it was asked for."""

    def __init__(self, saved):
        self.inner = TransformersEncoder(saved.model, saved.tokenizer, saved.images)
        self.head, self.scale, self.bias = self.inner.head, self.inner.scale, self.inner.bias
        self.texts = []

    def encode_texts(self, texts):
        self.texts += texts
        return self.inner.encode_texts(texts)

    def encode_images(self, images):
        return self.inner.encode_images(images)


def test_every_text_is_encoded_once(saved, pictures):
    encoder = Counted(saved)
    classifier = ZeroShotClassifier(encoder, LABELS, templates=TWO)
    assert sorted(encoder.texts) == sorted(t.format(c) for t in TWO for c in LABELS)
    classifier.logits(pictures)
    classifier.logits(pictures)
    part = classifier.subset(["bird", "cat"])
    one = part.replace(templates=TWO[1])
    assert len(encoder.texts) == 8
    one.replace(["bird", "frog"])
    assert encoder.texts[8:] == ["a frog is in this photo"]
    assert one.templates == (TWO[1],)
    assert classifier.classes == LABELS


def test_a_subset_equals_encoding_its_labels_anew(saved, pictures):
    classifier = load(saved, templates=TWO)
    part = classifier.subset(["truck", "cat"])
    anew = load(saved, ["truck", "cat"], templates=TWO)
    assert part.classes == ("truck", "cat")
    np.testing.assert_allclose(part.logits(pictures), anew.logits(pictures), atol=1e-5)
    np.testing.assert_allclose(
        part.logits(pictures), classifier.logits(pictures)[:, [3, 0]], atol=1e-6
    )


def test_the_languages_of_the_paper_are_shortcuts(clip_folder):
    for language in ("en", "fr", "zh", "sw"):
        made = ZeroShotClassifier.from_pretrained(clip_folder, LABELS, templates=language)
        assert made.templates == (TEMPLATES[language],)
    default = ZeroShotClassifier.from_pretrained(clip_folder, LABELS)
    assert default.templates == ("This is a photo of a {}",)
    assert repr(default) == (
        "ZeroShotClassifier(4 classes, templates=['This is a photo of a {}'], head='softmax')"
    )


def test_classes_may_share_a_word(clip_folder, pictures):
    words = {"airplane": "ndege", "automobile": "gari", "bird": "ndege"}
    classifier = ZeroShotClassifier.from_pretrained(clip_folder, words, templates="sw")
    assert classifier.classes == ("airplane", "automobile", "bird")
    logits = classifier.logits(pictures)
    np.testing.assert_array_equal(logits[:, 0], logits[:, 2])
    assert (logits[:, 0] != logits[:, 1]).all()
    assert classifier.subset(["bird", "automobile"]).classes == ("bird", "automobile")


def test_words_with_braces_stay_what_they_are(clip_folder):
    encoder = ZeroShotClassifier.from_pretrained(clip_folder, ["a{}b", "{x}"])
    assert encoder.classes == ("a{}b", "{x}")


# Images


def test_paths_arrays_and_images_give_the_same_numbers(saved, pictures, tmp_path):
    classifier = load(saved)
    expected = classifier.logits(pictures)
    paths = [tmp_path / f"{n}.png" for n in range(len(pictures))]
    for image, path in zip(pictures, paths, strict=True):
        image.save(path)
    arrays = [np.asarray(image) for image in pictures]
    for given in (paths, [str(p) for p in paths], arrays, iter(pictures), tuple(pictures)):
        np.testing.assert_allclose(classifier.logits(given), expected, atol=1e-6)
    same_size = np.stack([arrays[0], arrays[5]])
    np.testing.assert_allclose(classifier.logits(same_size), expected[[0, 5]], atol=1e-5)


def test_images_of_other_modes_are_seen_as_rgb(saved, pictures):
    classifier = load(saved)
    grey = pictures[0].convert("L")
    variants = [grey.convert("RGB"), grey, np.asarray(grey), np.asarray(grey)[:, :, None]]
    variants.append(grey.convert("RGBA"))
    logits = classifier.logits(variants)
    np.testing.assert_allclose(logits, np.tile(logits[0], (5, 1)), atol=1e-5)


def test_photographs_are_turned_upright(clip_folder, pictures, tmp_path):
    classifier = ZeroShotClassifier.from_pretrained(clip_folder, LABELS)
    exif = Image.Exif()
    exif[274] = 6  # the camera was turned: show rotated by 270 degrees
    pictures[1].save(tmp_path / "turned.png", exif=exif)
    upright = pictures[1].rotate(270, expand=True)
    np.testing.assert_allclose(
        classifier.logits([tmp_path / "turned.png"]), classifier.logits([upright]), atol=1e-6
    )


def test_images_are_prepared_by_pillow_even_where_torchvision_is(saved, monkeypatch):
    asked = []
    auto = transformers.AutoProcessor if NEW_TRANSFORMERS else transformers.AutoImageProcessor
    load_processor = auto.from_pretrained

    def spy(name, **options):
        asked.append(options)
        return load_processor(name, **options)

    monkeypatch.setattr(auto, "from_pretrained", spy)
    encoder = load(saved)._encoder
    assert asked == [{"backend": "pil"} if NEW_TRANSFORMERS else {"use_fast": False}]
    assert type(encoder._images) is type(saved.images)


def test_a_progress_bar_is_shown_only_if_asked_for(clip_folder, pictures, capsys):
    classifier = ZeroShotClassifier.from_pretrained(clip_folder, LABELS)
    capsys.readouterr()
    classifier.logits(pictures, batch_size=2)
    assert capsys.readouterr().err == ""
    classifier.logits(pictures, batch_size=2, progress=True)
    assert "7/7" in capsys.readouterr().err


# What is refused


@pytest.fixture(scope="module")
def classifier(clip_folder):
    return ZeroShotClassifier.from_pretrained(clip_folder, LABELS, device="cpu")


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "images must hold at least one image"),
        ("cat.png", "images must be a list of images: got one image"),
        (Image.new("RGB", (8, 8)), "images must be a list of images: got one image"),
        (np.zeros((8, 8, 3), np.uint8), r"list of images .*: got shape \(8, 8, 3\)"),
        ([np.zeros((8, 8, 3))], r"uint8 arrays .*: got float64 of shape \(8, 8, 3\) at index 0"),
        ([np.zeros((3, 8, 8), np.uint8)], r"got uint8 of shape \(3, 8, 8\) at index 0"),
        ([Image.new("RGB", (8, 8)), 7], "Pillow images, paths, .*: got int at index 1"),
        ([Image.new("F", (8, 8))], "eight bits per channel: got mode 'F' at index 0"),
        ([Image.new("I;16", (8, 8))], "eight bits per channel: got mode 'I;16' at index 0"),
    ],
)
def test_what_is_no_list_of_images_is_refused(classifier, images, message):
    with pytest.raises(ValueError, match=message):
        classifier.logits(images)


def test_files_that_are_no_images_are_named(classifier, pictures, tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"files that exist: got '.*nothing.png' at index 1"
    ):
        classifier.logits([pictures[0], tmp_path / "nothing.png"], batch_size=1)
    (tmp_path / "notes.png").write_text("not an image")
    with pytest.raises(ValueError, match=r"files of images: got '.*notes.png' at index 0"):
        classifier.logits([tmp_path / "notes.png"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("cat", "labels must be a list of words: got 'cat'"),
        (["cat"], "labels must be two or more: got 1"),
        (["cat", "cat"], "labels must be distinct: got 'cat' more than once"),
        (["cat", 3], "labels must be words: got 3 at index 1"),
        (["cat", " "], "labels must be words: got ' ' at index 1"),
        (
            ["ndege", "gari", "ndege"],
            "distinct: got 'ndege' more than once. For classes that share",
        ),
    ],
)
def test_labels_that_are_no_words_are_refused(classifier, labels, message):
    with pytest.raises(ValueError, match=message):
        classifier.replace(labels)


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        ("a photo", r"hold \{\} once, where the label goes: got 'a photo'"),
        ("{} and {}", r"hold \{\} once"),
        ("de", r"got 'de'. The paper's templates go by 'en', 'fr', 'zh', 'sw'"),
        ([], "templates must be one text or more"),
    ],
)
def test_templates_without_a_place_for_the_label_are_refused(classifier, templates, message):
    with pytest.raises(ValueError, match=message):
        classifier.replace(templates=templates)


def test_texts_too_long_for_the_model_are_refused(saved):
    long = " ".join(["dog"] * 70)
    with pytest.raises(ValueError, match=rf"at most {CAPS[saved.kind]} tokens: got \d+ for 'This"):
        load(saved, ["cat", long])


def test_subsets_of_other_labels_are_refused(classifier):
    with pytest.raises(ValueError, match="among cat, dog, bird, truck: got 'frog' at index 1"):
        classifier.subset(["cat", "frog"])
    with pytest.raises(ValueError, match="distinct"):
        classifier.subset(["cat", "cat"])


def test_what_belongs_to_other_classes_or_models_is_refused(classifier, pictures):
    d = classifier.decalibrate(pictures, [0, 1, 2, 3, 0, 1, 2], alpha=0.9)
    with pytest.raises(ValueError, match=r"fitted on the classes \('dog', 'cat'\)"):
        classifier.subset(["dog", "cat"]).predict_credal(d, pictures)
    with pytest.raises(ValueError, match="embeddings must have 24 columns"):
        classifier.logits_from_embeddings(np.ones((2, 5)))
    with pytest.raises(ValueError, match="one of the classes cat, .* got 'frog' at index 6"):
        classifier.decalibrate(pictures, ["cat"] * 6 + ["frog"], alpha=0.9)


# Loading


def test_the_older_layout_of_the_hub_loads_too(clip_folder, pictures, tmp_path):
    """As openai/clip-vit-base-patch32 is laid out: sizes are numbers, the vocabulary is apart."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(clip_folder / name, tmp_path / name)
    tokenizer = json.loads((clip_folder / "tokenizer.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(tokenizer["model"]["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": 77})
    )
    settings = pillow_processor("CLIP")()
    images = {
        "feature_extractor_type": "CLIPFeatureExtractor",
        "size": 32,
        "crop_size": 32,
        "do_resize": True,
        "do_center_crop": True,
        "do_normalize": True,
        "resample": 3,
        "image_mean": settings.image_mean,
        "image_std": settings.image_std,
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(images))
    old = ZeroShotClassifier.from_pretrained(tmp_path, LABELS, device="cpu")
    new = ZeroShotClassifier.from_pretrained(clip_folder, LABELS, device="cpu")
    np.testing.assert_allclose(old.logits(pictures), new.logits(pictures), atol=1e-5)


def test_half_precision_weights_are_computed_in_single_precision(tmp_path, pictures):
    model, _, _, processor = build("clip")
    model.half().save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    classifier = ZeroShotClassifier.from_pretrained(tmp_path, LABELS, device="cpu")
    assert next(classifier._encoder._model.parameters()).dtype == torch.float32
    assert classifier.logits(pictures).dtype == np.float32


def test_the_tokenizer_of_siglip_is_the_real_one_where_sentencepiece_is(tmp_path, pictures):
    sentencepiece = pytest.importorskip("sentencepiece")
    corpus = ["this is a photo of a cat", "a dog and a bird", "the truck is in this photo"] * 30
    (tmp_path / "corpus.txt").write_text("\n".join(corpus))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=30,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    tokenizer = transformers.SiglipTokenizer(
        str(tmp_path / "spiece.model"), model_max_length=16, model_input_names=["input_ids"]
    )
    model, _, images, processor = build("siglip", tokenizer)
    folder = tmp_path / "saved"
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    saved = SimpleNamespace(
        kind="siglip", folder=folder, model=model, tokenizer=tokenizer, images=images
    )
    classifier = load(saved, templates="a photo of a {}")
    assert type(classifier._encoder._tokenizer).__name__ == "SiglipTokenizer"
    expected = outputs(saved, named("a photo of a {}"), pictures).logits_per_image.numpy()
    np.testing.assert_allclose(classifier.logits(pictures), expected, atol=1e-5)


def test_without_sentencepiece_siglip_says_what_to_install(tmp_path, monkeypatch):
    folder = shutil.copytree(_siglip_folder(tmp_path), tmp_path / "copy")

    def without(*_, **__):
        raise ImportError("\nSiglipTokenizer requires the SentencePiece library\nbut it was not")

    auto = transformers.AutoProcessor if NEW_TRANSFORMERS else transformers.AutoTokenizer
    monkeypatch.setattr(auto, "from_pretrained", without)
    with pytest.raises(ImportError, match=r"SiglipTokenizer requires .*decal\[zeroshot\]"):
        ZeroShotClassifier.from_pretrained(folder, LABELS)


def _siglip_folder(tmp_path):
    model, _, _, processor = build("siglip")
    model.save_pretrained(tmp_path / "siglip")
    processor.save_pretrained(tmp_path / "siglip")
    return tmp_path / "siglip"


# What is missing


def test_without_the_hub_the_message_says_what_to_download_and_where_to_put_it(tmp_path):
    name = "openai/clip-vit-base-patch32"
    with pytest.raises(FileNotFoundError) as caught:
        ZeroShotClassifier.from_pretrained(name, LABELS, cache_dir=tmp_path, local_files_only=True)
    message = str(caught.value)
    assert f"which is not in the cache {tmp_path}, and the hub cannot be reached" in message
    assert f"`hf download {name} --local-dir clip-vit-base-patch32`" in message
    assert "config.json, model.safetensors, preprocessor_config.json" in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("GatedRepoError", r"gated: .* accept the terms at https://huggingface.co/google/secret"),
        ("RepositoryNotFoundError", r"neither a folder here nor \(publicly\) on the hub"),
    ],
)
def test_gated_and_unknown_models_say_so(monkeypatch, kind, message):
    def refuse(*_, **__):
        refusal = getattr(importlib.import_module("huggingface_hub.errors"), kind)
        raise OSError("from the hub's client") from refusal.__new__(refusal)

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)
    with pytest.raises(FileNotFoundError, match=message):
        ZeroShotClassifier.from_pretrained("google/secret", LABELS)


PROCESSOR = "processor_config.json" if NEW_TRANSFORMERS else "preprocessor_config.json"


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", PROCESSOR])
def test_an_incomplete_folder_names_what_it_must_hold(clip_folder, tmp_path, lost):
    folder = shutil.copytree(clip_folder, tmp_path / "part")
    (folder / lost).unlink()
    with pytest.raises(FileNotFoundError, match=r"a folder that does not hold all of it.*Needed"):
        ZeroShotClassifier.from_pretrained(folder, LABELS)


def test_a_torn_download_is_named(clip_folder, tmp_path):
    folder = shutil.copytree(clip_folder, tmp_path / "torn")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(FileNotFoundError, match="or not intact"):
        ZeroShotClassifier.from_pretrained(folder, LABELS)


@pytest.mark.parametrize("absent", ["torch", "transformers", "PIL"])
def test_a_missing_extra_names_itself(absent, monkeypatch):
    # Imported anew, here: a fresh Python would import PyTorch for seconds.
    monkeypatch.delitem(sys.modules, "decal.zeroshot")
    monkeypatch.delitem(sys.modules, "decal.zeroshot._encoders")
    monkeypatch.setitem(sys.modules, absent, None)
    message = r"^decal.zeroshot needs transformers and PyTorch: pip install 'decal\[zeroshot\]'$"
    with pytest.raises(ImportError, match=message):
        importlib.import_module("decal.zeroshot")


def test_importing_decal_imports_none_of_it():
    code = "import sys, decal; print({'torch', 'transformers', 'PIL', 'tqdm'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


# open_clip


class LikeOpenClip(torch.nn.Module):
    """What decal asks of an open_clip model: two towers, a scale, and perhaps a bias."""

    def __init__(self, bias):
        super().__init__()
        torch.manual_seed(0)
        self.visual = torch.nn.Linear(3 * 8 * 8, 5)
        self.text = torch.nn.EmbeddingBag(128, 5)
        self.logit_scale = torch.nn.Parameter(torch.tensor(1.7))
        self.logit_bias = None if bias is None else torch.nn.Parameter(torch.tensor(bias))

    def encode_image(self, pixels):
        return self.visual(pixels.flatten(1))

    def encode_text(self, tokens):
        return self.text(tokens)


def pixels(image):
    return torch.tensor(np.asarray(image.resize((8, 8))) / 255, dtype=torch.float32)


def letters(texts):
    return torch.tensor([[ord(c) % 128 for c in text.ljust(40)[:40]] for text in texts])


@pytest.mark.parametrize(("bias", "head"), [(None, "softmax"), (-4.0, "sigmoid")])
def test_an_object_like_an_open_clip_model_works(bias, head, pictures):
    model = LikeOpenClip(bias)
    classifier = ZeroShotClassifier(OpenClipEncoder(model, pixels, letters), LABELS)
    assert classifier.head == head
    with torch.no_grad():
        images = model.encode_image(torch.stack([pixels(p) for p in pictures]))
        texts = model.encode_text(letters(named(ENGLISH)))
        images /= images.norm(dim=1, keepdim=True)
        texts /= texts.norm(dim=1, keepdim=True)
        expected = model.logit_scale.exp() * images @ texts.T + (bias or 0.0)
    np.testing.assert_allclose(classifier.logits(pictures, batch_size=3), expected, atol=1e-5)


def open_clip_or_skip():
    try:
        return importlib.import_module("open_clip")
    except (
        ImportError,
        RuntimeError,
    ) as error:  # a torchvision that does not fit raises the latter
        pytest.skip(f"needs open_clip: {error}")


def test_open_clip_loads_for_real_where_it_is_installed(tmp_path, pictures):
    open_clip = open_clip_or_skip()
    architecture = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
        "text_cfg": {
            "context_length": 77,
            "vocab_size": 49408,
            "width": 64,
            "heads": 2,
            "layers": 2,
        },
    }
    torch.manual_seed(0)
    model = open_clip.CLIP(**architecture).eval()
    torch.save(model.state_dict(), tmp_path / "open_clip_pytorch_model.bin")
    (tmp_path / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": architecture, "preprocess_cfg": {"size": 32}})
    )
    classifier = ZeroShotClassifier.from_open_clip(tmp_path, LABELS, device="cpu")
    preprocess = classifier._encoder._preprocess
    with torch.no_grad():
        batch = torch.stack([preprocess(picture) for picture in pictures])
        expected, _ = model.get_logits(batch, open_clip.tokenize(named(ENGLISH)))
    np.testing.assert_allclose(classifier.logits(pictures), expected, atol=1e-5)
    with pytest.raises(FileNotFoundError, match=r"Needed: open_clip_config.json"):
        ZeroShotClassifier.from_open_clip(tmp_path / ".." / "..", LABELS)


def test_without_open_clip_the_message_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(ImportError, match="from_open_clip needs open_clip and torchvision: pip"):
        ZeroShotClassifier.from_open_clip("microsoft/BiomedCLIP", LABELS)
