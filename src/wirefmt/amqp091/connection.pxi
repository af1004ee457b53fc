# What a connection does for every message: a message published and confirmed, delivered and acknowledged, on both sides.
#
# The classes here hold the state of that. The classes of wirefmt/amqp091/{session,channel,client_channel,server_channel,
# endpoint,connection}.py are derived from them and do all that is rare. A message that is not one of the frequent ones is left
# to them, and nothing has changed then. Sections 1.x are those of the reference, 2.x and 4.x those of the specification.
from cpython.dict cimport PyDict_DelItem, PyDict_GetItemWithError
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport Py_EQ, PyObject_RichCompareBool
from libc.stdlib cimport qsort

from sys import intern

from wirefmt.errors import LocalProtocolError, RemoteProtocolError


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1


cdef enum:
    TAGS_ROOM = 16              # numbers that there is room for at first
    TAGS_KEPT = 1024            # ... and that there is still room for once all have been settled
    ACK_OCTETS = 21             # a basic.ack frame
    # values of methods, as Amqp091FrameView.value numbers them: basic.ack, nack and reject; deliver; publish
    ACK_TAG = 0
    ACK_BITS = 1
    DELIVER_CONSUMER = 0
    DELIVER_TAG = 1
    DELIVER_REDELIVERED = 2
    PUBLISH_BITS = 3
    MANDATORY = 1               # bits of basic.publish
    IMMEDIATE = 2
    REPLY_PRECONDITION = 406    # reply codes (1.2)
    REPLY_COMMAND_INVALID = 503
    REPLY_RESOURCE = 506
    REPLY_NOT_IMPLEMENTED = 540


cdef enum AckKind:
    BY_ACK = 0
    BY_NACK = 1
    BY_REJECT = 2


cdef object SETTLED = object()              # in the place of a record that has been taken out
cdef tuple NO_ARGUMENTS = ()
cdef object ZERO = 0, NOT_SET = False       # arguments of methods
cdef str CHANNEL = intern("channel"), MESSAGE = intern("message")
cdef str HANDLES = intern("handles"), ACCEPTED = intern("accepted")
cdef str DELIVERIES = intern("deliveries"), OUTCOME = intern("outcome")
cdef BasicProperties NO_PROPERTIES = BasicProperties()


cdef inline void store_u64(uint8_t* p, uint64_t v) noexcept:
    store_u32(p, <uint32_t>(v >> 32))
    store_u32(p + 4, <uint32_t>v)


cdef inline uint64_t tag_of(Frame method) noexcept:
    """The delivery-tag of a basic.ack, nack or reject."""
    return load_u64(method.frame + method.value[ACK_TAG])


cdef inline uint8_t bits_of(Frame method) noexcept:
    """The octet of bits of a basic.ack, nack or reject."""
    return method.frame[method.value[ACK_BITS]]


cdef inline object bare_event(type cls):
    """An event without its values."""
    return (<PyTypeObject*>cls).tp_new(cls, <PyObject*>NO_ARGUMENTS, NULL)


cdef int put_ack(Outbox outbox, uint16_t channel, uint64_t tag, bint multiple) except -1:
    """Queue a basic.ack (1.8.3.13)."""
    cdef uint8_t* p = outbox.grow(ACK_OCTETS)
    p[0] = AMQP091_FRAME_METHOD
    store_u16(p + 1, channel)
    store_u32(p + 3, ACK_OCTETS - AMQP091_OVERHEAD)
    store_u16(p + 7, AMQP091_CLASS_BASIC)
    store_u16(p + 9, 80)
    store_u64(p + 11, tag)
    p[19] = multiple
    p[20] = AMQP091_FRAME_END
    return 0


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


# ------------------------------------------------------------------------------------------------ numbers that wait

cdef int compare_tags(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0], y = (<const uint64_t*>b)[0]
    return (x > y) - (x < y)


