"""The threads that libraries use."""

from threadpoolctl import threadpool_info


def blas_threads() -> set[int]:
    """The threads of the BLAS libraries of NumPy and SciPy."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
