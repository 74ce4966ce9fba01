"""Several hosts at one server, several servers behind one host: messages are kept apart."""

from __future__ import annotations

from broker_playbooks import Playbook

from mcp_launch.broker.routing import Binding, Served

SHARED = """
    >> started 1
    >> a: 0 initialize
    << 1: 0 initialize
    >> 1: 0 = {"capabilities":{"tools":{"listChanged":true}}}
    << a: 0 = {"capabilities":{"tools":{"listChanged":true}}}
    >> a: notifications/initialized
    << 1: notifications/initialized
    >> b: 0 initialize
    << 1: "mcp-launch/1" initialize
    >> 1: "mcp-launch/1" = {"capabilities":{"tools":{"listChanged":true}}}
    << b: 0 = {"capabilities":{"tools":{"listChanged":true}}}
"""


def open_shared() -> Playbook:
    """Return a playbook of two hosts that share a server."""
    playbook = Playbook(connections=("a", "b"), backends=("1",))
    playbook.play(SHARED)
    return playbook


def open_pair() -> Playbook:
    """Return a playbook of a host with a server for each of two sessions."""
    playbook = Playbook(backends=("1", "2"))
    for name in ("1", "2"):
        playbook.broker.backends[name].connections.append("host")
    playbook.play("""
        >> started 1
        >> started 2
        >> host: 0 initialize
        << 1: 0 initialize
        >> 1: 0 = {}
        << host: 0 = {}
    """)
    for name in ("1", "2"):
        backend = playbook.broker.backends[name]
        bound = Binding("confirmed", f"s-{name}", None, "a call")
        backend.served = Served(backend.served.context, bound, backend.served.plan)
        backend.calls += 1
    return playbook


# Two hosts, one server


def test_equal_ids_of_two_hosts_are_kept_apart() -> None:
    open_shared().play("""
        >> a: 1 tools/call {"name":"x"}
        << 1: "mcp-launch/2" tools/call {"name":"x"}
        >> b: 1 tools/call {"name":"y"}
        << 1: "mcp-launch/3" tools/call {"name":"y"}
        >> 1: "mcp-launch/3" = {"of":"b"}
        << b: 1 = {"of":"b"}
        >> 1: "mcp-launch/2" = {"of":"a"}
        << a: 1 = {"of":"a"}
    """)


def test_a_request_made_before_the_second_host_came_is_answered_to_the_first() -> None:
    beginning = b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 20_000
    playbook = Playbook(connections=("a", "b"), backends=("1",))
    playbook.play(f"""
        >> started 1
        >> b: 1 tools/call {{"_meta":{{"progressToken":7}}}}
        << 1: 1 tools/call {{"_meta":{{"progressToken":7}}}}
        >> a: notifications/x
        << 1: notifications/x
        >> 1: notifications/progress {{"progressToken":7}}
        << b: notifications/progress {{"progressToken":7}}
        >> 1: {beginning!r}
        >> 1: b'"}}\\n'
        << b: {beginning + b'"}' + bytes([10])!r}
    """)


def test_equal_progress_tokens_of_two_hosts_are_kept_apart() -> None:
    open_shared().play("""
        >> a: 1 tools/call {"_meta":{"progressToken":7}}
        << 1: "mcp-launch/2" tools/call {"_meta":{"progressToken":"mcp-launch/2"}}
        >> b: 1 tools/call {"_meta":{"progressToken":7}}
        << 1: "mcp-launch/3" tools/call {"_meta":{"progressToken":"mcp-launch/3"}}
        >> 1: notifications/progress {"progressToken":"mcp-launch/3","progress":1}
        << b: notifications/progress {"progressToken":7,"progress":1}
        >> 1: notifications/progress {"progressToken":"mcp-launch/2","progress":1}
        << a: notifications/progress {"progressToken":7,"progress":1}
        >> 1: "mcp-launch/3" = {}
        << b: 1 = {}
        >> 1: notifications/progress {"progressToken":"mcp-launch/3","progress":2}
    """)


def test_a_host_can_cancel_only_its_own_request() -> None:
    open_shared().play("""
        >> a: 1 ping
        << 1: "mcp-launch/2" ping
        >> b: notifications/cancelled {"requestId":1}
        >> b: 1 ping
        << 1: "mcp-launch/3" ping
        >> b: notifications/cancelled {"requestId":1}
        << 1: notifications/cancelled {"requestId":"mcp-launch/3"}
        >> 1: "mcp-launch/2" = {}
        << a: 1 = {}
    """)


