"""Corpora of Bible text: verse pairs for translation, and tokens for language models."""

import collections
import os
import re

from corpora import sword

ENGLISH, SPANISH = "engKJV2006eb", "spaRV1909eb"
VOCABULARY = 10_000
PARTS = ("train", "valid", "test")


def part_of(verse):
    """Of the verse with that number, from 0: blocks of 100 verses, so that what is held out is not the train set's next
    verse; one block of 20 to validate and one to test."""
    return {9: "valid", 19: "test"}.get(verse // 100 % 20, "train")


def tokens_of(verse):
    """Lower-case words and single marks; a letter outside a to z, which is only the æ of Judæa, ends a word."""
    return re.findall(r"[a-z]+|[^\w\s]", verse.lower())


def write_lines(folder, name, lines):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def make_pairs(roots, folder):
    """train, valid and test as .tsv (English TAB Spanish) and as aligned files .en and .es. A verse that is empty in
    either language is left out; its number counts."""
    english = sword.verses(roots["sword-text-kjv"], ENGLISH)
    spanish = dict(sword.verses(roots["sword-text-sparv"], SPANISH))
    pairs = {part: [] for part in PARTS}
    for number, (reference, markup) in enumerate(english):
        pair = sword.plain(markup), sword.plain(spanish[reference])
        if all(pair):
            pairs[part_of(number)].append(pair)
    for part in PARTS:
        write_lines(folder, part + ".tsv", ("\t".join(pair) for pair in pairs[part]))
        for side, language in enumerate(("en", "es")):
            write_lines(folder, f"{part}.{language}", (pair[side] for pair in pairs[part]))
    return {f"{part} pairs": len(pairs[part]) for part in PARTS} | {"pairs": sum(map(len, pairs.values()))}


def make_text(roots, folder):
    """train, valid and test as .txt, a verse a line, tokens apart by blanks, and vocab.txt: <eos>, <unk> and the train
    part's most frequent tokens, ties in byte order."""
    parts = {part: [] for part in PARTS}
    for number, (_, markup) in enumerate(sword.verses(roots["sword-text-kjv"], ENGLISH)):
        parts[part_of(number)].append(tokens_of(sword.plain(markup)))
    for part, verses in parts.items():
        write_lines(folder, part + ".txt", (" ".join(verse) for verse in verses))
    seen = collections.Counter(token for verse in parts["train"] for token in verse)
    ranked = sorted(seen, key=lambda token: (-seen[token], token.encode()))
    write_lines(folder, "vocab.txt", ["<eos>", "<unk>"] + ranked[:VOCABULARY - 2])
    counts = {f"{part} tokens with <eos>": sum(len(verse) + 1 for verse in verses) for part, verses in parts.items()}
    types = {token for verses in parts.values() for verse in verses for token in verse}
    return counts | {"types with <eos>": len(types) + 1}
