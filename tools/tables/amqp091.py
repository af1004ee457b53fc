"""amqp091/table.pxi, methods.pxi and _classes.pyi from amqp091/spec.py."""

from __future__ import annotations

from types import ModuleType

from tables.text import c_array, c_row, codes, enum, faults, quoted


def slots_of(arguments: tuple) -> list[tuple[int, int]]:
    """The place of each argument: its slot of the method, and for a bit its position in that octet (4.2.5.2)."""
    out: list[tuple[int, int]] = []
    slot, bit, before = -1, 0, ""
    for a in arguments:
        if a.type == "bit" and before == "bit" and bit < 7:
            bit += 1
        else:
            slot, bit = slot + 1, 0
        out.append((slot, bit))
        before = a.type
    return out


def method_label(cls: str, method: str) -> str:
    return f"AMQP091_{cls}_{method}".replace("-", "_").upper()


def class_name(cls: str, method: str) -> str:
    """basic.get-ok -> BasicGetOk"""
    return "".join(word.capitalize() for word in [cls, *method.split("-")])


def amqp091_table(spec: ModuleType) -> list[str]:
    types = {t.name: i for i, t in enumerate(spec.DATA_TYPES)}
    senders = {"client": 1, "server": 2, "both": 3}
    fields = {path: i for i, path in enumerate(spec.FIELDS)}
    names = {name: i for i, name in enumerate(spec.ARGUMENT_NAMES)}
    methods = [(c, m) for c in spec.CLASSES for m in c.methods]
    rows = {(c.id, m.id): i for i, (c, m) in enumerate(methods, 1)}
    classes = {c.id: i for i, c in enumerate(spec.CLASSES, 1)}
    top_class, top_method = max(classes) + 1, max(m.id for _, m in methods) + 1
    letters = {ord(t.letter): t for t in spec.FIELD_TYPES}

    lines = enum("Amqp091FrameType", ((f"AMQP091_FRAME_{n.upper()}", i) for i, n in spec.FRAME_TYPES.items()))
    lines += ['    AMQP091_PROTOCOL_HEADER = 0x41      # "A": not a frame type']
    lines += enum("Amqp091DataType", ((f"AMQP091_{name.upper()}", i) for name, i in types.items()))
    lines += enum("Amqp091ClassId", ((f"AMQP091_CLASS_{c.name.upper()}", c.id) for c in spec.CLASSES))
    lines += enum("Amqp091MethodRowNumber", ((method_label(c.name, m.name), rows[c.id, m.id]) for c, m in methods))
    lines += enum("Amqp091ArgumentName", ((f"AMQP091_ARGUMENT_{n.strip('_').upper()}", i) for n, i in names.items()))
    lines += codes("AMQP091_REPLY", ((row.name, row.code) for row in spec.REPLY_CODES))
    lines += enum("Amqp091Property", ((f"AMQP091_PROPERTY_{p.name.upper()}", i) for i, p in enumerate(spec.PROPERTIES)))
    lines += faults("amqp091", spec)
    lines += ["", "", "cdef enum:"]
    arguments: list[str] = []
    method_rows: list[str] = ["{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}"]
    for c, m in methods:
        placed = slots_of(m.arguments)
        for a, (slot, bit) in zip(m.arguments, placed, strict=True):
            path = f"arguments.{a.name}"
            utf8 = a.type == "shortstr" and not m.content
            arguments.append(
                c_row(names[a.name], types[a.type], slot, bit, fields[path], fields.get(path + "[]", 0), int(utf8))
            )
        count = len(m.arguments)
        slots = placed[-1][0] + 1 if placed else 0
        method_rows.append(
            c_row(
                c.id,
                m.id,
                len(arguments) - count,
                count,
                slots,
                senders[m.senders],
                int(m.content),
                int(bool(m.responses)),
                quoted(f"{c.name}.{m.name}"),
                quoted(m.section),
            )
        )
    slots_max = max(slots_of(m.arguments)[-1][0] + 1 for _, m in methods if m.arguments)
    lines += [
        f"    AMQP091_METHOD_COUNT = {len(methods) + 1}        # rows of amqp091_methods; row 0 is none",
        f"    AMQP091_ARGUMENT_NAME_COUNT = {len(names)}",
        f"    AMQP091_ARGUMENT_COUNT = {len(arguments)}",
        f"    AMQP091_SLOTS = {slots_max}                # arguments of one method, neighbouring bits counted once",
        f"    AMQP091_PROPERTY_COUNT = {len(spec.PROPERTIES)}",
        f"    AMQP091_FLAGS_UNASSIGNED = {spec.PROPERTY_FLAGS_UNASSIGNED}",
        f"    AMQP091_FRAME_END = {spec.FRAME_END}",
        f"    AMQP091_OVERHEAD = {spec.FRAME_OVERHEAD}",
        f"    AMQP091_TOLERANCE = {spec.FRAME_MAX_TOLERANCE}",
        f"    AMQP091_NESTING_MAX = {spec.NESTING_MAX}",
        f"    AMQP091_CLASS_TOP = {top_class}          # no class identifier is as high",
        f"    AMQP091_METHOD_TOP = {top_method}        # no method identifier is as high",
        "    AMQP091_VARIABLE = 0xFE           # amqp091_letter_size: four octets of length, then as many",
        "    AMQP091_NO_LETTER = 0xFF          # amqp091_letter_size: no such type",
    ]
    lines += ["", "", "cdef extern from *:", '    """']
    lines += [
        "    typedef struct { unsigned char name, type, slot, bit; unsigned short field, item_field; unsigned char utf8; }"
        " Amqp091ArgumentRow;",
        "    typedef struct { unsigned short class_id, method_id, first, count; unsigned char slots, senders, content,"
        " synchronous;",
        "                     const char *name, *section; } Amqp091MethodRow;",
        "    typedef struct { unsigned short flag, field; unsigned char type; } Amqp091PropertyRow;",
    ]
    lines += c_array("Amqp091ArgumentRow amqp091_arguments[]", arguments)
    lines += c_array("Amqp091MethodRow amqp091_methods[]", method_rows)
    lines += c_array(f"unsigned char amqp091_class_at[{top_class}]", (str(classes.get(i, 0)) for i in range(top_class)))
    lines += c_array(
        f"unsigned char amqp091_method_at[{len(classes) + 1}][{top_method}]",
        ("{" + ", ".join(str(rows.get((c, m), 0)) for m in range(top_method)) + "}" for c in (0, *classes)),
    )
    lines += c_array("char *const amqp091_argument_name[]", (quoted(name) for name in spec.ARGUMENT_NAMES))
    lines += c_array(
        "Amqp091PropertyRow amqp091_properties[]",
        (c_row(1 << p.bit, fields[f"properties.{p.name}"], types[p.type]) for p in spec.PROPERTIES),
    )
    lines += c_array("char *const amqp091_property_name[]", (quoted(p.name) for p in spec.PROPERTIES))
    lines += c_array(
        "unsigned char amqp091_letter_size[256]",
        (str(0xFF if (t := letters.get(i)) is None else 0xFE if t.size is None else t.size) for i in range(256)),
    )
    lines += ['    """']
    lines += [
        "    ctypedef struct Amqp091ArgumentRow:",
        "        uint8_t name                       # an Amqp091ArgumentName",
        "        uint8_t type                       # an Amqp091DataType",
        "        uint8_t slot, bit                  # which of Amqp091FrameView.at; of a bit, which of that octet",
        "        uint16_t field, item_field         # FIELDS rows: of the argument, of an entry of it",
        "        uint8_t utf8                       # RabbitMQ wants UTF-8 here",
        "    ctypedef struct Amqp091MethodRow:",
        "        uint16_t class_id, method_id",
        "        uint16_t first, count              # its rows of amqp091_arguments",
        "        uint8_t slots, senders             # senders: 1 client, 2 server, 3 both",
        "        uint8_t content, synchronous",
        "        const char* name                   # basic.get-ok",
        "        const char* section",
        "    ctypedef struct Amqp091PropertyRow:",
        "        uint16_t flag                      # in the property flags",
        "        uint16_t field",
        "        uint8_t type",
        "    const Amqp091ArgumentRow* amqp091_arguments",
        "    const Amqp091MethodRow* amqp091_methods            # by Amqp091MethodRowNumber",
        f"    const uint8_t amqp091_class_at[{top_class}]              # class identifier -> row of amqp091_method_at; 0: none",
        f"    const uint8_t amqp091_method_at[][{top_method}]        # method identifier -> Amqp091MethodRowNumber; 0: none",
        "    const CText* amqp091_argument_name",
        "    const Amqp091PropertyRow* amqp091_properties       # by Amqp091Property",
        "    const CText* amqp091_property_name",
        "    const uint8_t* amqp091_letter_size                 # octets of a field value after its letter",
    ]
    return lines