@cython.final
@cython.no_gc_clear
cdef class Tags:
    """Numbers that wait to be settled, each with a record, and numbers settled positively whose basic.ack is not written.

    Numbers are added in ascending order, which need not be without gaps. Memory is that of the numbers that wait, up to a
    factor.
    """
    cdef uint64_t* tags         # of `records`
    cdef list records           # SETTLED: taken out
    cdef Py_ssize_t first       # the first one that waits, or the end
    cdef Py_ssize_t count       # of those that wait
    cdef Py_ssize_t room
    cdef uint64_t* noted        # settled, and the ack is not written
    cdef Py_ssize_t noted_count, noted_room

    def __init__(self):
        self.records = []

    def __dealloc__(self):
        free(self.tags)
        free(self.noted)

    def __len__(self):
        """How many wait."""
        return self.count

    def __contains__(self, tag):
        cdef uint64_t number = 0
        return is_tag(tag, &number) and self.find(number) >= 0

    def add(self, tag, record):
        """Add a number. Raises ValueError if it is not above all that wait or have waited just before."""
        cdef uint64_t number = tag
        cdef Py_ssize_t end = PyList_GET_SIZE(self.records)
        if end and number <= self.tags[end - 1]:
            raise ValueError(f"{number} is not above {self.tags[end - 1]}")
        self.put(number, record)

    def get(self, tag):
        """The record of a number; None: it does not wait."""
        cdef uint64_t number = 0
        cdef Py_ssize_t i = self.find(number) if is_tag(tag, &number) else -1
        return None if i < 0 else self.records[i]

    def pop(self, tag):
        """Settle a number and return its record. Raises KeyError if it does not wait."""
        cdef uint64_t number = 0
        cdef Py_ssize_t i = self.find(number) if is_tag(tag, &number) else -1
        if i < 0:
            raise KeyError(tag)
        return self.take(i)

    def settle_up_to(self, tag):
        """Settle all numbers up to and including this one; return their records in order."""
        cdef uint64_t number = tag
        return self.settle(number)

    def values(self):
        """The records of the numbers that wait, in order."""
        return [record for record in self.records if record is not SETTLED]

    def clear(self):
        """Forget all numbers."""
        self.noted_count = 0
        self.release()

    def note(self, tag):
        """A basic.ack of this number is to be written."""
        cdef uint64_t number = tag
        self.note_ack(number)

    # ---- for the connection

    cdef int put(self, uint64_t tag, object record) except -1:
        """Add a number that is above all others."""
        if PyList_GET_SIZE(self.records) == self.room:
            self.make_room()
        self.records.append(record)
        self.tags[PyList_GET_SIZE(self.records) - 1] = tag
        self.count += 1
        return 0

    cdef Py_ssize_t find(self, uint64_t tag) noexcept:
        """Where a number is that waits; negative: it does not wait."""
        cdef Py_ssize_t low = self.first, high = PyList_GET_SIZE(self.records), middle
        if low >= high or tag < self.tags[low] or tag > self.tags[high - 1]:
            return -1
        if tag - self.tags[low] < <uint64_t>(high - low) and self.tags[low + <Py_ssize_t>(tag - self.tags[low])] == tag:
            low += <Py_ssize_t>(tag - self.tags[low])       # the usual case: no gaps
        else:
            while high - low > 1:
                middle = (low + high) >> 1
                if self.tags[middle] <= tag:
                    low = middle
                else:
                    high = middle
            if self.tags[low] != tag:
                return -1
        return low if <PyObject*>self.records[low] != <PyObject*>SETTLED else -1

    cdef object take(self, Py_ssize_t i):
        """Settle the number at this place; its record."""
        record = self.records[i]
        self.records[i] = SETTLED
        self.count -= 1
        if i == self.first:
            self.skip()
        return record

    cdef list settle(self, uint64_t tag):
        """Settle all numbers up to this one; their records."""
        cdef list settled = []
        cdef Py_ssize_t i = self.first, end = PyList_GET_SIZE(self.records)
        while i < end and self.tags[i] <= tag:
            record = self.records[i]
            if record is not SETTLED:
                settled.append(record)
                self.records[i] = SETTLED
                self.count -= 1
            i += 1
        self.first = i
        self.skip()
        return settled

    cdef int skip(self) except -1:
        """Move `first` on to a number that waits."""
        cdef Py_ssize_t end = PyList_GET_SIZE(self.records)
        while self.first < end and <PyObject*>self.records[self.first] == <PyObject*>SETTLED:
            self.first += 1
        if self.count == 0 and self.room > TAGS_KEPT:
            self.release()
        return 0

    cdef int release(self) except -1:
        """Drop all numbers, and the memory."""
        cdef list records = self.records
        self.records = []
        self.first = self.count = self.room = 0
        free(self.tags)
        self.tags = NULL
        records.clear()         # the last, since it may end objects
        return 0

    cdef int make_room(self) except -1:
        """Close the gaps if half of the numbers are settled, else make room for twice as many."""
        cdef Py_ssize_t end = PyList_GET_SIZE(self.records), at = 0, i, room
        cdef uint64_t* bigger
        if end > 0 and self.count <= end >> 1:
            for i in range(self.first, end):
                record = self.records[i]
                if record is not SETTLED:
                    self.records[i] = SETTLED
                    self.records[at] = record
                    self.tags[at] = self.tags[i]
                    at += 1
            self.first = 0
            del self.records[at:]
            return 0
        room = max(2 * self.room, <Py_ssize_t>TAGS_ROOM)
        bigger = <uint64_t*>realloc(self.tags, <size_t>room * sizeof(uint64_t))
        if bigger == NULL:
            raise MemoryError
        self.tags = bigger
        self.room = room
        return 0

    cdef int note_ack(self, uint64_t tag) except -1:
        cdef Py_ssize_t room
        cdef uint64_t* bigger
        if self.noted_count == self.noted_room:
            room = max(2 * self.noted_room, <Py_ssize_t>TAGS_ROOM)
            bigger = <uint64_t*>realloc(self.noted, <size_t>room * sizeof(uint64_t))
            if bigger == NULL:
                raise MemoryError
            self.noted = bigger
            self.noted_room = room
        self.noted[self.noted_count] = tag
        self.noted_count += 1
        return 0

    cdef int write(self, Outbox outbox, uint16_t channel) except -1:
        """Queue acks for the numbers noted: one with `multiple` for all below the smallest number that waits, and one for each
        other number."""
        cdef Py_ssize_t i, together = self.noted_count
        cdef bint sorted_ = True
        if together == 0:
            return 0
        for i in range(1, together):
            if self.noted[i] < self.noted[i - 1]:
                sorted_ = False
                break
        if not sorted_:
            qsort(self.noted, <size_t>together, sizeof(uint64_t), compare_tags)
        if together > 1 and self.count:
            while together and self.noted[together - 1] > self.tags[self.first]:
                together -= 1
        if together:
            put_ack(outbox, channel, self.noted[together - 1], together > 1)
        for i in range(together, self.noted_count):
            put_ack(outbox, channel, self.noted[i], False)
        self.noted_count = 0
        if self.noted_room > TAGS_KEPT:
            free(self.noted)
            self.noted = NULL
            self.noted_room = 0
        return 0


