# AMQP 1.0 in captures: how to recognise and frame its streams, and how to put its messages into the message table.
#
# Transfers of one delivery are kept by link (channel and handle) until the last one; then they are one row.
# Links are known from attach: a row's destination is the address of the broker's end of its link, or otherwise the
# message's `to`. Memory is bounded: AMQP10_DELIVERIES_MAX pending deliveries per direction, each with the first
# transfer's performative and `max_message` octets; AMQP10_LINKS_MAX links per connection, with addresses of
# AMQP10_ADDRESSES_MAX octets; and `max_buffered` octets for all connections, which the capture checks. A delivery that a limit
# ends is a `partial` row; messages of a link beyond the limit have no destination.
#
# After a gap a delivery may have lost its first transfers. Later ones may repeat its delivery-id, so a lost beginning
# is detected by a payload that does not begin with a section; such a delivery is a `partial` row without a message. A
# delivery that ends early has its whole sections and the received part of its data.

cdef enum:
    AMQP10_DELIVERIES_MAX = 256     # pending deliveries in one direction; another one replaces the oldest
    AMQP10_LINKS_MAX = 1024
    AMQP10_ADDRESSES_MAX = 1 << 20
    AMQP10_SEARCH_MAX = 1 << 18     # octets: the search for a boundary waits for no larger frame
    AMQP10_PART_MAX = 1 << 16       # octets: a frame other than transfer that claims to be larger does not begin at a boundary
    AMQP10_FRAME_SIZE_MAX = 1 << 30     # octets: no frame is larger, whatever the peers have negotiated
    AMQP10_LINK_BUCKETS = 16
    AMQP10_TLS_HEADER = 3           # Amqp10Connection.header of protocol-id 2 (5.2.1)


cdef uint64_t AMQP10_WHOLE_KEY = 0xFFFFFFFFFFFFFFFFU        # of a link
cdef uint64_t AMQP10_KEY_OF_CHANNEL = 0xFFFFFFFF00000000U   # all except the handle


cdef struct Amqp10Link:             # a link, from its attach
    Amqp10Link* next
    uint64_t key                    # direction of the attach, channel, handle
    uint32_t size
    uint8_t* address                # as UTF-8
    size_t capacity                     # octets allocated at `address`


cdef struct Amqp10Connection:       # what a capture knows about one connection: a ProtocolState
    int64_t buffered                # octets of memory, of everything below
    Text client_id                  # the client's container-id
    uint32_t frame_max[2]           # by direction of the frames: the receiver's limit; 0: unknown
    uint16_t header[2]              # by direction, the last protocol header: its protocol-id + 1; 0: none was seen
    Amqp10Deliveries deliveries[2]  # by direction
    int64_t counted[2]              # their memory, as counted in `buffered`
    Amqp10Link* links[AMQP10_LINK_BUCKETS]
    int link_count
    int64_t link_octets


# ------------------------------------------------------------------------------------------------ frames

cdef int amqp10_sniff(const uint8_t* p, size_t n) noexcept nogil:
    """A protocol header of 1.0 (2.2): AMQP, TLS or SASL."""
    if memcmp(p, b"AMQP", min(n, <size_t>4)) != 0:
        return NO
    if n > 4 and (p[4] == 1 or p[4] > 3):
        return NO
    if n < 8:
        return MORE
    return YES if p[5] == 1 and p[6] == 0 and p[7] == 0 else NO


cdef int amqp10_next_size(void* state, int direction, const uint8_t* p, size_t n, uint32_t limit, size_t* size,
                          Fault* f) noexcept nogil:
    cdef const Amqp10Connection* c = <Amqp10Connection*>state
    if (c != NULL and direction == 0 and n and p[0] != c"A" and c.header[0] == AMQP10_TLS_HEADER and c.header[1] == 0):
        size[0] = n + 1                 # a client that does not wait for the server's header: octets of TLS, not a frame
        return NEED_DATA
    return amqp10_frame_size(p, n, limit if limit else amqp10_most(c, direction), size, f)


cdef inline uint32_t amqp10_most(const Amqp10Connection* c, int direction) noexcept nogil:
    """Octets of the largest frame that this side may send."""
    cdef uint32_t most = c.frame_max[direction] if c != NULL else 0
    return most if most else AMQP10_FRAME_SIZE_MAX


