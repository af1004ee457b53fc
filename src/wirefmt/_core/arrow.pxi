# Types of columns, sets of columns (columns.pxi builds each), and batches, exported as Arrow arrays.
#
# Arrow C data and stream interfaces, PyCapsule interface:
#   https://arrow.apache.org/docs/format/CDataInterface.html
#   https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html
#
# Columns that are all null share one buffer of zeros.
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from wirefmt._core.octets cimport BLOCK_OCTETS

cdef extern from *:
    int bits_of "__builtin_popcountll"(uint64_t word) noexcept nogil


cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #define ARROW_FLAG_NULLABLE 2
    struct ArrowSchema {
      const char* format; const char* name; const char* metadata; int64_t flags; int64_t n_children;
      struct ArrowSchema** children; struct ArrowSchema* dictionary;
      void (*release)(struct ArrowSchema*); void* private_data;
    };
    struct ArrowArray {
      int64_t length; int64_t null_count; int64_t offset; int64_t n_buffers; int64_t n_children;
      const void** buffers; struct ArrowArray** children; struct ArrowArray* dictionary;
      void (*release)(struct ArrowArray*); void* private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
      int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema*);
      int (*get_next)(struct ArrowArrayStream*, struct ArrowArray*);
      const char* (*get_last_error)(struct ArrowArrayStream*);
      void (*release)(struct ArrowArrayStream*); void* private_data;
    };
    #endif
    """
    cdef enum:
        ARROW_FLAG_NULLABLE

    struct ArrowSchema:
        const char* format
        const char* name
        const char* metadata
        int64_t flags
        int64_t n_children
        ArrowSchema** children
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept nogil
        void* private_data

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers
        ArrowArray** children
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept nogil
        void* private_data

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil
        void* private_data


cdef extern from *:
    """
    #include <stdatomic.h>
    static inline void wirefmt_add_user(int *users) {
        atomic_fetch_add_explicit((_Atomic int *)users, 1, memory_order_relaxed);
    }
    static inline int wirefmt_drop_user(int *users) {
        return atomic_fetch_sub_explicit((_Atomic int *)users, 1, memory_order_acq_rel) - 1;
    }
    """
    void add_user "wirefmt_add_user"(int* users) noexcept nogil
    int drop_user "wirefmt_drop_user"(int* users) noexcept nogil    # how many are left


cdef extern from "Python.h":
    int Py_IsInitialized() noexcept nogil


# ------------------------------------------------------------------------------------------------ types

cdef enum:
    COLUMN_NESTING_MAX = 16     # levels of <> in the type of a column, because nested fields are made by recursion


cdef class Field:
    """Name, Arrow format string and children of one column, from a type as spec/columns.py writes it."""

    def __init__(self, str name not None, str type not None, bint nullable=True):
        if nesting(type) > COLUMN_NESTING_MAX:
            raise ValueError(f"a column type may nest at most {COLUMN_NESTING_MAX} levels")
        self.name = name
        self.type = type
        self.nullable = nullable
        self.name_octets = name.encode()
        self.children = []
        self.width = 0
        if type in FIXED_TYPES:
            self.format, self.width = FIXED_TYPES[type]
            self.kind = KIND_FIXED if self.width else KIND_BOOL
        elif type in ("string", "binary"):
            self.kind = KIND_OCTETS
            self.format = b"u" if type == "string" else b"z"
        elif type.startswith("list<") and type.endswith(">"):
            self.kind = KIND_LIST
            self.format = b"+l"
            self.children.append(Field("element", type[5:len(type) - 1]))
        elif type.startswith("map<") and type.endswith(">"):
            self.kind = KIND_LIST
            self.format = b"+m"
            entries = Field("entries", "struct<>", False)
            key, value = split_types(type[4:len(type) - 1])
            entries.children = [Field("key", key, False), Field("value", value)]
            self.children.append(entries)
        elif type.startswith("struct<") and type.endswith(">"):
            self.kind = KIND_STRUCT
            self.format = b"+s"
            for part in split_types(type[7:len(type) - 1]):
                child, _, of = part.partition(":")
                self.children.append(Field(child, of))
        else:
            raise ValueError(f"no column type {type!r}")

    cdef bint same_children(self, Field other):
        return [(f.name, f.type) for f in self.children] == [(f.name, f.type) for f in other.children]


cdef dict FIXED_TYPES = {       # type -> Arrow format, octets (0: bits)
    "boolean": (b"b", 0), "int8": (b"c", 1), "int16": (b"s", 2), "int32": (b"i", 4), "int64": (b"l", 8),
    "float64": (b"g", 8), "timestamp": (b"tsu:UTC", 8),
}

cdef dict NUMPY_TYPES = {
    "int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "float64": "<f8", "timestamp": "<M8[us]",
}


cdef int nesting(str text):
    cdef int depth = 0, deepest = 0
    for c in text:
        depth += (c == "<") - (c == ">")
        deepest = max(deepest, depth)
    return deepest


cdef list split_types(str text):
    """Split at the commas outside of <>."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return parts + [text[start:]] if text else []


