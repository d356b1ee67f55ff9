"""`toolkit write`: write a text in handwriting to a file."""

from pathlib import Path
from typing import Any

import click

from toolkit.cli.options import URL, local_url
from toolkit.cli.process import stdin
from toolkit.handwriting.wire import ALIGNS, PAPERS, PENS, FileKind

_KIND_OF_SUFFIX: dict[str, FileKind] = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


def _check_output(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in _KIND_OF_SUFFIX:
        raise click.BadParameter("the name must end in .png, .pdf or .svg", context, parameter)
    return path


@click.command()
@click.argument("text")
@click.option("--hand", metavar="NAME", required=True, help="Title or id of a handwriting, such as Molly.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=_check_output,
    help="The file to write; its name ends in .png, .pdf or .svg.",
)
@click.option("--seed", type=click.IntRange(min=0), help="The same seed gives the same writing; it is printed.")
@click.option("--pen", type=click.Choice(PENS), help="The kind of pen.")
@click.option("--natural/--plain", default=None, help="Vary as a person does; a letter does, unless --plain.")
@click.option("--paper", type=click.Choice(PAPERS), help="Write on paper, as a scanner shows it.")
@click.option("--size", "handwriting_size", metavar="DISTANCE", help="Height of a capital letter, such as 4mm.")
@click.option("--color", "handwriting_color", metavar="COLOR", help="Color of the ink, such as navy or #13a.")
@click.option("--page", metavar="PAGE", help="A letter on pages of A3 to A6, Letter, Legal or 12cmx8cm.")
@click.option("--margin", metavar="DISTANCE", help="Margins, such as 2cm, or TOP,RIGHT,BOTTOM,LEFT.")
@click.option("--align", type=click.Choice(ALIGNS), help="Vertical position of the text on the page.")
@click.option("--line-spacing", type=float, help="Distance between lines, in multiples of the size.")
@click.option("--background", metavar="COLOR", help="Color under the ink of a .png or .svg; else transparent.")
@URL
def write(
    text: str,
    hand: str,
    output: Path,
    seed: int | None,
    page: str | None,
    background: str | None,
    url: str | None,
    **look: Any,  # noqa: ANN401 - the other options, named like the options of `Style`
) -> None:
    """Write TEXT in handwriting to a file.

    With "-", the text comes from stdin. The page is as high as the text needs; with --page, which needs a .pdf, there
    are as many pages as the text needs. If no gateway runs on this machine, the command starts one for this text. A
    gateway at $TOOLKIT_URL gets the apikey in $TOOLKIT_APIKEY.

    \b
      toolkit write "Dear Ada" --hand Molly -o note.png
      toolkit write - --hand Molly --page A4 -o letter.pdf < letter.txt
    """  # noqa: D301 - click keeps the lines behind \b as they are
    if page is not None and output.suffix.lower() != ".pdf":
        raise click.BadOptionUsage("--page", "--page writes a letter: the name of the file must end in .pdf")
    if text == "-":
        try:
            text = stdin().read().decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise click.ClickException("the text on stdin is not UTF-8") from None
    from toolkit.connection import connect
    from toolkit.handwriting.client.handwriting import renderer_of
    from toolkit.handwriting.client.style import PageStyle

    kind, page_size = _KIND_OF_SUFFIX[output.suffix.lower()], None if page is None else _page_size(page)
    with connect(url or local_url()) as tk:
        if page_size is not None:
            given = {name: value for name, value in look.items() if value is not None}
            letter = tk.handwriting.letter(text, hand, page=page_size, random_seed=seed, **given)
            letter.save(output, background=background)
            click.echo(f"{output}: {letter!r}")
            return
        style: PageStyle = {**look, "random_seed": seed}  # type: ignore[typeddict-item]
        rendering = renderer_of(tk.handwriting).render(text, hand, kind, style)
        rendering.save(output, background=background)
    click.echo(f"{output}: {rendering!r}")
    if rendering.overflow:
        click.echo(f"Warning: some ink did not fit and was cut off, from the line {rendering.cut!r} on", err=True)


def _page_size(text: str) -> str | tuple[str, str]:
    width, _, height = text.lower().partition("x")
    return (width, height) if height else text
