"""One run of updates.

`fit` is the call, `start` goes from its arguments to update zero, `loop` runs chunks of updates, `member` is one update
of one repeat, `checkpoint` and `report` are what happens between chunks, `compile_ahead` is for accelerators, and
`resume` continues from a file or a posterior.
"""
