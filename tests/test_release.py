"""What a release says of itself in several files, it says alike; and its archives are checked."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

import built_wheel
import decal

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CODEMETA = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
WORKFLOWS = ROOT / ".github" / "workflows"


def workflow(name):
    return yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8"))


def people(entries, given, family):
    return [(person[given], person[family]) for person in entries]


def test_codemeta_says_what_pyproject_says():
    assert CODEMETA["name"] == PROJECT["name"]
    assert CODEMETA["version"] == decal.__version__
    assert CODEMETA["description"] == PROJECT["description"]
    assert CODEMETA["keywords"] == PROJECT["keywords"]
    assert CODEMETA["softwareRequirements"] == PROJECT["dependencies"]
    assert CODEMETA["runtimePlatform"] == f"Python {PROJECT['requires-python']}"
    assert CODEMETA["license"].rpartition("/")[2] == CITATION["license"] == "MIT"
    assert PROJECT["license"] == "MIT AND BSD-3-Clause"  # of the texts in decal.datasets
    named = [author["name"] for author in PROJECT["authors"]]
    assert [author["name"] for author in CODEMETA["author"]] == named
    assert [author["name"] for author in CITATION["authors"]] == named


def test_codemeta_and_citation_name_the_same_publication():
    cited, meant = CITATION["preferred-citation"], CODEMETA["referencePublication"]
    assert meant["name"] == cited["title"]
    assert meant["datePublished"] == str(cited["year"])
    assert meant["identifier"] == cited["identifiers"][0]["value"]
    assert people(meant["author"], "givenName", "familyName") == people(
        cited["authors"], "given-names", "family-names"
    )


def test_the_recipe_installs_what_pyproject_requires():
    context, needed = RECIPE["context"], RECIPE["requirements"]
    assert (context["name"], context["version"]) == (PROJECT["name"], decal.__version__)
    assert f">={context['python_min']}" == PROJECT["requires-python"]
    run = [entry.replace(" ", "") for entry in needed["run"][1:]]
    assert run == PROJECT["dependencies"]
    (script,) = RECIPE["build"]["python"]["entry_points"]
    assert script == f"decal = {PROJECT['scripts']['decal']}"
    renamed = {"matplotlib-base": "matplotlib", "pytorch": "torch"}
    extras = {e for entries in PROJECT["optional-dependencies"].values() for e in entries}
    for entry in needed["run_constraints"]:
        name, floor = entry.split()
        assert f"{renamed.get(name, name)}{floor}" in extras


def test_addresses_are_given_everywhere_or_nowhere():
    address = CODEMETA.get("codeRepository")
    assert CITATION.get("repository-code") == address
    assert RECIPE["about"].get("repository") == address


def test_workflows_test_the_pythons_that_the_classifiers_name():
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = workflow("tests")["jobs"]["core"]["strategy"]["matrix"]
    assert matrix["python"] == named
    assert f">={named[0]}" == PROJECT["requires-python"]
    assert len(matrix["os"]) == 3


def test_workflows_run_targets_and_tests_that_exist():
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS.glob("*.yml"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {t for line in re.findall(r"run: make (.+)", text) for t in line.split()}
    assert targets >= {"test", "floors", "docs", "wheel", "release-check"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert all((ROOT / path).exists() for path in re.findall(r"tests/[\w/.]+", text))


def test_only_the_job_that_publishes_may_get_a_token_and_it_builds_nothing():
    release = workflow("release")
    assert release["permissions"] == {"contents": "read"}
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "permissions" not in release["jobs"]["build"]
    assert not any("run" in step for step in release["jobs"]["publish"]["steps"])


def test_the_journal_paper_cites_what_its_bibliography_has():
    entries = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE)
    cited = set(re.findall(r"@(\w+)", PAPER.split("---", 2)[2]))
    assert set(keys) == cited
    assert len(keys) == len(cited)
    assert 250 <= len(PAPER.split()) <= 1000  # what the journal asks for


@pytest.mark.parametrize("strange", ["decal/data.npz", "tests/test_release.py"])
def test_a_wheel_with_other_files_is_noticed(tmp_path, strange):
    names = {*built_wheel.expected(), "decal-0.dist-info/METADATA"}
    for name, extra in (("whole", None), ("strange", strange)):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as archive:
            for entry in sorted(names | {extra} - {None}):
                required = "Requires-Dist: numpy>=1.26\nRequires-Dist: scipy>=1.11\n"
                archive.writestr(entry, required if entry.endswith("METADATA") else "")
    built_wheel.check_wheel(tmp_path / "whole.whl")
    with pytest.raises(SystemExit, match=re.escape(f"should not hold ['{strange}']")):
        built_wheel.check_wheel(tmp_path / "strange.whl")
