"""Files that come with imported runs: whether models are those of such a run, and findings those of such an analysis.

Only their headers are read, without torch; what a page or an analysis takes for granted is checked here, once.
"""

from engine.core.errors import CheckpointInvalid
from engine.core.safetensors_header import Tensor, layout, metadata

INITIAL, GLOBAL, PERSONALIZED = "initial/", "global/", "personalized/"
NUMBERS = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}


def check_models(data: bytes, num_clients: int) -> bytes:
    """``data`` itself. Raises CheckpointInvalid where these are not the models of so many clients."""
    tensors = layout(data)
    if odd := next((name for name, t in tensors.items() if t.dtype not in NUMBERS), None):
        raise CheckpointInvalid(f"{odd[:100]!r} holds {tensors[odd].dtype}, which is no number of a model")
    if odd := next((name for name in tensors if not name.startswith((INITIAL, GLOBAL, PERSONALIZED))), None):
        raise CheckpointInvalid(f"{odd[:100]!r} is none of the models of a run")
    _check_number(data, num_clients)
    initial = _under(INITIAL, tensors)
    common, own = _under(GLOBAL, tensors), _under(PERSONALIZED, tensors)
    if not initial or not (common or own):
        raise CheckpointInvalid("it holds no start, or no model of the clients")
    for name, tensor in own.items():
        _check_shape(f"{PERSONALIZED}{name}", tensor, initial.get(name), [num_clients])
    for name, tensor in common.items():
        _check_shape(f"{GLOBAL}{name}", tensor, initial.get(name), [num_clients, None])
    return data


def _check_number(data: bytes, num_clients: int) -> None:
    try:
        said = metadata(data)["num_clients"]
    except (ValueError, KeyError) as error:
        raise CheckpointInvalid(f"it does not say of how many clients it is ({error})") from error
    if said != str(num_clients):
        raise CheckpointInvalid(f"it is of {said[:20]!r} clients, but the run has {num_clients}")


def _check_shape(name: str, tensor: Tensor, initial: Tensor | None, counts: list[int | None]) -> None:
    """Shaped as the start, with the clients before it where ``counts`` says so; a part that the start lacks too."""
    start = None if initial is None else initial.shape
    for count in counts:
        before = () if count is None else (count,)
        if tensor.shape[: len(before)] == before and start in (None, tensor.shape[len(before) :]):
            return
    raise CheckpointInvalid(f"{name[:100]!r} has the shape {list(tensor.shape)}, but the start has {start}")


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