def test_a_request_from_the_server_goes_to_the_only_host_with_an_open_call() -> None:
    open_shared().play("""
        >> b: 1 tools/call {"name":"x"}
        << 1: "mcp-launch/2" tools/call {"name":"x"}
        >> 1: 5 sampling/createMessage
        << b: "mcp-launch/L/1" sampling/createMessage
        >> a: "mcp-launch/L/1" = {"from":"a"}
        >> b: "mcp-launch/L/1" = {"from":"b"}
        << 1: 5 = {"from":"b"}
        >> 1: 6 sampling/createMessage
        << b: "mcp-launch/L/2" sampling/createMessage
        >> 1: notifications/cancelled {"requestId":6}
        << b: notifications/cancelled {"requestId":"mcp-launch/L/2"}
    """)


def test_a_request_from_the_server_is_refused_if_either_host_could_be_meant() -> None:
    open_shared().play("""
        >> a: 1 ping
        << 1: "mcp-launch/2" ping
        >> b: 1 ping
        << 1: "mcp-launch/3" ping
        >> 1: 5 sampling/createMessage
        << 1: 5 error -31000 [mcp-launch] several sessions share this server, and the request …
    """)


def test_a_notification_from_the_server_goes_to_both_hosts() -> None:
    open_shared().play("""
        >> 1: notifications/message {"data":1}
        << a: notifications/message {"data":1}
        << b: notifications/message {"data":1}
    """)


def test_streams_of_two_hosts_are_kept_apart() -> None:
    stream = "io.modelcontextprotocol/subscriptionId"
    open_shared().play(f"""
        >> a: 1 subscriptions/listen
        << 1: "mcp-launch/2" subscriptions/listen
        >> b: 1 subscriptions/listen
        << 1: "mcp-launch/3" subscriptions/listen
        >> 1: notifications/subscriptions/acknowledged {{"_meta":{{"{stream}":"mcp-launch/3"}}}}
        << b: notifications/subscriptions/acknowledged {{"_meta":{{"{stream}":1}}}}
        >> 1: notifications/resources/updated {{"_meta":{{"{stream}":"mcp-launch/2"}}}}
        << a: notifications/resources/updated {{"_meta":{{"{stream}":1}}}}
    """)


def test_both_hosts_get_errors_for_their_open_requests_when_the_server_dies() -> None:
    open_shared().play("""
        >> a: 1 ping
        << 1: "mcp-launch/2" ping
        >> b: 1 tools/call {"name":"begun"}
        << 1: "mcp-launch/3" tools/call {"name":"begun"}
        >> b: 2 tools/call {"name":"unread"}
        << 1: "mcp-launch/4" tools/call {"name":"unread"}
        >> exited 1 3
        >> gone 1 | "mcp-launch/4" tools/call {"name":"unread"}
        << a: 1 error -31000 …
        << b: 1 refused …
        << start 1
        >> started 1
        << timer greeting 1: 30
        << 1: "mcp-launch/L/1" initialize
        >> b: 3 ping
        >> a: 3 ping
        >> a: notifications/cancelled {"requestId":3}
        >> 1: "mcp-launch/L/1" = {}
        << 1: notifications/initialized
        << 1: "mcp-launch/5" tools/call {"name":"unread"}
        << 1: "mcp-launch/6" ping
        >> 1: "mcp-launch/6" = {}
        << b: 3 = {}
    """)


def test_both_hosts_are_notified_of_other_tools() -> None:
    open_shared().play("""
        >> a: 1 tools/list
        << 1: "mcp-launch/2" tools/list
        >> 1: "mcp-launch/2" = {"tools":[]}
        << a: 1 = {"tools":[]}
        >> gone 1
        << start 1
        >> started 1
        << timer greeting 1: 30
        << 1: "mcp-launch/L/1" initialize
        >> 1: "mcp-launch/L/1" = {}
        << 1: notifications/initialized
        << 1: "mcp-launch/L/2" tools/list
        >> 1: "mcp-launch/L/2" = {"tools":[1]}
        << a: notifications/tools/list_changed
        << b: notifications/tools/list_changed
    """)


def test_a_servers_stdin_stays_open_until_both_hosts_have_closed_theirs() -> None:
    open_shared().play("""
        >> host closed a
        >> b: 1 ping
        << 1: "mcp-launch/2" ping
        >> host closed b
        << timer grace: 2
        << close input of 1
    """)


