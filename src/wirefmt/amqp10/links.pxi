# What the two ends of a link do for every message, above all its transfers; a part of what connection.pxi describes.


@cython.nonecheck(True)
cdef class LinkFlows:
    """What both ends of a link count. `Link` has the rest."""
    cdef public SessionFlows session
    cdef public object terminus, target
    cdef public bint attached
    cdef public int snd_settle_mode, rcv_settle_mode
    cdef public uint32_t delivery_count
    cdef public int64_t credit
    cdef public uint64_t max_message_size
    cdef int64_t available_                 # messages that the sender has ready; -1: it has not said
    cdef dict pending                       # deliveries that are not settled, by delivery-tag

    def __init__(self, *_, **__):
        self.pending = {}
        self.available_ = -1

    @property
    def available(self):
        """Messages that the sender has ready, as it has said, without those that have arrived since (2.6.7); None: it has not
        said."""
        return None if self.available_ < 0 else self.available_

    @available.setter
    def available(self, value):
        cdef uint32_t available = 0 if value is None else value
        self.available_ = -1 if value is None else available

    @property
    def unsettled(self):
        """The deliveries of the link that are not settled, by delivery-tag."""
        return self.pending


@cython.nonecheck(True)
cdef class SenderFlows(LinkFlows):
    """Messages that we send on a link. `Sender` is derived from it.

    It calls these methods of that: `_refuse_send`, `_refuse_mode`, `_refuse_settled`, `_refuse_size` and `_refuse_tag`, which
    raise LocalProtocolError; `_checked_tail` for a state, `_keep` and `_forget_kept` for a link with a Terminus, `_cut_short` for
    a message that is settled before its last part.
    """
    cdef public Outgoing open               # more parts of it will follow
    cdef public bint waiting                # the host has got the quota 0, and waits for `WindowOpened`
    cdef public bint incomplete
    cdef public object _resuming            # what is resumed
    cdef int64_t number                     # of the link's next delivery, without a Terminus
    cdef uint32_t handle_                   # ours

    def _number_is(self, uint32_t handle):
        """Our handle."""
        self.handle_ = handle

    @property
    def send_quota(self):
        """How many messages `send` takes now. 0: `WindowOpened` comes once it takes some."""
        return self.quota()

    cdef int64_t quota(self) except -1:
        """`send_quota`. A host that gets 0 waits for `WindowOpened`: this is the only place where that is noted."""
        cdef SessionFlows session = self.session
        cdef int64_t quota = 0
        if self.attached and self.credit > 0 and session.job is None and session.remote_incoming_window > 0 and \
                self.open is None and not self.incomplete and not self._resuming:
            quota = min(self.credit, session.connection.most_unsettled - PyDict_Size(session.sent))
        if quota <= 0:
            self.waiting = True
            return 0
        return quota

    def send(self, message, *, settled=None, delivery_tag=None, message_format=0, state=None, more=False, batchable=False):
        """Send a message, or with `more` the first part of it.

        Args:
            message: a message, or its encoded bytes.
            settled: True: no answer is wanted. None: as the link's mode says, and unsettled where both are possible.
            delivery_tag: up to 32 bytes, unique among the unsettled deliveries of the link; None: one is made.
            message_format: 0 for the messages of AMQP.
            state: a TransactionalState posts the message in a transaction (part 4, 4.4.1).
            more: True: `send_more` follows.
            batchable: the receiver need not hurry with its answer.

        Returns the handle. `Acknowledged` has it, unless it is settled; its message is the outcome, its code 0 if the
        delivery is accepted.

        Raises LocalProtocolError: there is no credit, the session's window is closed, the mode forbids it, or the message
        is larger than the receiver takes. Nothing was sent.
        """
        cdef SessionFlows session = self.session
        cdef ConnectionFlows connection = session.connection
        cdef bytes payload = (<Message>message).encode() if type(message) is Message else take_block(message)
        cdef int64_t size = PyBytes_GET_SIZE(payload), queued
        cdef uint32_t format_ = message_format
        cdef bytes tag = delivery_tag, tail = NO_OCTETS
        cdef bint done = self.snd_settle_mode == MODE_SETTLED if settled is None else settled
        cdef bint goes_on = more
        cdef Outgoing delivery
        cdef int64_t number
        if not self.quota():
            self._refuse_send()
        if done and type(self.target) is Coordinator:
            self._refuse_settled()          # part 4, 4.2 and 4.3
        if done != (self.snd_settle_mode == MODE_SETTLED) and self.snd_settle_mode <= MODE_SETTLED:
            self._refuse_mode()
        if self.max_message_size and <uint64_t>size > self.max_message_size:
            self._refuse_size(size)
        queued = connection._outbox.position - connection._outbox.taken
        if queued and queued + size > connection.most_pending:
            connection.check_pending(size)
        if tag is not None and (PyBytes_GET_SIZE(tag) > TAG_MOST or tag in self.pending):
            self._refuse_tag()
        if state is not None or batchable:
            tail = self._checked_tail(state, False, batchable)
        if self.terminus is None:
            number = self.number
            self.number += 1
            if tag is None:
                tag = tag_of(<uint32_t>number)
                while tag in self.pending:
                    number = self.number
                    self.number += 1
                    tag = tag_of(<uint32_t>number)
        else:
            number, made = self.terminus.take_number()
            if tag is None:
                tag = made
        delivery = Outgoing.__new__(Outgoing)
        delivery.link = self
        delivery.number = number
        delivery.delivery_tag = tag
        delivery.settled = done
        delivery.message_format = format_
        delivery.local = state
        delivery.size = size
        delivery.tail = tail
        delivery.id = -1
        if not done:
            self.pending[tag] = delivery
            if self.terminus is not None:
                self._keep(delivery, payload, goes_on)
        if type(self.target) is Coordinator:
            session.flush()                 # a discharge comes after the dispositions of its transaction (4.3)
        self.start(delivery, payload, goes_on)
        return delivery

    def _start(self, Outgoing delivery not None, bytes tail not None, bytes payload not None, bint more):
        """The first frames of a delivery. `tail`: fields of transfer from rcv-settle-mode on."""
        delivery.tail = tail
        self.start(delivery, payload, more)

    cdef int start(self, Outgoing delivery, bytes payload, bint more) except -1:
        """The first frames of a delivery. It takes its delivery-id and its credit now."""
        cdef SessionFlows session = self.session
        delivery.id = session.next_delivery_id
        session.next_delivery_id += 1
        if not delivery.settled and <object>set_default(session.sent, delivery.id, delivery) is not delivery:
            raise KeyError(delivery.id)
        self.delivery_count += 1
        self.credit -= 1
        self.open = delivery if more else None
        session.write(self, delivery, payload, True, more)
        self.quota()
        return 0

    def _continue(self, Outgoing delivery not None, bytes payload not None, bint more):
        """The next part of a delivery that has begun."""
        if not more:
            self.open = None
        self.session.write(self, delivery, payload, False, more)

    cdef int end(self, Outgoing delivery, bint settled, object state, list events) except -1:
        """The receiver has decided about a delivery, or settles it."""
        cdef SessionFlows session = self.session
        cdef uint32_t number = <uint32_t>delivery.id
        if state is None:
            state = delivery.known()
        delivery.given = state
        delivery.settled = True
        self._forget(delivery)
        if self.open is delivery:
            self._cut_short(delivery)
        events.append(acknowledged(session.connection.acknowledged, delivery, state))
        if not settled:
            session.settling.add(number, None, True)
        return 0

    cpdef _forget(self, Outgoing delivery):
        """A delivery is settled, or its end does not matter."""
        self.pending.pop(delivery.delivery_tag, None)
        if delivery.id >= 0:
            self.session.sent.pop(delivery.id, None)
        if self.terminus is not None:
            self._forget_kept(delivery)


