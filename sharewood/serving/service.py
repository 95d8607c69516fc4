"""A party's service: one open session with the other party's service, and a thread that predicts batch by batch."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

import numpy as np

from mpc.errors import ConfigError, DataError, ProtocolDesync, SharewoodError
from mpc.host.spans import span
from mpc.party import Party
from protocols.offline.supply import Supply
from protocols.transport.channel import Channel
from secure_tree.agreement.models import agree_on_reasons
from secure_tree.data.table import read_features
from secure_tree.model.shared_model import SharedModel
from secure_tree.owners.columns import features_by_owner
from secure_tree.prediction.answering import check_for_clients, check_without_offsets, offer_of
from secure_tree.prediction.client import Offer
from secure_tree.prediction.reasons.request import Request, requested
from secure_tree.prediction.reasons.table import scale_of
from secure_tree.public.config import Method
from secure_tree.public.names import columns_behind
from sharewood.job.config import HostsConfig
from sharewood.job.files import with_tables
from sharewood.job.session import connected
from sharewood.record.keeping import Record
from sharewood.serving.batches import CLIENTS, Answers, Batches, BatchShape, Opened, Ready, padded
from sharewood.serving.jobs import HalfJob, Halves, Job, JobPart, Queue, Refused, Unavailable, Unpaired
from sharewood.serving.measures import ServiceMeasures
from sharewood.serving.served import Served, keeper
from sharewood.serving.turns import (
    MOST_BEGUN,
    MOST_HALVES,
    MOST_OPENED,
    ServiceFacts,
    Turn,
    agree_on_service,
    ask_for,
    index_of,
    look_up,
    paired,
    take_turn,
)
from sharewood.tables.tables import read_rows
from sharewood.warming_up import warm_up

log = logging.getLogger("sharewood")
# Seconds between keep-alive messages without requests, and until the next attempt after a failed session.
_IDLE = 20.0
_PAUSE = 1.0


@dataclass(frozen=True)
class RowsById:
    """Rows that the other party requests by id: features float32[n, d], and the place of every id."""

    features: np.ndarray
    places: dict[str, int]


class Service:
    """A service that predicts for this party's clients, and takes part in predictions for the other party's clients.

    By columns, the party that learns predictions sends requests, and the other party looks up rows in its file
    `predict_data`. Clients who are no party send halves of rows to both services; only they are answered if the model
    has columns of owners who are no party, since neither service has these. `refusal`: why this service predicts no
    rows that a party has, or None if it does.

    Raises ConfigError and DataError for errors in this party's files.
    """

    def __init__(self, config: HostsConfig, name: str) -> None:
        self.config, self.name, self.settings = config, name, config.serve
        self.model = SharedModel.load(config.needs(name, "model"), config.file_key())
        own = config.names.index(name)
        if self.model.rank != own:
            raise DataError(f"{config.party(name).model}: must be the half of {name}, got that of the other party")
        if config.audit:
            raise ConfigError(
                "audit must be false for sharewood serve: use sharewood predict for predictions with an audit"
            )
        check_without_offsets(self.model)
        self.peer, layout = config.names[1 - own], self.model.facts.layout
        to = config.predict.to
        if to is not None and not layout.vertical:
            raise ConfigError(
                "predict.to must be used with data by columns: by rows each party learns those of its own"
            )
        self._to = None if to is None else config.names.index(to)
        self._owners, self.refusal = _requesters(self.model, self._to, self.peer)
        if not self._owners and not self.settings.halves:
            raise ConfigError(f"{self.refusal}: set serve.halves, or use sharewood predict")
        self.names = self.model.facts.names[layout.features_of(own)]
        config.credentials(name)
        method: Method = config.predict.method
        if self.settings.halves:
            check_for_clients(method, config.predict.mac)
        owners = [*self._owners, CLIENTS] if self.settings.halves else self._owners
        self._batches = Batches(
            self.model,
            method,
            owners,
            self.settings.largest_batch,
            config.predict.mac,
            self._request(),
            config.round_price,
        )
        self._queue = Queue(self.settings.queue_rows)
        looked_up = ["predict_data"] if self._owners and self.refusal else []
        with with_tables(config, name, *looked_up) as here:
            self._table = _table(here, name, self.model) if looked_up else None
            files = {field: here.table(name, field) for field in looked_up}
            self._record = Record(config, name, "serve", model=config.party(name).model, **files)
        folder = config.party(name).served
        if folder and (self.refusal or not keeper(self.model, self._to, own)):
            raise ConfigError(f"parties.{name}.served must be left out: this party learns no predictions of rows")
        # Where the answered rows are kept.
        self.served = Served(folder, self.model, config.file_key()) if folder else None
        self._record.patience = 1.0  # rather none today than no answers
        self._answered, self._learned = Counter[str](), set[str]()
        self.halves = Halves(MOST_HALVES, self.settings.queue_rows)
        self.measures = ServiceMeasures()
        self._stopping = Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._state: tuple[str | None, float] = ("it is starting", time.monotonic())
        self._thread = Thread(target=self._run, name="session", daemon=True)

    def _request(self) -> Request | None:
        """Return what `[predict]` says of reasons, if it asks for any. Raises ConfigError, DataError."""
        asked, layout = self.config.predict, self.model.facts.layout
        if not asked.reasons:
            return None
        receiver = self._owners[0] if layout.vertical and self._owners else None
        scale_of(self.model, not self.config.how.pairwise)
        return requested(self.model, receiver, asked.reasons, asked.groups, asked.show, asked.toward)

    @property
    def by_id(self) -> bool:
        """Return whether rows have ids, which the other party looks up."""
        return self.model.facts.layout.vertical

    @property
    def waits(self) -> str | None:
        """Return why the service cannot predict, and for how long; None if it can."""
        why, since = self._state
        return None if why is None else f"{why} (for {time.monotonic() - since:.0f} s)"

    def start(self) -> None:
        """Start connecting to the other party's service."""
        self._thread.start()

    def stop(self) -> None:
        """Answer waiting requests, and close the session gracefully."""
        self._stopping.set()
        os.eventfd_write(self._wake, 1)
        if self._state[0] is None:
            self._thread.join(self.settings.answer_within)

    @property
    def offer(self) -> Offer:
        """What this party says about its model to clients who are no party."""
        return offer_of(self.model, min(self.settings.largest_batch, self.settings.request_rows))

    def ask(self, job: Job | HalfJob) -> None:
        """Queue the rows of a job for prediction. Raises Unavailable, and Refused for an id that is not new."""
        if self._stopping.is_set():
            raise Unavailable("this service is ending")
        if waits := self.waits:
            raise Unavailable(f"{self.name} makes no predictions now: {waits}")
        if isinstance(job, HalfJob):
            self.halves.add(job)
        else:
            self._queue.add(job)
        os.eventfd_write(self._wake, 1)

    def expire(self, job: HalfJob) -> None:
        """End the request if the other half has not arrived by the next turn, which begins when the service is free.

        Only a turn tells: while a batch is predicted, neither service hears which halves the other one has.
        """
        job.late = True
        os.eventfd_write(self._wake, 1)

    @property
    def queued(self) -> int:
        """Rows that wait."""
        return self._queue.rows

    def _run(self) -> None:
        """Session after session."""
        self._waits("it is loading compiled code")
        warm_up(self.config.offline, self.config.ot)
        self._waits(f"{self.peer} has not connected yet")
        while not self._stopping.is_set():
            try:
                connected(self.config, self.name, self._serve, doing="predictions were served")
                why = f"{self.peer} has left" if not self._stopping.is_set() else "this service is ending"
            except SharewoodError as failure:
                why = str(failure)
            except Exception:
                log.exception("the session failed through a fault of this program")
                why = "the session has failed; the log says why"
            self._waits(why)
            for waiting in (self._queue, self.halves):
                waiting.fail(Unavailable(f"{self.name} makes no predictions now: {why}"))
            self._stopping.wait(_PAUSE)

    def _waits(self, why: str | None) -> None:
        before, since = self._state
        if why != before:
            log.info("%s", f"ready to predict with {self.peer}" if why is None else f"no predictions now: {why}")
        self._state = why, since if (why is None) == (before is None) else time.monotonic()
        self.measures.ready.set(why is None)

    def _serve(self, party: Party) -> None:
        """Run one session until a party leaves."""
        settings, link = self.settings, party.link
        facts = ServiceFacts.of(
            largest_batch=settings.largest_batch,
            ahead=settings.ahead_bytes,
            halves=settings.halves,
            reasons=self.config.predict.reasons,
        )
        agree_on_service(party, self.model, self.config.predict, self._to, facts)
        if request := self._batches.request:
            agree_on_reasons(party, request.facts())
        assert isinstance(party.randomness, Supply) and isinstance(link, Channel), "between hosts"
        try:
            self._record.begin(party)
        except DataError as error:
            log.error("there will be no record of this session: %s", error)
        self._waits("correlated randomness is being made")
        self._batches.begin(party)
        ready = Ready(self._batches, party.randomness, settings.ahead_bytes, party.matrices)
        link.timeout = settings.answer_within
        self._waits(None)
        self.measures.sessions.inc()
        leaves = False
        while not leaves:
            parts = self._next(link)
            ids = [one for part in parts for one in (part.job.ids or [])[part.rows]] if self.by_id else []
            leaves = self._stopping.is_set() and not self._queue.rows
            waiting, late = self.halves.waiting()
            begun, own = self._guess(link, ready, waiting), self._begin(party, ready, parts)
            mine = Turn.of(
                rows=padded(sum(map(len, parts))) if parts else 0,
                reasons=bool(parts and parts[0].job.top),
                ids=ids,
                begun=own.opening if own else b"",
                halves={id: len(job) for id, job in waiting.items()},
                opening=begun.opening if begun else b"",
                leaves=leaves,
                closes=self._record.due,
            )
            explained = self._batches.explains
            turns = take_turn(party, mine, settings.largest_batch, self._owners, self.by_id, explained)
            settle_guesses(party.rank, ready, turns)
            for owner, turn in enumerate(turns):
                leaves = leaves or turn.leaves
                if turn.rows:
                    with span("batch", rows=turn.rows, asked_by=self.config.names[owner]):
                        self._predict(link, ready, owner, turn, parts, own)
            within, theirs = self.settings.half_within, turns[1 - party.rank].halves
            why = Unpaired(f"the other half of this request has not arrived at {self.peer} in {within:g} s")
            self.halves.refuse([waiting[id] for id in late if id not in theirs], why)
            self._predict_halves(party, ready, waiting, turns, begun)
            if leaves or any(turn.closes for turn in turns):
                self._state_answers(party)
            self.measures.moved(link.wire_sent, link.wire_received, ready.held)
        if not self._stopping.is_set():
            self._waits(f"{self.peer} has left")

    def _state_answers(self, party: Party) -> None:
        """Make the record of what was answered since the last one. Raises PeerFailure."""
        asked = {
            **self.config.predict.model_dump(include={"method", "to", "mac", "reasons"}),
            "halves": self.settings.halves,
        }
        self._record.end(
            party,
            asked,
            {"model": self.model.facts.pairing},
            rows=sum(self._answered.values()),
            answered=self._answered,
            learned=sorted(self._learned),
        )
        if not (report := self._record.report):
            return
        self.measures.records.labels(str(self._record.signed).lower()).inc()
        if self._record.signed:
            self._answered.clear()
            self._learned.clear()
        if "failure" in report:
            log.error("the ledger has no record of the last answers: %s", report["failure"])

    def _next(self, link: Channel) -> list[JobPart]:
        """Wait until a party has rows for a batch, or halves of rows, or leaves; return this party's rows."""
        largest = self.settings.largest_batch, self._batches.explains
        parts = self._queue.batch(*largest)
        if not parts and not self.halves.fresh and not self._stopping.is_set():
            # A job that arrives now wakes this up: the counter of `_wake` keeps it.
            link.idle(self._wake, _IDLE)
            parts = self._queue.batch(*largest)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        return parts or self._queue.batch(*largest)

    def _begin(self, party: Party, ready: Ready, parts: list[JobPart]) -> Opened | None:
        """Begin to predict own rows, if their opening fits into a turn and a lot is ready for them."""
        shape = BatchShape(party.rank, padded(sum(map(len, parts))), bool(parts[0].job.top)) if parts else None
        if shape is None or not self._batches.opens(shape) or self._batches.opening_bytes(shape) > MOST_BEGUN:
            return None
        if (lot := ready.take(shape)) is None:
            return None
        return self._batches.open(lot, party.link, shape, _features(parts, shape.rows))

    def _predict(
        self, link: Channel, ready: Ready, owner: int, turn: Turn, parts: list[JobPart], begun: Opened | None
    ) -> None:
        """Predict the batch of a turn; its owner's jobs get their margins."""
        began, shape, ids = time.perf_counter(), BatchShape(owner, turn.rows, turn.reasons), turn.ids
        own, features = owner == self.model.rank, np.zeros((0, self._batches.width), np.float32)
        shown = np.ones(shape.rows, np.int64)
        unknown: list[int] = []
        if own:
            features = _features(parts, shape.rows)
            if self.by_id:
                unknown = ask_for(link, len(ids))
        elif self._table:
            places = look_up(link, ids, self._table.places)
            unknown = np.flatnonzero(places < 0).tolist()
            features = _padded(np.where((places < 0)[:, None], 0, self._table.features[places]), shape.rows)
        shown[unknown] = 0
        if self.by_id:
            shown[len(ids) :] = 0
        answers = None
        if own and begun:
            answers = self._batches.finish(begun, shown)
            ready.renew(shape)
        elif turn.begun or not self.by_id or len(unknown) < len(ids):
            if turn.begun and not (self._batches.opens(shape) and ready.has(shape)):
                raise ProtocolDesync("the other party has begun a batch for which no material is ready")
            work = link, shape, features, shown, turn.begun
            answers = ready.use(shape, lambda lot: self._batches.run(lot, *work))
        if own:
            classes = self.model.config.num_class
            nothing = Answers(np.zeros((shape.rows, classes) if classes else shape.rows), [])
            self._answer(parts, answers or nothing, set(unknown))
        self.measures.batch("this_party" if own else "other_party", shape.rows, time.perf_counter() - began)

    def _guess(self, link: Channel, ready: Ready, waiting: dict[str, HalfJob]) -> Opened | None:
        """Begin to predict what waits, if the other service has not heard of any of it, and a lot is ready for it."""
        count, known = sum(map(len, waiting.values())), any(job.offered for job in waiting.values())
        for job in waiting.values():
            job.offered = True
        shape = BatchShape(CLIENTS, padded(count))
        if known or not count or self._batches.opening_bytes(shape) > MOST_OPENED:
            return None
        if (lot := ready.take(shape)) is None:
            return None
        keys = np.concatenate([waiting[id].keys for id in sorted(waiting)])
        return self._batches.open(lot, link, shape, _padded(keys, shape.rows))

    def _predict_halves(
        self,
        party: Party,
        ready: Ready,
        waiting: dict[str, HalfJob],
        turns: tuple[Turn, Turn],
        begun: Opened | None,
    ) -> None:
        """Predict the requests of which both services have a half, and answer each with this party's half."""
        began = time.perf_counter()
        ids, unequal = paired(turns, self.settings.largest_batch)
        why = Refused("the two halves of this request do not have the same number of rows")
        self.halves.refuse([waiting[id] for id in unequal], why)
        jobs = [waiting[id] for id in ids]
        self.halves.take(jobs)
        if not jobs:
            return
        keys = np.concatenate([job.keys for job in jobs])
        shape = BatchShape(CLIENTS, padded(len(keys)))
        theirs = turns[1 - party.rank].opening
        with span("batch", rows=shape.rows, asked_by="clients"):
            if begun and theirs and turns[0].halves == turns[1].halves:
                margins = self._batches.finish_halves(begun, theirs)
            else:
                rows = _padded(keys, shape.rows)
                margins = ready.use(shape, lambda lot: self._batches.release(lot, party.link, rows))
        ends = np.cumsum([len(job) for job in jobs])
        for job, end in zip(jobs, ends, strict=True):
            job.end(margins[:, end - len(job) : end])
            self._answered[job.client] += len(job)
            self._learned.add("nothing of the rows whose halves clients sent")
        self.measures.batch("clients", shape.rows, time.perf_counter() - began)

    def _answer(self, parts: list[JobPart], answers: Answers, unknown: set[int]) -> None:
        start = 0
        for part in parts:
            end = start + len(part)
            ids = (part.job.ids or [])[part.rows]
            missing = [one for place, one in zip(range(start, end), ids, strict=False) if place in unknown]
            part.job.add(answers.margins[start:end], answers.reasons[start:end], missing, self.peer)
            self._answered[part.job.client] += len(part) - len(missing)
            self._learned.add("predictions of the rows that its clients asked for")
            if part.job.top:
                self._learned.add("the strongest reasons of rows that its clients asked for")
            start = end
        if self.served:
            self._keep(self.served, parts, answers, unknown)

    def _keep(self, served: Served, parts: list[JobPart], answers: Answers, unknown: set[int]) -> None:
        """Keep the rows of a batch that were answered."""
        ids = [one for part in parts for one in (part.job.ids or [])[part.rows]]
        known = [place for place in range(len(ids)) if place not in unknown]
        features = np.concatenate([part.job.features[part.rows] for part in parts])
        try:
            served.keep([ids[place] for place in known], answers.margins[known], features[known])
        except DataError as error:
            log.error("answered rows are not kept: %s", error)


