"""What a consortium agrees on: how many owners are enough, how many rows each may have, and what each consents to."""

import contextlib
import datetime as dt

import pytest

from mpc.errors import ConfigError, DataError, PeerFailure, PeerVanished, SharewoodError
from protocols.testing.two_parties import run_both
from secure_tree import SecureXGBClassifier
from secure_tree.exchange.plain_model import reveal_model
from secure_tree.owners import contributing
from secure_tree.owners.contributing import Owners, contribute
from secure_tree.owners.stored import Stored, keeping
from secure_tree.public import bounds
from secure_tree.public.bounds import Bounds, Consent
from tests.secure_tree.opened import contributing as in_threads
from tests.secure_tree.opened import train_both
from tests.secure_tree.owners.test_faults import HEARD, SENT, Faulty
from tests.secure_tree.owners.test_owners import PARAMETERS, changed, tables, two_bins
from tests.secure_tree.test_twin import check

LATER, BEFORE = dt.date(2999, 1, 1), dt.date(2020, 1, 1)


@pytest.fixture(scope="module")
def made():
    return tables((30, 25, 20, 15, 10), d=2)


def consenting(table, tag=None, where=(), **terms):
    """Return an owner with these terms, whose lines end at the messages `tag` of the parties `where`."""

    def play(lines):
        try:
            own = [Faulty(line, tag) if p in where else line for p, line in enumerate(lines)]
            return contribute(own, *table, consent=terms)
        finally:
            for line in lines:
                line.close()

    return play


def collected(folder, made, owners, absent=(), parameters=PARAMETERS, **limits):
    """Collect; return the owners that have contributed, and each owner's receipt or error."""
    lines, said = in_threads(owners)
    for rank in absent:
        lines[rank].pop("bank_1").close()

    def job(party):
        model = SecureXGBClassifier(**parameters)
        try:
            given = made[party.rank], lines[party.rank], folder / str(party.rank)
            return model.collect(party, *given[0], *given[1:], bounds=Bounds.of(**limits))
        finally:
            for line in lines[party.rank].values():
                line.close()

    results, _ = run_both(job)
    assert results[0] == results[1]
    return results[0], {
        name: each.exception(timeout=30) or each.result() for name, each in zip(owners, said, strict=True)
    }


def three(made, second=None):
    return {"bank_0": made[2], "bank_1": second or made[3], "bank_2": made[4]}


def trained_on(folder, made, kept, **more):
    """Train on the folders, and compare with the twin on the rows of those that were kept."""
    names = [each.name for each in kept]
    owners = {name: made[2 + int(name[-1])] for name in names}
    return train_both(
        *zip(*made[:2], strict=True), given=lambda rank: Stored(folder / str(rank), **more), owners=owners, **PARAMETERS
    )


