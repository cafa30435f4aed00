#!/usr/bin/env python3
"""Makes tests/text/fixtures: texts, small tokenizers and what the ecosystem's libraries make of the texts.

    tests/text/make_fixtures.py CORPUS     needs transformers 4.46.3, tokenizers, subword-nmt, sentencepiece

CORPUS is a file of public-domain lines (the King James Bible of tools/get_data). Every *.ids has, for each line of the
text beside it, the ids with blanks between.
"""

import io
import os
import sys

import sentencepiece
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers import BertWordPieceTokenizer
from transformers import BertTokenizer

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
HARD = [
    "", "   ", "Hello, World! don't stop--now", "ÀÉÎÕÜ Ångström naïve café", "cafe\u0301 A\u030a o\u0302\u0323", "İstanbul ISI ısı",
    "ΟΔΥΣΣΕΥΣ Σ ς σ", "Straße ẞ ﬁ ﬂ", "中文字符 mixed中with英 日本語カタカナ ひらがな", "한국어 텍스트", "\u4e00\u3400\uf900\U00020000\U0002b820",
    "tab\tand\u00a0nbsp\u2003em\u3000ideographic\u2028line\u2029par", "zero\u200bwidth\u200djoin \ufeffbom soft\u00adhyphen",
    "control\x01\x02\x1f\x7f\x85 here \ufffd gone", "[MASK] in [CLS]text[SEP] and [mask] [UNK]x[PAD]", "[[MASK]] [MA\u0001SK] [MASK",
    "a" * 100, "a" * 101, "é" * 100 + " " + "é" * 101, "x≠y ≤ ≥ ½ ² ① Ⅻ", "$100 + 5% = ^_^ `code` ~tilde| <b>", "“quotes” ‘single’ – — … ‽ ¿¡ 、。",
    "\u0301leading mark", "e\u0301\u0327\u0316 reorder", "😀 emoji 👩\u200d👩\u200d👧 🇪🇸", "हिन्दी ไทย עברית العربية", "\ue000private \U0010fffd", "K Å Ω",
    "don't I'll we've he'd they're I'm it's 'tis", "  two  spaces   three ", "##ing ## #hash", "under_score snake_case CamelCase", "1,234.56 12th 3rd",
]


def write(name, text):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def write_ids(name, lines, encode):
    write(name, "".join(" ".join(map(str, encode(line))) + "\n" for line in lines))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    with open(sys.argv[1], encoding="utf-8") as file:
        real = [line.rstrip("\n") for line in file][:300]
    lines = HARD + real[:200]
    write("lines.txt", "".join(line + "\n" for line in lines))
    write("train.txt", "".join(line + "\n" for line in real))
    text = os.path.join(FOLDER, "train.txt")

    for name, lower in (("uncased", True), ("cased", False)):
        trained = BertWordPieceTokenizer(lowercase=lower)
        trained.train_from_iterator(HARD + real, vocab_size=700, min_frequency=2, show_progress=False)
        vocab = sorted(trained.get_vocab(), key=trained.get_vocab().get)
        write(f"{name}.txt", "".join(token + "\n" for token in vocab))
        bert = BertTokenizer(os.path.join(FOLDER, f"{name}.txt"), do_lower_case=lower)
        write_ids(f"{name}.ids", lines, lambda line: bert.encode(line, add_special_tokens=False))
        write(f"{name}.decoded", "".join(bert.decode(bert.encode(line), skip_special_tokens=True) + "\n" for line in lines))
        trained.save(os.path.join(FOLDER, f"{name}.json"), pretty=False)
        write_ids(f"{name}.json.ids", lines, lambda line: trained.encode(line, add_special_tokens=False).ids)

    codes = io.StringIO()
    learn_bpe(io.StringIO("".join(line + "\n" for line in real)), codes, 400)
    write("merges.bpe", codes.getvalue())
    bpe = BPE(io.StringIO(codes.getvalue()))
    counts = {}
    for line in real:
        for token in bpe.process_line(line).split():
            counts[token] = counts.get(token, 0) + 1
    tokens = sorted(counts, key=counts.get, reverse=True)
    write("merges.bpe.vocab", "".join(token + "\n" for token in tokens))
    table = ["<pad>", "<unk>", "<s>", "<\\s>"] + tokens
    ids = {token: number for number, token in enumerate(table)}
    write_ids("merges.ids", lines, lambda line: [ids.get(t, 1) for t in bpe.process_line(line).strip().split()])

    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=os.path.join(FOLDER, "pieces"), vocab_size=300,
                                             minloglevel=2, num_threads=1)
    os.remove(os.path.join(FOLDER, "pieces.vocab"))
    model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(FOLDER, "pieces.model"))
    write_ids("pieces.ids", lines, model.encode)

    for name in ("bytes", "ends"):
        if name == "bytes":
            made = Tokenizer(models.BPE())
            made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            made.decoder = decoders.ByteLevel()
            trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"], show_progress=False,
                                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        else:
            made = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
            made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
            made.decoder = decoders.BPEDecoder()
            trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<unk>"], show_progress=False,
                                          end_of_word_suffix="</w>")
        made.train_from_iterator(real, trainer)
        made.save(os.path.join(FOLDER, f"{name}.json"), pretty=False)
        write_ids(f"{name}.json.ids", lines, lambda line: made.encode(line, add_special_tokens=False).ids)


if __name__ == "__main__":
    main()
