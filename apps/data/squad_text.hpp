// Questions on texts, whose answers are spans of the text.
#pragma once

#include "apps/data/bucketed_text.hpp"
#include "apps/data/squad_windows.hpp"

#include <memory>

namespace penstock::apps {

struct squad_options {
  std::shared_ptr<const tokenizer> tokens;
  window_options windows;
  length_options lengths;
};

/// Windows of questions and contexts as samples. Inputs: input_ids, token_type_ids (time; 1 from the context on),
/// lengths, start_positions, end_positions; counts: samples, tokens.
class squad_text final : public bucketed_text {
public:
  /// Throws what read_squad() and squad_windows throw, and error that names the file for text that cannot be tokenized.
  squad_text(const std::string& file, const squad_options& options);

  std::string description() const override;
  std::vector<actors::data_input> inputs() const override;
  void fill(const drawing& from, std::span<const std::int64_t> samples, std::span<tensor> into) const override;

  /// Sample I is window I.
  const squad_windows& windows() const { return windows_; }
  const squad_file& questions() const { return file_; }

private:
  std::string name_;
  squad_options options_;
  squad_file file_;
  squad_windows windows_;
};

struct squad_pair {
  std::unique_ptr<squad_text> train;
  std::unique_ptr<squad_text> test; ///< null where there is none
};

/// `where` is a folder with train.json and perhaps dev.json or test.json (the first of them), a file, or two with a
/// comma between.
squad_pair open_squad(const std::string& where, const squad_options& options);

} // namespace penstock::apps