@cython.nonecheck(True)
cdef class ReceiverFlows(LinkFlows):
    """Messages that come on a link. `Receiver` is derived from it.

    It calls these methods of that: `_broken` for the error of a rule, `_refuse_answer` and `_check_state`, which raise
    LocalProtocolError; `_put_part` and `_put_aborted` for events; `_remember`, `_note_state`, `_forget_kept` and `_resume_one`
    for a link with a Terminus.
    """
    cdef public int64_t _half               # credit at which the window is renewed; -1: it is not
    cdef public int64_t _promised           # messages that may still come: credit that was taken back may be used already
    cdef public bint streamed
    cdef public bint _only_resumed          # our unsettled map was incomplete
    cdef public dict _resumed               # deliveries of the terminus that the sender has to resume
    cdef Incoming partial
    cdef list parts
    cdef uint64_t size                      # of the parts of `partial` so far
    cdef bint skipping                      # the parts of this message are known, or not wanted

    def __init__(self, *_, **__):
        self.pending = {}
        self.available_ = -1
        self._half = -1
        self._resumed = {}
        self.parts = []

    def on_transfer(self, Transfer message not None, list events not None):
        """A transfer on this link, which is attached."""
        cdef Amqp10CompositeView v
        amqp10_open_composite(message.begin, &v)
        self.take(message, &v, events)

    cdef int take(self, Transfer message, const Amqp10CompositeView* v, list events) except -1:
        cdef Incoming partial = self.partial
        cdef uint64_t number = 0
        cdef bint more = False, aborted = False, settled = False, has_number
        cdef Span tag
        amqp10_field_boolean(v, AMQP10_TRANSFER_MORE, &more)
        amqp10_field_boolean(v, AMQP10_TRANSFER_ABORTED, &aborted)
        if partial is None:
            partial = self.begin(message, v, more, aborted, events)
            if partial is None:
                return 0
            if not more:
                self.check_size(message.payload_span.size)
                if self.streamed:
                    partial.joined = NO_OCTETS
                    self._put_part(partial, message.payload_bytes(), events)
                self.complete(partial, events)
                return 0
            self.partial = partial
            self.size = 0
            if self.streamed:
                partial.transfer = message.detach()
        else:
            has_number = amqp10_field_unsigned(v, AMQP10_TRANSFER_DELIVERY_ID, &number)
            if has_number and number != partial.delivery_id:
                raise self._broken("another delivery")
            if amqp10_field_binary(v, AMQP10_TRANSFER_DELIVERY_TAG, &tag) and not same_octets(partial.delivery_tag, &tag):
                raise self._broken("another delivery")
            if self.skipping:
                if aborted or not more:
                    self.partial = None
                    self.skipping = False
                return 0
            amqp10_field_boolean(v, AMQP10_TRANSFER_SETTLED, &settled)
            if settled:
                partial.settled = True
        if aborted:
            self._drop_partial()
            self._put_aborted(partial, events)
            return 0
        self.add(partial, message, events)
        if more:
            return 0
        self.partial = None
        if self.streamed:
            partial.joined = NO_OCTETS
        else:
            partial.joined = NO_OCTETS.join(self.parts)
            self.session.connection.unfinished -= <int64_t>self.size
            self.parts = []
        self.complete(partial, events)
        return 0

    cdef Incoming begin(self, Transfer message, const Amqp10CompositeView* v, bint more, bint aborted, list events):
        """The first transfer of a delivery. Returns None if nothing else has to be done with it."""
        cdef SessionFlows session = self.session
        cdef uint64_t number = 0, mode = 0
        cdef bint settled = False, resume = False
        cdef Incoming delivery
        cdef Span tag
        if not amqp10_field_unsigned(v, AMQP10_TRANSFER_DELIVERY_ID, &number) or \
                not amqp10_field_binary(v, AMQP10_TRANSFER_DELIVERY_TAG, &tag) or tag.size > TAG_MOST:
            raise self._broken("no delivery-id")
        if session.has_latest and <uint32_t>number != <uint32_t>(session.latest + 1):
            raise self._broken("delivery-id")
        session.latest = <uint32_t>number
        session.has_latest = True
        if self._promised + session.connection.overrun <= 0:
            raise self._broken("credit")
        self._promised -= 1
        if self.credit > 0:
            self.credit -= 1
            if self.credit <= self._half:
                session.dirty[self] = None
        self.delivery_count += 1
        if self.available_ > 0:
            self.available_ -= 1
        if aborted:
            return None                     # all of it
        amqp10_field_boolean(v, AMQP10_TRANSFER_SETTLED, &settled)
        if settled and self.snd_settle_mode == MODE_UNSETTLED:
            raise self._broken("settled")
        if self.rcv_settle_mode == MODE_FIRST and \
                amqp10_field_unsigned(v, AMQP10_TRANSFER_RCV_SETTLE_MODE, &mode) and mode != MODE_FIRST:
            raise self._broken("rcv-settle-mode")
        delivery = Incoming.__new__(Incoming)
        delivery.link = self
        delivery.transfer = message
        delivery.delivery_id = <uint32_t>number
        delivery.delivery_tag = octets_of(tag.at, tag.size)
        delivery.settled = delivery.presettled = settled
        amqp10_field_boolean(v, AMQP10_TRANSFER_RESUME, &resume)
        if resume:
            if delivery.delivery_tag not in self._resumed:      # 2.7.5: a resumed delivery that we do not know is ignored
                if more:
                    self._skip(delivery)
                return None
            if self._resume_one(delivery, events):
                return None
        elif self._only_resumed:
            raise self._broken("resume")
        elif more and delivery.delivery_tag in self.pending:
            raise self._broken("delivery-tag")
        return delivery

    def _skip(self, Incoming delivery not None):
        """The rest of this delivery is not needed."""
        self.partial = delivery
        self.skipping = True

    cdef int check_size(self, uint64_t size) except -1:
        if self.max_message_size and size > self.max_message_size:
            raise self._broken("size")
        return 0

    cdef int add(self, Incoming partial, Transfer message, list events) except -1:
        """A part of a message."""
        cdef ConnectionFlows connection = self.session.connection
        self.size += message.payload_span.size
        self.check_size(self.size)
        if self.streamed:
            self._put_part(partial, message.payload_bytes(), events)
            return 0
        self.parts.append(message.payload_bytes())
        connection.unfinished += message.payload_span.size
        if connection.unfinished > connection.most_unfinished:
            raise self._broken("unfinished")
        return 0

    cdef int complete(self, Incoming delivery, list events) except -1:
        """All of a delivery has arrived."""
        cdef SessionFlows session = self.session
        if not delivery.settled:
            if self.snd_settle_mode == MODE_SETTLED:
                raise self._broken("unsettled")
            if <object>set_default(self.pending, delivery.delivery_tag, delivery) is not delivery:
                raise self._broken("delivery-tag")
            session.arrived[delivery.delivery_id] = delivery
            if self.terminus is not None:
                self._remember(delivery)
        events.append(delivery)
        return 0

    def _drop_partial(self):
        """No more of a message that has arrived in part is wanted."""
        if self.partial is not None:
            for part in self.parts:
                self.session.connection.unfinished -= len(part)
            self.partial = None
            self.skipping = False
            self.parts = []

    cpdef settle(self, Incoming delivery, state, settled=None):
        """The host's answer to a delivery."""
        cdef SessionFlows session = self.session
        cdef PyObject* found
        cdef bint done
        if delivery.decided or delivery.presettled:
            self._refuse_answer()
        if type(state) is not Accepted and state is not None:
            self._check_state(state)
        delivery.decided = True
        found = PyDict_GetItemWithError(self.pending, delivery.delivery_tag)
        if not self.attached or found != <PyObject*>delivery:
            return                          # the sender has settled it, or its link is gone
        if settled is not None:
            done = settled
        elif self.rcv_settle_mode == MODE_SECOND and delivery.transfer.rcv_settle_mode is not None:
            done = delivery.transfer.rcv_settle_mode == MODE_FIRST
        else:
            done = self.rcv_settle_mode == MODE_FIRST
        delivery.state = state
        if done:
            self.forget(delivery)
        elif self.terminus is not None:
            self._note_state(delivery)
        session.decided.add(delivery.delivery_id, state, done)

    cpdef forget(self, Incoming delivery):
        """A delivery is settled."""
        delivery.settled = True
        PyDict_DelItem(self.pending, delivery.delivery_tag)
        self.session.arrived.pop(delivery.delivery_id, None)
        if self.credit <= self._half:
            self.session.dirty[self] = None
        if self.terminus is not None:
            self._forget_kept(delivery)