cdef bint is_tag(object value, uint64_t* number) except -1:
    """Is this a number of 64 bits?"""
    try:
        number[0] = value
    except (OverflowError, TypeError):
        return False
    return True


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
        returned: the basic.return that has come for it, or None.
    """
    cdef readonly uint64_t number
    cdef readonly uint64_t tag
    cdef readonly uint16_t channel
    cdef uint32_t frame_max
    cdef Frame method
    cdef BasicProperties properties
    cdef bytes body
    cdef BasicMessage message_      # once asked for, or given
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
    """Messages that wait for their confirms. `Session` is derived from it.

    Attributes:
        outgoing: publications by number, in the order of sending.
        journaled: True: `changes` has something to say.
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

cdef class Flows:
    """What both roles of a connection do for every message. `Endpoint` is derived from it.

    Attributes:
        channels: by number: all that are open, and those that wait for open-ok or close-ok.
        frame_max: bytes of a frame that we send at most; 0: no limit.
        blocked: True while the server has blocked the connection (RabbitMQ).
    """
    cdef Outbox outbox
    cdef readonly dict channels
    cdef public uint32_t frame_max
    cdef public bint blocked
    cdef public bint _up                    # the connection is open
    cdef public bint _reading
    cdef public int64_t _undecided
    cdef readonly list _marked              # channels with acks to write
    cdef public Py_ssize_t _at              # the message that _flow took last
    cdef uint64_t number                    # of the last handle
    cdef int64_t most_pending, most_message, most_unconfirmed, most_unacknowledged
    cdef object opened                      # ChannelState.OPEN
    cdef type confirmed, settled            # the classes of events
    cdef SessionFlows session_              # of a client

    def __init__(self, *_, **__):
        self.outbox = Outbox()
        self.channels = {}
        self._marked = []
        self.confirmed = self.settled = object

    @property
    def _outbox(self):
        return self.outbox

    @_outbox.setter
    def _outbox(self, Outbox outbox not None):
        self.outbox = outbox

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

    def _flush(self):
        """Write the acks that have been noted."""
        cdef list marked
        cdef ChannelFlows channel
        if self._marked:
            marked = self._marked
            self._marked = []
            for channel in marked:
                channel.marked = False
                channel.flush()

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
            if not channel.open_:
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
        changed then."""
        cdef Outbox outbox = self.outbox
        cdef uint64_t size = <uint64_t>PyBytes_GET_SIZE(body), at = 0, piece
        cdef uint64_t most = (self.frame_max if self.frame_max else AMQP091_FRAME_TOP) - AMQP091_OVERHEAD
        cdef size_t header = AMQP091_OVERHEAD + 12 + <size_t>properties.p.size
        cdef uint64_t total = method_size + header + size + AMQP091_OVERHEAD * ((size + most - 1) // most)
        cdef int64_t pending = outbox.position - outbox.taken
        cdef uint8_t* p
        cdef bytes octets
        if header > most + AMQP091_OVERHEAD:
            raise LocalProtocolError(f"the content header has {header} bytes, a frame has at most {self.frame_max}")
        if pending and pending + <int64_t>total > self.most_pending:
            raise LocalProtocolError(f"{pending} bytes are queued and not taken", reply=REPLY_RESOURCE)
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
    """What a connection of a server does for every message besides. `ServerConnection` is derived from it."""

    def acknowledge(self, event):
        """Confirm a message that was published in confirm mode: basic.ack. Confirms of one turn are written together.

        Returns events of bytes that were waiting. Raises LocalProtocolError if the event does not wait for it.
        """
        cdef ChannelFlows channel
        cdef BasicMessage message
        if not self._up:
            self._check_open()
        if type(event) is not BasicMessage:
            raise LocalProtocolError("this event has no confirm")
        message = <BasicMessage>event
        channel = self.open_channel_of(message.method_.channel_)
        if channel is None:
            return []
        channel._tags.take(channel.place_of(message))
        self._undecided -= 1
        channel.settle(message.number)
        return [] if self._reading else self._go_on()


cdef class ChannelFlows:
    """What channels of both roles do for every message. `Channel` is derived from it.

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
        """A message has come. False: it is not a frequent one."""
        return False

    cdef int take_ack(self, Method message, int kind, list events) except -1:
        """A basic.ack, nack or reject has come. kind: see AckKind."""
        return 0

    def _on_ack(self, BasicAck message not None, list events not None):
        """A basic.ack has come."""
        self.take_ack(message, BY_ACK, events)

    def _on_nack(self, BasicNack message not None, list events not None):
        """A basic.nack has come."""
        self.take_ack(message, BY_NACK, events)

    def _on_reject(self, BasicReject message not None, list events not None):
        """A basic.reject has come."""
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
            self._tags.write(self.flows.outbox, self.number)
        return 0

    def _flush(self):
        """Write the acks that have been noted."""
        self.flush()

    def _put_content(self, Method method not None, BasicProperties properties, body):
        """Queue a method with its content. Raises LocalProtocolError; nothing has changed then."""
        cdef Frame frame = method
        self.flows.put_content(frame.frame, frame.size, self.number, NO_PROPERTIES if properties is None else properties,
                               body_octets(body))

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