cdef inline void amqp10_options(Amqp10Options* o, bint strict) noexcept nogil:
    memset(o, 0, sizeof(Amqp10Options))
    o.common.strict = strict


cdef int amqp10_probe(void* state, int direction, const uint8_t* p, size_t n, size_t* size) noexcept nogil:
    """Is this a valid frame of a kind that this side may send?"""
    cdef Amqp10Options o
    cdef Amqp10FrameView m
    cdef Fault f
    cdef int status = amqp10_next_size(state, direction, p, n, 0, size, &f)
    if status == NEED_DATA:
        size[0] = 8
        return MORE if n == 0 or p[0] == 0 or p[0] == c"A" else NO
    if status != OK or size[0] > AMQP10_SEARCH_MAX:
        return NO
    if size[0] > n:
        return MORE if amqp10_may_begin(p, n, size[0], direction) else NO
    if p[0] != c"A" and not amqp10_may_begin(p, n, size[0], direction):
        return NO
    amqp10_options(&o, True)
    if amqp10_parse(p, size[0], &o, &m, &f) != OK:
        return NO
    return YES if m.kind != AMQP10_KIND_PROTOCOL_HEADER or (m.major == 1 and m.minor == 0) else NO


cdef bint amqp10_may_begin(const uint8_t* p, size_t n, size_t size, int direction) noexcept nogil:
    """Can p[:n] be the beginning of a frame of `size` octets? Its descriptor must be one that begins a frame."""
    cdef size_t at
    cdef int code
    if n < 6 or p[0] == c"A":
        return True
    at = <size_t>p[4] * 4
    if size == at:                          # empty
        return size == 8 and p[5] == 0
    if n < at + 3:
        return size <= AMQP10_PART_MAX or n < at
    if p[at] != 0:
        return False
    if p[at + 1] == AMQP10_CODE_SMALLULONG:
        code = p[at + 2]
    elif p[at + 1] == AMQP10_CODE_ULONG:
        if n < at + 10:
            return size <= AMQP10_PART_MAX
        code = p[at + 9] if load_u64(p + at + 2) < 0x100 else 0
    else:                                   # a symbolic descriptor
        return p[at + 1] == AMQP10_CODE_SYM8 and size <= AMQP10_PART_MAX
    if code >= 128 or amqp10_shape_of_code[code] == 0:
        return False
    code = amqp10_shape_of_code[code]
    if code != AMQP10_TRANSFER and size > AMQP10_PART_MAX:
        return False
    if p[5] == 0:
        return AMQP10_OPEN <= code <= AMQP10_CLOSE
    if code == AMQP10_SASL_INIT or code == AMQP10_SASL_RESPONSE:
        return direction == 0
    return direction == 1 and AMQP10_SASL_MECHANISMS <= code <= AMQP10_SASL_OUTCOME


cdef void amqp10_observe(void* state, int direction, const uint8_t* p, size_t n) noexcept nogil:
    """Called after a gap: drop the pending deliveries of this direction. The next messages may lack their beginning."""
    (<Amqp10Connection*>state).deliveries[direction].lost = True


# ------------------------------------------------------------------------------------------------ links

cdef inline uint64_t amqp10_link_key(int direction, uint16_t channel, uint64_t handle) noexcept nogil:
    return <uint64_t>direction << 48 | <uint64_t>channel << 32 | <uint32_t>handle


cdef inline int amqp10_link_bucket(uint64_t key) noexcept nogil:
    return <int>keyed_place(key, AMQP10_LINK_BUCKETS)


cdef inline int64_t amqp10_link_octets(const Amqp10Link* link) noexcept nogil:
    """Memory of a link."""
    return <int64_t>(sizeof(Amqp10Link) + link.capacity + 2 * BLOCK_OCTETS)


cdef const Amqp10Link* amqp10_find_link(const Amqp10Connection* c, uint64_t key) noexcept nogil:
    """The link with this key; NULL: unknown or dropped."""
    cdef const Amqp10Link* link = c.links[amqp10_link_bucket(key)]
    while link != NULL and link.key != key:
        link = link.next
    return link


