# NSQ's commands and frames as Python objects, their encoders, and the Decoder.
#
# A command or frame exists only as its octets. A constructor writes them and reads them back with nsq_parse, so everything
# that can be built can be decoded. Objects keep the block (bytes) that contains them; other Python objects are made
# on access.
from cpython.memoryview cimport PyMemoryView_FromObject

from collections.abc import Mapping
from types import MappingProxyType

from wirefmt.nsq.spec import ServerOptions


# ------------------------------------------------------------------------------------------------ JSON -> values

cdef str nsq_json_text(const Span* raw):
    """A checked string; ill-formed UTF-8 and unpaired surrogates become U+FFFD."""
    cdef Writer w
    cdef const uint8_t* p = raw.at
    cdef const uint8_t* end = p + raw.size
    cdef const uint8_t* stop
    cdef uint32_t c
    if raw.size == 0:
        return ""
    if memchr(p, 0x5C, raw.size) == NULL:
        return PyUnicode_DecodeUTF8(<const char*>p, raw.size, "replace")
    w = new_writer()
    while p < end:
        stop = <const uint8_t*>memchr(p, 0x5C, <size_t>(end - p))
        if stop == NULL:
            stop = end
        w.put_octets(p, <size_t>(stop - p))
        p = stop
        if p < end:
            c = nsq_json_escape(&p, end)
            octets = chr(c).encode()
            w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))
    return PyUnicode_DecodeUTF8(<const char*>w.p, <Py_ssize_t>w.size, "replace")


cdef uint32_t nsq_json_escape(const uint8_t** at, const uint8_t* end) noexcept nogil:
    """The character of an escape; moves `at` after it."""
    cdef const uint8_t* p = at[0]
    cdef uint32_t c = p[1], low
    at[0] = p + 2
    if c != c"u":
        return 8 if c == c"b" else 12 if c == c"f" else 10 if c == c"n" else 13 if c == c"r" else 9 if c == c"t" else c
    c = nsq_hex4(p + 2)
    at[0] = p + 6
    if not 0xD800 <= c < 0xE000:
        return c
    if c < 0xDC00 and end - p >= 12 and p[6] == 0x5C and p[7] == c"u":
        low = nsq_hex4(p + 8)
        if 0xDC00 <= low < 0xE000:
            at[0] = p + 12
            return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00)
    return 0xFFFD


cdef inline uint32_t nsq_hex4(const uint8_t* p) noexcept nogil:
    return <uint32_t>(nsq_hex_digit(p[0]) << 12 | nsq_hex_digit(p[1]) << 8 | nsq_hex_digit(p[2]) << 4 | nsq_hex_digit(p[3]))


cdef object nsq_json_object(const NsqMember* m):
    """A value as a Python object: str, bool, None, int, float, tuple, read-only mapping."""
    cdef NsqJson j
    if m.type == NSQ_JSON_STRING:
        return nsq_json_text(&m.value)
    if m.type <= NSQ_JSON_NULL:
        return m.type == NSQ_JSON_TRUE if m.type != NSQ_JSON_NULL else None
    if m.type == NSQ_JSON_INTEGER:
        return m.number if m.in_range else int(octets_of(m.value.at, m.value.size))
    if m.type == NSQ_JSON_NUMBER:
        return float(octets_of(m.value.at, m.value.size))
    j.at = m.value.at + 1
    j.end = m.value.at + m.value.size
    j.check = 0
    return nsq_json_items(&j, m.type == NSQ_JSON_OBJECT)


cdef object nsq_json_items(NsqJson* j, bint named):
    """The contents of a checked array or object, nested at most NSQ_JSON_DEPTH levels."""
    cdef NsqMember m
    cdef list out = []
    nsq_json_space(j)
    while j.at[0] != (c"}" if named else c"]"):
        if j.at[0] == c",":
            j.at += 1
            nsq_json_space(j)
        if named:
            nsq_json_name(j, &m.name)
        nsq_json_value(j, &m)
        value = nsq_json_object(&m)
        out.append(nsq_member_pair(nsq_json_text(&m.name), value) if named else value)
        nsq_json_space(j)
    return MappingProxyType(dict(out)) if named else tuple(out)


cdef tuple nsq_member_pair(str name, object value):
    """(name, value) of a member of an object."""
    return name, hidden(value) if is_secret_text(name) else value


cdef tuple nsq_members_of(const uint8_t* p, uint32_t n):
    """(name, value) of the members of a JSON object, in order, with repeats; None: not a JSON object."""
    cdef NsqJson j
    cdef NsqMember m
    cdef list out = []
    cdef int begun = nsq_json_begin(&j, p, n)
    while begun == NSQ_JSON_OBJECT and nsq_json_next(&j, &m):
        out.append(nsq_member_pair(nsq_json_text(&m.name), nsq_json_object(&m)))
    return None if j.check else tuple(out)


# ------------------------------------------------------------------------------------------------ values -> JSON

