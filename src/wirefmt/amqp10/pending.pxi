# AMQP 1.0: transfers of a delivery joined to one message (2.6.14, 2.7.5), per link, for one direction of a connection.
#
# A delivery in one transfer is not copied. Of one in several the first transfer is kept as a frame without its payload,
# and the payloads are collected; memory and number of unfinished deliveries are bounded by the caller.

from wirefmt._core.octets cimport Octets, add_octets, free_octets


cdef enum Amqp10Join:           # what amqp10_join answers
    AMQP10_JOIN_FAULT           # see the Fault
    AMQP10_JOIN_OTHER           # no transfer: nothing to join
    AMQP10_JOIN_WHOLE           # a delivery in itself: its payload is the frame's
    AMQP10_JOIN_PART            # kept: more is to come
    AMQP10_JOIN_LAST            # completes a delivery: see `done`
    AMQP10_JOIN_ABORTED         # gives one up: what was kept is in `done`, or nothing was (`done.transfers` is 0)


cdef struct Amqp10Delivery:
    uint16_t channel
    uint32_t handle
    uint32_t transfers
    bint settled                # by any of its transfers
    Octets first                # the first transfer without its payload, a frame of its own
    Octets payload              # of all transfers
    int64_t mark[3]             # the caller's: what to remember of the first transfer


cdef struct Amqp10Deliveries:   # of one direction of one connection; all zero is a new one
    Amqp10Delivery* unfinished
    uint32_t count, room
    uint64_t octets             # that the unfinished ones hold
    uint64_t max_octets         # of them all; 0: no limit
    uint32_t max_count          # unfinished at a time; 0: no limit
    Amqp10Delivery done         # the last one that was completed or given up, until the next call


cdef enum:
    AMQP10_MAX_DELIVERIES = 1024            # unfinished at a time, where the caller has no other limit in mind


cdef int amqp10_join(Amqp10Deliveries* d, const Amqp10FrameView* frame, bint strict, Amqp10Delivery** kept,
                     Fault* f) noexcept nogil:
    """Take the next frame of the stream. An Amqp10Join; after JOIN_PART `kept` is where it was put, for its mark."""
    cdef const Amqp10CompositeView* transfer = &frame.performative
    cdef Amqp10Delivery* delivery
    cdef uint64_t handle = 0
    cdef bint more = False, aborted = False
    kept[0] = NULL
    amqp10_drop_done(d)
    if transfer.shape != AMQP10_TRANSFER:
        amqp10_forget(d, frame)
        return AMQP10_JOIN_OTHER
    amqp10_field_unsigned(transfer, AMQP10_TRANSFER_HANDLE, &handle)
    amqp10_field_boolean(transfer, AMQP10_TRANSFER_MORE, &more)
    amqp10_field_boolean(transfer, AMQP10_TRANSFER_ABORTED, &aborted)
    delivery = amqp10_find_delivery(d, frame.channel, <uint32_t>handle)
    if aborted:                             # 2.7.5: what `more` says does not count then
        if delivery != NULL:
            amqp10_count_transfer(delivery, transfer)
            amqp10_finish_delivery(d, delivery)
        return AMQP10_JOIN_ABORTED
    if delivery == NULL:
        if not more:
            return AMQP10_JOIN_WHOLE
        delivery = amqp10_begin_delivery(d, frame, <uint32_t>handle, strict, f)
    elif not amqp10_same_delivery(delivery, frame, strict, f):
        return AMQP10_JOIN_FAULT
    if delivery == NULL or not amqp10_extend_delivery(d, delivery, frame, f):
        return AMQP10_JOIN_FAULT
    if more:
        kept[0] = delivery
        return AMQP10_JOIN_PART
    amqp10_finish_delivery(d, delivery)
    return AMQP10_JOIN_LAST


cdef void amqp10_forget(Amqp10Deliveries* d, const Amqp10FrameView* frame) noexcept nogil:
    """What ends a link, a session or a connection ends its deliveries."""
    cdef int shape = frame.performative.shape
    cdef uint64_t handle = 0
    cdef uint32_t i = 0
    cdef Amqp10Delivery* delivery
    if shape != AMQP10_DETACH and shape != AMQP10_END and shape != AMQP10_CLOSE:
        return
    amqp10_field_unsigned(&frame.performative, AMQP10_DETACH_HANDLE, &handle)
    while i < d.count:
        delivery = &d.unfinished[i]
        if shape == AMQP10_CLOSE or (delivery.channel == frame.channel and
                                     (shape == AMQP10_END or delivery.handle == handle)):
            amqp10_finish_delivery(d, delivery)
            amqp10_drop_done(d)
        else:
            i += 1


cdef void amqp10_drop_deliveries(Amqp10Deliveries* d) noexcept nogil:
    """Free all memory: the stream has ended."""
    while d.count:
        amqp10_finish_delivery(d, d.unfinished)
    amqp10_drop_done(d)
    free(d.unfinished)
    d.unfinished = NULL
    d.room = 0


cdef inline void amqp10_drop_done(Amqp10Deliveries* d) noexcept nogil:
    free_octets(&d.done.first)
    free_octets(&d.done.payload)
    memset(&d.done, 0, sizeof(Amqp10Delivery))


