"""The examples of docs/embed-an-mqtt-server.md run, and its host keeps to what the page says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from lib.kinds import checked, exactly, only
from lib.loopback import HOST, OPENSSL, certificate, run, until
from lib.pages import DOCS, examples, output_of
from wirefmt import mqtt
from wirefmt.connection import Disconnected
from wirefmt.errors import ConnectionLost, Refused

PAGE = "embed-an-mqtt-server.md"
BLOCKS = examples(PAGE)


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 5


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_run(block: str, tmp_path: Path) -> None:
    if "certificate.pem" in block:
        if OPENSSL is None:
            pytest.skip("needs openssl (apt install openssl)")
        certificate(tmp_path)
    output_of(block, tmp_path)


def test_the_table_of_limits_has_the_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+)( MiB| s|) \|", (DOCS / PAGE).read_text(), re.M)
    assert len(rows) == 9
    said = {name: int(number.replace(",", "")) << (20 if unit == " MiB" else 0) for name, number, unit in rows}
    assert said.pop("most") == inspect.signature(mqtt.serve).parameters["most"].default
    options = mqtt.ConnectionOptions()
    assert said == {name: getattr(options, name) for name in said}


def publishes(*numbers: int, version: int, payload: int = 30, properties: tuple[tuple[str, Any], ...] = ()) -> bytes:
    return b"".join(
        mqtt.Publish(
            topic_name="a", payload=bytes(payload), qos=1, packet_identifier=n, properties=properties, version=version
        ).encode()
        for n in numbers
    )


def accepted(version: int, **limits: int) -> mqtt.ServerConnection:
    server = mqtt.ServerConnection(0.0, mqtt.ConnectionOptions(**limits))  # type: ignore[arg-type]
    connect = only(server.receive(mqtt.Connect(client_identifier="x", version=version).encode(), 0.0), mqtt.Connect)
    server.accept(connect)
    server.data_to_send()
    return server


@pytest.mark.parametrize(
    ("limits", "packets", "code"),
    [
        ({"packet_size": 30}, publishes(1, version=5)[:2], 0x95),  # its length alone
        ({"receive_maximum": 2}, publishes(1, 2, 3, version=5), 0x93),
        ({}, publishes(1, version=5, properties=(("topic_alias", 1),)), 0x94),
    ],
    ids=["packet_size", "receive_maximum", "topic_alias_maximum"],
)
def test_limits_are_answered_as_the_table_says(limits: dict[str, int], packets: bytes, code: int) -> None:
    server = accepted(5, **limits)
    assert checked(server.receive(packets, 0.0)[-1], Disconnected).code == code
    assert server.data_to_send() == bytes((0xE0, 1, code))  # DISCONNECT without properties (3.14.2.2.1)


def test_limits_before_5_0() -> None:
    server = accepted(4, packet_size=30)
    end = only(server.receive(publishes(1, version=4, payload=40)[:2], 0.0), Disconnected)
    assert (end.by, end.code, server.data_to_send()) == ("local", None, b"")
    server = accepted(4, undecided=2)
    first, _ = exactly(server.receive(publishes(1, 2, 3, version=4), 0.0), mqtt.Publish, mqtt.Publish)
    assert not server.wants_read
    (third,) = server.acknowledge(first)
    assert third.packet_identifier == 3


# ---- the small host


def host() -> Any:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS[1].rpartition("asyncio.run(")[0], PAGE, "exec"), names)
    return names["Host"]()


def client(server: mqtt.Server, user: str = "north", password: str = "n-secret", **more: Any) -> mqtt.Client:
    return mqtt.connect(f"mqtt://{user}:{password}@{HOST}:{server.port}", timeout=20, **more)


@pytest.mark.parametrize("version", [5, 4, 3])
def test_the_host_in_each_version(version: int) -> None:
    async def test() -> None:
        served = host()
        will = mqtt.Will("north/will", b"gone")
        async with await mqtt.serve(served, HOST, 0) as server:
            for user, password in (("north", "s-secret"), ("east", "n-secret")):
                with pytest.raises(Refused) as refused:
                    await client(server, user, password, client_identifier="x", version=version).open()
                assert refused.value.code == (0x86 if version == 5 else 4)
            async with client(server, client_identifier="a", version=version) as one:
                codes = await one.subscribe("north/#", "north/1", "south/#")
                assert codes == (0, 0, {5: 0x87, 4: 0x80, 3: 0}[version])
                async with client(server, "south", "s-secret", client_identifier="b", version=version) as other:
                    await other.publish("south/1", b"not for a", qos=1)
                    if version == 5:
                        with pytest.raises(Refused):
                            await other.publish("north/1", b"not from b", qos=2)
                    else:
                        await other.publish("north/1", b"not from b", qos=2)
                last = client(server, client_identifier="c", version=version, will=will)
                await last.open()
                await last.publish("north/1", b"once", qos=2)
                again = client(server, client_identifier="c", version=version)
                await again.open()  # takes over from the first, whose will is published
                messages = one.messages()
                got = [(m.topic_name, m.payload_bytes(), m.qos) for m in [await anext(messages), await anext(messages)]]
                assert got == [("north/1", b"once", 0), ("north/will", b"gone", 0)]
                expected: Any = Refused if version == 5 else ConnectionLost
                with pytest.raises(expected) as lost:
                    await last.publish("north/1", b"", qos=1)
                if version == 5:
                    assert lost.value.code == 0x8E
                await one.unsubscribe("north/#")
                await again.publish("north/2", b"nobody", qos=1)
                await again.publish("north/1", b"still", qos=1)
                assert (await anext(messages)).payload_bytes() == b"still"
                await again.close()
                await last.close()
            await until(lambda: not served.users)
        assert (served.peers, served.granted, len(served.index), served.dropped) == ({}, {}, 0, 0)

    run(test())


def test_the_host_does_not_offer_what_it_does_not_do() -> None:
    async def test() -> None:
        async with await mqtt.serve(host(), HOST, 0) as server:
            async with client(server) as some:
                negotiated = some.negotiated
                assert negotiated is not None
                assert negotiated.client_identifier
                assert not negotiated.retain_available
                assert not negotiated.shared_subscription_available
                assert not negotiated.subscription_identifiers_available
                assert negotiated.session_expiry_interval == 0
                await some.subscribe(mqtt.Subscription("north/+", no_local=True))
                await some.publish("north/1", b"own", qos=1)
                some_more = client(server)
                async with some_more:
                    await some_more.publish("north/1", b"another's", qos=1, properties=[("content_type", "text/plain")])
                message = await anext(some.messages())
                assert message.payload_bytes() == b"another's"
                assert message.properties == (("content_type", "text/plain"),)
            for will, code in ((mqtt.Will("south/1", b""), 0x87), (mqtt.Will("north/1", b"", retain=True), 0x9A)):
                with pytest.raises(Refused) as refused:
                    await client(server, will=will).open()
                assert refused.value.code == code

    run(test())
