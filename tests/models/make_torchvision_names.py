"""Writes torchvision_names.json: names, shapes, means and deviations of every model's parameters, and its states.

Run where torchvision is installed: python tests/models/make_torchvision_names.py [MODEL ...]
With names, the other models' entries stay as they are.
"""

import json
import pathlib
import sys

import torch

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent / "parity"))
import torch_models  # noqa: E402

torch.manual_seed(1)
file = here / "torchvision_names.json"
models = json.loads(file.read_text()) if sys.argv[1:] else {}
for name in sys.argv[1:] or torch_models.MODELS:
    classes = 10 if name == "lenet" else 1000
    net = torch_models.build(name, classes=classes)
    parameters = {}
    for key, value in net.named_parameters():
        value = value.detach().double()
        parameters[key] = [list(value.shape), float(f"{value.mean():.3e}"), float(f"{value.std():.3e}")]
    states = {key: list(value.shape) for key, value in net.named_buffers()}
    models[name] = {"classes": classes, "parameters": parameters, "states": states}
with open(file, "w") as out:
    out.write("{\n")
    out.write(",\n".join(f"{json.dumps(n)}:{json.dumps(m, separators=(',', ':'))}" for n, m in models.items()))
    out.write("\n}\n")
