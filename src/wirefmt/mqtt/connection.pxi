# The part of a connection that runs for every message: the state of its QoS flows, and the frequent changes of it.
#
# The classes of wirefmt/mqtt/{endpoint,receiving,sending,client_connection,server_connection}.py are derived from `Flows` and
# do everything that is rare. What they use of it is in the stub, with its meaning.
# Packet identifiers, windows and the order of answers are decided here alone. What needs a look at the text, the properties or
# the options of a packet is decided there; a method here that meets such a packet has changed nothing.
# Sections are those of MQTT 5.0.
from cpython.dict cimport PyDict_Size
from cpython.object cimport PyTypeObject

from collections import deque


cdef extern from "Python.h":
    int set_slot "PyObject_GenericSetAttr"(object of, object name, object value) except -1


cdef enum:
    PUBACK_FIRST = 0x40         # first octets of acknowledgements
    PUBREC_FIRST = 0x50


cdef str HANDLE = intern("handle"), MESSAGE = intern("message"), CODE = intern("code")
cdef tuple NO_ARGUMENTS = ()
cdef object SUCCESS_CODE = 0                # small integers are one object


cdef inline bint is_empty(object properties):
    return PyTuple_CheckExact(properties) and PyTuple_GET_SIZE(properties) == 0


# ------------------------------------------------------------------------------------------------ a message that goes on

cdef enum:
    ONWARD_IDENTIFIERS = 8      # Subscription Identifiers that a message gets at most without an object
    ONWARD_CAPACITY = 5 * (ONWARD_IDENTIFIERS + 1)


cdef struct Onward:             # its properties
    Span before, after          # those that it has, around its Message Expiry Interval
    uint8_t[ONWARD_CAPACITY] more   # those that the host adds
    size_t more_size


cdef bint put_onward(Onward* out, Publish message, object expiry, tuple identifiers) except -1:
    """False: they need an object."""
    cdef const uint8_t* at = message.properties_span.at
    cdef const uint8_t* next
    cdef MqttProperty v
    cdef uint32_t i, number
    if message.property_count:
        if message.noted:
            return False                    # LAX has accepted what must not be sent
        out.before = message.properties_span
        for i in range(message.property_count):
            next = mqtt_next_property(at, &v)
            if v.identifier == MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL:
                out.before.size = <uint32_t>(at - out.before.at)
                out.after.at = next
                out.after.size = <uint32_t>(message.properties_span.at + message.properties_span.size - next)
            elif v.identifier == MQTT_PROPERTY_TOPIC_ALIAS or v.identifier == MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER:
                return False                # of the connection that it came by
            at = next
    if expiry is not None:
        out.more[0] = MQTT_PROPERTY_MESSAGE_EXPIRY_INTERVAL
        store_u32(out.more + 1, <uint32_t>expiry)
        out.more_size = 5
    if PyTuple_GET_SIZE(identifiers) > ONWARD_IDENTIFIERS:
        return False
    for each in identifiers:
        number = each
        if not 0 < number <= VARINT_MAX:
            return False
        out.more[out.more_size] = MQTT_PROPERTY_SUBSCRIPTION_IDENTIFIER
        out.more_size += 1 + store_varint(out.more + out.more_size + 1, number)
    return True


cdef inline uint8_t* append(uint8_t* p, const uint8_t* from_, size_t size) noexcept:
    if size:
        memcpy(p, from_, size)
    return p + size


# ------------------------------------------------------------------------------------------------ a connection

