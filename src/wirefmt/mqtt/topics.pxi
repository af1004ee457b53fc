# MQTT topics for Python: validity, matching, Shared Subscriptions, and an index of many filters.
#
# MQTT 5.0 sections 4.7, 4.8.2 (https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html),
# MQTT 3.1.1 section 4.7, MQTT 3.1 appendix A. The rules themselves are octet checks in topics.pxd.
cimport cython
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize

import os
from types import GenericAlias

from wirefmt.errors import EncodeError


# ---------------------------------------------------------------------------------------------------------- octets

cdef struct TopicText:
    const uint8_t* p
    size_t size


cdef object take_topic(object text, TopicText* t):
    """The octets of a str or of a buffer. They live as long as the object returned."""
    cdef Py_ssize_t size
    if isinstance(text, str):
        try:
            t.p = <const uint8_t*>PyUnicode_AsUTF8AndSize(text, &size)
        except UnicodeEncodeError:
            raise EncodeError("a topic cannot contain surrogates [MQTT-1.5.4-1]") from None
        t.size = <size_t>size
        return text
    octets = text if isinstance(text, bytes) else bytes(memoryview(text))
    t.p = <const uint8_t*>PyBytes_AS_STRING(octets)
    t.size = <size_t>PyBytes_GET_SIZE(octets)
    return octets


# ---------------------------------------------------------------------------------------------------------- validity

cdef object topic_error(int check, int version, size_t offset):
    cdef Fault f
    memset(&f, 0, sizeof(f))
    f.check = check
    f.version = version
    spec = mqtt_spec_of(&f).decode()
    if version == 3:                            # its rules of topics are all in an appendix
        spec = f"3.1 appendix {spec}"
    return EncodeError(f"{MQTT_TABLES.text[check].decode()}: byte {offset} [{spec}]")


cdef int check_topic_text(const TopicText* t, bint is_filter, int version) except -1:
    """Check a topic in full: at most 65,535 octets, UTF-8 without U+0000, wildcards in allowed places."""
    cdef size_t bad = 0
    cdef int rule
    if t.size > 65535:
        raise topic_error(MQTT_CHECK_TOPIC_TEXT_LENGTH, version, 65535)
    rule = check_utf8(t.p, t.size, &bad)
    if rule != UTF8_OK:
        raise topic_error(MQTT_CHECK_TOPIC_TEXT_NUL if rule == UTF8_NUL else MQTT_CHECK_TOPIC_TEXT_UTF8, version, bad)
    rule = check_topic_filter(t.p, t.size, version, &bad) if is_filter else check_topic_name(t.p, t.size, &bad)
    if rule != TOPIC_OK:
        raise topic_error(mqtt_topic_check(rule), version, bad)
    return 0


def validate_topic_name(topic, int version=5):
    """Check a Topic Name, as in PUBLISH and a will (MQTT 5.0, 4.7; 3.1, appendix A).

    Parameters: topic, str or bytes of UTF-8; version 3, 4 or 5.
    Raises: EncodeError with the violated rule and the offset of the byte.
    """
    cdef TopicText t
    known_mqtt_version(version)
    owner = take_topic(topic, &t)  # noqa: F841
    check_topic_text(&t, False, version)


def validate_topic_filter(filter, int version=5):
    """Check a Topic Filter, as in SUBSCRIBE and UNSUBSCRIBE (MQTT 5.0, 4.7 and 4.8.2; 3.1, appendix A).

    In version 5 a filter that starts with `$share/` is a Shared Subscription; before it is a filter like any other.

    Parameters: filter, str or bytes of UTF-8; version 3, 4 or 5.
    Raises: EncodeError with the violated rule and the offset of the byte.
    """
    cdef TopicText t
    known_mqtt_version(version)
    owner = take_topic(filter, &t)  # noqa: F841
    check_topic_text(&t, True, version)


