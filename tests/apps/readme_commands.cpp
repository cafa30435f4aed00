// The table, and the reader of Markdown that it is held against.
#include "tests/apps/readme_commands.hpp"

#include <regex>
#include <sstream>

namespace penstock::test {

namespace {

const std::string small_vgg = "--width 0.0625 --batch 8 --synthetic-samples 32";
const std::string by_hand = "a benchmark of minutes, for a quiet machine";
const std::string quickly = "it trains for minutes; tools.train_real runs its --quick form";

} // namespace

const std::vector<readme_command>& readme_commands() {
  static const std::string intro = "Penstock";
  static const std::string overview = "What you get";
  static const std::string schedules = "Schedules";
  static const std::string plans = "Plans";
  static const std::string replans = "Change the plan while it trains";
  static const std::string several = "Several processes, several hosts";
  static const std::string data = "Data";
  static const std::string traces = "The trace tool";
  static const std::string proof = "How it is proved";
  static const std::string benchmarks = "Benchmarks";
  static const std::string training = "Real training";
  static const std::vector<readme_command> all{
      {intro, "tools/quickstart", {}, "--epochs 1 --steps 8 --eval-batch 1000", "==> next"},
      {.section = intro, .text = "tools/test", .why_not = "it runs this test"},
      {overview,
       "build/bin/vgg16 --data fashion-mnist:/usr/share/datasets/fashion-mnist --image-size 32 --stages 2 --steps 50 "
       "--trace run.pftrace",
       {},
       "--width 0.0625 --batch 8 --steps 3 --eval-every -1",
       "done: 3 steps in "},
      {overview, "build/bin/penstock trace summary run.pftrace", {}, "", "pipedream"},
      {overview,
       "build/bin/vgg16 --image-size 64 --steps 50 --plan auto",
       {},
       small_vgg + " --steps 3",
       "done: 3 steps in "},
      {overview,
       "build/bin/penstock launch -np 4 -- build/bin/vgg16 --image-size 64 --replicas 3,1 --steps 50",
       {},
       small_vgg + " --steps 4",
       "done: 4 steps in "},
      {overview, "build/bin/penstock models", {}, "", "resnet50"},
      {overview, "penstock models NAME", {{"NAME", "vgg16"}}, "", "features.0"},
      {overview, "penstock train NAME …", {{"NAME …", "lenet"}}, "--steps 2", "done: 2 steps in "},
      {schedules,
       "build/bin/penstock schedule --schedule zb-h1 --stages 4 --microbatches 8",
       {},
       "--columns 80",
       "its weights' part"},
      {plans, "build/bin/vgg16 --image-size 64 --plan auto --save-plan plan.json", {}, small_vgg, "predicted"},
      {plans,
       "build/bin/penstock profile vgg16 --image-size 64 --batch 32 -o profile.json",
       {{"--batch 32", "--batch 8"}},
       "--width 0.0625 --seconds 0.1 --repeats 3 --warmup 0",
       "40 layers"},
      {plans, "build/bin/penstock cluster measure -o cluster.toml", {}, "", ""},
      {plans,
       "build/bin/penstock plan profile.json --cluster cluster.toml --explain -o plan.json",
       {},
       "",
       "considered:"},
      {plans, "build/bin/penstock simulate plan.json --trace predicted.pftrace", {}, "", "stage 0"},
      {plans, "build/bin/vgg16 --image-size 64 --plan plan.json --trace run.pftrace", {}, small_vgg, "predicted"},
      {plans, "build/bin/penstock trace diff predicted.pftrace run.pftrace", {}, "", "stage"},
      {plans,
       "penstock plan --synchronous",
       {{"--synchronous", "profile.json --cluster cluster.toml --synchronous"}},
       "",
       "step "},
      {plans,
       "build/bin/penstock plan tests/planner/pipedream_profiles/vgg16.txt --workers 16 --bandwidth 1.25e9",
       {},
       "",
       " x15 | "},
      {plans,
       "build/bin/resnet18 --image-size 64 --frozen-until layer4.0.conv1 --stages 2 --steps 50",
       {},
       small_vgg + " --steps 3 --eval-every -1",
       "frozen until layer4.0.conv1: "},
      {replans, "build/bin/lenet --stages 2 --dry-run --save-plan two.json", {}, "", "conv2 .. fc3"},
      {replans,
       "build/bin/lenet --steps 400 --replan 100:two.json",
       {{"100:", "3:"}},
       "--steps 6 --eval-every -1 --synthetic-samples 64",
       "done: 6 steps in "},
      {replans,
       "build/bin/lenet --epochs 20 --control 7001",
       {{"7001", "0"}},
       "--steps 4 --eval-every -1 --synthetic-samples 64",
       "changes of plan are asked for at 127.0.0.1:"},
      {replans,
       "build/bin/penstock replan --control 7001 two.json 200",
       {{"--control 7001 two.json 200", "--control $(sed -n 's/.* --control \\(.*\\) FILE.*/\\1/p' log) two.json"}},
       "&& kill $(cat pid)",
       "the plan took over after step "},
      {several,
       "build/bin/penstock launch -np 3 -- build/bin/lenet --replicas 2,1 --trace run.pftrace",
       {},
       "--steps 4 --eval-every -1",
       "done: 4 steps in "},
      {several,
       "build/bin/penstock launch --hosts a:2,b:2 -- build/bin/vgg16 --plan auto",
       {{"a:2,b:2", "127.0.0.1:2,localhost:2"}},
       small_vgg + " --image-size 32 --steps 2",
       "done: 2 steps in "},
      {several, "build/bin/penstock launch -np 4 -- build/bin/penstock cluster measure -o cluster.toml", {}, "", ""},
      {several,
       "torchrun --nproc-per-node 4 --no-python build/bin/vgg16 --replicas 3,1",
       {},
       small_vgg + " --image-size 32 --steps 2",
       "done: 2 steps in "},
      {several, "penstock trace merge", {{"merge", "merge part.rank0 part.rank1 -o merged.pftrace"}}, "", "of 2 ranks"},
      {data, "tools/get_data --list", {}, "", "glosses"},
      {.section = data, .text = "tools/get_data glosses data/glosses", .why_not = "it downloads a Debian package"},
      {data,
       "build/bin/penstock tokenizer train --kind wordpiece --vocab 8000 -o vocab.txt data/glosses/train.tsv",
       {{"--vocab 8000", "--vocab 120"}},
       "",
       ""},
      {data,
       "build/bin/bert --data labelled-text:data/glosses --tokenizer vocab.txt --width 0.25 --stages 2 --optimizer "
       "adamw --lr 3e-4 --steps 200",
       {},
       "--steps 3 --batch 8 --eval-every -1",
       "done: 3 steps in "},
      {.section = data, .text = "tools/get_data kjv data/kjv", .why_not = "it downloads a Debian package"},
      {data,
       "build/bin/bert --head pretraining --data masked-text:data/kjv --tokenizer vocab.txt --width 0.17 --schedule "
       "1f1b --stages 2 --microbatches 2 --optimizer adamw --lr 1e-3",
       {},
       "--steps 2 --batch 4 --max-length 16 --eval-every -1",
       "done: 2 steps in "},
      {data,
       "build/bin/gnmt8 --width 0.25 --vocabulary 8000 --length 25 --stages 2 --steps 20",
       {{"0.25", "0.03125"}, {"8000", "80"}},
       "--steps 3 --batch 4 --synthetic-samples 12 --eval-every -1",
       "done: 3 steps in "},
      {data,
       "build/bin/penstock plan tests/planner/pipedream_profiles/gnmt.txt --graph-samples 32 --profile-scale 0.52 "
       "--batch 64 --workers 16 --bandwidth 1.25e9",
       {},
       "",
       "step "},
      {data,
       "build/bin/awd_lm --data text:data/kjv --width 0.25 --stages 2 --schedule 1f1b --microbatches 2 --steps 200",
       {},
       "--steps 3 --width 0.05",
       "done: 3 steps in "},
      {.section = data,
       .text = "tools/get_data bible-en-es data/bible-en-es",
       .why_not = "it downloads Debian packages"},
      {data,
       "build/bin/penstock tokenizer train --kind sentencepiece --vocab 8000 -o joint.model data/bible-en-es/train.en "
       "data/bible-en-es/train.es",
       {{"--vocab 8000", "--vocab 28"}},
       "",
       ""},
      {data,
       "build/bin/gnmt8 --data parallel:data/bible-en-es --tokenizer joint.model --width 0.25 --stages 2 --lr 1e-3 "
       "--epochs 10 --save-weights gnmt.safetensors",
       {{"--width 0.25", "--width 0.01"}, {"--epochs 10", "--epochs 1"}},
       "--batch 4 --eval-every -1",
       "done: "},
      {data,
       "build/bin/gnmt8 --translate data/bible-en-es/test.en --tokenizer joint.model --width 0.25 --weights "
       "gnmt.safetensors --stages 2 > hyp",
       {{"--width 0.25", "--max-length 5 --width 0.01"}},
       "",
       ""},
      {data, "build/bin/penstock score bleu hyp data/bible-en-es/test.es", {}, "", "BLEU"},
      {.section = data,
       .text = "tools/get_data fashion-motion data/fashion-motion",
       .why_not = "it downloads a Debian package"},
      {data,
       "build/bin/s2vt --data clips:data/fashion-motion --width 0.25 --stages 2 --optimizer adam --lr 2e-3 "
       "--lr-schedule cosine --epochs 6 --save-weights s2vt.safetensors",
       {},
       "--epochs 1",
       "done: 2 steps in "},
      {data, "build/bin/s2vt --caption data/fashion-motion --weights s2vt.safetensors --width 0.25", {}, "", ""},
      {traces, "penstock trace summary FILE", {{"FILE", "run.pftrace"}}, "", "bubble"},
      {traces, "penstock trace timeline FILE", {{"FILE", "run.pftrace"}}, "", "stage 1"},
      {traces, "penstock trace lifeline FILE 17", {{"FILE", "run.pftrace"}}, "", "17"},
      {traces, "penstock trace check FILE", {{"FILE", "run.pftrace"}}, "", "holds"},
      {traces, "penstock trace diff A B", {{"A B", "run.pftrace other.pftrace"}}, "", "stage"},
      {traces,
       "penstock trace merge A B -o FILE",
       {{"A B", "part.rank0 part.rank1"}, {"FILE", "merged.pftrace"}},
       "",
       "of 2 ranks"},
      {.section = proof,
       .text = "tests/apps/nemesis.py build/bin",
       .why_not = "apps.nemesis runs it, with fewer faults"},
      {.section = proof,
       .text = "cmake --workflow --preset asan",
       .why_not = "it builds everything anew; the preset's name is checked"},
      {.section = proof, .text = "tools/test", .why_not = "it runs this test"},
      {.section = benchmarks,
       .text = "python tools/bench_step.py --build build",
       .why_not = "it needs PyTorch, and is " + by_hand},
      {.section = benchmarks,
       .text = "python tools/bench_step.py --models bert --batch 8 --length 128 --classes 2",
       .why_not = "it needs PyTorch, and is " + by_hand},
      {.section = benchmarks,
       .text = "python tools/bench_step.py --models gnmt8 --batch 32 --length 25",
       .why_not = "it needs PyTorch, and is " + by_hand},
      {.section = benchmarks,
       .text = "python tools/bench_recurrent.py --build build --threads 1",
       .why_not = "it needs PyTorch, and is " + by_hand},
      {.section = benchmarks,
       .text = "python tools/bench_growth.py build/bin/gnmt8 --data parallel:data/bible-en-es --tokenizer joint.model "
               "--width 0.25 --epochs 2",
       .why_not = by_hand},
      {.section = benchmarks, .text = "build/bin/bench_pipeline vgg16 20", .why_not = by_hand},
      {.section = benchmarks,
       .text = "python tools/bench_predict.py build/bin bert --length 128 --batch 8 --optimizer adamw",
       .why_not = by_hand},
      {.section = benchmarks,
       .text = "python tools/bench_predict.py build/bin gnmt8 --length 25 --batch 32 --optimizer adam",
       .why_not = by_hand},
      {.section = benchmarks, .text = "build/bin/bench_hop", .why_not = by_hand},
      {benchmarks, "build/bin/bench_trace", {}, "--benchmark_min_time=0.01", "ns"},
      {.section = benchmarks, .text = "build/bin/bench_bubble", .why_not = by_hand},
      {.section = benchmarks,
       .text = "build/bin/bench_planner tests/planner/pipedream_profiles/gnmt_large.txt",
       .why_not = by_hand},
      {.section = benchmarks, .text = "build/bin/bench_plan predict 6 1", .why_not = by_hand},
      {.section = benchmarks, .text = "build/bin/bench_plan auto --repeats 3", .why_not = by_hand},
      {.section = benchmarks, .text = "build/bin/bench_transport", .why_not = by_hand},
      {.section = benchmarks, .text = "build/bin/bench_ranks", .why_not = by_hand},
      {.section = benchmarks, .text = "tools/bench_processes build/bin --cuts features.17", .why_not = by_hand},
      {.section = benchmarks, .text = "tools/bench_replan build/bin", .why_not = by_hand},
      {.section = benchmarks,
       .text = "build/bin/bench_all_reduce 2",
       .why_not = "it needs libgloo-dev, and is " + by_hand},
      {.section = benchmarks,
       .text = "bench_all_reduce 2 100 7 network",
       .why_not = "it needs libgloo-dev, and is " + by_hand},
      {.section = benchmarks,
       .text = "tools/bench_lag build/bin --torch PYTHON",
       .why_not = "it needs root, network namespaces and PyTorch, and is " + by_hand},
      {.section = benchmarks,
       .text = "tools/bench_links build/bin --torch PYTHON",
       .why_not = "it needs root, network namespaces and PyTorch, and is " + by_hand},
      {.section = benchmarks,
       .text = "ctest --test-dir build -R actors.memory",
       .why_not = "these are tests beside this one"},
      {.section = training, .text = "tools/train_real/awd_kjv", .why_not = quickly},
      {.section = training, .text = "tools/train_real/vit_fashion", .why_not = quickly},
      {.section = training, .text = "tools/train_real/s2vt_motion", .why_not = quickly},
      {.section = training, .text = "python tools/train_real/gnmt_bible", .why_not = quickly},
      {.section = training, .text = "python tools/train_real/minilm_glosses", .why_not = quickly},
      {.section = training, .text = "python tools/train_real/load_saved", .why_not = quickly},
  };
  return all;
}

std::vector<std::string> prelude_of(const std::string& section) {
  const std::string lenet = "build/bin/lenet --steps 20 --stages 2 --eval-every -1 --batch 8 --trace ";
  // The parts of a job's trace, which a run that ends in order makes one of.
  const std::string parts =
      "build/bin/penstock launch -np 2 --grace 0.1 -- sh -c 'build/bin/lenet --stages 2 --epochs 100000 "
      "--eval-every -1 --batch 8 --trace part --metrics m.jsonl & p=$!; [ $PENSTOCK_RANK = 0 ] || "
      "{ until [ $(wc -l < m.jsonl 2>/dev/null || echo 0) -gt 20 ]; do sleep 0.05; done; kill -9 $p; }; "
      "wait $p' || true";
  if (section == "Data")
    return {
        "mkdir -p data/glosses && for i in $(seq 60); do printf 'noun\\ta thing of the kind %s\\nverb\\tto make or "
        "do it %s times\\n' $i $i; done > data/glosses/train.tsv && cp data/glosses/train.tsv data/glosses/test.tsv",
        "mkdir -p data/kjv && cut -f2 data/glosses/train.tsv > data/kjv/train.txt",
        "mkdir -p data/bible-en-es && cd data/bible-en-es && for i in $(seq 20); do printf 'this is line %s\\testa es "
        "la "
        "línea %s\\n' $i $i; done > train.tsv && cut -f1 train.tsv > train.en && cut -f2 train.tsv > train.es && "
        "head -3 train.en > test.en && head -3 train.es > test.es",
        "mkdir -p data/fashion-motion && python3 -c 'import os, sys; sys.path.insert(0, "
        "os.path.dirname(os.path.realpath(\"tools/get_data\"))); "
        "sys.dont_write_bytecode = True; from corpora.motion import write_clips; "
        "[write_clips(f\"data/fashion-motion/{p}.safetensors\", [bytes(1600)] * 9, [0, 2, 5, 9]) for p in (\"train\", "
        "\"test\")]' && for p in train test; do printf '0\\t2\\ta top\\n1\\t3\\ta bag\\n2\\t4\\ta top\\n' > "
        "data/fashion-motion/$p.tsv; done"};
  if (section == "The trace tool") return {lenet + "run.pftrace", lenet + "other.pftrace", parts};
  if (section == "Several processes, several hosts") return {parts};
  if (section == "Change the plan while it trains")
    return {"{ timeout 100 build/bin/lenet --steps 100000000 --eval-every -1 --control 0 > log 2>&1 & echo $! > pid; "
            "until grep -q 'asked for' log; do kill -0 $(cat pid) || exit 1; sleep 0.05; done; }"};
  return {};
}

std::vector<std::pair<std::string, std::string>> commands_of(const std::string& markdown) {
  static const std::regex program(
      R"((build/bin/|tools/[a-z_-]+(?![a-z_./-])|tests/\S+\.py |cmake |ctest |python |torchrun |)"
      R"(bench_\w+ |penstock \S+ \S).*)");
  std::vector<std::pair<std::string, std::string>> commands;
  std::string section;
  std::string paragraph; // spans of code may go over the end of a line
  const auto take_spans = [&] {
    static const std::regex span("`([^`]+)`");
    for (std::sregex_iterator at(paragraph.begin(), paragraph.end(), span), end; at != end; ++at)
      if (const auto text = (*at)[1].str(); std::regex_match(text, program) || text.starts_with("tools/bench_"))
        commands.emplace_back(section, text);
    paragraph.clear();
  };
  std::istringstream in(markdown);
  std::string before;
  for (std::string line; std::getline(in, line); before = line) {
    const bool in_block = line.starts_with("    ");
    if (line.empty() || in_block || line.starts_with("#") || line.starts_with("|")) take_spans();
    if (line.starts_with("#")) section = line.substr(line.find(' ') + 1);
    if (in_block) {
      const auto comment = line.find("  #");
      auto text = line.substr(4, comment == std::string::npos ? comment : comment - 4);
      text.erase(text.find_last_not_of(' ') + 1);
      commands.emplace_back(section, text);
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line.substr(std::min(line.find_first_not_of(' '), line.size()));
    }
  }
  take_spans();
  return commands;
}

} // namespace penstock::test