# ------------------------------------------------------------------------------------------------ a client

cdef class ClientChannelFlows(ChannelFlows):
    """What a channel of a client does for every message. `ClientChannel` is derived from it."""
    cdef readonly Tags _unconfirmed         # publications
    cdef readonly Tags _mandatory           # those of them that may still be returned
    cdef public uint64_t _next_tag          # of confirms: the last one
    cdef public uint64_t _last_delivery
    cdef public bint _full                  # a publish was refused
    cdef readonly dict _leaving             # consumers cancelled without a reply: deliveries may still come
    cdef public int64_t _recovering         # calls of recover: what comes before recover-ok is delivered again
    cdef BasicPublish method                # the last one, with the values it was made of
    cdef object exchange, routing_key
    cdef bint mandatory

    cdef int begin(self) except -1:
        self._unconfirmed = Tags()
        self._mandatory = Tags()
        self._leaving = {}
        return 0

    # ---- publishing

    def publish(self, exchange="", routing_key="", body=b"", properties=None, *, mandatory=False):
        """Publish a message: basic.publish.

        Returns its handle in confirm mode, otherwise None.

        Raises LocalProtocolError: the server has blocked the connection or stopped the flow (`WindowOpened` follows), too many
        publishes are unconfirmed (the same), too many bytes are queued, or the channel is not open.
        """
        cdef bint returns = mandatory
        if self.method is None or returns != self.mandatory or \
                not PyObject_RichCompareBool(routing_key, self.routing_key, Py_EQ) or \
                not PyObject_RichCompareBool(exchange, self.exchange, Py_EQ):
            self.make_method(exchange, routing_key, returns)
        return self.send_content(self.method, properties_of(properties), body_octets(body), returns)

    cdef int make_method(self, object exchange, object routing_key, bint mandatory) except -1:
        cdef PyObject* values[5]
        cdef object flag = mandatory
        values[:] = [<PyObject*>ZERO, <PyObject*>exchange, <PyObject*>routing_key, <PyObject*>flag, <PyObject*>NOT_SET]
        self.method = <BasicPublish>built(BasicPublish.__new__(BasicPublish), AMQP091_BASIC_PUBLISH, self.number, values)
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        return 0

    def _publish(self, BasicMessage message not None):
        """Publish a message with basic.publish: see `publish`."""
        cdef Publication publication = self.send_content(
            message.method_, message.properties, body_of(message), message.method.mandatory)
        if publication is not None:
            publication.message_ = message
        return publication

    def _check_publish(self):
        """May a message be published now?"""
        if not self.open_ or not self.flows._up:
            self._check("basic.publish")
        if not self.active or self.flows.blocked:
            self._full = True
            raise LocalProtocolError("the server takes no content now: wait for WindowOpened (1.5.2.3, RabbitMQ)")
        if self.confirming and self._unconfirmed.count >= self.flows.most_unconfirmed:
            self._full = True
            raise LocalProtocolError("too many publishes wait for their confirms: wait for WindowOpened")

    cdef Publication send_content(self, Frame method, BasicProperties properties, bytes body, bint mandatory):
        cdef Flows flows = self.flows
        cdef Publication publication
        if not self.open_ or not flows._up or not self.active or flows.blocked or \
                (self.confirming and self._unconfirmed.count >= flows.most_unconfirmed):
            self._check_publish()
        if not self.confirming:
            if self.mode_ == "tx":
                self.flush()                # the acks before it are of the transaction
            flows.put_content(method.frame, method.size, self.number, properties, body)
            return None
        if flows.session_ is None:
            raise LocalProtocolError("the connection has no session")
        flows.put_content(method.frame, method.size, self.number, properties, body)
        publication = flows.session_.remember(method, properties, body, flows.frame_max, self.number, self._next_tag + 1)
        self._unconfirmed.put(publication.tag, publication)
        if mandatory:
            self._mandatory.put(publication.tag, publication)
        self._next_tag += 1
        return publication

    def _send_again(self, Publication publication not None, Method method not None):
        """Publish a message of another channel once more, with this method."""
        cdef Frame frame = method
        cdef BasicMessage message = content_of(method, publication.properties, publication.body, self.flows.frame_max)
        self.flows.put_content(frame.frame, frame.size, self.number, publication.properties, publication.body)
        self._next_tag += 1
        publication.channel = self.number
        publication.tag = self._next_tag
        publication.set_message(message)
        publication.returned_ = None
        self._unconfirmed.put(publication.tag, publication)
        if frame.frame[frame.value[PUBLISH_BITS]] & MANDATORY:
            self._mandatory.put(publication.tag, publication)

    cdef int take_ack(self, Method message, int kind, list events) except -1:
        """A confirm."""
        cdef SessionFlows session = self.flows.session_
        cdef uint64_t tag = tag_of(message)
        cdef Publication publication
        cdef list handles
        cdef Py_ssize_t i
        if bits_of(message) & 1:
            handles = self._unconfirmed.settle(tag if tag else self._next_tag)      # 0: all (1.8.3.13)
        else:
            i = self._unconfirmed.find(tag)
            handles = [] if i < 0 else [self._unconfirmed.take(i)]
        if not handles:
            self.connection.strays += 1
            return 0
        for publication in handles:
            session.drop(publication)
            if self._mandatory.count:
                i = self._mandatory.find(publication.tag)
                if i >= 0:
                    self._mandatory.take(i)
        event = bare_event(self.flows.confirmed)
        set_slot(event, CHANNEL, self.number)
        set_slot(event, HANDLES, handles)
        set_slot(event, ACCEPTED, kind == BY_ACK)
        set_slot(event, MESSAGE, message)
        events.append(event)
        if self._full:
            self._window(events)
        return 0

    # ---- consuming

    cdef bint take_content(self, BasicMessage message, list events) except -1:
        cdef Frame method = message.method_
        cdef PyObject* found
        cdef const uint8_t* p
        cdef uint64_t tag
        if method.method_ != AMQP091_BASIC_DELIVER:
            return False
        tag = load_u64(method.frame + method.value[DELIVER_TAG])
        self.check_tag(tag)
        p = method.frame + method.value[DELIVER_CONSUMER]
        name = text_or_octets(p + 1, p[0])
        found = PyDict_GetItemWithError(self.consumers, name)
        if found == NULL:
            found = PyDict_GetItemWithError(self._leaving, name)
        if found == NULL or type(<object>found) is not Consumer:
            raise RemoteProtocolError(
                f"a delivery for consumer-tag {name!r}, which the channel does not have (1.8.3.9)",
                reply=REPLY_COMMAND_INVALID)
        self._last_delivery = tag
        if not (<Consumer><object>found).no_ack and not self._recovering:
            self._tags.put(tag, None)
        events.append(message)
        return True

    cdef int check_tag(self, uint64_t tag) except -1:
        if tag <= self._last_delivery:
            raise RemoteProtocolError(
                f"delivery-tag {tag} after {self._last_delivery}: tags rise (1.8.3.9)", reply=REPLY_COMMAND_INVALID)
        return 0

    def _take_tag(self, tag, no_ack):
        """A basic.get-ok has come with this delivery-tag."""
        cdef uint64_t number = tag
        self.check_tag(number)
        self._last_delivery = number
        if not no_ack:
            self._tags.put(number, None)

    def ack(self, delivery_tag, multiple=False):
        """Acknowledge a delivery, or with `multiple` all up to it (tag 0: all). Acks of one turn are written together.

        Returns events of bytes that were waiting. Raises LocalProtocolError if the delivery does not wait for it.
        """
        cdef Flows flows = self.flows
        cdef uint64_t tag = 0
        cdef Py_ssize_t i
        if not flows._up:
            self._check("basic.ack")
        if not multiple:
            i = self._tags.find(tag) if is_tag(delivery_tag, &tag) else -1
            if i < 0:
                self._not_waiting(delivery_tag)
            self._tags.take(i)
            self.settle(tag)
        else:
            self._check("basic.ack")
            if not self._take(delivery_tag):
                return []
            put_ack(flows.outbox, self.number, delivery_tag, True)
        return [] if flows._reading else flows._go_on()


