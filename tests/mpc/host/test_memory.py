"""The bound of a process's memory: never above a limit that it has already, and that of its container."""

import multiprocessing
import resource

import pytest

from mpc.host import process

LIMIT = 1 << 50


def bounded(limits, size, report):
    resource.setrlimit(resource.RLIMIT_AS, limits)
    process.bound_memory(size)
    report.send(resource.getrlimit(resource.RLIMIT_AS))


@pytest.mark.parametrize(
    "limits", [(LIMIT, LIMIT), (LIMIT, 2 * LIMIT), (LIMIT, resource.RLIM_INFINITY)], ids=["hard", "soft", "soft only"]
)
def test_a_limit_that_a_process_has_is_not_raised(limits):
    """`ulimit -v` and systemd's LimitAS= set one; a process may not raise a hard limit."""
    fork = multiprocessing.get_context("fork")
    for size, expected in ((4 * LIMIT, LIMIT), (1 << 40, None)):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=bounded, args=(limits, size, theirs))
        process.start()
        theirs.close()
        soft, hard = ours.recv()
        process.join()
        assert soft == hard and (soft == expected if expected else 1 << 40 < soft < LIMIT)


@pytest.mark.parametrize("version", [0, 1])
def test_the_memory_of_a_container_is_found_in_both_versions_of_control_groups(monkeypatch, tmp_path, version):
    bounds = [str(tmp_path / name) for name in ("memory.max", "memory.limit_in_bytes")]
    monkeypatch.setattr(process, "_BOUNDS", bounds)
    whole = process.machine_memory()
    (tmp_path / "memory.max").write_text("max\n")
    assert process.machine_memory() == whole > 1 << 20
    with open(bounds[version], "w") as file:
        file.write("1048576\n")
    assert process.machine_memory() == 1 << 20
    with open(bounds[version], "w") as file:
        file.write("9223372036854771712\n")
    assert process.machine_memory() == whole
