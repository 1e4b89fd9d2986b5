"""What `make docs` says of links that lead nowhere."""

from built_site import broken


def test_pages_anchors_and_pictures_that_do_not_exist_are_found(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "picture.svg").write_text("<svg/>")
    (tmp_path / "index.html").write_text(
        '<h1 id="top"></h1> <a href="#top">1</a> <a href="deep/page.html#part">2</a>'
        '<img src="picture.svg?v=2"> <a href="https://elsewhere.example/">3</a>'
        '<a href="deep/">4</a> <a href="#bottom">5</a> <a href="deep/page.html#whole">6</a>'
        '<iframe src="story.html"></iframe> <picture><source srcset="narrow.svg"></picture>'
    )
    (tmp_path / "deep" / "index.html").write_text('<a href="../index.html">up</a>')
    (tmp_path / "deep" / "page.html").write_text('<p id="part"><img src="../none.png">')
    assert sorted(broken(tmp_path)) == [
        "deep/page.html: ../none.png",
        "index.html: #bottom",
        "index.html: deep/page.html#whole",
        "index.html: narrow.svg",
        "index.html: story.html",
    ]