# ------------------------------------------------------------------------------------------------ a server

cdef class ServerChannelFlows(ChannelFlows):
    """What a channel of a server does for every message. `ServerChannel` is derived from it.

    Attributes:
        prefetch: basic.qos for consumers started later; 0: no limit.
        shared_prefetch: basic.qos with global: deliveries of all consumers together; 0: no limit.
    """
    cdef public int64_t prefetch, shared_prefetch
    cdef readonly Tags _deliveries
    cdef readonly uint64_t _next_delivery   # the last one
    cdef public int64_t _shared_used
    cdef public int64_t _transacted         # deliveries that the transaction has settled
    cdef uint64_t published                 # in confirm mode

    cdef int begin(self) except -1:
        self._deliveries = Tags()
        return 0

    # ---- publishes

    cdef bint take_content(self, BasicMessage message, list events) except -1:
        cdef Frame method = message.method_
        if method.method_ != AMQP091_BASIC_PUBLISH:
            raise RemoteProtocolError("only a server sends this method (2.2.4)", reply=REPLY_COMMAND_INVALID)
        if method.frame[method.value[PUBLISH_BITS]] & IMMEDIATE:
            raise RemoteProtocolError("immediate=true", reply=REPLY_NOT_IMPLEMENTED)
        if message.size > <uint64_t>self.flows.most_message:
            raise RemoteProtocolError(
                f"message size {message.size} is larger than configured max size {self.flows.most_message}",
                reply=REPLY_PRECONDITION)
        if self.confirming:
            self._tags.put(self.published + 1, message)
            self.published += 1
            message.number = self.published
            self.flows._undecided += 1
        events.append(message)
        return True

    def _waits(self, event):
        """Does this message wait for its confirm?"""
        cdef Py_ssize_t i
        if type(event) is not BasicMessage:
            return False
        i = self._tags.find((<BasicMessage>event).number)
        return i >= 0 and self._tags.records[i] is event

    def _take_confirm(self, event):
        """Settle a message that waits for its confirm; its number. Acks noted before are written first: their `multiple` must
        not include it."""
        cdef Py_ssize_t i
        if type(event) is not BasicMessage:
            raise LocalProtocolError("this message does not wait for a confirm")
        i = self.place_of(<BasicMessage>event)
        self.flush()
        self._tags.take(i)
        self.flows._undecided -= 1
        return (<BasicMessage>event).number

    # ---- deliveries

    def room(self, consumer_tag):
        """How many deliveries a consumer may have now."""
        cdef PyObject* found = PyDict_GetItemWithError(self.consumers, consumer_tag)
        if found == NULL or type(<object>found) is not Consumer or not self.open_:
            return 0
        return self.room_of(<Consumer><object>found)

    cdef int64_t room_of(self, Consumer consumer) noexcept:
        cdef int64_t room = self.flows.most_unacknowledged
        if not self.active:
            return 0
        if consumer.no_ack:
            return room
        room -= self._deliveries.count + self._transacted
        if consumer.prefetch:
            room = min(room, consumer.prefetch - consumer.unacknowledged)
        if self.shared_prefetch:
            room = min(room, self.shared_prefetch - self._shared_used)
        return max(room, 0)

    def deliver(self, consumer_tag, exchange, routing_key, body=b"", properties=None, *, redelivered=False, context=None):
        """Deliver a message to a consumer: basic.deliver.

        Returns its handle, which `Settled` names; None if the consumer does not acknowledge.

        Raises LocalProtocolError: there is no such consumer, its window is closed (`room`), or too many bytes are queued.
        """
        cdef Flows flows = self.flows
        cdef Consumer consumer
        cdef bint again = redelivered
        cdef uint8_t* p
        cdef PyObject* found
        if not self.open_ or not flows._up:
            self._check("basic.deliver")
        found = PyDict_GetItemWithError(self.consumers, consumer_tag)
        if found == NULL or type(<object>found) is not Consumer:
            raise LocalProtocolError(f"the channel has no consumer {consumer_tag!r}")
        consumer = <Consumer><object>found
        if not self.room_of(consumer):
            raise LocalProtocolError(f"the window of consumer {consumer_tag!r} is closed")
        if consumer.head is None or not PyObject_RichCompareBool(routing_key, consumer.routing_key, Py_EQ) or \
                not PyObject_RichCompareBool(exchange, consumer.exchange, Py_EQ):
            self.make_head(consumer, exchange, routing_key)
        p = <uint8_t*>PyBytes_AS_STRING(consumer.head)
        store_u64(p + consumer.head_tag, self._next_delivery + 1)
        p[consumer.head_redelivered] = again
        flows.put_content(p, <size_t>PyBytes_GET_SIZE(consumer.head), self.number, properties_of(properties),
                          body_octets(body))
        return self.delivered(None if consumer.no_ack else consumer, context, consumer.no_ack)

    cdef int make_head(self, Consumer consumer, object exchange, object routing_key) except -1:
        cdef PyObject* values[5]
        cdef Method method = BasicDeliver.__new__(BasicDeliver)
        values[:] = [<PyObject*>consumer.tag, <PyObject*>ZERO, <PyObject*>NOT_SET, <PyObject*>exchange,
                     <PyObject*>routing_key]
        built(method, AMQP091_BASIC_DELIVER, self.number, values)
        consumer.head = method.block        # of nobody else: the method goes
        consumer.head_tag = method.value[DELIVER_TAG]
        consumer.head_redelivered = method.value[DELIVER_REDELIVERED]
        consumer.exchange = exchange
        consumer.routing_key = routing_key
        return 0

    cdef Delivery delivered(self, Consumer consumer, object context, bint no_ack):
        """A message has been sent, with the next number."""
        cdef Delivery delivery
        self._next_delivery += 1
        if no_ack:
            return None
        delivery = Delivery.__new__(Delivery)
        self.flows.number += 1
        delivery.number = self.flows.number
        delivery.channel = self.number
        delivery.tag = self._next_delivery
        delivery.consumer = consumer
        delivery.context = context
        self._deliveries.put(delivery.tag, delivery)
        if consumer is not None:
            consumer.unacknowledged += 1
            self._shared_used += 1
        return delivery

    def _delivered(self, context, no_ack):
        """A basic.get-ok has been sent: its handle; None if it is not acknowledged."""
        return self.delivered(None, context, no_ack)

    # ---- settlements

    cdef int take_ack(self, Method message, int kind, list events) except -1:
        cdef uint64_t tag = tag_of(message)
        cdef uint8_t bits = bits_of(message)
        cdef list deliveries
        cdef Py_ssize_t i = -1
        cdef str outcome = "ack"
        if kind == BY_NACK:
            outcome = "requeue" if bits & 2 else "discard"
        elif kind == BY_REJECT:
            outcome = "requeue" if bits & 1 else "discard"
        if tag or kind == BY_REJECT or not bits & 1:
            i = self._deliveries.find(tag)
            if i < 0:
                raise RemoteProtocolError(f"unknown delivery tag {tag}", reply=REPLY_PRECONDITION)
        if kind != BY_REJECT and bits & 1:
            deliveries = self._deliveries.settle(tag if tag else self._next_delivery)   # 0: all (1.8.3.13)
        else:
            deliveries = [self._deliveries.take(i)]
        if not deliveries:
            return 0
        if self.mode_ == "tx":
            self._in_tx(deliveries, outcome, message)
            return 0
        self.release(deliveries)
        event = bare_event(self.flows.settled)
        set_slot(event, CHANNEL, self.number)
        set_slot(event, DELIVERIES, deliveries)
        set_slot(event, OUTCOME, outcome)
        set_slot(event, MESSAGE, message)
        events.append(event)
        return 0

    cdef int release(self, list deliveries) except -1:
        cdef Delivery delivery
        for delivery in deliveries:
            if delivery.consumer is not None:
                delivery.consumer.unacknowledged -= 1
                self._shared_used -= 1
        return 0

    def _release(self, list deliveries not None):
        """Deliveries are finished: they count no more for the windows."""
        self.release(deliveries)

    def _restore(self, list deliveries not None):
        """Deliveries of a transaction that is undone wait again."""
        cdef Delivery delivery
        cdef list waiting = self._deliveries.values()
        waiting += deliveries
        waiting.sort(key=number_of_delivery)
        self._deliveries.clear()
        for delivery in waiting:
            self._deliveries.put(delivery.tag, delivery)


def number_of_delivery(Delivery delivery not None):
    """The order of deliveries."""
    return delivery.tag