cdef int nsq_write_json(Writer w, object value, int depth) except -1:
    """As Go's encoder writes: no spaces, `<`, `>`, `&` escaped."""
    cdef bytes text
    if depth > NSQ_JSON_DEPTH:
        raise EncodeError("members: nested deeper than 64 levels")
    if isinstance(value, str):
        return nsq_write_json_text(w, str(value))
    if isinstance(value, Mapping):
        return nsq_write_json_members(w, value.items(), depth)
    if isinstance(value, (list, tuple)):
        w.put_u8(c"[")
        for i, item in enumerate(value):
            if i:
                w.put_u8(c",")
            nsq_write_json(w, item, depth + 1)
        w.put_u8(c"]")
        return 0
    if value is None:
        text = b"null"
    elif value is True or value is False:
        text = b"true" if value else b"false"
    elif isinstance(value, float):
        if not value - value == 0:
            raise EncodeError(f"members: JSON cannot hold {value!r}")
        text = float.__repr__(value).encode()
    elif PyIndex_Check(value):
        text = int.__repr__(PyNumber_Index(value)).encode()
    else:
        raise TypeError(f"members: JSON cannot hold {type(value).__name__}")
    return w.put_octets(<const uint8_t*>PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))


cdef int nsq_write_json_members(Writer w, object members, int depth) except -1:
    cdef bint first = True
    w.put_u8(c"{")
    for name, value in members:
        if not isinstance(name, str):
            raise TypeError(f"members: a name must be a str, not {type(name).__name__}")
        if not first:
            w.put_u8(c",")
        first = False
        nsq_write_json_text(w, name)
        w.put_u8(c":")
        nsq_write_json(w, value, depth + 1)
    return w.put_u8(c"}")


cdef int nsq_write_json_text(Writer w, str text) except -1:
    cdef Py_UCS4 c
    w.put_u8(c"\"")
    for c in text:
        if c == 0x22 or c == 0x5C:
            octets = b"\\" + chr(c).encode()
        elif c == 0x0A or c == 0x0D or c == 0x09:
            octets = b"\\n" if c == 0x0A else b"\\r" if c == 0x0D else b"\\t"
        elif c < 0x20 or c == 0x3C or c == 0x3E or c == 0x26 or c == 0x2028 or c == 0x2029:
            octets = b"\\u%04x" % <int>c
        elif 0xD800 <= c < 0xE000:
            raise EncodeError("members: a surrogate has no UTF-8 form")
        else:
            octets = chr(c).encode()
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets))
    return w.put_u8(c"\"")


# ------------------------------------------------------------------------------------------------ values -> octets

cdef Writer nsq_begin_line(int kind):
    cdef Writer w = new_writer()
    w.put_octets(<const uint8_t*>nsq_kind_name[kind], strlen(nsq_kind_name[kind]))
    return w


cdef const uint8_t* nsq_name_octets(object name, Py_ssize_t* size, str field) except NULL:
    """The octets of a topic's or channel's name. They live as long as `name`."""
    cdef const uint8_t* p = ascii_octets(<PyObject*>name, size)
    if p == NULL:
        if not isinstance(name, str):
            raise TypeError(f"{field} must be a str, not {type(name).__name__}")
        if name.isascii():
            p = <const uint8_t*>PyUnicode_AsUTF8AndSize(name, size)
    if p == NULL or nsq_name_fault(p, <size_t>size[0]) != NULL:
        raise EncodeError(f"{field}: {name!r} is not a valid name, [.a-zA-Z0-9_-]+(#ephemeral)? of 1 to 64 characters")
    return p


cdef int nsq_write_name(Writer w, object name, str field) except -1:
    """A space and a topic's or channel's name."""
    cdef Py_ssize_t size = 0
    cdef const uint8_t* p = nsq_name_octets(name, &size, field)
    w.put_u8(c" ")
    return w.put_octets(p, <size_t>size)


cdef int nsq_write_id(Writer w, object message_id) except -1:
    cdef bytes octets = take_block(message_id)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(octets)
    if size != NSQ_MESSAGE_ID_SIZE or b" " in octets or b"\n" in octets:
        raise EncodeError("message_id must be 16 bytes without space and newline")
    w.put_u8(c" ")
    return w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), NSQ_MESSAGE_ID_SIZE)


cdef int nsq_write_number(Writer w, object value, str field) except -1:
    cdef bytes text = b" %d" % whole_number(value, 0x7FFFFFFFFFFFFFFF, field)
    return w.put_octets(<const uint8_t*>PyBytes_AS_STRING(text), <size_t>PyBytes_GET_SIZE(text))


cdef int nsq_write_sized(Writer w, object data, str field) except -1:
    """Write the size of a buffer and its octets."""
    cdef size_t at = w.size
    w.grow(4)
    w.put_buffer(data, False, field)
    return nsq_close_size(w, at, field)


cdef int nsq_close_size(Writer w, size_t at, str field) except -1:
    """Store the number of octets that follow the four at `at`."""
    nsq_bound_size(w.size - at - 4, field)
    store_u32(w.p + at, <uint32_t>(w.size - at - 4))
    return 0


cdef inline int nsq_bound_size(size_t size, str field) except -1:
    if size > 0x7FFFFFFF:
        raise EncodeError(f"{field}: {size} bytes, the limit is 2147483647")
    return 0


cdef bytes nsq_close(Writer w):
    return PyBytes_FromStringAndSize(<const char*>w.p, <Py_ssize_t>w.size)


# ------------------------------------------------------------------------------------------------ repr

cdef frozenset NSQ_SECRETS = frozenset([field for _, field in secret_fields("nsq")])


