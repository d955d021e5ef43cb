"""Exit codes: what each says, and the one table of them that `sivi --help` and the documents show."""

from ..verdict.limits import BAD, DOUBTFUL, NO_FAULT

DONE, FAILED, WRONG_INPUT, IS_DOUBTFUL, IS_BAD, UNEXPECTED, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130

#: By exit code, in the words of the table in `docs/guide/command_line.md`.
MEANINGS = {
    DONE: "done; of `sivi check`, no fault was found; of `sivi fit`, the fit is not bad or was not checked",
    FAILED: "the fit diverged; a job of `sivi paper run` failed; `sivi data fetch all` did not get all",
    WRONG_INPUT: "wrong input or usage, or a file or folder that cannot be used: one sentence says why",
    IS_DOUBTFUL: "`sivi check`: the fit is doubtful",
    IS_BAD: "`sivi check`, `sivi fit`: the fit is bad; its files are written",
    UNEXPECTED: "an error that nobody expected, or too little memory: one sentence says which",
    INTERRUPTED: "interrupted by Ctrl-C; the results so far are written if there were any",
}

#: Exit codes of `sivi check` by the level of the verdict.
OF_LEVEL = {NO_FAULT: DONE, DOUBTFUL: IS_DOUBTFUL, BAD: IS_BAD}


def table() -> str:
    """The exit codes for `--help`, a line each."""
    return "\n".join(f"  {code:<4} {meaning.replace('`', '')}" for code, meaning in MEANINGS.items())