cdef int init_col(Col* c, Field field, ColumnsShared* shared, bint on) except -1:
    cdef int i
    memset(c, 0, sizeof(Col))
    c.kind = field.kind
    c.width = field.width
    c.on = on
    c.shared = shared
    c.children_count = <int>len(field.children)
    if c.children_count:
        c.children = <Col*>calloc(<size_t>c.children_count, sizeof(Col))
        if c.children == NULL:
            c.children_count = 0
            raise MemoryError
        for i in range(c.children_count):
            init_col(&c.children[i], field.children[i], shared, on)
    return 0


cdef void free_col(Col* c) noexcept nogil:
    cdef int i
    for i in range(c.children_count):
        free_col(&c.children[i])
    free(c.children)
    release_octets(c.validity, validity_size(c.kept))
    release_octets(c.data, <size_t>c.size if c.kind == KIND_OCTETS else data_size(c, c.kept))
    release_octets(c.offsets, offsets_size(c.kept))
    release_octets(c.numbers, <size_t>c.numbers_kept * sizeof(uint16_t))
    memset(c, 0, sizeof(Col))


cdef void begin_like(Col* c, const Col* before) noexcept nogil:
    """Give an empty column the space that it needed in the previous batch."""
    cdef int i
    c.first_capacity = before.rows
    c.first_size = before.used + (before.used >> 3)
    for i in range(c.children_count):
        begin_like(&c.children[i], &before.children[i])


cdef int64_t count_bits(const uint8_t* bits, int64_t octets) noexcept nogil:
    """How many bits are set."""
    cdef int64_t count = 0, i
    for i in range(octets >> 3):
        count += bits_of(word_at(bits + 8 * i))
    for i in range(octets & ~<int64_t>7, octets):
        count += bits_of(bits[i])
    return count


cdef bint finish_col(Col* c, int64_t rows, bint dense) noexcept nogil:
    """Fill up to `rows` rows. A column without values has no buffers, unless it is `dense` (a list's child may have more
    rows than the shared zeros)."""
    cdef int i
    cdef bint ok = True
    if c.numbers != NULL:
        c.rows = max(c.rows, min(rows, c.numbers_kept))         # the numbers after the last text are 0
        ok = write_texts(c)
    if ok and c.rows < rows and (c.rows or dense):
        ok = fill_nulls(c, rows)
    if c.validity != NULL:
        c.nulls = c.rows - count_bits(c.validity, (c.rows + 7) >> 3)
    if c.kind == KIND_STRUCT:
        for i in range(c.children_count):
            ok = finish_col(&c.children[i], rows if c.rows else 0, dense) and ok
    elif c.kind == KIND_LIST and c.rows:
        ok = finish_col(&c.children[0], c.offsets[c.rows], True) and ok
    return ok


