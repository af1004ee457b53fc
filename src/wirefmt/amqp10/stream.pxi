# AMQP 1.0: octets <-> frames, messages and deliveries: decode, encode, Decoder, Assembler.


cdef object amqp10_frame_of(bytes block, const Amqp10FrameView* frame, bint strict):
    """The object of a parsed frame in `block`; `strict`: it was parsed in STRICT."""
    cdef Performative performative
    cdef ProtocolHeader header
    cdef EmptyFrame empty
    if frame.kind == AMQP10_KIND_PERFORMATIVE:
        performative = <Performative>bare_object(&AMQP10_COMPOSITE_FACTORIES[frame.performative.shape])
        amqp10_hold_frame(performative, block, frame, strict)
        performative.decode_fields()
        return performative
    if frame.kind == AMQP10_KIND_EMPTY:
        empty = EmptyFrame.__new__(EmptyFrame)
        empty.octets = octets_of(frame.frame, frame.size)
        return empty
    header = ProtocolHeader.__new__(ProtocolHeader)
    header.octets = octets_of(frame.frame, frame.size)
    return header


def decode(data, /, *, strictness=STRICT_MODE, limits=None):
    """Decode exactly one frame or protocol header (2.2, 2.3), which must use all bytes.

    data: any contiguous buffer; bytes are kept, any other buffer is copied once. strictness: "strict" or "lax".
    limits: wirefmt.framing.Limits.

    Returns a ProtocolHeader, an EmptyFrame, a performative or a SASL frame. Raises DecodeError;
    Truncated if bytes are missing.
    """
    cdef Amqp10Options o
    cdef Amqp10FrameView frame
    cdef Fault f
    cdef bytes block = take_block(data)
    take_amqp10_options(&o, strictness, limits)
    if amqp10_parse(<const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), &o, &frame, &f) != OK:
        raise_fault(&AMQP10_TABLES, &f, 0)
    return amqp10_frame_of(block, &frame, o.common.strict)


def decode_message(data, /, *, strictness=STRICT_MODE, limits=None):
    """Decode exactly one message (3.2): the payload of a transfer, or of all transfers of a delivery.

    data, strictness: as in decode(). limits: `elements` limits the elements of all lists, maps and arrays. Raises DecodeError.
    """
    cdef Amqp10Options o
    cdef bytes block = take_block(data)
    take_amqp10_options(&o, strictness, limits)
    return amqp10_read_message(block, <const uint8_t*>PyBytes_AS_STRING(block), <size_t>PyBytes_GET_SIZE(block), o.common.strict,
                        o.common.max_elements)


def frame_size(data, /, *, limits=None):
    """Size in bytes of the frame or protocol header that `data` begins with, or NEED_DATA; it needs as few bytes as possible.

    Raises DecodeError if no frame can begin this way, and LimitExceeded if it is too large.
    """
    cdef uint8_t head[INPUT_HEAD]
    cdef size_t n = input_head(data, head)
    cdef Fault f
    cdef size_t size = 0
    cdef int status
    cdef uint32_t limit = DEFAULT_FRAME_SIZE if limits is None else limits.frame_size
    status = amqp10_frame_size(head, n, limit, &size, &f)
    return size_found(&AMQP10_TABLES, status, size, &f)


def encode(message, /):
    """The bytes of a frame, message or composite, as `message.encode()`."""
    if not isinstance(message, (Composite, Message, ProtocolHeader, EmptyFrame)):
        raise TypeError(f"{type(message).__name__} is not a frame, composite or message; use encode_value() for values")
    return message.encode()


def restore_frame(bytes octets not None, bint strict):
    """Unpickle a performative; `strict`: it was decoded in STRICT, or built."""
    cdef Amqp10Options o
    memset(&o, 0, sizeof(Amqp10Options))
    o.common.strict = strict
    return read_message(&AMQP10_OPS, octets, &o.common)


def restore_message(bytes octets not None):
    """Unpickle a message."""
    return decode_message(octets, strictness="lax", limits=Limits(0, 0))


cdef inline int amqp10_stream_size(const uint8_t* p, size_t n, const Amqp10Options* o, size_t* size, Fault* f) noexcept:
    """amqp10_frame_size for a stream: it waits for DOFF and TYPE, so that an invalid frame is refused at once."""
    cdef int status = amqp10_frame_size(p, n, o.common.max_frame_size, size, f)
    return NEED_DATA if status == OK and n < 6 else status


@cython.final
cdef class Decoder(FrameDecoder):
    """Bytes of one direction of a connection -> frames and protocol headers.

    strictness, limits: as in decode(). Deliveries in several transfers: Assembler.
    """
    cdef Amqp10Options options

    def __init__(self, *, strictness=STRICT_MODE, limits=None):
        self.tables = &AMQP10_TABLES
        take_amqp10_options(&self.options, strictness, limits)

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        return amqp10_stream_size(p, n, &self.options, size, f)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp10FrameView frame
        if amqp10_parse(p, n, &self.options, &frame, f) != OK:
            return None
        return amqp10_frame_of(block, &frame, self.options.common.strict)


