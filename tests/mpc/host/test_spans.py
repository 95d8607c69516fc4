"""Spans: what a stage took, with public numbers; none without OpenTelemetry."""

import subprocess
import sys

import pytest

from mpc.host.spans import span
from protocols.testing.two_parties import run_both


def test_a_span_has_public_attributes_and_continues_a_trace(exported):
    trace = "0af7651916cd43dd8448eb211c80319c"
    with span("request", {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}, path="/v1/predict") as described:
        described(status=200)
    (made,) = exported()
    assert made.name == "request" and f"{made.context.trace_id:032x}" == trace
    assert dict(made.attributes) == {"path": "/v1/predict", "status": 200}


def test_a_failed_span_says_so_and_passes_the_error_on(exported):
    with pytest.raises(ValueError, match="odd"), span("batch"):
        raise ValueError("odd")
    assert not exported()[0].status.is_ok


def test_each_stage_is_a_span_at_each_party(exported):
    def program(party):
        with party.stage("setup"), party.stage("setup"), party.stage("inner"):
            pass

    run_both(program)
    assert sorted((made.name, made.attributes["rank"]) for made in exported()) == [
        ("inner", 0), ("inner", 1), ("setup", 0), ("setup", 1),
    ]  # fmt: skip


def test_without_opentelemetry_there_are_none():
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from mpc.host.spans import span\n"
        "with span('batch', {}, rows=1) as described: described(status=2)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