cdef class Flows(EndpointFlows):
    """The QoS flows of one connection. `Endpoint` is derived from it.

    It calls these methods of the derived classes: `_look_at_opening` with bytes before the handshake is complete, `_room` for the
    messages that may be read until then, `_publish` and `_acknowledge` with what is not plain, `_go_on` after an answer,
    `_stray` for a PUBACK of nothing outstanding, `_send_again` when a place in the window is free, `_wrong_kind` and `_too_many`
    for the errors of what breaks a rule, `_forget_copies` when a message of QoS 2 is refused.

    Attributes:
        bytes_in, packets_in, packets_out, publishes_in, publishes_out: what has been received, and queued for the peer.
        payload_in, payload_out: bytes of the payloads of these PUBLISHes.
    """
    cdef readonly Arrivals _arrivals
    cdef readonly set _releasing
    cdef readonly Window _quota             # for what we send
    cdef readonly object _replay            # a deque
    cdef readonly dict _asked               # SUBSCRIBE and UNSUBSCRIBE of the peer that wait for the host, by packet identifier
    cdef SessionFlows session_
    cdef type acknowledged, window_opened   # the classes of events
    cdef int version_                       # 0: not known
    cdef int64_t most_pending, receive_maximum, most_outgoing, most_undecided
    cdef int64_t largest                    # octets of a packet that the peer accepts
    cdef bint automatic, released, counted
    cdef bint looks                         # our PUBLISH: what the peer does not take must be looked for
    cdef bint aliased                       # we may set topic aliases
    cdef public bint _up, _window_closed, _restricted
    cdef int pongs                          # PINGRESPs that leave after the answers of this turn
    cdef public int64_t bytes_in, packets_in, packets_out, publishes_in, publishes_out, payload_in, payload_out
    cdef bytes closing                      # the last packet, or b"", after them; None: answers of the host leave no more

    def __init__(self, *_, **__):
        self._arrivals = Arrivals()
        self._releasing = set()
        self._quota = Window(65535)
        self.acknowledged = self.window_opened = object
        self._replay = deque()
        self._asked = {}

    def _configure(self, options, type acknowledged not None, type window_opened not None):
        """options: ConnectionOptions; the others: the classes of events."""
        self.most_pending = options.pending_bytes
        self.most_outgoing = options.outgoing_bytes
        self.receive_maximum = options.receive_maximum
        self.most_undecided = options.undecided
        self.automatic = options.automatic
        self.released = options.qos2_event == "release"
        self.counted = options.copies != 0
        self._restricted = not options.control_characters
        self.acknowledged = acknowledged
        self.window_opened = window_opened

    def _keep_to(self, receive_maximum, largest, bint aliased, bint looks):
        """Keep to what the peer has announced.

        largest: bytes of a packet that it takes; aliased: we may set topic aliases; looks: it does not take every QoS, or does
        not retain, so that each of our PUBLISHes goes to `_publish`.
        """
        self._quota = Window(receive_maximum)
        self.largest = largest
        self.aliased = aliased
        self.looks = looks

    @property
    def version(self):
        return self.version_ if self.version_ else None

    @version.setter
    def version(self, value):
        self.version_ = 0 if value is None else value

    @property
    def _session(self):
        return self.session_

    @_session.setter
    def _session(self, SessionFlows session):
        self.session_ = session

    # ---- out

    def publish(self, topic_name, payload=b"", *, qos=0, retain=False, properties=()):
        """Make and send a PUBLISH: see `send`."""
        cdef Py_ssize_t size = 0
        cdef const uint8_t* topic
        cdef Onward none
        if PyBytes_CheckExact(payload) and PyLong_CheckExact(qos) and is_empty(properties) and \
                (retain is False or retain is True):
            topic = ascii_octets(<PyObject*>topic_name, &size)
            if topic != NULL and 0 <= qos <= 2:
                none.before.size = none.after.size = none.more_size = 0
                handle = self.send_plain(topic, <size_t>size, &none, <bytes>payload,
                                         <const uint8_t*>PyBytes_AS_STRING(payload), <size_t>PyBytes_GET_SIZE(payload),
                                         qos, retain is True, True)
                if handle is not NotImplemented:
                    return handle
        return self._publish(topic_name, payload, qos, retain, properties)

    cdef int gather(self) except -1:
        """Queue what comes after the host's answers to the packets read so far."""
        if self.pongs:
            self._outbox.put(b"\xd0\x00" * self.pongs)
            self.packets_out += self.pongs
            self.pongs = 0
        if self.closing is not None:
            self._outbox.put(self.closing)
            self.packets_out += self.closing != b""
            self.closing = None
        return 0

    cdef int64_t gathered(self) except -1:
        return 2 * self.pongs + (0 if self.closing is None else PyBytes_GET_SIZE(self.closing))

    def _pong_last(self):
        """A PINGRESP leaves after what the host answers in this turn."""
        self.pongs += 1

    def _end_last(self, bytes packet not None=b""):
        """The connection ends. What the host answers in this turn leaves, then this packet."""
        self.closing = packet

    @property
    def _answers_leave(self):
        """True: the connection has ended, and what the host answers still leaves: see `_end_last`."""
        return self.closing is not None

    def forward(self, Publish message not None, qos, int64_t most=-1, bint retain=False, expiry=None, tuple identifiers=()):
        """Send a message that another connection has received, or that the host keeps, with this QoS and RETAIN, without making a
        packet object. Its properties go on as they are on the wire, in 5.0; what the host says is in place of its own Message
        Expiry Interval. Returns what `publish` returns. NotImplemented: nothing has changed, and the message must be sent by
        `publish` (the window is closed, a limit applies, or we set topic aliases).

        most: bytes that may be queued already; negative: the limit of the connection.
        expiry: Message Expiry Interval, in seconds; None: the message has none.
        identifiers: Subscription Identifiers that follow its properties.
        """
        cdef Onward properties
        properties.before.size = properties.after.size = properties.more_size = 0
        if message.topic.size == 0 or not 0 <= qos <= 2:
            return NotImplemented
        if 0 <= most < self._outbox.position - self._outbox.taken:
            return NotImplemented
        if self.version_ == 5 and not put_onward(&properties, message, expiry, identifiers):
            return NotImplemented
        return self.send_plain(message.topic.at, message.topic.size, &properties, message.block, message.payload_span.at,
                               message.payload_span.size, qos, retain, message.noted)

    cdef object send_plain(self, const uint8_t* topic, size_t topic_size, const Onward* properties, bytes block,
                           const uint8_t* payload, size_t payload_size, int qos, bint retain, bint look):
        """Send a PUBLISH. Returns the Delivery, None for QoS 0; NotImplemented: a rare case, nothing has changed.

        properties: empty before 5.0. block: has the payload, which is queued in place if it is large and most of the block.
        look: the topic has not been checked.
        """
        cdef Outbox outbox = self._outbox
        cdef SessionFlows session = self.session_
        cdef size_t area = properties.before.size + properties.after.size + properties.more_size
        cdef size_t length = <size_t>varint_size(<uint32_t>area) if self.version_ == 5 else 0
        cdef size_t remaining = 2 + topic_size + (2 if qos else 0) + length + area + payload_size
        cdef size_t size = 1 + <size_t>varint_size(<uint32_t>min(remaining, <size_t>VARINT_MAX)) + remaining
        cdef size_t head_size = size if size < KEEP_FROM else size - payload_size
        cdef int first = MQTT_PUBLISH << 4 | qos << 1 | retain
        cdef bytes head
        cdef uint8_t* p
        cdef Delivery delivery = None
        cdef object tail = b""
        if not self._up or session is None or self.looks or self.aliased or topic_size > 0xFFFF or <int64_t>size > self.largest:
            return NotImplemented
        if outbox.position != outbox.taken and outbox.position - outbox.taken + <int64_t>size > self.most_pending:
            return NotImplemented
        if look and not mqtt_is_plain_publish(first, topic, topic_size, 1):
            return NotImplemented
        if qos == 0 and size < KEEP_FROM:
            self.count_publish(payload_size)
            p = self.write_head(outbox.grow(size), first, remaining, topic, topic_size, 0, area, properties)
            memcpy(p, payload, payload_size)
            return None
        identifier = 0
        if qos:
            if not self.places():
                return NotImplemented
            identifier = session.numbers.take()
        head = new_octets(head_size)
        p = self.write_head(<uint8_t*>PyBytes_AS_STRING(head), first, remaining, topic, topic_size, identifier, area, properties)
        if size < KEEP_FROM:
            memcpy(p, payload, payload_size)
        elif <size_t>PyBytes_GET_SIZE(block) > 2 * payload_size:
            tail = octets_of(payload, payload_size)     # else a small part would keep all of it
        else:
            at = payload - <const uint8_t*>PyBytes_AS_STRING(block)
            tail = PyMemoryView_FromObject(block)[at:at + <Py_ssize_t>payload_size]
        self.count_publish(payload_size)
        if qos:
            delivery = session.remember(identifier, self.version_, head, tail)
            self.charge(delivery)
        if size < KEEP_FROM:
            memcpy(outbox.grow(size), PyBytes_AS_STRING(head), size)
        else:
            outbox.put(head)
            outbox.put(tail)
        if delivery is not None:
            delivery.position = outbox.position
        return delivery

    cdef void count_publish(self, size_t payload_size) noexcept:
        self.packets_out += 1
        self.publishes_out += 1
        self.payload_out += <int64_t>payload_size

    cdef uint8_t* write_head(self, uint8_t* p, int first, size_t remaining, const uint8_t* topic, size_t topic_size,
                             uint16_t identifier, size_t area, const Onward* properties) noexcept:
        """Write what comes before the payload; its end."""
        p[0] = <uint8_t>first
        p += 1 + store_varint(p + 1, <uint32_t>remaining)
        store_u16(p, <uint16_t>topic_size)
        memcpy(p + 2, topic, topic_size)
        p += 2 + topic_size
        if first & 6:
            store_u16(p, identifier)
            p += 2
        if self.version_ == 5:
            p += store_varint(p, <uint32_t>area)
            p = append(p, properties.before.at, properties.before.size)
            p = append(p, properties.after.at, properties.after.size)
            p = append(p, properties.more, properties.more_size)
        return p

    def _send_delivery(self, Delivery delivery not None, bytes head not None, tail):
        """Queue the PUBLISH of a delivery, in two parts."""
        if self.session_ is None:
            raise ValueError("the connection has no session")
        self.charge(delivery)
        self._outbox.put(head)
        if len(tail):
            self._outbox.put(tail)
        self.packets_out += 1
        delivery.position = self._outbox.position

    cdef void charge(self, Delivery delivery) noexcept:
        """A PUBLISH of QoS 1 or 2 costs one of the send quota [MQTT-4.9.0-2]."""
        self._quota.used += 1
        delivery.charged = True
        if self._quota.used >= self._quota.limit or self.session_.outgoing_bytes >= self.most_outgoing:
            self._window_closed = True

    @property
    def send_quota(self):
        """How many PUBLISH of QoS 1 and 2 may be sent now (4.9)."""
        return self.places()

    cdef int64_t places(self) except -1:
        """`send_quota`: what the window, the identifiers and the bytes of unfinished messages leave."""
        cdef SessionFlows session = self.session_
        if not self._up or session is None or session.outgoing_bytes >= self.most_outgoing or self._replay:
            return 0
        return max(min(self._quota.limit - self._quota.used, <int64_t>session.numbers.last - len(session.numbers.used)), 0)

    def _note_window(self, list events not None):
        """Tell that the window is open again."""
        self.note_window(events)

    cdef int note_window(self, list events) except -1:
        cdef int64_t places
        if self._window_closed:
            places = self.places()
            if places:
                self._window_closed = False
                events.append(self.window_opened(places))
        return 0

    # ---- in

    def receive(self, data, now):
        """Take bytes from the peer; return the events they complete, in order."""
        if not self._up:
            data = self._look_at_opening(data)
        self.bytes_in += len(data) if PyBytes_CheckExact(data) else memoryview(data).nbytes
        self.gather()
        return EndpointFlows.receive(self, data, now)

    def _capacity(self):
        """How many packets may be read now."""
        cdef int64_t left = self.most_undecided - PyDict_Size(self._asked)
        if self._paused or self._over:
            return 0
        if not self._up:
            return self._room()
        if self.version_ != 5:              # 5.0 has Receive Maximum for these
            left -= self._arrivals.count
        return left if left > 0 else 0

    def _run(self, list messages not None, Py_ssize_t at, list events not None):
        """Handle messages from number `at` on while they are PUBACKs, and PUBLISHes that need no look at their properties, their
        text, their copies or their content. Returns the number of the first other one, whose handler is next."""
        cdef Py_ssize_t count = len(messages)
        cdef Publish publish
        cdef int qos
        if self.session_ is None:
            return at
        while 0 <= at < count:
            message = messages[at]
            if type(message) is Publish:
                publish = <Publish>message
                qos = publish.first_octet >> 1 & 3
                if publish.property_count or publish.noted or self._restricted or (qos == 2 and (self.released or self.counted)):
                    break
                self.publishes_in += 1
                self.payload_in += <int64_t>publish.payload_span.size
                if self.arrive(publish, qos):
                    events.append(publish)
            elif type(message) is Puback and not (<Puback>message).noted:
                self.take_puback(<Puback>message, events)
            else:
                break
            at += 1
        return at

    def _arrive(self, Publish message not None):
        """A PUBLISH has arrived and been looked at. Returns True if it is an event; False: a copy of a message that has arrived.
        If the connection answers by itself, it has answered, except a message that is an event at its PUBREL."""
        if self.session_ is None:
            raise ValueError("the connection has no session")
        return self.arrive(message, message.first_octet >> 1 & 3)

    cdef bint arrive(self, Publish message, int qos) except -1:
        cdef uint16_t identifier = message.packet_identifier_
        cdef int32_t i
        cdef bint held, again
        if qos == 0:
            return True
        i = self._arrivals.find(identifier)
        if i >= 0:
            if self._arrivals.arrivals[i].qos != qos:
                raise self._wrong_kind(f"PUBLISH of QoS {qos}", identifier)
            return False                        # the answer is still to come
        held = len(self.session_.incoming) != 0 and identifier in self.session_.incoming
        again = held and identifier in self._releasing
        if held and qos == 1:
            raise self._wrong_kind("PUBLISH of QoS 1", identifier)
        # Receive Maximum: messages that are not finished on this connection (3.3.4)
        if self.version_ == 5 and not again and self._arrivals.count + len(self._releasing) >= self.receive_maximum:
            raise self._too_many()
        if held:
            if again or self._arrivals.first[2] < 0:
                self._releasing.add(identifier)
                self.put_short(PUBREC_FIRST, identifier)                # [MQTT-4.3.3-10]
            else:                               # of an earlier connection: after the answers to earlier messages [MQTT-4.6.0-3]
                self._arrivals.decide(self._arrivals.put(message), None, 0)
            return False
        if self.automatic and qos == 1 and self._arrivals.first[1] < 0:
            self.put_short(PUBACK_FIRST, identifier)                    # it is its turn at once
            return True
        i = self._arrivals.put(message)
        if self.automatic and not (self.released and qos == 2):
            self.decide(i, None, 0, None, False)
        return True

    def _on_puback(self, Puback message not None, list events not None):
        """PUBACK has arrived."""
        if self.session_ is None:
            raise ValueError("the connection has no session")
        self.take_puback(message, events)

    cdef int take_puback(self, Puback message, list events) except -1:
        cdef PyObject* found
        cdef Delivery delivery                  # a reference: the session gives up its own
        identifier = message.packet_identifier_
        found = PyDict_GetItemWithError(self.session_.outgoing, identifier)
        if found == NULL or type(<object>found) is not Delivery:
            self._stray("PUBACK", identifier)
            return 0
        delivery = <Delivery>found
        if delivery.qos != 1:
            raise self._wrong_kind("PUBACK", identifier)
        return self.finish(delivery, identifier, message, message.reason_code_, events)

    def _finish(self, Delivery delivery not None, message, code, list events not None):
        """A delivery is acknowledged: its identifier and its place in the window are free."""
        if self.session_ is None:
            raise ValueError("the connection has no session")
        self.finish(delivery, delivery.packet_identifier, message, code, events)

    cdef int finish(self, Delivery delivery, object identifier, object message, object code, list events) except -1:
        self.session_.forget(delivery, identifier)
        event = (<PyTypeObject*>self.acknowledged).tp_new(self.acknowledged, <PyObject*>NO_ARGUMENTS, NULL)
        set_slot(event, HANDLE, delivery)
        set_slot(event, MESSAGE, message)
        set_slot(event, CODE, code)
        events.append(event)
        if delivery.charged:
            delivery.charged = False
            self._quota.give()
        if self._replay:
            self._send_again(events)
        if self._window_closed:
            self.note_window(events)
        return 0

    def acknowledge(self, message, reason_code=0, properties=()):
        """Answer a `Publish` event of QoS 1 or 2 once the host owns the message, or refuse it with a code of 0x80 or more.

        PUBACKs leave in the order of their PUBLISHes and so do PUBRECs, whatever the order of the answers [MQTT-4.6.0-2,
        MQTT-4.6.0-3]. Versions before 5.0 have no codes: the peer takes every acknowledgement as a success (3.1.1,
        3.3.5-2), so a host that refuses just drops the message.

        Returns events that had to wait for this answer.

        Raises LocalProtocolError if the message does not wait for an answer, or the answer cannot be written.
        """
        cdef int32_t i
        if self._up and self.session_ is not None and type(message) is Publish and \
                reason_code is SUCCESS_CODE and is_empty(properties):
            i = self._arrivals.find((<Publish>message).packet_identifier_)
            if i >= 0 and self._arrivals.arrivals[i].message == <PyObject*>message and \
                    not self._arrivals.arrivals[i].decided and \
                    not (self.released and self._arrivals.arrivals[i].qos == 2):
                self.decide(i, None, 0, None, False)
                return [] if self._reading else self._go_on()
        return self._acknowledge(message, reason_code, properties)

    def _decide(self, Publish message not None, bytes answer not None, code, held=None, bint silent=False):
        """Answer a waiting message. code: of the answer; held: what the session keeps for QoS 2; silent: nothing is queued, since
        the peer has had our last packet."""
        cdef int32_t i = self._arrivals.find(message.packet_identifier_)
        if i < 0 or self._arrivals.arrivals[i].decided or self.session_ is None:
            raise ValueError("this message does not wait")
        self.decide(i, answer, code, held, silent)

    cdef int decide(self, int32_t i, bytes answer, uint8_t code, object held, bint silent) except -1:
        cdef int qos = self._arrivals.arrivals[i].qos
        self._arrivals.decide(i, answer, code)
        if qos == 2 and code < MQTT_FAILURE:
            self.session_.hold(self._arrivals.arrivals[i].identifier, held)
        return self.put_due(qos, silent)

    cdef int put_due(self, int qos, bint silent) except -1:
        """Queue the answers that are next in order."""
        cdef Arrivals arrivals = self._arrivals
        cdef Arrival a
        cdef int32_t i = arrivals.first[qos]
        while i >= 0 and arrivals.arrivals[i].decided:
            a = arrivals.arrivals[i]
            if not silent:
                if a.answer == NULL:
                    self.put_short(PUBACK_FIRST if qos == 1 else PUBREC_FIRST, a.identifier)
                else:
                    self._outbox.put(<object>a.answer)
                    self.packets_out += 1
            arrivals.take(i)
            Py_XDECREF(a.answer)
            Py_DECREF(<object>a.message)
            if qos == 2 and a.code < MQTT_FAILURE:
                self._releasing.add(a.identifier)
            elif self.counted:
                self._forget_copies(a.identifier)
            i = arrivals.first[qos]
        arrivals.shrink()
        return 0

    cdef int put_short(self, int first, uint16_t identifier) except -1:
        """An acknowledgement without a code: 0 (3.4.2.1)."""
        cdef uint8_t* p = self._outbox.grow(4)
        p[0] = <uint8_t>first
        p[1] = 2
        store_u16(p + 2, identifier)
        self.packets_out += 1
        return 0
