"""What does a RocketMQ command cost, as an object and as columns?

    python bench/bench_rocketmq.py

Objects: frames of SEND_MESSAGE_V2 as a real client writes them, with JSON and with binary headers, decoded to
RemotingCommand (`decode`, and a `Decoder` over a stream), with and without reading all fields of the header; beside
orjson parsing the same JSON headers. Columns: a stream of such frames with bodies of 1 KiB through `decode_batch`, and,
alternately, one memcpy of the same buffer. Before timing, results are compared.
"""

from __future__ import annotations

import numpy
import orjson
from ratios import compare, versions

from wirefmt import rocketmq

COUNT = 1000


def frames(form: str, body: bytes) -> list[bytes]:
    out = []
    for i in range(COUNT):
        properties = rocketmq.encode_properties(
            {"KEYS": f"key{i}", "UNIQ_KEY": f"C0000201000078BF18B4AAC2{i:08X}", "WAIT": "true", "TAGS": "TagA"}
        )
        header = rocketmq.SendMessageRequestHeaderV2(
            a="producers", b="orders", c="TBW102", d=4, e=i % 4, f=0, g=1700000000000 + i, h=0, i=properties, j=0, k=False,
            m=False, n="broker-a",
        )  # fmt: skip
        command = rocketmq.RemotingCommand(
            code=310,
            opaque=i,
            header=header,
            body=body,
            language="JAVA",
            serialize_type=form,  # type: ignore[arg-type]
        )
        out.append(command.encode())
    return out


def header_of(frame: bytes) -> bytes:
    return frame[8 : 8 + int.from_bytes(frame[5:8], "big")]


def check(json: list[bytes], binary: list[bytes]) -> None:
    for one, other in zip(json, binary, strict=True):
        command = rocketmq.decode(one)
        said = orjson.loads(header_of(one))
        assert dict(command.ext_fields or {}) == said["extFields"]
        assert (command.code, command.opaque, command.flag) == (said["code"], said["opaque"], said["flag"])
        assert rocketmq.decode(other).ext_fields == command.ext_fields
    for form in (json, binary):
        batch = rocketmq.decode_batch(b"".join(form))
        assert batch.num_rows == COUNT
        assert batch["payload"].tolist() == [rocketmq.decode(frame).body_bytes() for frame in form]
        assert batch["destination"].tolist() == ["orders"] * COUNT


def main() -> None:
    print(versions("wirefmt", "orjson", "numpy"))
    json, binary = frames("JSON", b"hello"), frames("ROCKETMQ", b"hello")
    check(json, binary)
    headers = [header_of(frame) for frame in json]
    json_stream, binary_stream = b"".join(json), b"".join(binary)

    def each(run: object, items: list[bytes]) -> None:
        for item in items:
            run(item)  # type: ignore[operator]

    def fields(items: list[bytes]) -> None:
        decode = rocketmq.decode
        for item in items:
            _ = decode(item).ext_fields

    def stream_fields(stream: bytes) -> None:
        for command in rocketmq.Decoder().feed(stream):
            _ = command.ext_fields

    compare(
        f"SEND_MESSAGE_V2 to objects, headers of {len(headers[0])} (JSON) and {len(header_of(binary[0]))} octets",
        {
            "orjson.loads of the JSON header": lambda: each(orjson.loads, headers),
            "decode, JSON header": lambda: each(rocketmq.decode, json),
            "decode, JSON header, ext_fields": lambda: fields(json),
            "decode, binary header": lambda: each(rocketmq.decode, binary),
            "decode, binary header, ext_fields": lambda: fields(binary),
            "Decoder, JSON headers": lambda: rocketmq.Decoder().feed(json_stream),
            "Decoder, JSON headers, ext_fields": lambda: stream_fields(json_stream),
            "Decoder, binary headers": lambda: rocketmq.Decoder().feed(binary_stream),
        },
        units=COUNT,
    )
    for form in ("JSON", "ROCKETMQ"):
        data = b"".join(frames(form, bytes(range(256)) * 4)) * 40
        source = numpy.frombuffer(data, dtype="u1")
        compare(
            f"frames with bodies of 1 KiB to columns, {form} headers",
            {
                "memcpy, fresh memory": source.copy,
                "decode_batch": lambda d=data: rocketmq.decode_batch(d),
                "decode_batch, without ext_fields": lambda d=data: rocketmq.decode_batch(
                    d, columns=("code", "sequence", "destination", "properties", "payload")
                ),
                "decode_batch, code and body": lambda d=data: rocketmq.decode_batch(
                    d, columns=("code", "sequence", "payload")
                ),
            },
            units=COUNT * 40,
        )


if __name__ == "__main__":
    main()
