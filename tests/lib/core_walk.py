"""Uses every object of the core in every way Python has, by force where it can: a crash ends this process.

    cd tests; python -m lib.core_walk constructors | methods | pickles | functions | known

The classes are not listed: they are those of the compiled modules. Exceptions are answers, but SystemError, which is
what C code raises that broke a rule of the interpreter. The last line says what was walked; core/test_objects.py reads it.
"""

from __future__ import annotations

import copy
import copyreg
import faulthandler
import inspect
import io
import pickle
import random
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from lib.compiled import compiled
from lib.protocols import EXAMPLES, MODULES
from wirefmt import amqp091, amqp10, mqtt, rocketmq
from wirefmt.convert import Container, Wire, convert

#: What the compiled modules have, by path within wirefmt: "mqtt._codec.decode".
NAMES: dict[str, Any] = {
    f"{module.__name__.removeprefix('wirefmt.')}.{name}": thing
    for module in compiled()
    for name, thing in vars(module).items()
}

COUNTS: Counter[str] = Counter()
AT = "nothing"


#: Modules of Python's whose classes the core imports; all others are the core's, whatever module they are shown in.
IMPORTED = ("wirefmt.errors", "wirefmt.framing", "wirefmt.protocols", "wirefmt.strictness", "wirefmt.spec.")


def classes() -> list[type]:
    """Those of the core, and those that Python made of them, named or not."""
    found: set[type] = {
        c for c in NAMES.values()
        if isinstance(c, type) and c.__module__.startswith("wirefmt.")
        and not c.__module__.startswith(IMPORTED) and not c.__module__.endswith(".spec")
    }  # fmt: skip
    new = set(found)
    subclasses: Callable[[type], list[type]] = type.__subclasses__
    while new:
        new = {below for c in new for below in subclasses(c)} - found
        found |= new
    return sorted(found, key=lambda c: (c.__module__, c.__qualname__))


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a call returns; None where it raises."""
    COUNTS["calls"] += 1
    try:
        return call(*args, **options)
    except SystemError:
        raise
    except Exception:  # any of them is an answer
        COUNTS["raised"] += 1
        return None


# ---- making objects


class Found(pickle.Unpickler):
    """Finds the current class, whatever its name: what a hostile pickle can name."""

    cls: type

    def find_class(self, module: str, name: str) -> Any:
        return self.cls


def unpickled(cls: type, opcodes: bytes) -> Any:
    reader = Found(io.BytesIO(b"\x80\x04cx\ny\n" + opcodes + b"."))
    reader.cls = cls
    return reader.load()


def makings(cls: type) -> Iterator[Callable[[], Any]]:
    """Ways to get an object of a class."""
    yield lambda: cls()
    yield lambda: cls.__new__(cls)  # type: ignore[call-overload]
    yield lambda: type.__call__(cls)
    for base in cls.__mro__:
        yield lambda base=base: base.__new__(cls)  # type: ignore[misc]
    for args in ((None,), (0,), (b"",), ("",), ((),), (1, 2), (b"\0" * 20, 5, -1, False)):
        yield lambda args=args: cls(*args)  # type: ignore[misc]
        yield lambda args=args: cls.__new__(cls, *args)  # type: ignore[misc]
    yield lambda: copyreg.__newobj__(cls)  # type: ignore[attr-defined]
    for base, state in ((object, None), (cls, None), (int, 0), (bytes, b""), (str, "")):
        yield lambda base=base, state=state: copyreg._reconstructor(cls, base, state)  # type: ignore
    yield lambda: unpickled(cls, b")\x81")  # NEWOBJ
    yield lambda: unpickled(cls, b")}\x92")  # NEWOBJ_EX
    yield lambda: unpickled(cls, b")\x81}b")  # NEWOBJ, BUILD
    yield lambda: unpickled(cls, b")R")  # REDUCE
    if issubclass(cls, (int, str, bytes, float)):  # of Python's own: values of any size
        for base, value in ((int, 1 << 70), (int, -1), (str, ""), (str, "ab\udc80"), (bytes, b""), (bytes, b"x" * 99)):
            yield lambda base=base, value=value: base.__new__(cls, value)  # type: ignore


# ---- using them

ODD: tuple[Any, ...] = (
    None,
    0,
    -1,
    1 << 70,
    b"",
    b"\0" * 64,
    "",
    "x",
    (),
    [None],
    {},
    {"x": None},
    object(),
    1.5,
    range(3),
)


def names_of(thing: Any) -> list[str]:
    """Attributes; of a class made of int, str, bytes or float those that it has beyond Python's own."""
    plain = next((c for c in (int, str, bytes, float) if isinstance(thing, c)), object)
    return [
        name for name in dir(thing) if plain is object or getattr(plain, name, None) is not getattr(type(thing), name)
    ]