cdef enum:
    PART_EDGE = 64              # buffers begin at a multiple of it, as Arrow advises


cdef inline size_t part_of(int64_t octets) noexcept nogil:
    """What a buffer takes of a part."""
    return (<size_t>octets + PART_EDGE - 1) & ~<size_t>(PART_EDGE - 1)


cdef size_t part_size(const Col* c) noexcept nogil:
    """What the buffers of a finished column take of a part."""
    cdef size_t size = 0
    cdef int i
    if c.validity != NULL:
        size += part_of(<int64_t>validity_size(c.rows))
    if c.data != NULL:
        size += part_of(c.used if c.kind == KIND_OCTETS else <int64_t>data_size(c, c.rows))
    if c.offsets != NULL:
        size += part_of((c.rows + 1) * <int64_t>sizeof(int32_t))
    for i in range(c.children_count):
        size += part_size(&c.children[i])
    return size


cdef inline void* move_buffer(void* p, size_t old, int64_t used, uint8_t** to) noexcept nogil:
    cdef void* moved = to[0]
    if p == NULL:
        return NULL
    memcpy(moved, p, <size_t>used)
    release_octets(p, old)
    to[0] += part_of(used)
    return moved


cdef uint8_t* move_col(Col* c, uint8_t* to) noexcept nogil:
    """Move the buffers of a finished column to `to`. Returns where the next ones go."""
    cdef int i
    c.validity = <uint8_t*>move_buffer(c.validity, validity_size(c.kept), <int64_t>validity_size(c.rows), &to)
    if c.kind == KIND_OCTETS:
        c.data = <uint8_t*>move_buffer(c.data, <size_t>c.size, c.used, &to)
    else:
        c.data = <uint8_t*>move_buffer(c.data, data_size(c, c.kept), <int64_t>data_size(c, c.rows), &to)
    c.offsets = <int32_t*>move_buffer(c.offsets, offsets_size(c.kept), (c.rows + 1) * <int64_t>sizeof(int32_t), &to)
    for i in range(c.children_count):
        to = move_col(&c.children[i], to)
    return to


cdef void settle(BatchMemory* memory) noexcept nogil:
    """Move the columns of a finished batch to a part of a slab, if the program keeps its batches (columns.pxi)."""
    cdef size_t size = 0
    cdef uint8_t* to
    cdef int i
    for i in range(memory.n):
        size += part_size(&memory.cols[i])
    memory.part = <uint8_t*>take_part(size, &memory.slab)
    if memory.part == NULL:
        return
    memory.part_size = size
    to = memory.part
    for i in range(memory.n):
        to = move_col(&memory.cols[i], to)


cdef void leave_part(Col* c) noexcept nogil:
    """Forget buffers that are in a part."""
    cdef int i
    c.validity = c.data = NULL
    c.offsets = NULL
    for i in range(c.children_count):
        leave_part(&c.children[i])


cdef enum:
    TABLES_KEPT = 32


# By identity of a tuple of columns: the tuple and its Fields. Parsing types takes longer than decoding a small batch.
cdef dict FIELDS_OF_TABLE = {}


cdef list fields_of(columns):
    """The Fields of (name, type) rows."""
    cdef tuple kept = FIELDS_OF_TABLE.get(id(columns))
    if kept is not None:                    # the tuple is alive, so no other object has its identity
        return kept[1]
    fields = [Field(c[0], c[1]) for c in columns]
    if type(columns) is tuple and len(FIELDS_OF_TABLE) < TABLES_KEPT:
        FIELDS_OF_TABLE[id(columns)] = columns, fields
    return fields


cdef str NO_MEMORY = "no memory for a batch of columns"
cdef str TOO_MUCH = "a column of one batch would exceed 2 GiB: decode fewer bytes at once"


