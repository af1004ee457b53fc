"""RocketMQ in captures: real traffic, the captures of others, what rows say, what is remembered, what is hidden."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lib.captures import Row, captures_of, lines_in, path_of
from lib.paths import DATA
from lib.rocketmq_vectors import load
from lib.wire import Tcp, pcap
from wirefmt import rocketmq
from wirefmt.rocketmq import spec

pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install pyarrow)")
from wirefmt.capture import CaptureDecoder, read  # noqa: E402

CLIENT, SERVER = 0, 1


def rows_of(*batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches if batch is not None for row in pa.table(batch).to_pylist()]


def read_rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    with read(path, **options) as reader:
        return rows_of(*reader)


def decoded(data: bytes, **options: Any) -> list[dict[str, Any]]:
    decoder = CaptureDecoder(**options)
    decoder.begin_file("c", 0)
    assert decoder.feed(data) == len(data)
    assert decoder.end_file()
    assert decoder.finish()
    return rows_of(decoder.take(final=True))


def talk(*turns: tuple[int, bytes], port: int = 10911, size: int = 1448, **options: Any) -> list[dict[str, Any]]:
    """The rows of a connection in which each side says what the turns say."""
    tcp = Tcp(port=port)
    frames = tcp.open()
    for side, octets in turns:
        frames += tcp.send(side, octets, size)
    return decoded(pcap(frames + tcp.close()), **options)


def request(code: int, opaque: int = 1, body: bytes = b"", form: Any = "JSON", **fields: str) -> bytes:
    return rocketmq.RemotingCommand(
        code=code, opaque=opaque, ext_fields=fields, body=body, serialize_type=form
    ).encode()


def response(code: int, opaque: int = 1, body: bytes = b"", **fields: str) -> bytes:
    return rocketmq.RemotingCommand(code=code, flag=1, opaque=opaque, ext_fields=fields or None, body=body).encode()


def stored(**fields: Any) -> bytes:
    return rocketmq.MessageExt(**{"topic": "T", "body": b"b", "store_host": ("192.0.2.1", 10911)} | fields).encode()


def octets_of(row: dict[str, Any]) -> int:
    return int(row["wire_size"])


# ---- real traffic


@pytest.fixture(scope="module", params=["json", "binary"])
def session(request: pytest.FixtureRequest) -> tuple[str, list[dict[str, Any]]]:
    return request.param, read_rows(DATA / "rocketmq" / f"client-5.5.0-{request.param}-header.pcap.gz")


def test_a_real_session_has_no_fault(session: tuple[str, list[dict[str, Any]]]) -> None:
    _, rows = session
    assert {row["protocol"] for row in rows} == {"rocketmq"}
    assert Counter(row["status"] for row in rows).keys() == {"ok"}
    assert all(row["error"] is None for row in rows)


def test_a_real_session_tiles_its_streams(session: tuple[str, list[dict[str, Any]]]) -> None:
    """Every octet belongs to one row, and none to two."""
    ends: dict[tuple[int, int], int] = {}
    for row in session[1]:
        stream = (row["flow_id"], row["direction"])
        assert row["byte_offset"] == ends.get(stream, 0)
        ends[stream] = row["byte_offset"] + octets_of(row)
    assert len(ends) > 10


def test_a_real_session_has_the_commands(session: tuple[str, list[dict[str, Any]]]) -> None:
    form, rows = session
    kinds = {row["kind"] for row in rows}
    assert len(kinds) >= 41
    assert {
        "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "PULL_MESSAGE", "HEART_BEAT", "GET_ROUTEINFO_BY_TOPIC", "LOCK_BATCH_MQ",
        "UNLOCK_BATCH_MQ", "QUERY_MESSAGE", "VIEW_MESSAGE_BY_ID", "END_TRANSACTION", "CHECK_TRANSACTION_STATE",
        "NOTIFY_CONSUMER_IDS_CHANGED", "UPDATE_CONSUMER_OFFSET", "QUERY_CONSUMER_OFFSET", "UNREGISTER_CLIENT",
        "REGISTER_BROKER", "CONSUME_MESSAGE_DIRECTLY", "GET_CONSUMER_RUNNING_INFO", "PUT_KV_CONFIG",
    } <= kinds  # fmt: skip
    assert ("POP_MESSAGE" in kinds) == (form == "json")
    clients = {
        row["rocketmq"]["serialize_type"] for row in rows if row["kind"] == "SEND_MESSAGE_V2" and row["code"] is None
    }
    assert clients == {"JSON" if form == "json" else "ROCKETMQ"}


def test_a_real_session_delivers_what_was_sent(session: tuple[str, list[dict[str, Any]]]) -> None:
    """What consumers were given is what producers sent: body, tags, keys and properties, by the producer's id."""
    _, rows = session
    sent = {r["message_id"]: r for r in rows if r["kind"] == "SEND_MESSAGE_V2" and r["code"] is None}
    given = [r for r in rows if r["kind"] == "PULL_MESSAGE" and r["code"] == 0]
    assert len(sent) == 14
    compared = 0
    for row in given:
        assert row["operation"] == "receive"
        assert row["rocketmq"]["request_code"] == 11
        assert row["destination"].endswith(("Topic_json", "Topic_binary")) or row["destination"].startswith("%RETRY%")
        if row["message_id"] not in sent or row["destination"].startswith("%RETRY%"):
            continue
        source = sent[row["message_id"]]
        assert row["payload"] == source["payload"]
        assert row["destination"] == source["destination"]
        assert row["rocketmq"]["tags"] == source["rocketmq"]["tags"]
        assert row["rocketmq"]["keys"] == source["rocketmq"]["keys"]
        transaction = {"TRAN_MSG", "DELAY"}
        assert {k for k, _ in source["headers"]} - transaction <= {k for k, _ in row["headers"]}
        compared += 1
    assert compared >= 10
    assert any(row["payload"] == b"z" * 6000 and row["rocketmq"]["sys_flag"] & 1 for row in given)