cdef str nsq_shown(str name, object value):
    if name in NSQ_SECRETS:
        return repr(SECRET_SHOWN_OCTETS)
    if name == "data":
        return shown_encoded(value)
    if name == "body":
        return shown_octets(value)
    if isinstance(value, MappingProxyType):
        return "{" + ", ".join(f"{key!r}: {nsq_shown('', item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        shown = [shown_octets(item) if name == "bodies" else nsq_shown("", item) for item in value]
        return f"({', '.join(shown)}{',' if len(shown) == 1 else ''})"
    return repr(value)


# ------------------------------------------------------------------------------------------------ what all share

cdef enum:
    NSQ_NOTES_SHOWN = 64


@cython.freelist(2048)
@cython.no_gc
cdef class Message:
    """Base of commands and frames. Immutable; equal by value; keeps the input block it was decoded from.

    Attributes of all: `kind` (the command's name, or response, error, message), `notes` (violations that LAX accepted).
    """
    cdef bytes block
    cdef const uint8_t* frame
    cdef uint32_t size
    cdef uint8_t kind_
    cdef uint8_t noted          # LAX accepted a violation
    cdef Span topic_span, body_span
    cdef object cached          # a value made of the octets on first access
    cdef object timestamp, attempts, message_id     # of a message frame; here because a freelist needs objects of one size

    __match_args__ = ()

    def __init__(self):
        raise TypeError("this is a base class: use the class of a command or frame")

    @property
    def kind(self):
        return nsq_kind_name[self.kind_].decode("ascii")

    # ---- octets

    def encode(self):
        """The bytes: those it was decoded from, or the canonical form of a new one."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self.block
        return octets_of(self.frame, self.size)

    def detach(self):
        """An equal object that holds only its own bytes, not the larger input block."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self
        return restore(self.encode(), self.kind_ >= NSQ_FRAMES, self.noted)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NSQ_NOTES_SHOWN."""
        cdef NsqOptions o
        cdef NsqUnitView m
        cdef Fault f
        cdef NsqNote found[NSQ_NOTES_SHOWN]
        cdef int i
        if not self.noted:
            return ()
        nsq_plain_options(&o, NSQ_SERVER if self.kind_ >= NSQ_FRAMES else NSQ_CLIENT, 0)
        o.notes = found
        o.notes_room = NSQ_NOTES_SHOWN
        nsq_parse(self.frame, self.size, &o, &m, &f)
        out = []
        for i in range(min(m.note_count, NSQ_NOTES_SHOWN)):
            f.check, f.field, f.kind = found[i].check, found[i].field, m.kind
            out.append(Note(
                nsq_check_name[f.check].decode("ascii"), field_path(&NSQ_TABLES, f.field, found[i].index),
                found[i].offset, nsq_check_text[f.check].decode("utf-8"), nsq_spec_of(&f).decode("ascii")))
        return tuple(out)

    # ---- value

    cdef tuple values(self):
        return tuple([getattr(self, name) for name in type(self).__match_args__])

    cdef object hashed(self):
        """The values that can be hashed."""
        return self.values()

    def __eq__(self, other):
        cdef Message that
        if type(self) is not type(other):
            return NotImplemented
        that = <Message>other
        if self.size == that.size and (self.frame == that.frame or memcmp(self.frame, that.frame, self.size) == 0):
            return True
        return self.values() == that.values()

    def __hash__(self):
        return hash((self.kind_, self.hashed()))

    def __repr__(self):
        fields = [f"{name}={nsq_shown(name, value)}" for name in type(self).__match_args__
                  if (value := getattr(self, name)) is not None]
        return f"nsq.{type(self).__name__}({', '.join(fields)})"

    def __reduce__(self):
        return restore, (self.encode(), self.kind_ >= NSQ_FRAMES, self.noted)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # ---- for the classes below

    cdef int parsed(self, NsqUnitView* m) except -1:
        """Parse it again, for fields that are not cached."""
        cdef NsqOptions o
        cdef Fault f
        nsq_plain_options(&o, NSQ_SERVER if self.kind_ >= NSQ_FRAMES else NSQ_CLIENT, 0)
        if nsq_parse(self.frame, self.size, &o, m, &f) != OK:
            raise_fault(&NSQ_TABLES, &f, 0)
        return 0

    cdef int settle(self, bytes octets, int side) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them."""
        cdef NsqOptions o
        cdef NsqUnitView m
        cdef Fault f
        cdef char text[256]
        nsq_plain_options(&o, side, 1)
        if nsq_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
            raise EncodeError(text[:fault_text(&NSQ_TABLES, &f, 0, text, sizeof(text))].decode("utf-8"))
        nsq_hold(self, octets, &m)
        return 0

    cdef str name_of(self, const Span* name):
        """A topic's or channel's name; LAX may keep bytes that are not text."""
        cdef size_t bad
        if name.at == NULL:
            return None
        if not is_utf8(name.at, name.size, &bad):
            return PyUnicode_DecodeUTF8(<const char*>name.at, name.size, "surrogateescape")
        return shared_text(name.at, name.size)

    cdef object octets_or_none(self, const Span* span):
        return octets_of(span.at, span.size) if span.at != NULL else None


cdef inline int nsq_hold(Message self, bytes block, const NsqUnitView* m) except -1:
    """Cache the parsed fields that getters need."""
    self.block = block
    self.frame = m.frame
    self.size = m.size
    self.kind_ = m.kind
    self.noted = m.note_count != 0
    self.topic_span = m.topic
    self.body_span = m.body
    return nsq_set_members(self) if m.kind == NSQ_MESSAGE else 0


cdef inline int nsq_set_members(Message self) except -1:
    """The fields of a message frame that Python reads without a call; only the body is made on access."""
    self.timestamp = <int64_t>load_u64(self.frame + 8)
    self.attempts = load_u16(self.frame + 16)
    self.message_id = octets_of(self.frame + 18, NSQ_MESSAGE_ID_SIZE)
    return 0


# ------------------------------------------------------------------------------------------------ commands

cdef class Command(Message):
    """A command of a client. The class itself is for commands that nsqd does not know, which only LAX accepts.

    `name` is the first word; `parameters` are all words after it, as bytes (nsqd ignores those it does not
    need); `line` is the whole line without its end.
    """
    __match_args__ = ("line",)

    def __init__(self, *, line):
        raise EncodeError("line: use the class of the command; nsqd accepts no other commands")

    @property
    def line(self):
        cdef NsqUnitView m
        self.parsed(&m)
        return self.octets_or_none(&m.line)

    @property
    def name(self):
        cdef NsqUnitView m
        self.parsed(&m)
        return PyUnicode_DecodeUTF8(<const char*>m.name.at, m.name.size, "backslashreplace")

    @property
    def parameters(self):
        line = self.line
        return () if line is None else tuple(line.split(b" ")[1:])


@cython.final
cdef class Magic(Command):
    """The first four bytes of a client, `  V2`."""
    __match_args__ = ()

    def __init__(self):
        self.settle(b"  V2", NSQ_CLIENT)

    @property
    def name(self):
        return "  V2"


cdef class Members(Command):
    """Members of IDENTIFY's JSON by name, as nsqd finds them: in any case, the last one that is not null."""

    cdef object member(self, int row):
        cdef NsqJson j
        cdef NsqMember m
        cdef object found = None
        cdef int begun
        begun = nsq_json_begin(&j, self.body_span.at, self.body_span.size)
        while begun == NSQ_JSON_OBJECT and nsq_json_next(&j, &m):
            if nsq_member_row(&m.name) == row and m.type != NSQ_JSON_NULL:
                found = nsq_json_object(&m)
        return found


@cython.final
cdef class Identify(Members):
    """IDENTIFY: describes the client and requests features. Times are in milliseconds, sizes in bytes.

    Built from `members`, (name, value) pairs or a mapping, which are written in order, and from the members that nsqd knows
    as keywords, which are written after them in alphabetical order, as Go does. Attributes return what nsqd would find,
    None if a member is absent or null; `members` has all, in order, with repeats: () if the JSON is `null`, None
    if LAX accepted JSON that is not an object. `body` is the JSON text.
    """
    __match_args__ = ("members",)

    def __init__(self, members=(), **known):
        cdef Writer w = nsq_begin_line(NSQ_IDENTIFY)
        cdef size_t at
        pairs = list(members.items()) if isinstance(members, Mapping) else list(members)
        for name in sorted(known):
            if name not in NSQ_MEMBER_NAMES:
                raise TypeError(f"{name!r} is not a member that nsqd knows: pass it in `members`")
            pairs.append((name, known[name]))
        w.put_u8(0x0A)
        at = w.size
        w.grow(4)
        nsq_write_json_members(w, pairs, 0)
        nsq_close_size(w, at, "body")
        self.settle(nsq_close(w), NSQ_CLIENT)

    cdef object hashed(self):
        members = self.members
        return None if members is None else tuple([name for name, _ in members])     # values may be mappings

    @property
    def members(self):
        if self.cached is None:
            self.cached = nsq_members_of(self.body_span.at, self.body_span.size)
        return self.cached

    @property
    def body(self):
        return octets_of(self.body_span.at, self.body_span.size)

    @property
    def client_id(self):
        return self.member(NSQ_MEMBER_CLIENT_ID)

    @property
    def hostname(self):
        return self.member(NSQ_MEMBER_HOSTNAME)

    @property
    def user_agent(self):
        return self.member(NSQ_MEMBER_USER_AGENT)

    @property
    def feature_negotiation(self):
        return self.member(NSQ_MEMBER_FEATURE_NEGOTIATION)

    @property
    def heartbeat_interval(self):
        return self.member(NSQ_MEMBER_HEARTBEAT_INTERVAL)

    @property
    def output_buffer_timeout(self):
        return self.member(NSQ_MEMBER_OUTPUT_BUFFER_TIMEOUT)

    @property
    def output_buffer_size(self):
        return self.member(NSQ_MEMBER_OUTPUT_BUFFER_SIZE)

    @property
    def sample_rate(self):
        return self.member(NSQ_MEMBER_SAMPLE_RATE)

    @property
    def msg_timeout(self):
        return self.member(NSQ_MEMBER_MSG_TIMEOUT)

    @property
    def tls_v1(self):
        return self.member(NSQ_MEMBER_TLS_V1)

    @property
    def deflate(self):
        return self.member(NSQ_MEMBER_DEFLATE)

    @property
    def deflate_level(self):
        return self.member(NSQ_MEMBER_DEFLATE_LEVEL)

    @property
    def snappy(self):
        return self.member(NSQ_MEMBER_SNAPPY)

    @property
    def topology_region(self):
        return self.member(NSQ_MEMBER_TOPOLOGY_REGION)

    @property
    def topology_zone(self):
        return self.member(NSQ_MEMBER_TOPOLOGY_ZONE)


cdef frozenset NSQ_MEMBER_NAMES = frozenset([(<bytes>nsq_member_name[row]).decode("ascii") for row in range(NSQ_MEMBERS)])


@cython.final
cdef class Auth(Command):
    """AUTH: a secret, bytes. A repr does not show it."""
    __match_args__ = ("secret",)

    def __init__(self, *, secret):
        cdef Writer w = nsq_begin_line(NSQ_AUTH)
        w.put_u8(0x0A)
        nsq_write_sized(w, secret, "secret")
        self.settle(nsq_close(w), NSQ_CLIENT)

    @property
    def secret(self):
        return octets_of(self.body_span.at, self.body_span.size)


@cython.final
cdef class Sub(Command):
    """SUB: subscribe to a channel of a topic."""
    __match_args__ = ("topic", "channel")

    def __init__(self, *, topic, channel):
        cdef Writer w = nsq_begin_line(NSQ_SUB)
        nsq_write_name(w, topic, "topic")
        nsq_write_name(w, channel, "channel")
        w.put_u8(0x0A)
        self.settle(nsq_close(w), NSQ_CLIENT)

    @property
    def topic(self):
        return self.name_of(&self.topic_span)

    @property
    def channel(self):
        cdef NsqUnitView m
        self.parsed(&m)
        return self.name_of(&m.channel)


cdef class Publication(Command):
    """Base class of PUB and DPUB: a topic and a message. Also a buffer: that of the message.

    `body` is a read-only memoryview into the bytes it was decoded from; `body_bytes()` copies it.
    """

    cdef int build(self, int kind, object topic, object defer_time, object body) except -1:
        cdef const char* word = nsq_kind_name[kind]
        cdef size_t word_size = strlen(word)
        cdef Py_ssize_t name_size = 0
        cdef const uint8_t* name = nsq_name_octets(topic, &name_size, "topic")
        cdef bytes number = b""
        cdef bytes block, octets
        cdef uint8_t* p
        if kind == NSQ_DPUB:
            number = b" %d" % whole_number(defer_time, 0x7FFFFFFFFFFFFFFF, "defer_time")
        block = take_block(body)
        nsq_bound_size(<size_t>PyBytes_GET_SIZE(block), "body")
        octets = new_octets(word_size + 1 + <size_t>(name_size + PyBytes_GET_SIZE(number)) + 5 +
                            <size_t>PyBytes_GET_SIZE(block))
        p = <uint8_t*>PyBytes_AS_STRING(octets)
        memcpy(p, word, word_size)
        p += word_size
        p[0] = c" "
        memcpy(p + 1, name, <size_t>name_size)
        p += 1 + name_size
        memcpy(p, PyBytes_AS_STRING(number), <size_t>PyBytes_GET_SIZE(number))
        p += PyBytes_GET_SIZE(number)
        p[0] = 0x0A
        store_u32(p + 1, <uint32_t>PyBytes_GET_SIZE(block))
        memcpy(p + 5, PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block))
        return self.settle(octets, NSQ_CLIENT)

    cdef tuple values(self):
        # hashing a memoryview would hash its exporter, which is this object
        return tuple([self.body_bytes() if name == "body" else getattr(self, name)
                      for name in type(self).__match_args__])

    @property
    def topic(self):
        return self.name_of(&self.topic_span)

    @property
    def body(self):
        return PyMemoryView_FromObject(self)

    def body_bytes(self):
        """The message, copied."""
        return octets_of(self.body_span.at, self.body_span.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.body_span.at, self.body_span.size, flags)