cdef class ColumnSet:
    """Columns while they are built, from (name, type) rows and selected names in order (None: all).

    Columns that are not selected accept puts, which return at once, and are not in the batch.
    """

    def __cinit__(self, *args, **kwargs):
        self.shared = <ColumnsShared*>calloc(1, sizeof(ColumnsShared))
        if self.shared == NULL:
            raise MemoryError

    def __init__(self, columns, names=None):
        self.set_columns(columns, names)

    cdef void expose(self, bint exposed) noexcept:
        """Show secrets in the columns, or not."""
        self.shared.exposed = exposed

    cdef int set_columns(self, columns, names) except -1:
        cdef int i
        if self.cols != NULL:
            raise RuntimeError("the columns are already initialised")
        self.fields = fields_of(columns)
        if names is None:
            self.chosen = list(range(len(self.fields)))
        else:
            by_name = {(<Field>f).name: i for i, f in enumerate(self.fields)}
            unknown = [n for n in names if n not in by_name]
            if unknown:
                raise ValueError(f"no column {unknown[0]!r}; there are {', '.join(by_name)}")
            self.chosen = [by_name[n] for n in dict.fromkeys(names)]
        chosen = set(self.chosen)
        self.n = <int>len(self.fields)
        self.cols = <Col*>calloc(<size_t>max(self.n, 1), sizeof(Col))
        if self.cols == NULL:
            raise MemoryError
        for i in range(self.n):
            init_col(&self.cols[i], self.fields[i], self.shared, i in chosen)
        return 0

    def __dealloc__(self):
        cdef int i
        if self.cols != NULL:
            for i in range(self.n):
                free_col(&self.cols[i])
        free(self.cols)
        free(self.shared)
        free(self.shapes)

    cdef Field row_type(self):
        """The batch's type: a struct of the chosen columns."""
        cdef Field field = Field("", "struct<>", False)
        field.children = [self.fields[i] for i in self.chosen]
        return field

    cdef Batch finish(self, int64_t rows):
        """Move the buffers to a Batch of `rows` rows; the columns are then empty."""
        cdef Batch batch = Batch.__new__(Batch)
        cdef BatchMemory* memory = batch.memory
        cdef int i, k
        batch.field = self.row_type()
        batch.num_rows = rows
        memory.cols = <Col*>calloc(<size_t>max(len(self.chosen), 1), sizeof(Col))
        memory.zeros = <uint8_t*>calloc(<size_t>max(8 * rows, 4 * (rows + 1)) + 64, 1)
        if memory.cols == NULL or memory.zeros == NULL or self.shared.no_memory:
            raise MemoryError(NO_MEMORY)
        memory.n = <int>len(self.chosen)
        if self.shared.full:
            raise OverflowError(TOO_MUCH)
        for k in range(memory.n):
            i = self.chosen[k]
            if not finish_col(&self.cols[i], rows, False):
                raise OverflowError(TOO_MUCH) if self.shared.full else MemoryError(NO_MEMORY)
            memory.cols[k] = self.cols[i]
            memory.cols[k].shared = NULL
            init_col(&self.cols[i], self.fields[i], self.shared, True)
            begin_like(&self.cols[i], &memory.cols[k])
        self.shared.octets = 0
        with nogil:
            settle(memory)
        return batch


# ------------------------------------------------------------------------------------------------ a finished batch

cdef void drop_memory(BatchMemory* memory) noexcept nogil:
    """End one use. It needs no GIL: a consumer's thread may release an array while the interpreter ends, and a thread that asks
    for the GIL then is ended, which aborts a program whose threads C++ manages."""
    cdef int i
    if memory == NULL or drop_user(&memory.users):          # NULL: no memory for it
        return
    for i in range(memory.n):
        if memory.part != NULL:
            leave_part(&memory.cols[i])
        free_col(&memory.cols[i])
    if memory.part != NULL:
        release_part(memory.part, memory.part_size, memory.slab)
    free(memory.cols)
    free(memory.zeros)
    free(memory)


