"""Compares `bert --embed` with transformers: the largest difference of any number of any line's vector.

Run where transformers and torch are installed:
    python tools/compare_embeddings.py --model FOLDER [--bert build/bin/bert] [--stages N] [FILE ...]
FOLDER has config.json, model.safetensors and vocab.txt. Without files a few lines of its own are compared, among them
an empty one, one of many scripts and one that is longer than the model's positions.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch
import transformers

OWN = ["In the beginning God created the heaven and the earth.", "", "a", "Grüße aus 東京, naïve café — ¡hola! 🚂",
       "pipeline parallel training " * 400, "Is the second line as long as the first one?"]


def reference(folder, lines, batch):
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
    config = transformers.BertConfig.from_json_file(str(folder / "config.json"))
    net = transformers.BertModel.from_pretrained(str(folder), config=config, attn_implementation="eager").eval()
    most = config.max_position_embeddings
    for begin in range(0, len(lines), batch):
        x = tokenizer(lines[begin:begin + batch], padding=True, truncation=True, max_length=most, return_tensors="pt")
        with torch.no_grad():
            hidden = net(**x).last_hidden_state
        mask = x["attention_mask"].unsqueeze(-1)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        yield from torch.nn.functional.normalize(mean).double()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--bert", default="build/bin/bert")
    parser.add_argument("--stages", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    a = parser.parse_args()
    lines = [line for f in a.files for line in f.read_text().split("\n")[:-1]] or OWN
    command = [a.bert, "--embed", "--tokenizer", a.model / "vocab.txt", "--weights", a.model / "model.safetensors",
               "--hf-config", a.model / "config.json", "--stages", str(a.stages), "--batch", str(a.batch)]
    found = subprocess.run(command, input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True, check=True)
    vectors = [torch.tensor(json.loads(line), dtype=torch.float64) for line in found.stdout.splitlines()]
    if len(vectors) != len(lines):
        sys.exit(f"{len(vectors)} vectors, wanted {len(lines)}")
    worst = max((v - w).abs().max().item() for v, w in zip(vectors, reference(a.model, lines, a.batch)))
    print(f"{len(lines)} lines, {a.stages} stages: largest difference {worst:.1e}, wanted at most {a.tolerance:.0e}")
    sys.exit(worst > a.tolerance)


if __name__ == "__main__":
    main()
