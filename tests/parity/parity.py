#!/usr/bin/env python3
"""Compares a Penstock app with PyTorch on the same weights and inputs: gradients, losses, the model after SGD steps.

  python tests/parity/parity.py --model resnet18 --image-size 64 --seed 7 [-- options for the app: --stages 2 ...]

The truth is PyTorch in float64; PyTorch float32's own error is the largest over three ways in which it computes
(default, channels_last, without oneDNN). Limits (relative L2 error): each gradient of the first step, and the model
after the last, 3 x PyTorch float32's own error + 1e-5; losses 3 x its own error + 1e-4; lenet, alexnet and vgg also
1e-3 for the whole model. A ReLU whose input is zero to within rounding may open in one program and not in another;
then gradients below it differ by 1e-3 or so. With a ResNet that happens for some seeds and says nothing; a fault
shows with every seed.

Exit code 0: all within; 1: something is not, or a run failed; 2: wrong use; 77: no PyTorch here (skipped). If this
interpreter has no PyTorch, the one named by PENSTOCK_TORCH_PYTHON is used.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
NEEDED = "import torch, torchvision, safetensors.torch"


def reach_pytorch():
    """Goes on in an interpreter that has PyTorch, or ends the script as skipped."""
    try:
        exec(NEEDED, {})
        return
    except ImportError as error:
        reason = str(error)
    other = os.environ.get("PENSTOCK_TORCH_PYTHON")
    if other and "PENSTOCK_PARITY_INNER" not in os.environ:
        if not os.access(other, os.X_OK):
            print(f"skipped: PENSTOCK_TORCH_PYTHON={other} cannot be run")
            sys.exit(SKIPPED)
        os.environ["PENSTOCK_PARITY_INNER"] = "1"
        os.execv(other, [other, os.path.abspath(__file__), *sys.argv[1:]])
    print(f"skipped: PyTorch with torchvision and safetensors is needed ({reason}); "
          "set PENSTOCK_TORCH_PYTHON to a Python that has them")
    sys.exit(SKIPPED)


def parse(arguments):
    extra = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, extra = arguments[:at], arguments[at + 1:]
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--image-size", type=int, default=0, help="default: the least the model takes")
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build" / "bin", help="folder of the apps")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the files here")
    parser.add_argument("--all", action="store_true", help="print every tensor, not only the worst")
    options = parser.parse_args(arguments)
    if options.batch < 8:
        parser.error("--batch must be at least 8")
    return options, extra


def run_app(options, extra, folder):
    command = [
        str(options.bin / options.model), "--data", f"tensors:{folder / 'data.safetensors'}",
        "--weights", str(folder / "weights.safetensors"), "--save-gradients", str(folder / "gradients.safetensors"),
        "--save-weights", str(folder / "final.safetensors"), "--metrics", str(folder / "metrics.jsonl"),
        "--image-size", str(options.image_size), "--classes", str(options.classes), "--width", str(options.width),
        "--batch", str(options.batch), "--steps", str(options.steps), "--optimizer", "sgd", "--lr", str(options.lr),
        "--momentum", str(options.momentum), "--weight-decay", str(options.weight_decay), "--dropout", "0",
        "--seed", str(options.seed), *extra]
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout)
        print(f"failed: the app ended with exit code {done.returncode}")
        sys.exit(1)
    with open(folder / "metrics.jsonl") as lines:
        events = [json.loads(line) for line in lines]
    return [e["loss"] for e in events if e["event"] == "step"]


class Table:
    """Rows of (what, ours, PyTorch float32's own, limit); remembers whether any is over its limit."""

    def __init__(self):
        self.failed = False

    def row(self, what, ours, own, limit, quiet=False):
        bad = not ours <= limit  # so that NaN is bad
        self.failed |= bad
        if bad or not quiet:
            print(f"{what:44} {ours:12.3e} {own:12.3e} {limit:12.3e}  {'OVER' if bad else 'ok'}")

    def group(self, title, rows, show_all):
        """Many rows of which only the worst (nearest its limit) is printed, and those over."""
        if not rows:
            return
        worst = max(rows, key=lambda r: r[1] / r[3] if r[1] == r[1] else float("inf"))
        self.row(f"{title}: worst of {len(rows)}", *worst[1:])
        if not show_all and worst[1] <= worst[3]:
            print(f"{'':4}{worst[0]}")
        for r in rows:
            self.row(f"  {r[0]}", *r[1:], quiet=not show_all)


def compare_names(kind, found, wanted, table):
    for name in sorted(wanted - found):
        print(f"{kind}: {name} is missing")
        table.failed = True
    for name in sorted(found - wanted):
        print(f"{kind}: {name} is unexpected")
        table.failed = True


def main():
    options, extra = parse(sys.argv[1:])
    reach_pytorch()
    import copy

    import torch
    from safetensors.torch import load_file, save_file
    import torch_models as tm

    if options.model not in tm.MODELS:
        print(f"no model '{options.model}'; there are: {', '.join(tm.MODELS)}")
        return 2
    options.image_size = options.image_size or tm.MINIMUM_SIZE[options.model]
    torch.manual_seed(options.seed)
    net = tm.build(options.model, options.classes, options.width, options.image_size)
    samples = options.batch * options.steps
    channels = 1 if options.model == "lenet" else 3
    inputs = torch.randn(samples, channels, options.image_size, options.image_size)
    targets = torch.randint(0, options.classes, (samples,))

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        save_file({n: t.contiguous() for n, t in net.state_dict().items()}, folder / "weights.safetensors")
        save_file({"input": inputs, "target": targets}, folder / "data.safetensors")
        losses = run_app(options, extra, folder)
        gradients = load_file(folder / "gradients.safetensors")
        final = load_file(folder / "final.safetensors")

    rates = (options.batch, options.lr, options.momentum, options.weight_decay)
    truth = tm.train(copy.deepcopy(net).double(), inputs, targets, *rates)
    runs = list(tm.float32_runs(net, inputs, targets, *rates))
    parameters = {n: truth[2][n] for n, _ in net.named_parameters()}
    states = {n: t for n, t in truth[2].items() if n.endswith(("running_mean", "running_var"))}

    table = Table()
    compare_names("gradients", set(gradients), set(parameters), table)
    extras = set(truth[2]) - set(parameters)
    compare_names("weights", set(final) - extras, set(parameters), table)
    print(f"{'relative L2 error against PyTorch float64':44} {'penstock':>12} {'own of f32':>12} {'limit':>12}")

    def rows(found, reference, kind):
        out = []
        for name in reference:
            if name not in found:
                continue
            if found[name].shape != reference[name].shape:
                print(f"{name}: shape {list(found[name].shape)}, wanted {list(reference[name].shape)}")
                table.failed = True
                continue
            error = max(tm.relative_error(run[kind][name], reference[name]) for run in runs)
            out.append((name, tm.relative_error(found[name], reference[name]), error, 3 * error + 1e-5))
        return out

    table.group("gradients of step 1", rows(gradients, truth[1], 1), options.all)
    if set(parameters) <= set(final):
        whole_own = max(tm.whole_model_error(run[2], parameters) for run in runs)
        limit = 3 * whole_own + 1e-5
        if not options.model.startswith("resnet"):
            limit = min(limit, 1e-3)
        table.row(f"whole model after step {options.steps}", tm.whole_model_error(final, parameters), whole_own, limit)
        table.group(f"tensors after step {options.steps}", rows(final, parameters, 2), options.all)
    table.group(f"states after step {options.steps}", rows(final, states, 2), options.all)
    if len(losses) != options.steps:
        print(f"losses: {len(losses)} step events in the metrics, wanted {options.steps}")
        table.failed = True
    loss_rows = []
    for step, (ours, right, *f32) in enumerate(zip(losses, truth[0], *(run[0] for run in runs)), 1):
        error = max(abs(loss - right) for loss in f32)
        loss_rows.append((f"step {step}", abs(ours - right), error, 3 * error + 1e-4))
    table.group("losses (absolute)", loss_rows, options.all)
    print("OVER its limit" if table.failed else "all within their limits")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