cdef class Batch:
    """Columns of equal length, with the Arrow PyCapsule interface: pyarrow.record_batch(batch), polars.DataFrame(batch).

    `batch["name"]` is a NumPy view for fixed-width columns (nulls are zero there: see `validity`), an object array of
    str, bytes or None for strings and binaries. The views keep the batch alive; nothing is copied.
    """

    #: Bytes at the end of the input that are not a whole frame (decode_batch only, otherwise 0).

    def __cinit__(self):
        self.memory = <BatchMemory*>calloc(1, sizeof(BatchMemory))
        if self.memory == NULL:
            raise MemoryError(NO_MEMORY)
        self.memory.users = 1

    def __init__(self):
        raise TypeError("a Batch is made by a decoder")

    def __dealloc__(self):
        drop_memory(self.memory)

    def __len__(self):
        return self.num_rows

    def __repr__(self):
        return f"<wirefmt.Batch {self.num_rows} rows, {self.memory.n} columns>"

    @property
    def names(self):
        """Names of the columns, in order."""
        return [(<Field>f).name for f in self.field.children]

    @property
    def nbytes(self):
        """Bytes in the filled buffers."""
        cdef int i
        cdef int64_t total = 0
        for i in range(self.memory.n):
            total += col_octets(&self.memory.cols[i])
        return total

    cdef int index(self, name) except -1:
        for i, f in enumerate(self.field.children):
            if (<Field>f).name == name:
                return i
        raise KeyError(f"no column {name!r}; there are {', '.join(self.names)}")

    def validity(self, name):
        """Booleans, one per row: False where the column is null."""
        import numpy
        cdef int i = self.index(name)
        cdef Col* c = &self.memory.cols[i]
        if c.rows == 0:
            return numpy.zeros(self.num_rows, dtype=bool)
        if c.validity == NULL:
            return numpy.ones(self.num_rows, dtype=bool)
        bits = numpy.frombuffer(export_buffer(self, c.validity, (self.num_rows + 7) >> 3), dtype="u1")
        return numpy.unpackbits(bits, count=self.num_rows, bitorder="little").astype(bool)

    def __getitem__(self, name):
        import numpy
        cdef int i = self.index(name)
        cdef Col* c = &self.memory.cols[i]
        cdef Field field = self.field.children[i]
        cdef const uint8_t* data = c.data if c.rows else self.memory.zeros
        cdef int64_t k
        if field.kind == KIND_FIXED:
            return numpy.frombuffer(export_buffer(self, data, self.num_rows * c.width), dtype=NUMPY_TYPES[field.type])
        if field.kind == KIND_BOOL:
            bits = numpy.frombuffer(export_buffer(self, data, (self.num_rows + 7) >> 3), dtype="u1")
            return numpy.unpackbits(bits, count=self.num_rows, bitorder="little").astype(bool)
        if field.kind != KIND_OCTETS:
            raise TypeError(f"column {name!r} is a {field.type.partition('<')[0]}: use pyarrow.record_batch(batch)")
        values = numpy.full(self.num_rows, None, dtype=object)
        if c.rows:
            for k in range(self.num_rows):
                if c.validity == NULL or c.validity[k >> 3] & (1 << (k & 7)):
                    value = PyBytes_FromStringAndSize(<char*>c.data + c.offsets[k], c.offsets[k + 1] - c.offsets[k])
                    values[k] = value.decode() if field.type == "string" else value
        return values

    def __arrow_c_schema__(self):
        return new_schema_capsule(self.field)

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowArray* a = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        if a == NULL:
            raise MemoryError
        capsule = PyCapsule_New(a, "arrow_array", free_array_capsule)
        export_batch(self, a)
        return new_schema_capsule(self.field), capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return new_stream_capsule(self.field, iter((self,)))