cdef void amqp10_forget_links(Amqp10Connection* c, uint64_t key, uint64_t mask) noexcept nogil:
    """Drop the links whose key equals `key` in the bits of `mask`."""
    cdef Amqp10Link** at
    cdef Amqp10Link* link
    cdef int i
    for i in range(AMQP10_LINK_BUCKETS):
        if mask == AMQP10_WHOLE_KEY and i != amqp10_link_bucket(key):
            continue
        at = &c.links[i]
        while at[0] != NULL:
            link = at[0]
            if (link.key ^ key) & mask:
                at = &link.next
                continue
            at[0] = link.next
            c.link_count -= 1
            c.link_octets -= link.size
            c.buffered -= amqp10_link_octets(link)
            free(link.address)
            free(link)


cdef void amqp10_attach_link(Amqp10Connection* c, int direction, const Amqp10FrameView* f) noexcept nogil:
    """Keep the address of the broker's end: the target of a client's sender, the source of its receiver, and the reverse for
    a server's."""
    cdef const Amqp10CompositeView* p = &f.performative
    cdef Amqp10CompositeView terminus
    cdef Amqp10ValueView v
    cdef Amqp10Link* link
    cdef Octets o
    cdef uint64_t handle = 0, key
    cdef bint role = False
    cdef int field
    amqp10_field_unsigned(p, AMQP10_ATTACH_HANDLE, &handle)
    amqp10_field_boolean(p, AMQP10_ATTACH_ROLE, &role)
    key = amqp10_link_key(direction, f.channel, handle)
    amqp10_forget_links(c, key, AMQP10_WHOLE_KEY)
    field = AMQP10_ATTACH_SOURCE if <bint>(direction == 0) == role else AMQP10_ATTACH_TARGET
    if p.at[field] == NULL or not amqp10_open_composite(p.at[field], &terminus) or \
            (terminus.shape != AMQP10_SOURCE and terminus.shape != AMQP10_TARGET) or \
            not amqp10_field(&terminus, AMQP10_SOURCE_ADDRESS, &v) or c.link_count >= AMQP10_LINKS_MAX:
        return
    memset(&o, 0, sizeof(o))
    amqp10_add_text(&o, &v)
    if o.failed or o.size == 0 or <int64_t>o.size > AMQP10_ADDRESSES_MAX - c.link_octets:
        free_octets(&o)
        return
    link = <Amqp10Link*>calloc(1, sizeof(Amqp10Link))
    if link == NULL:
        free_octets(&o)
        return
    link.key = key
    link.address = o.at
    link.size = <uint32_t>o.size
    link.capacity = o.capacity
    link.next = c.links[amqp10_link_bucket(key)]
    c.links[amqp10_link_bucket(key)] = link
    c.link_count += 1
    c.link_octets += <int64_t>o.size
    c.buffered += amqp10_link_octets(link)


cdef const Amqp10Link* amqp10_link_of(const Amqp10Connection* c, const Amqp10FrameView* f, int direction) noexcept nogil:
    """The link of a frame's handle; NULL: the frame has no handle, or the link is unknown."""
    cdef const Amqp10CompositeView* p = &f.performative
    cdef uint64_t handle = 0
    cdef int field
    if p.shape == AMQP10_TRANSFER:
        field = AMQP10_TRANSFER_HANDLE
    elif p.shape == AMQP10_ATTACH:
        field = AMQP10_ATTACH_HANDLE
    elif p.shape == AMQP10_FLOW:
        field = AMQP10_FLOW_HANDLE
    elif p.shape == AMQP10_DETACH:
        field = AMQP10_DETACH_HANDLE
    else:
        return NULL
    if not amqp10_field_unsigned(p, field, &handle):
        return NULL
    return amqp10_find_link(c, amqp10_link_key(direction, f.channel, handle))


cdef void amqp10_observe_open(Amqp10Connection* c, int direction, const Amqp10FrameView* f) noexcept nogil:
    """Note the client's name, and the largest frame that the other side may send."""
    cdef Amqp10ValueView v
    cdef Octets o
    cdef uint64_t size = 0
    if amqp10_field_unsigned(&f.performative, AMQP10_OPEN_MAX_FRAME_SIZE, &size) and 512 <= size <= AMQP10_FRAME_SIZE_MAX:
        c.frame_max[1 - direction] = <uint32_t>size
    if direction == 1 or not amqp10_field(&f.performative, AMQP10_OPEN_CONTAINER_ID, &v):
        return
    memset(&o, 0, sizeof(o))
    amqp10_add_text(&o, &v)
    if not o.failed:
        keep_text(&c.client_id, o.at, o.size, &c.buffered)
    free_octets(&o)


