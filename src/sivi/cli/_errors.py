"""Mistakes of the person at the keyboard."""


class UsageError(Exception):
    """Wrong input, told in one sentence."""
