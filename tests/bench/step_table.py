#!/usr/bin/env python3
"""Whole steps on the processor: bench_step beside PyTorch, eager and compiled, a row a model, dtype and micro-batch, in
one run; where the time goes; and two pipeline ranks beside one rank with two threads.

Every measurement is a process of its own, so that none inherits memory, and partners take turns: round by round each
runs once, and the table has the median of the rounds. A row without a partner says why and the table goes on; the exit
status is 1 if one of ours failed. Times of PyTorch that was compiled do not contain the compilation.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROWS = (
    "124M:fp32:4x256",
    "124M:bf16:4x256",
    "124M:fp32:4x64",
    "124M:bf16:4x64",
    "12.6M:fp32:1x64",
    "12.6M:fp32:1x256",
    "12.6M:bf16:1x64",
    "12.6M:bf16:1x256",
)
# Of the runs on two ranks.
SCHEDULES = ("1f1b", "zb-h1", "zb-h2", "zbv")
# What tasks of these names do; the rest of the step's time is waiting.
KINDS = {
    "products": ("linear forward", "linear backward_input", "linear backward_weight"),
    "head": ("head loss_and_backward",),
    "attention": ("attention forward", "attention backward"),
    "optimizer": ("adamw", "squares", "sum", "global_norm", "fill_zero", "copy"),
}


def run(command, limit):
    """The JSON that the command writes, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "row.json"
        try:
            done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True, timeout=limit)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"absent": str(error)}
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
            return {"absent": lines[-1]}
        return json.loads(file.read_text())


