"""Epsilon of a sequence of noisy sums.

A release is a sum of contributions, each of norm at most C, plus N(0, (z C)^2 I). z is the noise multiplier.
Neighboring data differ by one contributor: added or removed where contributors are drawn independently (Poisson),
replaced where their number is fixed.

Where everyone contributes, T releases are one Gaussian release with z / sqrt(T), whose epsilon is known exactly (Balle,
Wang, ICML 2018, Theorem 8). Where contributors are drawn, epsilon is computed from privacy loss distributions
(dp-accounting; Koskela et al., AISTATS 2020). dp-accounting takes seconds to import, so it is imported when it is first
needed.
"""

from collections.abc import Callable
from functools import lru_cache
from math import exp, inf, log, log1p, sqrt
from typing import Any

from scipy.special import log_ndtr

# Largest step of the discretized privacy losses at z >= 1.
_INTERVAL = 1e-3
_MOST_NOISE, _LEAST_NOISE = 1e6, 1e-2


@lru_cache(maxsize=4096)
def epsilon(rate: float, noise: float, releases: int, delta: float) -> float:
    """Epsilon of this many releases with Poisson sampling; neighbors differ by one contributor, added or removed.

    ``rate``: the chance q that a contributor takes part in a release; 1: all do. ``noise``: z. Without releases epsilon
    is 0; without noise it is infinite.
    """
    if releases == 0:
        return 0.0
    if noise == 0:
        return inf
    if rate == 1:
        return _epsilon_of_gaussian(noise / sqrt(releases), delta)
    dp = _library()
    event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    return float(_pld_accountant(rate, noise).compose(event, releases).get_epsilon(delta))


@lru_cache(maxsize=4096)
def epsilon_of_fixed_size(participants: int, clients: int, noise: float, releases: int, delta: float) -> float:
    """Epsilon where each release has exactly this many of the clients; neighbors differ by one client, replaced.

    Replacing a client moves the sum by up to 2 C. The smaller of two bounds: Renyi accounting of sampling without
    replacement (Wang, Balle, Kasiviswanathan, AISTATS 2019), and the exact epsilon without amplification by sampling.
    """
    if releases == 0:
        return 0.0
    if noise == 0:
        return inf
    bound = _epsilon_of_gaussian(noise / 2 / sqrt(releases), delta)
    if participants == clients:
        return bound
    dp = _library()
    from dp_accounting.rdp import RdpAccountant

    event = dp.SampledWithoutReplacementDpEvent(clients, participants, dp.GaussianDpEvent(noise / 2))
    sampled = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE).compose(event, releases)
    return min(bound, float(sampled.get_epsilon(delta)))


def noise_for(epsilon_of: Callable[[float], float], target: float) -> float:
    """The least noise z with ``epsilon_of(z) <= target``, to a thousandth. ``epsilon_of`` falls with z.

    Raises ValueError if no noise up to 10^6 reaches the target.
    """
    from scipy.optimize import brentq  # slow to import

    high = 1.0
    while epsilon_of(high) > target:
        high *= 2
        if high > _MOST_NOISE:
            raise ValueError(f"epsilon={target:g}: no noise multiplier up to {_MOST_NOISE:g} reaches it")
    low = high / 2
    while low > _LEAST_NOISE and epsilon_of(low) <= target:
        high, low = low, low / 2
    if epsilon_of(low) <= target:
        return low
    found = brentq(lambda z: epsilon_of(z) - target, low, high, xtol=1e-4, rtol=1e-4)
    return float(found if epsilon_of(found) <= target else found * 1.0002)


def noise_of_updates(noise: float, count_noise: float) -> float:
    """z of the updates if a noisy count is released beside them and both together are to cost ``noise``.

    z_D = (z^-2 - (2 s_b)^-2)^(-1/2); Andrew et al., NeurIPS 2021, Theorem 1. ``count_noise``: s_b. Raises ValueError if
    the count alone costs more.
    """
    if noise == 0:
        return 0.0
    if noise >= 2 * count_noise:
        raise ValueError(f"a count with the noise {count_noise:g} costs more than z = {noise:g} allows")
    return float((noise**-2 - (2 * count_noise) ** -2) ** -0.5)


def _epsilon_of_gaussian(noise: float, delta: float) -> float:
    """Exact epsilon of one release: the root of

    delta = Phi(1/(2 z) - epsilon z) - exp(epsilon) Phi(-1/(2 z) - epsilon z)
    """

    from scipy.optimize import brentq  # slow to import

    def excess(epsilon: float) -> float:
        """log delta at this epsilon, minus that of the target; in logarithms because exp(epsilon) overflows."""
        with_it, without = (float(log_ndtr(side / (2 * noise) - epsilon * noise)) for side in (1, -1))
        ratio = exp(min(epsilon + without - with_it, 0.0))
        return with_it + (log1p(-ratio) if ratio < 1 else -inf) - log(delta)

    high = 1.0
    if excess(0.0) <= 0:
        return 0.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def _library() -> Any:
    import dp_accounting

    return dp_accounting


def _pld_accountant(rate: float, noise: float) -> Any:
    """With steps of a quarter of a release's typical loss q / z, by which epsilon is about 1 % too large.

    At rates below 4e-5 that takes too long, so steps stay the same: at 1e-5 epsilon is 5 % too large. At z < 1 losses
    grow with 1/z^2, and so would the time.
    """
    from dp_accounting.pld import PLDAccountant

    interval = min(_INTERVAL, max(rate / 4, 1e-5) / noise) * max(1.0, noise**-2)
    return PLDAccountant(value_discretization_interval=interval)
