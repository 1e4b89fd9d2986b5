from helpers.environments import settings_of_pip


def test_uv_looks_where_pip_looks():
    listed = (
        ":env:.find-links='/wheels'\n"
        "global.find-links='/older'\n"
        "global.index-url='https://packages.example/simple'\n"
        "global.extra-index-url='https://one.example https://two.example'\n"
        "global.timeout='60'\n"
    )
    assert settings_of_pip(listed) == {
        "UV_FIND_LINKS": "/wheels",
        "UV_DEFAULT_INDEX": "https://packages.example/simple",
        "UV_INDEX": "https://one.example https://two.example",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_without_settings_uv_keeps_its_own():
    assert settings_of_pip("") == {}