@cython.final
cdef class Publish(Publication):
    """PUB: publish a message."""
    __match_args__ = ("topic", "body")

    def __init__(self, *, topic, body):
        self.build(NSQ_PUB, topic, None, body)


@cython.final
cdef class DeferredPublish(Publication):
    """DPUB: publish a message that is delivered after at least `defer_time` milliseconds."""
    __match_args__ = ("topic", "defer_time", "body")

    def __init__(self, *, topic, defer_time, body):
        self.build(NSQ_DPUB, topic, defer_time, body)

    @property
    def defer_time(self):
        return nsq_number_of(self)


@cython.final
cdef class MultiPublish(Command):
    """MPUB: publish several messages, all or none. `bodies` is a tuple of bytes."""
    __match_args__ = ("topic", "bodies")

    def __init__(self, *, topic, bodies):
        cdef Writer w = nsq_begin_line(NSQ_MPUB)
        cdef size_t at
        cdef uint32_t count = 0
        nsq_write_name(w, topic, "topic")
        w.put_u8(0x0A)
        at = w.size
        w.grow(8)
        for body in bodies:
            nsq_write_sized(w, body, "bodies")
            count += 1
        nsq_close_size(w, at, "bodies")
        store_u32(w.p + at + 4, count)
        self.settle(nsq_close(w), NSQ_CLIENT)

    @property
    def topic(self):
        return self.name_of(&self.topic_span)

    @property
    def bodies(self):
        cdef const uint8_t* p = self.body_span.at
        cdef const uint8_t* end = p + self.body_span.size
        if self.cached is None:
            out = []
            while p < end:
                out.append(octets_of(p + 4, load_u32(p)))
                p += 4 + load_u32(p)
            self.cached = tuple(out)
        return self.cached


