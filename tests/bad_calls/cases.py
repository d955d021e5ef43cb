"""The cases, from a seed."""

import random
from collections.abc import Collection
from typing import NamedTuple

from .entries import NOWHERE, entries
from .pool import ANY

#: How often a room is chosen.
_WEIGHTS = {
    "settings": 40,
    "metrics": 17,
    "plots": 8,
    "data": 4,
    "posterior": 9,
    "fit": 6,
    "samplers": 5,
    "verdict": 1,
    "files": 10,
}


#: What is right and only takes long, by what is called, argument and value; and a value for its place.
_INSTEAD = {("fit", "num_steps", "None"): "0"}


class Case(NamedTuple):
    """One call.

    Attributes:
        room: Of the interface; `files` for a changed file, which `load` and a few draws are tried on.
        path: What is called.
        argument: Which argument is wrong.
        value: The name of what it is.
        seed: Of a changed file.
        entry: The number of the entry.
    """

    room: str
    path: str
    argument: str
    value: str
    seed: int
    entry: int

    def __str__(self) -> str:
        if self.room == "files":
            return f"load of a file changed with seed {self.seed}"
        return f"{self.path}({self.argument}={self.value})"


def cases(num: int, seed: int = 0, rooms: Collection[str] = tuple(_WEIGHTS), *, compiling: bool = True) -> list[Case]:
    """`num` cases; the same ones for the same arguments.

    Args:
        num: How many.
        seed: Of the choice.
        rooms: Of which rooms.
        compiling: Whether calls are among them that compile something when they are not refused.
    """
    rng, found = random.Random(seed), []
    listed = [(i, entry) for i, entry in enumerate(entries()) if compiling or not entry.compiles]
    by_room = {room: [(i, entry) for i, entry in listed if entry.room == room] for room in rooms}
    names = [room for room in rooms if by_room[room] or room == "files"]
    for _ in range(num):
        room = rng.choices(names, [_WEIGHTS[name] for name in names])[0]
        if room == "files":
            found.append(Case(room, "load", "path", "", rng.randrange(10**9), -1))
            continue
        i, entry = rng.choice(by_room[room])
        argument = rng.choice(entry.broken or tuple(entry.arguments(NOWHERE)))
        value = rng.choice(list(ANY))
        value = _INSTEAD.get((entry.path, argument, value), value)
        found.append(Case(room, entry.path, argument, value, 0, i))
    return found
