"""Makes a corpus in a folder: all of it or nothing, and only once."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from corpora import bible, motion, strongs, wordnet
from corpora.packages import Failure, Package, files_of, sha256_of

SUMS = "SHA256SUMS"  # what `sha256sum -c` reads

KJV = Package("sword-text-kjv", "14.3-1", "9f463f28ce665f6f528fc723179722bced880a4c5485f7a41bf742838315de57")
SPARV = Package("sword-text-sparv", "2.60-1", "5c87f9b2bc97457e8a872f5bae7ea7ce59cb3de1dcee73e4d4740451863694cf")
GREEK = Package("sword-dict-strongs-greek", "3.0-3", "760a215591f77082aca38e804dc8b28a8ba1aac5a388dd103bfb333d85f80e97")
HEBREW = Package("sword-dict-strongs-hebrew", "3.0-1",
                 "614e272f6a4153a48cc9893f67d342564de98be23d824e7f8bc7678ca4938cfa")
WORDNET = Package("wordnet-base", "1:3.0-37", "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752")
FASHION = Package("dataset-fashion-mnist", "0.0~git20200523.55506a9-1",
                  "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0")

FREE = "public domain (the King James text: outside the United Kingdom)"


@dataclass(frozen=True)
class Corpus:
    """`make(roots, folder)` writes the files, from the packages' folders by name, and returns counts by what they count;
    `digest` is the SHA-256 of the list of their SHA-256 sums."""

    name: str
    what: str
    licence: str
    packages: tuple[Package, ...]
    make: Callable[[dict[str, str], str], dict[str, int]]
    digest: str


CORPORA = (
    Corpus("bible-en-es", "verse pairs, English and Spanish, to translate", FREE, (KJV, SPARV), bible.make_pairs,
           "662a2cf1aee7ccb8b41da81d1b0f97fe2a10b387faa24fe296ea6ac203e89aea"),
    Corpus("kjv", "tokens of the King James text, to model language", FREE, (KJV,), bible.make_text,
           "e40f1c73fe1ac4a858c5cdb21ea381551ea073c6b45339d14e8c8885d5843c37"),
    Corpus("glosses", "WordNet's glosses in 45 classes", "WordNet 3.0 (free, its notice kept)", (WORDNET,),
           wordnet.make_glosses, "db26a92d76e5499dc4ae05e1ac48814745cd2e7679aff6f6915ec5500358b459"),
    Corpus("strongs", "spans of verses that translate a word of a dictionary, in SQuAD's form", FREE,
           (KJV, GREEK, HEBREW), strongs.make_spans, "65d9642cf534b2577c0fc75c54b2af0c3c8d666e780835fbc7c1757d1be21fd1"),
    Corpus("fashion-motion", "clips of Fashion-MNIST's images in motion, with captions", "MIT", (FASHION,),
           motion.make_clips, "2fd69340130b00074f16a0c1c86d596b518ff429fe03cb247331d217dd66c0dc"),
)


def sums_of(folder):
    """The text of SHA256SUMS for the folder's files, the packages' licences left out."""
    names = sorted(name for name in os.listdir(folder) if name != SUMS and not name.startswith("copyright."))
    return "".join(f"{sha256_of(os.path.join(folder, name))}  {name}\n" for name in names)


def digest_of(text):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return sha256_of(file.name)


def is_whole(corpus, folder):
    return os.path.exists(os.path.join(folder, SUMS)) and digest_of(sums_of(folder)) == corpus.digest


def parts_of(folder):
    """Where a corpus is being made, for each process: (path, process)."""
    above, name = os.path.split(folder)
    for found in os.listdir(above):
        process = found.removeprefix(f".{name}.part-")
        if process != found and process.isdigit():
            yield os.path.join(above, found), int(process)


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def remove_leftovers(folder):
    for path, process in parts_of(folder):
        if process == os.getpid() or not is_running(process):
            shutil.rmtree(path, ignore_errors=True)


def put_in_place(made, folder, aside):
    """Renames `made` to `folder`; what was there goes."""
    if os.path.exists(folder):
        os.rename(folder, aside)
    try:
        os.rename(made, folder)
    except OSError as why:
        raise Failure(f"cannot name the finished corpus {folder}: {why.strerror}") from why


def make_corpus(corpus, folder, store, say):
    """Makes `folder` with the corpus in it, if it is not there; `store` keeps downloaded packages. Returns the counts, or
    None where it was there. Throws Failure; a folder that somebody else filled is left as it is."""
    folder = os.path.abspath(folder)
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise Failure(f"{folder}: found a file, wanted a new folder")
    if os.path.isdir(folder) and os.listdir(folder):
        if not os.path.exists(os.path.join(folder, SUMS)):
            raise Failure(f"{folder}: found files that were not made here, wanted a new or empty folder")
        if is_whole(corpus, folder):
            return None
        say(f"{folder} is not what it was made as, or of another version; making it again")
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    remove_leftovers(folder)
    part = os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.part-{os.getpid()}")
    try:
        made, work = os.path.join(part, "made"), os.path.join(part, "packages")
        os.makedirs(made)
        os.makedirs(work)
        roots = {package.name: files_of(package, store, work, say) for package in corpus.packages}
        say(f"making {corpus.name}")
        counts = corpus.make(roots, made)
        sums = sums_of(made)
        found = digest_of(sums)
        if found != corpus.digest:
            raise Failure(f"{corpus.name}: found SHA-256 {found} of what was made, wanted {corpus.digest}")
        with open(os.path.join(made, SUMS), "w", encoding="utf-8") as file:
            file.write(sums)
        for package in corpus.packages:
            notice = os.path.join(roots[package.name], "usr/share/doc", package.name, "copyright")
            if os.path.exists(notice):
                shutil.copyfile(notice, os.path.join(made, "copyright." + package.name))
        put_in_place(made, folder, os.path.join(part, "old"))
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is half made goes, however often Ctrl-C is pressed
        shutil.rmtree(part, ignore_errors=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return counts