def use(thing: Any) -> None:
    """Every attribute, method and special method."""
    COUNTS["objects"] += 1
    for name in names_of(thing):
        value = attempt(getattr, thing, name)
        attempt(setattr, thing, name, None)
        attempt(delattr, thing, name)
        if callable(value) and name not in ("__class__", "__init_subclass__", "__subclasshook__"):
            attempt(value)
            for odd in ODD:
                attempt(value, odd)
            attempt(value, None, None)
            attempt(value, b"", b"")
            attempt(value, 0, 0, 0)
    for call in (repr, str, hash, len, bool, int, float, dict, memoryview, copy.copy, copy.deepcopy, iter, reversed, vars,
                 inspect.signature, sys.getsizeof, encode, convert, Container):  # fmt: skip
        attempt(call, thing)
    if not isinstance(thing, int):  # of which bytes() makes as many octets
        attempt(bytes, thing)
        attempt(list, thing)
    for other in (thing, *ODD):
        for compare in ("__eq__", "__ne__", "__lt__", "__contains__", "__getitem__", "__add__", "__or__"):
            attempt(lambda other=other, compare=compare: getattr(thing, compare)(other))
            attempt(lambda other=other, compare=compare: getattr(other, compare)(thing))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        octets = attempt(pickle.dumps, thing, protocol)
        if octets is not None:
            COUNTS["pickled"] += 1
            attempt(repr, attempt(pickle.loads, octets))
    for key in ("__arrow_c_schema__", "__arrow_c_array__", "__arrow_c_stream__"):
        attempt(lambda key=key: getattr(thing, key)())


def encode(thing: Any) -> None:
    """As a value, a field, a message, of each protocol."""
    for module, examples in ((MODULES[name], examples) for name, examples in EXAMPLES.items()):
        for use in getattr(examples, "USES", ()):
            attempt(use, thing)
        if hasattr(module, "encode"):
            attempt(module.encode, thing)


def walk_constructors() -> None:
    for cls in classes():
        global AT
        AT = f"{cls.__module__}.{cls.__qualname__}"
        used = 0
        for make in makings(cls):
            thing = attempt(make)
            if type(thing) is cls and used < 4:
                use(thing)
                used += 1
        attempt(type, "Derived", (cls,), {})
        COUNTS["classes"] += 1


def walk_methods() -> None:
    """What a class has, called with any `self`."""
    for cls in classes():
        global AT
        for name, value in list(vars(cls).items()):
            AT = f"{cls.__module__}.{cls.__qualname__}.{name}"
            for function in (value, *(getattr(value, n, None) for n in ("__func__", "fget", "__get__", "__wrapped__"))):
                if not callable(function) or isinstance(function, type):
                    continue
                for odd in (*ODD, int, cls):
                    for args in ((), (odd,), (odd, odd)):
                        attempt(function, odd, *args)
                COUNTS["methods"] += 1
        COUNTS["classes"] += 1


# ---- objects that are real, and what becomes of their pickles


