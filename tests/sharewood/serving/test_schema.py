"""What a service reads of a request: its rows, checked and in order, or a sentence about the first wrong place."""

import json

import numpy as np
import pytest

from mpc.errors import DataError
from secure_tree.public.config import TrainConfig
from sharewood.serving.schema import RequestSchema
from sharewood.tables.columns import Column, Columns

SHOP = Column(type="categorical", categories=("north", "south"), missing=True)
NAMES = ("age", "b b", "shop=north", "shop=south")


def schema(id=None, most=5, top=0):
    return RequestSchema(
        NAMES, Columns({"shop": SHOP}), TrainConfig.of(missing=("age", "shop=north", "shop=south")), id, most, top
    )


def body(*rows, **more):
    return json.dumps({"rows": rows, **more}).encode()


def test_rows_become_features_in_the_order_of_the_model():
    rows = {"b b": 2, "age": 1.5, "shop": "south"}, {"shop": None, "b b": -3.25, "age": None}, {"b b": 1e-50}
    features, ids, each = schema().read(body(*rows))
    expected = np.array([[1.5, 2, 0, 1], [np.nan, -3.25, np.nan, np.nan], [np.nan, 0, np.nan, np.nan]], np.float32)
    assert features.dtype == np.float32 and np.array_equal(features, expected, equal_nan=True)
    assert ids is None and each == 0


def test_ids_and_reasons():
    features, ids, each = schema("id", top=3).read(body({"b b": 1, "id": "x"}, {"id": "y", "b b": 2}, reasons=2))
    assert features[:, 1].tolist() == [1, 2] and ids == ["x", "y"] and each == 2
    assert schema("id", top=3).read(body({"b b": 1, "id": "x"}, reasons=None))[2] == 0


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"", "body: Invalid JSON"),
        (b'{"rows": [', "body: Invalid JSON"),
        (b"[" * 100_000, "body: Invalid JSON: recursion limit"),
        (b'{"rows": [{"b b": 1, "shop": "\xff"}]}', "body: Invalid JSON"),
        (b"[]", "body: Input should be an object"),
        (b"{}", "rows: Field required"),
        (body(), "rows: List should have at least 1 item"),
        (body(*[{"b b": 1}] * 6), "rows: List should have at most 5 items"),
        (body({"b b": 1}, {"age": 1}), "rows.1.b b: Field required"),
        (body({"b b": 1, "c": 1}), "rows.0.c: Extra inputs are not permitted"),
        (body({"b b": 1}, more=1), "more: Extra inputs are not permitted"),
        (body([1, 2]), "rows.0: Input should be an object"),
        (body({"b b": None}), "rows.0.b b: Input should be a valid number"),
        (body({"b b": "1"}), "rows.0.b b: Input should be a valid number"),
        (body({"b b": True}), "rows.0.b b: Input should be a valid number"),
        (body({"b b": float("nan")}), "rows.0.b b: Input should be a finite number"),
        (body({"b b": float("inf")}), "rows.0.b b: Input should be a finite number"),
        (b'{"rows": [{"b b": 1e400}]}', "rows.0.b b: Input should be a finite number"),
        (b'{"rows": [{"b b": 1%s}]}' % (b"0" * 400), "rows.0.b b: Input should be a finite number"),
        (body({"b b": 1e39}), "column 'b b', row 0: value is infinite, or beyond float32"),
        (body({"b b": 1, "shop": "west"}), "rows.0.shop: Input should be 'north' or 'south'"),
        (body({"b b": 1}, reasons=1), "reasons: this service gives none"),
    ],
)
def test_a_wrong_request_is_refused_with_its_place(sent, sentence):
    with pytest.raises(DataError) as refusal:
        schema().read(sent)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("each", [0, 4, True, "2", 1.5])
def test_a_wrong_number_of_reasons_is_refused(each):
    with pytest.raises(DataError, match=r"^reasons: "):
        schema(top=3).read(body({"b b": 1}, reasons=each))


@pytest.mark.parametrize("id", ["", 5, None, "a\0", "a" * 1001])
def test_a_wrong_id_is_refused(id):
    with pytest.raises(DataError, match=r"^rows\.0\.id: "):
        schema("id").read(body({"b b": 1, "id": id}))


def test_the_published_schema_names_every_feature():
    content = schema("id", top=3).described["content"]["application/json"]["schema"]
    rows = content["properties"]["rows"]
    assert rows["maxItems"] == 5 and list(rows["items"]["properties"]) == ["age", "b b", "shop", "id"]
    assert rows["items"]["required"] == ["b b", "id"] and not rows["items"]["additionalProperties"]
    assert "$ref" not in json.dumps(content)
