"""Policies of a profile: which tools, and with which arguments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from core_playbooks import make_plan
from fakes import make_context
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.broker.policies import PinnedArguments, ToolPolicy
from mcp_launch.broker.request import Request
from mcp_launch.broker.routing import NotAdmitted, Served, bind_at_start
from mcp_launch.protocol.message import read, splice
from mcp_launch.system import is_of_process
from mcp_launch.values import Found


@pytest.mark.parametrize(
    ("globs", "shown"),
    [
        ({}, ["read_a", "read_b", "delete_a"]),
        ({"allow": ["read_*"]}, ["read_a", "read_b"]),
        ({"deny": ["delete_*"]}, ["read_a", "read_b"]),
        ({"allow": ["*_a"], "deny": ["delete_*"]}, ["read_a"]),
        ({"allow": ["READ_*"]}, []),
        ({"allow": []}, []),
    ],
)
def test_a_list_is_filtered_on_every_page(globs: dict[str, list[str]], shown: list[str]) -> None:
    names = ["read_a", "read_b", "delete_a"]
    tools = [{"name": name, "inputSchema": {"n": 1.10}} for name in names]
    line = json.dumps({"id": 1, "result": {"tools": tools, "nextCursor": "2"}}).encode() + b"\n"

    filtered = json.loads(ToolPolicy(globs).filter(line))

    assert [tool["name"] for tool in filtered["result"]["tools"]] == shown
    assert filtered["result"]["nextCursor"] == "2"


def test_a_list_of_which_nothing_is_hidden_keeps_every_byte() -> None:
    line = b'{ "id":1, "result":{"tools": [ {"name":"a"} , {"name":"b","x":1.0} ]}}\n'

    assert ToolPolicy({"deny": ["c"]}).filter(line) == line


def test_a_tool_that_is_nested_too_deeply_to_be_read_hides_no_other() -> None:
    deep = "[" * 60_000 + "]" * 60_000
    tools = '{"name":"read","inputSchema":%s},{"name":"delete"},{"inputSchema":%s,"name":"drop"}'
    line = ('{"id":1,"result":{"tools":[%s]}}' % (tools % (deep, deep))).encode() + b"\n"

    filtered = ToolPolicy({"deny": ["d*"]}).filter(line)

    assert b'"read"' in filtered
    assert b'"delete"' not in filtered
    assert b'"drop"' not in filtered


@pytest.mark.parametrize("name", ["delete_a\n", " delete_a", "delete_\0a", "delete\u200b_a"])
def test_a_name_that_some_servers_trim_is_still_hidden(name: str) -> None:
    assert not ToolPolicy({"deny": ["delete_a"]}).allows(name)


# Arguments


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project beside another one, with links between them."""
    for name in ("app/src", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "app" / "out").symlink_to(tmp_path / "other")
    (tmp_path / "app" / "in").symlink_to(tmp_path / "app" / "src")
    return tmp_path / "app"


def review(  # noqa: PLR0913  # each named at the call
    arguments: Any,
    pins: dict[str, Any],
    project: Path,
    *,
    tools: dict[str, Any] | None = None,
    tool: str = "t",
    environ: dict[str, str] | None = None,
) -> tuple[Any, tuple[str, ...]]:
    """Return the arguments that a server gets, or the refusal; and what was changed."""
    said = {"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    if arguments is None:
        del said["params"]["arguments"]  # type: ignore[attr-defined]
    call = make_call(json.dumps(said).encode() + b"\n", project)
    assert call.served is not None
    call.served.plan.environ.update(environ or {})
    reviewed = review_call(call, pins, tools or {})
    if isinstance(reviewed, NotAdmitted):
        return reviewed, call.changed
    return json.loads(reviewed)["params"].get("arguments"), call.changed


def resolve_path(path: str, directory: str) -> str:
    """Return the real path of one seen from a directory; empty if each process has its own."""
    joined = os.path.join(directory, path)
    return "" if is_of_process(joined) else os.path.realpath(joined)


def make_call(line: bytes, project: Path) -> Request:
    """Return a call of a session in a project."""
    context = make_context().at(Found(str(project), "test"))
    context = context._change(project_root=Found(str(project), "test"))  # noqa: SLF001
    call = Request(b"1", None, read(line), 0.0)
    call.served = Served(context, bind_at_start(context.identity), make_plan(str(project)))
    return call


def review_call(
    call: Request, pins: dict[str, Any], tools: dict[str, Any] | None = None
) -> bytes | NotAdmitted:
    """Return the call as a server gets it, or why it does not."""
    reviewed = PinnedArguments("srv", pins, tools or {}, "/home/me", resolve_path).review(call)
    if isinstance(reviewed, NotAdmitted):
        return reviewed
    return splice(call.message.line, reviewed)


INSIDE = {"cwd": {"inside": "project_root"}}


@pytest.mark.parametrize("path", ["{project}", "{project}/src", "{project}/in/../new"])
def test_an_absolute_path_inside_passes_as_it_is(path: str, project: Path) -> None:
    given = {"cwd": path.format(project=project), "x": 1.5}

    assert review(given, INSIDE, project) == (given, ())


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "{}"),
        (".", "{}"),
        ("src", "{}/src"),
        ("src/../src", "{}/src/../src"),
        ("in", "{}/in"),
        ("new/directory", "{}/new/directory"),
        (["src", "."], ["{}/src", "{}"]),
    ],
)
def test_a_relative_path_is_that_of_the_session(path: Any, sent: Any, project: Path) -> None:
    """A server may look for relative paths in a directory that only it knows."""
    got, changed = review({"cwd": path, "x": 1.5}, INSIDE, project)

    parts = sent if isinstance(sent, list) else [sent]
    absolute = [one.format(project) for one in parts]
    assert got == {"cwd": absolute if isinstance(sent, list) else absolute[0], "x": 1.5}
    assert changed == ("cwd",)