def samples() -> list[Any]:
    """Up to twelve objects of each class in the examples of every protocol, and what they hold."""
    per_class: dict[type, list[Any]] = {}

    def add(thing: Any) -> None:
        if type(thing).__module__.startswith("wirefmt.") and len(per_class.setdefault(type(thing), [])) < 12:
            per_class[type(thing)].append(thing)
            for name in getattr(type(thing), "__match_args__", ()):
                add(attempt(getattr, thing, name))
        elif isinstance(thing, (tuple, list)):
            for item in thing:
                add(item)

    for examples in EXAMPLES.values():
        for make in examples.samples():
            add(attempt(make))
    add(convert(amqp10.Message(body=b"x", application_properties={"k": amqp10.UByte(1)}), to="amqp091"))
    return [thing for things in per_class.values() for thing in things]


def changed(value: Any, r: random.Random) -> Any:
    """Something else in the place of an argument."""
    if r.random() < 0.2:
        return r.choice(ODD)
    if isinstance(value, bytes) and value:
        octets = bytearray(value)
        for _ in range(r.randrange(1, 4)):
            octets[r.randrange(len(octets))] = r.choice((0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)))
        return bytes(octets[: r.randrange(len(octets) + 1)] if r.random() < 0.3 else octets)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return r.choice((value + 1, value - 1, -value, 0, 1 << 31, 1 << 63, 1 << 40, 255, 77))
    if isinstance(value, tuple):
        items = [changed(v, r) if r.random() < 0.5 else v for v in value]
        return tuple(items[: r.randrange(len(items) + 1)] if r.random() < 0.2 else items)
    if isinstance(value, dict):
        return {r.choice((k, "x", None, 0)): changed(v, r) for k, v in value.items() if r.random() < 0.9}
    return r.choice((value, *ODD))


def restorers() -> dict[str, Callable[..., Any]]:
    return {name: f for name, f in NAMES.items() if name.rpartition(".")[2].startswith("restore")}


def functions() -> list[Callable[..., Any]]:
    """Those of the core."""
    kind = type(NAMES["mqtt._codec.matches"])
    return list(dict.fromkeys(f for f in NAMES.values() if type(f) is kind))


def walk_pickles() -> None:
    """What __reduce__ says, changed: the functions that pickles name, with any arguments."""
    r = random.Random(1)
    seen = set()
    global AT
    for thing in samples():
        AT = f"the pickle of a {type(thing).__qualname__}"
        COUNTS["classes"] += thing.__class__ not in seen
        seen.add(type(thing))
        again = pickle.loads(pickle.dumps(thing))
        assert type(again) is type(thing) and repr(again) == repr(thing), AT
        reduced = thing.__reduce_ex__(4)
        for _ in range(40):
            args = changed(reduced[1], r)
            look(attempt(reduced[0], *(args if isinstance(args, tuple) else (args,))))
    for name, restore in restorers().items():
        AT = name
        for count in range(7):
            for _ in range(60):
                look(attempt(restore, *(r.choice((*ODD, mqtt.Pingreq, thing)) for _ in range(count))))
        COUNTS["restorers"] += 1


def look(thing: Any) -> None:
    COUNTS["objects"] += 1
    for name in dir(thing):
        value = attempt(getattr, thing, name)
        if callable(value) and not name.startswith("__"):
            attempt(value)
    for call in (repr, hash, list, copy.copy, pickle.dumps, memoryview):
        attempt(call, thing)
    if not isinstance(thing, int):  # of which bytes() makes as many octets
        attempt(bytes, thing)
    attempt(lambda: thing == thing)
    attempt(lambda: thing.encode())


def walk_functions() -> None:
    """The functions of the core with any arguments."""
    r = random.Random(2)
    some = samples()
    global AT
    for function in functions():
        AT = f"{function.__module__}.{function.__name__}"
        words = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
        count = sum(p.kind is not p.KEYWORD_ONLY for p in inspect.signature(function).parameters.values())
        for _ in range(150):
            args = [r.choice(ODD) if r.random() < 0.7 else r.choice(some) for _ in range(count)]
            options = {name: r.choice(ODD) for name in words if r.random() < 0.3}
            attempt(function, *args, **options)
        COUNTS["functions"] += 1


