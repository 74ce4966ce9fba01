"""Which server a call gets: by its session, and by the directory in which that works."""

# ruff: noqa: E501  # what hosts are told is compared word for word

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from core_playbooks import HELLO, Playbook, open_playbook
from fakes import make_context

from mcp_launch.broker.routing import ROUTES, Binding, Rule, Served, bind_by_call, route
from mcp_launch.launch.plan import IdentityInEnvironment, Plan
from mcp_launch.values import Found

if TYPE_CHECKING:
    from mcp_launch.hosts import Carries, State

ISOLATED: dict[str, Any] = {"carries": "many sessions", "on_change": "isolate"}

# The server of the host serves session a, and `server-2` is opened for session b.
TWO = """
    >> host: 1 tools/call {"_meta":{"session":"a"}}
    << server: #a tools/call {"_meta":{"session":"a"}}
    >> server: #a = {"from":"a"}
    << host: 1 = {"from":"a"}
    >> host: 2 tools/call {"_meta":{"session":"b"}}
    << start server-2
    >> started server-2
    << server-2: #b tools/call {"_meta":{"session":"b"}}
    >> server-2: #b = {"from":"b"}
    << host: 2 = {"from":"b"}
"""


def open_two(script: str = "", **settings: Any) -> Playbook:
    """Return a playbook of a host with two sessions, each with its server."""
    return open_playbook(TWO + script, **(ISOLATED | settings))


# The rule


def test_by_default_a_server_without_a_sessions_variables_serves_all() -> None:
    open_playbook("""
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: #a tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << server: #b tools/call {"_meta":{"session":"b"}}
    """)


def test_a_call_of_another_session_is_refused_if_asked() -> None:
    playbook = open_playbook(
        """
        >> host: 1 tools/call {"_meta":{"session":"s-1"},"name":"a"}
        << server: #a tools/call {"_meta":{"session":"s-1"},"name":"a"}
        >> host: 2 tools/call {"_meta":{"session":"s-2"},"name":"a"}
        << host: 2 refused [mcp-launch] this call belongs to session s-2, but this server serves session s-1: it was not delivered — fix: call from the session that this server was started for, or remove --on-change refuse
        >> host: 3 resources/read {"_meta":{"session":"s-2"}}
        << host: 3 error -31000 …session s-2…
        >> host: 4 tools/list
        << server: #d tools/list
        >> host: 5 tools/call {"name":"a"}
        << server: #e tools/call {"name":"a"}
        """,
        on_change="refuse",
    )

    call = playbook.find_call(b"2")
    assert (call.outcome, call.caller) == ("refused", ("s-2", None, None))
    assert "session s-2" in call.reason
    assert playbook.core.counts.refusals == 2


STATES: list[State] = ["unbound", "tentative", "confirmed"]
CARRIES: list[Carries] = ["one thread", "one session at a time", "many sessions"]
WRONG = {None: "nothing", "default": "a default variable", "requested": "a requested variable"}
ANYWAY = ["auto", "follow", "restart", "refuse", "isolate"]


class Candidate:
    """A server that may get a call of session s-same and thread t-same."""

    state = "ready"

    def __init__(
        self, state: State, wrong: str | None, *, is_same: bool, was_never_called: bool
    ) -> None:
        self.was_never_called = was_never_called
        plan = Plan(["srv"], Found("/work/app", "inherited"), {})
        plan.held = IdentityInEnvironment()
        if wrong:
            plan.held.add("session", "s-wrong", is_requested=wrong == "requested")
        which = "same" if is_same else "other"
        bound = Binding(state, f"s-{which}", f"t-{which}", "evidence")
        self.served = self.to_serve = Served(make_context(), bound, plan)

    def route(self, carries: Carries, on_change: str) -> str:
        claimed = Binding("confirmed", "s-same", "t-same", "the call")
        return route(claimed, [self], Rule(carries, on_change))[0]


def find_own(state: State, carries: Carries, on_change: str, *, same: bool, fresh: bool) -> str:
    """Return whose a server is, in the words of the table."""
    if fresh and not (state == "confirmed" and on_change != "auto"):
        return "nobody's"
    del carries
    return "the caller's" if state != "confirmed" or same else "another's"


