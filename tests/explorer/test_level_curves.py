"""How far confidence and sets can be trusted, counted input by input."""

from __future__ import annotations

import numpy as np

from decal.explorer import explore
from helpers.explorations import ALPHAS, close, data, fitted


def test_every_bin_and_every_confusion_is_counted():
    z, labels, _ = data(200, 4)
    model = fitted(4)
    found = explore(model, z, labels=labels, alphas=ALPHAS, rows=10).payload.header["models"][0]
    shown = found["reliability"]
    point = model.predict(z).point
    top = point.max(axis=1)
    assert sum(shown["inputs"]) == 200
    for b in range(15):
        inside = (top >= b / 15) & ((top < (b + 1) / 15) | (b == 14))
        assert shown["inputs"][b] == inside.sum()
        if not inside.any():
            continue
        close(shown["confidence"][b], top[inside].mean())
        close(shown["accuracy"][b], np.mean(point[inside].argmax(axis=1) == labels[inside]))
        for a, alpha in enumerate(ALPHAS):
            kept = model.predict(z[inside], alpha=alpha).decide("e_admissible")
            close(shown["kept"][a][b], np.mean(kept[np.arange(len(kept)), labels[inside]]))
            close(shown["size"][a][b], kept.sum(axis=1).mean())
    for a, alpha in enumerate(ALPHAS):
        kept = model.predict(z, alpha=alpha).decide("e_admissible")
        for k in range(4):
            close(shown["confusion"][a][k], kept[labels == k].mean(axis=0))


def test_without_labels_there_is_none_and_many_classes_have_no_table():
    z, labels, _ = data(40, 40)
    assert explore(fitted(40), z).payload.header["models"][0]["reliability"] is None
    many = explore(fitted(40), z, labels=labels, alphas=[1, 0.9]).payload.header["models"][0]
    assert "confusion" not in many["reliability"]
    assert sum(many["reliability"]["inputs"]) == 40
