"""TabArena's tables from .csv files, and from OpenML as scikit-learn caches it."""

import gzip
import hashlib
import json
import urllib.request

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import DamagedDataError, MissingDataError


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DECAL_CACHE", str(folder))
    monkeypatch.delenv("DECAL_DATA", raising=False)
    return folder


TABLE = """Age,Ward,RiskLevel,BS
25,a,low risk,6.8
,"b, c",high risk,7e1
61,,low risk,-1
"""


@pytest.mark.parametrize("inside", ["", "tabular"])
@pytest.mark.parametrize("name", ["maternal_health_risk", 46941])
def test_a_table_is_read_by_name_or_by_number(tmp_path, inside, name):
    (tmp_path / inside).mkdir(exist_ok=True)
    (tmp_path / inside / "maternal_health_risk_46941.csv").write_text(TABLE)
    got = datasets.tabarena(name, folder=tmp_path)
    assert got.name == "maternal_health_risk"
    assert got.openml_id == 46941
    assert got.target == "RiskLevel"
    assert got.classes == ("high risk", "low risk")
    assert got.labels.tolist() == [1, 0, 1]
    assert list(got.columns) == ["Age", "Ward", "BS"]
    np.testing.assert_array_equal(got.columns["Age"], [25, np.nan, 61])
    assert got.columns["Ward"].tolist() == ["a", "b, c", ""]
    np.testing.assert_array_equal(got.matrix(), [[25, 0, 6.8], [np.nan, 1, 70], [61, np.nan, -1]])
    assert repr(got) == (
        "TableSet maternal_health_risk (46941): 3 rows, 3 columns, 2 classes of RiskLevel"
    )


def test_text_without_gaps_is_coded_from_zero(tmp_path):
    (tmp_path / "splice_46958.csv").write_text("p1,SiteType\nT,N\nA,EI\nT,IE\n")
    got = datasets.tabarena("splice", folder=tmp_path)
    assert got.matrix()[:, 0].tolist() == [1, 0, 1]


def test_of_an_unknown_table_the_last_column_is_the_target(tmp_path):
    (tmp_path / "iris_61.csv").write_text("length,class\n1,setosa\n2,virginica\n")
    got = datasets.tabarena(61, folder=tmp_path)
    assert (got.name, got.target) == ("iris", "class")


def test_the_folder_of_the_environment_is_used(tmp_path, monkeypatch):
    (tmp_path / "tabular").mkdir()
    (tmp_path / "tabular" / "maternal_health_risk_46941.csv").write_text(TABLE)
    monkeypatch.setenv("DECAL_DATA", str(tmp_path))
    assert len(datasets.tabarena("maternal_health_risk", download=False)) == 3


@pytest.mark.parametrize("name", ["adult", "", 0, -1, True, 1.5])
def test_names_must_be_known_or_numbers(name):
    with pytest.raises(ValueError, match="name must be one of 'anneal', .* or a number of OpenML"):
        datasets.tabarena(name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must hold a line of names and rows: got 0 lines"),
        ("Age,RiskLevel\n", "must hold a line of names and rows: got 1 lines"),
        ("Age,RiskLevel\n1,a\n2\n", "must have 2 values in every row: got 1 in row 2"),
        ("Age,Risk\n1,a\n", "must have a column 'RiskLevel'"),
        ("Age,Age,RiskLevel\n1,1,a\n", "must name every column once"),
        ("Age,RiskLevel\n1,a\n2,\n", "must know 'RiskLevel' in every row: got nothing in row 2"),
        ('Age,RiskLevel\n1,"a\n', "is damaged"),
    ],
)
def test_damaged_tables_are_named(tmp_path, content, message):
    (tmp_path / "maternal_health_risk_46941.csv").write_text(content)
    with pytest.raises(DamagedDataError, match=f"maternal_health_risk_46941.csv {message}"):
        datasets.tabarena("maternal_health_risk", folder=tmp_path)


