"""`python -m videodataset`: the `videodataset` command."""

from videodataset.cli import app

app()
