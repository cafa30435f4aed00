"""Watches a run's memory while lengths vary: what grows is kept for shapes that do not return.

    python tools/bench_growth.py build/bin/gnmt8 --data parallel:... --epochs 2 ...

The command is run with --metrics. Prints, for each tenth of its steps, the most memory that the program had resident
then; last, the most of the second half over that of the first. What comes after the last step, when all
weights are gathered, is left out.
"""
import json
import os
import subprocess
import sys
import tempfile
import time


def resident_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:")), 0)
    except OSError:
        return 0


def main():
    command = sys.argv[1:]
    if not command:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        metrics = os.path.join(folder, "metrics.jsonl")
        with subprocess.Popen([*command, "--metrics", metrics], stdout=subprocess.DEVNULL) as run:
            samples, steps, rest = [], 0, ""
            open(metrics, "a", encoding="utf-8").close()
            with open(metrics, encoding="utf-8") as events:
                while run.poll() is None:
                    *lines, rest = (rest + events.read()).split("\n")
                    steps = max([steps, *(e["step"] for e in map(json.loads, lines) if e["event"] == "step")])
                    samples.append((steps, resident_bytes(run.pid)))
                    time.sleep(0.05)
        if run.returncode != 0:
            sys.exit(f"bench_growth: the command ended with {run.returncode}")
    samples = [(s, b) for s, b in samples if s < steps]
    for tenth in range(10):
        most = max((b for s, b in samples if steps * tenth <= 10 * s < steps * (tenth + 1)), default=0)
        print(f"  to step {steps * (tenth + 1) // 10:6d}: {most / 1e6:8.1f} MB resident at most")
    first, second = (max(b for s, b in samples if 0 < 2 * s <= steps), max(b for s, b in samples if 2 * s > steps))
    print(f"{steps} steps: the second half's most is {second / first:.3f} of the first half's")


if __name__ == "__main__":
    main()