@pytest.mark.parametrize("where", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("tag", [*SENT, *HEARD])
def test_an_owner_that_fails_counts_nowhere_and_the_others_are_kept(tmp_path, made, tag, where):
    kept, said = collected(tmp_path, made, three(made, consenting(made[3], tag, where)), least=2)
    names = [each.name for each in kept]
    assert names == (["bank_0", "bank_1", "bank_2"] if tag == "owner.receipt" else ["bank_0", "bank_2"])
    for rank in "01":
        assert sorted(path.stem for path in (tmp_path / rank).iterdir()) == names
    assert said["bank_0"]["rows"] == 20 and said["bank_2"]["rows"] == 10
    assert isinstance(said["bank_1"], SharewoodError)
    if tag == "owner.labels" and where == (0,):  # later, its values have moved the edges
        check(trained_on(tmp_path, made, kept), 2)


@pytest.mark.parametrize("absent", [(0,), (1,), (0, 1)])
def test_an_owner_that_does_not_come_to_both_parties_is_left_out(tmp_path, made, absent):
    kept, said = collected(tmp_path, made, three(made), absent, least=2)
    assert [each.name for each in kept] == ["bank_0", "bank_2"] and isinstance(said["bank_1"], PeerFailure)


def test_an_owner_that_lies_is_left_out(tmp_path, made, monkeypatch):
    changed(monkeypatch, "one_hot", 15, two_bins)
    kept, said = collected(tmp_path, made, three(made), least=1)
    assert [each.name for each in kept] == ["bank_0", "bank_2"]
    assert "bank_1: its rows have not one bin per feature" in str(said["bank_1"])


def test_too_few_owners_keep_nothing(tmp_path, made):
    with pytest.raises(
        DataError,
        match=r"least is 3, and .* of bank_0, bank_2: nothing is kept; bank_1: (bank_1 closed|the other party)",
    ):
        collected(tmp_path, made, three(made, consenting(made[3], "owner.bins", (1,))), least=3)
    assert list(tmp_path.iterdir()) == []


def test_a_silent_owner_delays_the_others_only_for_a_time(tmp_path, made):
    """It holds its lines open, and says nothing after its facts."""

    def silent(lines):
        for line in lines:
            line.timeout = 60
            line.receive("owner.terms")
        with contextlib.suppress(PeerFailure):
            for line in lines:
                line.receive("owner.edges")

    lines, said = in_threads({"bank_0": silent, "bank_1": silent, "bank_2": made[4]})
    for line in (*lines[0].values(), *lines[1].values()):
        line.timeout = 1.0

    def job(party):
        model = SecureXGBClassifier(**PARAMETERS)
        return model.collect(
            party, *made[party.rank], lines[party.rank], tmp_path / str(party.rank), bounds=Bounds.of(least=1)
        )

    (kept, _), _ = run_both(job)
    assert [each.name for each in kept] == ["bank_2"] and said[2].result()["rows"] == 10


def test_a_training_uses_all_owners(made):
    with pytest.raises(ConfigError, match="least is for `collect`"):
        train_both(
            *zip(*made[:2], strict=True), given=lambda rank: Owners({"bank": None}, Bounds.of(least=1)), **PARAMETERS
        )


@pytest.mark.parametrize(
    ("limits", "terms", "sentence"),
    [
        ({"most_rows": 19}, {}, "bank_0: contributes 20 rows, more than most_rows, 19"),
        ({"most_share": 0.19}, {}, r"bank_0: contributes 20 of 100 rows, more than most_share, 0\.19"),
        ({"until": BEFORE}, {}, "contributions are accepted until 2020-01-01"),
        ({}, {"until": BEFORE}, "bank_1: consents to trainings until 2020-01-01, and today is 20"),
        ({}, {"least_owners": 4}, "bank_1: consents to trainings on at least 4 contributions, and there are 3"),
        ({}, {"least_owners": 0}, "least_owners must be at least 1, got 0"),
        ({}, {"test_size": 0.2}, "this owner consents to test_size 0.2, and the parties train with 0.0"),
        ({}, {"partition": "vertical"}, "this owner consents to partition 'vertical'"),
        ({}, {"edges": "private"}, "this owner consents to edges 'private', and the parties train with 'joint'"),
    ],
)
def test_what_was_not_agreed_is_refused_and_nothing_is_kept(tmp_path, made, limits, terms, sentence):
    owners = three(made, consenting(made[3], **terms))
    if terms and "consents to trainings" not in sentence:
        lines, said = in_threads({"bank_1": owners["bank_1"]})
        with contextlib.suppress(SharewoodError):
            run_both(
                lambda p: SecureXGBClassifier(**PARAMETERS).collect(p, *made[p.rank], lines[p.rank], tmp_path / "x")
            )
        with pytest.raises(ConfigError, match=sentence):
            said[0].result()
    else:
        with pytest.raises((DataError, ConfigError), match=sentence):
            collected(tmp_path, made, owners, **limits)
    assert list(tmp_path.iterdir()) == []


def test_bounds_that_are_enough_left_alone(tmp_path, made):
    """With `least`, who has too many rows or consents no longer is left out like who fails."""
    kept, said = collected(
        tmp_path, made, {"bank_0": made[2], "bank_1": consenting(made[3], until=BEFORE), "bank_2": made[4]}, least=1,
        most_rows=19,
    )  # fmt: skip
    assert [each.name for each in kept] == ["bank_2"]
    assert "more than most_rows, 19" in str(said["bank_0"]) and "until 2020-01-01" in str(said["bank_1"])


def test_terms_are_kept_with_the_halves(tmp_path, made, monkeypatch):
    terms = {"until": LATER, "least_owners": 2, "reveal_to": ["party_b"]}
    kept, _ = collected(tmp_path, made, three(made, consenting(made[3], **terms)))
    assert (kept[1].until, kept[1].least_owners, kept[1].reveal_to) == ("2999-01-01", 2, ("party_b",))
    training = trained_on(tmp_path, made, kept)
    check(training, 2)
    with pytest.raises(DataError, match="bank_1: consents to trainings on at least 2 contributions, and there are 1"):
        trained_on(tmp_path, made, kept, without=["bank_0", "bank_2"])
    with pytest.raises(DataError, match=r"bank_0: contributes 20 of 100 rows, more than most_share, 0\.1"):
        trained_on(tmp_path, made, kept, bounds=Bounds.of(most_share=0.1))
    monkeypatch.setattr(bounds, "today", lambda: LATER + dt.timedelta(1))
    with pytest.raises(DataError, match="bank_1: consents to trainings until 2999-01-01"):
        trained_on(tmp_path, made, kept)


@pytest.mark.parametrize("to", [0, 1])
def test_a_model_is_revealed_only_to_whom_all_owners_name(made, to):
    receivers = {"bank_0": ["party_b", "carol"], "bank_1": ["carol", "party_b", "party_a"]}
    owners = {name: consenting(made[2 + k], reveal_to=names) for k, (name, names) in enumerate(receivers.items())}
    lines, _ = in_threads(owners)

    def job(party):
        model = SecureXGBClassifier(**PARAMETERS).fit(party, *made[party.rank], contributed=lines[party.rank]).model
        assert model.facts.receivers == ("carol", "party_b")
        try:
            return reveal_model(party, model, to) is not None
        except ConfigError as error:
            return str(error)

    results, _ = run_both(job)
    if to == 1:
        assert results == [False, True]
    else:
        assert all("every owner must name party_a in its terms, as reveal_to" in each for each in results)


def test_without_a_word_an_owner_consents_to_no_receiver(tmp_path, made):
    kept, _ = collected(tmp_path, made, three(made))
    training = trained_on(tmp_path, made, kept)
    with pytest.raises(
        ConfigError, match=r"every owner must name party_b in its terms, .* got nobody whom all of them"
    ):
        run_both(lambda party: reveal_model(party, training.models[party.rank].model, 1))


def test_different_terms_to_the_parties_are_found(made):
    honest = contributing.contribute

    def two_faced(lines):
        def send(tag, tree):
            type(lines[1]).send(lines[1], tag, {**tree, "reveal_to": ("party_a",)} if tag == "owner.facts" else tree)

        lines[1].send = send
        with contextlib.suppress(PeerFailure):
            honest(lines, *made[2])

    with pytest.raises(DataError, match=r"bank: it told this party reveal_to .* and the other party reveal_to"):
        train_both(*zip(*made[:2], strict=True), owners={"bank": two_faced}, **PARAMETERS)


def test_consent_is_checked():
    own, others = Consent.divided({"until": LATER, "max_bin": 8, "eta": 0.2})
    assert own.facts == {"least_owners": 1, "until": "2999-01-01", "reveal_to": (), "explore": True} and others == {
        "max_bin": 8,
        "eta": 0.2,
    }
    for terms, sentence in (
        ({"until": "soon"}, "until"),
        ({"max_bins": 8}, "unknown parameter max_bins: did you mean"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Consent.divided(terms)


def test_halves_appear_together_or_not_at_all(tmp_path):
    with keeping(tmp_path / "a") as new:
        (new / "x.npz").write_text("1")
        assert list((tmp_path / "a").glob("*.npz")) == []
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["x.npz"]
    with pytest.raises(PeerVanished), keeping(tmp_path / "a") as new:
        (new / "x.npz").write_text("2")
        raise PeerVanished("the other party")
    assert (tmp_path / "a" / "x.npz").read_text() == "1" and len(list((tmp_path / "a").iterdir())) == 1
