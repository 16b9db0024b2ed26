"""What was read is kept while it stands; what goes on leaves no trail of its earlier states."""

from app.data import read_cache


def test_an_answer_is_kept_while_its_subject_stands_as_it_does() -> None:
    read: list[tuple[str, str, int]] = []

    @read_cache.kept(2)
    def ask(url: str, what: str, state: int) -> list[object]:
        read.append((url, what, state))
        return [url, what, state]

    first = ask("db", "run 1", 5)
    assert ask("db", "run 1", 5) is first
    assert ask("db", "run 1", 6) == ["db", "run 1", 6]
    assert ask("db", "run 1", 5) == first
    assert read == [("db", "run 1", 5), ("db", "run 1", 6), ("db", "run 1", 5)]
    ask("db", "run 1", 5)
    ask("other", "run 1", 5)
    assert len(read) == 4


def test_no_more_than_so_many_are_kept_and_the_one_that_was_asked_for_longest_ago_goes() -> None:
    read: list[str] = []

    @read_cache.kept(2)
    def ask(url: str, what: str, state: int) -> str:
        read.append(what)
        return what

    for what in ("a", "b", "a", "c", "a", "b"):
        ask("db", what, 0)
    assert read == ["a", "b", "c", "b"]
    for state in range(10):  # a run that goes on pushes nobody out
        ask("db", "a", state)
    ask("db", "b", 0)
    assert read.count("b") == 2