# ------------------------------------------------------------------------------------------------ rows

cdef void amqp10_put_frame(MessageTable t, int64_t row, Amqp10Connection* c, const Amqp10FrameView* f,
                           int direction) noexcept nogil:
    """Put a frame's columns, including those that the connection knows."""
    cdef const Amqp10Link* link = amqp10_link_of(c, f, direction)
    amqp10_put_row(t, row, f, direction)
    if c.client_id.size:
        put_text(t.cols + T_CLIENT_ID, row, &c.client_id)
    if link != NULL:
        put_octets(t.cols + T_DESTINATION, row, link.address, link.size)


cdef void amqp10_put_line(MessageTable t, int64_t row, const Amqp10Connection* c, const Amqp10FrameView* f, int direction,
                          const uint8_t* p, size_t n, int transfers) noexcept nogil:
    """Put a frame's `detail`; for a transfer with the delivery's payload p[:n] and the number of its transfers."""
    cdef const Amqp10Link* link = amqp10_link_of(c, f, direction)
    cdef Span address = span_of(link.address, link.size) if link != NULL else span_of(NULL, 0)
    amqp10_put_detail(t, row, f, &address, p, n, transfers)


cdef int amqp10_put_delivery_message(MessageTable t, int64_t row, const Amqp10FrameView* f, const uint8_t* p, size_t n,
                                     int64_t base, bint strict, char* text, size_t capacity, int* size) noexcept nogil:
    """Put the payload of a delivery. Returns a RowStatus, and in `text` the row's error. `base`: octets before it."""
    cdef Amqp10Options o
    cdef Amqp10MessageView m
    cdef Fault fault
    cdef Amqp10ValueView v
    size[0] = 0
    if amqp10_is_opaque(&f.performative):
        t.put_payload(row, p, <int64_t>n)
        return ROW_OK
    amqp10_options(&o, strict)
    if amqp10_parse_message(p, n, &o, &m, &fault) != OK:
        size[0] = fault_text(&AMQP10_TABLES, &fault, base, text, capacity)
        return ROW_MALFORMED
    amqp10_put_sections(t, row, &m)
    amqp10_put_payload(t, row, &m)
    if n and t.hides_octets() and amqp10_secret_message(&m):
        size[0] = snprintf(text, capacity, "%s", HIDDEN_OCTETS)
    elif n:
        t.put_message(row, p, n)
    if m.properties.shape and amqp10_field(&m.properties, AMQP10_PROPERTIES_TO, &v):
        amqp10_put_text(t.cols + T_DESTINATION, row, &v)            # unless the link's address is known
    if m.notes.check:
        size[0] = note_text(&AMQP10_TABLES, &m.notes, base, text, capacity)
    return ROW_OK


cdef void amqp10_put_some(MessageTable t, int64_t row, const Amqp10FrameView* f, const uint8_t* p, size_t n) noexcept nogil:
    """Put the beginning of a message: its whole sections, and the available part of a data section after them."""
    cdef Amqp10Options o
    cdef Amqp10Reader x
    cdef Amqp10MessageView m
    cdef Fault fault
    cdef const uint8_t* at = p
    cdef const uint8_t* after
    cdef size_t used, left_
    if amqp10_is_opaque(&f.performative):
        t.put_payload(row, p, <int64_t>n)
        return
    amqp10_options(&o, False)
    amqp10_begin(&x, p, &o, &fault)
    after = amqp10_check(&x, at, p + n, 0) if n else NULL
    while after != NULL and after < p + n:
        at = after
        after = amqp10_check(&x, at, p + n, 0)
    if after != NULL:
        at = after
    used = <size_t>(at - p)
    left_ = n - used
    if used and amqp10_parse_message(p, used, &o, &m, &fault) == OK:
        amqp10_put_sections(t, row, &m)
        if m.body:
            amqp10_put_payload(t, row, &m)
            return
    if left_ > 5 and at[0] == 0 and at[1] == AMQP10_CODE_SMALLULONG and at[2] == AMQP10_SECTION_DATA:
        if at[3] == AMQP10_CODE_VBIN8:
            t.put_payload(row, at + 5, <int64_t>left_ - 5)
        elif at[3] == AMQP10_CODE_VBIN32 and left_ > 8:
            t.put_payload(row, at + 8, <int64_t>left_ - 8)