cdef object take_filter(object filter, int version, Span* share_name, Span* topic_filter):
    """The two parts of a valid filter; `share_name.at` is NULL if it is not shared."""
    cdef TopicText t
    cdef size_t bad = 0
    owner = take_topic(filter, &t)
    check_topic_text(&t, True, version)
    share_name.at = NULL
    topic_filter.at = t.p
    topic_filter.size = <uint32_t>t.size
    if is_shared(t.p, t.size, version):
        split_share(t.p, t.size, share_name, topic_filter, &bad)
    return owner


def parse_shared(filter, int version=5):
    """Split the filter of a Shared Subscription (MQTT 5.0, 4.8.2).

    Returns: (ShareName, Topic Filter) as str; None if the filter is not shared, which includes all filters before version 5.
    Raises: EncodeError if the filter is invalid.
    """
    cdef Span name, rest
    owner = take_filter(filter, known_mqtt_version(version), &name, &rest)  # noqa: F841
    if name.at == NULL:
        return None
    return (
        PyUnicode_DecodeUTF8(<const char*>name.at, name.size, NULL),
        PyUnicode_DecodeUTF8(<const char*>rest.at, rest.size, NULL),
    )


# ---------------------------------------------------------------------------------------------------------- matching

def matches(filter, topic, int version=5):
    """Whether a Topic Filter matches a Topic Name (MQTT 5.0, 4.7; 3.1, appendix A).

    In version 5 `$share/name/` is removed first. From 3.1.1 on a filter that starts with a wildcard does not match
    a name that starts with `$` [MQTT-4.7.2-1]. The topic is compared byte by byte and may be invalid, so
    topics of captures can be matched, too.

    Parameters: filter and topic, str or bytes of UTF-8; version 3, 4 or 5.
    Raises: EncodeError if the filter is invalid.
    """
    cdef TopicText t
    cdef Span name, rest
    filter_owner = take_filter(filter, known_mqtt_version(version), &name, &rest)  # noqa: F841
    topic_owner = take_topic(topic, &t)  # noqa: F841
    return match_topic(rest.at, rest.size, t.p, t.size, version > 3)


# ---------------------------------------------------------------------------------------------------------- the index
#
# A trie over topic levels. A filter's node is below the nodes of its levels; the node of a Shared Subscription is below
# the node of its filter, under its ShareName. Names of levels are kept once and numbered, so that matching looks up each level
# of a topic once, by its octets, and then follows edges (node, number) only.
#
# Nodes and level names are in arrays and refer to each other by index; 0 means none. Index 0 of `nodes` is the root, which has
# no parent. All walks are loops over levels, never recursion. Both hashes have random keys: a sender that chooses topics cannot
# choose collisions.

cdef enum:
    LEVEL_PLUS = 1              # special level numbers; names are numbered from 3
    LEVEL_HASH = 2
    FIRST_LEVEL = 3
    SHARE_EDGE = 0x80000000     # set in the level of an edge that leads to a Shared Subscription


cdef struct TopicNode:
    uint32_t parent
    uint32_t level              # of the edge from the parent
    uint32_t chain              # next node of the same bucket; next free node
    uint32_t plus               # child '+'
    uint32_t rest               # child '#'
    uint32_t children           # all children
    uint32_t shared             # first child that is a Shared Subscription, and its siblings
    uint32_t next_shared
    uint32_t previous_shared
    uint32_t slot               # index in TopicIndex.slots of the values; 0: no filter ends here


cdef struct LevelName:
    uint8_t* at                 # owned
    uint32_t size
    uint32_t uses               # edges with the name
    uint32_t chain              # next name of the same bucket; next free slot
    uint64_t hash


cdef inline uint64_t rotated(uint64_t v, int n) noexcept nogil:
    return (v << n) | (v >> (64 - n))


