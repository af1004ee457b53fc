# Compressed streams -> their content, in pieces. Such streams are rare: zlib and cramjam decompress them, as Python objects
# that a direction of a flow owns.
#
# Snappy framing format: https://github.com/google/snappy/blob/main/framing_format.txt
import zlib

cdef enum:
    UNPACKED_PIECE = 1 << 16        # octets: the most that is decompressed at once
    UNPACKER_OCTETS = 48 << 10      # memory of an unpacker, without its waiting octets
    UNPACKED_RATIO = 100            # octets out per octet in that are always allowed
    SNAPPY_CHUNK_MAX = 76490 + 4    # octets of a chunk with 65536 octets in it, checksum included
    DEFLATE_WINDOW = 1 << 15        # octets that a deflate stream may refer back to: RFC 1951, 2


cdef bytes SNAPPY_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"


cdef bytes MESSAGE_TAIL = b"\x00\x00\xff\xff"           # what senders remove from the end of a message: RFC 7692, 7.2.1


cdef class Unpacker:
    """One direction of a compressed stream. `messages`: of a WebSocket's compressed messages (RFC 7692, 7.2.2), in which blocks
    may follow one that says it is the last."""
    cdef object inflate             # zlib's; None: snappy
    cdef bytes window               # `messages`: the last decompressed octets, for what follows a last block; else None
    cdef object decompress          # cramjam's
    cdef bytes rest                 # deflate: octets that wait
    cdef bytearray chunks           # snappy: octets that wait
    cdef int64_t skip               # snappy: octets of a chunk to skip
    cdef bint begun
    cdef int64_t taken, given       # octets in, octets out
    cdef bytes piece                # the last decompressed octets
    cdef size_t used                # used octets of it
    cdef int64_t counted            # octets of memory, as of the last count()

    def __init__(self, int carrier, bint messages=False):
        """Raises ImportError if the library is absent."""
        self.rest = self.piece = b""
        if carrier == CARRIER_DEFLATE:
            self.inflate = zlib.decompressobj(-15)
            self.window = b"" if messages else None
        else:
            from cramjam import snappy
            self.decompress = snappy.decompress
            self.chunks = bytearray()

    cdef int64_t count(self):
        """Octets of memory used now, less those at the last count."""
        cdef int64_t before = self.counted
        self.counted = UNPACKER_OCTETS + len(self.rest) + len(self.piece)
        if self.chunks is not None:
            self.counted += len(self.chunks)
        if self.window is not None:
            self.counted += DEFLATE_WINDOW
        return self.counted - before

    cdef int feed(self, const uint8_t* p, size_t n, bint ends=False) except -1:
        """All earlier octets have been used. `ends`: a message ends with these."""
        octets = PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n)
        self.taken += <int64_t>n
        if ends:
            octets += MESSAGE_TAIL
        if self.inflate is not None:
            self.rest = octets
        else:
            self.chunks += octets
        return 0

    cdef bint next(self) except -1:
        """Make the next octets available at piece[used:], at most UNPACKED_PIECE. False: more input is needed. Raises if the
        stream is invalid."""
        cdef bytes out
        if self.used < <size_t>PyBytes_GET_SIZE(self.piece):
            return True
        if self.inflate is None:
            out = self.next_chunk()
        else:
            out = self.inflate.decompress(self.rest, UNPACKED_PIECE)
            self.rest = self.inflate.unconsumed_tail
            if self.window is not None:
                out = self.next_blocks(out)
            elif self.inflate.unused_data:
                raise ValueError("bytes after its end")
        self.given += len(out)
        self.piece = out
        self.used = 0
        return len(out) > 0

    cdef bytes next_blocks(self, bytes out):
        """A block that says it is the last ends at a byte; the next one may refer to what was before (RFC 7692, 7.2.1)."""
        self.window = (self.window + out)[-DEFLATE_WINDOW:]
        while self.inflate.eof:
            self.rest = self.inflate.unused_data
            self.inflate = zlib.decompressobj(-15, self.window)
            if out or not self.rest:
                break
            out = self.inflate.decompress(self.rest, UNPACKED_PIECE)
            self.rest = self.inflate.unconsumed_tail
            self.window = (self.window + out)[-DEFLATE_WINDOW:]
        return out

    cdef bytes next_chunk(self):
        cdef Py_ssize_t size
        cdef int type
        cdef bytes out = b""
        while not out:
            if self.skip:
                size = min(<Py_ssize_t>self.skip, len(self.chunks))
                del self.chunks[:size]
                self.skip -= size
            if len(self.chunks) < 4:
                break
            type = self.chunks[0]
            size = int.from_bytes(self.chunks[1:4], "little")
            if 0x80 <= type < 0xFF:                     # padding, and chunks that may be skipped
                self.skip = 4 + size
                continue
            if type != 0xFF and type > 1:
                raise ValueError(f"chunk type {type}")
            if size > SNAPPY_CHUNK_MAX or (type == 0xFF and size != 6):
                raise ValueError(f"a chunk of {size} bytes")
            if len(self.chunks) < 4 + size:
                break
            chunk = bytes(self.chunks[:4 + size])
            del self.chunks[:4 + size]
            if type == 0xFF:
                if chunk != SNAPPY_IDENTIFIER:
                    raise ValueError("not the stream identifier")
                self.begun = True
            elif not self.begun:
                raise ValueError("no stream identifier")
            else:
                out = bytes(self.decompress(SNAPPY_IDENTIFIER + chunk))
        return out
