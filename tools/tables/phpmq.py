"""phpmq/table.pxi from phpmq/spec.py."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

from tables.text import c_array, c_row, enum, faults, quoted


def phpmq_table(spec: ModuleType) -> list[str]:
    senders = {"client": 0, "server": 1}
    packets = {p.number: p for p in spec.PACKET_TYPES}
    ttl = next(p.number for p in spec.PACKET_TYPES if p.name == "ttl")
    top_message, top_packet = len(spec.MESSAGE_TYPES) + 1, len(spec.PACKET_TYPES) + 1

    def mask(numbers: Iterable[int]) -> int:
        return sum(1 << n for n in numbers)

    lines = enum("PhpmqMessageType", ((f"PHPMQ_{m.name}", m.number) for m in spec.MESSAGE_TYPES))
    lines += enum("PhpmqPacketType", ((f"PHPMQ_PACKET_{p.name.upper()}", p.number) for p in spec.PACKET_TYPES))
    lines += faults("phpmq", spec)
    lines += ["", "", "cdef extern from *:", '    """']
    lines += ["    typedef struct { unsigned char sender, packets, required, early; } PhpmqMessageRow;"]
    lines += c_array(
        f"PhpmqMessageRow phpmq_messages[{top_message}]",
        [
            "{0, 0, 0, 0}",
            *(
                c_row(
                    senders[m.sender],
                    mask(m.packets),
                    # TTL came later: if the early form of a message has none, it may be absent
                    mask(n for n in m.packets if n != ttl or not m.early),
                    mask(m.early),
                )
                for m in spec.MESSAGE_TYPES
            ),
        ],
    )
    lines += c_array(
        f"char *const phpmq_message_name[{top_message}]", ['""', *(quoted(m.name) for m in spec.MESSAGE_TYPES)]
    )
    lines += c_array(
        f"unsigned char phpmq_packet_field[{top_packet}]",
        (str(spec.FIELDS.index(packets[n].name)) if n in packets else "0" for n in range(top_packet)),
    )
    lines += ['    """']
    lines += [
        "    ctypedef struct PhpmqMessageRow:",
        "        uint8_t sender                     # 0 client, 1 server",
        "        uint8_t packets, required, early   # bit n: packet type n",
        "    const PhpmqMessageRow* phpmq_messages",
        "    const CText* phpmq_message_name",
        "    const uint8_t* phpmq_packet_field",
        "",
        "",
        "cdef enum:",
        f"    PHPMQ_MESSAGE_TYPES = {top_message}         # no type of the table is as high",
        f"    PHPMQ_PACKET_TYPES = {top_packet}",
        f"    PHPMQ_MESSAGE_HEADER = {sum(n for _, n in spec.MESSAGE_HEADER)}",
        f"    PHPMQ_PACKET_HEADER = {sum(n for _, n in spec.PACKET_HEADER)}",
        f"    PHPMQ_LINE_BREAKS_MAX = {spec.LINE_BREAKS_MAX}",
    ]
    return lines