cdef void amqp10_put_alone(MessageTable t, const MessageContext* m, Amqp10Connection* c, const Amqp10FrameView* f,
                           bint strict) noexcept nogil:
    """Put the row of a frame that is a whole message."""
    cdef Col* fields = t.cols[<int>T_AMQP10].children
    cdef int64_t row = t.begin_row(m)
    cdef char text[256]
    cdef int size = 0
    cdef int status = ROW_OK
    cdef bint aborted = False
    amqp10_put_frame(t, row, c, f, m.direction)
    if t.options.detail:
        amqp10_put_line(t, row, c, f, m.direction, f.payload.at, f.payload.size, 1)
    if f.performative.shape == AMQP10_TRANSFER:
        put_i32(fields + A10_TRANSFERS, row, 1)
        amqp10_field_boolean(&f.performative, AMQP10_TRANSFER_ABORTED, &aborted)
        if not aborted:
            status = amqp10_put_delivery_message(t, row, f, f.payload.at, f.payload.size, <int64_t>(f.size - f.payload.size),
                                        strict, text, sizeof(text), &size)
            if status == ROW_MALFORMED and c.deliveries[m.direction].lost:
                status = ROW_PARTIAL                    # perhaps the last of a delivery, with its delivery-id repeated
    if f.notes.check and not size:
        size = note_text(&AMQP10_TABLES, &f.notes, 0, text, sizeof(text))
    t.put_status(row, status, text if size else NULL, size)


# ------------------------------------------------------------------------------------------------ pending deliveries

cdef inline void amqp10_count_buffered(Amqp10Connection* c, int direction) noexcept nogil:
    """Count the memory of a direction's pending deliveries as memory of the connection."""
    c.buffered += c.deliveries[direction].memory - c.counted[direction]
    c.counted[direction] = c.deliveries[direction].memory


cdef void amqp10_add_context(Amqp10Delivery* k, const MessageContext* m, const Amqp10FrameView* f) noexcept nogil:
    """A transfer was added: the delivery's time, size and note."""
    cdef MessageContext first = m[0]
    if k.transfers == 1:
        first.wire_size = 0
    else:
        first = k.m
    if f.notes.check and not k.notes.check:
        k.notes.check = f.notes.check
        k.notes.offset = first.wire_size + f.notes.offset
    k.m = m[0]
    k.m.ts_first_ns = first.ts_first_ns
    k.m.vlans = first.vlans
    k.m.byte_offset = first.byte_offset
    k.m.wire_size = first.wire_size + m.wire_size


cdef bint amqp10_put_first(MessageTable t, int64_t row, Amqp10Connection* c, const Amqp10Delivery* k, Amqp10FrameView* f,
                           bint more, bint aborted) noexcept nogil:
    """Put the columns of a delivery in several transfers, except its message. False: there is no first transfer."""
    cdef Amqp10Options o
    cdef Fault fault
    cdef Col* fields = t.cols[<int>T_AMQP10].children
    if k.settled:                           # the first put counts, so values of later transfers are put before those of the first
        put_bool(fields + A10_SETTLED, row, True)
    if aborted:
        put_bool(fields + A10_ABORTED, row, True)
    put_bool(fields + A10_MORE, row, more)
    put_i32(fields + A10_TRANSFERS, row, k.transfers)
    amqp10_options(&o, False)
    if k.first.failed or amqp10_parse(k.first.at, k.first.size, &o, f, &fault) != OK:
        return False
    if k.lacks_first:                       # it has channel and handle, like every transfer
        f.performative.at[<int>AMQP10_TRANSFER_DELIVERY_ID] = NULL
    amqp10_put_frame(t, row, c, f, k.m.direction)
    if t.options.detail:
        amqp10_put_line(t, row, c, f, k.m.direction, NULL if k.lacks_first else k.payload.at, k.payload.size, k.transfers)
    return not k.lacks_first


cdef void amqp10_drop_delivery(Amqp10Connection* c, Amqp10Deliveries* d, Amqp10Delivery* k) noexcept nogil:
    """Free a delivery, which is pending or `done`."""
    cdef int direction = k.m.direction
    if k != d.done:
        amqp10_end_delivery(d, k)
    amqp10_drop_done(d)
    amqp10_count_buffered(c, direction)


