"""The command line: parse, call, print. Imports from all layers below.

The streams that commands print on are here for commands of other packages, too.
"""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import fill
from typing import Annotated, Any

import typer

import decal
from decal.cli import plugins
from decal.cli.choose import CHOOSE_EXAMPLES, choose
from decal.cli.demo import DEMO_EXAMPLES, demo
from decal.cli.evaluate import EVALUATE_EXAMPLES, evaluate
from decal.cli.explore import EXPLORE_EXAMPLES, explore
from decal.cli.export import EXPORT_EXAMPLES, export
from decal.cli.models import FIT_EXAMPLES, PREDICT_EXAMPLES, fit, predict
from decal.cli.report import REPORT_EXAMPLES, report
from decal.cli.shift import SHIFT_EXAMPLES, shift
from decal.cli.terminal import messages, output, progress_bar, say, told
from decal.cli.triage import TRIAGE_EXAMPLES, triage

__all__ = ["app", "messages", "output", "progress_bar", "say"]


COMMAND_LINE = re.compile(r" +(\S+ \| )?decal |        ")
"""A command to copy, or the rest of one."""


class _Command(typer.core.TyperCommand):
    """A command whose help is short: no type for flags, and one long name for each option."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _shorten(self, ctx)
        super().format_help(ctx, formatter)
        formatter.buffer = [part.replace(UNBROKEN_HYPHEN, "-") for part in formatter.buffer]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for line in (self.epilog or "").splitlines():
            if not line.startswith(" "):
                formatter.write(f"\n{line}\n")
            elif COMMAND_LINE.match(line):  # is copied, so not broken
                formatter.write(f"{line[2:]}\n")
            else:
                text, width = _unbroken(line.strip()), formatter.width
                lines = fill(text, width, initial_indent="  ", subsequent_indent="    ")
                formatter.write(f"{lines}\n")


class _Commands(typer.core.TyperGroup):
    """Commands whose bad input ends in one line and exit code 2, not in a traceback."""

    listing = False
    """Whether commands are only listed, so that those of other packages need no import."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *plugins.names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in plugins.names():
            return own
        return (plugins.listed if self.listing else plugins.loaded)(cmd_name, _Command)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _shorten(self, ctx)
        listing = copy.copy(self)
        listing.listing = True
        super(_Commands, listing).format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _usage_errors_said(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings(), _usage_errors_said(ctx):
                warnings.showwarning = _warnings_said()
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError, ImportError) as error:
            say(f"decal {ctx.invoked_subcommand}: {told(error)}", style="red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            say("Stopped. Nothing half-written was left behind.", style="yellow")
            raise typer.Exit(130) from None


def _shorten(command: Any, ctx: Any) -> None:
    for option in command.get_params(ctx):
        if getattr(option, "is_flag", False):
            option.metavar = ""
        others = [name for name in option.opts if name.startswith("--")][1:]
        option.opts = [name for name in option.opts if name not in others]
        option.help = _unbroken(option.help)
    command.help = _unbroken(command.help)


UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"


def _unbroken(text: str | None) -> str:
    """Hyphens within words as lines are not broken at."""
    return re.sub(r"(?<=\w)-(?=\w)", UNBROKEN_HYPHEN, text or "")


UsageError: Any = typer.BadParameter.__base__  # which typer does not name


@contextmanager
def _usage_errors_said(ctx: Any) -> Iterator[None]:
    """Ends in one line if options are wrong, as all that is wrong does."""
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        name = " ".join(["decal", *filter(None, [ctx.invoked_subcommand])])
        wrong = error.format_message().rstrip(".")
        say(f"{name}: {wrong}. See {name} --help.", style="red")
        raise typer.Exit(2) from error


def _warnings_said() -> Callable[..., None]:
    """A function that says warnings; those of input once each, as whatever reads it warns."""
    said = set()

    def say_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
        what = str(message).partition(":")[0]
        if category is not decal.InputWarning or what not in said:
            say(f"Warning: {told(message)}", style="yellow")
        said.add(what)

    return say_warning


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
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

    Start with decal demo. With logits of your own: decal fit learns from labelled ones and grants a
    wish, decal report says what is possible for new ones.
    """


EXAMPLES: dict[Callable[..., None], str] = {
    fit: FIT_EXAMPLES,
    report: REPORT_EXAMPLES,
    predict: PREDICT_EXAMPLES,
    evaluate: EVALUATE_EXAMPLES,
    choose: CHOOSE_EXAMPLES,
    triage: TRIAGE_EXAMPLES,
    shift: SHIFT_EXAMPLES,
    explore: EXPLORE_EXAMPLES,
    export: EXPORT_EXAMPLES,
    demo: DEMO_EXAMPLES,
}
"""What is below the help of each command: headings, and below each lines, indented."""

for _command, _examples in EXAMPLES.items():
    _told = inspect.cleandoc(_command.__doc__ or "").split("\n\n")
    app.command(
        cls=_Command,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in _told),
        epilog=_examples,
    )(_command)
