"""Faults on the command line, in scripts, and in the table of docs/broker-faults.md."""

from __future__ import annotations

import pytest

from lib.loopback import run
from lib.paths import ROOT
from wirefmt import broker, mqtt
from wirefmt.broker import Broker
from wirefmt.broker.faults import FAULTS, Fault, Script, Step, play, read_script


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mqtt:cut_after=10", Fault(protocol="mqtt", cut_after=10)),
        ("refuse", Fault(refuse=True)),
        ("amqp: delay=0.5, full=disk", Fault(protocol="amqp", delay=0.5, full="disk")),
        ("*:corrupt=1000", Fault(corrupt=1000)),
    ],
)
def test_the_form_of_the_command_line(text: str, fault: Fault) -> None:
    assert Fault.parse(text) == fault


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mqt:refuse", "unknown protocol 'mqt'.*mqtt"),
        ("mqtt:cutafter=1", "unknown fault 'cutafter'.*cut_after"),
        ("mqtt:cut_after=x", "cut_after must be an integer"),
        ("mqtt:cut_after=-1", "at least 0"),
        ("reorder=1", "at least 2"),
        ("full=cpu", "memory"),
        ("mqtt:refuse=false", "refuse must be true"),
    ],
)
def test_a_wrong_fault(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Fault.parse(text)


SCRIPT = """
seed = 7
[[fault]]
after = 0.2
restart = "without state"
[[fault]]
protocol = "mqtt"
for = 0.1
lose_acknowledgements = 1
"""


def test_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fault begins and ends. Then the broker restarts without the message."""
    script = read_script(SCRIPT)
    lost = Step(0.0, 0.1, Fault(protocol="mqtt", lose_acknowledgements=1), None)
    assert script == Script(7, (lost, Step(0.2, None, None, "without state")))
    started: list[Fault] = []

    async def test() -> None:
        async with Broker(ports={"mqtt": 0}) as b:
            start = b.faults.start
            monkeypatch.setattr(b.faults, "start", lambda fault: (started.append(fault), start(fault))[1])  # type: ignore[func-returns-value]
            port = b.port("mqtt")
            async with mqtt.connect(b.url("mqtt")) as client:
                await client.publish("t", b"", qos=1)
            assert len(b.topic("t")) == 1
            await play(b, script)
            assert started == [lost.fault]
            assert b.faults.seed == 7
            assert not b.faults.active["mqtt"]
            assert list(b.topic("t")) == []
            assert b.port("mqtt") == port

    run(test())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sed = 7", "a script has seed"),
        ("[[fault]]\nafter = 'x'\nrefuse = true", "after must be a number"),
        ("[[fault]]\nrestart = 'now'", "restart must be"),
        ("[[fault]]\nrestart = 'with state'\nrefuse = true", "no other entry"),
        ("[[fault]]\nprotocol = 'mqtt'", "no fault given; there are"),
    ],
)
def test_a_wrong_script(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_script(text)


def test_the_page_has_every_fault() -> None:
    """The page has the value, the effect and the protocols of each fault, as in `FAULTS`."""
    page = (ROOT / "docs" / "broker-faults.md").read_text()
    for kind in FAULTS:
        assert f"| `{kind.name}` | {kind.value} | {kind.effect} | {kind.where} |" in page


def test_a_seed_is_printed_once(capfd: pytest.CaptureFixture[str]) -> None:
    with broker.running() as b:
        for _ in range(2):
            with b.fault("nsq", corrupt=10):
                pass
        assert capfd.readouterr().err == f"wirefmt: the seed of faults is {b.broker.faults.seed}\n"
