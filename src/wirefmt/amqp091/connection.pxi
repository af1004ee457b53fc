# What a connection does for every message: a message published and confirmed, delivered and acknowledged, on both sides.
#
# The classes here hold the state of that. The classes of wirefmt/amqp091/{session,channel,client_channel,server_channel,
# endpoint,connection}.py are derived from them and do all that is rare. A message that is not one of the frequent ones is left
# to them, and nothing has changed then. Sections 1.x are those of the reference, 2.x and 4.x those of the specification.
from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError
from cpython.object cimport Py_EQ, PyObject_RichCompareBool

from sys import intern

from wirefmt.errors import LocalProtocolError, RemoteProtocolError


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1


cdef enum:
    # values of methods, as Amqp091FrameView.value numbers them: basic.ack, nack and reject; deliver; publish
    ACK_TAG = 0
    ACK_BITS = 1
    DELIVER_CONSUMER = 0
    DELIVER_TAG = 1
    DELIVER_REDELIVERED = 2
    PUBLISH_BITS = 3
    MANDATORY = 1               # bits of basic.publish
    IMMEDIATE = 2


cdef enum AckKind:
    BY_ACK = 0
    BY_NACK = 1
    BY_REJECT = 2


cdef tuple NO_ARGUMENTS = ()
cdef object ZERO = 0, NOT_SET = False       # arguments of methods
cdef str CHANNEL = intern("channel"), MESSAGE = intern("message")
cdef str HANDLES = intern("handles"), ACCEPTED = intern("accepted")
cdef str DELIVERIES = intern("deliveries"), OUTCOME = intern("outcome")
cdef BasicProperties NO_PROPERTIES = BasicProperties()


cdef inline uint64_t tag_of(Frame method) noexcept:
    """The delivery-tag of a basic.ack, nack or reject."""
    return load_u64(method.frame + method.value[ACK_TAG])


cdef inline uint8_t bits_of(Frame method) noexcept:
    """The octet of bits of a basic.ack, nack or reject."""
    return method.frame[method.value[ACK_BITS]]


