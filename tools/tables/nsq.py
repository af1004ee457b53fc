"""nsq/table.pxi from nsq/spec.py."""

from __future__ import annotations

from types import ModuleType

from tables.text import c_array, c_row, enum, faults, quoted

#: Kinds that are not commands of the table: an unknown command, the magic; frames begin at FRAMES.
FRAMES = 16


def nsq_table(spec: ModuleType) -> list[str]:
    checks = {c.name: i for i, c in enumerate(spec.CHECKS, 1)}
    words = {name: i for i, name in enumerate(spec.WORD_CHECKS, 1)}
    bodies = {"": 0, "message": 1, "messages": 2, "json": 3, "secret": 4}
    types = {name: i for i, name in enumerate(("string", "boolean", "int", "int32"))}
    options = {name: i for i, name in enumerate(spec.ServerOptions.__dataclass_fields__)}
    commands = dict(enumerate(spec.COMMANDS, 2))
    names = ["", "MAGIC", *(c.name for c in spec.COMMANDS)]
    names += [""] * (FRAMES - len(names)) + ["frame", *spec.FRAME_TYPES.values()]

    def bound(value: int | str) -> int:
        """A number unchanged, an option of the server as its row from -1 downwards."""
        return value if isinstance(value, int) else -1 - options[value]

    lines = enum(
        "NsqKind", [("NSQ_COMMAND", 0), ("NSQ_MAGIC", 1), *((f"NSQ_{c.name}", i) for i, c in commands.items())]
    )
    lines += [f"    NSQ_{n.upper()} = {i}" for i, n in enumerate(names) if i >= FRAMES]
    lines += [f"    NSQ_KINDS = {len(names)}"]
    lines += enum("NsqWord", ((f"NSQ_WORD_{name.upper()}", i) for name, i in words.items()))
    lines += enum("NsqBody", ((f"NSQ_BODY_{name.upper() or 'NONE'}", i) for name, i in bodies.items()))
    lines += enum("NsqMemberType", ((f"NSQ_TYPE_{name.upper()}", i) for name, i in types.items()))
    lines += enum("NsqServerOption", ((f"NSQ_OPTION_{name.upper()}", i) for name, i in options.items()))
    lines += [f"    NSQ_OPTIONS = {len(options)}"]
    lines += enum(
        "NsqMemberRowNumber", ((f"NSQ_MEMBER_{m.name.upper()}", i) for i, m in enumerate(spec.IDENTIFY_MEMBERS))
    )
    lines += faults("nsq", spec)
    lines += ["", "", "cdef extern from *:", '    """']
    lines += [
        "    typedef struct { unsigned char name_size, words[2], required, body, empty_check, negative_check, limit_check,"
        " limit; } NsqCommandRow;",
        "    typedef struct { long long low, high; unsigned char type, check, field; signed char special[2]; }"
        " NsqMemberRow;",
        "    typedef struct { const char *name; unsigned char fatal; } NsqErrorRow;",
    ]
    lines += c_array(f"char *const nsq_kind_name[{len(names)}]", map(quoted, names))
    lines += c_array(
        f"NsqCommandRow nsq_commands[{FRAMES}]",
        (
            c_row(
                len(c.name),
                "{" + ", ".join(str(words[w]) for w in c.words) + "}" if c.words else "{0}",
                len(c.words) - c.optional,
                bodies[c.body],
                checks[c.size_check + "_EMPTY"] if c.body else 0,
                checks[c.size_check + "_NEGATIVE"] if c.body else 0,
                checks[c.limit_check] if c.body else 0,
                options[c.limit] if c.body else 0,
            )
            if (c := commands.get(i))
            else "{0, {0}, 0, 0, 0, 0, 0, 0}"
            for i in range(FRAMES)
        ),
    )
    lines += c_array(
        f"unsigned char nsq_word_check[{len(words) + 1}]", ["0", *(str(checks[c]) for c in spec.WORD_CHECKS.values())]
    )
    lines += c_array(
        f"unsigned char nsq_word_field[{len(words) + 1}]", ["0", *(str(spec.FIELDS.index(name)) for name in words)]
    )
    lines += c_array(
        f"NsqMemberRow nsq_members[{len(spec.IDENTIFY_MEMBERS)}]",
        (
            c_row(
                bound(m.low),
                bound(m.high),
                types[m.type],
                checks[m.check] if m.check else 0,
                spec.FIELDS.index(f"members.{m.name}"),
                "{" + ", ".join(map(str, (*m.special, *m.special)[:2] or (1, 1))) + "}",
            )
            for m in spec.IDENTIFY_MEMBERS
        ),
    )
    lines += c_array(
        f"char *const nsq_member_name[{len(spec.IDENTIFY_MEMBERS)}]", (quoted(m.name) for m in spec.IDENTIFY_MEMBERS)
    )
    lines += c_array(
        f"NsqErrorRow nsq_errors[{len(spec.ERROR_CODES)}]",
        (c_row(quoted(e.name), int(e.fatal)) for e in spec.ERROR_CODES),
    )
    lines += ['    """']
    lines += [
        "    ctypedef struct NsqCommandRow:",
        "        uint8_t name_size",
        "        uint8_t words[2]                   # 0: none",
        "        uint8_t required                   # so many of them at least",
        "        uint8_t body, empty_check, negative_check, limit_check",
        "        uint8_t limit                      # an NsqServerOption",
        "    ctypedef struct NsqMemberRow:",
        "        int64_t low, high                  # both 0: any value; below 0: -1 - an NsqServerOption",
        "        uint8_t type, check, field",
        "        int8_t special[2]                  # allowed besides; 1: none",
        "    ctypedef struct NsqErrorRow:",
        "        const char* name",
        "        uint8_t fatal",
        "    const CText* nsq_kind_name",
        "    const NsqCommandRow* nsq_commands",
        "    const uint8_t* nsq_word_check",
        "    const uint8_t* nsq_word_field",
        "    const NsqMemberRow* nsq_members",
        "    const CText* nsq_member_name",
        "    const NsqErrorRow* nsq_errors",
        "",
        "",
        "cdef enum:",
        f"    NSQ_FRAMES = {FRAMES}            # this kind and those after it are a server's",
        f"    NSQ_LINE_MAX = {spec.LINE_MAX}",
        f"    NSQ_NAME_MAX = {spec.NAME_MAX}",
        f"    NSQ_MESSAGE_ID_SIZE = {spec.MESSAGE_ID_SIZE}",
        f"    NSQ_MESSAGE_HEADER_SIZE = {spec.MESSAGE_HEADER_SIZE}",
        f"    NSQ_MEMBERS = {len(spec.IDENTIFY_MEMBERS)}",
        f"    NSQ_ERRORS = {len(spec.ERROR_CODES)}",
    ]
    return lines
