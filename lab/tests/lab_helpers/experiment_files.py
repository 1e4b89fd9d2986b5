"""Tiny files in the formats of the real data, for tests of experiments."""

import json

import numpy as np

from decal_lab.experiments.harness.published_results import ALPHAS

PAPER_IMAGES = 9300
"""Rows of the tiny CIFAR-10 files: the paper's figures name images up to 9216."""

OUTSIDE = ("fashionmnist", "mnist")
"""Sets out of distribution in the tiny file of ResNet-20."""


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw(rng, rows, classes):
    """Logits, labels and a truth that they are drawn from."""
    latent = rng.standard_normal((rows, classes))
    truth = softmax(latent)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((rows, 1)), axis=1)
    logits = 2 * latent + rng.standard_normal((rows, classes))
    return logits.astype(np.float32), labels.astype(np.int16), truth.astype(np.float32)


def as_votes(rng, truth, people):
    """(n, K) how many of these people name each class, by draws from the truth."""
    return np.array([rng.multinomial(people, p / p.sum()) for p in truth.astype(float)])


def write_every_family(folder):
    """A file of every family of data sets."""
    rng = np.random.default_rng(0)
    for name in ("clip_cifar10_en", "cnn_vgg_15_BN_64_test"):
        logits, labels, human = draw(rng, 61, 4)
        np.savez(folder / name, logits=logits, labels=labels, human=human, classes=list("abcd"))
    for name, truth in (("snli_bert0", "human"), ("tabpfn_MIC_46980_seed1", "truth")):
        train, test = draw(rng, 50, 3), draw(rng, 40, 3)
        np.savez(
            folder / name,
            train_logits=train[0],
            train_labels=train[1],
            test_logits=test[0],
            test_labels=test[1],
            **{truth: test[2]},
        )
    # What the folder also holds, and no experiment on coverage can use.
    np.savez(folder / "clip_dermamnist_en", train_logits=train[0], train_labels=train[1])
    np.savez(folder / "resnet20_cifar10", cifar10_test=test[0], test_labels=test[1])


def write_table(folder, rows=60):
    """A table in the format of maternal_health_risk_46941.csv: numbers, a gap, text, a target."""
    rng = np.random.default_rng(0)
    (folder / "tabular").mkdir(parents=True, exist_ok=True)
    lines = ["Age,BS,Ward,RiskLevel"]
    for i in range(rows):
        y = i % 3
        age = "" if i == 7 else f"{30 + 8 * y + 5 * rng.standard_normal():.1f}"
        ward = "abc"[rng.integers(3) if rng.random() < 0.4 else y]
        name = ("high risk", "low risk", "mid risk")[y]
        lines.append(f"{age},{rng.normal(y):.2f},{ward},{name}")
    path = folder / "tabular" / "maternal_health_risk_46941.csv"
    path.write_text("\n".join(lines) + "\n")


def write_tabpfn_logits(folder, seed):
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, rows in (("train", 40), ("test", 30)):
        arrays[f"{part}_logits"] = (2 * rng.standard_normal((rows, 3))).astype(np.float32)
        arrays[f"{part}_labels"] = rng.integers(3, size=rows)
    arrays["truth"] = rng.dirichlet(np.ones(3), size=30)
    np.savez(folder / f"tabpfn_MIC_46980_seed{seed}.npz", **arrays)


def write_paper_files(folder):
    """Small files of every kind, and published curves of CLIP and of a ResNet."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    z, y, q = draw(rng, PAPER_IMAGES, 4)
    np.savez(folder / "clip_cifar10_en", logits=z, labels=y, human=q, classes=names)
    np.savez(folder / "clip_cifar10_sw", logits=z, labels=y, human=q, classes=["x", "y", "x", "z"])
    z, y, q = draw(rng, 80, 4)
    np.savez(folder / "cnn_vgg_15_BN_64_test", logits=z, labels=y, human=q, classes=names)
    train, test = draw(rng, 90, 4), (z, y)
    np.savez(
        folder / "resnet20_cifar10",
        cifar10_train=train[0],
        train_labels=train[1],
        cifar10_test=test[0],
        test_labels=test[1],
    )
    for name, truth in (("snli_roberta0", "human"), ("tabpfn_MIC_46980_seed1", "truth")):
        train, test = draw(rng, 50, 3), draw(rng, 40, 3)
        keys = dict(zip(("train_logits", "train_labels"), train[:2], strict=True))
        keys |= dict(zip(("test_logits", "test_labels", truth), test, strict=True))
        np.savez(folder / name, **keys)
    train, test = draw(rng, 60, 3), draw(rng, 1200, 3)
    keys = dict(zip(("train_logits", "train_labels"), train[:2], strict=True))
    keys |= dict(zip(("test_logits", "test_labels"), test[:2], strict=True))
    np.savez(folder / "biomedclip_dermamnist_en", classes=["p", "q", "r"], **keys)
    curve = {"alpha": ALPHAS, "coverage": [0.5] * 8, "efficiency": [0.25] * 8}
    other = curve | {"coverage": [0.7] * 8}
    results = {"cov_eff_cifar10_clip_1": curve, "cov_eff_cifar10_resnet_1": curve}
    results |= {"cov_eff_cifar10_resnet_2": other}
    (folder / "published.json").write_text(json.dumps({"effcre": results}))


def write_tables(folder):
    """A table, logits of TabPFN, and published results on both."""
    write_table(folder)
    for seed in (1, 2):
        write_tabpfn_logits(folder, seed)
    curve = {"alpha": list(ALPHAS), "coverage": [0.5] * 8, "efficiency": [0.25] * 8}
    other = curve | {"coverage": [0.7] * 8}
    counts = [6.0, 12.0, 18.0, 24.0]
    learnt = {
        f"al_46941_{name}": {
            "seeds": 3,
            "n_labelled": counts,
            "accuracy_mean": [0.5 + step * i for i in range(4)],
            "accuracy_sem": [0.01] * 4,
        }
        for name, step in (("random", 0.0), ("entropy_0.8_mle", 0.1), ("zero_one_0.8_mle", 0.05))
    }
    runs = {"cov_eff_46980_tabpfn_1": curve, "cov_eff_46980_tabpfn_2": other}
    (folder / "published.json").write_text(json.dumps({"effcre": runs, "active_learning": learnt}))


def write_resnet20(folder):
    """A network's logits of three classes, in and out of distribution."""
    rng, arrays = np.random.default_rng(0), {}

    def logits_of(rows, spread):
        return (spread * rng.standard_normal((rows, 3))).astype(np.float32)

    for part, rows in (("train", 50), ("test", 25)):
        z = logits_of(rows, 3.0)
        arrays[f"cifar10_{part}"] = z
        draws = softmax(z).cumsum(axis=1) < rng.random((rows, 1))
        arrays[f"{part}_labels"] = np.minimum(draws.sum(axis=1), 2)
    for name in OUTSIDE:
        arrays[name] = logits_of(20, 1.0)
    np.savez(folder / "resnet20_cifar10.npz", **arrays)


def with_tables(files, folder, **tables):
    """A folder with the same files as `files`, and with tables of the paper entered."""
    for path in files.glob("*.npz"):
        (folder / path.name).symlink_to(path)
    (folder / "published.json").write_text(json.dumps({"tables": tables}))
    return folder
