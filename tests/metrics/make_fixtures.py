#!/usr/bin/env python3
"""Makes fixtures/*.json: BLEU by sacrebleu, macro F1 by scikit-learn, SQuAD's measures by transformers.

    tests/metrics/make_fixtures.py

Needs sacrebleu 2, scikit-learn and transformers. The tests read the files alone.
"""

import json
import os
import random

from sacrebleu.metrics import BLEU
from sklearn.metrics import accuracy_score, f1_score
from transformers.data.metrics.squad_metrics import compute_exact, compute_f1, normalize_answer

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
ODD_LINES = [
    "", " ", "Hello, world!", "1,000.5 at 10:30. In 1984. Year 1999.", "a-b 1-2 -3 4- - --", "...", "¿Qué? ¡Sí! «Él» dijo…",
    "$5 + €10 = £15 ± 3°C", "it's o'clock, the 'x' of “y” and ‘z’", "A.B.C. e.g. U.S.A.", "x²y ½ ⅔ Ⅳ ٣٫٤ 3٫4",
    "ΣΟΦΟΣ ΟΔΥΣΣΕΥΣ Σ ΑΣ’ΣΑ", "İstanbul IĞDIR ǅ ẞ", "snake_case @user #tag 100% a&b a/b a\\b", "中文，标点。符号！ ３．４",
    "tab\there\u00a0no-break\u2003em\u3000wide\u0085next", "&quot;x&quot; &amp;lt; &lt;b&gt; <skipped>y", "a\u0301 e\u0301. \u00ad-\u200bx",
    "(brackets) [square] {curly} <angle>", "trailing blanks .  ", "`back` ^up~ |bar|", ".5 5. ,5 5, 5.5.5 a.5 5.a", "😀.👍🏽! ♥♦",
    "Ünïcödé—dash–dash―", "\ufeffmark", "़ि देवनागरी। ९,९",
]


def write(name, value):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def tokens():
    cases = []
    for name in ("intl", "13a", "none"):
        for lower in (True, False):
            bleu = BLEU(lowercase=lower, tokenize=name)
            cases.append({"tokenizer": name, "lower": lower,
                          "tokens": [bleu._preprocess_segment(line).split() for line in ODD_LINES]})
    write("bleu_tokens.json", {"lines": ODD_LINES, "cases": cases})


def sentence(rng, words, mean):
    text = " ".join(rng.choice(words) for _ in range(max(0, int(rng.gauss(mean, mean / 2)))))
    return text[:1].upper() + text[1:] + rng.choice([".", "!", "?", "", " ..."])


def changed(rng, text, words, share):
    return " ".join(rng.choice(words) if rng.random() < share else word for word in text.split())


def scores():
    rng = random.Random(13)
    words = "the a cat sat on mat, dog's ran 1,5 3.14 year 1999. él corrió; así: $5 Über naïve (so) well-known Σίσυφος".split()
    cases = []
    for lines, mean, share, sets, name, lower in ((40, 12, 0.3, 1, "intl", True), (40, 12, 0.3, 1, "intl", False),
                                                  (40, 12, 0.3, 1, "13a", True), (40, 12, 0.3, 1, "none", True),
                                                  (25, 9, 0.5, 3, "intl", True), (6, 5, 0.8, 1, "intl", True),
                                                  (3, 2, 0.5, 1, "intl", True), (4, 12, 1.0, 1, "intl", True),
                                                  (5, 3, 0.0, 1, "intl", True)):
        references = [[sentence(rng, words, mean) for _ in range(lines)] for _ in range(sets)]
        hypotheses = [changed(rng, rng.choice(references)[i], words, share) for i in range(lines)]
        if lines == 25:  # shorter than the references
            hypotheses = [" ".join(text.split()[:-2]) for text in hypotheses]
        bleu = BLEU(lowercase=lower, tokenize=name)
        score = bleu.corpus_score(hypotheses, references)
        cases.append({"hypotheses": hypotheses, "references": references, "tokenizer": name, "lower": lower,
                      "score": score.score, "counts": list(map(int, score.counts)), "totals": list(map(int, score.totals)),
                      "precisions": score.precisions, "bp": score.bp, "sys_len": score.sys_len, "ref_len": score.ref_len,
                      "signature": str(bleu.get_signature()).split("|version")[0]})
    write("bleu.json", cases)


def classes():
    rng = random.Random(14)
    cases = []
    for samples, labels in ((1, 1), (20, 3), (200, 45), (50, 10)):
        truth = [str(rng.randrange(labels)) for _ in range(samples)]
        said = [label if rng.random() < 0.6 else str(rng.randrange(labels + 2)) for label in truth]
        cases.append({"truth": truth, "said": said, "accuracy": accuracy_score(truth, said),
                      "macro_f1": f1_score(truth, said, average="macro", zero_division=0)})
    write("classes.json", cases)


def squad():
    answers = ["the Normans", "Normans", "in the 10th century", "10th  and 11th centuries", "a", "The", "a-b an the-c",
               "l’a théâtre", "$5.00 (five)", "snake_case", "U.S.A", "USA", "an apple a day", "Apple day apple", "the then they",
               "½ a½ ٣a", "\tthe\u00a0end\u2003", "“the” 'a'", "theatre an", "中a文", "ÉCOLE the École", "ΟΔΟΣ"]
    write("squad.json", {
        "normalised": [[answer, normalize_answer(answer)] for answer in answers],
        "pairs": [[said, truth, compute_exact(truth, said), compute_f1(truth, said)] for said in answers for truth in answers
                  if normalize_answer(said) and normalize_answer(truth)]})  # version 2's script, which differs in empty ones


if __name__ == "__main__":
    tokens()
    scores()
    classes()
    squad()
