"""What to do about an answer that names an error, as literals: by the protocol, the code, and a part of the text.

Codes and texts are those of the specifications, and those that RabbitMQ, Artemis, nsqd and RocketMQ say in their own words. Where
nothing fits, the rule of the finding says what to do.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Advice(NamedTuple):
    """Attributes:
    protocol: its name; "amqp" for both.
    codes: any of them; empty: any.
    words: a part of the text, in lower case; empty: any.
    action: what to do.
    """

    protocol: str
    codes: tuple[int, ...]
    words: tuple[str, ...]
    action: str


_LATER: Final = "Wait longer before the next attempt; look at the limits and the load of the server."
_SMALLER: Final = "Publish smaller messages, or raise the server's limit."
_LIBRARY: Final = "Look at the message in the frame; update or correct the library that made it."
_DECLARE: Final = "Create the queue, exchange or address before it is used, or correct its name."
_ARGUMENTS: Final = "Declare it with the arguments that it has, or delete it first."
_TAGS: Final = "Acknowledge each delivery once, on the channel that it came on, and not after no_ack."

#: The first row that fits counts.
ADVICE: Final = (
    # ---- MQTT: 5.0 and the return codes of CONNACK before
    Advice("mqtt", (4, 0x86), (), "Correct user name and password, or the server's list of users."),
    Advice("mqtt", (5, 0x87), (), "Check the credentials and what this client may do: user, password, identifier, access list."),
    Advice("mqtt", (1, 0x84), (), "Let the client use a version of MQTT that the server supports."),
    Advice("mqtt", (2, 0x85), (), "Use another client identifier: the server allows this one not, or not an empty one."),
    Advice("mqtt", (3, 0x88, 0x89), (), _LATER),
    Advice("mqtt", (0x8A,), (), "Look at why the server has banned this client."),
    Advice("mqtt", (0x8C,), (), "Use an authentication method that the server supports."),
    Advice("mqtt", (0x8F, 0x90), (), "Correct the topic or filter: the server does not allow this one."),
    Advice("mqtt", (0x91,), (), "Do not use a packet identifier again before it is acknowledged."),
    Advice("mqtt", (0x93,), (), "Send no more QoS 1 and 2 messages at a time than the Receive Maximum of the other side."),
    Advice("mqtt", (0x94,), (), "Use no Topic Alias above the Topic Alias Maximum of the other side."),
    Advice("mqtt", (0x95,), (), _SMALLER),
    Advice("mqtt", (0x96, 0x97), (), "Publish more slowly, or raise the quota of this client on the server."),
    Advice("mqtt", (0x99,), (), "Correct the payload, or its Payload Format Indicator."),
    Advice("mqtt", (0x9A,), (), "Publish without RETAIN: the server does not support it."),
    Advice("mqtt", (0x9B,), (), "Publish and subscribe with a lower QoS: CONNACK names the highest."),
    Advice("mqtt", (0x9C, 0x9D), (), "Connect to the server that the answer names."),
    Advice("mqtt", (0x9E,), (), "Subscribe without $share: the server does not support shared subscriptions."),
    Advice("mqtt", (0x9F,), (), _LATER),
    Advice("mqtt", (0xA1,), (), "Subscribe without a Subscription Identifier: the server does not support it."),
    Advice("mqtt", (0xA2,), (), "Subscribe without wildcards: the server does not support them."),
    Advice("mqtt", (0x81, 0x82), (), _LIBRARY),
    Advice("mqtt", (0x80, 0x83), (), "Look at the server's log: the code says no more."),
    # ---- AMQP 0.9.1
    Advice("amqp091", (), ("consumer_timeout", "delivery acknowledgement on channel"),
           "Acknowledge within the server's consumer_timeout, or raise it for this queue."),
    Advice("amqp091", (), ("inequivalent arg",), _ARGUMENTS),
    Advice("amqp091", (), ("unknown delivery tag",), _TAGS),
    Advice("amqp091", (), ("exchange type", "invalid arg", "invalid property"), "Correct the argument that the text names."),
    Advice("amqp091", (), ("larger than", "content_too_large", "message size"), _SMALLER),
    Advice("amqp091", (530,), ("vhost", "virtual host"),
           "Create the virtual host, give the user access to it, or correct its name."),
    Advice("amqp091", (), ("channel_max", "connection limit", "number of connections", "number of channels", "node connection"),
           "Close connections and channels that are not used, or raise the server's limit."),
    Advice("amqp091", (311,), (), _SMALLER),
    Advice("amqp091", (313,), (), "Start a consumer before messages are published with immediate."),
    Advice("amqp091", (402,), (), "Correct the path: the server knows no such virtual host."),
    Advice("amqp091", (403,), ("login",), "Correct user name and password, or the server's list of users; some servers allow "
           "the user guest only from their own machine."),
    Advice("amqp091", (404,), (), _DECLARE),
    Advice("amqp091", (405,), (), "An exclusive queue belongs to one connection: use another name, or close that connection."),
    Advice("amqp091", (406,), (), "Correct the request that the text names: the state of the queue or exchange forbids it."),
    Advice("amqp091", (501, 502, 503, 504, 505), (), _LIBRARY),
    Advice("amqp091", (506, 541), (), "Look at the server's log and at its memory and disk."),
    Advice("amqp091", (540,), (), "Do without this method: the server does not have it."),
    # ---- AMQP 1.0
    Advice("amqp10", (), ("resource-deleted",), "The queue or address was deleted: create it, and attach again."),
    Advice("amqp10", (), ("detach-forced", "connection:forced"), "An operator or a limit of the server did this: see its log."),
    Advice("amqp10", (), ("not-found", "does not exist", "no queue"), _DECLARE),
    Advice("amqp10", (), ("resource-locked",), "Another client holds it alone: use another name, or close the other link."),
    Advice("amqp10", (), ("message-size-exceeded",), _SMALLER),
    Advice("amqp10", (), ("resource-limit-exceeded",), "Look at the limits of the server and of the address: it is full."),
    Advice("amqp10", (), ("transfer-limit-exceeded",), "Let the sender wait for credit: it sent more than it had."),
    Advice("amqp10", (), ("window-violation",), "Let the sender wait for the session's window: it sent more than it may."),
    Advice("amqp10", (), ("unattached-handle", "errant-link", "handle-in-use", "decode-error", "framing-error", "illegal-state",
                          "invalid-field", "frame-size-too-small"), _LIBRARY),
    Advice("amqp10", (), ("precondition-failed",), _ARGUMENTS),
    Advice("amqp10", (), ("not-implemented",), "Do without it: the server does not have this feature."),
    Advice("amqp10", (), ("stolen",), "Give each link a name of its own: another connection took this one."),
    Advice("amqp10", (), ("redirect",), "Connect to the server that the answer names."),
    Advice("amqp10", (), ("internal-error",), "Look at the server's log."),
    # ---- NSQ
    Advice("nsq", (), ("e_bad_topic", "e_bad_channel"),
           "Use names of 1 to 64 letters, digits and . _ -, with #ephemeral at most."),
    Advice("nsq", (), ("too big", "too large", "body size"),
           "Publish smaller messages, or raise max_msg_size and max_body_size of nsqd."),
    Advice("nsq", (), ("e_bad_message", "e_bad_body"), "Correct the message: it is empty, or larger than nsqd takes."),
    Advice("nsq", (), ("e_fin_failed", "e_req_failed", "e_touch_failed"),
           "The message was not in flight any more: finish within msg_timeout, and only once."),
    Advice("nsq", (), ("e_pub_failed", "e_mpub_failed", "e_dpub_failed"), "Look at nsqd's log and disk."),
    Advice("nsq", (), ("e_sub_failed",), "Look at the limits of consumers and channels of nsqd."),
    Advice("nsq", (), ("e_auth_failed", "e_unauthorized", "e_auth_error", "e_auth_first", "e_auth_disabled"),
           "Check the secret of AUTH, and what nsqd's authorization server allows for this topic and channel."),
    Advice("nsq", (), ("e_invalid", "e_bad_protocol", "e_bad_command"), _LIBRARY),
    # ---- RocketMQ
    Advice("rocketmq", (13,), (), "Correct the message: its topic, its properties or its size are not allowed."),
    Advice("rocketmq", (14,), (), "Look at the state of the broker: it is a slave, is stopping, or cannot write."),
    Advice("rocketmq", (26,), (), "Create the consumer group, or correct its name."),
    Advice("rocketmq", (1,), (), "Look at the broker's log."),
)  # fmt: skip


def advice(protocol: str | None, code: int | None, text: str | None) -> str | None:
    """What to do about an answer with this code and text; None: nothing fits."""
    said = (text or "").lower()
    for row in ADVICE:
        if (
            row.protocol == protocol
            and (not row.codes or code in row.codes)
            and (not row.words or any(word in said for word in row.words))
        ):
            return row.action
    return None
