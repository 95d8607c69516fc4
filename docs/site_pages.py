"""Hooks of mkdocs: generate pages from other parts of the repository, and rewrite links to places outside docs/.

README and the other pages at the root, the notebooks, the command line and the configuration file become pages. A link
from docs/ to a file that is not a page becomes the name of that file.
"""

from __future__ import annotations

import importlib
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from mpc.protocol.catalogue import entries
from sharewood.cli import Command, app
from sharewood.job.config import HostsConfig
from sharewood.job.owners import OwnerConfig
from sharewood.serving.asking import ClientConfig

ROOT = Path(__file__).parents[1]
AT_ROOT = {"README.md": "index.md"} | {name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
# What a key of the configuration file holds, by the type of its value.
_TYPES = {
    "Path": "path",
    "str": "text",
    "float": "number",
    "int": "whole number",
    "bool": "`true` or `false`",
    "SecretSource": "text",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for uri, text in _pages():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert links of the repository to links of the site."""
    uri = page.file.src_uri
    in_docs = uri if uri.startswith("notebooks/") else posixpath.join("docs", uri)
    here = {made: name for name, made in AT_ROOT.items()}.get(uri, in_docs)

    def on_the_site(link: re.Match[str]) -> str:
        picture, text, path, anchor = link.groups()
        if not path or re.match(r"[a-z]+:", path):
            return link.group()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        made = AT_ROOT.get(target, posixpath.relpath(target, "docs") if target.startswith("docs/") else None)
        if made is None and target.split("/")[0] == "notebooks":
            made = _notebook(Path(target)) if target.endswith(".ipynb") else "notebooks.md"
        if made is None and (ROOT / target).exists():
            return f"{text} (`{target}`)"
        there = posixpath.relpath(made or target, posixpath.dirname(uri) or ".")
        return f"{picture}[{text}]({there}{anchor or ''})"

    return LINK.sub(on_the_site, markdown)


def _pages() -> Iterator[tuple[str, str | bytes]]:
    for name, uri in AT_ROOT.items():
        yield uri, (ROOT / name).read_text()
    yield from _notebooks()
    yield "reference/command_line.md", "\n".join(_commands(typer.main.get_command(app), "sharewood", 1))
    yield "reference/configuration.md", "\n".join(_configuration())
    yield "reference/protocols.md", "\n".join(_protocols())


def _notebooks() -> Iterator[tuple[str, str | bytes]]:
    """Yield each notebook with its pictures, and a page that lists them."""
    exporter = MarkdownExporter()
    titles: dict[str, list[str]] = {"gallery": [], "": []}
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        uri = _notebook(path.relative_to(ROOT))
        text, resources = exporter.from_filename(str(path))
        for name, picture in resources["outputs"].items():
            text = text.replace(f"]({name})", f"]({path.stem}_{name})")
            yield posixpath.join(posixpath.dirname(uri), f"{path.stem}_{name}"), picture
        yield uri, text
        folder = path.parent.relative_to(ROOT / "notebooks").name
        titles[folder].append(f"- [{text.lstrip().splitlines()[0].lstrip('# ')}]({uri})")
    listed = [
        "# Notebooks",
        "",
        "CI runs each notebook from beginning to end.",
        "",
        "## Gallery",
        "",
        *titles["gallery"],
        "",
    ]
    yield "notebooks.md", "\n".join([*listed, "## Proofs and a tour", "", *titles[""], ""])


def _notebook(path: Path) -> str:
    return str(path.with_suffix(".md"))


def _commands(command: click.Command, name: str, level: int) -> Iterator[str]:
    """Yield a command with its options, and then its subcommands."""
    command = command.loaded() if isinstance(command, Command) else command
    yield from ("#" * level + f" {name}", "", command.help or "", "")
    rows = [parameter for parameter in command.params if parameter.name != "help"]
    if rows:
        yield from ("| option | default | meaning |", "|---|---|---|")
    for parameter in rows:
        flags = ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))
        if isinstance(parameter.type, click.Choice):
            flags += " " + " or ".join(map(str, parameter.type.choices))
        default = "required" if parameter.required else "" if parameter.default in (None, ()) else parameter.default
        yield f"| {flags} | {default} | {_cell(getattr(parameter, 'help', '') or '')} |"
    yield ""
    for word, below in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(below, f"{name} {word}", 2)


def _configuration() -> Iterator[str]:
    """Yield the fields of a host's TOML file by section."""
    yield from ("# Configuration of a host", "", "See `examples/two_hosts` for a commented file for each role.", "")
    yield from _section(HostsConfig, "Settings above the first section")
    yield from _section(OwnerConfig, "File of an owner who is no party")
    yield from _section(ClientConfig, "File of a client who is no party")
    yield from ("## [train]", "", "The [parameters of the estimators](../secure_tree.md#parameters).", "")


def _section(model: type[BaseModel], title: str) -> Iterator[str]:
    yield from (f"## {title}", "", (model.__doc__ or "").strip().replace("\n    ", "\n"), "")
    below = {}
    yield from ("| key | default | type | meaning |", "|---|---|---|---|")
    for name, entry in model.model_fields.items():
        found = [part for part in (entry.annotation, *_parts(entry.annotation)) if _is_model(part)]
        if found:
            below[f"[{name}.NAME]" if name in ("parties", "services") else f"[{name}]"] = found[0]
            continue
        default = "required" if entry.default is PydanticUndefined else _toml(entry.default)
        if name != "train":
            yield f"| `{name}` | {default} | {_cell(_type(entry.annotation))} | {_cell(entry.description or '')} |"
    yield ""
    for heading, section in below.items():
        yield from _section(section, heading)


def _parts(annotation: Any) -> Iterator[Any]:
    for part in get_args(annotation):
        yield part
        yield from _parts(part)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _type(annotation: Any) -> str:
    if isinstance(annotation, type) and not get_args(annotation):
        return _TYPES.get(annotation.__name__, annotation.__name__)
    words = [part for part in _parts(annotation) if isinstance(part, type | str) and part is not type(None)]
    return " or ".join(dict.fromkeys(f'`"{part}"`' if isinstance(part, str) else _type(part) for part in words))


def _toml(default: Any) -> str:
    """A default as the file would have it; nothing for a key that is left out."""
    return "" if default is None else f"`{json.dumps(default)}`"


def _protocols() -> Iterator[str]:
    """Yield every protocol with the header of its file."""
    yield from ("# Protocols", "", "Each file contains one protocol, and its header is the specification.", "")
    files: dict[str, list[str]] = {}
    for entry in entries():
        files.setdefault(entry.protocol.__module__, []).append(f"`{entry.protocol.__name__}`")
    for module, names in files.items():
        head = importlib.import_module(module).__doc__ or ""
        yield from (f"## {module.rpartition('.')[2]}", "", ", ".join(names), "", "```text", head.strip(), "```", "")


def _cell(text: str) -> str:
    return text.replace("|", "or").replace("\n", " ")
