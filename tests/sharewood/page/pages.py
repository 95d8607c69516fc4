"""Check that a page is well-formed, self-contained, and readable as text."""

import re
from html.parser import HTMLParser

_VOID = {"meta", "br"}
_LOADS = {"src", "srcset", "action", "data", "poster"}


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.targets, self.text, self.tags = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        self._note(attributes)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self._note(attributes)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        self.text.append(data)

    def _note(self, attributes):
        for name, value in attributes:
            assert name not in _LOADS, name
            if name == "id":
                self.ids.append(value)
            if name in ("href", "aria-labelledby"):
                self.targets.append(value.removeprefix("#"))


def check_page(document):
    """Return the text of a page after checking its form: tags pair up, ids are unique, references are internal."""
    reader = _Reader()
    reader.feed(document)
    reader.close()
    assert reader.open == [] and reader.tags[0] == "html"
    assert len(set(reader.ids)) == len(reader.ids)
    assert set(reader.targets) <= set(reader.ids)
    assert "http" not in document and "@import" not in document and "script" not in reader.tags
    drawn = re.findall(r"url\((.*?)\)", document)
    assert set(drawn) <= {f"#{name}" for name in reader.ids}
    return " ".join(" ".join(reader.text).split())