cdef int64_t col_octets(const Col* c) noexcept nogil:
    cdef int64_t total = 0
    cdef int i
    if c.rows:
        total += (c.rows + 7) >> 3 if c.validity != NULL else 0
        if c.kind == KIND_FIXED:
            total += c.rows * c.width
        elif c.kind == KIND_BOOL:
            total += (c.rows + 7) >> 3
        elif c.kind != KIND_STRUCT:
            total += 4 * (c.rows + 1) + c.used
    for i in range(c.children_count):
        total += col_octets(&c.children[i])
    return total


cdef class BatchBuffer:
    """One buffer of a batch, read-only."""

    cdef Batch batch
    cdef const uint8_t* at
    cdef Py_ssize_t size[1]
    cdef Py_ssize_t stride[1]

    def __getbuffer__(self, Py_buffer* view, int flags):
        if flags & PyBUF_WRITABLE:
            raise BufferError("the columns of a batch are read-only")
        view.buf = <void*>self.at
        view.obj = self
        view.len = self.size[0]
        view.readonly = 1
        view.itemsize = 1
        view.format = NULL
        if flags & PyBUF_FORMAT:
            view.format = "B"
        view.ndim = 1
        view.shape = self.size if flags & PyBUF_ND else NULL
        view.strides = self.stride if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL

    def __releasebuffer__(self, Py_buffer* view):
        pass


cdef BatchBuffer export_buffer(Batch batch, const uint8_t* at, int64_t size):
    cdef BatchBuffer b = BatchBuffer.__new__(BatchBuffer)
    b.batch = batch
    b.at = at
    b.size[0] = size
    b.stride[0] = 1
    return b


# ------------------------------------------------------------------------------------------------ Arrow C data interface

cdef struct ArrayPrivate:
    BatchMemory* memory
    const void* buffers[3]


cdef void release_array(ArrowArray* a) noexcept nogil:
    cdef ArrayPrivate* private = <ArrayPrivate*>a.private_data
    cdef int64_t i
    for i in range(a.n_children):
        if a.children[i].release != NULL:           # a consumer may have moved it
            a.children[i].release(a.children[i])
        free(a.children[i])
    free(a.children)
    a.release = NULL
    if private != NULL:
        drop_memory(private.memory)
        free(private)


cdef int export_col(Batch batch, const Col* c, Field field, int64_t rows, ArrowArray* a) except -1:
    """Fill `a`, which is all zero, with views of the batch. `a` can be released after an error, too."""
    cdef ArrayPrivate* private = <ArrayPrivate*>calloc(1, sizeof(ArrayPrivate))
    cdef bint empty = c != NULL and c.rows == 0
    cdef const uint8_t* zeros = batch.memory.zeros
    cdef int64_t i, children
    if private == NULL:
        raise MemoryError
    add_user(&batch.memory.users)
    private.memory = batch.memory
    a.private_data = private
    a.release = release_array
    a.buffers = private.buffers
    a.length = rows
    if c != NULL and rows:
        a.null_count = rows if empty else c.nulls
        private.buffers[0] = zeros if empty else c.validity
    if field.kind == KIND_OCTETS:
        a.n_buffers = 3
        private.buffers[1] = zeros if empty else <const uint8_t*>c.offsets
        private.buffers[2] = zeros if c.data == NULL else c.data
    elif field.kind == KIND_STRUCT:
        a.n_buffers = 1
    elif field.kind == KIND_LIST:
        a.n_buffers = 2
        private.buffers[1] = zeros if empty else <const uint8_t*>c.offsets
    else:
        a.n_buffers = 2
        private.buffers[1] = zeros if empty else c.data
    children = len(field.children)
    if not children:
        return 0
    a.children = <ArrowArray**>calloc(<size_t>children, sizeof(ArrowArray*))
    if a.children == NULL:
        raise MemoryError
    for i in range(children):
        a.children[i] = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        if a.children[i] == NULL:
            raise MemoryError
        a.n_children = i + 1
        if c == NULL:                               # the batch itself
            export_col(batch, &batch.memory.cols[i], field.children[i], rows, a.children[i])
        elif field.kind == KIND_STRUCT:
            export_col(batch, &c.children[i], field.children[i], rows, a.children[i])
        else:
            export_col(batch, &c.children[i], field.children[i], 0 if empty else c.offsets[c.rows], a.children[i])
    return 0


