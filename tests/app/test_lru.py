"""The cache of the most recently used values."""

from app.data.lru import Lru


def test_the_least_recently_used_value_goes_first() -> None:
    cache: Lru[str, int] = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_value_is_made_once() -> None:
    cache: Lru[str, list[int]] = Lru(2)
    made = [cache.get_or_put("a", list) for _ in range(3)]
    assert made[0] is made[1] is made[2]


def test_a_failed_value_is_not_kept() -> None:
    cache: Lru[str, int] = Lru(2)
    try:
        cache.get_or_put("a", lambda: 1 // 0)
    except ZeroDivisionError:
        assert cache.get_or_put("a", lambda: 5) == 5
