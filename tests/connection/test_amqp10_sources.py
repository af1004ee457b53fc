"""What `Client.receiver` asks of a source, and servers that do not do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lib.amqp10_live import take
from lib.loopback import HOST, run
from wirefmt import amqp10
from wirefmt.amqp10.sources import source_of
from wirefmt.connection.contract import WindowOpened
from wirefmt.errors import Refused

JMS = amqp10.Symbol("apache.org:selector-filter:string")


@pytest.mark.parametrize(
    ("arguments", "filters", "mode"),
    [
        ({}, None, None),
        ({"browse": True}, None, "copy"),
        ({"selector": "n = 5"}, {"jms-selector": amqp10.Described(JMS, "n = 5")}, None),
        ({"selector": ""}, {"jms-selector": amqp10.Described(JMS, "")}, None),
        (
            {"filter": {"amqp:sql-filter": "n = 5"}, "browse": True},
            {"sql-filter": amqp10.Described(amqp10.Symbol("amqp:sql-filter"), "n = 5")},
            "copy",
        ),
        (
            {"filter": {"amqp:properties-filter": {"subject": "x"}}},
            {
                "amqp:properties-filter": amqp10.Described(
                    amqp10.Symbol("amqp:properties-filter"), amqp10.Map({amqp10.Symbol("subject"): "x"})
                )
            },
            None,
        ),
        (
            {"filter": {"amqp:application-properties-filter": {"colour": "red"}}},
            {
                "amqp:application-properties-filter": amqp10.Described(
                    amqp10.Symbol("amqp:application-properties-filter"), amqp10.Map({"colour": "red"})
                )
            },
            None,
        ),
        (
            {"filter": {"name": amqp10.Described(amqp10.ULong(0x120), "n = 5")}},
            {"name": amqp10.Described(amqp10.ULong(0x120), "n = 5")},
            None,
        ),
    ],
)
def test_what_is_asked(arguments: dict[str, Any], filters: Any, mode: str | None) -> None:
    source, names = source_of("q", arguments.get("selector"), arguments.get("filter"), arguments.get("browse", False))
    assert source is not None
    assert source.address == "q"
    assert source.filter == (None if filters is None else amqp10.Map({amqp10.Symbol(k): v for k, v in filters.items()}))
    assert source.distribution_mode == mode
    assert names == frozenset(filters or ())


def test_a_source_keeps_what_it_has() -> None:
    own = {amqp10.Symbol("mine"): amqp10.Described(amqp10.Symbol("x"), 1)}
    given = amqp10.Source(address="q", durable=2, filter=own, capabilities=["queue"])
    source, names = source_of(given, "n = 5", None, True)
    assert source is not None
    assert (source.durable, source.capabilities, source.distribution_mode) == (2, given.capabilities, "copy")
    assert set(source.filter or ()) == {"mine", "jms-selector"}
    assert names == {"jms-selector"}  # the others are the program's affair
    assert source_of(given, None, None, False) == (given, frozenset())
    with pytest.raises(ValueError, match="of a source"):
        source_of(None, "n = 5", None, False)


@pytest.mark.parametrize(
    ("arguments", "answer", "ignored"),
    [
        ({"selector": "n = 5"}, lambda source: amqp10.Source(address="q"), "the filter jms-selector"),
        ({"browse": True}, lambda source: amqp10.Source(address="q", distribution_mode="move"), "browsing"),
        ({"browse": True}, lambda source: amqp10.Source(address="q"), None),  # it does not say
        ({"browse": True, "selector": "n = 5"}, lambda source: source, None),
    ],
)
def test_a_server_that_ignores_it_is_refused(
    arguments: dict[str, Any], answer: Callable[[Any], amqp10.Source], ignored: str | None
) -> None:
    detached: list[amqp10.LinkDetached] = []

    async def handler(peer: amqp10.Peer) -> None:
        async for event in peer:
            match event:
                case amqp10.Login() | amqp10.Open():
                    peer.accept(event)
                case amqp10.Attaching():
                    peer.accept(event, source=answer(event.message.source))
                case WindowOpened():
                    event.view.send(amqp10.Message(body=b"x").encode())
                    peer.update()
                case amqp10.LinkDetached():
                    detached.append(event)

    async def test() -> None:
        async with (
            await amqp10.serve(handler, HOST, 0) as server,
            amqp10.connect(f"amqp://{HOST}:{server.port}") as client,
        ):
            if ignored is None:
                assert await take(await client.receiver("q", **arguments), 1) == [b"x"]
                return
            for _ in range(2):  # the name is free again
                with pytest.raises(Refused, match=f"ignores {ignored}") as refused:
                    await client.receiver("q", name="mine", **arguments)
                assert refused.value.code == "amqp:not-implemented"
            assert await take(await client.receiver("q"), 1) == [b"x"]
        assert len(detached) >= 2

    run(test())