cdef inline object bare_event(type cls):
    """An event without its values."""
    return (<PyTypeObject*>cls).tp_new(cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef void put_body_head(uint8_t* p, uint16_t channel, uint32_t size) noexcept:
    """The first seven octets of a body frame."""
    p[0] = AMQP091_FRAME_BODY
    store_u16(p + 1, channel)
    store_u32(p + 3, size)


cdef void put_header(uint8_t* p, uint16_t channel, BasicProperties properties, uint64_t size) noexcept:
    """A content header frame (4.2.6.1)."""
    p[0] = AMQP091_FRAME_HEADER
    store_u16(p + 1, channel)
    store_u32(p + 3, 12 + properties.p.size)
    store_u16(p + 7, AMQP091_CLASS_BASIC)
    store_u16(p + 9, 0)                     # weight
    store_u64(p + 11, size)
    memcpy(p + 19, properties.p.at, properties.p.size)
    p[19 + properties.p.size] = AMQP091_FRAME_END


# ------------------------------------------------------------------------------------------------ handles

@cython.final
@cython.freelist(1024)
@cython.no_gc
cdef class Publication:
    """The handle of a message that we have published in confirm mode.

    Attributes:
        number: counts up with each handle of a session. It gives the order of sending and of sending again.
        channel: the number of the channel.
        tag: the number of the confirm on its channel (basic.ack's delivery-tag); used again on another channel.
        message: the message.
        returned: the basic.return that has arrived for it, or None.
    """
    cdef readonly uint64_t number
    cdef readonly uint64_t tag
    cdef readonly uint16_t channel
    cdef uint32_t frame_max
    cdef Frame method
    cdef BasicProperties properties
    cdef bytes body
    cdef BasicMessage message_      # made on access, or given
    cdef BasicMessage returned_

    def __init__(self, number, channel, tag, BasicMessage message not None):
        self.number = number
        self.channel = channel
        self.tag = tag
        self.set_message(message)

    def __repr__(self):
        return f"<Publication {self.number}: channel {self.channel}, tag {self.tag}>"

    @property
    def message(self):
        if self.message_ is None:
            self.message_ = content_of(self.method, self.properties, self.body, self.frame_max)
        return self.message_

    @property
    def returned(self):
        return self.returned_

    @returned.setter
    def returned(self, BasicMessage message):
        self.returned_ = message

    cdef int set_message(self, BasicMessage message) except -1:
        self.method = message.method_
        self.properties = message.properties
        self.body = body_of(message)
        self.message_ = message
        return 0


@cython.final
@cython.freelist(1024)
cdef class Delivery:
    """The handle of a message that a server has delivered and that waits for its acknowledgement.

    Attributes:
        number: counts up with each handle of a connection.
        channel: the number of the channel.
        tag: the delivery-tag.
        consumer: its consumer; None: it answers basic.get.
        context: for the host: what `deliver` was given.
    """
    cdef readonly uint64_t number
    cdef readonly uint64_t tag
    cdef readonly uint16_t channel
    cdef readonly Consumer consumer
    cdef public object context

    def __init__(self, number, channel, tag, Consumer consumer, context):
        self.number = number
        self.channel = channel
        self.tag = tag
        self.consumer = consumer
        self.context = context

    def __repr__(self):
        return f"<Delivery {self.number}: channel {self.channel}, tag {self.tag}>"


@cython.final
cdef class Consumer:
    """A consumer of a channel.

    Attributes:
        tag: the consumer-tag.
        no_ack: True: deliveries are not acknowledged.
        prefetch: deliveries that may be unacknowledged; 0: any number.
        unacknowledged: deliveries that wait for their acknowledgement (of a server's consumer).
        consume: the basic.consume that started it.
    """
    cdef readonly str tag
    cdef readonly bint no_ack
    cdef public int64_t prefetch, unacknowledged
    cdef readonly BasicConsume consume
    cdef object exchange, routing_key       # of `head`
    cdef bytes head             # the last basic.deliver: tag and redelivered are changed in it
    cdef uint32_t head_tag, head_redelivered

    def __init__(self, str tag not None, BasicConsume consume not None, prefetch=0):
        self.tag = tag
        self.consume = consume
        self.no_ack = consume.no_ack
        self.prefetch = prefetch

    def __repr__(self):
        return f"<Consumer {self.tag!r}>"


cdef BasicMessage content_of(Frame method, BasicProperties properties, bytes body, uint32_t frame_max):
    """A message of its parts."""
    cdef BasicMessage made = BasicMessage.__new__(BasicMessage)
    made.method_ = method
    made.properties_ = properties
    made.block = body
    made.at = begin_of(body)
    made.size = <uint64_t>PyBytes_GET_SIZE(body)
    made.sizes = cut_sizes(made.size, frame_max)
    return made


cdef bytes body_of(BasicMessage message):
    """The body of a message; copied only if it lies in a larger block."""
    if message.block is not None and <uint64_t>PyBytes_GET_SIZE(message.block) == message.size and \
            message.at == begin_of(message.block):
        return message.block
    return message.body_bytes()


# ------------------------------------------------------------------------------------------------ what outlives a connection

cdef class SessionFlows:
    """Messages that wait for their confirms. `Session` is derived from it. Its `_note` writes to the journal.

    Attributes:
        outgoing: publications by number, in the order of sending.
        journaled: True: `changes` returns what a journal must keep.
    """
    cdef readonly dict outgoing
    cdef public bint journaled
    cdef public uint64_t _number

    def __init__(self, *_, **__):
        self.outgoing = {}

    cdef Publication remember(self, Frame method, BasicProperties properties, bytes body, uint32_t frame_max,
                              uint16_t channel, uint64_t tag):
        """A message has been published."""
        cdef Publication made = Publication.__new__(Publication)
        made.number = self._number + 1
        made.channel = channel
        made.tag = tag
        made.frame_max = frame_max
        made.method = method
        made.properties = properties
        made.body = body
        self._number += 1
        self.outgoing[made.number] = made
        if self.journaled:
            self._note(made)
        return made

    cdef int drop(self, Publication publication) except -1:
        """It is confirmed."""
        if self.journaled:
            self.forget(publication)
        elif publication.number in self.outgoing:
            PyDict_DelItem(self.outgoing, publication.number)
        return 0


# ------------------------------------------------------------------------------------------------ connections

cdef class Flows(EndpointFlows):
    """What both roles of a connection do for every message. `Endpoint` is derived from it. It calls `_go_on` of that after an
    answer.

    Attributes:
        channels: by number: all that are open, and those that wait for open-ok or close-ok.
        frame_max: bytes of a frame that we send at most; 0: no limit.
        blocked: True while the server has blocked the connection (RabbitMQ).
    """
    cdef readonly dict channels
    cdef public uint32_t frame_max
    cdef public bint blocked
    cdef public bint _up                    # the connection is open
    cdef public int64_t _undecided
    cdef readonly list _marked              # channels with acks to write
    cdef readonly Py_ssize_t _at
    cdef uint64_t number                    # of the last handle
    cdef int64_t most_pending, most_message, most_unconfirmed, most_unacknowledged
    cdef object opened                      # ChannelState.OPEN
    cdef type confirmed, settled            # the classes of events
    cdef SessionFlows session_              # of a client

    def __init__(self, *_, **__):
        self.channels = {}
        self._marked = []
        self.confirmed = self.settled = object

    @property
    def _session(self):
        return self.session_

    @_session.setter
    def _session(self, SessionFlows session not None):
        self.session_ = session

    def _configure(self, options, opened, type confirmed not None, type settled not None):
        """options: ConnectionOptions; opened: ChannelState.OPEN; confirmed, settled: the classes of the events."""
        self.most_pending = options.pending_bytes
        self.most_message = options.message_size
        self.most_unconfirmed = options.unconfirmed
        self.most_unacknowledged = options.unacknowledged
        self.opened = opened
        self.confirmed = confirmed
        self.settled = settled

    def _next_number(self):
        """The number of a new handle."""
        self.number += 1
        return self.number

    cdef int gather(self) except -1:
        """Write the acks that have been noted."""
        cdef list marked
        cdef ChannelFlows channel
        if self._marked:
            marked = self._marked
            self._marked = []
            for channel in marked:
                channel.marked = False
                channel.flush()
        return 0

    cdef int64_t gathered(self) except -1:
        return ACK_OCTETS * PyList_GET_SIZE(self._marked)       # a channel writes one at least

    def _flow(self, list messages not None, Py_ssize_t at, list events not None):
        """Take messages from number `at` on, while they are messages or basic.ack on a channel that is open. Returns the number
        of the first other one. If it raises, the fault is that of message `_at`."""
        cdef ChannelFlows channel = None
        cdef PyObject* found
        cdef Frame method
        while 0 <= at < PyList_GET_SIZE(messages) and self._up:
            message = messages[at]
            if type(message) is BasicMessage:
                method = (<BasicMessage>message).method_
            elif type(message) is BasicAck:
                method = <Frame>message
            else:
                break
            if channel is None or channel.number != method.channel_:
                found = PyDict_GetItemWithError(self.channels, method.channel_)
                if found == NULL or not isinstance(<object>found, ChannelFlows):
                    break
                channel = <ChannelFlows><object>found
            if not channel.open_ or channel._held:
                break
            self._at = at
            if type(message) is BasicAck:
                channel.take_ack(<Method>message, BY_ACK, events)
            elif not channel.take_content(<BasicMessage>message, events):
                break
            at += 1
        return at

    cdef int put_content(self, const uint8_t* method, size_t method_size, uint16_t channel, BasicProperties properties,
                         bytes body) except -1:
        """Queue a method with its content. A large body is not copied. Raises LocalProtocolError if it does not fit: nothing has
        changed then. A content header cannot be split: a server sends one that is larger than frame-max, as RabbitMQ does, and
        leaves it to the client to take it."""
        cdef Outbox outbox = self._outbox
        cdef uint64_t size = <uint64_t>PyBytes_GET_SIZE(body), at = 0, piece
        cdef uint64_t most = (self.frame_max if self.frame_max else AMQP091_FRAME_TOP) - AMQP091_OVERHEAD
        cdef size_t header = AMQP091_OVERHEAD + 12 + <size_t>properties.p.size
        cdef uint64_t total = method_size + header + size + AMQP091_OVERHEAD * ((size + most - 1) // most)
        cdef int64_t pending = outbox.position - outbox.taken
        cdef uint8_t* p
        cdef bytes octets
        if header > most + AMQP091_OVERHEAD and self.session_ is not None:
            text = f"the content header has {header} bytes, a frame has at most {self.frame_max}"
            raise LocalProtocolError(text) from EncodeError(text)
        if pending and pending + <int64_t>total > self.most_pending:
            raise LocalProtocolError(f"{pending} bytes are queued and not taken", reply=AMQP091_REPLY_RESOURCE_ERROR)
        if total < KEEP_FROM and size <= most:
            p = outbox.grow(total)
            memcpy(p, method, method_size)
            p += method_size
            put_header(p, channel, properties, size)
            if size:
                p += header
                put_body_head(p, channel, <uint32_t>size)
                memcpy(p + 7, PyBytes_AS_STRING(body), size)
                p[7 + size] = AMQP091_FRAME_END
            return 0
        octets = new_octets(method_size + header)
        p = <uint8_t*>PyBytes_AS_STRING(octets)
        memcpy(p, method, method_size)
        put_header(p + method_size, channel, properties, size)
        outbox.put(octets)
        while at < size:
            piece = min(size - at, most)
            put_body_head(outbox.grow(7), channel, <uint32_t>piece)
            outbox.put(body if piece == size else PyMemoryView_FromObject(body)[<Py_ssize_t>at:<Py_ssize_t>(at + piece)])
            outbox.grow(1)[0] = AMQP091_FRAME_END
            at += piece
        return 0

    cdef ChannelFlows open_channel_of(self, uint16_t number):
        """The channel with this number, if it is open."""
        cdef PyObject* found = PyDict_GetItemWithError(self.channels, number)
        if found == NULL or not isinstance(<object>found, ChannelFlows) or not (<ChannelFlows><object>found).open_:
            return None
        return <ChannelFlows><object>found


cdef class ServerFlows(Flows):
    """What a connection of a server does for every message besides. `ServerConnection` is derived from it.

    It calls these methods of that: `_waits_for_reply` for what is not a message, `_check_open` before an answer.
    """

    def waits(self, event):
        """Does this event wait for a reply or a confirm?"""
        cdef ChannelFlows channel
        if type(event) is not BasicMessage:
            return self._waits_for_reply(event)
        channel = self.open_channel_of((<BasicMessage>event).method_.channel_)
        return channel is not None and channel.holds(<BasicMessage>event)

    def _confirmed(self, BasicMessage event not None):
        """Was this published in confirm mode, and has its confirm been decided?"""
        return event.number != 0 and not self.waits(event)

    def acknowledge(self, *events):
        """Confirm messages that were published in confirm mode: basic.ack. Confirms of one turn are written together.

        Returns events of bytes that were waiting. Raises LocalProtocolError if an event does not wait for it; those before it
        are confirmed then.
        """
        cdef ChannelFlows channel = None
        cdef BasicMessage message
        if not self._up:
            self._check_open()
        for event in events:
            if type(event) is not BasicMessage:
                raise LocalProtocolError("this event has no confirm")
            message = <BasicMessage>event
            if channel is None or channel.number != message.method_.channel_:
                channel = self.open_channel_of(message.method_.channel_)
                if channel is None:
                    continue
            channel._tags.take(channel.place_of(message))
            self._undecided -= 1
            channel.settle(message.number)
        return [] if self._reading else self._go_on()

    def run_of(self, list events not None, Py_ssize_t at):
        """Messages that may be handled together: from number `at` on, where there is one, those that have the same method, and
        all wait for their confirms or none. Returns the number of the first event that is not among them."""
        cdef BasicMessage first, message
        if not 0 <= at < PyList_GET_SIZE(events):
            raise IndexError(f"there are {len(events)} events, not one with number {at}")
        if type(events[at]) is not BasicMessage:
            raise TypeError(f"a run begins with a BasicMessage, not with {type(events[at]).__name__}")
        first = <BasicMessage>events[at]
        at += 1
        while at < PyList_GET_SIZE(events):
            event = events[at]
            if type(event) is not BasicMessage:
                break
            message = <BasicMessage>event
            if message.method_.size != first.method_.size or (message.number == 0) != (first.number == 0) or \
                    memcmp(message.method_.frame, first.method_.frame, first.method_.size) != 0:
                break
            at += 1
        return at


cdef class ChannelFlows:
    """What channels of both roles do for every message. `Channel` is derived from it, and has the method `_check`, which says why
    a method must not be sent.

    Attributes:
        number: of the channel.
        connection: its connection.
        state: a ChannelState.
        consumers: by consumer-tag.
        mode: "plain", "confirm" (1.9, RabbitMQ) or "tx".
        active: False: the peer has asked us to send no content (1.5.2.3).
    """
    cdef Flows flows
    cdef readonly uint16_t number
    cdef readonly dict consumers
    cdef public bint active
    cdef readonly Tags _tags                # deliveries of a client, publishes in confirm mode of a server
    cdef object state_
    cdef public bint _held                  # a request waits for the host, and what comes after it waits, too
    cdef str mode_
    cdef bint open_, confirming, marked

    def __init__(self, Flows connection not None, number):
        self.flows = connection
        self.number = number
        self.consumers = {}
        self.active = True
        self._tags = Tags()
        self.mode_ = "plain"
        self.begin()

    cdef int begin(self) except -1:
        return 0

    @property
    def connection(self):
        return self.flows

    @property
    def state(self):
        return self.state_

    @state.setter
    def state(self, state):
        self.state_ = state
        self.open_ = state is self.flows.opened

    @property
    def mode(self):
        return self.mode_

    @mode.setter
    def mode(self, str mode not None):
        self.mode_ = mode
        self.confirming = mode == "confirm"

    cdef bint take_content(self, BasicMessage message, list events) except -1:
        """A message has arrived. False: it is not a frequent one."""
        return False

    cdef int take_ack(self, Method message, int kind, list events) except -1:
        """A basic.ack, nack or reject has arrived. kind: see AckKind."""
        return 0

    def _on_ack(self, BasicAck message not None, list events not None):
        """A basic.ack has arrived."""
        self.take_ack(message, BY_ACK, events)

    def _on_nack(self, BasicNack message not None, list events not None):
        """A basic.nack has arrived."""
        self.take_ack(message, BY_NACK, events)

    def _on_reject(self, BasicReject message not None, list events not None):
        """A basic.reject has arrived."""
        self.take_ack(message, BY_REJECT, events)

    cdef int settle(self, uint64_t tag) except -1:
        """Note a number whose ack is written when output is taken."""
        self._tags.note_ack(tag)
        if not self.marked:
            self.flows._marked.append(self)
            self.marked = True
        return 0

    cdef int flush(self) except -1:
        if self._tags.noted_count:
            self._tags.write(self.flows._outbox, self.number)
        return 0

    def _flush(self):
        """Write the acks that have been noted."""
        self.flush()

    def _put_content(self, Method method not None, BasicProperties properties, body):
        """Queue a method with its content. Raises LocalProtocolError; nothing has changed then."""
        cdef Frame frame = method
        self.flows.put_content(frame.frame, frame.size, self.number, NO_PROPERTIES if properties is None else properties,
                               body_octets(body))

    cdef bint holds(self, BasicMessage message) noexcept:
        """Does this publish wait for its confirm?"""
        cdef Py_ssize_t i = self._tags.find(message.number)
        return i >= 0 and <PyObject*>self._tags.records[i] == <PyObject*>message

    cdef Py_ssize_t place_of(self, BasicMessage message) except -1:
        """Where a publish in confirm mode waits."""
        cdef Py_ssize_t i = self._tags.find(message.number)
        if i < 0 or <PyObject*>self._tags.records[i] != <PyObject*>message:
            raise LocalProtocolError("this message does not wait for a confirm")
        return i


cdef bytes body_octets(object body):
    """The octets of a body that the host has given."""
    if PyBytes_CheckExact(body):
        return <bytes>body
    try:
        return take_block(body)
    except (TypeError, ValueError, BufferError) as error:
        raise LocalProtocolError(str(error)) from error


cdef BasicProperties properties_of(object properties):
    """The properties that the host has given."""
    if properties is None:
        return NO_PROPERTIES
    if type(properties) is not BasicProperties:
        raise LocalProtocolError(f"properties are BasicProperties, not {type(properties).__name__}")
    return <BasicProperties>properties


cdef Method built(Method method, int row, uint16_t channel, PyObject** values):
    """A method of the host's values. Raises LocalProtocolError."""
    try:
        method.build(row, channel, values)
    except (EncodeError, TypeError, ValueError) as error:
        raise LocalProtocolError(str(error)) from error
    return method