def test_a_real_session_pairs_responses(session: tuple[str, list[dict[str, Any]]]) -> None:
    for row in session[1]:
        if row["code"] is not None:
            assert row["rocketmq"]["request_code"] is not None
            assert row["kind"] != "RESPONSE"


# ---- the captures of others


@pytest.mark.parametrize("row", captures_of("rocketmq"))
def test_third_party(row: Row) -> None:
    """Against another decoder, which reads headers only: one row per message where it has one per frame."""
    rows = [r for r in read_rows(path_of(row)) if r["kind"] is not None]
    expected = lines_in(row, row["expected"])
    frames = [r for r in rows if not r["rocketmq"]["message_index"]]
    assert len(frames) == len(expected)
    # holes are given up later than the other decoder does, so rows may come later, too
    frames.sort(key=lambda r: (r["sequence"], r["direction"]))
    expected.sort(key=lambda said: (said["opaque"], said["msg_type"] == "Response"))
    for row, said in zip(frames, expected, strict=True):
        answer = said["msg_type"] == "Response"
        assert row["status"] == "ok"
        assert row["sequence"] == said["opaque"]
        assert row["version"] == said["version"]
        assert (row["code"] is not None) == answer
        assert row["rocketmq"]["remark"] == (said["remark"] or None)
        if answer:
            assert row["code"] == said["resp_code"]
            assert spec.RESPONSE_CODES[row["code"]] == said["resp_code_name"]
            if row["rocketmq"]["message_count"] in (None, 1):
                assert row["wire_size"] == said["resp_msg_size"] + 4
        else:
            assert (row["rocketmq"]["code"], row["kind"]) == (said["req_code"], said["req_code_name"])
            assert row["wire_size"] == said["req_msg_size"] + 4
            assert row["destination"] == (said["ext_topic"] or None)
            assert (row["consumer_group"] or row["rocketmq"]["producer_group"]) == (said["ext_group"] or None)
        if said["msg_key"]:
            assert row["message_id"] == said["msg_key"]
        if said["ext_queue_id"]:
            assert row["rocketmq"]["queue_id"] == int(said["ext_queue_id"])
        topic, _, _ = said["endpoint"].rpartition("-")
        assert row["destination"] == (topic or None)


# ---- rows


