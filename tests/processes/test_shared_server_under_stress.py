"""A shared server under many calls, of sessions that die or do not read what they are sent.

Five thousand calls of twenty sessions: each keeps some calls open all the time. When certain
numbers of answers have come, a process is killed: which one, and when, is random with a fixed
seed. A killed launcher is replaced by another one that makes its remaining calls.
"""

from __future__ import annotations

import json
import os
import random
import select
from typing import TYPE_CHECKING, Any

from launches import LIMIT, Launch, call, python, read_refusal, request
from sessions import kill
from shared_servers import SHARE, answer_to, greet

if TYPE_CHECKING:
    from shared_servers import Sharing

SESSIONS = 20
CALLS = 5_000

# How many calls a session has open at once.
OPEN = 8

# A server that dies more often within a minute is not started again.
SERVER_KILLS = 3
LAUNCHER_KILLS = 8


# Announces a change of the lists, with so many bytes that few are kept for one who does not read.
CHANGED = "notifications/tools/list_changed"
CHANGE_SIZE = 4_000_000


class Session:
    """One connection: what it has asked, and what it was answered."""

    def __init__(self, launch: Launch, name: str, calls: int) -> None:
        self.launch = launch
        self.name = name
        self.left = calls
        self.open: dict[int, str] = {}
        self.pids: list[int] = []
        self.lost = 0
        self._number = 0
        self._read = b""
        self.is_greeted = False
        launch.send(request("initialize", -1, capabilities={}, protocolVersion="2025-11-25"))

    @property
    def fd(self) -> int:
        assert self.launch.process.stdout
        return self.launch.process.stdout.fileno()

    @property
    def unanswered(self) -> int:
        """How many calls another session has to make if this one dies."""
        return self.left + len(self.open)

    def send_some(self) -> None:
        """Make as many calls as may be open."""
        count = min(self.left, OPEN - len(self.open))
        for _ in range(count):
            self._number += 1
            text = f"{self.name} {self._number}"
            self.open[self._number] = text
            self.launch.send(call("echo", self._number, text=text))
        self.left -= count

    def read(self) -> int:
        """Take what has come; return how many calls were answered by it."""
        data = os.read(self.fd, 1 << 16)
        assert data, f"session {self.name} was ended"
        *lines, self._read = (self._read + data).split(b"\n")
        count = 0
        for line in lines:
            answer = json.loads(line)
            if answer["id"] == -1:
                assert not self.is_greeted
                assert "result" in answer, answer
                self.is_greeted = True
                self.launch.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
                continue
            self._take(answer)
            count += 1
        if self.is_greeted:
            self.send_some()
        return count

    def _take(self, answer: dict[str, object]) -> None:
        number = answer["id"]
        assert isinstance(number, int)
        assert number in self.open, f"session {self.name} was not waiting for {answer}"
        text = self.open.pop(number)
        result = answer.get("result")
        if isinstance(result, dict) and "said" in result:
            assert result["said"] == {"text": text}
            self.pids.append(result["pid"])
        else:
            # It was killed at work or, on a busy machine, before it had answered its greeting.
            reason = read_refusal(answer)
            assert "tools/call was not answered" in reason or "before it answered" in reason
            self.lost += 1


