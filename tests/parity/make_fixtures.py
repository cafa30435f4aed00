"""Writes the fixtures of parity_test.cpp: narrow networks, one gradient and ten SGD steps by PyTorch in float64.

Run where torchvision and safetensors are installed: python tests/parity/make_fixtures.py

Weights and inputs are not stored: both sides draw them from (SEED, name) by the generator of kernels/initialise.hpp;
the inputs are N(0, 1) under the name "input". Of each tensor is stored, as f32: its L2 norm, PyTorch float32's own
relative error (the largest over its ways to compute: threads, layouts, with and without oneDNN), and SKETCHES sums of
its elements with random signs: bit k of the element's word of the stream (SEED, tensor's name). The mean square of
the differences of two such sketches is the squared L2 norm of the difference of the tensors, within a few tens of
per cent. `losses` are those of the steps, `whole_error` is PyTorch float32's own over all parameters at the end.
"""

import argparse
import copy
import math
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

import generator
import torch_models

SEED = 20
STEPS = 10
BATCH = 8
SKETCHES = 32
MOMENTUM = 0.9
CLASSES = 10
CASES = {"lenet": dict(width=1.0, image_size=28, channels=1), "resnet18": dict(width=0.125, image_size=32, channels=3),
         "inception_v3": dict(width=0.125, image_size=75, channels=3),
         "vit_b_16": dict(width=0.1, image_size=48, channels=3)}
# Narrow ones end in batch normalisation over 8 numbers, which at the usual rate is chaotic within ten steps.
LEARNING_RATES = {"lenet": 0.01, "resnet18": 0.001, "inception_v3": 0.0001, "vit_b_16": 0.01}
# Behind a chain of forty normalisations and ReLUs without a residual any rounding becomes a difference of a few per
# cent in the first gradients. Shifts of 1.5 +- 1 before the ReLUs, which then shut seldom, keep it well-conditioned.
NORM_SHIFT = {"inception_v3": 1.5}


def draw_transformer(net):
    """The head's weight too, which torchvision leaves at zero: no gradient would pass it in the first step."""
    for key, value in net.named_parameters():
        shape = tuple(value.shape)
        if key.endswith("mlp.0.bias") or key.endswith("mlp.3.bias"):
            values = generator.normal(SEED, key, shape, 1e-6)
        elif key.endswith(("bias", "class_token")):
            values = np.zeros(shape, np.float32)
        elif "ln" in key.split(".")[-2]:
            values = np.ones(shape, np.float32)
        elif key == "conv_proj.weight":
            values = generator.normal(SEED, key, shape, math.sqrt(1 / value[0].numel()))
        elif key in ("encoder.pos_embedding", "heads.head.weight"):
            values = generator.normal(SEED, key, shape, 0.02)
        elif key.endswith("out_proj.weight"):
            values = generator.uniform(SEED, key, shape, 1 / math.sqrt(shape[1]))
        else:
            values = generator.uniform(SEED, key, shape, math.sqrt(6 / (shape[0] + shape[1])))
        value.copy_(torch.from_numpy(values))


def draw_weights(name, net):
    """Overwrites the parameters with what Penstock's initialisers give for SEED."""
    if name == "vit_b_16":
        with torch.no_grad():
            draw_transformer(net)
        return
    with torch.no_grad():
        for module_name, module in net.named_modules():
            if isinstance(module, torch.nn.BatchNorm2d) and name in NORM_SHIFT:
                values = generator.uniform(SEED, module_name + ".bias", tuple(module.bias.shape), 1.0)
                module.bias.copy_(torch.from_numpy(values + np.float32(NORM_SHIFT[name])))
            if isinstance(module, torch.nn.BatchNorm2d) or not hasattr(module, "weight"):
                continue
            weight = module.weight
            fan_in = weight[0].numel()
            if name == "resnet18" and isinstance(module, torch.nn.Conv2d):
                std = math.sqrt(2.0 / (weight.shape[0] * weight[0, 0].numel()))
                values = generator.normal(SEED, module_name + ".weight", tuple(weight.shape), std)
            elif name == "inception_v3":  # cut at 20 deviations, which nothing drawn reaches
                values = generator.normal(SEED, module_name + ".weight", tuple(weight.shape), 0.1)
            else:
                values = generator.uniform(SEED, module_name + ".weight", tuple(weight.shape), 1 / math.sqrt(fan_in))
            weight.copy_(torch.from_numpy(values))
            if module.bias is not None:
                shape = tuple(module.bias.shape)
                bias = generator.uniform(SEED, module_name + ".bias", shape, 1 / math.sqrt(fan_in))
                module.bias.copy_(torch.from_numpy(bias))


def summary(name, reference, error):
    sketch = generator.signs(SEED, name, reference.numel())[:SKETCHES] @ reference.double().reshape(-1).numpy()
    norm = torch.linalg.vector_norm(reference).item()
    return torch.tensor(np.concatenate([[norm, error], sketch]), dtype=torch.float32)


def make(name, options, folder):
    net = torch_models.build(name, classes=CLASSES, **options)
    draw_weights(name, net)
    samples, rate = STEPS * BATCH, LEARNING_RATES[name]
    size = options["image_size"]
    shape = (samples, options["channels"], size, size)
    inputs = torch.from_numpy(generator.normal(SEED, "input", shape, 1.0))
    targets = torch.from_numpy((generator.words(SEED, "target", samples) % np.uint64(CLASSES)).astype(np.int64))
    losses, gradients, state = torch_models.train(
        copy.deepcopy(net).double(), inputs, targets, BATCH, rate, MOMENTUM)
    parameters = {n: state[n] for n, _ in net.named_parameters()}
    states = {n: t for n, t in state.items() if n.endswith(("running_mean", "running_var"))}
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs += torch_models.float32_runs(net, inputs, targets, BATCH, rate, MOMENTUM)
    tensors = {"losses": torch.tensor(losses, dtype=torch.float32)}
    for key, reference in gradients.items():
        error = max(torch_models.relative_error(g[key], reference) for _, g, _ in runs)
        tensors["gradient:" + key] = summary(key, reference, error)
    for key, reference in (parameters | states).items():
        error = max(torch_models.relative_error(s[key], reference) for _, _, s in runs)
        tensors["final:" + key] = summary(key, reference, error)
    whole = max(torch_models.whole_model_error(s, parameters) for _, _, s in runs)
    tensors["whole_error"] = torch.tensor([whole], dtype=torch.float32)
    file = folder / f"{name}.safetensors"
    save_file(tensors, file)
    file.chmod(0o644)
    worst = max(t[1].item() for n, t in tensors.items() if n.startswith("gradient:"))
    loss_error = max(abs(a - b) for l, _, _ in runs for a, b in zip(l, losses))
    print(f"{name}: {file.stat().st_size} bytes; PyTorch float32's own errors: gradients <= {worst:.1e}, "
          f"whole model {whole:.1e}, losses {loss_error:.1e}; losses {losses[0]:.4f} .. {losses[-1]:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "fixtures")
    parser.add_argument("--models", nargs="+", default=list(CASES))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for model in arguments.models:
        make(model, CASES[model], arguments.folder)