def test_a_path_in_the_home_is_written_out(project: Path) -> None:
    """Not every server expands `~`."""
    pins = {"cwd": {"inside": "/home/me"}}

    assert review({"cwd": "~/x"}, pins, project)[0] == {"cwd": "/home/me/x"}


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "/",
        "src/../../other",
        "out",
        "out/sub",
        "~",
        "~/x",
        "~root/x",
        "file:///etc",
        "FILE:///etc",
        "file://localhost/etc",
        "{project}x",
        "{project}/../other",
        "a\0b",
        "src/\ud800",
        " /etc",
        "\x01/etc",
        "in/../../other",
        "{project}/in/../../app-2",
        "file:etc",
        "file:///{project}/%00",
        "file:///etc?/../..{project}",
        "file:///etc#/../..{project}",
        "file://LOCALHOST/etc",
        "file://elsewhere{project}",
        "file:\\\\\\etc",
        "file://{project}\\..\\..",
        "file://{project}/..%2fother",
        "fi\tle:///etc",
        " file:///etc",
        "\x1ffile:///etc",
        "\ufeff/etc",
        "$OUTSIDE/x",
        "src/${{OUTSIDE}}",
        "/proc/self/cwd/src",
        "//proc/self/cwd",
        "{project}/../../../../../../../proc/self/cwd",
        "/dev/fd/3",
    ],
)
def test_a_path_outside_is_refused(path: str, project: Path) -> None:
    environ = {"OUTSIDE": "../../elsewhere"}
    given = {"cwd": path.format(project=project)}
    refused, changed = review(given, INSIDE, project, environ=environ)

    assert isinstance(refused, NotAdmitted)
    assert changed == ()


@pytest.mark.parametrize("name", ["~$letter.docx", "$id.tsx", "a$b", "proc/self", "$HERE"])
def test_odd_names_of_files_inside_pass(name: str, project: Path) -> None:
    got, _ = review({"cwd": name}, INSIDE, project, environ={"HERE": "src"})

    assert got == {"cwd": f"{project}/{name}"}


@pytest.mark.parametrize("url", ["file://{}", "FILE://localhost{}/src", "file:{}/a%20b"])
def test_a_plain_file_url_inside_passes(url: str, project: Path) -> None:
    given = {"cwd": url.format(project)}

    assert review(given, INSIDE, project) == (given, ())


def test_a_path_has_to_be_inside_for_servers_that_resolve_dots_before_links(project: Path) -> None:
    """For them `deep/../x` is beside the link, for others beside the directory it leads to."""
    (project / "src" / "a" / "b").mkdir(parents=True)
    (project / "deep").symlink_to(project / "src" / "a" / "b")

    refused, _ = review({"cwd": "deep/../../x"}, INSIDE, project)

    assert isinstance(refused, NotAdmitted)
    assert not isinstance(review({"cwd": "deep/../x"}, INSIDE, project)[0], NotAdmitted)


def review_text(arguments: str, pins: dict[str, Any], project: Path) -> Any:
    """Return what becomes of arguments that Python would not write."""
    written = '{"id":1,"method":"tools/call","params":{"name":"t","arguments":%s}}'
    return review_call(make_call((written % arguments).encode() + b"\n", project), pins)


DEEP = "[" * 60_000 + "]" * 60_000


