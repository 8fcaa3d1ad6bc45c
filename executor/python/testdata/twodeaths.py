"""Two deaths of an actor's process, one before the other has said that the actor is made: what each next process gets."""

import msgpack

from cascade.executor.actorlives import Life, Lives

NAMED = b"\x95\x92\x01"
FOREVER = -1

for name, life, answered in (
    ("at most once", Life(5), 3),
    ("at least once", Life(5, FOREVER), 3),
    ("at least once, not made", Life(5, FOREVER), 0),
    ("at least once, all answered", Life(5, FOREVER), 5),
    ("one more try", Life(5, 1), 3),
    ("exactly once", Life(5, 0, 100, True), 3),
    ("exactly once, not made", Life(5, 0, 100, True), 0),
):
    for second in ("linked", "not linked"):
        lives = Lives(life, NAMED)
        for n in range(1, 6):
            lives.sends(n, NAMED + bytes((n,)) + b"\x01\xa0\xa1f\x90", b"\xa1C\xa0\x90" if n == 1 else None)
        for n in range(1, answered + 1):
            lives.answered(n, None)
        opened = set(range(answered + 1, 6))
        for death in range(2):
            again = lives.again(opened, 5, death == 1 and second == "not linked")
            gets = [item[0][1] for item in (msgpack.unpackb(i, strict_map_key=False) for i in again.items)]
            print(f"{name}, death {death + 1}, {second}: made as {again.making}, {gets[1:]}, fail {again.failed}")
            assert gets[0] == again.making
            opened = (opened - set(again.failed) - {1}) | {again.making}