def test_a_servers_stdout_stays_open_while_one_of_its_hosts_reads() -> None:
    open_shared().play("""
        >> reader lost a
        >> b: 1 ping
        << 1: "mcp-launch/2" ping
        >> reader lost b
        << close output of 1
    """)


# One host, two servers


def test_a_call_goes_to_the_server_of_its_session() -> None:
    open_pair().play("""
        >> host: 1 tools/call {"_meta":{"session":"s-2"}}
        << 2: 1 tools/call {"_meta":{"session":"s-2"}}
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << 1: 2 tools/call {"_meta":{"session":"s-1"}}
        >> 2: 1 = {}
        << host: 1 = {}
    """)


def test_equal_ids_at_two_servers_are_answered_once_each() -> None:
    open_pair().play("""
        >> host: 1 tools/call {"_meta":{"session":"s-2","progressToken":7}}
        << 2: 1 tools/call {"_meta":{"session":"s-2","progressToken":7}}
        >> host: "1" tools/call {"_meta":{"session":"s-1","progressToken":"7"}}
        << 1: "1" tools/call {"_meta":{"session":"s-1","progressToken":"7"}}
        >> 1: notifications/progress {"progressToken":"7"}
        << host: notifications/progress {"progressToken":"7"}
        >> 1: "1" = {}
        << host: "1" = {}
        >> gone 2
        << host: 1 refused …
    """)


def test_a_cancellation_reaches_the_server_that_was_asked() -> None:
    open_pair().play("""
        >> host: 1 tools/call {"_meta":{"session":"s-2"}}
        << 2: 1 tools/call {"_meta":{"session":"s-2"}}
        >> host: notifications/cancelled {"requestId":1}
        << 2: notifications/cancelled {"requestId":1}
    """)


def test_a_cancellation_takes_back_a_call_that_waits_for_its_server() -> None:
    playbook = open_pair()
    playbook.play("""
        >> gone 2
        >> host: 1 tools/call {"_meta":{"session":"s-2"}}
        << start 2
        >> host: notifications/cancelled {"requestId":1}
    """)

    assert not playbook.broker.backends["2"].queue


def test_requests_from_two_servers_are_kept_apart() -> None:
    open_pair().play("""
        >> 1: 5 sampling/createMessage
        << host: "mcp-launch/L/1" sampling/createMessage
        >> 2: 5 sampling/createMessage
        << host: "mcp-launch/L/2" sampling/createMessage
        >> host: "mcp-launch/L/2" = {}
        << 2: 5 = {}
        >> 1: notifications/cancelled {"requestId":5}
        << host: notifications/cancelled {"requestId":"mcp-launch/L/1"}
        >> 2: 5 sampling/createMessage
        << host: "mcp-launch/L/3" sampling/createMessage
        >> gone 2
        << host: notifications/cancelled {"requestId":"mcp-launch/L/3",…
    """)


def test_a_progress_notification_from_the_host_reaches_the_server_that_asked() -> None:
    open_pair().play("""
        >> 1: 5 sampling/createMessage {"_meta":{"progressToken":7}}
        << host: "mcp-launch/L/1" sampling/createMessage {"_meta":{"progressToken":"…/L/1"}}
        >> 2: 5 sampling/createMessage {"_meta":{"progressToken":7}}
        << host: "mcp-launch/L/2" sampling/createMessage {"_meta":{"progressToken":"…/L/2"}}
        >> host: notifications/progress {"progressToken":"mcp-launch/L/2","progress":1}
        << 2: notifications/progress {"progressToken":7,"progress":1}
    """)


def test_a_server_that_is_being_replaced_does_not_hold_up_the_other() -> None:
    open_pair().play("""
        >> gone 2
        >> host: 1 tools/call {"_meta":{"session":"s-2"}}
        << start 2
        >> host: 2 tools/call {"_meta":{"session":"s-1"}}
        << 1: 2 tools/call {"_meta":{"session":"s-1"}}
    """)


def test_our_own_lines_do_not_interrupt_a_line_from_either_server() -> None:
    beginning = b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * 20_000
    open_pair().play(f"""
        >> host: 1 tools/call {{"_meta":{{"session":"s-2"}}}}
        << 2: 1 tools/call {{"_meta":{{"session":"s-2"}}}}
        >> 2: {beginning!r}
        >> 1: notifications/x
        << host: notifications/x
        >> 2: b'"}}\\n'
        << host: {beginning + b'"}' + bytes([10])!r}
    """)