def take_turns(commands, rounds, limit):
    """{name: the run of median step time}, each command run once a round; its roof is the best that any of them saw."""
    found = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            if not any("absent" in result for result in found[name]):
                found[name].append(run(command, limit))
    for name, results in found.items():
        absent = [result for result in results if "absent" in result]
        found[name] = absent[0] if absent else sorted(results, key=lambda result: result["step_seconds"])[rounds // 2]
        if not absent and "roof" in found[name]:
            found[name]["roof"] = max(result["roof"] for result in results)
    return found


def of_roof(ours, roof):
    return ours["tokens_per_second"] * ours["flop_per_token"] / roof


def show(row, key, factor, form):
    return form.format(row[key] * factor) if key in row else "–"


def verdict(ours, partners, share):
    """Times as fast as the faster partner, and whether that is 1.3 times or 90 % of the roof."""
    best = min((partner["step_seconds"] for partner in partners if "step_seconds" in partner), default=None)
    if best is None or "absent" in ours:
        return "–", "–"
    times = best / ours["step_seconds"]
    # 1.3 times as fast as PyTorch would be this share of the roof.
    needed = share / times * 1.3
    if times >= 1.3:
        return f"{times:.2f}", "1.3 times"
    if needed > 1 and share >= 0.9:
        return f"{times:.2f}", "90 % of the roof"
    return f"{times:.2f}", f"no: 1.3 times would be {100 * needed:.0f} % of the roof"


def kinds_of(row):
    """{kind: share of the step}."""
    shares, left = {}, 1.0
    seconds = {kernel["name"]: kernel["seconds"] for kernel in row["kernels"]}
    for kind, names in KINDS.items():
        shares[kind] = sum(seconds.pop(name, 0) for name in names) / row["step_seconds"]
        left -= shares[kind]
    shares["norms, GELU, residual"] = sum(seconds.values()) / row["step_seconds"]
    shares["between tasks"] = left - shares["norms, GELU, residual"]
    return shares


def step_rows(arguments):
    """The table of whole steps, and whether all of ours ran."""
    print("| model | dtype | micro-batch | ours, ms | of the roof | eager, ms | compiled, ms | times the faster |"
          " reached | peak: ours, eager, compiled, GiB |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    table, failed, roofs = [], False, {}
    for name in arguments.rows:
        model, precision, batch = name.split(":")
        sequences, sequence = batch.split("x")
        sizes = [str(arguments.models / f"{model}.toml"), "--sequences", sequences, "--sequence", sequence]
        sizes += ["--precision", precision, "--threads", str(arguments.threads), "--micro-batches", "1"]
        steps = arguments.steps * (1 if model == "124M" else 6)
        commands = {"ours": [str(arguments.binaries / "bench_step"), *sizes, "--kernels", "--steps", str(steps)]}
        if arguments.pytorch:
            script = [arguments.pytorch, str(pathlib.Path(__file__).with_name("torch_baseline.py")), *sizes]
            script += ["--device", "cpu", "--steps", str(steps)]
            commands |= {mode: [*script, "--mode", mode] for mode in arguments.modes}
        found = take_turns(commands, arguments.rounds, arguments.limit)
        ours = found.pop("ours")
        failed |= "absent" in ours
        if "absent" not in ours:
            roofs[precision] = max(roofs.get(precision, 0), ours["roof"])
        table.append({"row": name, "ours": ours, "pytorch": found})
        share = of_roof(ours, roofs[precision]) if "absent" not in ours else 0
        times, reached = verdict(ours, found.values(), share)
        eager, compiled = (found.get(mode, {}) for mode in ("eager", "compile"))
        memory = ", ".join(show(each, "peak_bytes", 2**-30, "{:.2f}") for each in (ours, eager, compiled))
        print(f"| {model} | {precision} | {sequences} × {sequence} | {show(ours, 'step_seconds', 1e3, '{:.1f}')} | "
              f"{100 * share:.1f} % | {show(eager, 'step_seconds', 1e3, '{:.1f}')} | "
              f"{show(compiled, 'step_seconds', 1e3, '{:.1f}')} | {times} | {reached} | {memory} |", flush=True)
        for who, each in (("ours", ours), *found.items()):
            if "absent" in each:
                print(f"  {name}, {who}: {each['absent']}", flush=True)
    print("\nroof: " + ", ".join(f"{dtype} {roof / 1e9:.0f} GFLOP/s" for dtype, roof in roofs.items()))
    return table, failed


def shares_of(table):
    """Where the time of each row goes."""
    kinds = [*KINDS, "norms, GELU, residual", "between tasks"]
    print("\n| model, dtype, micro-batch | " + " | ".join(kinds) + " |\n|---" + "|---" * len(kinds) + "|")
    for row in table:
        if "absent" not in row["ours"]:
            shares = kinds_of(row["ours"])
            print(f"| {row['row']} | " + " | ".join(f"{100 * shares[kind]:.1f} %" for kind in kinds) + " |")


def two_ranks(arguments):
    """Two ranks of one thread each beside one rank of two, 16 micro-batches, schedule by schedule."""
    bench = [str(arguments.binaries / "bench_step"), str(arguments.models / "124M.toml"), "--micro-batches", "16"]
    bench += ["--sequences", "1", "--sequence", "64", "--steps", str(arguments.steps)]
    commands = {"one rank, two threads": [*bench, "--threads", "2"]}
    for schedule in SCHEDULES:
        split = [*bench, "--ranks", "2", "--threads", "1", "--schedule", schedule]
        commands[f"two ranks, {schedule}, threads of one process"] = split
        if shutil.which("mpirun"):
            launched = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", *split]
            commands[f"two ranks, {schedule}, mpirun"] = launched
    found = take_turns(commands, arguments.rounds, arguments.limit)
    print("\n| 124M, fp32, 16 micro-batches of 1 × 64 | a step, ms | speed |\n|---|---|---|")
    one = found["one rank, two threads"]
    for name, each in found.items():
        if "absent" in each or "absent" in one:
            print(f"| {name} | {each.get('absent', '–')} | – |")
            continue
        print(f"| {name} | {1e3 * each['step_seconds']:.1f} | {one['step_seconds'] / each['step_seconds']:.3f} |")
    return found, any("absent" in each for each in found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True, help="folder of bench_step")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="folder of [model] sections")
    parser.add_argument("--pytorch", help="a Python that has PyTorch")
    parser.add_argument("--modes", nargs="*", default=("eager", "compile"), choices=("eager", "compile"))
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--steps", type=int, default=5, help="of the large model; small ones take six times as many")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300, help="seconds a measurement may take")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything there")
    parser.add_argument("--ranks", action="store_true", help="also two ranks beside one")
    parser.add_argument("rows", nargs="*", default=ROWS, help="MODEL:DTYPE:SEQUENCESxTOKENS; all of them by default")
    arguments = parser.parse_args()
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    table, failed = step_rows(arguments) if arguments.rows != ["none"] else ([], False)
    if table:
        shares_of(table)
    ranks = {}
    if arguments.ranks:
        ranks, ranks_failed = two_ranks(arguments)
        failed |= ranks_failed
    if arguments.json:
        arguments.json.write_text(json.dumps({"schema": 1, "rows": table, "ranks": ranks}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
