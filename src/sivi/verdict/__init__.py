"""Can a fit be believed: chains on the exact target that start from its draws, and what they find."""