cdef int export_batch(Batch batch, ArrowArray* a) except -1:
    memset(a, 0, sizeof(ArrowArray))
    try:
        export_col(batch, NULL, batch.field, batch.num_rows, a)
    except BaseException:
        if a.release != NULL:
            a.release(a)
        raise
    return 0


cdef void release_schema(ArrowSchema* s) noexcept nogil:
    cdef int64_t i
    for i in range(s.n_children):
        if s.children[i].release != NULL:
            s.children[i].release(s.children[i])
        free(s.children[i])
    free(s.children)
    s.release = NULL
    if s.private_data != NULL and Py_IsInitialized():
        with gil:
            Py_DECREF(<object>s.private_data)


cdef int export_field(Field field, ArrowSchema* s) except -1:
    cdef int64_t i
    cdef Field child
    memset(s, 0, sizeof(ArrowSchema))
    Py_INCREF(field)
    s.private_data = <void*>field
    s.release = release_schema
    s.format = PyBytes_AS_STRING(field.format)
    s.name = PyBytes_AS_STRING(field.name_octets)
    s.flags = ARROW_FLAG_NULLABLE if field.nullable else 0
    if field.children:
        s.children = <ArrowSchema**>calloc(<size_t>len(field.children), sizeof(ArrowSchema*))
        if s.children == NULL:
            raise MemoryError
        for i, child in enumerate(field.children):
            s.children[i] = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
            if s.children[i] == NULL:
                raise MemoryError
            s.n_children = i + 1
            export_field(child, s.children[i])
    return 0


cdef void free_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema* s = <ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema")
    if s.release != NULL:
        s.release(s)
    free(s)


cdef void free_array_capsule(object capsule) noexcept:
    cdef ArrowArray* a = <ArrowArray*>PyCapsule_GetPointer(capsule, "arrow_array")
    if a.release != NULL:
        a.release(a)
    free(a)


cdef void free_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream* s = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if s.release != NULL:
        s.release(s)
    free(s)


cdef object new_schema_capsule(Field field):
    cdef ArrowSchema* s = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
    if s == NULL:
        raise MemoryError
    capsule = PyCapsule_New(s, "arrow_schema", free_schema_capsule)
    export_field(field, s)
    return capsule


cdef class StreamState:
    """The state of an exported stream: the type of its batches and their source."""

    cdef Field field
    cdef object batches         # iterator
    cdef bytes error            # what ended the stream; consumers hold its octets, so it is set once


cdef int stream_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept with gil:
    cdef StreamState state = <StreamState>stream.private_data
    try:
        export_field(state.field, out)
    except MemoryError:
        if out.release != NULL:
            out.release(out)
        if state.error is None:
            state.error = b"no memory"
        return 12                                       # ENOMEM
    return 0


cdef int stream_next(ArrowArrayStream* stream, ArrowArray* out) noexcept with gil:
    cdef StreamState state = <StreamState>stream.private_data
    cdef Batch batch
    memset(out, 0, sizeof(ArrowArray))                  # release NULL: the stream has ended
    if state.error is not None:
        return 5                                        # EIO
    try:
        batch = next(state.batches, None)
        if batch is not None:
            if not state.field.same_children(batch.field):
                raise TypeError(f"{batch!r} has other columns than its stream")
            export_batch(batch, out)
    except BaseException as error:
        if state.error is None:                         # a call in another thread may have failed, too
            state.error = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
        return 5                                        # EIO
    return 0