def test_absent_tables_say_what_to_do(tmp_path):
    with pytest.raises(MissingDataError, match="folder must hold anneal_46906.csv"):
        datasets.tabarena("anneal", folder=tmp_path)
    with pytest.raises(MissingDataError, match="table 46906 is not here: pass folder="):
        datasets.tabarena("anneal", download=False)


def test_openml_out_of_reach_is_explained(monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    monkeypatch.setattr(urllib.request, "_opener", None)  # it would remember earlier proxies
    monkeypatch.setenv("no_proxy", "")
    for scheme in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")  # where nobody answers
    monkeypatch.setattr("time.sleep", lambda _: None)  # scikit-learn waits between its tries
    with pytest.raises(MissingDataError, match=r"table 46906 could not be downloaded from OpenML"):
        datasets.tabarena("anneal")


ARFF = """@RELATION risk
@ATTRIBUTE Age NUMERIC
@ATTRIBUTE Ward {a,b}
@ATTRIBUTE RiskLevel {low,mid,high}
@DATA
25,a,low
?,b,high
61,?,low
"""


def openml_cache(folder, number, arff, target):
    """What scikit-learn keeps of OpenML's answers, written as OpenML gives them."""
    columns = [("Age", "numeric", 1), ("Ward", "nominal", 1), ("RiskLevel", "nominal", 0)]
    features = [
        {
            "index": str(i),
            "name": name,
            "data_type": kind,
            "is_target": str(name == target).lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": str(missing),
        }
        for i, (name, kind, missing) in enumerate(columns)
    ]
    description = {
        "id": str(number),
        "name": "risk",
        "version": "1",
        "format": "ARFF",
        "status": "active",
        "description": "tiny",
        "file_id": "7",
        "url": "https://www.openml.org/data/v1/download/7/risk.arff",
        "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
    }
    qualities = [{"name": "NumberOfInstances", "value": "3.0"}]
    files = {
        f"api/v1/json/data/{number}": {"data_set_description": description},
        f"api/v1/json/data/features/{number}": {"data_features": {"feature": features}},
        f"api/v1/json/data/qualities/{number}": {"data_qualities": {"quality": qualities}},
    }
    texts = {name: json.dumps(content) for name, content in files.items()}
    for name, text in (texts | {"data/v1/download/7/risk.arff": arff}).items():
        path = folder / "openml" / "openml.org" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def test_a_table_of_openml_is_read_through_scikit_learn(cache):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    openml_cache(cache, 46941, ARFF, "RiskLevel")
    got = datasets.tabarena("maternal_health_risk")
    assert got.name == "risk"
    assert got.classes == ("high", "low")
    assert got.labels.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(got.columns["Age"], [25, np.nan, 61])
    assert got.columns["Ward"].tolist() == ["a", "b", ""]


def test_a_table_of_numbers_to_predict_is_refused(cache):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    openml_cache(cache, 12345, ARFF.replace("?,b", "30,b"), "Age")
    path = cache / "openml/openml.org/api/v1/json/data/features/12345.gz"
    known = gzip.decompress(path.read_bytes()).replace(
        b'"number_of_missing_values": "1"', b'"number_of_missing_values": "0"'
    )
    path.write_bytes(gzip.compress(known))
    with pytest.raises(ValueError, match="name must be a table of classes: got numbers in 'Age'"):
        datasets.tabarena(12345)


@pytest.mark.data
@pytest.mark.parametrize("name", list(datasets.TABARENA))
def test_the_real_tables_fit_the_published_tabpfn_logits(data_folder, name):
    table = datasets.tabarena(name, folder=data_folder)
    number, target = datasets.TABARENA[name]
    assert (table.openml_id, table.target) == (number, target)
    logits = datasets.published_logits(f"tabpfn_{name}_{number}_seed1", folder=data_folder)
    assert logits.logits.shape[1] == len(table.classes)
    # 30 % are for testing, as in the paper; their labels are the original ones.
    assert len(logits) == np.ceil(0.3 * len(table))
    assert (
        np.bincount(logits.labels, minlength=len(table.classes)) <= np.bincount(table.labels)
    ).all()
    assert table.matrix().shape == (len(table), len(table.columns))
