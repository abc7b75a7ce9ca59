#!/usr/bin/env python3
"""Holds every handler that launcher/ and rendezvous/ give to asio against the rule of rendezvous/base/gate.h: it goes
through its owner's gate, `…async_wait(…, gate_.pass([this] …))`, and timers are Alarms. Prints each that does not.
"""

import re
import sys

from listed_files import ROOT, listed_files

# A call that takes a handler; `.` or `->` before it, or asio's name, tells it from a declaration of our own.
CALL = re.compile(r"(?:(?:\.|->)\s*(async_\w+)|\basio::(async_\w+|post|dispatch|defer))\s*\(")
FORBIDDEN = {
    "steady_timer": "a timer is an Alarm (rendezvous/base/alarm.h)",
    "basic_waitable_timer": "a timer is an Alarm (rendezvous/base/alarm.h)",
    "system_timer": "a timer is an Alarm (rendezvous/base/alarm.h)",
    "co_spawn": "a coroutine cannot be turned away at a gate: write its steps as handlers",
    "use_awaitable": "a coroutine cannot be turned away at a gate: write its steps as handlers",
    "using boost::asio::post": "write boost::asio::post where it is called, so that this check sees it",
}
THE_RULE_ITSELF = {"rendezvous/base/alarm.h", "rendezvous/base/gate.h"}


def without_comments(text):
    return re.sub(r"//[^\n]*", lambda comment: " " * len(comment[0]), text)


def arguments(text, start):
    depth = 1
    for end in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:]


def problems_of(path, text):
    text = without_comments(text)
    for match in CALL.finditer(text):
        if not re.search(r"\bgate_?\.pass\(", arguments(text, match.end())):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: the handler of {match[1] or match[2]} does not go through gate_.pass(…)"
    for word, what in FORBIDDEN.items():
        for match in re.finditer(rf"\b{word}\b(?!\.hpp)", text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {word}: {what}"


def main():
    wrong = []
    for path in listed_files("launcher/*.h", "launcher/*.cc", "rendezvous/*.h", "rendezvous/*.cc"):
        if path not in THE_RULE_ITSELF:
            wrong += problems_of(path, (ROOT / path).read_text())
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
