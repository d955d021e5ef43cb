"""`sivi paper`: the tables and figures of the paper."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._storage.atomic import write_whole
from .._tables import text_table
from ..experiments import EXPERIMENTS, MODES, Experiment, Outcome, Results, load, load_related, page, result_name, run
from . import _codes
from ._cache import add_cache_option
from ._errors import UsageError
from ._output import save_figure, use_files_only, writable_folder

_NO_FIGURES = "no figures: they need matplotlib (pip install 'sivi[plot]')"
_EPILOG = """\
examples:
  sivi paper list                               what there is, and what has been run
  sivi paper run toy-kl                         a quick run, a minute or two
  sivi paper run toy-kl --full --workers 2      the paper's numbers; continue after an interruption with the same line
  sivi paper run all --full                     every experiment
  sivi paper report                             one page of all results: docs/results.md
"""


def add_to(commands: Any) -> None:
    """Add the `paper` command and its own three."""
    command = commands.add_parser(
        "paper",
        help="run the experiments of the SIVI-SM paper and report on them",
        description="Run the experiments of Yu and Zhang, Semi-implicit variational inference via score matching "
        "(ICLR 2023), and write a page with the paper's numbers beside ours.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_list(actions)
    _add_run(actions)
    _add_report(actions)


def _add_list(actions: Any) -> None:
    action = actions.add_parser("list", help="what there is, and what has been run")
    action.add_argument("--out", metavar="DIR", default="results", help="folder of the results (default: %(default)s)")
    action.set_defaults(run=list_experiments)


def _add_run(actions: Any) -> None:
    action = actions.add_parser(
        "run",
        help="run an experiment; what is done already is not done again",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    action.add_argument("name", metavar="NAME", help="one of those that `sivi paper list` shows, or `all`")
    mode = action.add_mutually_exclusive_group()
    mode.add_argument(
        "--quick",
        dest="mode",
        action="store_const",
        const="quick",
        default="quick",
        help="few updates and draws, to see that it runs: a minute or two (the default)",
    )
    mode.add_argument("--full", dest="mode", action="store_const", const="full", help="what the paper did")
    action.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: the experiment's own)")
    action.add_argument("--out", metavar="DIR", default="results", help="folder for results (default: %(default)s)")
    action.add_argument(
        "--workers",
        type=int,
        default=min(2, os.cpu_count() or 1),
        metavar="N",
        help="processes, which share the cores (default: %(default)s)",
    )
    action.add_argument(
        "--force",
        action="store_true",
        help="also run what is done already: after a change of the code, say, which a job's settings do not show",
    )
    action.add_argument(
        "--only", nargs="+", default=(), metavar="TEXT", help="run only jobs with one of these texts in their name"
    )
    add_cache_option(action)
    action.set_defaults(run=run_experiments)


def _add_report(actions: Any) -> None:
    action = actions.add_parser("report", help="write one page of all results")
    action.add_argument(
        "--results", metavar="DIR", default="results", help="folder of the results (default: %(default)s)"
    )
    action.add_argument(
        "--out",
        metavar="FILE",
        default="docs/results.md",
        help="the page (default: %(default)s); its figures go into images/results beside it",
    )
    action.set_defaults(run=report)


def list_experiments(args: argparse.Namespace) -> int:
    """Print a table of the experiments and what there is of each."""
    rows = []
    for name, experiment in EXPERIMENTS.items():
        by_mode = [load(name, mode, Path(args.out)) for mode in MODES]
        states = [_state(experiment, results) for results in by_mode if results is not None]
        jobs = "/".join(str(len(experiment.jobs(mode, experiment.default_seeds(mode)))) for mode in MODES)
        rows.append([name, experiment.title, experiment.paper, jobs, "; ".join(states) or "not run"])
    print(text_table(["name", "what", "in the paper", "jobs quick/full", f"in {args.out}"], rows, text=(0, 1, 2, 4)))
    return _codes.DONE


def _state(experiment: Experiment, results: Results) -> str:
    total = len(results.done) + len(results.missing)
    current = {job.name: job.settings for job in experiment.jobs(results.mode, results.seeds)}
    outdated = sum(current.get(result.job.name) != result.job.settings for result in results.done)
    text = results.mode + ("" if not results.missing else f" {len(results.done)} of {total}")
    return text + (f" ({outdated} with other settings than now)" if outdated else "")


def run_experiments(args: argparse.Namespace) -> int:
    """Run one experiment or all, and write its results and figures."""
    if args.name != "all" and args.name not in EXPERIMENTS:
        raise UsageError(f"NAME must be one of {', '.join(EXPERIMENTS)} or all; got {args.name!r}.")
    for option in ("seeds", "workers"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option} must be at least 1; got {value}.")
    folder = writable_folder(args.out)
    figures = use_files_only()
    chosen = list(EXPERIMENTS.values()) if args.name == "all" else [EXPERIMENTS[args.name]]
    failed = [experiment.name for experiment in chosen if _run_one(experiment, args, folder, figures).failures]
    if not figures:
        print(_NO_FIGURES)
    return _codes.FAILED if failed else _codes.DONE


def _run_one(experiment: Experiment, args: argparse.Namespace, folder: Path, figures: bool) -> Outcome:
    seeds = experiment.default_seeds(args.mode) if args.seeds is None else args.seeds
    hint = "" if args.mode == "full" else ", a quick run: --full does what the paper did"
    print(f"{experiment.name} ({experiment.paper}), {seeds} seed{'s' * (seeds > 1)}{hint}")
    outcome = run(
        experiment,
        mode=args.mode,
        seeds=seeds,
        out=folder,
        workers=args.workers,
        force=args.force,
        only=args.only,
        log=lambda line: print(f"  {line}", flush=True),
    )
    if args.debug:
        print(*outcome.tracebacks.values(), sep="\n")
    if outcome.results.done:
        print()
        print(experiment.report(outcome.results))
        names = [f"{result_name(experiment.name, args.mode)}.json"]
        if figures:
            names += [path.name for path in _draw(experiment, outcome.results, folder, folder)]
        print(f"\nwritten to {folder}: {', '.join(names)}")
    if outcome.failures:
        count, them = ("1 job", "it") if len(outcome.failures) == 1 else (f"{len(outcome.failures)} jobs", "them")
        print(f"{count} failed, and the same command runs {them} again: {', '.join(outcome.failures)}")
    return outcome


def _draw(experiment: Experiment, results: Results, source: Path, folder: Path) -> list[Path]:
    """Draw the figures into `folder`; results of related experiments are read from `source`."""
    results = replace(results, related=load_related(experiment, results.mode, source))
    paths = []
    for name, figure in experiment.figures(results).items():
        paths.append(folder / f"{result_name(name, results.mode)}.png")
        save_figure(figure, paths[-1])
    return paths


def report(args: argparse.Namespace) -> int:
    """Write the page and its figures from the combined results."""
    source, file = Path(args.results), Path(args.out)
    by_name: dict[str, Results] = {}
    for name in EXPERIMENTS:
        results = load(name, "full", source) or load(name, "quick", source)
        if results is not None:
            by_name[name] = results
    if not by_name:
        raise UsageError(f"--results must be a folder with results of `sivi paper run`; {args.results!r} has none.")
    folder = writable_folder(str(file.parent))
    images: dict[str, list[str]] = {}
    if use_files_only():
        for name, results in by_name.items():
            images_folder = writable_folder(str(folder / "images" / "results"))
            paths = _draw(EXPERIMENTS[name], results, source, images_folder)
            images[name] = [f"images/results/{path.name}" for path in paths]
    else:
        print(_NO_FIGURES)
    text = page(list(EXPERIMENTS.values()), by_name, images)
    write_whole(file, lambda path: path.write_text(text))
    missing = [name for name in EXPERIMENTS if name not in by_name]
    print(f"written: {file}, of {', '.join(by_name)}" + (f"; not run: {', '.join(missing)}" if missing else ""))
    return _codes.DONE
