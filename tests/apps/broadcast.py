#!/usr/bin/env python3
"""Sends ending signals to real jobs at random moments, and checks what is promised of that.

    tests/apps/broadcast.py BIN [--trials N] [--seed S]

BIN is the folder of the programs. A signal goes to the launcher and every rank at once (as systemd, scancel and docker
stop send it), to all ranks, to the launcher or to one rank: when the job starts, in steady state, in a checkpoint, in an
evaluation or near the end. Checked each time: the job ends within the deadline, with the signal's code (or with 0 where
it was done); nothing is left running; if it has trained there is a checkpoint of all that it has trained, and the run
resumes from it to the hash of one that was drained at the same minibatch and nobody disturbed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time

from nemesis import LAYOUTS, MOMENTS, PATIENCE, Broken, Run, leftovers

DEADLINE = 20.0  # seconds for a job to end in order; it computes for milliseconds
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


class Trial:
    """Which job gets what signal where and when."""

    def __init__(self, rng):
        self.layout = rng.choice(LAYOUTS)
        self.transport = rng.choice(["shm", "tcp"])
        self.signal = rng.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGINT])
        self.to = rng.choice(["all", "all", "all", "ranks", "launcher", "one"])
        self.moment = rng.choice(MOMENTS)

    def __str__(self):
        return (f"{self.signal.name} to {self.to} of {self.layout[2]} ({self.layout[0]} {self.layout[1]}, "
                f"{self.transport}) at {self.moment}")


def events(run, kind):
    try:
        with open(run.metrics, encoding="utf-8") as file:
            return [e for e in map(json.loads, file.read().splitlines()) if e["event"] == kind]
    except OSError:
        return []


def step_of_checkpoint(folder):
    """0 when there is none."""
    try:
        with open(os.path.join(folder, "c", "latest"), encoding="utf-8") as file:
            return int(file.read().split()[0].rsplit("-", 1)[1])  # "step-N DIGEST"
    except OSError:
        return 0


def completed(binaries, folder, layout, transport, resume, more=()):
    run = Run(binaries, folder, layout, transport, False, resume, more)
    code, output, errors = run.finish(PATIENCE)
    if code != 0:
        raise Broken(f"an undisturbed run ended with {code}: {errors}{output}")
    return run


def drained_at(binaries, layout, transport, step, hashes):
    """The hash of a run that stops at that minibatch by its options, and goes on."""
    key = (layout, step)
    if key not in hashes:
        folder = tempfile.mkdtemp(prefix="penstock-broadcast-")
        completed(binaries, folder, layout, transport, False, ["--steps", str(step)])
        hashes[key] = completed(binaries, folder, layout, transport, True).hash()
        shutil.rmtree(folder)
    return hashes[key]


def send(run, trial, rng):
    """How many processes got it."""
    sent = 0
    ranks = [p for p in (run.pid_of(r) for r in range(run.ranks)) if p]
    targets = {"all": [run.process.pid] + ranks, "ranks": ranks, "launcher": [run.process.pid],
               "one": ranks and [rng.choice(ranks)]}[trial.to]
    rng.shuffle(targets)
    for target in targets:
        try:
            os.kill(target, trial.signal)
            sent += 1
        except ProcessLookupError:
            pass
    return sent


def one_trial(binaries, trial, rng, hashes):
    """Seconds that the job took to end, and what it left."""
    folder = tempfile.mkdtemp(prefix="penstock-broadcast-")
    run = Run(binaries, folder, trial.layout, trial.transport, False)
    got = run.wait_for(trial.moment, rng) and send(run, trial, rng)
    begin = time.monotonic()
    code, output, errors = run.finish(DEADLINE if got else PATIENCE)
    seconds = time.monotonic() - begin
    steps = events(run, "step")
    done = len(steps)
    finished = any(e["end"] == "finished" for e in events(run, "summary"))
    if code != CODES[trial.signal] and not (code == 0 and finished):
        raise Broken(f"ended with {code} after {seconds:.1f} s: {errors}{output}")
    if left := [p for p in leftovers(folder) if p.isdigit()]:  # shared memory may be another test's
        raise Broken(f"left behind: {left}")
    saved = step_of_checkpoint(folder)
    if done != saved:
        raise Broken(f"trained {done} minibatches, saved {saved}: {errors}{output}")
    if saved and not finished:
        rest = completed(binaries, folder, trial.layout, trial.transport, True)
        if rest.hash() != drained_at(binaries, trial.layout, trial.transport, saved, hashes):
            raise Broken(f"resumed from minibatch {saved} to another hash")
    shutil.rmtree(folder)
    return seconds, f"{got or 'none'} reached, code {code}, {saved} minibatches saved"


def main():
    parser = argparse.ArgumentParser(description="Random ending signals to jobs of several processes.")
    parser.add_argument("binaries")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    hashes = {}
    failures = 0
    for i in range(options.trials):
        trial = Trial(rng)
        try:
            seconds, what = one_trial(options.binaries, trial, rng, hashes)
            print(f"{i + 1:3} ok      {trial}: {seconds:.1f} s; {what}", flush=True)
        except Broken as broken:
            failures += 1
            print(f"{i + 1:3} BROKEN  {trial}: {broken}", flush=True)
    print(f"{options.trials} trials, {failures} broken promises")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
