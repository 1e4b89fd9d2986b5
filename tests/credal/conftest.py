import pytest

import decal
from helpers.credal_sets import LOWER, NAMES, POINT, UPPER


@pytest.fixture
def credal():
    return decal.IntervalCredalSet(LOWER, UPPER, point=POINT, classes=NAMES)
