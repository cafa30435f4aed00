// Reads pairs of lines and tokenizes them.
#include "apps/data/parallel_text.hpp"

#include "apps/data/token_rows.hpp"
#include "apps/data/two_parts.hpp"
#include "apps/text/lines.hpp"
#include "kernels/check.hpp"

#include <algorithm>
#include <functional>

namespace penstock::apps {

namespace {

using ids = translation_tokens;

/// Files of one part: a TSV, or sources and targets.
struct part_files {
  std::string first;
  std::string second; ///< "" for a TSV

  std::string name() const { return second.empty() ? first : first + " and " + second; }
};

/// A pair of lines; `fail` throws with the place of the source (0) or the target (1).
using take_pair = std::function<void(std::string_view source, std::string_view target,
                                     const std::function<void(int side, const std::string&)>& fail)>;

void read_tsv(const std::string& file, const take_pair& take) {
  line_reader lines(file);
  while (const auto line = lines.next()) {
    const auto tab = line->find('\t');
    if (tab == std::string_view::npos || line->find('\t', tab + 1) != std::string_view::npos)
      lines.fail("found " + std::to_string(1 + std::count(line->begin(), line->end(), '\t')) +
                 " columns, wanted a sentence and its translation with a tab between");
    take(line->substr(0, tab), line->substr(tab + 1), [&](int, const std::string& what) { lines.fail(what); });
  }
}

void read_aligned(const part_files& files, const take_pair& take) {
  line_reader sources(files.first), targets(files.second);
  for (;;) {
    const auto source = sources.next(), target = targets.next();
    if (!source && !target) return;
    if (!source || !target) {
      const auto& shorter = source ? files.second : files.first;
      throw error(shorter + ": ends after line " + std::to_string(source ? targets.number() : sources.number()) +
                  ", wanted one for each line of " + (source ? files.first : files.second));
    }
    take(*source, *target, [&](int side, const std::string& what) { (side == 0 ? sources : targets).fail(what); });
  }
}

class parallel_text final : public bucketed_text {
public:
  parallel_text(const part_files& files, const parallel_text_options& options)
      : bucketed_text(options.lengths), name_(files.name()), options_(options) {
    const take_pair take = [this](auto source, auto target, const auto& fail) { add(source, target, fail); };
    if (files.second.empty())
      read_tsv(files.first, take);
    else
      read_aligned(files, take);
    if (sources_.rows() == 0)
      throw error(name_ + ": found no pairs" + left_out() + ", wanted sentences and their translations");
    set_sides({{"source_time", options_.most_tokens, sources_.lengths()},
               {"target_time", options_.most_tokens, targets_.lengths()}});
  }

  std::vector<actors::data_input> inputs() const override {
    const tensor_spec row{dtype::i64, {options_.most_tokens}};
    const auto below = options_.tokens->vocabulary_size();
    return {{.name = "source", .spec = row, .extents = {"source_time"}, .below = below},
            {.name = "source_lengths", .spec = {dtype::i64, {}}},
            {.name = "target_in", .spec = row, .extents = {"target_time"}, .below = below},
            {.name = "labels", .spec = row, .extents = {"target_time"}, .below = below}};
  }

  std::array<double, most_counts> counted(const drawing&, std::span<const std::int64_t> samples) const override {
    std::size_t tokens = 0;
    for (const auto sample : samples)
      tokens += targets_.row(static_cast<std::size_t>(sample)).size();
    return {static_cast<double>(samples.size()), static_cast<double>(tokens)};
  }

  void fill(const drawing&, std::span<const std::int64_t> samples, std::span<tensor> into) const override {
    std::vector<std::int32_t> shifted;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      const auto source = sources_.row(static_cast<std::size_t>(samples[i]));
      const auto target = targets_.row(static_cast<std::size_t>(samples[i]));
      put_padded(into[0], row, source, ids::pad);
      into[1].data<std::int64_t>()[i] = static_cast<std::int64_t>(source.size());
      shifted.assign(1, static_cast<std::int32_t>(ids::begin));
      shifted.insert(shifted.end(), target.begin(), target.end() - 1);
      put_padded(into[2], row, shifted, ids::pad);
      put_padded(into[3], row, target, ids::pad);
    }
  }

  std::string description() const override {
    return "parallel text: " + std::to_string(size()) + " pairs from " + name_ + left_out() + ", " +
           options_.tokens->description();
  }

private:
  void add(std::string_view source, std::string_view target, const std::function<void(int, const std::string&)>& fail) {
    std::array<token_ids, 2> rows;
    for (int of = 0; of < 2; ++of) {
      try {
        rows.at(static_cast<std::size_t>(of)) = options_.tokens->encode(of == 0 ? source : target);
      } catch (const error& fault) {
        fail(of, fault.what());
      }
    }
    if (rows[0].empty() || rows[1].empty()) {
      ++empty_;
      return;
    }
    const auto longest = static_cast<std::int64_t>(std::max(rows[0].size(), rows[1].size())) + 2;
    if (longest > options_.most_tokens) {
      ++long_;
      return;
    }
    rows[0].insert(rows[0].begin(), ids::begin);
    for (auto& row : rows)
      row.push_back(ids::end);
    sources_.add(rows[0]);
    targets_.add(rows[1]);
  }

  std::string left_out() const {
    std::string text;
    if (long_ > 0)
      text += ", " + std::to_string(long_) + " of more than " + std::to_string(options_.most_tokens) + " tokens";
    if (empty_ > 0) text += (text.empty() ? ", " : " and ") + std::to_string(empty_) + " with an empty side";
    return text.empty() ? text : text + " left out";
  }

  std::string name_;
  parallel_text_options options_;
  token_rows sources_; // BOS, text, EOS
  token_rows targets_; // text, EOS
  std::int64_t long_ = 0;
  std::int64_t empty_ = 0;
};

bool is_table(const std::string& file) {
  return file.ends_with(".tsv");
}

std::vector<part_files> parts_of(const std::string& where) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(where, ignored)) {
    const auto parts = two_parts_of(where, "train.tsv", {"test.tsv", "valid.tsv", "dev.tsv"});
    if (parts.test.empty()) return {{parts.train, ""}};
    return {{parts.train, ""}, {parts.test, ""}};
  }
  std::vector<std::string> files;
  for (std::size_t at = 0; at <= where.size();) {
    const auto comma = std::min(where.find(',', at), where.size());
    files.push_back(where.substr(at, comma - at));
    at = comma + 1;
  }
  if (files.size() == 1) return {{files[0], ""}};
  if (files.size() == 2 && is_table(files[0]) && is_table(files[1])) return {{files[0], ""}, {files[1], ""}};
  if (files.size() == 2) return {{files[0], files[1]}};
  if (files.size() == 4) return {{files[0], files[1]}, {files[2], files[3]}};
  throw usage_error("parallel: found " + std::to_string(files.size()) +
                    " files, wanted a TSV, SOURCE,TARGET or SOURCE,TARGET,TEST_SOURCE,TEST_TARGET");
}

} // namespace

parallel_text_pair open_parallel_text(const std::string& where, const parallel_text_options& options) {
  check(options.tokens != nullptr, "parallel text has a tokenizer");
  if (options.most_tokens < 3)
    throw usage_error("parallel: found a limit of " + std::to_string(options.most_tokens) +
                      " tokens, wanted more than the 2 around each sentence");
  const auto parts = parts_of(where);
  parallel_text_pair pair;
  pair.train = std::make_unique<parallel_text>(parts[0], options);
  if (parts.size() > 1) pair.test = std::make_unique<parallel_text>(parts[1], options);
  return pair;
}

} // namespace penstock::apps