cdef object nsq_number_of(Message message):
    """The number among a command's words, modulo 2**64 as nsqd counts; None: LAX accepted a word that is not a number."""
    cdef NsqUnitView m
    message.parsed(&m)
    return m.number if m.has_number else None


@cython.final
cdef class Ready(Command):
    """RDY: the number of messages that may be in flight. A line without a count means 1."""
    __match_args__ = ("count",)

    def __init__(self, *, count):
        cdef Writer w = nsq_begin_line(NSQ_RDY)
        nsq_write_number(w, count, "count")
        w.put_u8(0x0A)
        self.settle(nsq_close(w), NSQ_CLIENT)

    @property
    def count(self):
        return nsq_number_of(self)


cdef class Answer(Command):
    """Base class of FIN, REQ and TOUCH: `message_id`, 16 bytes."""
    __match_args__ = ("message_id",)

    cdef int build(self, int kind, object message_id, object timeout) except -1:
        cdef Writer w = nsq_begin_line(kind)
        nsq_write_id(w, message_id)
        if kind == NSQ_REQ:
            nsq_write_number(w, timeout, "timeout")
        w.put_u8(0x0A)
        return self.settle(nsq_close(w), NSQ_CLIENT)

    @property
    def message_id(self):
        cdef NsqUnitView m
        self.parsed(&m)
        return self.octets_or_none(&m.message_id)


