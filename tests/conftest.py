"""Keep tests apart from each other, and the programs that they start apart from the test runner."""

import logging
import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # pytest-xdist sets it to the path of its workers, which is not meant for the programs that tests start.
    os.environ.pop("PYTHONPATH", None)


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory):
    """Keep the notes on material that tests use out of the user's folder."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def same_log_level():
    """Restore the log level, which commands that run in this process change."""
    ours = logging.getLogger("sharewood")
    level = ours.level
    yield
    ours.setLevel(level)


@pytest.fixture(scope="session")
def exporter():
    """Collect the spans of this process, in memory."""
    sdk, memory = (
        pytest.importorskip(f"opentelemetry.sdk.trace{more}") for more in ("", ".export.in_memory_span_exporter")
    )
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider, kept = sdk.TracerProvider(), memory.InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    return kept


@pytest.fixture
def exported(exporter):
    """Return a function that returns the spans made since the test began."""
    exporter.clear()
    return exporter.get_finished_spans
