"""`profile`, `trust`, `env` and `schema`: what a server gets, and who may say so."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from mcp_launch.cli.app import App, TakesRunCommand, app
from mcp_launch.cli.parameters import Dry, Hosts, Json, Yes, offer_servers

_profile = App(
    help="Add and list profiles: what mcp-launch does for a server, whichever host starts it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(_profile, name="profile")


@_profile.command("add")
def _profile_add(  # noqa: PLR0913  # typer wants a parameter for each option
    server: Annotated[str, typer.Argument(help="A server of a host.", metavar="SERVER")],
    *,
    host: Hosts = None,
    project: Annotated[
        bool,
        typer.Option("--project", help="Add it to the project's .mcp-launch.toml, without values."),
    ] = False,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Also put the command and the variables into the profile."),
    ] = False,
    move: Annotated[
        bool,
        typer.Option(
            "--move", help="Move the command; the entry becomes mcp-launch run --server NAME."
        ),
    ] = False,
    yes: Yes = False,
    dry_run: Dry = False,
    as_json: Json = False,
) -> None:
    """Make a profile from a server's entry in a host's file.

    Shows it, and asks before it writes. The profile has the entry's settings: cwd, env_vars,
    and options of run. Command and variables stay in the entry, unless you add --whole
    (both are also in the profile) or --move (the command is only in the profile).

    \b
    Examples:
      mcp-launch profile add docs --dry-run     only show it
      mcp-launch profile add docs --host codex  if several hosts have docs
      mcp-launch profile add docs --whole       for other hosts' entries, such as
                                                mcp-launch run --server docs
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import profile

    request = profile.AddRequest(server, host or [], project, whole, move, yes, dry_run, as_json)
    raise typer.Exit(profile.add(request, os.environ))


@_profile.command("list")
def _profile_list(*, as_json: Json = False) -> None:
    """List the profiles that apply here: your own, and the project's.

    Exit code: 0, or 1 if a file is invalid or may not be used.
    """
    from mcp_launch.commands import profile_list

    raise typer.Exit(profile_list.run(os.environ, is_json=as_json))


@app.command("trust")
def _trust(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A .mcp-launch.toml or its directory; default: this project's.",
            show_default=False,
        ),
    ] = "",
    *,
    yes: Yes = False,
    dry_run: Dry = False,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting it.")] = False,
    as_json: Json = False,
) -> None:
    """Allow a project's .mcp-launch.toml to be used, as it is now.

    Shows what the file would do, and what has changed since you trusted it. Trust ends when the
    file changes.

    \b
    Examples:
      mcp-launch trust             the file of this project
      mcp-launch trust --forget    stop trusting it
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import trust

    request = trust.TrustRequest(path, yes, dry_run, forget, as_json)
    raise typer.Exit(trust.run(request, os.environ))


@app.command("env", cls=TakesRunCommand)
def _env(  # noqa: PLR0913  # typer wants a parameter for each option
    context: typer.Context,
    server: Annotated[
        str,
        typer.Argument(
            help="A server of a host or profile; or, after --, the arguments of `run`.",
            metavar="SERVER",
            show_default=False,
            autocompletion=offer_servers,
        ),
    ] = "",
    *,
    host: Hosts = None,
    explain: Annotated[
        str,
        typer.Option(
            "--explain",
            metavar="NAME",
            help="Show where this variable, or option of `run` (--start), comes from.",
        ),
    ] = "",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Also list the variables that are passed on."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what a server started here would get, and where each value comes from.

    Starts nothing. Exit code: 0, or 1 if the launch would fail or the variable is missing.

    \b
    Examples:
      mcp-launch env docs                       as its host would start it here
      mcp-launch env docs --explain API_KEY     where one variable is looked for
      mcp-launch env docs --explain --cwd       where a setting comes from
      mcp-launch env -- --pass-env safe npx x   as `mcp-launch run` would start it
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import env

    request = env.EnvRequest(server, host or [], explain, as_json, context.obj, verbose)
    raise typer.Exit(env.run(request, os.environ))


@app.command("schema")
def _schema(
    name: Annotated[
        str,
        typer.Argument(
            help="config, project, or a command that prints JSON; default: list them all.",
            metavar="SCHEMA",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Print the JSON Schema of a profile file, or of what a command prints with --json.

    With it, editors complete and check ~/.config/mcp-launch/config.toml (config) and
    .mcp-launch.toml (project).

    \b
    Examples:
      mcp-launch schema          list all schemas
      mcp-launch schema ps       of what `mcp-launch ps --json` prints
      mcp-launch schema config > ~/.config/mcp-launch/config.schema.json
                                 for editors; the first line of config.toml
                                 is then: #:schema ./config.schema.json
    """  # noqa: D301  # typer's mark for lines to keep as they are
    from mcp_launch.commands import schema

    raise typer.Exit(schema.run(name))
