"""Tables of TabArena, from .csv files or from OpenML."""

from __future__ import annotations

import csv
import os
import urllib.error
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.checks import needs
from decal_lab.data._archives import damaged, existing_folder
from decal_lab.data._data_sets import TableSet
from decal_lab.data._downloads import DamagedDataError, MissingDataError, cache_folder

TABARENA = {
    "anneal": (46906, "classes"),
    "maternal_health_risk": (46941, "RiskLevel"),
    "splice": (46958, "SiteType"),
    "students_dropout": (46960, "AcademicOutcome"),
    "website_phishing": (46963, "WebsiteType"),
    "MIC": (46980, "LET_IS"),
}
"""The number at OpenML and the target of each of the six tables of TabArena that decal uses."""


def tabarena(
    name: str | int, *, folder: str | Path | None = None, download: bool = True
) -> TableSet:
    """One of TabArena's tables, or any table of OpenML by its number.

    Parameters
    ----------
    name : str or int
        One of "anneal", "maternal_health_risk", "splice", "students_dropout", "website_phishing"
        and "MIC", or a number of OpenML.
    folder : path, optional
        Holds NAME_NUMBER.csv, such as anneal_46906.csv (also in tabular): a line of names, then the
        rows, nothing where a value is unknown; of tables that decal does not know, the last column
        is the target. By default, ``tabular`` in the folder of the environment variable DECAL_DATA,
        if the file is there; else OpenML.
    download : bool
        Whether to ask OpenML, through scikit-learn (needs scikit-learn and pandas). What came is
        kept in the cache.
    """
    title, number, target = _identified(name)
    shared = os.environ.get("DECAL_DATA")
    if folder is not None:
        path = csv_in(existing_folder(folder), title, number)
        if path is None:
            raise MissingDataError(
                f"folder must hold {title or 'NAME'}_{number}.csv: got {Path(folder)}."
            )
        return _from_csv(path, number, target)
    path = csv_in(Path(shared), title, number) if shared else None
    if path is not None:
        return _from_csv(path, number, target)
    if not download:
        raise MissingDataError(
            f"table {number} is not here: pass folder=… with {title or 'NAME'}_{number}.csv, or "
            "allow download=True."
        )
    return _from_openml(number, target)


def _identified(name: str | int) -> tuple[str | None, int, str | None]:
    by_number = {number: title for title, (number, _) in TABARENA.items()}
    if isinstance(name, str) and name in TABARENA:
        return name, *TABARENA[name]
    if isinstance(name, int) and not isinstance(name, bool) and name > 0:
        title = by_number.get(name)
        return title, name, TABARENA[title][1] if title else None
    known = ", ".join(repr(title) for title in TABARENA)
    raise ValueError(f"name must be one of {known}, or a number of OpenML: got {name!r}.")


def csv_in(folder: Path, title: str | None, number: int) -> Path | None:
    """The file of a table in a folder, or in tabular beneath it; None if there is none."""

    def found() -> Iterator[Path]:
        for place in (folder, folder / "tabular"):
            yield from sorted(place.glob(f"{title or '*'}_{number}.csv"))

    return next(found(), None)


def _from_csv(path: Path, number: int, target: str | None) -> TableSet:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise damaged(path, error) from error
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise DamagedDataError(f"{path} must hold a line of names and rows: got {len(rows)} lines.")
    names, body = rows[0], rows[1:]
    for at, row in enumerate(body, start=1):
        if len(row) != len(names):
            raise DamagedDataError(
                f"{path} must have {len(names)} values in every row: got {len(row)} in row {at}."
            )
    if len(set(names)) != len(names):
        raise DamagedDataError(f"{path} must name every column once: got {names}.")
    columns = {
        name: np.array(values) for name, values in zip(names, zip(*body, strict=True), strict=True)
    }
    return _table(path.stem.rpartition("_")[0], number, columns, target or names[-1], str(path))


def _from_openml(number: int, target: str | None) -> TableSet:
    message = "Tables of OpenML need scikit-learn and pandas: pip install 'decal[sklearn,pandas]'"
    with needs("pandas", "sklearn", message=message):
        import pandas as pd
        from sklearn.datasets import fetch_openml
    try:
        with warnings.catch_warnings():
            # They warn of broken connections, which the error below explains.
            warnings.filterwarnings("ignore", "A network error|Invalid cache")
            bunch = fetch_openml(
                data_id=number,
                as_frame=True,
                parser="pandas",
                data_home=str(cache_folder()),  # in which scikit-learn makes a folder openml
            )
    except (urllib.error.URLError, OSError) as error:
        raise MissingDataError(
            f"table {number} could not be downloaded from OpenML (no network?): put "
            f"NAME_{number}.csv into a folder and pass folder=…. Tried openml.org: {error}."
        ) from error
    wanted = target or bunch.target.name
    columns = {}
    for name, column in bunch.frame.items():
        if pd.api.types.is_bool_dtype(column.dtype) or not pd.api.types.is_numeric_dtype(
            column.dtype
        ):
            columns[str(name)] = np.array(["" if pd.isna(v) else str(v) for v in column])
        else:
            columns[str(name)] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return _table(bunch.details["name"], number, columns, wanted, f"table {number} of OpenML")


def _table(
    name: str, number: int, columns: dict[str, NDArray[Any]], target: str, where: str
) -> TableSet:
    if target not in columns:
        raise DamagedDataError(f"{where} must have a column {target!r}: got {list(columns)}.")
    if columns[target].dtype.kind == "f":
        raise ValueError(f"name must be a table of classes: got numbers in {target!r} of {where}.")
    answers = columns.pop(target)
    unknown = np.flatnonzero(answers == "")
    if unknown.size:
        raise DamagedDataError(
            f"{where} must know {target!r} in every row: got nothing in row {unknown[0] + 1}."
        )
    classes, labels = np.unique(answers, return_inverse=True)
    return TableSet(
        name=name,
        openml_id=number,
        columns={title: _typed(column) for title, column in columns.items()},
        labels=labels.astype(np.intp),
        classes=tuple(str(c) for c in classes),
        target=target,
    )


def _typed(column: NDArray[Any]) -> NDArray[Any]:
    """Numbers, with NaN for unknown ones, if all known values are numbers; else the text."""
    if column.dtype.kind == "f":
        return column
    try:
        return np.where(column == "", "nan", column).astype(np.float64)
    except ValueError:
        return column
