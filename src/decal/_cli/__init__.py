"""The command line: parse, call, print. Imports from all layers below."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import decal
from decal._cli.demo import demo
from decal._cli.explore import EXPLORE_EXAMPLES, explore
from decal._cli.models import (
    EVALUATE_EXAMPLES,
    FIT_EXAMPLES,
    PREDICT_EXAMPLES,
    evaluate,
    fit,
    predict,
)
from decal._cli.reproduce import REPRODUCE_EXAMPLES, reproduce
from decal._cli.terminal import output, say

__all__ = ["app"]


class _Commands(typer.core.TyperGroup):
    """Commands whose bad input ends in one line and exit code 2, not in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError, ImportError) as error:
            say(f"decal {ctx.invoked_subcommand}: {error}", style="red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            say("Stopped. Nothing half-written was left behind.", style="yellow")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        output.print(f"decal {decal.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _decal(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Credal predictions from any classifier's logits.

    Start with [bold]decal demo[/]. With logits of your own: [bold]decal fit[/] learns from labelled
    ones how far they may move, [bold]decal predict[/] turns new ones into probability intervals.
    """


app.command(epilog=FIT_EXAMPLES)(fit)
app.command(epilog=PREDICT_EXAMPLES)(predict)
app.command(epilog=EVALUATE_EXAMPLES)(evaluate)
app.command(epilog=EXPLORE_EXAMPLES)(explore)
app.command()(demo)
app.command(epilog=REPRODUCE_EXAMPLES)(reproduce)
