# AMQP 1.0: assembles the transfers of a delivery to one message (2.6.14, 2.7.5), per link, for one direction of a connection.
#
# A delivery in one transfer is not copied. For a delivery in several, the first transfer is kept as a frame without its payload,
# and the payloads are collected. The caller limits memory and number of pending deliveries.
#
# A receiver (objects, decode_batch) refuses transfers that violate a rule or a limit. An observer (captures) cannot: it ends
# deliveries early, keeps only a part of a payload, and may have missed the first transfers of a delivery.


cdef enum Amqp10Join:           # results of amqp10_join
    AMQP10_JOIN_FAULT           # see the Fault
    AMQP10_JOIN_OTHER           # not a transfer
    AMQP10_JOIN_WHOLE           # a whole delivery: its payload is the frame's
    AMQP10_JOIN_PART            # kept: more transfers follow
    AMQP10_JOIN_LAST            # completes a delivery: see `done`
    AMQP10_JOIN_ABORTED         # aborts a delivery, which is `done` (NULL: it was not pending)
    # for an observer, which takes `done` and calls again with the same frame
    AMQP10_JOIN_ANOTHER         # another delivery begins on the link of `done`
    AMQP10_JOIN_FULL            # there are max_count deliveries: `done` was the oldest


cdef struct Amqp10Delivery:     # a pending delivery
    Amqp10Delivery* next        # begun later
    Amqp10Delivery* before
    uint16_t channel
    uint32_t handle
    uint32_t transfers
    bint settled                # by any of its transfers
    bint lacks_first            # it began before the capture, or in a gap
    Octets first                # the first transfer without its payload, a frame of its own
    uint32_t identity[3]        # where in it delivery-id, delivery-tag and message-format lie; 0: absent
    Octets payload              # of all transfers
    uint64_t size               # of the payload, including the part that was not kept
    # the caller's
    MessageContext m            # of the last transfer, with the time and offset of the first and the size of all
    Notes notes                 # of its frames: the first that LAX accepted


cdef struct Amqp10Deliveries:   # of one direction of one connection; all zero is a new one
    Amqp10Delivery* first       # by age
    Amqp10Delivery* last
    uint32_t count
    uint64_t octets             # of transfers that are kept
    int64_t memory              # octets of memory, with that of `done`
    uint64_t max_octets         # of `octets`; 0: no limit
    uint32_t max_count          # of pending deliveries; 0: no limit
    Amqp10Delivery* done        # the latest delivery that was completed or ended, until the next call; NULL: none
    Amqp10Delivery* spare
    bint observes
    bint lost                   # of an observer: there was a gap before, so transfers may be missing
    uint64_t max_payload        # of an observer: octets of a payload that are kept


cdef enum:
    AMQP10_MAX_DELIVERIES = 1024            # default limit of pending deliveries


cdef inline bint amqp10_is_opaque(const Amqp10CompositeView* transfer) noexcept nogil:
    """Has the message another format than 0? Then its payload does not consist of the sections of part 3 (2.7.5, 3.2.16)."""
    cdef uint64_t format = 0
    return amqp10_field_unsigned(transfer, AMQP10_TRANSFER_MESSAGE_FORMAT, &format) and format != 0


cdef int amqp10_join(Amqp10Deliveries* d, const Amqp10FrameView* frame, bint strict, Amqp10Delivery** kept,
                     Fault* f) noexcept nogil:
    """Add the next frame of the stream. Returns an Amqp10Join; after JOIN_PART `kept` is the frame's delivery."""
    cdef const Amqp10CompositeView* transfer = &frame.performative
    cdef Amqp10Delivery* delivery
    cdef uint64_t handle = 0
    cdef bint more = False, aborted = False, lacks_first = False
    kept[0] = NULL
    amqp10_drop_done(d)
    if transfer.shape != AMQP10_TRANSFER:
        amqp10_forget(d, frame)
        return AMQP10_JOIN_OTHER
    amqp10_field_unsigned(transfer, AMQP10_TRANSFER_HANDLE, &handle)
    amqp10_field_boolean(transfer, AMQP10_TRANSFER_MORE, &more)
    amqp10_field_boolean(transfer, AMQP10_TRANSFER_ABORTED, &aborted)
    delivery = amqp10_find_delivery(d, frame.channel, <uint32_t>handle)
    if delivery != NULL and d.observes and amqp10_begins_another(delivery, transfer):
        amqp10_end_delivery(d, delivery)
        return AMQP10_JOIN_ANOTHER
    if aborted:                             # 2.7.5: `more` has no meaning then
        if delivery != NULL:
            amqp10_count_transfer(delivery, transfer)
            amqp10_end_delivery(d, delivery)
        return AMQP10_JOIN_ABORTED
    if delivery == NULL:
        lacks_first = d.lost and not (transfer.at[<int>AMQP10_TRANSFER_DELIVERY_ID] != NULL and amqp10_begins_message(frame))
        if not more and not lacks_first:
            return AMQP10_JOIN_WHOLE
        if d.max_count and d.count >= d.max_count and d.observes:
            amqp10_end_delivery(d, d.first)
            d.lost = True
            return AMQP10_JOIN_FULL
        delivery = amqp10_begin_delivery(d, frame, <uint32_t>handle, strict, f)
        if delivery == NULL:
            return AMQP10_JOIN_FAULT
        delivery.lacks_first = lacks_first
    elif strict and not amqp10_same_delivery(delivery, transfer, f):
        return AMQP10_JOIN_FAULT
    if not amqp10_extend_delivery(d, delivery, frame, f):
        return AMQP10_JOIN_FAULT
    if more:
        kept[0] = delivery
        return AMQP10_JOIN_PART
    amqp10_end_delivery(d, delivery)
    return AMQP10_JOIN_LAST