# ------------------------------------------------------------------------------------------------ octets

cdef object acknowledged(type cls, object handle, object state):
    """The event Acknowledged, without a call of its constructor."""
    event = (<PyTypeObject*>cls).tp_new(cls, <PyObject*>NO_ARGUMENTS, NULL)
    final = state.outcome if type(state) is TransactionalState else state
    set_slot(event, HANDLE_SLOT, handle)
    set_slot(event, MESSAGE_SLOT, state)
    set_slot(event, CODE_SLOT, CODE_REJECTED if type(final) is Rejected else CODE_RELEASED if type(final) is Released
             else CODE_MODIFIED if type(final) is Modified else CODE_ACCEPTED)
    return event


cdef object state_in(Disposition message, const uint8_t* at):
    """The state of a disposition. Those that say `accepted` in the shortest way share an object."""
    if at == NULL:
        return None
    if at[0] == 0 and at[1] == AMQP10_CODE_SMALLULONG and at[2] == 0x24 and at[3] == AMQP10_CODE_LIST0:
        return PLAIN_ACCEPTED
    return message.state


cdef bint is_final(object state) except -1:
    """Is it an outcome (3.4), or has it one?"""
    if type(state) is TransactionalState:
        state = state.outcome
    return type(state) in (Accepted, Rejected, Released, Modified, Declared)