def test_every_call_is_routed_as_the_table_says() -> None:
    used = set()
    booleans = itertools.product([True, False], repeat=2)
    columns = itertools.product(STATES, CARRIES, WRONG, ANYWAY, booleans)
    for state, carries, wrong, on_change, (same, fresh) in columns:
        whose = find_own(state, carries, on_change, same=same, fresh=fresh)
        row = whose, WRONG[wrong]
        used.add(row)
        expected = ROUTES[row]
        if expected == "by rule":
            is_bad = wrong == "requested"
            by_default = "restart" if carries == "one session at a time" else "isolate"
            rule = (by_default if is_bad else "follow") if on_change == "auto" else on_change
            verbs = {"follow": "deliver", "isolate": "open"}
            expected = verbs.get(rule, rule)
        candidate = Candidate(state, wrong, is_same=same, was_never_called=fresh)
        assert candidate.route(carries, on_change) == expected, (state, carries, wrong, on_change)
    assert used == ROUTES.keys(), "a row matches no request"


def test_of_several_servers_the_callers_own_gets_the_request_then_an_unclaimed_one() -> None:
    own = Candidate("confirmed", None, is_same=True, was_never_called=False)
    other = Candidate("confirmed", None, is_same=False, was_never_called=False)
    unclaimed = Candidate("unbound", None, is_same=False, was_never_called=True)
    claimed, rule = Binding("confirmed", "s-same", "", ""), Rule("many sessions", "isolate")

    assert route(claimed, [other, unclaimed, own], rule) == ("deliver", own)
    assert route(claimed, [other, unclaimed], rule) == ("deliver", unclaimed)
    assert route(claimed, [other], rule) == ("open", other)


def test_a_call_that_names_only_its_thread_keeps_the_session() -> None:
    bound = Binding("tentative", "s-old", "t-old", "")

    kept = bind_by_call(bound, (None, "t-old", None), "the call")
    other = bind_by_call(bound, (None, "t-new", None), "the call")

    assert (kept.state, kept.session, kept.thread) == ("confirmed", "s-old", "t-old")
    assert (other.state, other.session, other.thread) == ("confirmed", None, "t-new")


# Isolation


def test_each_session_keeps_its_server() -> None:
    open_two("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: #c tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: #d tools/call {"_meta":{"session":"b"}}
        >> host: 5 tools/call {"_meta":{"session":"a"}}
        << server: #e tools/call {"_meta":{"session":"a"}}
        >> server-2: #c = {}
        >> server-2: #d = {}
        << host: 4 = {}
    """)


def test_calls_of_a_session_wait_while_its_server_starts_and_no_others_do() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"_meta":{"session":"a"}}
        << server: #a tools/call {"_meta":{"session":"a"}}
        >> host: 2 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        >> host: 4 tools/call {"_meta":{"session":"a"}}
        << server: #d tools/call {"_meta":{"session":"a"}}
        >> host: 5 tools/call {"_meta":{"session":"c"}}
        << start server-3
        >> started server-2
        << server-2: #b tools/call {"_meta":{"session":"b"}}
        << server-2: #c tools/call {"_meta":{"session":"b"}}
        """,
        **ISOLATED,
    )


def test_no_session_waits_for_the_server_of_another() -> None:
    open_two("""
        >> died server 3
        << start server
        >> host: 3 tools/call {"_meta":{"session":"c"}}
        << start server-3
    """)


def test_what_concerns_no_session_goes_to_the_hosts_first_server() -> None:
    open_two("""
        >> host: 3 tools/list
        << server: #c tools/list
        >> host: 4 tools/list {"_meta":{"session":"b"}}
        << server: #d tools/list {"_meta":{"session":"b"}}
        >> host: 5 ping {"_meta":{"session":"z"}}
        << server: #e ping {"_meta":{"session":"z"}}
    """)


def test_a_call_that_names_no_session_gets_a_server_of_nobody() -> None:
    open_two("""
        >> host: 3 tools/call {"name":"x"}
        << start server-3
        >> started server-3
        << server-3: #c tools/call {"name":"x"}
        >> host: 4 tools/call {"name":"x"}
        << server-3: #d tools/call {"name":"x"}
    """)


