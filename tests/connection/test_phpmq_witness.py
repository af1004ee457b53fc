"""A capture as witness: what the real library has said and read goes through both machines, and neither sees a violation."""

from __future__ import annotations

from typing import Any

from lib.captures import unpacked_octets
from lib.conversations import CLIENT, segments
from lib.paths import DATA
from wirefmt import phpmq
from wirefmt.connection import Disconnected
from wirefmt.phpmq import ClientConnection, ConnectionOptions, ServerConnection

CAPTURE = DATA / "phpmq" / "protocol-37bf1fb.pcap.gz"


def said() -> dict[int, list[tuple[int, phpmq.Message]]]:
    """(speaker, message) of each connection, in order."""
    flows: dict[int, list[tuple[int, phpmq.Message]]] = {}
    decoders: dict[tuple[int, int], phpmq.Decoder] = {}
    for port, speaker, payload in segments(unpacked_octets(CAPTURE), 9100):
        side: Any = "client" if speaker == CLIENT else "server"
        decoder = decoders.setdefault((port, speaker), phpmq.Decoder(side=side))
        flows.setdefault(port, []).extend((speaker, message) for message in decoder.feed(payload))
    return flows


def test_no_violation_in_what_was_recorded() -> None:
    options = ConnectionOptions(profile="present")
    seen = 0
    for flow in said().values():
        client, server = ClientConnection(0.0, options), ServerConnection(0.0, options)
        from_client = [message for speaker, message in flow if speaker == CLIENT]
        for message in from_client:
            events: list[Any] = server.receive(message.encode(), 0.0)
            assert events[0] == message  # of settled messages too: this server has sent none of them
            if isinstance(message, phpmq.ConsumeRequest):
                client.send(message)
        for message in (message for speaker, message in flow if speaker != CLIENT):
            assert client.receive(message.encode(), 0.0) == [message]
            seen += 1
        assert server.state is client.state is phpmq.State.CONSUMING
        assert client.undecided == 1  # both messages have the same id
    assert seen == 4


def test_what_the_early_profile_does_not_have_is_a_violation() -> None:
    for flow in said().values():
        server = ServerConnection(0.0, ConnectionOptions(profile="early"))
        for speaker, message in flow:
            if speaker == CLIENT:
                (event, *_) = server.receive(message.encode(), 0.0)
                if isinstance(message, phpmq.ReQueue):
                    assert isinstance(event, Disconnected)
                    assert "the early profile has no re-queue" in str(event.error)
                    break
                assert event == message
        else:
            raise AssertionError("no ReQueue was recorded")
