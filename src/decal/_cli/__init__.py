"""The command line: parse, call, print. Imports from all layers below."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

import decal
from decal._cli.choose_alpha import CHOOSE_ALPHA_EXAMPLES, choose_alpha
from decal._cli.decide import DECIDE_EXAMPLES, decide
from decal._cli.demo import DEMO_EXAMPLES, demo
from decal._cli.evaluate import EVALUATE_EXAMPLES, evaluate
from decal._cli.explore import EXPLORE_EXAMPLES, explore
from decal._cli.export import EXPORT_EXAMPLES, export
from decal._cli.models import FIT_EXAMPLES, PREDICT_EXAMPLES, fit, predict
from decal._cli.pipes import with_pipes
from decal._cli.recalibrate import RECALIBRATE_EXAMPLES, recalibrate
from decal._cli.reproduce import REPRODUCE_EXAMPLES, reproduce
from decal._cli.shift import SHIFT_EXAMPLES, shift
from decal._cli.terminal import output, say
from decal._cli.triage import TRIAGE_EXAMPLES, triage

__all__ = ["app"]


class _Commands(typer.core.TyperGroup):
    """Commands whose bad input ends in one line and exit code 2, not in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _say_warning
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError, ImportError) as error:
            say(f"decal {ctx.invoked_subcommand}: {error}", style="red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            say("Stopped. Nothing half-written was left behind.", style="yellow")
            raise typer.Exit(130) from None


def _say_warning(message: Any, *_: Any, **__: Any) -> None:
    say(f"Warning: {message}", style="yellow")


app = typer.Typer(
    cls=_Commands,
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


app.command(epilog=FIT_EXAMPLES)(with_pipes(fit))
app.command(epilog=PREDICT_EXAMPLES)(with_pipes(predict))
app.command(epilog=EVALUATE_EXAMPLES)(with_pipes(evaluate))
app.command(epilog=CHOOSE_ALPHA_EXAMPLES)(with_pipes(choose_alpha))
app.command(epilog=DECIDE_EXAMPLES)(with_pipes(decide))
app.command(epilog=TRIAGE_EXAMPLES)(with_pipes(triage))
app.command(epilog=RECALIBRATE_EXAMPLES)(with_pipes(recalibrate))
app.command(epilog=SHIFT_EXAMPLES)(with_pipes(shift))
app.command(epilog=EXPLORE_EXAMPLES)(with_pipes(explore, ".html"))
app.command(epilog=EXPORT_EXAMPLES)(export)
app.command(epilog=DEMO_EXAMPLES)(demo)
app.command(epilog=REPRODUCE_EXAMPLES)(reproduce)
