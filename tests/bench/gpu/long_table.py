#!/usr/bin/env python3
"""The long table: bench_training beside PyTorch, eager and compiled, a row a model and sequence length, in one run.

A micro-batch has 32768 tokens, a step four of them. Every measurement is a process of its own, so that none inherits
memory. A row without a partner says why and the table goes on; the exit status is 1 if one of ours failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODELS = ("124M", "0.5B", "1.5B", "3B")
SEQUENCES = (1024, 2048, 4096)


def run(command, limit, environment=None):
    """The JSON that the command writes, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "row.json"
        try:
            done = subprocess.run(
                [*command, "--json", str(file)], capture_output=True, text=True, timeout=limit, env=environment
            )
        except subprocess.TimeoutExpired:
            return {"absent": f"ran past {limit} s"}
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
            return {"absent": lines[-1]}
        return json.loads(file.read_text())


def show(row, key, factor, form):
    return form.format(row[key] * factor) if key in row else "–"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True, help="folder of bench_training")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="folder of [model] sections")
    parser.add_argument("--baseline", type=pathlib.Path, help="torch_baseline.py, where it is not in the folder above")
    parser.add_argument("--tokens", type=int, default=32768, help="of a micro-batch")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--limit", type=int, default=300, help="seconds a measurement may take")
    parser.add_argument("--json", type=pathlib.Path, help="also write the table there")
    parser.add_argument("rows", nargs="*", help="MODEL:SEQUENCE; all of them by default")
    arguments = parser.parse_args()
    rows = arguments.rows or [f"{model}:{length}" for model in MODELS for length in SEQUENCES]
    baseline = arguments.baseline or pathlib.Path(__file__).resolve().parents[1] / "torch_baseline.py"
    # PyTorch brings its own libraries; those that our programs were told of are not meant for it.
    plain = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    if "GIVEN_LIBRARY_PATH" in plain:
        plain["LD_LIBRARY_PATH"] = plain["GIVEN_LIBRARY_PATH"]

    print("| model | sequence | ours, tokens/s | of peak | eager | compiled | ours ÷ compiled | planned / held, GiB |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    table, failed = [], False
    for row in rows:
        model, length = row.split(":")
        sizes = [str(arguments.models / f"{model}.toml"), "--sequence", length]
        sizes += ["--sequences", str(max(1, arguments.tokens // int(length))), "--steps", str(arguments.steps)]
        ours = run([str(arguments.binaries / "bench_training"), *sizes], arguments.limit)
        torch = {
            mode: run([sys.executable, str(baseline), *sizes, "--mode", mode], arguments.limit, plain)
            for mode in ("eager", "compile")
        }
        ratio = {}
        if "tokens_per_second" in ours and "tokens_per_second" in torch["compile"]:
            ratio["ratio"] = ours["tokens_per_second"] / torch["compile"]["tokens_per_second"]
        table.append({"model": model, "sequence": int(length), "ours": ours, "torch": torch, **ratio})
        failed |= "absent" in ours
        rates = [show(found, "tokens_per_second", 1, "{:.0f}") for found in (ours, *torch.values())]
        memory = " / ".join(show(ours, key, 2**-30, "{:.1f}") for key in ("planned_bytes", "held_bytes"))
        print(
            f"| {model} | {length} | {rates[0]} | {show(ours, 'share_of_peak', 100, '{:.1f} %')} | {rates[1]} | "
            f"{rates[2]} | {show(ratio, 'ratio', 1, '{:.2f}')} | {memory} |",
            flush=True,
        )
        for name, found in (("ours", ours), *torch.items()):
            if "absent" in found:
                print(f"  {model}:{length}, {name}: {found['absent']}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps({"schema": 1, "rows": table}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