@cython.final
cdef class Finish(Answer):
    """FIN: the message was processed."""

    def __init__(self, *, message_id):
        self.build(NSQ_FIN, message_id, None)


@cython.final
cdef class Requeue(Answer):
    """REQ: the message is delivered again after `timeout` milliseconds; nsqd reduces a timeout that is too long."""
    __match_args__ = ("message_id", "timeout")

    def __init__(self, *, message_id, timeout=0):
        self.build(NSQ_REQ, message_id, timeout)

    @property
    def timeout(self):
        return nsq_number_of(self)


@cython.final
cdef class Touch(Answer):
    """TOUCH: restarts the timeout of a message in flight."""

    def __init__(self, *, message_id):
        self.build(NSQ_TOUCH, message_id, None)


@cython.final
cdef class Close(Command):
    """CLS: stop sending messages; nsqd answers CLOSE_WAIT and keeps the connection open."""
    __match_args__ = ()

    def __init__(self):
        self.settle(b"CLS\n", NSQ_CLIENT)


@cython.final
cdef class Nop(Command):
    """NOP: does nothing; the usual answer to a heartbeat."""
    __match_args__ = ()

    def __init__(self):
        self.settle(b"NOP\n", NSQ_CLIENT)


# ------------------------------------------------------------------------------------------------ frames

cdef bytes nsq_frame_octets(int32_t frame_type, object data):
    cdef Writer w = new_writer()
    w.grow(4)
    w.put_u32(<uint32_t>frame_type)
    w.put_buffer(data, False, "data")
    nsq_close_size(w, 0, "data")
    return nsq_close(w)


cdef class Frame(Message):
    """A frame of a server. The class itself is for types other than 0, 1 and 2. `data` is bytes."""
    __match_args__ = ("frame_type", "data")

    def __init__(self, *, frame_type, data=b""):
        cdef int32_t number
        if not PyIndex_Check(frame_type):
            raise TypeError(f"frame_type must be an int, not {type(frame_type).__name__}")
        frame_type = PyNumber_Index(frame_type)
        if not -0x80000000 <= frame_type <= 0x7FFFFFFF or 0 <= frame_type <= 2:
            raise EncodeError(f"frame_type: {frame_type} has its own class, or does not fit 32 bits")
        number = frame_type
        self.settle(nsq_frame_octets(number, data), NSQ_SERVER)

    @property
    def frame_type(self):
        return <int32_t>load_u32(self.frame + 4)

    @property
    def data(self):
        return octets_of(self.frame + 8, self.size - 8)


@cython.final
cdef class Response(Frame):
    """A response frame: OK, CLOSE_WAIT, _heartbeat_, or a JSON object.

    Built from `data`, or from `members` of a JSON object, pairs or a mapping. `members` is None if the data is not a JSON
    object, otherwise its (name, value) pairs in order. `is_heartbeat` is True for a heartbeat.
    """
    __match_args__ = ("data",)

    def __init__(self, data=None, *, members=None):
        cdef Writer w
        if (data is None) == (members is None):
            raise TypeError("pass either data or members")
        if members is not None:
            w = new_writer()
            nsq_write_json_members(w, members.items() if isinstance(members, Mapping) else members, 0)
            data = nsq_close(w)
        self.settle(nsq_frame_octets(0, data), NSQ_SERVER)

    @property
    def members(self):
        if self.cached is None:
            self.cached = (nsq_members_of(self.body_span.at, self.body_span.size),)
        return self.cached[0]

    @property
    def is_heartbeat(self):
        return nsq_is_heartbeat(&self.body_span)


cdef inline bint nsq_is_heartbeat(const Span* data) noexcept nogil:
    return data.size == 11 and memcmp(data.at, b"_heartbeat_", 11) == 0


@cython.final
cdef class Error(Frame):
    """An error frame: `code`, a word like E_INVALID, and `text`, the rest.

    `fatal`: True if nsqd then closes the connection; None for an unknown code.
    """
    __match_args__ = ("data",)

    def __init__(self, data):
        self.settle(nsq_frame_octets(1, data), NSQ_SERVER)

    @property
    def code(self):
        return self.data.partition(b" ")[0].decode("utf-8", "replace")

    @property
    def text(self):
        return self.data.partition(b" ")[2].decode("utf-8", "replace")

    @property
    def fatal(self):
        cdef int row
        row = nsq_error_row(&self.body_span)
        return bool(nsq_errors[row].fatal) if row >= 0 else None


