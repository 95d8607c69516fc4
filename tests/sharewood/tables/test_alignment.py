"""Tables joined in shards: in shard i both parties' files have the same ids in the same order, and cells as written."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from mpc.errors import DataError
from protocols.transport.memory import memory_pair
from sharewood.tables import alignment as shard_alignment
from sharewood.tables.alignment import align_in_shards, check_folder
from sharewood.tables.columns import Columns
from sharewood.tables.shards import MANIFEST, shards_of
from tests.sharewood.commands.hosting import both, write_job


@pytest.fixture
def tables(tmp_path):
    """A folder of CSV files with ids as text, and a parquet file with ids as numbers; 150 people are in both."""
    rng = np.random.default_rng(1)
    (tmp_path / "all_a").mkdir()
    for k, ids in enumerate(np.array_split(rng.permutation(250), 3)):
        lines = [f"{i},{i}.50,{'NA' if i % 3 else ''}" for i in ids]
        (tmp_path / "all_a" / f"{k}.csv").write_text("\n".join(["id,x,note", *lines]) + "\n")
    ids = rng.permutation(np.arange(100, 420))
    pd.DataFrame({"id": ids, "y": ids % 2, "z": np.where(ids % 5, ids, np.nan)}).to_parquet(tmp_path / "all_b.parquet")
    return tmp_path


def align_both(folder, count=4):
    """Return what align_in_shards returns or raises at both parties, in threads."""
    peers = memory_pair()

    def run(rank):
        source = folder / ("all_b.parquet" if rank else "all_a")
        try:
            return align_in_shards(
                peers[rank], rank, source, Columns.inferred(), count, folder / f"joined_{'ab'[rank]}"
            )
        except Exception as error:
            peers[rank].close()
            return error

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, (0, 1)))


def check_joined(folder, count=4):
    ours, theirs = (shards_of(folder / name, Columns.inferred(), count) for name in ("joined_a", "joined_b"))
    found = []
    for one, other in zip(ours, theirs, strict=True):
        first = pd.read_csv(one.parts[0].path, dtype=str, keep_default_na=False)
        second = pd.read_parquet(other.parts[0].path)
        assert list(first) == ["id", "x", "note"] and list(second) == ["id", "y", "z"]
        assert first["id"].tolist() == second["id"].astype(str).tolist() == sorted(first["id"])
        assert (first["x"] == first["id"] + ".50").all()
        assert (first["note"] == np.where(first["id"].astype(int) % 3, "NA", "")).all()
        assert second["id"].dtype == np.int64 and (second["y"] == second["id"] % 2).all()
        assert one.rows == other.rows == len(first)
        found += first["id"].astype(int).tolist()
    assert sorted(found) == list(range(100, 250))


def test_shards_have_the_same_ids_in_the_same_order(ray, tables, monkeypatch):
    monkeypatch.setattr(shard_alignment, "PIECE", 30)
    assert align_both(tables) == [(150, 250), (150, 320)]
    check_joined(tables)
    assert not list(tables.glob("*.partial"))
    # Repeat it with another key and another division, in the same place.
    before = [shard.rows for shard in shards_of(tables / "joined_a", Columns.inferred(), 4)]
    assert align_both(tables) == [(150, 250), (150, 320)]
    check_joined(tables)
    assert before != [shard.rows for shard in shards_of(tables / "joined_a", Columns.inferred(), 4)]


def test_an_id_that_appears_twice_is_named_by_its_file(ray, tables):
    path = tables / "all_a" / "1.csv"
    twice = (tables / "all_a" / "0.csv").read_text().splitlines()[3].split(",")[0]
    path.write_text(path.read_text() + f"{twice},1,\n")
    line = len(path.read_text().splitlines())
    first, _ = align_both(tables)
    assert isinstance(first, DataError)
    assert str(first) == f"{path}: column 'id', line {line}: id {twice!r} appears twice"
    assert not (tables / "joined_a").exists() and not list(tables.glob("*.partial"))


def test_what_cannot_be_joined_is_one_sentence(ray, tables):
    (tables / "all_a" / "2.csv").write_text("id,x,note\n7,1,\n,2,\n")
    assert "2.csv: column 'id', line 3: the id is missing" in str(align_both(tables)[0])
    for name in ("0", "1", "2"):
        (tables / "all_a" / f"{name}.csv").write_text(f"id,x,note\nq{name},1,\nr{name},2,\n")
    for said in align_both(tables, 2):
        assert "none in common; ids are compared as text" in str(said)
    (tables / "all_a" / "0.csv").write_text("id,x,note\n100,1,\n")
    for said in align_both(tables, 3):
        assert isinstance(said, DataError) and "of 3 has no common ids: set fewer shards" in str(said)
    assert not (tables / "joined_a").exists() and not (tables / "joined_b").exists()


def test_a_folder_of_something_else_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    check_folder(tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("")
    with pytest.raises(DataError, match="a folder that sharewood align --shards has not made"):
        check_folder(tmp_path / "out")
    (tmp_path / "out" / MANIFEST).write_text("")
    check_folder(tmp_path / "out")
    with pytest.raises(DataError, match="there is no such folder"):
        check_folder(tmp_path / "not" / "there")


@pytest.mark.long
def test_the_command_between_two_processes(tables):
    sections = {
        "party_a": {"align_data": "all_a", "aligned": "joined_a"},
        "party_b": {"align_data": "all_b.parquet", "aligned": "joined_b"},
    }
    write_job(tables, sections)
    assert [text.split(" rows")[0] for text in both("align", "--shards", "4", cwd=tables)] == [
        "aligned: 150 of 250",
        "aligned: 150 of 320",
    ]
