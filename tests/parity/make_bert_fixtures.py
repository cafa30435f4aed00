"""Writes the fixtures of bert_parity_test.cpp: a narrow BERT, one gradient and ten AdamW steps by transformers in float64.

Run where transformers and safetensors are installed: python tests/parity/make_bert_fixtures.py
What is stored of a tensor is as in make_fixtures.py; weights and data are drawn from (SEED, name) by both sides. A
minibatch is BATCH sequences with lengths of their own; AdamW has no bias correction, and biases and normalisations no
decay, as BERT's. The masked words of a minibatch are averaged over all of it, however few a sequence has.
"""

import copy
import json
import pathlib

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

import generator
import torch_models
from make_fixtures import SEED, STEPS, summary

HERE = pathlib.Path(__file__).resolve().parent
BATCH, TIME, PREDICTIONS, CLASSES = 6, 9, 4, 3
# As f32 has them: 1 - 0.999 is 1.3e-5 less there, which shows in weights that begin at zero.
RATE, EPSILON, DECAY, BETA1, BETA2 = (float(np.float32(x)) for x in (1e-3, 1e-6, 0.01, 0.9, 0.999))
HEADS = {"classification": transformers.BertForSequenceClassification, "span": transformers.BertForQuestionAnswering,
         "pretraining": transformers.BertForPreTraining}


def whole(name, count, below):
    return torch.from_numpy((generator.words(SEED, name, count) % np.uint64(below)).astype(np.int64))


def draw_weights(net):
    with torch.no_grad():
        for key, value in net.named_parameters():
            if key.endswith("LayerNorm.weight"):
                value.fill_(1)
            elif key.endswith("bias"):
                value.zero_()
            else:
                value.copy_(torch.from_numpy(generator.normal(SEED, key, tuple(value.shape), 0.02)))
            if key.endswith("word_embeddings.weight"):
                value[0] = 0


def draw_data(vocabulary):
    n = STEPS * BATCH
    data = {"lengths": 3 + whole("lengths", n, TIME - 2)}
    inside = torch.arange(TIME)[None, :] < data["lengths"][:, None]
    data["input_ids"] = (1 + whole("input_ids", n * TIME, vocabulary - 1)).view(n, TIME) * inside
    data["token_type_ids"] = whole("token_type_ids", n * TIME, 2).view(n, TIME) * inside
    data["labels"] = whole("labels", n, CLASSES)
    data["start_positions"] = whole("start_positions", n, TIME)
    data["end_positions"] = whole("end_positions", n, TIME)
    counted = torch.arange(PREDICTIONS)[None, :] < whole("masked_counts", n, PREDICTIONS + 1)[:, None]
    data["masked_positions"] = whole("masked_positions", n * PREDICTIONS, 3).view(n, PREDICTIONS) * counted
    words = whole("masked_labels", n * PREDICTIONS, vocabulary).view(n, PREDICTIONS)
    data["masked_labels"] = torch.where(counted, words, -100)
    data["next_sentence_label"] = whole("next_sentence_label", n, 2)
    return data


def loss_of(net, head, b):
    mask = (torch.arange(TIME)[None, :] < b["lengths"][:, None]).long()
    inputs = dict(input_ids=b["input_ids"], token_type_ids=b["token_type_ids"], attention_mask=mask)
    if head == "classification":
        return net(**inputs, labels=b["labels"]).loss
    if head == "span":
        return net(**inputs, start_positions=b["start_positions"], end_positions=b["end_positions"]).loss
    out = net(**inputs)
    words = out.prediction_logits[torch.arange(BATCH)[:, None], b["masked_positions"]]
    entropy = torch.nn.functional.cross_entropy
    return (entropy(words.flatten(0, 1), b["masked_labels"].flatten())
            + entropy(out.seq_relationship_logits, b["next_sentence_label"]))


def train(net, head, data):
    moments = {n: (torch.zeros_like(p), torch.zeros_like(p)) for n, p in net.named_parameters()}
    losses, gradients = [], {}
    for begin in range(0, STEPS * BATCH, BATCH):
        net.zero_grad()
        loss = loss_of(net, head, {k: v[begin:begin + BATCH] for k, v in data.items()})
        loss.backward()
        if not gradients:
            gradients = {n: p.grad.detach().double().clone() for n, p in net.named_parameters()}
        with torch.no_grad():
            for n, p in net.named_parameters():
                m, v = moments[n]
                m.mul_(BETA1).add_(p.grad, alpha=1 - BETA1)
                v.mul_(BETA2).add_(p.grad**2, alpha=1 - BETA2)
                p.sub_(RATE * (m / (v.sqrt() + EPSILON) + (0 if p.dim() == 1 else DECAY) * p))
        losses.append(loss.item())
    return losses, gradients, {n: p.detach().double().clone() for n, p in net.named_parameters()}


def main():
    sizes = json.loads((HERE / "fixtures" / "bert.json").read_text())
    for head, kind in HEADS.items():
        config = transformers.BertConfig(**sizes, num_labels=2 if head == "span" else CLASSES,
                                         tie_word_embeddings=head == "pretraining", attn_implementation="eager")
        data = draw_data(config.vocab_size)
        net = kind(config).train()
        draw_weights(net)
        losses, gradients, final = train(copy.deepcopy(net).double(), head, data)
        runs = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            runs.append(train(copy.deepcopy(net), head, data))
            with torch.backends.mkldnn.flags(enabled=False):
                runs.append(train(copy.deepcopy(net), head, data))
        tensors = {"losses": torch.tensor(losses, dtype=torch.float32)}
        for prefix, which, references in (("gradient:", 1, gradients), ("final:", 2, final)):
            for key, reference in references.items():
                error = max(torch_models.relative_error(r[which][key], reference) for r in runs)
                tensors[prefix + key] = summary(key, reference, error)
        file = HERE / "fixtures" / f"bert_{head}.safetensors"
        save_file(tensors, file)
        file.chmod(0o644)
        print(f"{head}: {file.stat().st_size} bytes; losses {losses[0]:.4f} .. {losses[-1]:.4f}; PyTorch float32's own "
              f"error of the losses {max(abs(a - b) for r in runs for a, b in zip(r[0], losses)):.1e}")


if __name__ == "__main__":
    main()