cdef int nsq_error_row(const Span* data) noexcept nogil:
    """The row of nsq_errors for the first word of an error frame; -1: none."""
    cdef size_t n
    cdef int row
    for row in range(NSQ_ERRORS):
        n = strlen(nsq_errors[row].name)
        if data.size >= n and memcmp(data.at, nsq_errors[row].name, n) == 0 and (data.size == n or data.at[n] == 0x20):
            return row
    return -1


@cython.final
cdef class MessageFrame(Frame):
    """A message frame. A buffer too: that of its body.

    `timestamp` is nanoseconds since 1970, when it was published; `attempts` counts deliveries from 1 and wraps at 65536;
    `message_id` is 16 octets; `body` a read-only memoryview into the octets it was decoded from; `body_bytes()` copies.
    """
    __match_args__ = ("timestamp", "attempts", "message_id", "body")

    def __init__(self, *, timestamp, attempts, message_id, body):
        cdef Writer w = new_writer()
        cdef bytes octets = take_block(message_id)
        cdef int64_t when = timestamp
        if PyBytes_GET_SIZE(octets) != NSQ_MESSAGE_ID_SIZE:
            raise EncodeError("message_id must be 16 bytes")
        w.grow(4)
        w.put_u32(2)
        w.put_u32(<uint32_t>(<uint64_t>when >> 32))
        w.put_u32(<uint32_t>when)
        w.put_u16(<uint16_t>whole_number(attempts, 0xFFFF, "attempts"))
        w.put_octets(<const uint8_t*>PyBytes_AS_STRING(octets), NSQ_MESSAGE_ID_SIZE)
        w.put_buffer(body, False, "body")
        nsq_close_size(w, 0, "body")
        self.settle(nsq_close(w), NSQ_SERVER)

    cdef tuple values(self):
        return (self.timestamp, self.attempts, self.message_id, self.body_bytes())

    @property
    def body(self):
        return PyMemoryView_FromObject(self)

    @cython.binding(False)
    def body_bytes(self):
        """The body, copied."""
        return octets_of(self.body_span.at, self.body_span.size)

    def __getbuffer__(self, Py_buffer* view, int flags):
        fill_view(view, self, self.body_span.at, self.body_span.size, flags)


cdef PyMemberDef[3] NSQ_FRAME_MEMBERS


cdef int add_nsq_members() except -1:
    """timestamp, attempts and message_id of message frames, declared like members of classes written in C."""
    cdef MessageFrame frame = MessageFrame.__new__(MessageFrame)
    cdef const CText* names = ["timestamp", "attempts", "message_id"]
    cdef int i
    frame.timestamp, frame.attempts, frame.message_id = places = (object(), object(), object())
    for i, place in enumerate(places):
        NSQ_FRAME_MEMBERS[i].name = names[i]
        NSQ_FRAME_MEMBERS[i].type = T_OBJECT_EX
        NSQ_FRAME_MEMBERS[i].offset = place_in(frame, place)
        NSQ_FRAME_MEMBERS[i].flags = READONLY
        wirefmt_set_attribute(MessageFrame, (<bytes>names[i]).decode("ascii"),
                              PyDescr_NewMember(<PyTypeObject*>MessageFrame, &NSQ_FRAME_MEMBERS[i]))
    return 0


cdef Py_ssize_t place_in(object owner, object value) except -1:
    """The offset of an object's only reference to a value."""
    cdef Py_ssize_t at = 0
    while (<void**>(<char*><void*>owner + at))[0] != <void*>value:
        at += sizeof(void*)
    return at


add_nsq_members()


cdef Factory[20] NSQ_FACTORIES          # by kind
set_factories(NSQ_FACTORIES, (
    Command, Magic, Identify, Auth, Sub, Publish, MultiPublish, DeferredPublish, Ready,
    Finish, Requeue, Touch, Close, Nop, None, None, Frame, Response, Error, MessageFrame,
))


cdef inline object make_nsq(bytes block, const NsqUnitView* m):
    """The object of a parsed command or frame in `block`."""
    cdef Message message
    if m.kind == NSQ_MESSAGE:
        message = MessageFrame.__new__(MessageFrame)
    else:
        message = <Message>bare_object(&NSQ_FACTORIES[m.kind])
    nsq_hold(message, block, m)
    return message


cdef inline object make_nsq_message(bytes block, const uint8_t* p, size_t n):
    """The object of a message frame, without the dispatch on other frames."""
    cdef Message message = MessageFrame.__new__(MessageFrame)
    message.block = block
    message.frame = p
    message.size = <uint32_t>n
    message.kind_ = NSQ_MESSAGE
    message.noted = False
    message.body_span.at = p + 8 + NSQ_MESSAGE_HEADER_SIZE
    message.body_span.size = <uint32_t>(n - 8 - NSQ_MESSAGE_HEADER_SIZE)
    nsq_set_members(message)
    return message


# ------------------------------------------------------------------------------------------------ decode, encode

cdef object NSQ_LIMITS = Limits()
cdef int64_t[NSQ_OPTIONS] NSQ_SERVER_DEFAULTS


cdef int nsq_take_server(int64_t* out, object server) except -1:
    cdef int i
    for i, name in enumerate(ServerOptions.__dataclass_fields__):
        out[i] = getattr(server, name)
    return 0


nsq_take_server(NSQ_SERVER_DEFAULTS, ServerOptions())


cdef void nsq_plain_options(NsqOptions* o, int side, bint strict) noexcept nogil:
    memset(o, 0, sizeof(NsqOptions))
    o.side = <int8_t>side
    o.strict = strict
    o.magic = NSQ_MAGIC_PERHAPS