def settle_guesses(rank: int, ready: Ready, turns: tuple[Turn, Turn]) -> None:
    """Take the lot that the other service has taken for its guess, and renew those of both. Raises ProtocolDesync."""
    shapes = [BatchShape(CLIENTS, padded(sum(turn.halves.values()))) if turn.opening else None for turn in turns]
    for shape in filter(None, dict.fromkeys(shapes)):
        if shape != shapes[rank] and ready.take(shape) is None:
            raise ProtocolDesync("the other party has opened rows for which no material is ready")
        ready.renew(shape)


def _requesters(model: SharedModel, to: int | None, peer: str) -> tuple[Sequence[int], str | None]:
    """Return the parties that request predictions of rows, and why this one does not, if so."""
    only = "so only clients who send halves of rows with all features are answered"
    receiver = model.facts.label_holder if to is None else to
    if further := features_by_owner(model):
        return [], f"the model has columns of {', '.join(further)}, which no party has, {only}"
    if receiver is None:
        return [0, 1], None
    if receiver > 1:
        return [], f"an owner had the labels, and predict.to names no party, {only}"
    return [receiver], None if receiver == model.rank else f"{peer} learns the predictions: send rows to its service"


def _features(parts: list[JobPart], rows: int) -> np.ndarray:
    """Return the features of the rows of a batch, padded."""
    return _padded(np.concatenate([part.job.features[part.rows] for part in parts]), rows)


def _padded(features: np.ndarray, rows: int) -> np.ndarray:
    """Return features, or keys, padded with rows of zeros."""
    filled = np.zeros((rows, features.shape[1]), features.dtype)
    filled[: len(features)] = features
    return filled


def _table(config: HostsConfig, name: str, model: SharedModel) -> RowsById:
    """Return this party's rows by id. Raises DataError."""
    path = config.needs(name, "predict_data")
    names = model.facts.names[model.facts.layout.features_of(model.rank)]
    rows = read_rows(path, config.columns(name), names, model.config.may_miss)
    if rows.ids is None:
        raise DataError(f"{path} has no id column: the other party requests rows by id")
    known = columns_behind(names, list(rows.features.columns))
    features, _ = read_features(rows.features, model.config, str(path), known)
    return RowsById(features, index_of(rows.ids.tolist(), str(path)))