cdef inline void sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = rotated(v[1], 13) ^ v[0]
    v[3] = rotated(v[3], 16) ^ v[2]
    v[0] = rotated(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = rotated(v[1], 17) ^ v[2]
    v[3] = rotated(v[3], 21) ^ v[0]
    v[2] = rotated(v[2], 32)


cdef uint64_t keyed_hash(const uint8_t* p, size_t size, const uint64_t* key) noexcept nogil:
    """SipHash-1-3."""
    cdef uint64_t v[4]
    cdef uint64_t w
    cdef size_t n = size
    v[0] = key[0] ^ 0x736F6D6570736575ULL
    v[1] = key[1] ^ 0x646F72616E646F6DULL
    v[2] = key[0] ^ 0x6C7967656E657261ULL
    v[3] = key[1] ^ 0x7465646279746573ULL
    while n >= 8:
        memcpy(&w, p, 8)
        v[3] ^= w
        sip_round(v)
        v[0] ^= w
        p += 8
        n -= 8
    w = 0
    memcpy(&w, p, n)
    w |= <uint64_t>size << 56
    v[3] ^= w
    sip_round(v)
    v[0] ^= w
    v[2] ^= 0xFF
    sip_round(v)
    sip_round(v)
    sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


cdef int resize(void** array, size_t count, size_t item) except -1:
    cdef void* more = realloc(array[0], count * item)
    if more == NULL:
        raise MemoryError()
    array[0] = more
    return 0


@cython.final
cdef class TopicIndex:
    """An index of Topic Filters with values: finds the values whose filters match a Topic Name.

    Filters and names are str or bytes of UTF-8, as in `matches`. A Shared Subscription (5.0) is a separate
    entry per ShareName and matches like its filter. Values must be hashable; each filter has a set of them.

    The time of a look-up depends on the levels of the name, the filters that match it and the filters with a common prefix,
    not on the number of other filters. Memory is a fixed amount for each level of each filter. An index belongs
    to one thread at a time.

    Parameters: version 3, 4 or 5, the rules for filters.
    """
    cdef readonly int version
    cdef Py_ssize_t pairs
    cdef uint64_t key[4]
    cdef TopicNode* nodes
    cdef LevelName* names
    cdef uint32_t* node_buckets
    cdef uint32_t* name_buckets
    cdef uint32_t* front            # two rows of node numbers, used while matching
    cdef uint32_t node_bits, node_top, node_free        # capacity 2**bits; first unused; first freed
    cdef uint32_t name_bits, name_top, name_free
    cdef list slots                 # dict value -> None of each filter; None: a free slot
    cdef list free_slots

    #: TopicIndex[str]: type checkers know the type of the values
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, int version=5):
        self.version = known_mqtt_version(version)
        secret = os.urandom(sizeof(self.key))
        memcpy(self.key, PyBytes_AS_STRING(secret), sizeof(self.key))
        self.key[2] |= 1
        self.key[3] |= 1
        self.slots = [None]
        self.free_slots = []
        self.more_nodes()
        self.more_names()
        memset(&self.nodes[0], 0, sizeof(TopicNode))
        self.node_top = 1
        self.name_top = FIRST_LEVEL

    def __dealloc__(self):
        cdef uint32_t i
        if self.names != NULL:
            for i in range(FIRST_LEVEL, self.name_top):
                free(self.names[i].at)
        free(self.nodes)
        free(self.names)
        free(self.node_buckets)
        free(self.name_buckets)
        free(self.front)

    def __len__(self):
        """The number of pairs of filter and value."""
        return self.pairs

    def add(self, filter, value):
        """Add a value to a filter.

        Returns: True if it was added, False if it was already present.
        Raises: EncodeError if the filter is invalid; TypeError if the value is not hashable.
        """
        cdef uint32_t node
        cdef dict values = {}       # first, because making objects may run the garbage collector and so other code
        hash(value)                 # raise for an unhashable value before anything is built
        node = self.find(filter, True)
        if self.nodes[node].slot:
            values = self.slots[self.nodes[node].slot]
        else:
            self.nodes[node].slot = self.new_slot(values)
        try:
            if value in values:     # may run code of the value, which may change this index: do not use `node` after this
                return False
            values[value] = None
        except BaseException:
            self.tidy(filter)
            raise
        self.pairs += 1
        return True

    def discard(self, filter, value):
        """Remove a value from a filter.

        Returns: True if it was present.
        Raises: EncodeError if the filter is invalid.
        """
        cdef uint32_t node = self.find(filter, False)
        cdef dict values
        if not node:
            return False
        values = self.slots[self.nodes[node].slot]
        try:
            del values[value]   # may run code of the value, which may change this index: do not use `node` after this
        except KeyError:
            return False
        self.pairs -= 1
        self.tidy(filter)
        return True

    def match(self, topic):
        """Values of all filters that match a Topic Name, in any order; a value of several such filters is repeated.

        Returns: a list.
        """
        cdef TopicText t
        cdef list found = []
        owner = take_topic(topic, &t)  # noqa: F841
        self.walk(t.p, t.size, found)
        return found

    # ---- matching

    cdef int walk(self, const uint8_t* p, size_t size, list found) except -1:
        """Collect, level by level, all nodes reached so far. No Python code runs in here."""
        cdef uint32_t* now = self.front
        cdef uint32_t* then = self.front + (<size_t>1 << self.node_bits)
        cdef uint32_t count = 1, count_then, level, node, child, k
        cdef bint dollar = self.version > 3 and size and p[0] == c"$"   # [MQTT-4.7.2-1]: no wildcard at level one
        cdef const uint8_t* end = p + size
        cdef const uint8_t* slash
        cdef TopicNode* nodes = self.nodes
        now[0] = 0
        while count:
            slash = p
            while slash < end and slash[0] != c"/":
                slash += 1
            level = self.find_name(p, <size_t>(slash - p))
            count_then = 0
            for k in range(count):
                node = now[k]
                if not dollar:
                    if nodes[node].rest:
                        self.emit(nodes[node].rest, found)
                    if nodes[node].plus:
                        then[count_then] = nodes[node].plus
                        count_then += 1
                if level:
                    child = self.find_edge(node, level)
                    if child:
                        then[count_then] = child
                        count_then += 1
            dollar = False
            now, then = then, now
            count = count_then
            if slash == end:
                break
            p = slash + 1
        for k in range(count):
            node = now[k]
            self.emit(node, found)
            if nodes[node].rest:                    # `a/#` matches `a`, too
                self.emit(nodes[node].rest, found)
        return 0

    cdef int emit(self, uint32_t node, list found) except -1:
        """The values of the filter that ends here, and of the Shared Subscriptions to it."""
        cdef uint32_t at
        cdef Py_ssize_t place
        cdef PyObject* value
        if self.nodes[node].slot:
            place = 0
            while PyDict_Next(<dict>self.slots[self.nodes[node].slot], &place, &value, NULL):
                found.append(<object>value)
        at = self.nodes[node].shared
        while at:
            place = 0
            while PyDict_Next(<dict>self.slots[self.nodes[at].slot], &place, &value, NULL):
                found.append(<object>value)
            at = self.nodes[at].next_shared
        return 0

    # ---- building

    cdef uint32_t find(self, object filter, bint build) except? 0:
        """The node where a filter with values ends, made if `build`; 0: none."""
        cdef Span name, rest
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef const uint8_t* slash
        cdef uint32_t node = 0
        owner = take_filter(filter, self.version, &name, &rest)  # noqa: F841
        p = rest.at
        end = p + rest.size
        while True:
            slash = p
            while slash < end and slash[0] != c"/":
                slash += 1
            node = self.step(node, p, <size_t>(slash - p), 0, build)
            if not node or slash == end:
                break
            p = slash + 1
        if node and name.at != NULL:
            node = self.step(node, name.at, name.size, SHARE_EDGE, build)
        return node if build or (node and self.nodes[node].slot) else 0

    cdef uint32_t step(self, uint32_t parent, const uint8_t* p, size_t size, uint32_t kind, bint build) except? 0:
        """The child for one level, made if `build`; 0: none."""
        cdef uint32_t level, node = 0
        if not kind and size == 1 and (p[0] | 8) == 0x2B:
            level = LEVEL_PLUS if p[0] == c"+" else LEVEL_HASH
        else:
            level = self.find_name(p, size)
        if level:
            node = self.find_edge(parent, level | kind)
        if node or not build:
            return node
        try:
            node = self.new_node()
            if not level:
                level = self.new_name(p, size)
        except MemoryError:
            if node:
                self.give_up_node(node)
            self.prune(parent)
            raise
        if level >= FIRST_LEVEL:
            self.names[level].uses += 1
        self.link(node, parent, level | kind)
        return node

    cdef int tidy(self, object filter) except -1:
        """Remove a filter that has no values left."""
        cdef uint32_t node = self.find(filter, False)
        if node and not self.slots[self.nodes[node].slot]:
            self.free_slots.append(self.nodes[node].slot)
            self.slots[self.nodes[node].slot] = None
            self.nodes[node].slot = 0
            self.prune(node)
        return 0

    cdef void link(self, uint32_t node, uint32_t parent, uint32_t level) noexcept:
        cdef TopicNode* nodes = self.nodes
        cdef uint32_t* bucket = self.node_buckets + self.edge_bucket(parent, level)
        memset(&nodes[node], 0, sizeof(TopicNode))
        nodes[node].parent = parent
        nodes[node].level = level
        nodes[node].chain = bucket[0]
        bucket[0] = node
        nodes[parent].children += 1
        if level == LEVEL_PLUS:
            nodes[parent].plus = node
        elif level == LEVEL_HASH:
            nodes[parent].rest = node
        elif level & SHARE_EDGE:
            nodes[node].next_shared = nodes[parent].shared
            if nodes[parent].shared:
                nodes[nodes[parent].shared].previous_shared = node
            nodes[parent].shared = node

    cdef void unlink(self, uint32_t node) noexcept:
        cdef TopicNode* n = &self.nodes[node]
        cdef TopicNode* parent = &self.nodes[n.parent]
        cdef uint32_t* at = self.node_buckets + self.edge_bucket(n.parent, n.level)
        while at[0] != node:
            at = &self.nodes[at[0]].chain
        at[0] = n.chain
        parent.children -= 1
        if n.level == LEVEL_PLUS:
            parent.plus = 0
        elif n.level == LEVEL_HASH:
            parent.rest = 0
        elif n.level & SHARE_EDGE:
            if n.next_shared:
                self.nodes[n.next_shared].previous_shared = n.previous_shared
            if n.previous_shared:
                self.nodes[n.previous_shared].next_shared = n.next_shared
            else:
                parent.shared = n.next_shared

    cdef void prune(self, uint32_t node) noexcept:
        """Free an empty node, and its ancestors that become empty."""
        cdef uint32_t parent, level
        while node and not self.nodes[node].slot and not self.nodes[node].children:
            self.unlink(node)
            parent = self.nodes[node].parent
            level = self.nodes[node].level & ~<uint32_t>SHARE_EDGE
            if level >= FIRST_LEVEL:
                self.names[level].uses -= 1
                if not self.names[level].uses:
                    self.give_up_name(level)
            self.give_up_node(node)
            node = parent

    cdef uint32_t new_slot(self, dict values) except 0:
        if self.free_slots:
            slot = self.free_slots.pop()
            self.slots[slot] = values
            return slot
        self.slots.append(values)
        return <uint32_t>(len(self.slots) - 1)

    # ---- nodes by (parent, level)

    cdef inline uint32_t edge_bucket(self, uint32_t parent, uint32_t level) noexcept nogil:
        return <uint32_t>((((<uint64_t>parent << 32 | level) ^ self.key[0]) * self.key[2] ^ self.key[1])
                          * self.key[3] >> (64 - self.node_bits))

    cdef inline uint32_t find_edge(self, uint32_t parent, uint32_t level) noexcept nogil:
        cdef uint32_t node = self.node_buckets[self.edge_bucket(parent, level)]
        while node and (self.nodes[node].level != level or self.nodes[node].parent != parent):
            node = self.nodes[node].chain
        return node

    cdef uint32_t new_node(self) except 0:
        cdef uint32_t node = self.node_free
        if node:
            self.node_free = self.nodes[node].chain
            return node
        if self.node_top >> self.node_bits:
            self.more_nodes()
        node = self.node_top
        self.node_top += 1
        return node

    cdef void give_up_node(self, uint32_t node) noexcept:
        self.nodes[node].chain = self.node_free
        self.node_free = node

    cdef int more_nodes(self) except -1:
        """Double the capacity. Called if no node is free, so all of them are linked."""
        cdef uint32_t i, bits = self.node_bits + 1 if self.node_bits else 4
        cdef uint32_t* at
        cdef uint32_t* buckets
        if bits > 30:
            raise MemoryError("a TopicIndex may have at most 2**30 nodes")
        resize(<void**>&self.front, <size_t>2 << bits, sizeof(uint32_t))
        resize(<void**>&self.nodes, <size_t>1 << bits, sizeof(TopicNode))
        buckets = <uint32_t*>calloc(<size_t>1 << bits, sizeof(uint32_t))
        if buckets == NULL:
            raise MemoryError()
        free(self.node_buckets)
        self.node_buckets = buckets
        self.node_bits = bits
        for i in range(1, self.node_top):
            at = self.node_buckets + self.edge_bucket(self.nodes[i].parent, self.nodes[i].level)
            self.nodes[i].chain = at[0]
            at[0] = i
        return 0

    # ---- names of levels

    cdef uint32_t find_name(self, const uint8_t* p, size_t size) noexcept nogil:
        """The number of a level's name; 0 if no filter has it."""
        cdef uint64_t h = keyed_hash(p, size, self.key)
        cdef uint32_t i = self.name_buckets[h >> (64 - self.name_bits)]
        while i and (self.names[i].hash != h or self.names[i].size != size or memcmp(self.names[i].at, p, size)):
            i = self.names[i].chain
        return i

    cdef uint32_t new_name(self, const uint8_t* p, size_t size) except 0:
        cdef uint32_t i = self.name_free
        cdef uint8_t* copy
        if not i and self.name_top >> self.name_bits:
            self.more_names()
        copy = <uint8_t*>malloc(size + 1)       # a level may be empty
        if copy == NULL:
            raise MemoryError()
        if i:
            self.name_free = self.names[i].chain
        else:
            i = self.name_top
            self.name_top += 1
        memcpy(copy, p, size)
        self.names[i].at = copy
        self.names[i].size = <uint32_t>size
        self.names[i].uses = 0
        self.names[i].hash = keyed_hash(p, size, self.key)
        self.link_name(i)
        return i

    cdef void link_name(self, uint32_t i) noexcept:
        cdef uint32_t* bucket = self.name_buckets + (self.names[i].hash >> (64 - self.name_bits))
        self.names[i].chain = bucket[0]
        bucket[0] = i

    cdef void give_up_name(self, uint32_t i) noexcept:
        cdef uint32_t* at = self.name_buckets + (self.names[i].hash >> (64 - self.name_bits))
        while at[0] != i:
            at = &self.names[at[0]].chain
        at[0] = self.names[i].chain
        free(self.names[i].at)
        self.names[i].at = NULL
        self.names[i].chain = self.name_free
        self.name_free = i

    cdef int more_names(self) except -1:
        """Double the capacity. Called if no slot is free, so all names are linked."""
        cdef uint32_t i, bits = self.name_bits + 1 if self.name_bits else 4
        cdef uint32_t* buckets
        resize(<void**>&self.names, <size_t>1 << bits, sizeof(LevelName))
        buckets = <uint32_t*>calloc(<size_t>1 << bits, sizeof(uint32_t))
        if buckets == NULL:
            raise MemoryError()
        free(self.name_buckets)
        self.name_buckets = buckets
        self.name_bits = bits
        for i in range(FIRST_LEVEL, self.name_top):
            self.link_name(i)
        return 0