cdef void amqp10_forget(Amqp10Deliveries* d, const Amqp10FrameView* frame) noexcept nogil:
    """End the deliveries of the link, session or connection that the frame ends."""
    cdef Amqp10Delivery* delivery = d.first
    cdef Amqp10Delivery* next
    if not AMQP10_DETACH <= frame.performative.shape <= AMQP10_CLOSE:
        return
    while delivery != NULL:
        next = delivery.next
        if amqp10_is_ended_by(delivery, frame):
            amqp10_end_delivery(d, delivery)
            amqp10_drop_done(d)
        delivery = next


cdef bint amqp10_is_ended_by(const Amqp10Delivery* delivery, const Amqp10FrameView* frame) noexcept nogil:
    """Is this frame a detach, an end or a close that ends the delivery's link?"""
    cdef int shape = frame.performative.shape
    cdef uint64_t handle = 0
    if shape == AMQP10_CLOSE:
        return True
    if delivery.channel != frame.channel or (shape != AMQP10_DETACH and shape != AMQP10_END):
        return False
    amqp10_field_unsigned(&frame.performative, AMQP10_DETACH_HANDLE, &handle)
    return shape == AMQP10_END or delivery.handle == handle


cdef void amqp10_drop_deliveries(Amqp10Deliveries* d) noexcept nogil:
    """Free all memory: the stream has ended."""
    while d.first != NULL:
        amqp10_end_delivery(d, d.first)
    amqp10_drop_done(d)
    free(d.spare)
    d.spare = NULL


cdef inline void amqp10_drop_done(Amqp10Deliveries* d) noexcept nogil:
    cdef Amqp10Delivery* done = d.done
    if done == NULL:
        return
    d.memory -= amqp10_delivery_octets(done)
    free_octets(&done.first)
    free_octets(&done.payload)
    free(d.spare)
    d.spare = done
    d.done = NULL


cdef inline int64_t amqp10_delivery_octets(const Amqp10Delivery* delivery) noexcept nogil:
    """Memory of a pending delivery."""
    return <int64_t>(sizeof(Amqp10Delivery) + delivery.first.capacity + delivery.payload.capacity + 3 * BLOCK_OCTETS)


cdef Amqp10Delivery* amqp10_find_delivery(Amqp10Deliveries* d, uint16_t channel, uint32_t handle) noexcept nogil:
    cdef Amqp10Delivery* delivery = d.last
    while delivery != NULL and not (delivery.channel == channel and delivery.handle == handle):
        delivery = delivery.before
    return delivery


cdef Amqp10Delivery* amqp10_begin_delivery(Amqp10Deliveries* d, const Amqp10FrameView* frame, uint32_t handle, bint strict,
                                           Fault* f) noexcept nogil:
    """Keep a delivery's first transfer; NULL: see `f`."""
    cdef Amqp10Delivery* delivery
    cdef const uint8_t* at
    cdef size_t size = frame.size - frame.payload.size
    cdef int i
    if strict and frame.performative.at[<int>AMQP10_TRANSFER_DELIVERY_ID] == NULL:
        amqp10_delivery_fault(f, AMQP10_CHECK_DELIVERY_FIRST, AMQP10_FIELD_TRANSFER_DELIVERY_ID, 0, 0)
        return NULL
    if d.max_count and d.count >= d.max_count:
        amqp10_delivery_fault(f, AMQP10_CHECK_DELIVERIES, AMQP10_FIELD_TRANSFER, <int64_t>d.count + 1, d.max_count)
        return NULL
    delivery = d.spare if d.spare != NULL else <Amqp10Delivery*>malloc(sizeof(Amqp10Delivery))
    d.spare = NULL
    if delivery == NULL:
        amqp10_delivery_fault(f, AMQP10_CHECK_MEMORY, AMQP10_FIELD_TRANSFER, 0, 0)
        return NULL
    memset(delivery, 0, sizeof(Amqp10Delivery))
    delivery.channel = frame.channel
    delivery.handle = handle
    add_octets(&delivery.first, frame.frame, size)
    if not delivery.first.failed:
        store_u32(delivery.first.at, <uint32_t>size)
    for i in range(3):
        at = frame.performative.at[AMQP10_TRANSFER_DELIVERY_ID + i]
        if at != NULL:
            delivery.identity[i] = <uint32_t>(at - frame.frame)
    delivery.before = d.last
    if d.last != NULL:
        d.last.next = delivery
    else:
        d.first = delivery
    d.last = delivery
    d.count += 1
    d.octets += size
    d.memory += amqp10_delivery_octets(delivery)
    return delivery