# ---- crashes of their own kind


class Identifier(uuid.UUID):
    bytes = b"short"


class Empty(rocketmq.HeartbeatData):
    FIELDS = ()


def walk_known() -> None:
    """Objects of a caller's that are not what they seem. Each raises."""
    publish = amqp091.BasicMessage(amqp091.BasicPublish(channel=1), body=b"ab")
    restore: Any = publish.__reduce__()[0]
    frame = amqp10.Open(container_id="x").encode()
    calls: list[Callable[[], Any]] = [
        lambda: amqp10.encode_value(Identifier(int=5)),
        lambda: amqp10.encode_value(bytes.__new__(amqp10.Decimal128, b"x")),
        lambda: amqp10.encode_value([bytes.__new__(amqp10.Decimal32, b"")]),
        lambda: amqp10.encode_value(int.__new__(amqp10.UByte, 300)),
        lambda: amqp10.encode_value(str.__new__(amqp10.Char, "")),
        lambda: mqtt.Subscribe(packet_identifier=1, subscriptions=[None]),  # type: ignore[list-item]
        lambda: rocketmq.MessageExt(topic="t", born_host=()),  # type: ignore[arg-type]
        lambda: Empty().client_id,
        lambda: convert(Wire("amqp10", None), to="mqtt5"),  # type: ignore[arg-type]
        lambda: convert(Wire("amqp10", None), to="amqp10"),  # type: ignore[arg-type]
        lambda: restore(publish.method, publish.header, b"ab", (1 << 40,)),
        lambda: restore(publish.method, publish.header, b"ab", (3, -1)),
        lambda: restore(publish.method, publish.header, b"", ()),
        lambda: restore(amqp091.BasicAck(channel=1), publish.header, b"ab", ()),
        lambda: NAMES["amqp10._codec.restore_composite"](frame[8:]).extended_header,
        lambda: NAMES["_core.schema_capsule"]([("a", "list<" * 100_000 + "int8" + ">" * 100_000)]),
        lambda: NAMES["convert._engine.ConvertRules"]([(99, 99, 99, 99, None, 99, 99, 99, 99, None, 0, 0)], ("",)),
        lambda: NAMES["convert._engine.ConvertRules"]([(0, 1, 1, 1, None, 0, 0, 1, 1, None, 0, 7)], ("",)),
        lambda: NAMES["capture._engine.PacketScanner"](ports=[70_000]),
        lambda: NAMES["capture._engine.StreamTrace"]().segment_in((), (), 0, 0),
        lambda: NAMES["capture._engine.find_record"](b"", b"", 0, True, 0),
        lambda: mqtt.Packet.encode(5),  # type: ignore[arg-type]
        lambda: rocketmq.SendMessageRequestHeader.topic.fget(None),  # type: ignore[attr-defined]
        lambda: vars(rocketmq.CommandCustomHeader)["from_ext_fields"].__get__(None, int)({}),
    ]
    global AT
    for number, call in enumerate(calls):
        AT = f"call {number}"
        try:
            made = call()
        except Exception:  # what matters is that it is one
            COUNTS["raised"] += 1
        else:
            raise AssertionError(f"it gave {made!r}")


WALKS = {
    "constructors": walk_constructors, "methods": walk_methods, "pickles": walk_pickles, "functions": walk_functions,
    "known": walk_known,
}  # fmt: skip


def main() -> None:
    faulthandler.enable()
    sys.setrecursionlimit(500)
    try:
        WALKS[sys.argv[1]]()
    except BaseException:
        print(f"at {AT}", file=sys.stderr)
        raise
    print(" ".join(f"{name}={n}" for name, n in sorted(COUNTS.items())))


if __name__ == "__main__":
    main()
