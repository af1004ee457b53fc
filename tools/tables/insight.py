"""docs/insight.md from spec/insight.py: the columns of the tables that are made of messages, and their words."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_INTRO = """
# From messages to answers

The [message table](message-table.md) says what was said. The tables of this page say what became of it. They are made in the same
pass over a capture, in bounded memory, and are the same in Python, on the command line and on Spark.

```python
from wirefmt import capture

with capture.read("trace.pcap", table="connections", filter="reason != 'orderly'") as connections:
    for batch in connections:
        print(batch["client_id"], batch["reason_text"])

for table, batch in capture.read_tables("trace.pcap", ["messages", "connections", "operations"]):
    print(table, batch.num_rows)
```

```sh
wirefmt connections trace.pcap
wirefmt operations trace.pcap --filter "kind == 'deliver' and outcome != 'acknowledged'" -o late.parquet
wirefmt latency trace.pcap --by destination
wirefmt trace order-17 trace.pcap
wirefmt sql trace.pcap "select reason, count(*) from connections group by all"
```

[cli.md](cli.md#tables-that-are-made-of-messages) has the commands,
[spark/README.md](../spark/README.md#tables-that-are-made-of-messages) Spark. All columns may be null. Times are UTC, and columns
that end in `_ns` are nanoseconds. `flow_id` joins the tables.

Rows tell what was captured. Where a capture begins late, has holes or ends early, columns that need what is missing are null,
and a reason is inferred only where it fits: `unknown` is an answer, too. The tables are made of all messages; `filter` chooses
rows of the table that is read.
"""

_TABLES = {
    "connections": "One row for each TCP connection, when all captures are read: why it ended may depend on others.",
    "operations": "One row for each request with its outcome, when it has one. What is open when its connection ends is `lost`, "
    "what is open at the end of the captures `unanswered`.",
    "paths": "One row for each copy of a published message that reached a consumer; without a deliver side: nobody received it.",
    "findings": "One row for each thing that is wrong.",
}

#: A list of words of the specification, with its title.
_WORDS = {
    "REASONS": "Reasons of connections",
    "KINDS": "Kinds of operations",
    "OUTCOMES": "Outcomes of operations",
}

_MEANING = {
    "REASONS": {
        "orderly": "the protocol's own end was said, without an error",
        "refused": "the server refused the login, or what the client may not do",
        "protocol-error": "one side said that the other one broke the protocol",
        "resource-error": "a limit or a fault of the server",
        "keep-alive": "one side was silent for longer than agreed",
        "taken-over": "the same client logged in again",
        "shutdown": "the server stopped, or an operator closed the connection",
        "abandoned": "a FIN without the protocol's own end: the process ended, or closed its socket",
        "reset": "a RST without a word",
        "vanished": "nothing ended it, and one side did not answer any more",
        "half-open": "only one side has closed",
        "open": "still open at the end of the captures",
        "unknown": "nothing fits",
    },
    "KINDS": {
        "login": "CONNECT, connection.start-ok, SASL, AUTH ...",
        "publish": "a message to the server",
        "deliver": "a message to the client",
        "subscribe": "to topics, channels",
        "unsubscribe": "",
        "consume": "of a queue: basic.consume, attach of a receiver",
        "cancel": "the end of a consumer",
        "get": "a message that was asked for: basic.get, pull",
        "open": "channels, sessions",
        "close": "of channels, sessions",
        "declare": "queues, exchanges, topics",
        "bind": "",
        "unbind": "",
        "delete": "",
        "purge": "",
        "request": "other requests",
        "transaction": "select, commit, rollback, declare, discharge",
        "heartbeat": "PINGREQ, heartbeat",
        "blocked": "connection.blocked, until connection.unblocked",
        "flow": "credit, RDY, channel.flow",
    },
    "OUTCOMES": {
        "none": "no answer was asked for: QoS 0, no_ack, pre-settled, one-way",
        "acknowledged": "PUBACK, PUBCOMP, ack, accepted, FIN, OK",
        "rejected": "reject or nack without requeue, rejected",
        "requeued": "reject or nack with requeue, REQ",
        "released": "AMQP 1.0",
        "modified": "AMQP 1.0",
        "returned": "basic.return",
        "refused": "an answer with an error",
        "timed-out": "the server gave up waiting",
        "cancelled": "its transaction was rolled back, or the sender aborted it",
        "superseded": "its identifier was used again",
        "lost": "the connection ended first",
        "unanswered": "still open at the end of the captures",
    },
}


def insight_page(spec: ModuleType) -> list[str]:
    """The lines of docs/insight.md."""
    lines = _INTRO.splitlines()
    for name, columns in spec.TABLES.items():
        if name == "messages":
            continue
        lines += ["", f"## {name}", "", _TABLES.get(name, ""), "", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in columns]
    for words, title in _WORDS.items():
        lines += ["", f"## {title}", "", "| | |", "|---|---|"]
        lines += [f"| `{word}` | {_MEANING[words].get(word, '')} |" for word in getattr(spec, words)]
    if find_spec("wirefmt.spec.rules"):
        rules = import_module("wirefmt.spec.rules").RULES
        lines += ["", "## Rules of findings", ""]
        lines += ["| rule | severity | from | what it says | what to do |", "|---|---|---|---|---|"]
        for rule in rules.values() if isinstance(rules, dict) else rules:
            least = rule.unit if rule.threshold in (None, 1) else f"{rule.threshold:,} {rule.unit}"
            lines.append(f"| `{rule.id}` | {rule.severity} | {least} | {rule.meaning} | {rule.action} |")
    return lines
