"""The rules of the table of findings, as literals: severity, threshold, what a finding means and what to do about it.

`wirefmt/insight/findings.py` has the functions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: Worst first.
SEVERITIES: Final = ("error", "warning", "note")


class Rule(NamedTuple):
    """A rule.

    Attributes:
        severity: error: something was refused or broken. warning: messages may be lost or late. note: worth knowing.
        looks_at: the tables that it reads.
        threshold: from here on there is a finding; None: it has none.
        unit: what the threshold counts.
        why: why the threshold is what it is.
        meaning: what a finding says.
        action: what to do.
    """

    id: str
    severity: str
    looks_at: str
    threshold: int | None
    unit: str
    why: str
    meaning: str
    action: str


_ROWS: Final = (
    # ---- refused
    Rule(
        "login-refused", "error", "operations, connections", 1, "refused logins", "each one keeps a client out",
        "The server refused the credentials of a client.",
        "Check user name, password or certificate, and the server's list of users.",
    ),
    Rule(
        "permission-refused", "error", "operations", 1, "refused requests",
        "each one is a message or subscription that is missing",
        "The server accepted the client, but not this publish, subscription or request: it has no permission.",
        "Give the user permission for the destination, or correct the destination.",
    ),
    Rule(
        "refused", "error", "operations", 1, "refused requests", "each one is a request that has failed",
        "The server refused a request for a reason other than credentials or permissions.",
        "Read the code and the text of the answer; correct the request or the server's limits.",
    ),
    Rule(
        "publish-rejected", "warning", "operations", 1, "rejected publishes",
        "each one is a message that the server did not take",
        "The server answered publishes with a nack or rejected them: a queue is full, or it cannot store them.",
        "Publish them again later; look at the length limits of the queue and at the server's log.",
    ),
    Rule(
        "rocketmq-no-route", "error", "operations", 1, "requests", "without a route nothing can be sent or consumed",
        "The name server or broker knows no route for the topic.",
        "Create the topic, or correct its name or the address of the name server.",
    ),
    Rule(
        "flow-control", "warning", "operations", 1, "refused requests", "each one is a message that the server did not take",
        "A RocketMQ broker refused requests because it was busy.",
        "Send more slowly, or look at the broker's disk and its thread pools.",
    ),
    Rule(
        "offset-illegal", "note", "operations", 1, "answers",
        "messages were deleted before they were consumed, or the offset is wrong",
        "A RocketMQ broker moved a consumer's offset: what it asked for is not there.",
        "Check whether the consumer group was behind for longer than messages are kept.",
    ),
    Rule(
        "rebalance-storm", "warning", "operations", 10, "notices to one client within 60 s",
        "groups change when an instance starts or stops, not every few seconds",
        "A RocketMQ broker tells consumers again and again that their group has changed.",
        "Look for a consumer that connects and disconnects; while queues are shared out again, messages wait or come twice.",
    ),
    # ---- ends of connections and channels
    Rule(
        "takeover-fight", "error", "connections", 3, "takeovers of one client identifier within 60 s",
        "one is a client that comes back, three are two clients that take turns",
        "Clients with the same identifier push each other out.",
        "Give every client an identifier of its own; look for a second instance with the same configuration.",
    ),
    Rule(
        "taken-over", "note", "connections", 1, "takeovers",
        "a client that comes back before its old connection has ended does this",
        "A login with the same client identifier ended a connection.",
        "Nothing, if the client came back; otherwise look for a second client with this identifier.",
    ),
    Rule(
        "keep-alive-missed", "warning", "connections", 1, "connections", "the client was away, or blocked",
        "The server ended a connection because it had heard nothing within the agreed time.",
        "Look for what keeps the client from sending: a blocked event loop, a stopped process, a lost network.",
    ),
    Rule(
        "vanished", "warning", "connections", 1, "connections", "the other side was gone",
        "The server sent data again and the client did not even acknowledge it in TCP.",
        "Look at the client's machine and the network between; a firewall may drop idle connections.",
    ),
    Rule(
        "half-open", "warning", "connections", 1, "connections", "one side still holds what the other has left",
        "A connection was not closed although one side was silent for longer than it may be.",
        "Check that both sides agree on a keep alive or heartbeat.",
    ),
    Rule(
        "reset", "warning", "connections", 1, "connections", "no side ends a protocol with an RST on purpose",
        "TCP reset a connection without a word in the protocol.",
        "Look for a process that was killed, or a proxy, load balancer or firewall between.",
    ),
    Rule(
        "abandoned", "note", "connections", 1, "connections", "many clients are written like this",
        "A client closed TCP without the protocol's own end: its process ended, or it closed the socket.",
        "Let the client disconnect in the protocol; a will or unsettled messages follow otherwise.",
    ),
    Rule(
        "shutdown", "warning", "connections", 1, "connections", "every client has to reconnect",
        "The server ended its connections because it, or an operator, stopped.",
        "Check that the clients have reconnected.",
    ),
    Rule(
        "closed-by-error", "error", "operations, connections", 1, "ends", "what was in the channel or connection is gone",
        "A channel, link or connection was closed by an error.",
        "Correct what the text names.",
    ),
    Rule(
        "protocol-violation", "error", "connections", 1, "messages", "a side that is right sends none",
        "A side sent what the protocol does not allow, or the other side said so.",
        "Look at the message in the frame; update the library that made it.",
    ),
    Rule(
        "consumer-cancelled", "warning", "operations", 1, "consumers", "the consumer gets nothing more",
        "The server cancelled a consumer, because its queue was deleted or moved.",
        "Consume again, from a queue that exists; let the client handle basic.cancel.",
    ),
    Rule(
        "property-misuse", "note", "connections", 1, "packets", "many peers tolerate it, others end the connection",
        "MQTT 5.0: a side sent what the other side had said in CONNECT or CONNACK that it does not take.",
        "Let the sender keep to what the other side names in CONNECT or CONNACK.",
    ),
    # ---- connections and channels that come and go
    Rule(
        "reconnect-storm", "warning", "connections", 10, "connections of one client within 60 s, none longer than 30 s",
        "clients that back off do not come ten times a minute",
        "A client connects again and again.",
        "Find out why its connections end; let it wait longer between attempts.",
    ),
    Rule(
        "connection-per-message", "warning", "connections", 10,
        "connections within 60 s, each with one or two messages and not longer than 5 s",
        "a login costs the server more than a message",
        "A client opens a connection for each message.",
        "Keep one connection open and publish over it.",
    ),
    Rule(
        "channel-churn", "warning", "operations", 20,
        "channels opened on one connection within 10 s, four times as many as at one time",
        "a channel costs two round trips and a process of the server",
        "A client opens a channel for each operation.",
        "Keep a channel open for each thread or task.",
    ),
    Rule(
        "channel-leak", "warning", "operations, connections", 32, "channels open at one time, of which hardly any is closed",
        "applications need a channel for each thread, seldom dozens",
        "A client opens channels and does not close them.",
        "Close channels after use, or keep a few for all work.",
    ),
    # ---- publishing
    Rule(
        "unroutable", "warning", "operations", 1, "messages", "each one reached no queue",
        "Messages matched no queue: the server returned or released them.",
        "Bind a queue to the exchange for this routing key, or correct the key.",
    ),
    Rule(
        "no-subscriber", "note", "operations", 1, "messages", "each one reached nobody",
        "The server said that nobody subscribes to the topic (0x10).",
        "Compare the topic with the filters of its subscribers.",
    ),
    Rule(
        "publisher-without-confirms", "warning", "operations", 10, "persistent messages of one connection",
        "persistent messages are meant to survive",
        "A client publishes persistent messages without confirms: it cannot know whether they were stored.",
        "Use confirm.select and wait for the confirms.",
    ),
    Rule(
        "lost", "warning", "operations", 1, "publishes", "it is not known whether the server has them",
        "The connection or channel ended before publishes were acknowledged.",
        "Publish them again, or check whether they have arrived.",
    ),
    Rule(
        "slow-acknowledgement", "warning", "operations", 1000,
        "milliseconds that the slowest hundredth of at least 20 publishes waits at least",
        "a server that is well answers in milliseconds",
        "The server acknowledges publishes late.",
        "Look at the server's disk, at its replication and at the length of its queues.",
    ),
    Rule(
        "acknowledgement-outlier", "note", "operations", 20,
        "times the median of at least 20 publishes of the connection, and at least 100 ms",
        "the median does not move with a few slow ones; the usual spread is much smaller",
        "Single publishes were acknowledged much later than the others of the connection.",
        "Look at what the server did at that time: a flush to the disk, a garbage collection, an election of replicas.",
    ),
    Rule(
        "not-delivered", "warning", "paths, operations", 10, "delivered messages for each one that is missing",
        "if more are missing, other consumers or a filter take them",
        "Messages were not seen at any consumer, although earlier and later ones of the same destination were delivered.",
        "Look at the limits of queues, which drop without a word. Consumers that were not captured may have the messages.",
    ),
    Rule(
        "delivery-outlier", "note", "paths", 20,
        "times the median of at least 20 messages between two connections, and at least 100 ms",
        "the median does not move with a few slow ones; the usual spread is much smaller",
        "Single messages took much longer from publisher to consumer than the others.",
        "Look at what happened then: a consumer that took no more, a server that wrote to its disk, a redelivery.",
    ),
    Rule(
        "large-message", "note", "operations", 1 << 20,
        "bytes, or eight frames of the agreed size, or 80 % of the Maximum Packet Size",
        "a large message holds up all others of its connection",
        "Messages are large, or near the largest that was agreed.",
        "Keep large payloads elsewhere and publish a reference, or agree on larger frames.",
    ),
    Rule(
        "expired", "note", "operations", 1, "messages", "each one was published and not delivered",
        "Messages expired before they were delivered.",
        "Let the consumer connect more often, or give messages more time.",
    ),
    # ---- delivering
    Rule(
        "prefetch-unlimited", "warning", "connections", 50, "deliveries without their acknowledgement at one time",
        "a few are in every stream, dozens are a queue in the consumer's memory",
        "A consumer has no prefetch limit, and the server sends everything that it has.",
        "Set a prefetch with basic.qos.",
    ),
    Rule(
        "prefetch-one", "note", "connections", 10, "deliveries", "with fewer it does not matter",
        "A consumer takes one message at a time: each costs a round trip.",
        "Set a larger prefetch, unless each message takes long or must be shared out evenly.",
    ),
    Rule(
        "unsettled-grows", "warning", "operations, connections", 50,
        "deliveries that wait much longer than others of the connection",
        "some may be in work, fifty are forgotten",
        "Deliveries pile up that the consumer never acknowledges.",
        "Acknowledge every message, also after an error; look for a consumer that hangs.",
    ),
    Rule(
        "delivery-rejected", "note", "operations", 1, "deliveries", "each one is dropped or becomes a dead letter",
        "A consumer rejected messages permanently.",
        "Look at the consumer's log; give the queue a dead letter exchange, so that they are kept.",
    ),
    Rule(
        "redelivery-loop", "error", "operations", 10, "deliveries of one message", "a message that fails ten times fails always",
        "The same message is delivered again and again.",
        "Reject it without requeue to a dead letter queue, or limit the deliveries of the queue.",
    ),
    Rule(
        "dead-lettered", "warning", "operations", 1, "messages", "each one was not processed",
        "Messages were moved to a dead letter queue.",
        "Look at why they were rejected or expired; publish them again once that is solved.",
    ),
    Rule(
        "duplicate", "note", "operations", 1, "deliveries", "an application that counts must know",
        "A message was delivered again after the same consumer had acknowledged it.",
        "Process messages so that twice does no harm, or publish them only once.",
    ),
    Rule(
        "qos2-stuck", "warning", "operations, connections", 1000,
        "milliseconds without the next packet; less, if that is ten times as long as all others of the connection; at once, if "
        "a later message has its PUBREC",
        "a round trip takes less, and PUBRECs come in the order of the messages",
        "A QoS 2 handshake stopped half way.",
        "Look at the side that did not answer; it holds the packet identifier for ever.",
    ),
    Rule(
        "window-exhausted", "warning", "connections", 1000, "milliseconds",
        "a consumer that works acknowledges earlier",
        "Messages waited because the other side took no more: as many as it allows were not acknowledged, it gave no credit, or "
        "the window of its session was full.",
        "Acknowledge sooner, use more consumers, or allow more messages at a time.",
    ),
    Rule(
        "rdy-starvation", "warning", "connections", 1000, "milliseconds", "a consumer that backs off briefly is well",
        "Messages waited while an NSQ consumer had RDY 0.",
        "Look at why it backs off; set RDY again.",
    ),
    Rule(
        "blocked", "warning", "operations", 1, "times", "the publishers stand still",
        "The server blocked publishers (connection.blocked): it has not enough memory or disk.",
        "Free memory or disk of the server, or let consumers catch up.",
    ),
    Rule(
        "retained-storm", "warning", "operations", 100, "retained messages on one connection within 10 s",
        "a few retained values are what they are for",
        "A subscription brought many retained messages at once.",
        "Subscribe to narrower filters, delete old retained messages, or use Retain Handling 1.",
    ),
    Rule(
        "nsq-requeue", "note", "operations", 1, "messages", "each one is processed again",
        "An NSQ consumer gave messages back (REQ).",
        "Look at the consumer's log; mind the delay of REQ and the number of attempts.",
    ),
    Rule(
        "nsq-timeout", "warning", "operations", 1, "messages", "each one is processed twice",
        "An NSQ consumer did not finish messages in time; another attempt was made.",
        "Send TOUCH, finish sooner, or ask for a longer msg_timeout.",
    ),
    # ---- TCP and the capture
    Rule(
        "retransmissions", "warning", "connections", 2,
        "percent of a side's bytes, and at least 100 bytes unless a side is gone",
        "a network that is well loses less",
        "TCP had to send data again.",
        "Look at the network between: loss, a cable, a full link, a machine that is gone.",
    ),
    Rule(
        "zero-window", "warning", "connections", 3, "packets of one side", "once may be a short pause",
        "A side told in TCP that it takes no more bytes: its process does not read.",
        "Look for what keeps this process from reading its socket.",
    ),
    Rule(
        "small-mss", "note", "connections", 1000, "bytes of a segment, or fewer",
        "Ethernet gives 1460, tunnels take some hundred of them at most",
        "A side takes small TCP segments only: each message needs more packets.",
        "Look for a wrong MTU on the path, a VPN, or a firewall that lowers the MSS.",
    ),
    Rule(
        "capture-gaps", "note", "connections", 1, "bytes that are missing", "what is missing may have been the answer",
        "The capture lacks packets: what the tables say of these connections may be incomplete.",
        "Capture with a larger buffer, whole packets, and both directions.",
    ),
    Rule(
        "copied-packets", "note", "connections", 45, "percent of the bytes of both sides were captured twice",
        "no network loses half of everything in both directions",
        "The capture has every packet more than once.",
        "Capture at one interface, or remove the copies: editcap -d.",
    ),
    Rule(
        "capture-cut", "note", "connections", 50, "percent of the decoded connections began before the capture",
        "a few old connections are in every capture",
        "Most connections have no beginning in the capture: logins, subscriptions and what was open are not known.",
        "Start the capture before the clients; if it is one file of several, read all of them together.",
    ),
    Rule(
        "truncated-packets", "note", "connections", 1, "packets", "what is missing may have been the answer",
        "The snapshot length cut packets: payloads and what follows in the same packet are missing.",
        "Capture whole packets: tcpdump -s 0, dumpcap without -s.",
    ),
    Rule(
        "clock-backwards", "note", "connections", 1, "milliseconds",
        "packets of several queues or processors may be some microseconds out of order",
        "Time ran backwards between packets of a connection: durations and latencies are wrong by as much.",
        "Check the clock of the capturing machine; merge captures with mergecap, which sorts by time.",
    ),
    Rule(
        "plaintext-credentials", "note", "connections", 1, "logins", "a capture can be read by others",
        "A password went over the network without TLS.",
        "Use TLS.",
    ),
    Rule(
        "weak-mechanism", "note", "connections", 1, "logins", "who reads or changes packets can use them",
        "A client logged in over the network with a mechanism that proves little: ANONYMOUS, or one with MD5.",
        "Use SCRAM-SHA-256, or PLAIN or EXTERNAL inside TLS; forbid the others on the server.",
    ),
    # ---- TLS
    Rule(
        "weak-tls", "warning", "connections", 1, "connections", "RFC 7568 and RFC 8996 say that they must not be used",
        "SSL 3.0, TLS 1.0 or TLS 1.1 protects the connections of a server: these versions are not secure any more.",
        "Let client and server use TLS 1.2 or 1.3.",
    ),
    Rule(
        "certificate-not-valid", "warning", "connections", 1, "connections", "a client that checks it does not connect",
        "The certificate of a server had expired when a connection began, or was not valid yet.",
        "Renew the certificate; if it is valid, check the clock of the machine that captured.",
    ),
    Rule(
        "not-decrypted", "note", "connections", 1, "connections", "secrets were given, so that connections are decrypted",
        "There is a key log or a secrets block, but connections could not be decrypted with it.",
        "Begin the capture and the key log before the connections; versions and suites that are not supported stay encrypted.",
    ),
)  # fmt: skip

#: By id.
RULES: Final[dict[str, Rule]] = {rule.id: rule for rule in _ROWS}