class Crowd:
    """All sessions, of which some die."""

    def __init__(self, sharing: Sharing, dice: random.Random) -> None:
        self._sharing = sharing
        self._dice = dice
        self._started = 0
        self.answered = 0
        self.killed: list[int] = []  # servers
        self.sessions: list[Session] = []
        self.gone: list[Session] = []
        for _ in range(SESSIONS):
            self._add(CALLS // SESSIONS)

    def _add(self, calls: int) -> None:
        self._started += 1
        self.sessions.append(Session(self._sharing.connect(), str(self._started), calls))

    def run_until(self, answers: int) -> None:
        """Go on until so many calls have been answered, or all of them."""
        while self.answered < answers and any(one.unanswered for one in self.sessions):
            self._read_some()

    def run_until_served(self) -> int:
        """Go on until a server that was not killed has answered; return its pid."""
        while not (pids := self._list_pids() - set(self.killed)):
            self._read_some()
        assert len(pids) == 1, f"more than one server at work: {pids}"
        return pids.pop()

    def _list_pids(self) -> set[int]:
        return {pid for one in (*self.sessions, *self.gone) for pid in one.pids}

    def _read_some(self) -> None:
        by_fd = {one.fd: one for one in self.sessions}
        ready = select.select(list(by_fd), [], [], LIMIT)[0]
        waiting = {one.name: sorted(one.open) for one in self.sessions if one.open}
        assert ready, f"no answer within the limit to {waiting}"
        self.answered += sum(by_fd[fd].read() for fd in ready)

    def kill_server(self) -> None:
        pid = self.run_until_served()
        self.killed.append(pid)
        kill(pid)

    def kill_launcher(self) -> None:
        victim = self._dice.choice(self.sessions)
        self.sessions.remove(victim)
        self.gone.append(victim)
        victim.launch.process.kill()
        victim.launch.wait()
        self._add(victim.unanswered)


def test_every_call_is_answered_exactly_once_whoever_dies(sharing: Sharing) -> None:
    dice = random.Random(1)  # noqa: S311  # it chooses victims
    kinds = ["server"] * SERVER_KILLS + ["launcher"] * LAUNCHER_KILLS
    dice.shuffle(kinds)
    moments = sorted(dice.sample(range(SESSIONS, CALLS - 1000), len(kinds)))
    crowd = Crowd(sharing, dice)

    for moment, kind in zip(moments, kinds, strict=True):
        crowd.run_until(moment)
        if kind == "server":
            crowd.kill_server()
        else:
            crowd.kill_launcher()
    crowd.run_until(CALLS)

    assert crowd.answered == CALLS
    pids = {pid for one in (*crowd.sessions, *crowd.gone) for pid in one.pids}
    assert len(pids) == 1 + SERVER_KILLS
    lost = sum(one.lost for one in (*crowd.sessions, *crowd.gone))
    assert lost <= SERVER_KILLS * SESSIONS * OPEN
    for session in crowd.sessions:
        assert not session.open
        code, rest, _ = session.launch.finish()
        assert (code, rest) == (0, b""), "something was answered twice"
    sharing.wait_until_nothing_is_left()


def read_message(launch: Launch) -> dict[str, Any]:
    """Return the next message, which may be very long."""
    assert launch.process.stdout
    message = json.loads(launch.process.stdout.readline())
    assert isinstance(message, dict)
    return message


def test_calls_of_a_session_that_does_not_read_wait_until_it_does(sharing: Sharing) -> None:
    first, second, pid = sharing.join_two()
    first.send(*(call("big", number, size=500_000) for number in range(250)))

    for _ in range(20):
        answer = second.call("echo")
        assert answer["pid"] == pid
        assert answer["served"] < 200

    for number in range(250):
        answer = read_message(first)
        assert (answer["id"], len(answer["result"]["text"])) == (number, 500_000)


def test_a_session_that_does_not_read_misses_notifications_but_no_answer(
    sharing: Sharing,
) -> None:
    first, second, pid = sharing.join_two()
    first.send(call("big", "before", size=5_000_000))
    count = 20
    for number in range(count):
        second.send(call("send", number, method=CHANGED, text="x" * CHANGE_SIZE))
        assert read_message(second)["method"] == CHANGED
        assert read_message(second)["id"] == number
    first.send(call("echo", "after"))

    messages = [read_message(first)]
    while messages[-1].get("id") != "after":
        messages.append(read_message(first))

    assert messages[0]["id"] == "before"
    assert 0 < len(messages) - 2 < count
    assert messages[-1]["result"]["pid"] == pid
    first.wait_for_stderr(b"further notifications are dropped until it has read these\n")
    second.send(call("send", 5, method=CHANGED))
    assert first.answer()["method"] == CHANGED


# Asks the host for something before it answers, with so many bytes that few are kept.
ASKING = """
import json, os, sys
def say(**message):
    data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n"
    while data:
        data = data[os.write(1, data):]
for line in sys.stdin:
    said = json.loads(line)
    if said.get("method") == "initialize":
        result = {"capabilities": {}, "protocolVersion": "2025-11-25", "serverInfo": {}}
        say(id=said["id"], result=result)
    elif said.get("method") == "tools/call" and said["params"]["name"] == "ask":
        caller, answers = said["id"], []
        for number in range(20):
            params = {"text": "x" * 4_000_000}
            say(id=number, method="sampling/createMessage", params=params)
        os.write(2, b"asked\\n")
    elif "method" not in said:
        answers.append("result" in said)
        if len(answers) == 20:
            say(id=caller, result={"answered": answers.count(True)})
    elif "id" in said:
        say(id=said["id"], result={})
"""


def test_a_session_that_does_not_read_is_not_asked_without_end(sharing: Sharing) -> None:
    first, second = (sharing.runner.launch(*SHARE, "--", *python(ASKING)) for _ in range(2))
    greet(first, sampling={})
    greet(second, sampling={})
    first.send(call("ask", 5))
    second.wait_for_stderr(b"asked\n")

    answered = 0
    while "result" not in (message := read_message(first)):
        first.send(answer_to(message))
        answered += 1

    assert 0 < message["result"]["answered"] == answered < 20
