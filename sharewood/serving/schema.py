"""The schema of a service's requests and responses, from the features of its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, create_model

from mpc.errors import DataError
from secure_tree.agreement.messages import Text
from secure_tree.data.categories import one_hot
from secure_tree.data.table import checked_features
from secure_tree.public.config import TrainConfig
from secure_tree.public.names import columns_behind, indicator
from sharewood.tables.columns import Columns

Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]
_ID = "row_id"


class Answer(BaseModel):
    """A prediction for each row, in the order of the request: a number, or one for each class; and, if the request
    asks for them, its reasons, the strongest first: names, or names with numbers.
    """

    model: str
    output: str
    predictions: list[float] | list[list[float]]
    reasons: list[list[str]] | list[list[tuple[str, float]]] | None = None


class HalfOfRows(BaseModel):
    """A client's half of its rows: base64 of the keys, 8 bytes each, and the id that the other half has as well."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    half: str
    reasons: Any = None


class HalfOfMargins(BaseModel):
    """This party's half of the margins of the rows, in base64 likewise, class by class."""

    model: str
    half: str


class Problem(BaseModel):
    """The reason why there is no prediction, in one sentence."""

    detail: str


class RequestSchema:
    """Return the schema of a request: one column per feature, `id` if rows have ids, at most `most` rows, and how many
    `reasons` of each it asks for, of at most `top`.
    """

    def __init__(
        self, names: Sequence[str], columns: Columns, config: TrainConfig, id: str | None, most: int, top: int = 0
    ) -> None:
        self._names, self._config, self._top = names, config, top
        self._behind = columns_behind(names, list(columns.features(columns.known)))
        fields: dict[str, Any] = {}
        for place, (name, categories) in enumerate(self._behind.items()):
            kind: Any = Literal[tuple(categories)] if categories else Number
            optional = columns.role(name).missing or config.may_miss(name)
            fields[f"f{place}"] = (kind | None, Field(None, alias=name)) if optional else (kind, Field(alias=name))
        if id is not None:
            fields[_ID] = (Annotated[Text, Field(min_length=1, max_length=1000)], Field(alias=id))
        row = create_model("Row", __config__=ConfigDict(extra="forbid"), **fields)
        rows = (list[row], Field(min_length=1, max_length=most))  # type: ignore[valid-type]  # it is made above
        reasons: Any = (Annotated[int, Field(strict=True, ge=1, le=top)] | None if top else Any, None)
        self.schema = create_model("Rows", __config__=ConfigDict(extra="forbid"), rows=rows, reasons=reasons)

    def read(self, body: Any) -> tuple[np.ndarray, list[str] | None]:
        """Convert a checked request to features float32[n, d], and ids if rows have them. Raises DataError."""
        if body.reasons is not None and not self._top:
            raise DataError("reasons: this service gives none, because its configuration has predict.reasons = 0")
        names, parts = list[str](), list[np.ndarray]()
        for place, (name, categories) in enumerate(self._behind.items()):
            values = [getattr(row, f"f{place}") for row in body.rows]
            if categories:
                codes = [-1 if value is None else categories.index(value) for value in values]
                names += [indicator(name, category) for category in categories]
                parts.append(one_hot(np.array(codes), len(categories)))
            else:
                names.append(name)
                parts.append(np.array(values, np.float64)[:, None])
        features = checked_features(np.concatenate(parts, axis=1), names, self._config, "rows")
        return features, [row.row_id for row in body.rows] if _ID in type(body.rows[0]).model_fields else None