def amqp091_methods(spec: ModuleType) -> list[str]:
    """amqp091/methods.pxi: one class per method, with its signature. objects.pxi has their behaviour."""
    sent_by = {"client": "sent by a client", "server": "sent by a server", "both": "sent by both"}
    lines: list[str] = []
    ends: list[str] = ["", ""]
    for c in spec.CLASSES:
        for m in c.methods:
            name, label = class_name(c.name, m.name), method_label(c.name, m.name)
            names = ["channel", *(a.name for a in m.arguments)]
            signature = ["channel=0" if c.name == "connection" else "channel"]
            signature += [
                a.name if a.default is None else f"{a.name}={() if a.default == {} else a.default!r}"
                for a in m.arguments
            ]
            section = m.section or "RabbitMQ's"
            followed = " A content follows." if m.content else ""
            lines += ["", "", "@cython.final", f"cdef class {name}(Method):"]
            lines += [f'    """{c.name}.{m.name} ({section}), {sent_by[m.senders]}.{followed}"""']
            lines += wrapped("    __match_args__ = (", [repr(n).replace("'", '"') for n in names], ")", len(names) == 1)
            lines += ["", *wrapped("    def __init__(", ["self", "*", *signature], "):")]
            if m.arguments:
                # borrowed: the call holds them
                lines += [f"        cdef PyObject* values[{len(m.arguments)}]"]
                lines += wrapped("        values[:] = [", [f"<PyObject*>{n}" for n in names[1:]], "]")
            lines += [f"        self.build({label}, channel, {'values' if m.arguments else 'NULL'})"]
            ends += [f"add_method_class({label}, {name})"]
    return lines + ends


