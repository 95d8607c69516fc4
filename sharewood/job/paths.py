"""The paths that a party's configuration names: no command writes over a file that it, or another command, reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

from sharewood.job.apart import Paths, check_apart
from sharewood.job.config import WRITTEN, HostsConfig
from sharewood.job.secrets import SecretSource
from sharewood.report.run import page_beside
from sharewood.sources.reference import files_of

NOTHING: Paths = MappingProxyType({})
_READ = "columns", "align_data", "train_data", "test_data", "continue_from", "predict_data"
# The table that `align` writes is what the other commands read; what `explore` writes is what `train` reads.
_NEXT = "train_data", "test_data", "predict_data"
# Results beside which a command writes a page.
_PAGES = "screened", "model", "predictions", "monitored"


def check_paths(config: HostsConfig, name: str, writes: Paths, reads: Paths) -> None:
    """Check the paths of a party's section, of its keys, and of the command line: `writes`, and `reads`.

    Raises DataError if a name cannot exist, ConfigError if two paths lead to one file and one of them is written.
    """
    section = config.party(name)
    own = f"parties.{name}."
    outputs = {own + key: path for key in WRITTEN if (path := getattr(section, key))}
    pages = {f"the page of {own}{key}": page_beside(path) for key in _PAGES if (path := getattr(section, key))}
    inputs = {own + key: path for key in _READ for path in files_of(getattr(section, key))}
    inputs |= dict(_of_host(config, name))
    chained = {(f"{own}aligned", own + key) for key in _NEXT} | {(f"{own}screened", "--screened")}
    check_apart({**outputs, **writes}, {**inputs, **reads}, chained)
    for (
        what,
        page,
    ) in pages.items():  # those of a model and of predictions may be one file, which the later one replaces
        check_apart({what: page}, {**inputs, **reads})


def _of_host(config: HostsConfig, name: str) -> Iterator[tuple[str, Path]]:
    """Yield the keys and secrets of the host."""
    for file in (f"{name}.crt", f"{name}.key", "authority.crt"):
        yield f"tls, {file},", config.tls / file
    for key in ("certificate", "key", "token_file"):
        if path := getattr(config.serve, key):
            yield f"serve.{key}", path
    for client, section in config.serve.clients.items():
        yield f"serve.clients.{client}.token_file", section.token_file
    for key in ("passphrase", "files_key"):
        source = getattr(config, key)
        if isinstance(source, SecretSource) and source.kind == "file":
            yield key, Path(source.place)