def test_a_send_is_one_row() -> None:
    properties = rocketmq.encode_properties(
        {"KEYS": "k1 k2", "TAGS": "TagA", "UNIQ_KEY": "U", "colour": "blü", "CORRELATION_ID": "c", "REPLY_TO_CLIENT": "r",
         "TTL": "3000", "empty": ""}
    )  # fmt: skip
    header = rocketmq.SendMessageRequestHeaderV2(
        a="PG", b="T", c="TBW102", d=4, e=3, f=0, g=1700000000123, h=9, i=properties, j=2, n="broker-a"
    )
    for form in ("JSON", "ROCKETMQ"):
        octets = rocketmq.RemotingCommand(
            code=310, opaque=7, header=header, body=b"hello", serialize_type=form
        ).encode()
        ours, reply = talk((CLIENT, octets), (SERVER, response(0, 7, msgId="OFFSET", queueId="3", queueOffset="42")))
        assert (ours["kind"], ours["operation"], ours["destination"]) == ("SEND_MESSAGE_V2", "send", "T")
        assert (ours["payload"], ours["payload_size"], ours["message_id"]) == (b"hello", 5, "U")
        assert (ours["correlation_id"], ours["reply_to"], ours["ttl_ms"]) == ("c", "r", 3000)
        assert ours["headers"] == list(rocketmq.decode_properties(properties).items())
        said = {k: v for k, v in ours["rocketmq"].items() if v is not None and k != "ext_fields"}
        assert said == {
            "code": 310, "flag": 0, "oneway": False, "language": "PYTHON", "serialize_type": form, "tags": "TagA",
            "keys": "k1 k2", "producer_group": "PG", "broker_name": "broker-a", "queue_id": 3, "message_flag": 9, "sys_flag": 0,
            "born_timestamp": 1700000000123, "reconsume_times": 2,
        }  # fmt: skip
        assert dict(ours["rocketmq"]["ext_fields"]) == header.ext_fields()
        assert (reply["kind"], reply["code"], reply["destination"]) == ("SEND_MESSAGE_V2", 0, "T")
        assert (reply["message_id"], reply["rocketmq"]["queue_offset"]) == ("OFFSET", 42)
        assert reply["rocketmq"]["request_code"] == 310


@pytest.mark.parametrize("name", ["TAGX", "KEYX", "UNIQ_KEX", "PGROUX", "CORRELATION_IX", "REPLY_TO_CLIENX", "TTX"])
def test_a_property_of_another_name_has_no_column(name: str) -> None:
    header = rocketmq.SendMessageRequestHeaderV2(
        a="PG", b="T", c="D", d=4, e=1, f=0, g=5, h=0, i=rocketmq.encode_properties({name: "7"}), m=False, n="B"
    )
    (row,) = talk((CLIENT, rocketmq.RemotingCommand(code=310, header=header, body=b"x").encode()))
    assert row["headers"] == [(name, "7")]
    columns = (
        row["message_id"],
        row["correlation_id"],
        row["reply_to"],
        row["ttl_ms"],
        row["rocketmq"]["producer_group"],
    )
    assert columns == (None, None, None, None, "PG")
    assert (row["rocketmq"]["tags"], row["rocketmq"]["keys"]) == (None, None)


def test_long_names_and_letters_mean_the_same() -> None:
    v2 = rocketmq.SendMessageRequestHeaderV2(
        a="PG", b="T", c="D", d=4, e=1, f=0, g=5, h=0, i="TAGS\x01t\x02", m=False, n="B"
    )
    v1 = rocketmq.send_v1(v2)
    rows = [
        talk((CLIENT, rocketmq.RemotingCommand(code=code, header=header, body=b"x").encode()))[0]
        for code, header in ((310, v2), (10, v1))
    ]
    for row in rows:
        for name in ("code", "ext_fields"):
            row["rocketmq"].pop(name)
        for name in ("kind", "wire_size"):
            row.pop(name)
    assert rows[0] == rows[1]


