"""The command line: one file per command.

Large libraries are imported only when a command runs, so that ``toolkit --help`` answers at once.
"""

import click

from toolkit.cli.doctor import doctor
from toolkit.cli.history import history
from toolkit.cli.lab import lab
from toolkit.cli.post import post
from toolkit.cli.process import one_line_errors
from toolkit.cli.tail import tail
from toolkit.cli.write import write
from toolkit.errors import needs_extra
from toolkit_gateway.cli.accept_loss import accept_loss
from toolkit_gateway.cli.config import config
from toolkit_gateway.cli.gateway import gateway
from toolkit_gateway.cli.lock import lock
from toolkit_gateway.cli.move import move

COMMANDS = [accept_loss, config, doctor, gateway, history, lab, lock, move, post, tail, write]


class _ToolkitGroup(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        with one_line_errors(), needs_extra("gateway"):
            return super().invoke(ctx)


@click.group(cls=_ToolkitGroup, context_settings={"help_option_names": ["-h", "--help"]}, commands=COMMANDS)
@click.version_option(package_name="gateway-toolkit", prog_name="toolkit")
def main() -> None:
    """Four services in a notebook, and the gateway behind them.

    Begin with `toolkit lab`: it opens the notebooks in your browser.
    """
