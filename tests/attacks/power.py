"""A disk that loses power: what may be left of a folder, given the order of writes, fsyncs and renames.

Anything not flushed may be lost, in any combination: the bytes of a file until its fsync (any prefix of them, or zeros
in their place, may remain), and files made, renamed or removed in a folder until the fsync of that folder. A rename
is atomic.
"""

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Event:
    """`make`, `rename` and `remove` change a folder, and `flush` writes its names; `sync` writes a file's bytes."""

    what: str
    path: Path
    file: int | None = None
    source: Path | None = None
    content: bytes = b""


@dataclass
class Disk:
    """Records what is done to files below `root` from now on, through those functions of os that `files` uses."""

    root: Path
    events: list[Event] = field(default_factory=list)

    def __post_init__(self):
        self._lock, self._files, self._numbers = threading.Lock(), {}, iter(range(1 << 30))
        self._begun = {path: path.is_dir() or path.read_bytes() for path in sorted(self.root.rglob("*"))}

    def watch(self, monkeypatch):
        for name in ("open", "fsync", "replace", "unlink", "mkdir"):
            monkeypatch.setattr(os, name, self._noting(getattr(self, f"_{name}"), getattr(os, name)))

    def left(self, root, cut, rng, hit):
        """Recreate at `root` what a power cut after `cut` events may leave in the folders `hit`; others are intact."""
        names = {path: (None, content) for path, content in self._begun.items()}
        written, waiting = {}, []
        for event in self.events[:cut]:
            if event.what == "sync":
                written[event.file] = event.content
            elif event.what == "flush":
                for each in [each for each in waiting if each.path.parent == event.path]:
                    _apply(each, names)
                waiting = [each for each in waiting if each.path.parent != event.path]
            else:
                waiting.append(event)
        # All and nothing are drawn explicitly: if many events wait, a random part is never either.
        share = rng.choice((0.0, 0.5, 0.5, 1.0))
        for event in waiting:
            if not _below(event.path, hit) or rng.random() < share:
                _apply(event, names)
        whole = {event.file: event.content for event in self.events if event.what == "sync"}
        for path, (file, content) in sorted(names.items()):
            place = root / path.relative_to(self.root)
            if not place.parent.exists():
                continue
            if content is True:
                place.mkdir()
                continue
            if content is None:
                full = whole.get(file, b"")
                torn = full if not _below(path, hit) else _torn(full, rng)
                content = written.get(file, torn)
            place.write_bytes(content)

    def _noting(self, note, original):
        def call(*arguments, **named):
            with self._lock:
                returned = original(*arguments, **named)
                event = note(returned, *arguments)
                if event and event.path.is_relative_to(self.root):
                    self.events.append(event)
            return returned

        return call

    def _open(self, number, path, flags, *_):
        if not flags & os.O_CREAT:
            return None
        file = self._files[os.fstat(number).st_ino] = next(self._numbers)
        return Event("make", Path(path), file)

    def _fsync(self, _, descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            return Event("flush", path)
        return Event("sync", path, self._files.get(os.fstat(descriptor).st_ino), content=path.read_bytes())

    def _replace(self, _, source, target):
        return Event("rename", Path(target), self._files.get(os.stat(target).st_ino), Path(source))

    def _unlink(self, _, path):
        return Event("remove", Path(path))

    def _mkdir(self, _, path, *mode):
        return Event("make", Path(path))


def _apply(event, names):
    if event.what == "remove":
        names.pop(event.path, None)
    elif event.what == "rename":
        names.pop(event.source, None)
        names[event.path] = (event.file, None)
    else:
        names[event.path] = (event.file, None if event.file is not None else True)


def _torn(full, rng):
    length = rng.randrange(len(full) + 1)
    return rng.choice((b"", full[:length], full[:length] + bytes(len(full) - length)))


def _below(path, folders):
    return any(path.is_relative_to(folder) for folder in folders)