@pytest.mark.parametrize(
    "arguments",
    [
        '{"cwd":"/etc","cwd":"."}',
        '{"cwd":"/etc","\\u0063wd":"."}',
        f'{{"cwd":["/etc",{DEEP}]}}',
        f'{{"cwd":{DEEP}}}',
        '{"cwd":"\\ud800"}',
        '{"cwd":["\\ud800"]}',
        '{"cwd":%s}' % ("1" * 5000),
    ],
)
def test_a_path_that_cannot_be_checked_is_refused(arguments: str, project: Path) -> None:
    assert isinstance(review_text(arguments, INSIDE, project), NotAdmitted)


@pytest.mark.parametrize("value", ["null", DEEP, '{"a":1}'])
def test_an_argument_is_set_whatever_it_was(value: str, project: Path) -> None:
    got = review_text(f'{{"config":{value},"n":1.10}}', {"config": {"value": "safe"}}, project)

    assert got.endswith(b'"arguments":{"config":"safe","n":1.10}}}\n')


def test_a_null_stays_where_a_path_may_be_left_out(project: Path) -> None:
    pins = {"cwd": {"inside": "project_root"}}

    assert b'{"cwd":null}' in review_text('{"cwd":null}', pins, project)


def test_a_refusal_names_both_paths_but_the_record_only_ours(project: Path) -> None:
    refused, _ = review({"cwd": "../other"}, INSIDE, project)

    assert str(project) in refused.problem
    assert str(project.parent / "other") in refused.problem
    assert "other" not in refused.recorded


@pytest.mark.parametrize("given", [{}, {"cwd": None}])
def test_a_path_may_be_missing(given: Any, project: Path) -> None:
    assert review(given, INSIDE, project) == (given, ())


@pytest.mark.parametrize("given", [1, True, {"a": 1}, ["src", ".."], ["src", 1]])
def test_what_is_not_a_path_inside_is_refused(given: Any, project: Path) -> None:
    refused, _ = review({"cwd": given}, INSIDE, project)

    assert isinstance(refused, NotAdmitted)


@pytest.mark.parametrize("given", [None, {}, {"n": 1, "mode": "wild"}])
def test_a_value_is_set_and_all_else_stays(given: Any, project: Path) -> None:
    got, changed = review(given, {"mode": {"value": "safe"}}, project)

    assert got == {**(given or {}), "mode": "safe"}
    assert changed == ("mode",)


def test_a_value_that_is_right_is_not_changed(project: Path) -> None:
    assert review({"mode": "safe"}, {"mode": {"value": "safe"}}, project)[1] == ()


def test_a_tool_has_pins_of_its_own(project: Path) -> None:
    tools = {"t*": {"a": {"value": 1}}, "u": {"b": {"value": 2}}}

    assert review({}, {"a": {"value": 0}}, project, tools=tools)[0] == {"a": 1}


@pytest.mark.parametrize("name", ["t", " t", "t\n", "t\u200b", "\ufefft"])
def test_a_tool_has_its_pins_however_its_name_is_written(name: str, project: Path) -> None:
    pins = {"t": {"mode": {"value": "safe"}}}

    assert review({"mode": "wild"}, {}, project, tools=pins, tool=name)[0] == {"mode": "safe"}


def test_an_argument_in_other_letters_is_refused(project: Path) -> None:
    refused, _ = review({"CWD": "/etc"}, INSIDE, project)

    assert isinstance(refused, NotAdmitted)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(arguments=st.dictionaries(st.text(max_size=6), json_values, max_size=4))
def test_everything_else_in_the_arguments_stays(arguments: dict[str, Any]) -> None:
    """Whatever the host sends, only the pinned argument is changed."""
    if any(name.casefold() == "pin" for name in arguments):
        return

    got, changed = review(arguments, {"pin": {"value": "x"}}, Path("/"))

    assert got == {**arguments, "pin": "x"}
    assert changed == ("pin",)


@given(parts=st.lists(st.sampled_from(["..", ".", "a", "b", "out", "in", "src"]), max_size=6))
def test_no_path_escapes(parts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.getbasetemp() / "escape"
    if not root.exists():
        (root / "app" / "src").mkdir(parents=True)
        (root / "other").mkdir()
        (root / "app" / "out").symlink_to(root / "other")
        (root / "app" / "in").symlink_to(root / "app" / "src")
    project = root / "app"

    got, _ = review({"cwd": "/".join(parts)}, {"cwd": {"inside": "project_root"}}, project)

    real = os.path.realpath(project / "/".join(parts))
    is_inside = os.path.commonpath([real, os.path.realpath(project)]) == os.path.realpath(project)
    assert isinstance(got, NotAdmitted) != is_inside
