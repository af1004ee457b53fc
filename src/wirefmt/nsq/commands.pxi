# Commands of a client as Python objects, with their constructors.

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
        self.adopt(b"  V2", NSQ_CLIENT)

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
        at = w.out.size
        w.grow(4)
        nsq_write_json_members(w, pairs, 0)
        nsq_close_size(w, at, "body")
        self.adopt(nsq_close(w), NSQ_CLIENT)

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
        self.adopt(nsq_close(w), NSQ_CLIENT)

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
        self.adopt(nsq_close(w), NSQ_CLIENT)

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
        return self.adopt(octets, NSQ_CLIENT)

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
        cdef Py_ssize_t name_size = 0
        cdef const uint8_t* name = nsq_name_octets(topic, &name_size, "topic")
        cdef list blocks = bodies if type(bodies) is list else list(bodies)
        cdef bytes octets
        cdef size_t size = 4
        cdef uint8_t* p
        for block in blocks:
            if not PyBytes_CheckExact(block):
                blocks = [take_block(body) for body in blocks]
                break
        # after this no code of others runs that could change the list
        for block in blocks:
            size += 4 + <size_t>PyBytes_GET_SIZE(block)
        nsq_bound_size(size, "bodies")
        octets = new_octets(5 + <size_t>name_size + 5 + size)
        p = <uint8_t*>PyBytes_AS_STRING(octets)
        memcpy(p, b"MPUB ", 5)
        memcpy(p + 5, name, <size_t>name_size)
        p += 5 + name_size
        p[0] = 0x0A
        store_u32(p + 1, <uint32_t>size)
        store_u32(p + 5, <uint32_t>len(blocks))
        p += 9
        for block in blocks:
            store_u32(p, <uint32_t>PyBytes_GET_SIZE(block))
            memcpy(p + 4, PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block))
            p += 4 + PyBytes_GET_SIZE(block)
        self.adopt(octets, NSQ_CLIENT)

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
        self.adopt(nsq_close(w), NSQ_CLIENT)

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
        return self.adopt(nsq_close(w), NSQ_CLIENT)

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
        self.adopt(b"CLS\n", NSQ_CLIENT)


@cython.final
cdef class Nop(Command):
    """NOP: does nothing; the usual answer to a heartbeat."""
    __match_args__ = ()

    def __init__(self):
        self.adopt(b"NOP\n", NSQ_CLIENT)