cdef void amqp10_put_unfinished(MessageTable t, Amqp10Connection* c, Amqp10Deliveries* d, Amqp10Delivery* k,
                                const char* text, size_t text_size) noexcept nogil:
    """Put the `partial` row of an incomplete delivery, and free it."""
    cdef Amqp10FrameView f
    cdef char said[256]
    cdef int64_t row = t.begin_row(&k.m)
    cdef int size
    if amqp10_put_first(t, row, c, k, &f, True, False):
        amqp10_put_some(t, row, &f, k.payload.at, k.payload.size)
        size = snprintf(said, sizeof(said), "%.*s: %llu bytes of a message of unknown size read", <int>text_size, text,
                        <unsigned long long>k.size)
    else:
        size = snprintf(said, sizeof(said), "%.*s: a delivery whose first transfer was not captured", <int>text_size, text)
    t.put_status(row, ROW_PARTIAL, said, printed(size, sizeof(said)))
    amqp10_drop_delivery(c, d, k)


cdef void amqp10_put_joined(MessageTable t, Amqp10Connection* c, Amqp10Deliveries* d, Amqp10Delivery* k, bint aborted,
                            bint strict) noexcept nogil:
    """Put the row of a complete delivery, and free it."""
    cdef Amqp10FrameView f
    cdef char text[256]
    cdef int64_t row = t.begin_row(&k.m)
    cdef int status = ROW_OK
    cdef int size = 0
    if not amqp10_put_first(t, row, c, k, &f, False, aborted):
        status = ROW_PARTIAL
        size = snprintf(text, sizeof(text), "a delivery whose first transfer was not captured")
    elif k.size > k.payload.size:
        status = ROW_PARTIAL
        amqp10_put_some(t, row, &f, k.payload.at, k.payload.size)
        size = snprintf(text, sizeof(text), "limit: %zu of %llu bytes of the message kept", k.payload.size,
                        <unsigned long long>k.size)
    elif not aborted:
        status = amqp10_put_delivery_message(t, row, &f, k.payload.at, k.payload.size, 0, strict, text, sizeof(text), &size)
        if status == ROW_MALFORMED and d.lost:          # later transfers may repeat the delivery-id
            status = ROW_PARTIAL
    if k.notes.check and not size:
        size = note_text(&AMQP10_TABLES, &k.notes, 0, text, sizeof(text))
    t.put_status(row, status, text if size else NULL, min(size, <int>sizeof(text) - 1))
    amqp10_drop_delivery(c, d, k)


cdef void amqp10_take_transfer(MessageTable t, const MessageContext* m, Amqp10Connection* c, const Amqp10FrameView* f,
                               bint strict) noexcept nogil:
    """2.6.14: a delivery ends with a transfer without `more`, or with `aborted` at once."""
    cdef Amqp10Deliveries* d = &c.deliveries[m.direction]
    cdef Amqp10Delivery* k
    cdef Fault fault
    cdef int answer = AMQP10_JOIN_FULL
    d.observes = True
    d.max_count = AMQP10_DELIVERIES_MAX
    d.max_payload = t.options.max_message
    while answer == AMQP10_JOIN_FULL or answer == AMQP10_JOIN_ANOTHER:
        answer = amqp10_join(d, f, False, &k, &fault)
        if answer == AMQP10_JOIN_FULL:
            amqp10_put_unfinished(t, c, d, d.done, b"limit", 5)
        elif answer == AMQP10_JOIN_ANOTHER:
            amqp10_put_unfinished(t, c, d, d.done, b"another delivery began", 22)
    if answer == AMQP10_JOIN_PART:
        amqp10_add_context(k, m, f)
    elif answer == AMQP10_JOIN_FAULT:                   # no other fault is reported to an observer
        t.shared.no_memory = True
    elif d.done == NULL:
        amqp10_put_alone(t, m, c, f, strict)
    else:
        amqp10_add_context(d.done, m, f)
        amqp10_put_joined(t, c, d, d.done, answer == AMQP10_JOIN_ABORTED, strict)
    amqp10_count_buffered(c, m.direction)


cdef bint amqp10_close_deliveries(MessageTable t, Amqp10Connection* c, int direction, const Amqp10FrameView* f) noexcept nogil:
    """detach, end, close: this side sends nothing more on these links. False: the table is full, call again."""
    cdef Amqp10Deliveries* d = &c.deliveries[direction]
    cdef Amqp10Delivery* k = d.first
    cdef Amqp10Delivery* next
    cdef int shape = f.performative.shape
    while k != NULL:
        next = k.next
        if amqp10_is_ended_by(k, f):
            if t.is_full():
                return False
            amqp10_put_unfinished(t, c, d, k, amqp10_shape_name[shape], strlen(amqp10_shape_name[shape]))
        k = next
    return True