def wrapped(opening: str, items: list[str], closing: str, single: bool = False) -> list[str]:
    """A list of items in lines of at most 120 characters."""
    text = ", ".join(items) + ("," if single else "")
    if len(opening + text + closing) <= 120:
        return [opening + text + closing]
    indent, line, lines = " " * len(opening), opening, []
    for i, item in enumerate(items):
        part = item + ("," if i + 1 < len(items) else closing)
        if len(line) + len(part) + 1 > 120:
            lines.append(line.rstrip())
            line = indent
        line += part + " "
    return [*lines, line.rstrip()]


# ------------------------------------------------------------------------------------------------ amqp091/_classes.pyi

#: Type of an argument or property -> the type of the attribute, and of the constructor's argument.
PYTHON_TYPES = {
    "bit": ("bool", "bool"),
    "octet": ("int", "int"),
    "short": ("int", "int"),
    "long": ("int", "int"),
    "longlong": ("int", "int"),
    "timestamp": ("int", "int | datetime"),
    "shortstr": ("str | bytes", "str | bytes"),
    "longstr": ("bytes", "Buffer | str"),
    "table": ("FieldTable", "_Table"),
}


def stub_default(default: object) -> str:
    """As in methods.pxi: for a table, not pairs."""
    return "()" if default == {} else quoted(default) if isinstance(default, str) else repr(default).replace("'", '"')


def stub_class(name: str, base: str, names: list[str], fields: list[tuple[str, str]], given: list[str]) -> list[str]:
    """names: for pattern matching. fields: attributes and their types. given: arguments, with types and defaults."""
    matched = f"({', '.join(map(quoted, names))}{',' if len(names) == 1 else ''})"
    lines = ["", "@final", f"class {name}{base}:", f"    __match_args__ = {matched}"]
    lines += [f"    {field}: Final[{kind}]" for field, kind in fields]
    return [*lines, f"    def __init__(self, *, {', '.join(given)}) -> None: ..."]


def amqp091_stub(spec: ModuleType) -> list[str]:
    """BasicProperties, and the classes of methods.pxi."""
    lines = ['"""The properties and the methods of AMQP 0.9.1, as wirefmt.amqp091.spec has them."""', ""]
    lines += ["from datetime import datetime", "from typing import Final, Self, final", ""]
    lines += ["from typing_extensions import Buffer", ""]
    lines += ["from wirefmt.amqp091._codec import FieldTable, Method, _Table"]
    kinds = {p.name: PYTHON_TYPES[p.type] for p in spec.PROPERTIES}
    lines += stub_class(
        "BasicProperties",
        "",
        list(kinds),
        [(name, f"{kind} | None") for name, (kind, _) in kinds.items()],
        [f"{name}: {given} | None = None" for name, (_, given) in kinds.items()],
    )
    lines += [
        "    @classmethod",
        "    def decode(cls, data: Buffer, /) -> BasicProperties: ...",
        "    def encode(self) -> bytes: ...",
        "    def __hash__(self) -> int: ...",
        "    def __copy__(self) -> Self: ...",
        "    def __deepcopy__(self, memo: object) -> Self: ...",
    ]
    for c in spec.CLASSES:
        for m in c.methods:
            given = ["channel: int = 0" if c.name == "connection" else "channel: int"]
            given += [
                f"{a.name}: {PYTHON_TYPES[a.type][1]}"
                + (f" = {stub_default(a.default)}" if a.default is not None else "")
                for a in m.arguments
            ]
            fields = [(a.name, PYTHON_TYPES[a.type][0]) for a in m.arguments]
            names = ["channel", *(a.name for a in m.arguments)]
            lines += stub_class(class_name(c.name, m.name), "(Method)", names, fields, given)
    return lines
