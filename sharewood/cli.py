"""The command line `sharewood`."""

from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Boosted trees on secret shares.")


@app.callback()
def sharewood() -> None:
    """Boosted trees trained and served on data that two organisations may not show each other."""


@app.command()
def demo() -> None:
    """Train and predict between two party processes and a dealer process."""
    typer.echo("sharewood demo is not built yet", err=True)
    raise typer.Exit(2)


def main() -> None:
    app()
