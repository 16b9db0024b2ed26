"""The cache of database reads: entries are valid for one version, and old versions are dropped."""

from app.data import read_cache


def test_an_entry_is_cached_while_its_version_is_unchanged() -> None:
    read: list[tuple[str, str, int]] = []

    @read_cache.cached(2)
    def ask(url: str, what: str, version: int) -> list[object]:
        read.append((url, what, version))
        return [url, what, version]

    first = ask("db", "run 1", 5)
    assert ask("db", "run 1", 5) is first
    assert ask("db", "run 1", 6) == ["db", "run 1", 6]
    assert ask("db", "run 1", 5) == first
    assert read == [("db", "run 1", 5), ("db", "run 1", 6), ("db", "run 1", 5)]
    ask("db", "run 1", 5)
    ask("other", "run 1", 5)
    assert len(read) == 4


def test_the_least_recently_used_entry_is_dropped() -> None:
    read: list[str] = []

    @read_cache.cached(2)
    def ask(url: str, what: str, version: int) -> str:
        read.append(what)
        return what

    for what in ("a", "b", "a", "c", "a", "b"):
        ask("db", what, 0)
    assert read == ["a", "b", "c", "b"]
    for version in range(10):  # new versions of a run evict no other entry
        ask("db", "a", version)
    ask("db", "b", 0)
    assert read.count("b") == 2