cdef const char* stream_error(ArrowArrayStream* stream) noexcept with gil:
    cdef bytes error = (<StreamState>stream.private_data).error
    if error is None:
        return NULL
    return PyBytes_AS_STRING(error)                     # the state keeps it alive


cdef void release_stream(ArrowArrayStream* stream) noexcept nogil:
    stream.release = NULL
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object>stream.private_data)
    stream.private_data = NULL


cdef object new_stream_capsule(Field field, batches):
    cdef StreamState state = StreamState.__new__(StreamState)
    cdef ArrowArrayStream* s = <ArrowArrayStream*>calloc(1, sizeof(ArrowArrayStream))
    if s == NULL:
        raise MemoryError
    state.field = field
    state.batches = batches
    Py_INCREF(state)
    s.private_data = <void*>state
    s.get_schema = stream_schema
    s.get_next = stream_next
    s.get_last_error = stream_error
    s.release = release_stream
    return PyCapsule_New(s, "arrow_array_stream", free_stream_capsule)


def schema_capsule(columns, names=None):
    """`__arrow_c_schema__` of (name, type) rows: all, or those in `names`, in that order."""
    return new_schema_capsule(ColumnSet(columns, names).row_type())


def stream_capsule(columns, batches, names=None):
    """`__arrow_c_stream__` of an iterator of Batches with these columns."""
    return new_stream_capsule(ColumnSet(columns, names).row_type(), iter(batches))


# ------------------------------------------------------------------------------------------------ some rows of a batch

cdef inline bint bit_of(const uint8_t* bits, int64_t i) noexcept nogil:
    return bits[i >> 3] >> (i & 7) & 1


cdef void copy_value(Col* to, int64_t row, const Col* of, int64_t old) noexcept nogil:
    """Put the value that a finished column has in row `old`."""
    cdef int64_t i, at
    if of.rows == 0 or (of.validity != NULL and not bit_of(of.validity, old)):
        return
    if of.kind == KIND_BOOL:
        put_bool(to, row, bit_of(of.data, old))
    elif of.kind == KIND_OCTETS:
        put_octets(to, row, of.data + of.offsets[old], of.offsets[old + 1] - of.offsets[old])
    elif of.kind == KIND_LIST:
        at = open_list(to, row)
        if at < 0:
            return
        for i in range(of.offsets[old], of.offsets[old + 1]):
            copy_value(to.children, at, of.children, i)
            at += 1
        close_list(to, at)
    elif of.kind == KIND_STRUCT:
        put_struct(to, row)
        for i in range(of.children_count):
            copy_value(&to.children[i], row, &of.children[i], old)
    elif of.width == 8:
        put_i64(to, row, (<int64_t*>of.data)[old])
    elif of.width == 4:
        put_i32(to, row, (<int32_t*>of.data)[old])
    elif of.width == 2:
        put_i16(to, row, (<int16_t*>of.data)[old])
    else:
        put_i8(to, row, (<int8_t*>of.data)[old])


def some_rows(Batch batch not None, rows, columns, names=None):
    """A Batch of some rows (their numbers, each an int64, in a buffer) of a Batch with columns of this table: all columns of the
    table, or those in `names`, in that order."""
    cdef ColumnSet made = ColumnSet(columns, names)
    cdef Input numbers = take_input(rows)
    cdef int64_t count = numbers.size // 8
    cdef const int64_t* at = <const int64_t*>numbers.at
    cdef int64_t i
    cdef const Col* of
    cdef Col* to
    for i in range(count):
        if not 0 <= at[i] < batch.num_rows:
            raise IndexError(f"no row {at[i]}; there are {batch.num_rows}")
    for k in made.chosen:
        of = &batch.memory.cols[batch.index((<Field>made.fields[k]).name)]
        to = &made.cols[<int>k]
        with nogil:
            for i in range(count):
                copy_value(to, i, of, at[i])
    return made.finish(count)
