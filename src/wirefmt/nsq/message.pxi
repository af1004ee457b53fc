# The base of NSQ's commands and frames.
#
# A command or frame exists only as its octets. A constructor writes them and reads them back with nsq_parse, so everything
# that can be built can be decoded. Objects keep the block (bytes) that contains them; other Python objects are made
# on access.
from cpython.memoryview cimport PyMemoryView_FromObject

from wirefmt.nsq.spec import SECRETS as NSQ_SECRET_ROWS

# ------------------------------------------------------------------------------------------------ repr

cdef frozenset NSQ_SECRETS = frozenset([field for _, field in NSQ_SECRET_ROWS])


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
        return message_octets(self.block, self.frame, self.size)

    def detach(self):
        """An equal object that holds only its own bytes, not the larger input block."""
        if self.size == PyBytes_GET_SIZE(self.block):
            return self
        return restore(self.encode(), self.kind_ >= NSQ_FRAMES, self.noted)

    @property
    def notes(self):
        """Violations that LAX accepted: a tuple of Note (strictness.py), in the order found; at most NOTES_SHOWN."""
        cdef NsqOptions o
        if not self.noted:
            return ()
        nsq_plain_options(&o, NSQ_SERVER if self.kind_ >= NSQ_FRAMES else NSQ_CLIENT, 0)
        return message_notes(&NSQ_OPS, self.frame, self.size, &o.common)

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

    cdef int adopt(self, bytes octets, int side) except -1:
        """Adopt the octets that a constructor wrote, if STRICT accepts them."""
        cdef NsqOptions o
        cdef NsqUnitView m
        cdef Fault f
        nsq_plain_options(&o, side, 1)
        if nsq_parse(<const uint8_t*>PyBytes_AS_STRING(octets), <size_t>PyBytes_GET_SIZE(octets), &o, &m, &f) != OK:
            raise encode_error(&NSQ_TABLES, &f)
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
    self.noted = m.notes.count != 0
    self.topic_span = m.topic
    self.body_span = m.body
    return nsq_set_members(self) if m.kind == NSQ_MESSAGE else 0


cdef inline int nsq_set_members(Message self) except -1:
    """The fields of a message frame that Python reads without a call; only the body is made on access."""
    self.timestamp = <int64_t>load_u64(self.frame + 8)
    self.attempts = load_u16(self.frame + 16)
    self.message_id = octets_of(self.frame + 18, NSQ_MESSAGE_ID_SIZE)
    return 0
