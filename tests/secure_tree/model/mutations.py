"""Random damage to files, as from disks, copies and editing."""


def mutated(whole, rng):
    """Return the bytes of a file after one to three changes: flips, replacements, deletions, insertions, zeros."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(data) + 1)
        stop = min(len(data), start + rng.choice([1, 2, 16, 500]))
        piece = data[start:stop]
        kind = rng.randrange(7)
        if kind == 0 and piece:
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 1 and piece:
            data[start] = rng.randrange(256)
        elif kind == 2:
            del data[start:stop]
        elif kind == 3:
            data[start:start] = piece
        elif kind == 4:
            data[start:stop] = bytes(len(piece))
        elif kind == 5:
            del data[start:]
        else:
            data[start:start] = rng.randbytes(stop - start)
    return bytes(data)