cdef inline bint same_octets(bytes octets, const Span* s) noexcept:
    return <size_t>PyBytes_GET_SIZE(octets) == s.size and memcmp(PyBytes_AS_STRING(octets), s.at, s.size) == 0


cdef bytes tag_of(uint32_t number):
    """A delivery-tag of ours: a number, as four octets."""
    cdef bytes tag = new_octets(4)
    store_u32(<uint8_t*>PyBytes_AS_STRING(tag), number)
    return tag


cdef inline size_t uint_size(uint32_t v) noexcept:
    return 1 if v == 0 else 2 if v < 256 else 5


cdef inline uint8_t* put_uint(uint8_t* p, uint32_t v) noexcept:
    """A uint in its smallest encoding. Returns where the next value begins."""
    if v == 0:
        p[0] = AMQP10_CODE_UINT0
        return p + 1
    if v < 256:
        p[0] = AMQP10_CODE_SMALLUINT
        p[1] = <uint8_t>v
        return p + 2
    p[0] = AMQP10_CODE_UINT
    store_u32(p + 1, v)
    return p + 5


cdef inline size_t list_size(size_t fields) noexcept:
    """Octets of a performative before its fields."""
    return 6 if fields < 255 else 12


cdef inline uint8_t* put_list(uint8_t* p, uint8_t descriptor, size_t fields, uint8_t count) noexcept:
    """The begin of a performative whose fields take so many octets. Returns where the first of them goes."""
    p[0] = 0
    p[1] = AMQP10_CODE_SMALLULONG
    p[2] = descriptor
    if fields < 255:
        p[3] = AMQP10_CODE_LIST8
        p[4] = <uint8_t>(fields + 1)
        p[5] = count
        return p + 6
    p[3] = AMQP10_CODE_LIST32
    store_u32(p + 4, <uint32_t>(fields + 4))
    store_u32(p + 8, count)
    return p + 12