# ------------------------------------------------------------------------------------------------ what a capture asks

cdef inline size_t amqp10_find_fast(MessageTable t, Amqp10Connection* c, int direction, const Amqp10Options* o,
                                    const uint8_t* p, size_t n, Amqp10FastView* out) noexcept nogil:
    """Read a delivery by the fast path. Returns its octets; 0: amqp10_parse must decide."""
    cdef size_t size = 0
    # a message that lost its beginning does not begin with a section
    if not (t.options.raw or t.options.detail):
        size = amqp10_read_fast(p, n, &o.common, out)
    return size if size and amqp10_find_delivery(&c.deliveries[direction], out.channel, out.handle) == NULL else 0


cdef void amqp10_put_delivery(MessageTable t, const MessageContext* m, const Amqp10Connection* c,
                              const Amqp10FastView* u) noexcept nogil:
    """Put the row of a delivery that the fast path reads."""
    cdef int64_t row = t.begin_row(m)
    cdef const Amqp10Link* link = amqp10_find_link(c, amqp10_link_key(m.direction, u.channel, u.handle))
    if c.client_id.size:
        put_text(t.cols + T_CLIENT_ID, row, &c.client_id)
    if link != NULL:
        put_octets(t.cols + T_DESTINATION, row, link.address, link.size)
    amqp10_put_message_of(t, row, u, m.direction, link != NULL)
    t.put_status(row, ROW_OK, NULL, 0)


cdef size_t amqp10_put_fast(MessageTable t, MessageContext* m, void* state, bint strict, const uint8_t* p,
                            size_t n) noexcept nogil:
    cdef Amqp10Connection* c = <Amqp10Connection*>state
    cdef Amqp10Options o
    cdef Amqp10FastView u
    cdef size_t size
    amqp10_options(&o, strict)
    o.common.max_frame_size = amqp10_most(c, m.direction)
    size = amqp10_find_fast(t, c, m.direction, &o, p, n, &u)
    if size:
        m.wire_size = <int64_t>size
        amqp10_put_delivery(t, m, c, &u)
    return size


cdef bint amqp10_put(MessageTable t, const MessageContext* m, void* state, bint strict,
                     const uint8_t* p, size_t n) noexcept nogil:
    cdef Amqp10Connection* c = <Amqp10Connection*>state
    cdef Amqp10Options o
    cdef Amqp10FrameView f
    cdef Amqp10FastView u
    cdef Fault fault
    cdef uint64_t handle = 0
    cdef int64_t row
    cdef int shape
    amqp10_options(&o, strict)
    if amqp10_find_fast(t, c, m.direction, &o, p, n, &u):         # its packets have arrived one by one
        amqp10_put_delivery(t, m, c, &u)
        return True
    if amqp10_parse(p, n, &o, &f, &fault) != OK:
        row = t.begin_row(m)
        amqp10_put_kind(t, row, &f, m.direction)
        t.put_malformed(row, &AMQP10_TABLES, &fault)
        return True
    shape = f.performative.shape
    if shape == AMQP10_TRANSFER:
        amqp10_take_transfer(t, m, c, &f, strict)
        return True
    if shape == AMQP10_OPEN:
        amqp10_observe_open(c, m.direction, &f)
    elif shape == AMQP10_ATTACH:
        amqp10_attach_link(c, m.direction, &f)
    elif AMQP10_DETACH <= shape <= AMQP10_CLOSE and not amqp10_close_deliveries(t, c, m.direction, &f):
        return False
    if f.kind == AMQP10_KIND_PROTOCOL_HEADER:
        c.header[m.direction] = f.protocol_id + 1
    amqp10_put_alone(t, m, c, &f, strict)
    if shape == AMQP10_DETACH and amqp10_field_unsigned(&f.performative, AMQP10_DETACH_HANDLE, &handle):
        amqp10_forget_links(c, amqp10_link_key(m.direction, f.channel, handle), AMQP10_WHOLE_KEY)
    elif shape == AMQP10_END and c.link_count:
        amqp10_forget_links(c, amqp10_link_key(m.direction, f.channel, 0), AMQP10_KEY_OF_CHANNEL)
    return True