def test_a_pull_response_is_a_row_a_message() -> None:
    messages = [
        stored(topic="T1", body=b"one", properties={"UNIQ_KEY": "A", "TAGS": "x"}, queue_offset=5, physical_offset=77),
        stored(topic="Tü", body=None, reconsume_times=3, born_host=("2001:db8::1", 9)),
        stored(topic="L" * 200, body=b"three"),
    ]
    ask = request(11, 9, consumerGroup="CG", topic="Asked", queueId="0", queueOffset="5", commitOffset="4")
    answer = response(0, 9, b"".join(messages), nextBeginOffset="8", minOffset="0", maxOffset="9")
    asked, *given = talk((CLIENT, ask), (SERVER, answer))
    assert (asked["destination"], asked["consumer_group"], asked["rocketmq"]["queue_offset"]) == ("Asked", "CG", 5)
    assert [r["destination"] for r in given] == ["T1", "Tü", "L" * 200]
    assert [r["payload"] for r in given] == [b"one", None, b"three"]
    assert [r["message_id"] for r in given] == [
        "A", *(m.offset_msg_id for m in rocketmq.decode_messages(b"".join(messages))[1:])
    ]  # fmt: skip
    assert [(r["redelivered"], r["attempts"]) for r in given] == [(False, 1), (True, 4), (False, 1)]
    assert {r["consumer_group"] for r in given} == {"CG"}
    assert [r["rocketmq"]["message_index"] for r in given] == [0, 1, 2]
    assert {r["rocketmq"]["message_count"] for r in given} == {3}
    assert {r["rocketmq"]["next_begin_offset"] for r in given} == {8}
    assert given[1]["rocketmq"]["born_host"] == "[2001:db8:0:0:0:0:0:1]:9"
    assert given[0]["rocketmq"]["store_host"] == "192.0.2.1:10911"
    assert [octets_of(r) for r in given] == [len(answer) - sum(map(len, messages[1:])), *map(len, messages[1:])]
    assert [r["byte_offset"] for r in given] == [0, octets_of(given[0]), octets_of(given[0]) + octets_of(given[1])]


def test_stored_messages_without_their_request() -> None:
    """Their magic code tells."""
    (row,) = talk((SERVER, response(0, 9, stored(topic="T1"))), port=10911)
    assert (row["kind"], row["destination"], row["rocketmq"]["message_count"]) == ("RESPONSE", "T1", 1)


def test_a_message_that_cannot_be_read_ends_the_body() -> None:
    good, bad = stored(), bytearray(stored())
    bad[7] ^= 1
    octets = response(0, 1, good + bytes(bad) + good)
    _, first, second = talk((CLIENT, request(11, topic="T")), (SERVER, octets))
    assert (first["status"], second["status"]) == ("ok", "malformed")
    assert second["error"].startswith("messages[1].magic_code: not the magic code of a message at offset ")
    assert octets_of(first) + octets_of(second) == len(octets)
    assert second["rocketmq"]["message_count"] == 1


def test_compressed_bodies() -> None:
    body = b"abc" * 1000
    frames = [stored(body=zlib.compress(body, 5), sys_flag=0x301), stored(body=b"no zlib", sys_flag=0x1)]
    _, good, bad = talk((CLIENT, request(11, topic="T")), (SERVER, response(0, 1, b"".join(frames))))
    assert (good["payload"], good["payload_size"], good["status"], good["error"]) == (body, 3000, "ok", None)
    assert (bad["payload"], bad["status"]) == (b"no zlib", "ok")
    assert bad["error"] == "body is compressed: body cannot be decompressed"


def test_a_decompression_bomb_stays_compressed() -> None:
    bomb = zlib.compress(bytes(17 << 20))
    (_, row) = talk((CLIENT, request(11, topic="T")), (SERVER, response(0, 1, stored(body=bomb, sys_flag=0x301))))
    assert row["payload"] == bomb
    assert row["error"] == "body is compressed: body larger than the limit once decompressed"


def test_batches_are_one_row() -> None:
    items = [rocketmq.Message(body=b"1"), rocketmq.Message(body=b"22", properties={"TAGS": "x"})]
    body = rocketmq.encode_batch_messages(items)
    (row,) = talk((CLIENT, request(320, body=body, a="PG", b="T", m="true")))
    assert (row["destination"], row["rocketmq"]["message_count"], row["payload"]) == ("T", 2, body)


def test_who_answers_whom() -> None:
    """Numbers are those of a side: a broker's request 5 is not the client's, and an answer is used once."""
    rows = talk(
        (CLIENT, request(105, 5, topic="A") + request(30, 6, topic="B", queueId="1")),
        (SERVER, request(40, 5, consumerGroup="G") + response(0, 6, offset="1") + response(0, 5) + response(0, 5)),
        (CLIENT, response(0, 5)),
        port=9876,
    )
    answers = [
        (r["direction"], r["kind"], r["destination"], r["consumer_group"]) for r in rows if r["code"] is not None
    ]
    assert answers == [
        (1, "GET_MAX_OFFSET", "B", None),
        (1, "GET_ROUTEINFO_BY_TOPIC", "A", None),
        (1, "RESPONSE", None, None),
        (0, "NOTIFY_CONSUMER_IDS_CHANGED", None, "G"),
    ]