cdef int nsq_take_options(NsqOptions* o, object side, object strictness, object limits, object server) except -1:
    """Options of decode() and Decoder as C."""
    if side is not None and side != "client" and side != "server":
        raise ValueError(f"side must be 'client', 'server' or None, not {side!r}")
    if server is not None and not isinstance(server, ServerOptions):
        raise TypeError(f"server must be a ServerOptions, not {type(server).__name__}")
    nsq_plain_options(o, NSQ_EITHER if side is None else NSQ_SERVER if side == "server" else NSQ_CLIENT,
                      is_strict(strictness))
    if limits is None:
        limits = NSQ_LIMITS
    o.max_frame_size = limits.frame_size
    o.max_elements = limits.elements
    o.bounded = o.strict or server is not None
    if server is not None:
        nsq_take_server(o.server, server)
    elif o.strict:
        memcpy(o.server, NSQ_SERVER_DEFAULTS, sizeof(NSQ_SERVER_DEFAULTS))
    return 0


def decode(data, *, side=None, strictness=STRICT_MODE, limits=None, server=None):
    """Decode exactly one command, frame or magic, which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once.
    side: the sender, "client" (a command, the magic) or "server" (a frame); None: the first byte decides.
    strictness: "strict" accepts what an nsqd accepts, "lax" everything that can be framed (wirefmt.strictness).
    limits: wirefmt.framing.Limits. server: the ServerOptions of that nsqd; None: in STRICT its defaults, in LAX none.

    Returns the command or frame. Raises DecodeError, with the code that nsqd answers in `reply`; Truncated if bytes are
    missing.
    """
    cdef NsqOptions o
    cdef NsqUnitView m
    cdef Fault f
    cdef bytes block = take_block(data)
    nsq_take_options(&o, side, strictness, limits, server)
    if nsq_parse(<const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), &o, &m, &f) != OK:
        raise_fault(&NSQ_TABLES, &f, 0)
    return make_nsq(block, &m)


def frame_size(data, *, side=None, strictness=STRICT_MODE, limits=None, server=None):
    """Size in bytes of the command or frame that `data` begins with, or NEED_DATA; it needs as few bytes as possible.

    Options as in decode(). Raises DecodeError if none can begin this way, or if nsqd would refuse its first line.
    """
    cdef Input octets = take_input(data)
    cdef NsqOptions o
    cdef NsqWalk walk
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    nsq_take_options(&o, side, strictness, limits, server)
    status = nsq_frame_size(octets.at, <size_t>octets.size, &o, &size, &f)
    if status == OK and f.kind == NSQ_MPUB and size > <size_t>octets.size:
        memset(&walk, 0, sizeof(walk))
        status = nsq_look(octets.at, <size_t>octets.size, size, &o, &walk, &f)
    if status == OK:
        return size
    if status == NEED_DATA:
        return NEED_DATA_VALUE
    raise_fault(&NSQ_TABLES, &f, 0)


def encode(Message message not None, /):
    """The bytes of a command or frame, as `message.encode()`."""
    return message.encode()


def restore(bytes octets not None, bint of_server, bint noted):
    """Unpickle a command or frame."""
    cdef NsqOptions o
    cdef NsqUnitView m
    cdef Fault f
    nsq_plain_options(&o, NSQ_SERVER if of_server else NSQ_CLIENT, not noted)
    if nsq_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
        raise_fault(&NSQ_TABLES, &f, 0)
    return make_nsq(octets, &m)


@cython.final
cdef class Decoder(FrameDecoder):
    """Decodes the bytes of one direction of a connection to commands or frames.

    side: "client" or "server"; None: the first byte of the stream decides. magic, for a client: True: the magic `  V2`
    must come first; False: it was read already; None: it may come first.
    strictness, limits, server: as in decode().
    """
    cdef NsqOptions options
    cdef bint looks             # at the messages of an MPUB that is incomplete
    cdef NsqWalk walk           # position in it

    def __init__(self, *, side=None, magic=None, strictness=STRICT_MODE, limits=None, server=None):
        self.tables = &NSQ_TABLES
        nsq_take_options(&self.options, side, strictness, limits, server)
        self.options.magic = NSQ_MAGIC_PERHAPS if magic is None else NSQ_MAGIC_NOW if magic else NSQ_MAGIC_BEFORE

    @property
    def side(self):
        """The sender; None: unknown before the first byte."""
        return ("client", "server")[self.options.side] if self.options.side >= 0 else None

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        cdef int status
        if self.options.side == NSQ_EITHER and n:
            self.options.side = NSQ_SERVER if nsq_is_frame(&self.options, p[0]) else NSQ_CLIENT
        status = nsq_frame_size(p, n, &self.options, size, f)
        if status == OK and size[0] > n:
            self.looks = f.kind == NSQ_MPUB
            memset(&self.walk, 0, sizeof(self.walk))
        return status

    cdef int look(self, const uint8_t* p, size_t n, size_t size, Fault* f) noexcept:
        return nsq_look(p, n, size, &self.options, &self.walk, f) if self.looks else OK

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef NsqUnitView m
        if self.options.side == NSQ_SERVER and n >= 8 + NSQ_MESSAGE_HEADER_SIZE and load_u32(p + 4) == 2:
            return make_nsq_message(block, p, n)
        if nsq_parse_whole(p, n, &self.options, &m, f) != OK:
            return None
        self.options.magic = NSQ_MAGIC_BEFORE
        return make_nsq(block, &m)
