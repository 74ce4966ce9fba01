"""Gemini CLI's files, and what it removes from a server's environment."""

from __future__ import annotations

import re

from mcp_launch.config_files.host_config import HostConfig
from mcp_launch.config_files.host_quirks import Environment, HostProgram, HostQuirks, Texts
from mcp_launch.config_files.knowledge import measure
from mcp_launch.hosts.plain.places import Place, list_at

# The variables that Gemini CLI removes by name, and those that it always keeps.
_STRIPS = re.compile(
    "TOKEN|SECRET|PASSWORD|PASSWD|KEY|AUTH|CREDENTIAL|CREDS|PRIVATE|CERT"
    "|^(CLIENT_ID|DB_URI|CONNECTION_STRING|AWS_DEFAULT_REGION|AZURE_CLIENT_ID|AZURE_TENANT_ID"
    "|SLACK_WEBHOOK_URL|TWILIO_ACCOUNT_SID|DATABASE_URL|GOOGLE_CLOUD_PROJECT"
    "|GOOGLE_CLOUD_ACCOUNT|FIREBASE_PROJECT_ID)$",
    re.IGNORECASE,
)
_KEEPS = re.compile("(PATH|HOME|LANG|SHELL|TMPDIR|USER|LOGNAME)$|GEMINI_CLI_")
TEXTS = Texts(borrowing=re.compile(r"\$\{?(\w+)\}?"), borrow="${}")

CONFIG = HostConfig(
    "gemini",
    "Gemini CLI",
    list_at(
        Place("", ("settings.json",), variable="GEMINI_CLI_HOME", below=".gemini"),
        Place(".gemini", ("settings.json",), "project"),
    ),
    knowledge=measure("0.61.0", "the process's; for an editor the agent's", "no", "no"),
    quirks=HostQuirks(
        program=HostProgram("gemini"),
        home_variable="GEMINI_CLI_HOME",
        environment=Environment(
            strips=_STRIPS,
            strips_secret_values=True,
            keeps=_KEEPS,
            kept_in=("security", "environmentVariableRedaction", "allowed"),
            added=(("GEMINI_CLI", "1"),),
        ),
        texts=TEXTS,
        cwd="honoured",
        json_extras="comments",
        losses=(
            ("user", "Gemini CLI does not start"),
            ("project", "Gemini CLI does not start here"),
        ),
    ),
)
