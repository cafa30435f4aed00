"""Profiles a model, plans stages, trains, and compares; again and again, so that predictions and runs alternate.

    python tools/bench_predict.py build/bin bert --length 128 --batch 8 --optimizer adamw
    python tools/bench_predict.py build/bin gnmt8 --length 25 --batch 32 --optimizer adam

Options of this program: --rounds 5, --steps 24, --stages 2, --schedule pipedream. The rest is the model's and goes to
`penstock profile` and to the training. Prints for each round the predicted and the measured step and, by the trace, each
stage's busy share of the steady state, and the share of the run that the source waited for data; last the medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def run(*command):
    ended = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(f"bench_predict: {' '.join(map(str, command))}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def main():
    options = argparse.ArgumentParser(usage=__doc__, allow_abbrev=False)
    options.add_argument("bin")
    options.add_argument("model")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--steps", type=int, default=24)
    options.add_argument("--stages", type=int, default=2)
    options.add_argument("--schedule", default="pipedream")
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--optimizer", default="sgd")
    o, rest = options.parse_known_args()
    penstock, app = os.path.join(o.bin, "penstock"), os.path.join(o.bin, o.model)
    errors, slower = [], []
    with tempfile.TemporaryDirectory() as folder:
        profile, plan, trace = (os.path.join(folder, name) for name in ("profile.json", "plan.json", "run.pftrace"))
        for turn in range(o.rounds):
            run(penstock, "profile", o.model, *rest, "--samples", o.batch, "--workers", o.stages, "--optimizer", o.optimizer,
                "-o", profile)
            run(penstock, "plan", profile, "--workers", o.stages, "--bandwidth", "5GB/s", "--stages", o.stages, "--schedule",
                o.schedule, "--batch", o.batch, "--optimizer", o.optimizer, "-o", plan)
            text = run(app, *rest, "--batch", o.batch, "--optimizer", o.optimizer, "--plan", plan, "--steps", o.steps,
                       "--eval-every", -1, "--trace", trace)
            line = next(line for line in text.split("\n") if line.startswith("predicted / measured"))
            predicted, measured = (float(x) for x in line.split("step ")[1].split(" ms")[0].split(" / "))
            summary = json.loads(run(penstock, "trace", "summary", trace, "--json"))
            stages = summary["stages"]
            errors.append(predicted / measured - 1)
            slower.append(max(s["busy"] for s in stages))
            shares = ", ".join(f"{100 * s['busy']:.1f} % busy" for s in stages)
            data = summary["source"]["waited_for_data_seconds"] / summary["run_seconds"]
            print(f"  round {turn + 1}: step predicted {predicted:.1f} ms, measured {measured:.1f} ms, "
                  f"{100 * errors[-1]:+.1f} %; stages {shares}; source waits for data {100 * data:.2f} %", flush=True)
    print(f"{o.model}, {o.stages} stages, {o.schedule}, medians of {o.rounds}: prediction {100 * statistics.median(errors):+.1f} %, "
          f"error {100 * statistics.median(map(abs, errors)):.1f} %, slower stage busy {100 * statistics.median(slower):.1f} %")


if __name__ == "__main__":
    main()
