"""Objects of the core come from their constructors, refuse a second call while another runs, and are never the cause
of a crash: each walk of lib/core_walk.py runs in a process of its own."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import pickletools
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lib import core_walk
from lib.paths import ROOT
from wirefmt import _core, amqp091, amqp10, capture, mqtt, nsq, phpmq, rocketmq
from wirefmt.capture import _engine as capture_engine
from wirefmt.convert import _engine as convert_engine
from wirefmt.convert import convert
from wirefmt.errors import DecodeError

SAMPLE = ROOT / "samples" / "mosquitto-paho-v5.pcap"
CAPTURE = SAMPLE.read_bytes()


@pytest.mark.parametrize("walk", core_walk.WALKS)
def test_nothing_crashes(walk: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "lib.core_walk", walk], cwd=ROOT / "tests", capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr[-4000:]
    counts = {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", told.stdout)}
    least = {
        "constructors": {"classes": 380, "objects": 200, "raised": 100_000},
        "methods": {"classes": 380, "methods": 2000},
        "pickles": {"classes": 150, "objects": 10_000, "restorers": 17},
        "functions": {"functions": 80},
        "known": {"raised": 24},
    }[walk]
    assert all(counts[name] >= n for name, n in least.items()), counts


def test_the_walk_sees_classes_that_no_module_names() -> None:
    names = {cls.__qualname__ for cls in core_walk.classes()}
    assert {"BatchBuffer", "StreamState", "BasicAck", "SendMessageRequestHeader", "UByte", "Unpacker"} <= names
    restorers = {"mqtt._codec.restore", "amqp10._codec.restore_delivery", "convert._engine.restore_conversion"}
    assert set(core_walk.restorers()) > restorers


# ---- constructors


@pytest.mark.parametrize("cls", [c for c in core_walk.classes() if not c.__flags__ & 1 << 9], ids=lambda c: c.__name__)
def test_new_is_the_constructor(cls: Any) -> None:
    """`cls.__new__(cls)` raises what `cls()` raises, or gives as good an object; nobody else makes one."""

    def outcome(make: Callable[[], Any]) -> Any:
        try:
            return type(make())
        except Exception as error:
            return type(error), str(error)

    assert outcome(lambda: cls.__new__(cls)) == outcome(cls)
    with pytest.raises(TypeError, match=r"not safe|is not a (sub)?type"):
        object.__new__(cls)


def test_an_object_is_initialised_once() -> None:
    packet = mqtt.Publish(topic_name="a")
    index: mqtt.TopicIndex[int] = mqtt.TopicIndex()
    index.add("a", 1)
    for thing, options in ((packet, {"topic_name": "b"}), (index, {}), (amqp10.UInt, {})):
        with pytest.raises(TypeError):
            thing.__init__(**options)  # type: ignore
    assert packet.topic_name == "a"
    assert index.match("a") == [1]


def test_classes_that_python_derives_have_the_constructor() -> None:
    class Mine(rocketmq.HeartbeatData):
        pass

    new: Any = Mine.__new__
    assert Mine(client_id="x") == new(Mine, client_id="x")
    assert (Mine(client_id="x").client_id, type(Mine.from_json({"clientID": "y"}))) == ("x", Mine)
    with pytest.raises(TypeError):
        Mine(nonsense=1)  # type: ignore[call-arg]

    class Batch(_core.Batch):
        pass

    with pytest.raises(TypeError):
        Batch()


def test_methods_keep_their_signatures() -> None:
    shown: dict[Any, str] = {
        mqtt.Packet.encode: "(self, /)",
        amqp091.FieldTable.get: "(self, name, default=None, /)",
        amqp10.List.index: "(self, /, value, *bounds)",
        capture.PacketScanner.begin_file: "(self, /, name, index=0, *, prefix=b'', offset=0, first_frame=1)",
        rocketmq.RemotingCommand.decode_body: "(self, /, *, request=None, **options)",
        rocketmq.CommandCustomHeader.from_ext_fields: "(fields, *, strictness=Ellipsis)",
    }
    for method, text in shown.items():
        assert str(inspect.signature(method)) == text
    assert str(mqtt.Packet.detach.__doc__).startswith("An equal packet")


# ---- copies


@pytest.mark.parametrize(
    "make",
    [
        lambda: mqtt.decode_batch(mqtt.Pingreq().encode(), version=5),
        lambda: mqtt.decode_batch(mqtt.Pingreq().encode(), version=5)["byte_offset"].base.obj,  # type: ignore[union-attr]
        lambda: mqtt.Decoder(version=5), mqtt.TopicIndex, amqp091.Decoder, amqp091.Assembler, amqp10.Decoder,
        amqp10.Assembler, nsq.Decoder, phpmq.Decoder, rocketmq.Decoder, capture.CaptureDecoder, capture.PacketScanner,
        capture_engine.PcapReader, capture_engine.PacketTrace, capture_engine.StreamTrace, lambda: _core.Field("a", "int8"),
        lambda: convert_engine.ConvertRules((), ()), lambda: capture_engine.Unpacker(1),  # type: ignore[attr-defined]
    ],
)  # fmt: skip
def test_what_works_is_not_copied(make: Callable[[], Any]) -> None:
    thing = make()
    take: Any
    for take in (copy.copy, copy.deepcopy, *(lambda x, p=p: pickle.dumps(x, p) for p in range(6))):
        with pytest.raises(TypeError):
            take(thing)


def test_pickles_name_public_modules() -> None:
    """What a pickle of a message names is of the package of its protocol: private modules may change."""
    things = core_walk.samples()
    assert len({type(thing).__module__ for thing in things}) >= 7
    for thing in things:
        named = {
            str(arg).partition(" ")[0]
            for op, arg, _ in pickletools.genops(pickle.dumps(thing, 2))
            if op.name == "GLOBAL"
        }
        private = [name for name in named if name.startswith("wirefmt") and "._" in name]
        assert not private, f"{type(thing)}: {private}"


def test_deliveries_and_conversions_are_pickled() -> None:
    message = amqp10.Message(body=b"x" * 100, application_properties={"k": amqp10.UByte(1), "x" * 256: "v"})
    first = amqp10.Transfer(handle=0, delivery_id=0, delivery_tag=b"t", more=True, payload=message.encode()[:50])
    last = amqp10.Transfer(handle=0, payload=message.encode()[50:])
    (delivery,) = amqp10.Assembler().feed(first.encode() + last.encode())
    assert isinstance(delivery, amqp10.Delivery)
    for again in (pickle.loads(pickle.dumps(delivery)), copy.copy(delivery), copy.deepcopy(delivery)):
        assert (again.message, again.transfer, again.transfers, again.settled) == (message, delivery.transfer, 2, False)
    result = convert(message, to="amqp091")
    found = pickle.loads(pickle.dumps(result))
    assert (found.protocol, found.octets, found.body) == (result.protocol, result.octets, result.body)
    assert (found.losses, found.message) == (result.losses, result.message)
    assert result.losses


# ---- a call during a call

PUBLISHES = b"".join(mqtt.Publish(topic_name=f"a/{i}", payload=b"x" * 9).encode() for i in range(50))
CONTENTS = b"".join(
    amqp091.BasicMessage(amqp091.BasicPublish(channel=1 + i % 3), body=b"x" * 30, frame_max=20).encode()
    for i in range(20)
)
TRANSFERS = [
    amqp10.Transfer(handle=0, delivery_id=i // 2, delivery_tag=b"t", more=i % 2 == 0, payload=b"\0\x53\x75\xa0\1x")
    for i in range(40)
]
COMMANDS = b"".join(rocketmq.RemotingCommand(code=i, ext_fields={"a": "b"}).encode() for i in range(1, 40))
FRAMES = b"".join(
    nsq.MessageFrame(timestamp=i, attempts=1, message_id=b"0" * 16, body=b"x").encode() for i in range(40)
)
MESSAGES = phpmq.MessageClientToServer(queue_name="q", content=b"x").encode() * 40


def scanned(scanner: Any) -> Any:
    scanner.begin_file("x")
    scanner.feed(CAPTURE)
    scanner.end_file()
    return scanner.take(final=True).num_rows


def captured(decoder: Any) -> Any:
    decoder.begin_file("x")
    assert decoder.feed(CAPTURE) == len(CAPTURE)
    while not decoder.end_file():
        pass
    return decoder.take(final=True).num_rows


def fed(octets: bytes) -> Callable[[Any], Any]:
    """Feeds octets that end in nonsense: the exception is made of Python objects, the messages of none it collects."""

    def feed(decoder: Any) -> Any:
        with pytest.raises(DecodeError) as caught:
            decoder.feed(octets)
        return caught.value.messages, str(caught.value)

    return feed


def traced(trace: Any) -> list[Any]:
    packets = capture_engine.PcapReader()
    return [trace.parse(link, octets) for _, _, link, _, octets in packets.feed(CAPTURE)[:200]]


def streamed(trace: Any) -> Any:
    for i in range(100):
        trace.segment_in((1, 1000), (2, 2000), 16, 1 + i, payload=b"x")
    trace.finish()
    return list(trace.events)


#: What makes an object; what works with it; calls that may come in between, which change nothing where they are let in.
WORKERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], list[Callable[[Any], Any]]]] = {
    "mqtt": (lambda: mqtt.Decoder(version=5), fed(PUBLISHES + b"\0\0"), [lambda d: d.feed(b""), lambda d: d.close()]),
    "amqp091": (amqp091.Assembler, fed(CONTENTS + b"\xff" * 9), [lambda d: d.feed(b""), lambda d: d.close()]),
    "amqp091 frames": (amqp091.Decoder, fed(CONTENTS + b"\xff" * 9), [lambda d: d.feed(b""), lambda d: d.close()]),
    "amqp10": (amqp10.Decoder, fed(b"".join(t.encode() for t in TRANSFERS) + bytes(8)), [lambda d: d.feed(b"")]),
    "transfers": (amqp10.Assembler, lambda a: [d.message for d in a.feed(b"".join(t.encode() for t in TRANSFERS))],
                  [lambda a: a.feed(b"")]),
    "rocketmq": (rocketmq.Decoder, fed(COMMANDS + b"\xff" * 9), [lambda d: d.feed(b""), lambda d: d.close()]),
    "nsq": (nsq.Decoder, fed(FRAMES + b"\xff" * 9), [lambda d: d.feed(b""), lambda d: d.close()]),
    "phpmq": (phpmq.Decoder, fed(MESSAGES + b"?" * 9), [lambda d: d.feed(b""), lambda d: d.close()]),
    "packets": (capture_engine.PcapReader, lambda r: r.feed(CAPTURE), [lambda r: r.feed(b"")]),
    "single packets": (capture_engine.PacketTrace, traced, [lambda t: t.parse(1, bytes(60))]),
    "streams": (capture_engine.StreamTrace, streamed, [lambda t: t.segment_in((3, 1), (4, 2), 16, 1)]),
    "scanner": (capture.PacketScanner, scanned, [lambda s: s.feed(b""), lambda s: s.take()]),
    "capture": (capture.CaptureDecoder, captured, [lambda d: d.finish(), lambda d: d.take()]),
}  # fmt: skip


#: What runs no Python code. From CPython 3.12 on the collector waits for some, so that no call can come between.
ALONE = {"packets", "single packets", "streams", "scanner", "capture"} if sys.version_info >= (3, 12) else set[str]()


@contextmanager
def collecting(call: Callable[[], None]) -> Iterator[None]:
    """Each object that the collector hears of runs `call`, as it might run a finalizer."""
    before = gc.get_threshold()

    def called(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            call()

    gc.collect()  # empties the lists of free tuples: an object from there is not heard of
    gc.callbacks.append(called)
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(called)


@pytest.mark.parametrize("name", WORKERS)
def test_a_call_during_a_call_is_refused(name: str) -> None:
    """The collector may run any code where an object is made, here other calls of the same object: they raise while a
    call runs, and its result is the one it has alone."""
    make, work, others = WORKERS[name]
    plain = work(make())
    thing = make()
    refused = 0
    busy = False

    def interfere() -> None:
        nonlocal refused, busy
        if busy:
            return
        busy = True
        for other in others:
            try:
                other(thing)
            except RuntimeError as error:
                assert "in use" in str(error)
                refused += 1
            except DecodeError:  # the call has failed, and will from now on
                pass
        busy = False

    with collecting(interfere):
        result = work(thing)
    assert result == plain
    # the collector does not hear of deliveries
    assert refused or name == "transfers" or name in ALONE


@pytest.mark.parametrize("name", WORKERS)
def test_two_threads(name: str) -> None:
    """Whatever two threads do with one object at once, each call returns or raises; none of them ends the process. Their
    result is of no worth, and nothing here depends on which thread comes when."""
    make, work, others = WORKERS[name]
    wrong: list[BaseException] = []
    for _ in range(8):
        thing = make()
        start = threading.Barrier(4)

        def run(thing: Any = thing, start: threading.Barrier = start) -> None:
            start.wait()
            for call in (work, *others, work, *others):
                try:
                    call(thing)
                except (RuntimeError, DecodeError, ValueError, AttributeError, AssertionError, pytest.fail.Exception):
                    pass
                except BaseException as error:
                    wrong.append(error)

        in_threads(*[run] * 4)
    assert not wrong


def in_threads(*calls: Callable[[], None]) -> None:
    """All at once, with the interpreter changing threads as often as it can."""
    threads = [threading.Thread(target=call) for call in calls]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_an_index_that_threads_share_loses_nothing() -> None:
    index: mqtt.TopicIndex[int] = mqtt.TopicIndex()
    wrong: list[int] = []

    def work(me: int) -> None:
        for i in range(300):
            for filter in ("a/+", f"a/{i % 7}", f"b/{i}/#", "$share/g/a/+"):
                if not index.add(filter, me):
                    wrong.append(i)
            wrong.extend(me for _ in range(me not in index.match(f"a/{i % 7}")))
            for filter in ("a/+", f"a/{i % 7}", f"b/{i}/#", "$share/g/a/+"):
                if not index.discard(filter, me):
                    wrong.append(i)

    in_threads(*(lambda me=me: work(me) for me in range(4)))
    assert not wrong
    assert len(index) == 0
    assert not index.match("a/1")


def test_a_reader_that_threads_share_gives_batches_or_raises() -> None:
    rows: list[int] = []

    def work(reader: capture.Reader) -> None:
        for _ in range(100):
            try:
                rows.append(next(reader).num_rows)
            except StopIteration:
                return
            except (ValueError, RuntimeError):  # another thread uses it
                pass

    with capture.read(str(SAMPLE), batch_rows=20) as reader:
        in_threads(*[lambda: work(reader)] * 4)
    assert rows


def test_a_decoder_that_works_without_the_lock_is_in_use() -> None:
    """feed() lets other threads run; one that calls the same decoder meanwhile gets an error, and may read its counters."""
    many = CAPTURE + CAPTURE[24:] * 400
    told: list[str] = []
    for _ in range(200):
        decoder = capture.CaptureDecoder(batch_rows=1 << 30, batch_bytes=1 << 30)
        decoder.begin_file("x")
        start = threading.Barrier(2)

        def feed(decoder: Any = decoder, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                decoder.feed(many)
            except RuntimeError as error:
                told.append(str(error))

        thread = threading.Thread(target=feed)
        thread.start()
        start.wait()
        while thread.is_alive() and not told:
            assert decoder.stats["files"] == 1
            others: list[Any] = [
                (decoder.finish, ()),
                (decoder.take, (True,)),
                (decoder.feed, (b"x",)),
            ]
            for method, args in others:
                try:
                    method(*args)
                except RuntimeError as error:
                    told.append(str(error))
        thread.join()
        if told:
            break
    assert told and "in use" in told[0]
