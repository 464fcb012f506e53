"""The `videodataset` command; one file per subcommand, heavy imports inside them."""

import typer

from videodataset.cli.demo import demo
from videodataset.cli.doctor import doctor
from videodataset.cli.index import index
from videodataset.cli.inspect import inspect

app = typer.Typer(
    help="Exact random access to the frames of videos, for training.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(inspect)
app.command()(index)
app.command()(doctor)
app.command()(demo)

__all__ = ["app"]
