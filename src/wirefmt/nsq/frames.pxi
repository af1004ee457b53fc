# Frames of a server as Python objects, with their constructors.

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
        self.adopt(nsq_frame_octets(number, data), NSQ_SERVER)

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
        self.adopt(nsq_frame_octets(0, data), NSQ_SERVER)

    @property
    def members(self):
        if self.cached is None:
            self.cached = (nsq_members_of(self.body_span.at, self.body_span.size),)
        return self.cached[0]

    @property
    def is_heartbeat(self):
        return nsq_is_heartbeat(&self.body_span)


@cython.final
cdef class Error(Frame):
    """An error frame: `code`, a word like E_INVALID, and `text`, the rest.

    `fatal`: True if nsqd then closes the connection; None for an unknown code.
    """
    __match_args__ = ("data",)

    def __init__(self, data):
        self.adopt(nsq_frame_octets(1, data), NSQ_SERVER)

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
    `message_id` is 16 bytes; `body` a read-only memoryview into the bytes it was decoded from; `body_bytes()` copies.
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
        self.adopt(nsq_close(w), NSQ_SERVER)

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
    for i in range(3):
        add_member(MessageFrame, &NSQ_FRAME_MEMBERS[i], names[i], place_in(frame, places[i]))
    return 0


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


cdef void nsq_review(const uint8_t* p, size_t n, const CommonOptions* o, Notes* notes, Fault* f) noexcept nogil:
    cdef NsqUnitView m
    nsq_parse(p, n, <const NsqOptions*>o, &m, f)
    notes[0] = m.notes
    f.kind = m.kind


cdef object nsq_object_of(bytes block, const uint8_t* p, size_t n, const CommonOptions* o, Fault* f):
    cdef NsqUnitView m
    return make_nsq(block, &m) if nsq_parse(p, n, <const NsqOptions*>o, &m, f) == OK else None


cdef MessageOps NSQ_OPS
NSQ_OPS.tables = &NSQ_TABLES
NSQ_OPS.review = nsq_review
NSQ_OPS.read = nsq_object_of
