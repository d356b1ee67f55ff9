"""`toolkit write`: a text in handwriting, as a file."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.cli.gateway_url import local_url
from toolkit.cli.options import URL
from toolkit.cli.pipes import stdin
from toolkit.handwriting.wire import PAPERS, PENS, Format, Paper, Pen

_KINDS: dict[str, Format] = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


def _output(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in _KINDS:
        raise click.BadParameter("the name must end in .png, .pdf or .svg", context, parameter)
    return path


@click.command()
@click.argument("text")
@click.option("--hand", metavar="NAME", required=True, help="Title or id of a handwriting, as Molly.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=_output,
    help="Where to write; the end of its name says what: .png, .pdf or .svg.",
)
@click.option("--seed", type=click.IntRange(min=0), help="The same writing every time; the seed is printed.")
@click.option("--pen", type=click.Choice(PENS), help="The kind of pen.")
@click.option("--natural", is_flag=True, default=None, help="Let letters vary as a person's do.")
@click.option("--paper", type=click.Choice(PAPERS), help="Write on paper, as a scanner shows it.")
@URL
def write(
    text: str,
    hand: str,
    output: Path,
    seed: int | None,
    pen: Pen | None,
    natural: bool | None,
    paper: Paper | None,
    url: str | None,
) -> None:
    """Write TEXT in handwriting to a file.

    With "-" it writes the text on stdin. The page is as high as the text needs. If no gateway runs on this machine, it
    starts one for this text. A gateway that wants an apikey gets that of $TOOLKIT_APIKEY.

    \b
      toolkit write "Dear Ada" --hand Molly -o letter.pdf
    """  # noqa: D301 - click keeps the lines behind \b as they are
    if text == "-":
        text = _text_of_stdin()
    from toolkit.connection import connect
    from toolkit.handwriting.client.style import Style

    style = Style(height="auto", random_seed=seed, pen=pen, natural=natural, paper=paper)
    with connect(url or local_url()) as tk:
        done = tk.handwriting.rendered(text, hand, _KINDS[output.suffix.lower()], style)
        done.save(output)
    click.echo(f"{output}: {done!r}")
    if done.overflow:
        click.echo("Warning: some ink did not fit and was cut off", err=True)


def _text_of_stdin() -> str:
    try:
        return stdin().read().decode("utf-8").rstrip("\n")
    except UnicodeDecodeError:
        raise click.ClickException("the text on stdin is not UTF-8") from None