def test_questions_of_two_servers_with_the_same_id_get_their_own_answers() -> None:
    open_two("""
        >> server: 7 elicitation/create
        << host: #q elicitation/create
        >> server-2: 7 elicitation/create
        << host: #r elicitation/create
        >> host: #r = {"of":"b"}
        << server-2: 7 = {"of":"b"}
        >> host: #q = {"of":"a"}
        << server: 7 = {"of":"a"}
    """)


def test_the_host_keeps_the_lists_of_the_first_server_and_its_settings_reach_all() -> None:
    open_playbook(
        """
        >> host: 1 tools/list
        << server: #a tools/list
        >> server: #a = {"tools":["x"]}
        << host: 1 = {"tools":["x"]}
        >> host: 2 tools/call {"_meta":{"session":"a"}}
        << server: #b tools/call {"_meta":{"session":"a"}}
        >> host: 3 logging/setLevel {"level":"info"}
        << server: #c logging/setLevel {"level":"info"}
        >> server: #c = {}
        << host: 3 = {}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << start server-2
        >> started server-2
        << server-2: #d logging/setLevel {"level":"info"}
        << server-2: #e tools/call {"_meta":{"session":"b"}}
        >> server-2: notifications/tools/list_changed
        >> server: notifications/tools/list_changed
        << host: notifications/tools/list_changed
        >> host: 5 logging/setLevel {"level":"debug"}
        << server-2: #f logging/setLevel {"level":"debug"}
        << server: #g logging/setLevel {"level":"debug"}
        """,
        **ISOLATED,
    )


def test_beyond_the_limit_the_server_that_was_idle_longest_is_ended() -> None:
    playbook = open_two(
        """
        >> after 5
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: #c tools/call {"_meta":{"session":"a"}}
        >> server: #c = {}
        << host: 3 = {}
        >> host: 4 tools/call {"_meta":{"session":"c"}}
        << end server-2: replaced
        << close server-2
        >> gone server-2
        << start server-2
        >> started server-2
        << server-2: #d tools/call {"_meta":{"session":"c"}}
        >> host: 5 tools/call {"_meta":{"session":"a"}}
        << server: #e tools/call {"_meta":{"session":"a"}}
        """,
        server_limit=2,
    )

    why = "the server of session b was ended, because --max-servers is 2"
    assert why in playbook.notes


AT_WORK = """
    >> host: 3 tools/call {"_meta":{"session":"a"}}
    << server: #c tools/call {"_meta":{"session":"a"}}
    >> host: 4 tools/call {"_meta":{"session":"b"}}
    << server-2: #d tools/call {"_meta":{"session":"b"}}
"""
HAS_SUBSCRIBED = """
    >> host: 3 tools/call {"_meta":{"session":"a"}}
    << server: #c tools/call {"_meta":{"session":"a"}}
    >> host: 4 resources/subscribe {"_meta":{"session":"b"},"uri":"u"}
    << server-2: #d resources/subscribe {"_meta":{"session":"b"},"uri":"u"}
    >> server-2: #d = {}
    << host: 4 = {}
"""


@pytest.mark.parametrize("script", [AT_WORK, HAS_SUBSCRIBED], ids=["at work", "subscribed"])
def test_a_server_that_is_needed_is_not_taken_away_from_its_session(script: str) -> None:
    open_two(
        f"""
        {script}
        >> host: 5 tools/call {{"_meta":{{"session":"c"}}}}
        << host: 5 refused [mcp-launch] srv already has 2 servers for other sessions, and each is at work or has a subscriber — fix: call again later, or allow more servers with --max-servers
        """,
        server_limit=2,
    )


def test_the_death_of_a_server_concerns_only_its_own_session() -> None:
    open_two("""
        >> host: 3 tools/call {"_meta":{"session":"a"}}
        << server: #c tools/call {"_meta":{"session":"a"}}
        >> host: 4 tools/call {"_meta":{"session":"b"}}
        << server-2: #d tools/call {"_meta":{"session":"b"}}
        >> died server-2 1
        << host: 4 refused …ended with exit code 1…
        >> server: #c = {}
        << host: 3 = {}
        >> host: 5 tools/call {"_meta":{"session":"b"}}
        << start server-2
    """)


