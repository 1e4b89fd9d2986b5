"""Tables and bars for notebooks."""

from xml.etree import ElementTree

from decal._base.markup import BAR_WIDTH, Raw, bar, table


def test_texts_are_escaped_and_html_is_not():
    html = table("<i>", ("a & b",), [("<script>",), (Raw("<b>bold</b>"),)], note='"<n>"')
    page = ElementTree.fromstring(html)  # well formed
    assert "".join(page.itertext()) == '<i>a & b<script>bold"<n>"'
    assert "<script>" not in html


def test_a_bar_is_where_its_interval_is():
    track, interval = ElementTree.fromstring(bar(0.2, 0.6)).findall("rect")
    assert float(track.get("width")) == BAR_WIDTH
    assert float(interval.get("x")) == 0.2 * BAR_WIDTH
    assert float(interval.get("width")) == 0.4 * BAR_WIDTH
    # A point is still seen, and a tick at the edge is within the picture.
    picture = ElementTree.fromstring(bar(1.0, 1.0, 1.0))
    assert float(picture.findall("rect")[1].get("width")) == 1.0
    assert picture.find("path").get("d").startswith(f"M{BAR_WIDTH - 1:.1f} ")
    assert ElementTree.fromstring(bar(0.25, 0.5)).get("aria-label") == "0.250 to 0.500"
