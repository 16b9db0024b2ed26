"""Fields of training, for all methods or for one. Local training is counted in steps or in epochs, never in both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from app.forms import DrawField, Form, parameters_of
from app.setup.sweeps import UNITS
from engine.config.options import Training


def training_fields(
    form: Form, values: Mapping[str, Any], path: str, fields: Sequence[str], draw: DrawField, key: str = ""
) -> dict[str, Any]:
    key = key or path
    chosen = _local_work(form, values, path, key, [unit for unit in UNITS if unit in fields], draw)
    rest = [field for field in fields if field not in UNITS]
    return chosen | form.options(Training, values, path, key=key, only=rest, draw=draw)


def _local_work(
    form: Form, values: Mapping[str, Any], path: str, key: str, units: Sequence[str], draw: DrawField
) -> dict[str, Any]:
    if not units:
        return {}
    left, right = st.columns(2, gap="medium")
    unit = units[0]
    if len(units) > 1:
        now = "local_epochs" if values.get("local_epochs") else "local_steps"
        started = form.start(f"{form.prefix}.{key}.work", now)
        label = "Local training per round"
        unit = left.segmented_control(label, units, required=True, format_func=UNITS.__getitem__, **started)
    parameter = replace(next(p for p in parameters_of(Training) if p.name == unit), type="int")
    with right if len(units) > 1 else left:
        start = values.get(unit) or (10 if unit == "local_steps" else 1)
        return {unit: draw(parameter, start, f"{path}.{unit}", key=f"{key}.{unit}")}