def test_what_is_remembered_is_bounded() -> None:
    """The last 1024 requests of a direction: older ones are answered by nobody we know."""
    asks = b"".join(request(105, i, topic=f"T{i}") for i in range(3000))
    answers = b"".join(response(0, i) for i in range(3000))
    rows = talk((CLIENT, asks), (SERVER, answers), port=9876, size=60000)
    known = [r["sequence"] for r in rows if r["code"] is not None and r["kind"] != "RESPONSE"]
    assert known == list(range(3000 - 1024, 3000))


def test_answers_come_in_any_order() -> None:
    """Any number of requests may wait, and their numbers need not follow one another: each answer finds its own request."""
    chance = random.Random(5)
    free = list(range(1024))
    waiting: dict[int, Any] = {}
    turns: list[tuple[int, bytes]] = []
    expected: list[Any] = []
    for most in (3, 40, 8, 200, 1, 700, 2):
        for _ in range(12):
            chance.shuffle(free)
            asked = [low + 1024 * chance.randrange(1000) for low in free[: chance.randrange(1, most + 1)]]
            free = [low for low in free if low not in {opaque % 1024 for opaque in asked}]
            waiting |= {opaque: f"T{len(turns)}-{opaque}" for opaque in asked}
            turns.append((CLIENT, b"".join(request(105, opaque, topic=waiting[opaque]) for opaque in asked)))
            answered = chance.sample(
                sorted(waiting), chance.randrange(max(0, len(waiting) - most // 2), len(waiting) + 1)
            )
            free += [opaque % 1024 for opaque in answered]
            expected += [(opaque, waiting.pop(opaque)) for opaque in answered]
            turns.append((SERVER, b"".join(response(0, opaque) for opaque in answered)))
    rows = talk(*(turn for turn in turns if turn[1]), port=9876, size=60000)
    assert [(r["sequence"], r["destination"]) for r in rows if r["code"] is not None] == expected


@pytest.mark.parametrize("size", [1, 28, 29, 255, 256, 300])
def test_an_answer_has_the_names_of_its_request(size: int) -> None:
    """A topic and a group of up to 255 octets each are remembered until then."""
    for topic, group in (("T" * size, "G"), ("T", "G" * size), ("T" * size, "G" * size)):
        asked, answer = talk(
            (CLIENT, request(15, 3, topic=topic, consumerGroup=group, commitOffset="9")), (SERVER, response(0, 3))
        )
        assert (asked["destination"], asked["consumer_group"]) == (topic, group)
        expected = tuple(name if len(name) <= 255 else None for name in (topic, group))
        assert (answer["destination"], answer["consumer_group"]) == expected


def test_one_way_requests_are_not_waited_for() -> None:
    oneway = rocketmq.RemotingCommand(
        code=15, flag=2, opaque=3, ext_fields={"topic": "T", "commitOffset": "9"}
    ).encode()
    asked, answer = talk((CLIENT, oneway), (SERVER, response(0, 3)))
    assert (asked["rocketmq"]["oneway"], asked["rocketmq"]["queue_offset"]) == (True, 9)
    assert answer["kind"] == "RESPONSE"


def test_client_ids_come_from_heartbeats() -> None:
    body = rocketmq.HeartbeatData(client_id="me@1", producer_data_set=[rocketmq.ProducerData(group_name="G")]).encode()
    first, beat, after = talk((CLIENT, request(105, topic="T") + request(34, 2, body) + request(105, 3, topic="T")))
    assert [r["client_id"] for r in (first, beat, after)] == [None, "me@1", "me@1"]
    assert beat["payload"] == body


def test_unknown_codes_are_kept() -> None:
    asked, answer = talk((CLIENT, request(29999, 4)), (SERVER, response(4711, 4)))
    assert (asked["kind"], asked["operation"], asked["rocketmq"]["code"]) == ("29999", "manage", 29999)
    assert (answer["kind"], answer["code"]) == ("29999", 4711)


def test_credentials_are_hidden() -> None:
    fields: dict[str, Any] = {"AccessKey": "A", "Signature": "secret", "SecurityToken": "token", "topic": "T"}
    octets = request(105, **fields)
    (hidden,) = talk((CLIENT, octets))
    assert dict(hidden["rocketmq"]["ext_fields"]) == fields | {
        "AccessKey": "***",
        "Signature": "***",
        "SecurityToken": "***",
    }
    (shown,) = talk((CLIENT, octets), expose_credentials=True)
    assert dict(shown["rocketmq"]["ext_fields"]) == fields
    (batch,) = pa.table(rocketmq.decode_batch(octets)).to_pylist()
    assert dict(batch["ext_fields"])["Signature"] == "***"


def test_a_hole_in_a_send_leaves_its_beginning() -> None:
    tcp = Tcp(port=10911)
    octets = request(310, b="T", i="TAGS\x01t\x02", body=bytes(range(250)) * 20)
    frames = tcp.open()
    sent = tcp.send(CLIENT, octets, 1000)
    del sent[3]
    frames += sent + tcp.send(CLIENT, request(105, 2, topic="next")) + tcp.close()
    rows = decoded(pcap(frames))
    assert [r["status"] for r in rows] == ["partial", "gap", "ok"]
    assert (rows[0]["kind"], rows[0]["destination"], rows[0]["rocketmq"]["tags"]) == ("SEND_MESSAGE_V2", "T", "t")
    assert rows[0]["payload"] == (bytes(range(250)) * 20)[: len(rows[0]["payload"])]
    assert len(rows[0]["payload"]) > 2000
    assert rows[2]["destination"] == "next"


@pytest.mark.parametrize("cut", [0, 1, 50])
@pytest.mark.parametrize("whole", [1, 2])
def test_a_pull_response_that_ends_behind_a_message(whole: int, cut: int) -> None:
    """A row for each whole message, and one that says that more is missing: of the octets behind them, if there are any."""
    messages = [stored(topic=f"T{i}", body=bytes(300)) for i in range(3)]
    octets = response(0, 1, b"".join(messages))
    missing = sum(map(len, messages[whole:])) - cut
    rows = talk((CLIENT, request(11, 1, topic="T")), (SERVER, octets[:-missing]))
    given = [row for row in rows if row["direction"] == SERVER]
    assert [(row["status"], row["destination"]) for row in given[:-1]] == [("ok", f"T{i}") for i in range(whole)]
    assert (given[-1]["status"], given[-1]["wire_size"], given[-1]["payload"]) == ("partial", cut, None)
    assert given[-1]["error"] == f"stream ended: {len(octets) - missing} of {len(octets)} bytes read"


@pytest.mark.parametrize("size", [500, 512, 513, 3000, 100_000])
def test_texts_of_any_size_are_unescaped(size: int) -> None:
    """RFC 8259, 7: \\t is a tab. A text of the header, a longer one behind it, and one that is shorter again."""
    texts = {"a": "g\t" * 10, "e": "t\t" * size, "z": "z\t" * (size // 100)}
    remark = "r\t" * (size // 2)
    octets = rocketmq.RemotingCommand(code=105, opaque=1, remark=remark, ext_fields=texts).encode()
    assert octets.count(b"\\t") == 10 + size + size // 100 + size // 2
    _, row = talk((CLIENT, request(105, topic="T")), (CLIENT, octets))
    assert (row["rocketmq"]["remark"], dict(row["rocketmq"]["ext_fields"])) == (remark, texts)


def test_a_hole_in_a_pull_response_leaves_whole_messages() -> None:
    body = b"".join(stored(topic=f"T{i}", body=bytes(300)) for i in range(10))
    tcp = Tcp(port=10911)
    frames = tcp.open() + tcp.send(CLIENT, request(11, 1, topic="T"))
    sent = tcp.send(SERVER, response(0, 1, body), 1000)
    del sent[2]
    rows = decoded(pcap(frames + sent + tcp.close()))
    given = [r for r in rows if r["direction"] == 1]
    assert [r["status"] for r in given if r["kind"]][-1] == "partial"
    whole = [r for r in given if r["status"] == "ok"]
    assert [r["destination"] for r in whole] == [f"T{i}" for i in range(len(whole))]
    assert len(whole) >= 4


def test_resynchronisation() -> None:
    """A late start inside a body of stored messages: frames are found again."""
    stream = b"".join(response(0, i, stored(body=random.Random(i).randbytes(700)) * 3) for i in range(40))
    tcp = Tcp(port=10911)
    frames = tcp.send(SERVER, stream, 1000)[3:]
    rows = decoded(pcap(frames))
    assert rows[0]["status"] == "gap"
    good = [r for r in rows if r["status"] == "ok"]
    assert {r["sequence"] for r in good} >= set(range(4, 40))
    assert all(r["status"] in ("ok", "gap") for r in rows)


@pytest.mark.parametrize("columns", [["kind", "sequence"], ["payload"], ["destination", "headers"]])
def test_projection(columns: list[str]) -> None:
    path = DATA / "rocketmq" / "client-5.5.0-json-header.pcap.gz"
    whole = read_rows(path)
    assert read_rows(path, columns=columns) == [{name: row[name] for name in columns} for row in whole]


def test_other_ports_are_found_by_content() -> None:
    for form in ("JSON", "ROCKETMQ"):
        (row,) = talk((CLIENT, request(105, form=form, topic="T")), port=4242)
        assert (row["protocol"], row["destination"]) == ("rocketmq", "T")
    for vector in load():
        # no program writes the version and the flags of rmq-edge-max
        if vector.kind == "request" and vector.id != "rmq-edge-max-rocketmq":
            rows = talk((CLIENT, vector.octets), port=4242)
            assert {r["protocol"] for r in rows} == {"rocketmq"}, vector.id


OTHERS = {
    "http": b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "redis": b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    "kafka": bytes.fromhex("0000002300120003000000010009636f6e736f6c652d310012617061636865") + bytes(20),
    "kafka-produce": bytes.fromhex("00000040000000070000000100016300000000") + bytes(60),
    "kafka-fetch": bytes.fromhex("000000400001000b0000000100016300000000") + bytes(60),
    "postgresql": bytes.fromhex("0000002600030000") + b"user\0me\0database\0db\0\0\0\0",
    "postgresql-ssl": bytes.fromhex("0000000804d2162f"),
    "dns": bytes.fromhex("001d1234010000010000000000000377777707657861") + b"mple\3com\0\0\1\0\1",
    "dns-zero": bytes.fromhex("0000000001000001000000000000") + bytes(20),
    "thrift": bytes.fromhex("00000020800100010000000470696e6700000000") + bytes(20),
    "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(30),
    "json-lines": b'{"code":10}\n{"code":11}\n',
    "length-json": struct.pack(">I", 40) + b'{"jsonrpc":"2.0","method":"m","id":1}   ',
    "mqtt": bytes.fromhex("100c00044d5154540402003c0000"),
    "zeros": bytes(400),
    "ones": b"\1" * 400,
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not_claimed(name: str) -> None:
    assert not [
        r for r in talk((CLIENT, OTHERS[name]), (SERVER, OTHERS[name]), port=4242) if r["protocol"] == "rocketmq"
    ]


def test_random_octets_are_not_claimed() -> None:
    chance = random.Random(4)
    for _ in range(300):
        octets = bytes((0, chance.randrange(2), *chance.randbytes(2), chance.randrange(2), 0)) + chance.randbytes(300)
        assert not [r for r in talk((CLIENT, octets), port=4242) if r["protocol"] == "rocketmq" and r["status"] == "ok"]


def test_in_process_wide_order_and_bytes(tmp_path: Path) -> None:
    """Files of the repository are what their README says: gzip of plain pcap, on loopback only."""
    for path in (DATA / "rocketmq").glob("*.gz"):
        data = gzip.decompress(path.read_bytes())
        assert data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
        rows = read_rows(path)
        assert {row["src_ip"] for row in rows} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


PREFACE = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 9876\r\n"


@pytest.mark.parametrize("octets", [b"PROXY" + b"x" * 200, b"PROXY \n", b"\r\n\r\n\0\r\nQUIT\n\x11" + bytes(40)])
def test_what_is_no_preface(octets: bytes) -> None:
    assert talk((0, octets), port=10911) == []


def test_a_preface_comes_first_or_not_at_all() -> None:
    asks = request(105, topic="T")
    rows = talk((0, asks + PREFACE + asks))
    assert [row["kind"] for row in rows].count("PROXY") == 0
