"""No compression: every number is sent as it is."""

from dataclasses import dataclass

from engine.compressors import Compressor, Updates
from engine.core.registry import COMPRESSORS


@COMPRESSORS.register("none", title="None", paper="Numbers as they are")
@dataclass(frozen=True)
class Uncompressed(Compressor):
    def compress(self, updates: Updates) -> None:
        return None
