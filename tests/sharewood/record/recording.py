"""Two parties in one process that make records with the keys of `write_job`, and their ledgers."""

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from protocols.testing.two_parties import run_both
from sharewood.job.config import HostsConfig
from sharewood.record.keeping import Record
from tests.sharewood.commands.hosting import ROLES, write_job

LEDGERS = "a.jsonl", "b.jsonl"


def prepare(folder):
    """Write the configurations of both parties, with a ledger and a table each."""
    sections = {}
    for name, p in zip(ROLES, "ab", strict=False):
        (folder / f"{p}.csv").write_text(f"x,label\n{p},1\n")
        sections[name] = {"train_data": f"{p}.csv", "ledger": f"{p}.jsonl"}
    write_job(folder, sections)
    return folder


def at_both(folder, job):
    """Run job(party, config, name) at both, whose channel has the certificates as TLS would have."""

    def run(party):
        name, other = ROLES[party.rank], ROLES[1 - party.rank]
        certificate = x509.load_pem_x509_certificate((folder / "keys" / f"{other}.crt").read_bytes())
        party.link._link.certificate, party.link.peer = certificate.public_bytes(Encoding.DER), other
        return job(party, HostsConfig.read(folder / f"{name}.toml"), name)

    return run_both(run)[0]


def record(party, config, name, number=0, **changes):
    """Make one record, and return it."""
    made = Record(config, name, changes.pop("job", "train"), train_data=config.party(name).train_data)
    made.begin(party)
    results = {"model": f"{number:032x}", "metrics": {"auc": 0.75 + number, "gini": float("nan")}}
    made.end(party, {"max_depth": 3}, changes.pop("results", results), rows=100 + party.rank, **changes)
    return made


def many(folder, count):
    """Make so many records."""

    def job(party, config, name):
        made = Record(config, name, "train", train_data=config.party(name).train_data)
        made.begin(party)
        for number in range(count):
            made.end(party, {"max_depth": 3}, {"model": f"{number:032x}"}, rows=100 + party.rank)
            made.settle()

    at_both(folder, job)
    return [folder / name for name in LEDGERS]
