"""The schema of a service's requests and responses, from the features of its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, with_config
from typing_extensions import TypedDict

from mpc.errors import DataError
from secure_tree.agreement.messages import Text
from secure_tree.data.categories import one_hot
from secure_tree.data.table import checked_features
from secure_tree.public.config import TrainConfig
from secure_tree.public.names import columns_behind, indicator
from sharewood.tables.columns import Columns

Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]


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


def first_problem(errors: Sequence[Any], within: int = 0) -> str:
    """Return a sentence about the first one of pydantic's errors, whose place begins `within` steps down."""
    place = ".".join(map(str, errors[0]["loc"][within:]))
    return f"{place or 'body'}: {errors[0]['msg']}"[:1000]


class RequestSchema:
    """Return the schema of a request: one column per feature, `id` if rows have ids, at most `most` rows, and how many
    `reasons` of each it asks for, of at most `top`.
    """

    def __init__(
        self, names: Sequence[str], columns: Columns, config: TrainConfig, id: str | None, most: int, top: int = 0
    ) -> None:
        self._names, self._config, self._id, self._top = names, config, id, top
        self._behind = columns_behind(names, list(columns.features(columns.known)))
        fields: dict[str, Any] = {}
        for name, categories in self._behind.items():
            kind: Any = Literal[tuple(categories)] if categories else Number
            optional = columns.role(name).missing or config.may_miss(name)
            fields[name] = NotRequired[kind | None] if optional else kind
        if id is not None:
            fields[id] = Annotated[Text, Field(min_length=1, max_length=1000)]
        # Dictionaries: a request has many rows, and an object for each takes longer than their checks.
        plain: Any = TypedDict("Row", fields)  # type: ignore[misc]  # the names are those of the model's features
        row: Any = with_config(ConfigDict(extra="forbid"))(plain)
        rows = (list[row], Field(min_length=1, max_length=most))
        reasons: Any = (Annotated[int, Field(strict=True, ge=1, le=top)] | None if top else Any, None)
        self._schema = create_model("Rows", __config__=ConfigDict(extra="forbid"), rows=rows, reasons=reasons)

    @property
    def described(self) -> dict[str, Any]:
        """The body of a request in OpenAPI's terms."""
        schema = self._schema.model_json_schema()
        schema["properties"]["rows"]["items"] = schema.pop("$defs")["Row"]
        return {"required": True, "content": {"application/json": {"schema": schema}}}

    def read(self, body: bytes) -> tuple[np.ndarray, list[str] | None, int]:
        """Convert a request to features float32[n, d], ids if rows have them, and the number of reasons for each.

        Raises DataError.
        """
        try:
            asked: Any = self._schema.model_validate_json(body)
        except ValidationError as error:
            raise DataError(first_problem(error.errors(include_url=False))) from None
        if asked.reasons is not None and not self._top:
            raise DataError("reasons: this service gives none, because its configuration has predict.reasons = 0")
        names, parts = list[str](), list[np.ndarray]()
        for name, categories in self._behind.items():
            values = [row.get(name) for row in asked.rows]
            if categories:
                codes = [-1 if value is None else categories.index(value) for value in values]
                names += [indicator(name, category) for category in categories]
                parts.append(one_hot(np.array(codes), len(categories)))
            else:
                names.append(name)
                parts.append(np.array(values, np.float64)[:, None])
        features = checked_features(np.concatenate(parts, axis=1), names, self._config, "rows")
        ids = None if self._id is None else [row[self._id] for row in asked.rows]
        return features, ids, asked.reasons or 0
