#!/usr/bin/env python3
"""Compares `penstock tokenizer encode` with the libraries that its tokenizers are to equal, line by line.

    tools/compare_tokenizers.py KIND TOKENIZER TEXT [--penstock build/bin/penstock] [--cased] [--characters]

KIND is wordpiece (transformers' BertTokenizer), merges (subword-nmt and GNMT's vocabulary), sentencepiece or json
(tokenizers). TEXT is a file of lines; with --characters, which needs no TEXT, the lines hold every character of Unicode
once, alone, within a word and behind a letter. Prints how many lines were compared and how many differ, the first few
of them in full, and exits with 1 if any does. Needs transformers 4 (4.46.3), subword-nmt, sentencepiece.
"""

import argparse
import subprocess
import sys
import time


def lines_of(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def all_characters():
    for number in range(1, 0x110000):
        if number != 10 and number != 13 and not 0xD800 <= number < 0xE000:
            character = chr(number)
            yield f"{character} a{character}b e{character}"


def bert(path, cased):
    from transformers import BertTokenizer

    tokenizer = BertTokenizer(path, do_lower_case=not cased)
    return lambda line: tokenizer.encode(line, add_special_tokens=False)


def merges(path):
    from subword_nmt.apply_bpe import BPE

    bpe = BPE(open(path, encoding="utf-8"))
    tokens = ["<pad>", "<unk>", "<s>", "<\\s>"]
    tokens += [line.strip().split(" ")[0] for line in open(path + ".vocab", encoding="utf-8")]
    tokens += [f"madeupword{i:04d}" for i in range(8 - len(tokens) % 8)]
    ids = {token: number for number, token in enumerate(tokens)}
    return lambda line: [ids.get(token, 1) for token in bpe.process_line(line).strip().split()]


def sentencepiece(path):
    import sentencepiece as library

    model = library.SentencePieceProcessor(model_file=path)
    return model.encode


def json(path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return lambda line: tokenizer.encode(line, add_special_tokens=False).ids


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["wordpiece", "merges", "sentencepiece", "json"])
    parser.add_argument("tokenizer")
    parser.add_argument("text", nargs="?")
    parser.add_argument("--penstock", default="build/bin/penstock")
    parser.add_argument("--cased", action="store_true", help="wordpiece: keep capitals")
    parser.add_argument("--characters", action="store_true")
    options = parser.parse_args()
    if (options.text is None) != options.characters:
        parser.error("wanted TEXT or --characters")

    lines = list(all_characters()) if options.characters else lines_of(options.text)
    spec = options.kind
    if options.kind == "wordpiece":
        spec = "wordpiece-cased" if options.cased else "wordpiece-uncased"
    text = "".join(line + "\n" for line in lines).encode()
    begin = time.monotonic()
    ours = subprocess.run([options.penstock, "tokenizer", "encode", f"{spec}:{options.tokenizer}"], input=text,
                          stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")[:-1]
    seconds = time.monotonic() - begin
    make = {"wordpiece": lambda path: bert(path, options.cased), "merges": merges, "sentencepiece": sentencepiece,
            "json": json}
    encode = make[options.kind](options.tokenizer)
    different = []
    for line, answer in zip(lines, ours, strict=True):
        wanted = encode(line)
        if [int(number) for number in answer.split()] != wanted:
            different.append((line, answer, wanted))
    for line, answer, wanted in different[:10]:
        print(f"{line!a}\n  penstock {answer}\n  wanted   {' '.join(map(str, wanted))}")
    print(f"{len(lines)} lines, {len(text) / 1e6:.2f} MB, {len(different)} different; "
          f"penstock took {seconds:.2f} s ({len(text) / 1e6 / seconds:.1f} MB/s, start included)")
    if options.characters:
        print("characters:", " ".join(f"{ord(line[0]):X}" for line, _, _ in different)[:2000])
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
