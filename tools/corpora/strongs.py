"""Spans of the King James text that translate a word of Strong's dictionaries, in SQuAD's form."""

import collections
import json
import os
import re
import zlib

from corpora import sword
from corpora.bible import ENGLISH, part_of

TAGGED = re.compile(r'<w\b[^>]*lemma="strong:([GH])0*(\d+)"[^>]*>(.*?)</w>', re.DOTALL)
DEFINITION = re.compile(r"<def>(.*?)</def>", re.DOTALL)
MOST_USES = 400  # of a lemma; what is tagged more often is "and", "of", "LORD"
QUESTIONS = 3    # of a verse


def definition(markup):
    """A dictionary entry's definition as one line, or "". Braces stand around single words there and mean nothing."""
    text = " ".join(sword.TAG.sub("", part) for part in DEFINITION.findall(markup))
    return " ".join(re.sub(r"[{}]", "", text).split())


def spans(markup):
    """(a verse's plain text, [(lemma such as H7225, first character, the tagged words)])."""
    pieces, at = [], 0
    markup = sword.without_notes(markup)
    for tagged in TAGGED.finditer(markup):
        pieces += [(None, markup[at:tagged.start()]), (tagged.group(1) + tagged.group(2), tagged.group(3))]
        at = tagged.end()
    text, found, pending = "", [], False
    for lemma, piece in pieces + [(None, markup[at:])]:
        piece = sword.TAG.sub("", piece)
        words = " ".join(piece.split())
        if words:
            if text and (pending or piece[0].isspace()):
                text += " "
            if lemma:
                found.append((lemma, len(text), words))
            text += words
        pending = piece[-1:].isspace() or (pending and not words)
    return text, found


def questions(reference, found, uses, definitions):
    """The verse's questions: of its rarer lemmas the few that their CRC-32 puts first."""
    places = collections.defaultdict(list)
    for lemma, start, words in found:
        if uses[lemma] <= MOST_USES and definitions.get(lemma):
            places[lemma].append({"text": words, "answer_start": start})
    chosen = sorted(places, key=lambda lemma: (zlib.crc32(f"{reference} {lemma}".encode()), lemma))[:QUESTIONS]
    return [{"id": f"{reference}-{lemma}", "question": definitions[lemma], "answers": places[lemma]} for lemma in chosen]


def make_spans(roots, folder):
    """train.json and dev.json: SQuAD 1.1's form, a book an article, a verse a paragraph. As there, a question of the train
    part has one answer; in dev it has every place of the verse that is tagged with the word."""
    definitions = {}
    for letter, package, module in (("G", "sword-dict-strongs-greek", "strongsgreek"),
                                    ("H", "sword-dict-strongs-hebrew", "strongshebrew")):
        for key, markup in sword.dictionary(roots[package], module).items():
            definitions[letter + key.lstrip("0")] = definition(markup)
    tagged = [(reference, *spans(markup)) for reference, markup in sword.verses(roots["sword-text-kjv"], ENGLISH)]
    uses = collections.Counter(lemma for _, _, found in tagged for lemma, _, _ in found)
    counts = {"tagged spans": sum(uses.values()), "lemmas": len(uses)}
    for name, parts in (("train", ("train", "valid")), ("dev", ("test",))):
        books, asked = {}, 0
        for number, (reference, text, found) in enumerate(tagged):
            if part_of(number) not in parts:
                continue
            asking = questions(reference, found, uses, definitions)
            if name == "train":
                for question in asking:
                    del question["answers"][1:]
            if asking:
                books.setdefault(reference.split(".")[0], []).append({"context": text, "qas": asking})
            asked += len(asking)
        data = [{"title": book, "paragraphs": paragraphs} for book, paragraphs in books.items()]
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            json.dump({"version": "1.1", "data": data}, file, ensure_ascii=False)
        counts[name + " questions"] = asked
    return counts
