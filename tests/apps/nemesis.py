#!/usr/bin/env python3
"""Kills, stops and cuts off ranks of real jobs at random moments, and checks what is promised of that.

    tests/apps/nemesis.py BIN [--faults N] [--seed S] [--moments M...] [--hosts]

BIN is the folder of the programs. Each fault hits one rank of a small run: when it starts, in steady state, in a
checkpoint, in an evaluation, in a change of plan or near the end. Checked each time: every other process ends within the deadline, not with
0; one cause is told, and it names the rank; nothing is left running or in shared memory; the run resumes and ends with
the hash of an undisturbed one. With --hosts (root) the ranks sit in network namespaces and links are cut as well.
"""

import argparse
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE = 10.0  # seconds for the other ranks to end
LAUNCHER = 5.0  # and for the launcher to end one that was stopped
PATIENCE = 120.0  # for a run that nobody disturbs
LAYOUTS = [("pipedream", "1,1", 2, ""), ("pipedream", "2,1", 3, ""), ("pipedream", "1,2,1", 4, ""),
           ("data-parallel", "3", 3, ""), ("1f1b", "2,1", 3, "4"), ("2bw", "2,1", 2, "4")]
MOMENTS = ["start", "steady", "checkpoint", "evaluation", "end"]
# For the moment "change": the plan changes after every step, in cuts and processes, so most of the time goes there.
CHANGING = ("pipedream", "1,1", 2, "")
CHANGE_EVERY = 1
CUTS = [(("conv1", "flatten"), ("fc1", "fc3")), (("conv1", "pool1"), ("conv2", "fc3"))]
NETNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "netns")


class Broken(Exception):
    """A promise that was not kept."""


class Fault:
    """Which rank of which job is hit how and when."""

    def __init__(self, rng, hosts, moments):
        self.layout = rng.choice(LAYOUTS)
        self.transport = "hosts" if hosts else rng.choice(["shm", "tcp"])
        self.what = rng.choice(["kill", "stop"] + (["cut", "cut"] if hosts else []))
        self.moment = rng.choice(moments)
        self.rank = rng.randrange(self.layout[2])
        if self.moment == "change":
            self.layout, self.what, self.rank = CHANGING, "kill", rng.randrange(2)

    def __str__(self):
        return (f"{self.what} rank {self.rank} of {self.layout[2]} ({self.layout[0]} {self.layout[1]}, "
                f"{self.transport}) at {self.moment}")


class Run:
    """One launched run of a small network in a folder of its own."""

    def __init__(self, binaries, folder, layout, transport, hosts, resume=False, more=()):
        schedule, replicas, self.ranks, microbatches = layout
        self.folder = folder
        self.metrics = os.path.join(folder, "m.jsonl")
        command = [os.path.join(binaries, "penstock"), "launch", "-np", str(self.ranks)]
        if hosts:
            names = [f"10.77.0.{i + 1}" for i in range(self.ranks)]
            command += ["--hosts", ",".join(names), "--ssh", f"{NETNS} ssh"]
        command += ["--", os.path.join(binaries, "lenet"), "--synthetic-samples", "480", "--batch", "16", "--threads",
                    "1", "--schedule", schedule, "--replicas", replicas, "--epochs", "6", "--eval-every", "2",
                    "--momentum", "0.9", "--checkpoint", os.path.join(folder, "c"), "--checkpoint-every", "25",
                    "--metrics", self.metrics]
        command += ["--join-timeout", "8"]  # so long is waited for one that is stopped before it has come
        if not hosts:
            command += ["--transport", transport]
        if microbatches:
            command += ["--microbatches", microbatches]
        if resume:
            command += ["--resume"]
        command += more
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)

    def pid_of(self, rank):
        """The process of a rank, when it is there."""
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    variables = file.read().split(b"\0")
                with open(os.path.join(os.path.dirname(path), "cmdline"), "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if (f"PENSTOCK_RANK={rank}".encode() in variables and self.folder.encode() in b" ".join(words)
                    and words[0].endswith(b"lenet")):
                return int(path.split("/")[2])
        return None

    def steps(self):
        try:
            with open(self.metrics, encoding="utf-8") as file:
                return sum('"event":"step"' in line for line in file)
        except OSError:
            return 0

    def wait_for(self, moment, rng):
        """Waits until the run is about at that moment; False when it ended before."""
        wanted = {"start": 0, "steady": rng.randint(5, 150), "checkpoint": rng.choice([25, 50, 100]),
                  "evaluation": rng.choice([60, 120]), "end": 178, "change": rng.randint(3, 170)}[moment]
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            if moment == "start":
                time.sleep(rng.uniform(0, 0.4))
                return True
            if self.steps() >= wanted:
                if moment == "change":
                    time.sleep(rng.uniform(0, 0.03))  # a few changes long
                return True
            time.sleep(0.001)
        return False

    def finish(self, seconds):
        """Exit code, output, errors; everything is killed at the deadline."""
        try:
            output, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            raise Broken(f"still running after {seconds:.0f} s") from None
        return self.process.returncode, output, errors

    def hash(self):
        with open(self.metrics, encoding="utf-8") as file:
            last = json.loads(file.read().splitlines()[-1])
        return last["weights_sha256"] + last["state_sha256"]