def test_a_server_of_a_session_that_closes_its_stdin_is_replaced() -> None:
    open_two("""
        >> input closed by server-2
        >> after 0.5
        << end server-2: replaced
    """)


def test_all_servers_end_with_their_host() -> None:
    open_two("""
        >> input ended host
        << close server
        << close server-2
        >> died server 0
        >> after 2
        << cut server-2
        << end server-2: input ended
        >> died server-2 143
        << leave host: 0
    """)


def test_a_task_is_asked_for_at_the_server_that_made_it() -> None:
    open_two("""
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: #c tools/call {"_meta":{"session":"b"}}
        >> server-2: #c = {"task":{"taskId":"t","status":"working"}}
        << host: 3 = {"task":{"taskId":"t","status":"working"}}
        >> host: 4 tasks/get {"taskId":"t"}
        << server-2: #d tasks/get {"taskId":"t"}
        >> server-2: #d = {"taskId":"t","status":"completed"}
        << host: 4 = {"taskId":"t","status":"completed"}
        >> host: 5 tasks/result {"taskId":"t"}
        << server-2: #e tasks/result {"taskId":"t"}
        >> host: 6 tools/call {"_meta":{"session":"a"}}
        << server: #f tools/call {"_meta":{"session":"a"}}
        >> server: #f = {"task":{"taskId":"t","status":"working"}}
        << host: 6 = {"task":{"taskId":"t","status":"working"}}
        >> host: 7 tasks/get {"taskId":"t"}
        << host: 7 error -31000 …2 servers of different sessions have a task t…
        >> host: 8 tasks/get {"_meta":{"session":"a"},"taskId":"t"}
        << server: #g tasks/get {"_meta":{"session":"a"},"taskId":"t"}
    """)


def test_a_session_starts_its_server_in_its_own_directory() -> None:
    open_two("""
        >> host: 3 tools/call {"_meta":{"session":"c","place":"/work/other"}}
        << start server-3 in /work/other
        >> started server-3
        << server-3: #c tools/call {"_meta":{"session":"c","place":"/work/other"}}
    """)


