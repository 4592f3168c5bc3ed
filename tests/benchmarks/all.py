"""The evidence from one run: every benchmark, one after the other, one file with all figures, and every table from it.

    python tests/benchmarks/all.py [--packages FOLDER] [--quick]
    python tests/benchmarks/all.py --tables

A stopped run goes on where it was, with the same code only: figures of two versions do not mix. The file,
tests/benchmarks/results.json, then holds the figures, the commit, the machine, the versions and the seeds; --tables
writes the tables of README.md, tests/benchmarks/README.md and tutorials/paper_results.md from it, and a picture, and
runs nothing.
FOLDER is where the packages of others.py were installed. --quick tries everything out with small sizes: its figures
stay in build/benchmarks-quick, and no table is written.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import accuracy
import missing
import others
import paper
import scale
import speed
from datasets import GROUPS, ROOT

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results.json"
SCRIPTS = ("accuracy", "others", "missing", "paper", "speed", "scale")
LINES = ("accuracy", "others", "missing")  # these write a JSON object a line


def git(*arguments):
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def code():
    """The last commit that changed what is measured or how, and whether there are changes since."""
    files = ("--", "agtf.py", "tests/benchmarks/*.py")
    return {"commit": git("log", "-1", "--format=%H", *files), "changed": bool(git("status", "--porcelain", *files))}


def run(name, folder, quick, packages):
    """The figures of one script, run in a process of its own."""
    file = folder / (f"{name}.jsonl" if name in LINES else f"{name}.json")
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(file)]
    if name in LINES:
        command += ["--jobs", "2"]
    if name == "others":
        command.append(str(packages))
    if quick:
        command.append("--quick")
    subprocess.run(command, check=True)
    if not file.exists():
        return None
    return [*map(json.loads, file.read_text().splitlines())] if name in LINES else json.loads(file.read_text())


def run_everything(folder, quick, packages):
    """All figures, as far as they are not in the folder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    begun = {**code(), "machine": speed.machine()}
    report = json.loads(file.read_text()) if file.exists() else begun
    if any(report[key] != begun[key] for key in begun):
        sys.exit(f"{folder} is a run of other code or another machine: remove it to begin anew")
    file.write_text(json.dumps(report))
    for name in SCRIPTS:
        if name in report:
            continue
        if not (HERE / f"{name}.py").exists() or (name == "others" and packages is None):
            print(f"{name}: left out, {'no --packages' if name == 'others' else 'no such script'}", flush=True)
            continue
        print(f"\n==== {name}", flush=True)
        figures = run(name, folder, quick, packages)
        if figures is None:
            print(f"{name}: left out, it found nothing to measure", flush=True)
            continue
        report[name] = figures
        file.write_text(json.dumps(report))
    report["seeds"] = {name: len({row["seed"] for row in report[name]}) for name in LINES if name in report}
    return report


# ---- Tables ----------------------------------------------------------------------------------------------------------


def in_order(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def accuracy_tables(report):
    rows = report["accuracy"]
    there = in_order(rows, "set")
    groups = {group: [name for name in names if name in there] for group, names in GROUPS.items()}
    groups = {group: names for group, names in groups.items() if names}
    methods = [method for method in accuracy.METHODS if method in in_order(rows, "method")]
    return groups, methods, accuracy.summary_tables(rows, groups, methods, report["seeds"]["accuracy"])


def others_table(report):
    rows = report["others"]
    groups = {f"{len(names)} {group}": names for group, names in others.groups_of(rows).items()}
    return accuracy.means_table(rows, groups, in_order(rows, "method"))


def missing_table(report):
    return f"{missing.table(report['missing'])}\n\nMeans of {report['seeds']['missing']} seeds."


def seconds_tables(report):
    groups, methods, _ = accuracy_tables(report)
    return "\n\n".join(accuracy.table(report["accuracy"], "seconds", names, methods) for names in groups.values())


def speed_tables(report):
    about = ", ".join(f"{key} {value}" for key, value in report["machine"].items())
    sections = [speed.text(name, report["speed"][name]) for name in speed.SECTIONS if name in report["speed"]]
    return "\n\n".join([f"{about}:", *sections])


def incomplete_table(report):
    """The lines that a reader of the first page looks for."""
    rows = [row for row in report["missing"] if row["set"].endswith((" 0.3", " 0.5")) or "," not in row["set"]]
    return f"{missing.table(rows)}\n\nMeans of {report['seeds']['missing']} seeds."


TABLES = {  # page: name between its marks: the script whose figures it shows, the text
    "README.md": {
        "accuracy": ("accuracy", lambda report: accuracy_tables(report)[-1]),
        "incomplete": ("missing", incomplete_table),
        "ratios": ("speed", lambda report: speed.text("ratios", report["speed"]["ratios"])),
        "scale": ("scale", lambda report: scale.text(report["scale"]["rows"])),
    },
    "tests/benchmarks/README.md": {
        "others": ("others", others_table),
        "missing": ("missing", missing_table),
        "memberships": ("accuracy", lambda report: accuracy.calibration_table(report["accuracy"])),
        "seconds": ("accuracy", seconds_tables),
        "speed": ("speed", speed_tables),
    },
}


def draw_accuracy_and_time(report):
    """tutorials/accuracy_time.png: all methods of the run, in the sets of all groups."""
    import matplotlib.pyplot as plt

    groups, methods, _ = accuracy_tables(report)
    fig, axes = plt.subplots(1, len(groups), figsize=(4 * len(groups), 3.4), layout="constrained", sharey=True)
    for (group, names), ax in zip(groups.items(), axes):
        accuracy.plot_against_time(report["accuracy"], names, [m for m in methods if m != "best view"], ax)
        ax.set_title(f"{len(names)} {group} sets")
    axes[0].set_ylabel("accuracy, rows shuffled")
    fig.savefig(ROOT / "tutorials/accuracy_time.png", dpi=110)


def between_marks(text, name, new):
    """The text with what stands between the marks of this name replaced."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = text.split(first)
    return f"{before}{first}{new}\n{last}{rest.split(last)[1]}"


def pages(report):
    """The text of every page with the report's tables in it."""
    out = {}
    for page, tables in TABLES.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, (script, make) in tables.items():
            if script in report:
                text = between_marks(text, name, make(report))
        out[page] = text
    if "paper" in report:
        out["tutorials/paper_results.md"] = paper.page(**report["paper"])
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=pathlib.Path, help="where the packages of others.py were installed")
    parser.add_argument("--quick", action="store_true", help="small sizes, no table written")
    parser.add_argument("--tables", action="store_true", help="only write the tables, from results.json")
    given = parser.parse_args()
    if not given.tables:
        if code()["changed"] and not given.quick:
            parser.error("agtf.py or a benchmark has changes that are not committed: nobody could repeat the run")
        folder = ROOT / "build" / ("benchmarks-quick" if given.quick else "benchmarks")
        report = run_everything(folder, given.quick, given.packages)
        (folder if given.quick else HERE).joinpath("results.json").write_text(json.dumps(report) + "\n")
        if given.quick:
            return
    report = json.loads(RESULTS.read_text())
    for page, text in pages(report).items():
        (ROOT / page).write_text(text, encoding="utf-8")
    draw_accuracy_and_time(report)


if __name__ == "__main__":
    main()