cdef bint amqp10_same_delivery(const Amqp10Delivery* delivery, const Amqp10CompositeView* transfer, Fault* f) noexcept nogil:
    """Check that identifier, tag and format of a transfer equal those of the first, or are absent (2.7.5). False: see `f`."""
    cdef Amqp10ValueView a, b
    cdef int i, field
    if delivery.first.failed:
        return True
    for i in range(3):
        field = AMQP10_TRANSFER_DELIVERY_ID + i
        if not amqp10_field(transfer, field, &a):
            continue
        if delivery.identity[i]:
            amqp10_read(delivery.first.at + delivery.identity[i], &b)
        if delivery.identity[i] == 0 or amqp10_compare(&a, &b) != 0:
            field = amqp10_fields[amqp10_shapes[<int>AMQP10_TRANSFER].first + field].field
            amqp10_delivery_fault(f, AMQP10_CHECK_DELIVERY_CHANGED, field, 0, 0)
            return False
    return True


cdef bint amqp10_begins_another(const Amqp10Delivery* delivery, const Amqp10CompositeView* transfer) noexcept nogil:
    """Does a transfer continue the delivery? It repeats the delivery-id or has none; another delivery-id begins the next one."""
    cdef Amqp10ValueView first
    cdef uint64_t id = 0
    if not amqp10_field_unsigned(transfer, AMQP10_TRANSFER_DELIVERY_ID, &id):
        return False
    if delivery.first.failed or delivery.identity[0] == 0:
        return True
    amqp10_read(delivery.first.at + delivery.identity[0], &first)
    return first.type != AMQP10_UINT or amqp10_unsigned(&first) != id


cdef bint amqp10_begins_message(const Amqp10FrameView* f) noexcept nogil:
    """Can the payload be the first of its delivery? It is absent, of another format, or begins with a section."""
    cdef const uint8_t* p = f.payload.at
    if f.payload.size < 3 or amqp10_is_opaque(&f.performative):
        return True
    if p[0] != 0:
        return False
    if p[1] == AMQP10_CODE_SMALLULONG:
        return AMQP10_SECTION_FIRST <= p[2] <= AMQP10_SECTION_LAST
    return p[1] == AMQP10_CODE_ULONG or p[1] == AMQP10_CODE_SYM8 or p[1] == AMQP10_CODE_SYM32


cdef bint amqp10_extend_delivery(Amqp10Deliveries* d, Amqp10Delivery* delivery, const Amqp10FrameView* frame,
                                 Fault* f) noexcept nogil:
    """Add the payload of a transfer. False: see `f`; the delivery is dropped."""
    cdef int64_t before = amqp10_delivery_octets(delivery)
    cdef size_t n = frame.payload.size
    amqp10_count_transfer(delivery, &frame.performative)
    delivery.size += n
    if d.observes:
        n = 0 if delivery.lacks_first else <size_t>min(n, d.max_payload - min(delivery.payload.size, d.max_payload))
    elif d.max_octets and n > d.max_octets - min(d.octets, d.max_octets):
        amqp10_delivery_fault(f, AMQP10_CHECK_MESSAGE_SIZE, AMQP10_FIELD_PAYLOAD, <int64_t>(d.octets + n),
                              <int64_t>d.max_octets)
        amqp10_end_delivery(d, delivery)
        amqp10_drop_done(d)
        return False
    add_octets(&delivery.payload, frame.payload.at, n)
    d.octets += n
    d.memory += amqp10_delivery_octets(delivery) - before
    if not delivery.payload.failed and not delivery.first.failed:
        return True
    amqp10_delivery_fault(f, AMQP10_CHECK_MEMORY, AMQP10_FIELD_PAYLOAD, 0, 0)
    amqp10_end_delivery(d, delivery)
    amqp10_drop_done(d)
    return False


cdef inline void amqp10_count_transfer(Amqp10Delivery* delivery, const Amqp10CompositeView* transfer) noexcept nogil:
    """Count another transfer of the delivery, including one that aborts it."""
    cdef bint settled = False
    delivery.transfers += 1
    amqp10_field_boolean(transfer, AMQP10_TRANSFER_SETTLED, &settled)
    if settled:
        delivery.settled = True


cdef void amqp10_end_delivery(Amqp10Deliveries* d, Amqp10Delivery* delivery) noexcept nogil:
    """End a pending delivery: it becomes `done`, and the previous `done` is freed."""
    amqp10_drop_done(d)
    if delivery.before != NULL:
        delivery.before.next = delivery.next
    else:
        d.first = delivery.next
    if delivery.next != NULL:
        delivery.next.before = delivery.before
    else:
        d.last = delivery.before
    d.count -= 1
    d.octets -= min(d.octets, delivery.first.size + delivery.payload.size)
    d.done = delivery


cdef void amqp10_delivery_fault(Fault* f, int check, int field, int64_t need, int64_t have) noexcept nogil:
    fault(f, amqp10_checks[check].status, check, field, 0, need, have, 0)
