"""Memory of the chunks of a file: a chunk does not change while anybody holds it."""

from pathlib import Path

from wirefmt.capture._engine import Blocks


def test_a_chunk_that_is_held_stays_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(bytes([i]) * 1000 for i in range(10)) + b"end")
    blocks = Blocks(1000)
    with path.open("rb", buffering=0) as file:
        held = blocks.read(file)
        parts = [blocks.read(file)[10:20] for _ in range(3)]
        assert held == bytes(1000)
        assert parts == [bytes([i]) * 10 for i in (1, 2, 3)]
        del parts
        for i in range(4, 10):
            assert blocks.read(file) == bytes([i]) * 1000
        assert bytes(blocks.read(file)) == b"end"
        assert len(blocks.read(file)) == 0
        assert held == bytes(1000)


def test_memory_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))
    blocks = Blocks(1000)
    with path.open("rb", buffering=0) as file:
        first = blocks.read(file)
        second = blocks.read(file)
        where = id(first.obj)
        assert id(second.obj) != where
        del first
        assert id(blocks.read(file).obj) == where