cdef size_t fields_size(SenderFlows link, Outgoing delivery, bint first) noexcept:
    """Octets of a transfer's fields."""
    cdef size_t size = uint_size(link.handle_) + 2 + <size_t>PyBytes_GET_SIZE(delivery.tail)
    if not first:
        return size + 3
    return size + uint_size(<uint32_t>delivery.id) + 2 + <size_t>PyBytes_GET_SIZE(delivery.delivery_tag) + \
        uint_size(delivery.message_format)


cdef size_t head_size(SenderFlows link, Outgoing delivery, bint first) noexcept:
    """Octets of a transfer before its payload."""
    cdef size_t fields = fields_size(link, delivery, first)
    return 8 + list_size(fields) + fields


cdef void put_head(uint8_t* p, SenderFlows link, Outgoing delivery, bint first, bint more) noexcept:
    """The performative of a transfer: of the first one of a delivery, or of a later one, which names only its link."""
    cdef size_t n
    p = put_list(p, 0x14, fields_size(link, delivery, first), 6 if PyBytes_GET_SIZE(delivery.tail) == 0 else 11)
    p = put_uint(p, link.handle_)
    if first:
        p = put_uint(p, <uint32_t>delivery.id)
        n = <size_t>PyBytes_GET_SIZE(delivery.delivery_tag)
        p[0] = AMQP10_CODE_VBIN8
        p[1] = <uint8_t>n
        memcpy(p + 2, PyBytes_AS_STRING(delivery.delivery_tag), n)
        p = put_uint(p + 2 + n, delivery.message_format)
        p[0] = AMQP10_CODE_TRUE if delivery.settled else AMQP10_CODE_FALSE
    else:
        memset(p, AMQP10_CODE_NULL, 4)
        p += 3
    p[1] = AMQP10_CODE_TRUE if more else AMQP10_CODE_FALSE
    memcpy(p + 2, PyBytes_AS_STRING(delivery.tail), <size_t>PyBytes_GET_SIZE(delivery.tail))
