"""Pages of the site that are made from the code."""

import importlib.util

from tests.deploy.test_deploy import ROOT


def site_pages():
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_configuration_page_is_written_as_the_file_is():
    page = "\n".join(site_pages()._configuration())
    assert '| `offline` | `"dealer"` | `"dealer"` or `"pairwise"` |' in page
    assert "| `audit` | `false` | `true` or `false` |" in page
    assert "| `passphrase` |  | text |" in page
    assert "None" not in page and "bool" not in page
