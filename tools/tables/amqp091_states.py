"""docs/amqp091-connection.md: the states of an AMQP 0.9.1 connection and its channels, drawn from the tables of transitions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tables.states import Machine, machine_lines

INTRO = """
# The states of an AMQP 0.9.1 connection

`amqp091.ClientConnection` and `amqp091.ServerConnection` keep to two tables (`wirefmt/amqp091/states.py`), one for the
connection and one for each of its channels: for each role, state and kind of frame they say which state follows, or which
rule is broken. This page is drawn from them. How to use the connections: [connections.md](connections.md).

In the diagrams, `+` is a frame that comes from the peer and `-` one that we send. Frames that change no state are in the
tables below them. A method with content counts once, when its content is complete.

A violation has a reply code. A client answers it with connection.close, once it has sent start-ok. A server in state idle
answers with its protocol header. Then it ends the stream without a word until tune-ok has arrived, as RabbitMQ does, also for a
tune-ok with values that tune does not allow; from then on it answers with connection.close. The codes 403, 404, 405 and 406
close only the channel. They come from the host and from checks of arguments, which are not in the tables:

| what comes to a server | code |
| --- | --- |
| an acknowledgement of a delivery-tag that does not wait for one | 406 |
| confirm.select on a channel in tx mode, tx.select in confirm mode, tx.commit and tx.rollback without tx.select | 406 |
| a body larger than `message_size` | 406 |
| an empty queue name, and no queue declared on the channel | 404 |
| a consumer-tag in use; more channels than negotiated | 530 |
| immediate; prefetch-size other than 0; recover without requeue; flow with active=0 | 540 |
| a content larger than `body_size`; a malformed frame | 501 |
| a frame that its channel does not expect: a content that begins, ends or is interrupted out of place | 505 |

The end of the stream and a timer end a connection in any state."""


def amqp091_states_page(states: ModuleType) -> list[str]:
    lines = INTRO.splitlines()
    for role in states.Role:
        for title, machine in (
            ("connection", _machine(role, states.MEANINGS, states.RECEIVES, states.SENDS)),
            ("channels", _machine(role, states.CHANNEL_MEANINGS, states.CHANNEL_RECEIVES, states.CHANNEL_SENDS)),
        ):
            name = f"The {role.value}: {title}"
            lines += ["", f"## {name}", *machine_lines(machine, before=f"{name}: ")]
    return lines


def _machine(role: Any, meanings: dict[Any, str], receives: Any, sends: Any) -> Machine:
    own = [state for whose, state in meanings if whose is role]
    last = [state for state in own if state.value == "closed" and state is own[-1] and own[0].value == "idle"]
    meant = {state: meanings[role, state] for state in own}
    return Machine(role, own, meant, receives, sends, last, kinds="frames", reply="reply")