cdef Amqp10Delivery* amqp10_find_delivery(Amqp10Deliveries* d, uint16_t channel, uint32_t handle) noexcept nogil:
    cdef uint32_t i
    for i in range(d.count):
        if d.unfinished[i].channel == channel and d.unfinished[i].handle == handle:
            return &d.unfinished[i]
    return NULL


cdef Amqp10Delivery* amqp10_begin_delivery(Amqp10Deliveries* d, const Amqp10FrameView* frame, uint32_t handle, bint strict,
                                           Fault* f) noexcept nogil:
    """Keep a delivery's first transfer; NULL: see `f`."""
    cdef Amqp10Delivery* delivery
    cdef void* bigger
    cdef size_t size = frame.size - frame.payload.size
    if strict and frame.performative.at[<int>AMQP10_TRANSFER_DELIVERY_ID] == NULL:
        amqp10_delivery_fault(f, AMQP10_CHECK_DELIVERY_FIRST, AMQP10_FIELD_TRANSFER_DELIVERY_ID, 0, 0)
        return NULL
    if d.max_count and d.count >= d.max_count:
        amqp10_delivery_fault(f, AMQP10_CHECK_DELIVERIES, AMQP10_FIELD_TRANSFER, <int64_t>d.count + 1, d.max_count)
        return NULL
    if d.count == d.room:
        bigger = realloc(d.unfinished, (d.room * 2 + 4) * sizeof(Amqp10Delivery))
        if bigger == NULL:
            amqp10_delivery_fault(f, AMQP10_CHECK_MEMORY, AMQP10_FIELD_TRANSFER, 0, 0)
            return NULL
        d.unfinished = <Amqp10Delivery*>bigger
        d.room = d.room * 2 + 4
    delivery = &d.unfinished[d.count]
    d.count += 1
    memset(delivery, 0, sizeof(Amqp10Delivery))
    delivery.channel = frame.channel
    delivery.handle = handle
    add_octets(&delivery.first, frame.frame, size)
    if not delivery.first.failed:
        store_u32(delivery.first.at, <uint32_t>size)
    d.octets += size
    return delivery


cdef bint amqp10_same_delivery(Amqp10Delivery* delivery, const Amqp10FrameView* frame, bint strict, Fault* f) noexcept nogil:
    """Identifier, tag and format of a later transfer are those of the first, or left out (2.7.5). False: see `f`."""
    cdef Amqp10Options o
    cdef Amqp10FrameView first
    cdef Amqp10ValueView a, b
    cdef int i
    if not strict:
        return True
    memset(&o, 0, sizeof(Amqp10Options))
    if delivery.first.failed or amqp10_parse(delivery.first.at, delivery.first.size, &o, &first, f) != OK:
        return True
    for i in range(AMQP10_TRANSFER_DELIVERY_ID, AMQP10_TRANSFER_MESSAGE_FORMAT + 1):
        if amqp10_field(&frame.performative, i, &a) and \
                not (amqp10_field(&first.performative, i, &b) and amqp10_compare(&a, &b) == 0):
            amqp10_delivery_fault(f, AMQP10_CHECK_DELIVERY_CHANGED,
                                  amqp10_fields[amqp10_shapes[<int>AMQP10_TRANSFER].first + i].field, 0, 0)
            return False
    return True


cdef bint amqp10_extend_delivery(Amqp10Deliveries* d, Amqp10Delivery* delivery, const Amqp10FrameView* frame,
                                 Fault* f) noexcept nogil:
    """Add the payload of a transfer. False: see `f`; the delivery is given up."""
    amqp10_count_transfer(delivery, &frame.performative)
    if d.max_octets and frame.payload.size > d.max_octets - min(d.octets, d.max_octets):
        amqp10_delivery_fault(f, AMQP10_CHECK_MESSAGE_SIZE, AMQP10_FIELD_PAYLOAD,
                              <int64_t>(d.octets + frame.payload.size), <int64_t>d.max_octets)
    else:
        add_octets(&delivery.payload, frame.payload.at, frame.payload.size)
        d.octets += frame.payload.size
        if not delivery.payload.failed and not delivery.first.failed:
            return True
        amqp10_delivery_fault(f, AMQP10_CHECK_MEMORY, AMQP10_FIELD_PAYLOAD, 0, 0)
    amqp10_finish_delivery(d, delivery)
    amqp10_drop_done(d)
    return False


cdef inline void amqp10_count_transfer(Amqp10Delivery* delivery, const Amqp10CompositeView* transfer) noexcept nogil:
    """Another transfer of the delivery, the one that aborts it included."""
    cdef bint settled = False
    delivery.transfers += 1
    amqp10_field_boolean(transfer, AMQP10_TRANSFER_SETTLED, &settled)
    if settled:
        delivery.settled = True


cdef void amqp10_finish_delivery(Amqp10Deliveries* d, Amqp10Delivery* delivery) noexcept nogil:
    """It is no longer among the unfinished: `done` has it, and what `done` had before is freed."""
    amqp10_drop_done(d)
    d.octets -= min(d.octets, delivery.first.size + delivery.payload.size)
    d.done = delivery[0]
    d.count -= 1
    delivery[0] = d.unfinished[d.count]


cdef void amqp10_delivery_fault(Fault* f, int check, int field, int64_t need, int64_t have) noexcept nogil:
    fault(f, amqp10_checks[check].status, check, field, 0, need, have, 0)