def plan_changes(folder):
    """Options for changes all along, between plans that differ in cuts or processes."""
    files = []
    for i, (cut, ranks) in enumerate((cut, ranks) for cut in CUTS for ranks in ((0, 1), (1, 0))):
        stages = [{"first_layer": first, "last_layer": last, "replicas": 1, "ranks": [rank]}
                  for (first, last), rank in zip(cut, ranks)]
        files.append(os.path.join(folder, f"plan{i}.json"))
        with open(files[-1], "w", encoding="utf-8") as file:
            json.dump({"format": "penstock-plan", "version": 1, "schedule": "pipedream", "processes": 2,
                       "stages": stages}, file)
    options = []
    for step in range(CHANGE_EVERY, 180, CHANGE_EVERY):
        options += ["--replan", f"{step}:{files[(step // CHANGE_EVERY) % len(files)]}"]
    return options


def leftovers(folder):
    """Processes that still belong to the run, and shared memory that belongs to nobody."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if folder.encode() in file.read() and int(path.split("/")[2]) != os.getpid():
                    found.append(path.split("/")[2])
        except OSError:
            continue
    return found + [f for f in os.listdir("/dev/shm") if "ucx" in f]


def seconds_until_gone(processes, begin):
    """When the last of them had ended; they are no children of ours."""
    while any(os.path.exists(f"/proc/{p}") and not is_zombie(p) for p in processes):
        if time.monotonic() - begin > DEADLINE:
            raise Broken(f"other ranks still run after {DEADLINE:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - begin


def is_zombie(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def undisturbed(binaries, layout, transport, hosts, changes):
    folder = tempfile.mkdtemp(prefix="penstock-nemesis-")
    run = Run(binaries, folder, layout, transport, hosts, more=plan_changes(folder) if changes else ())
    code, output, errors = run.finish(PATIENCE)
    if code != 0:
        raise Broken(f"an undisturbed run ended with {code}: {errors}{output}")
    if changes and output.count("; it took ") != 179 // CHANGE_EVERY:
        raise Broken(f"an undisturbed run changed its plan {output.count('change of plan')} times")
    result = run.hash()
    shutil.rmtree(folder)
    return result


def strike(run, what, rank):
    """Hits a rank; returns its process, or None when it is not there (yet, or any more)."""
    pid = run.pid_of(rank)
    if pid is None:
        return None
    if what == "cut":
        subprocess.run([NETNS, "cut", str(rank)], check=True, stdout=subprocess.DEVNULL)
    else:
        os.kill(pid, signal.SIGKILL if what == "kill" else signal.SIGSTOP)
    return pid


def one_fault(binaries, fault, rng, hosts, hashes):
    """Seconds that the others took to end, and the cause they told."""
    layout, transport, what, rank = fault.layout, fault.transport, fault.what, fault.rank
    changes = fault.moment == "change"
    if (layout, changes) not in hashes:
        hashes[layout, changes] = undisturbed(binaries, layout, transport, hosts, changes)
    wanted = hashes[layout, changes]
    folder = tempfile.mkdtemp(prefix="penstock-nemesis-")
    run = Run(binaries, folder, layout, transport, hosts, more=plan_changes(folder) if changes else ())
    try:
        in_time = run.wait_for(fault.moment, rng)
        others = [p for p in (run.pid_of(r) for r in range(run.ranks) if r != rank) if p] if in_time else []
        pid = strike(run, what, rank) if in_time else None
        seconds = seconds_until_gone(others, time.monotonic()) if pid else 0
        code, output, errors = run.finish(LAUNCHER if pid else PATIENCE)
        cause = errors.strip().splitlines()[0][:110] if errors.strip() else "no cause was told"
        if pid is not None and code == 0 and '"event":"summary"' in open(run.metrics, encoding="utf-8").read():
            pid = None  # it had nothing left to do
        if pid is not None:
            if code == 0:
                raise Broken("ended with 0")
            if f"rank {rank}" not in errors:
                raise Broken(f"the cause does not name rank {rank}: {errors}")
    finally:
        if what == "cut":
            subprocess.run([NETNS, "join", str(rank)], check=False, stdout=subprocess.DEVNULL)
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
    left = leftovers(folder)
    if left:
        raise Broken(f"left behind: {left}")
    if code != 0:
        has_checkpoint = os.path.exists(os.path.join(folder, "c", "latest"))
        rest = Run(binaries, folder, layout, transport, hosts, has_checkpoint, plan_changes(folder) if changes else ())
        code, output, errors = rest.finish(PATIENCE)
        if code != 0:
            raise Broken(f"did not resume: {errors}{output}")
        if rest.hash() != wanted:
            raise Broken("resumed to another hash")
    elif run.hash() != wanted:
        raise Broken("another hash")
    shutil.rmtree(folder)
    return seconds, "ended before" if pid is None else cause


def main():
    parser = argparse.ArgumentParser(description="Random faults in jobs of several processes.")
    parser.add_argument("binaries")
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--moments", nargs="+", default=MOMENTS + ["change"], choices=MOMENTS + ["change"])
    parser.add_argument("--hosts", action="store_true", help="ranks in network namespaces (root)")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    hashes = {}
    failures = 0
    if options.hosts:
        subprocess.run([NETNS, "up", "4"], check=True, stdout=subprocess.DEVNULL)
    try:
        for i in range(options.faults):
            fault = Fault(rng, options.hosts, options.moments)
            try:
                seconds, cause = one_fault(options.binaries, fault, rng, options.hosts, hashes)
                print(f"{i + 1:3} ok      {fault}: {seconds:.1f} s; {cause}", flush=True)
            except Broken as broken:
                failures += 1
                print(f"{i + 1:3} BROKEN  {fault}: {broken}", flush=True)
    finally:
        if options.hosts:
            subprocess.run([NETNS, "down"], check=False, stdout=subprocess.DEVNULL)
    print(f"{options.faults} faults, {failures} broken promises")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