def test_the_first_session_gets_the_server_that_runs_in_its_directory() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"_meta":{"session":"a","place":"/work/app"}}
        << server: #a tools/call {"_meta":{"session":"a","place":"/work/app"}}
        """,
        **ISOLATED,
    )


class Holding(Playbook):
    """A playbook whose plans hold the session in a variable that was asked for."""

    def _plan_for(self, context: Any, place: Any) -> tuple[Any, Plan]:
        context, plan = super()._plan_for(context, place)
        if session := getattr(context.session, "value", None):
            plan.held.add("session", session, is_requested=True)
        return context, plan


@pytest.mark.parametrize("place", ["", ',"place":"/work/other"'], ids=["here", "elsewhere"])
def test_a_requested_variable_makes_isolation_the_default(place: str) -> None:
    playbook = Holding(carries="many sessions")
    playbook.server.served.plan.held.add("session", "unknown yet", is_requested=True)
    where = " in /work/other" if place else ""
    playbook.play(f"""
        >> started server
        >> host: 0 initialize {HELLO}
        << host: 0 = …
        >> host: 1 tools/call {{"_meta":{{"session":"a"}}}}
        << end server: replaced
        << close server
        >> gone server
        << start server
        >> started server
        << server: #a tools/call {{"_meta":{{"session":"a"}}}}
        >> host: 2 tools/call {{"_meta":{{"session":"b"{place}}}}}
        << start server-2{where}
        >> host: 3 tools/call {{"_meta":{{"session":"a"}}}}
        << server: #b tools/call {{"_meta":{{"session":"a"}}}}
    """)


# What random schedules have found


def test_a_cancellation_that_names_a_session_starts_no_server() -> None:
    open_two("""
        >> host: notifications/cancelled {"requestId":2,"_meta":{"session":"b"}}
        >> host: notifications/cancelled {"requestId":9,"_meta":{"session":"c"}}
        >> host: 3 tools/call {"_meta":{"session":"b"}}
        << server-2: #c tools/call {"_meta":{"session":"b"}}
        >> host: notifications/cancelled {"requestId":3,"_meta":{"session":"a"}}
        << server-2: notifications/cancelled {"requestId":#c,"_meta":{"session":"a"}}
    """)


def test_progress_for_a_server_that_is_gone_reaches_no_other() -> None:
    open_two("""
        >> server-2: 1 sampling/createMessage {"_meta":{"progressToken":1}}
        << host: #q sampling/createMessage {"_meta":{"progressToken":#q}}
        >> host: notifications/progress {"progressToken":#q}
        << server-2: notifications/progress {"progressToken":1}
        >> died server-2 1
        << host: notifications/cancelled {"requestId":#q,…
        >> host: notifications/progress {"progressToken":#q}
    """)


# Roots

HERE = '{"roots":[{"uri":"file:///work/app"}]}'
ELSEWHERE = '{"roots":[{"uri":"file:///else%20where"}]}'


def open_agent(script: str = "", **settings: Any) -> Playbook:
    """Return a playbook of a host that starts servers where it runs itself."""
    playbook = open_playbook(is_host_directory=True, **settings)
    playbook.server.served.context.is_host_directory = True
    playbook.play(script)
    return playbook


def test_a_host_that_may_move_is_asked_for_its_roots() -> None:
    playbook = open_playbook(
        f"""
        >> after 0.1
        << host: #q roots/list
        >> host: #q = {ELSEWHERE}
        >> host: notifications/roots/list_changed
        << server: notifications/roots/list_changed
        >> after 0.1
        << host: #r roots/list
        """,
        moves_unannounced=True,
    )

    assert "the host works in /else where, the server in /work/app" in playbook.notes


def test_a_host_whose_server_asks_is_not_asked_twice() -> None:
    playbook = open_playbook(
        f"""
        >> server: 5 roots/list
        << host: #q roots/list
        >> after 1
        >> host: #q = {ELSEWHERE}
        << server: 5 = {ELSEWHERE}
        """,
        moves_unannounced=True,
    )

    assert "the host works in /else where, the server in /work/app" in playbook.notes


def test_a_call_does_not_wait_for_roots_that_cannot_change_its_routing() -> None:
    open_playbook(
        """
        >> host: 1 tools/call {"name":"x"}
        << host: #q roots/list
        << server: #a tools/call {"name":"x"}
        """,
        moves_unannounced=True,
    )


HELD_CALL = """
    >> host: 1 tools/call {"name":"x"}
    << host: #q roots/list
"""


def test_a_call_waits_for_roots_and_is_delivered_if_they_match() -> None:
    open_playbook(
        f"""
        {HELD_CALL}
        >> host: 2 tools/call {{"name":"y"}}
        >> host: #q = {HERE}
        << server: #a tools/call {{"name":"x"}}
        << server: #b tools/call {{"name":"y"}}
        """,
        moves_unannounced=True,
        on_change="refuse",
    )


def test_a_call_of_a_session_that_works_elsewhere_is_refused_if_asked() -> None:
    open_playbook(
        f"""
        {HELD_CALL}
        >> host: #q = {ELSEWHERE}
        << host: 1 refused [mcp-launch] this call belongs to an unknown session in /else where (the host's roots/list), but this server works in /work/app: it was not delivered — fix: …
        """,
        moves_unannounced=True,
        on_change="refuse",
    )


def test_a_call_does_not_wait_for_roots_for_ever_and_can_be_cancelled() -> None:
    open_playbook(
        f"""
        {HELD_CALL}
        >> host: 2 tools/call {{"name":"y"}}
        >> host: notifications/cancelled {{"requestId":1}}
        >> after 2
        << server: #b tools/call {{"name":"y"}}
        """,
        moves_unannounced=True,
        on_change="refuse",
    )


def test_the_host_is_not_asked_for_roots_if_the_directory_is_configured() -> None:
    open_playbook(">> after 10", moves_unannounced=True, cwd="/fixed")


def test_a_server_in_its_hosts_directory_stays_if_the_root_is_the_same() -> None:
    playbook = open_agent(f"""
        >> after 0.1
        << host: #q roots/list
        >> host: #q = {HERE}
        >> host: 1 tools/call {{"name":"x"}}
        << server: #a tools/call {{"name":"x"}}
    """)

    place = playbook.server.served.context.place
    assert (place.value, place.origin) == ("/work/app", "the host's roots/list")
    assert not playbook.server.served.context.is_host_directory


# The call is held, the roots are elsewhere, and a server is started there.
MOVED = f"""
    {HELD_CALL}
    >> host: #q = {ELSEWHERE}
    << end server: replaced
    << close server
    >> gone server
    << start server in /else where
"""
FAILED_STARTS = {
    "start": ">> failed server",
    "early end": f"""
        >> started server
        << server: #h initialize {HELLO}
        >> died server 3
    """,
    "no answer": f"""
        >> started server
        << server: #h initialize {HELLO}
        >> after 120
        << end server: input ended
        >> died server 143
    """,
}


def test_a_server_is_started_in_the_root_of_its_session() -> None:
    open_agent(f"""
        {MOVED}
        >> started server
        << server: #a tools/call {{"name":"x"}}
        >> host: 2 tools/call {{"name":"y"}}
        << server: #b tools/call {{"name":"y"}}
    """)


@pytest.mark.parametrize("failure", list(FAILED_STARTS.values()), ids=list(FAILED_STARTS))
def test_a_server_that_cannot_work_in_the_root_directory_works_in_its_hosts(failure: str) -> None:
    playbook = open_agent(MOVED)
    playbook.greeting, greeting = "", playbook.greeting
    playbook.play(f"{failure}\n<< start server")
    playbook.greeting = greeting
    playbook.play(f"""
        >> started server
        << server: #a tools/call {{"name":"x"}}
        >> host: notifications/roots/list_changed
        << server: notifications/roots/list_changed
        >> after 0.1
        << host: #r roots/list
        >> host: #r = {ELSEWHERE}
        >> host: 3 tools/call {{"name":"x"}}
        << server: #c tools/call {{"name":"x"}}
    """)

    assert playbook.server.served.context.is_host_directory
    assert any("another starts where its host runs" in note for note in playbook.notes)


def test_a_server_that_cannot_be_planned_in_the_root_directory_stays_in_its_hosts() -> None:
    playbook = open_agent()
    playbook.plan_problem = "no such variable there"
    playbook.play(f"""
        {HELD_CALL}
        >> host: #q = {ELSEWHERE}
        << server: #a tools/call {{"name":"x"}}
    """)


ODD_ROOTS: dict[str, list[Any]] = {
    "another machine": ["file://host/else"],
    "a relative path": ["file://else"],
    "no file": ["https://example.com/else"],
    "missing": ["file:///missing"],
    "no text": [5, None],
}


@pytest.mark.parametrize("uris", list(ODD_ROOTS.values()), ids=list(ODD_ROOTS))
def test_a_root_that_no_server_can_work_in_changes_nothing(uris: list[Any]) -> None:
    playbook = open_agent(
        f"""
        {HELD_CALL}
        >> host: #q = {json.dumps({"roots": [{"uri": uri} for uri in uris]})}
        << server: #a tools/call {{"name":"x"}}
        """,
        is_directory=lambda path: path != "/missing",
    )

    assert playbook.server.served.context.is_host_directory


def test_the_first_root_that_is_a_directory_counts() -> None:
    uris = ["file://host/a", "file:///missing", "file://localhost/else", "file:///other"]
    open_agent(
        f"""
        {HELD_CALL}
        >> host: #q = {json.dumps({"roots": [{"uri": uri} for uri in uris]})}
        << end server: replaced
        << close server
        >> gone server
        << start server in /else
        """,
        is_directory=lambda path: path != "/missing",
    )


def test_a_call_from_a_directory_inside_its_hosts_gets_a_server_there() -> None:
    open_agent("""
        >> after 0.1
        << host: #q roots/list
        >> host: #q = {"roots":[]}
        >> host: 1 tools/call {"_meta":{"session":"s1","place":"/work/app/part"},"name":"x"}
        << end server: replaced
        << close server
        >> gone server
        << start server in /work/app/part
    """)