cdef bint amqp10_put_part(MessageTable t, const MessageContext* m, void* state, const uint8_t* p, size_t n,
                          const char* text, size_t text_size) noexcept nogil:
    """Read the available part of a transfer."""
    cdef Amqp10Connection* c = <Amqp10Connection*>state
    cdef Amqp10Deliveries* d = &c.deliveries[m.direction]
    cdef Amqp10Delivery* k
    cdef Amqp10Options o
    cdef Amqp10FrameView f
    cdef Fault fault
    cdef uint64_t handle = 0
    cdef int64_t row
    amqp10_options(&o, False)
    o.common.cut = 1
    if amqp10_parse(p, n, &o, &f, &fault) != OK or f.performative.shape != AMQP10_TRANSFER:
        row = t.begin_row(m)
        amqp10_put_kind(t, row, &f, m.direction)
        t.put_status(row, ROW_PARTIAL, text, <int64_t>text_size)
        return True
    amqp10_field_unsigned(&f.performative, AMQP10_TRANSFER_HANDLE, &handle)
    k = amqp10_find_delivery(d, f.channel, <uint32_t>handle)
    if k == NULL:
        row = t.begin_row(m)
        amqp10_put_frame(t, row, c, &f, m.direction)
        if t.options.detail:
            amqp10_put_line(t, row, c, &f, m.direction, f.payload.at, f.payload.size, 1)
        put_i32(t.cols[<int>T_AMQP10].children + A10_TRANSFERS, row, 1)
        amqp10_put_some(t, row, &f, f.payload.at, f.payload.size)
        t.put_status(row, ROW_PARTIAL, text, <int64_t>text_size)
    else:
        if amqp10_extend_delivery(d, k, &f, &fault):
            amqp10_add_context(k, m, &f)
            amqp10_put_unfinished(t, c, d, k, text, text_size)
        else:
            t.shared.no_memory = True
            amqp10_count_buffered(c, m.direction)
    d.lost = True                           # more transfers of it may follow
    return True


cdef bint amqp10_flush(MessageTable t, void* state, int direction, const char* text, size_t text_size) noexcept nogil:
    cdef Amqp10Connection* c = <Amqp10Connection*>state
    cdef Amqp10Deliveries* d = &c.deliveries[direction]
    d.lost = True
    while d.first != NULL:
        if t.is_full():
            return False
        amqp10_put_unfinished(t, c, d, d.first, text, text_size)
    return True


cdef int amqp10_carrier(void* state) noexcept nogil:
    """TLS begins after the server's header (5.2.1). It is a refusal if it answers another one of the client (2.2)."""
    cdef const Amqp10Connection* c = <Amqp10Connection*>state
    if c.header[1] == AMQP10_TLS_HEADER and (c.header[0] == AMQP10_TLS_HEADER or c.header[0] == 0):
        return CARRIER_TLS
    return CARRIER_PLAIN


cdef void amqp10_clear_state(void* state) noexcept nogil:
    cdef Amqp10Connection* c = <Amqp10Connection*>state
    cdef int d
    for d in range(2):
        amqp10_drop_deliveries(&c.deliveries[d])
    amqp10_forget_links(c, 0, 0)
    free(<void*>c.client_id.at)


cdef Protocol amqp10_protocol():
    cdef Protocol row
    memset(&row, 0, sizeof(Protocol))
    row.name = AMQP10_PROTOCOL_TEXT
    row.subprotocol = pad_text(b"amqp")             # OASIS AMQP WebSocket Binding, 2.1
    row.both_open = True                            # the protocol header, 2.2
    row.sniff = amqp10_sniff
    row.frame_size = amqp10_next_size
    row.probe = amqp10_probe
    row.observe = amqp10_observe
    row.put = amqp10_put
    row.put_fast = amqp10_put_fast
    row.put_part = amqp10_put_part
    row.flush = amqp10_flush
    row.carrier = amqp10_carrier
    row.state_size = sizeof(Amqp10Connection)
    row.clear = amqp10_clear_state
    row.tables = &AMQP10_TABLES
    return row


cdef Protocol AMQP10_PROTOCOL = amqp10_protocol()

#: This row, for code that knows protocols only by their rows (wirefmt/protocols.py).
PROTOCOL = protocol_capsule(&AMQP10_PROTOCOL)