# ------------------------------------------------------------------------------------------------ deliveries

@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class Delivery:
    """A delivery (2.6.12): the assembled transfers of one message.

    `transfer` is the first of them, which has delivery-id, delivery-tag and message-format; `settled` is True if any of
    them settled it; `transfers` is their number. `payload` (read-only memoryview) is that of all, `message` decodes it.
    """
    cdef readonly Transfer transfer
    cdef readonly int transfers
    cdef readonly bint settled
    cdef bytes joined           # None: the transfer's own payload
    cdef bint strict
    cdef uint32_t max_elements

    def __init__(self):
        raise TypeError("a Delivery comes from an Assembler")

    @property
    def payload(self):
        return self.transfer.payload if self.joined is None else memoryview(self.joined)

    @property
    def message(self):
        """The Message. Raises DecodeError, also if the message-format is not 0."""
        cdef Transfer transfer = self.transfer
        amqp10_check_format(transfer)
        if self.joined is not None:
            return amqp10_read_message(self.joined, <const uint8_t*>PyBytes_AS_STRING(self.joined),
                                <size_t>PyBytes_GET_SIZE(self.joined), self.strict, self.max_elements)
        return amqp10_read_message(transfer.block, transfer.payload_span.at if transfer.payload_span.size else transfer.frame,
                            transfer.payload_span.size, self.strict, self.max_elements)

    def __reduce__(self):
        return restore_delivery, (self.transfer, self.joined, self.transfers, self.settled, self.strict,
                                  self.max_elements)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"<amqp10.Delivery in {self.transfers} transfers, {len(self.payload)} bytes, {self.transfer!r}>"


def restore_delivery(Transfer transfer not None, bytes joined, int transfers, bint settled, bint strict,
                     uint32_t max_elements):
    """Unpickle a delivery."""
    cdef Delivery made = Delivery.__new__(Delivery)
    made.transfer = transfer
    made.joined = joined
    made.transfers = transfers
    made.settled = settled
    made.strict = strict
    made.max_elements = max_elements
    return made


@cython.final
cdef class Assembler(FrameDecoder):
    """Bytes of one direction of a connection -> deliveries, and all frames that are not transfers.

    Transfers are assembled per link (2.6.14); a Delivery is returned in the place of its last transfer. An aborted delivery is
    dropped; detach, end and close drop those of their link, session, connection.

    strictness, limits: as in decode(). STRICT also compares later transfers with the first (2.7.5). `limits.frame_size` also
    limits the bytes kept of all pending deliveries; at most 1024 may be pending.
    """
    cdef Amqp10Deliveries deliveries
    cdef Amqp10Options options

    def __init__(self, *, strictness=STRICT_MODE, limits=None):
        self.tables = &AMQP10_TABLES
        take_amqp10_options(&self.options, strictness, limits)
        self.deliveries.max_octets = self.options.common.max_frame_size
        self.deliveries.max_count = AMQP10_MAX_DELIVERIES

    def __dealloc__(self):
        amqp10_drop_deliveries(&self.deliveries)

    @property
    def unfinished(self):
        """The number of pending deliveries."""
        return self.deliveries.count

    @property
    def pending(self):
        """Bytes of the incomplete frame, and of the transfers of pending deliveries."""
        return self.kept_size + self.deliveries.octets

    cdef int frame_size(self, const uint8_t* p, size_t n, size_t* size, Fault* f) noexcept:
        return amqp10_stream_size(p, n, &self.options, size, f)

    cdef object decode_frame(self, bytes block, const uint8_t* p, size_t n, Fault* f):
        cdef Amqp10FrameView frame
        cdef Amqp10Delivery* kept
        cdef Amqp10Delivery* done
        cdef int answer
        if amqp10_parse(p, n, &self.options, &frame, f) != OK:
            return None
        answer = amqp10_join(&self.deliveries, &frame, self.options.common.strict, &kept, f)
        if answer == AMQP10_JOIN_FAULT:
            return None
        if answer == AMQP10_JOIN_OTHER:
            return amqp10_frame_of(block, &frame, self.options.common.strict)
        if answer == AMQP10_JOIN_WHOLE:
            return self.delivery_of(amqp10_frame_of(block, &frame, self.options.common.strict), None)
        if answer != AMQP10_JOIN_LAST:
            return NO_MESSAGE
        done = self.deliveries.done
        return self.delivery_of(restore_frame(amqp10_written_octets(&done.first), False), amqp10_written_octets(&done.payload))

    cdef object delivery_of(self, Transfer transfer, bytes joined):
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery.transfer = transfer
        delivery.joined = joined
        delivery.transfers = 1 if joined is None else <int>self.deliveries.done.transfers
        delivery.settled = bool(transfer.settled) if joined is None else self.deliveries.done.settled
        delivery.strict = self.options.common.strict
        delivery.max_elements = self.options.common.max_elements
        return delivery
