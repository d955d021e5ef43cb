"""One run of updates.

`fit` reads the arguments, `checks` completes them, `start` finds the coordinates and the state at update zero, `loop`
runs chunks of updates, `member` is one update of one repeat, `checkpoint` and `report` are what happens between chunks,
and `resume` goes on from a file or a posterior.
"""
