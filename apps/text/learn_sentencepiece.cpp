// Hands lines to the trainer one by one, so that they are looked at as all text is.
#include "apps/text/learn_sentencepiece.hpp"

#include "apps/text/lines.hpp"
#include "kernels/check.hpp"

#include <exception>
#include <sentencepiece_trainer.h>

namespace penstock::apps {

namespace {

// What it throws must not pass through the library: it is kept, and the text ends.
class lines_of_files final : public sentencepiece::SentenceIterator {
public:
  explicit lines_of_files(const std::vector<std::string>& files) : files_(files) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    try {
      done_ = !advance();
    } catch (...) {
      fault_ = std::current_exception();
      done_ = true;
    }
  }
  void rethrow() const {
    if (fault_) std::rethrow_exception(fault_);
  }

private:
  bool advance() {
    for (;;) {
      if (reader_ == nullptr) {
        if (file_ == files_.size()) return false;
        reader_ = std::make_unique<line_reader>(files_[file_++]);
      }
      if (const auto line = reader_->next()) {
        if (line->empty()) continue;
        line_.assign(*line);
        return true;
      }
      reader_ = nullptr;
    }
  }

  const std::vector<std::string>& files_;
  std::size_t file_ = 0;
  std::unique_ptr<line_reader> reader_;
  std::string line_;
  bool done_ = false;
  std::exception_ptr fault_;
};

// "src/file.cc(12) [condition] What is wrong" without where and what the code asked.
std::string words_of(const std::string& message) {
  const auto end = message.rfind("] ");
  return end == std::string::npos ? message : message.substr(end + 2);
}

} // namespace

std::string learn_sentencepiece(const std::vector<std::string>& files, const std::string& model, std::int64_t pieces) {
  constexpr const char* quiet = "2"; // errors alone
  lines_of_files lines(files);
  lines.rethrow();
  if (lines.done()) throw error("found no text in " + files.front() + ", wanted lines to learn from");
  std::string bytes;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train({{"model_type", model},
                                                  {"vocab_size", std::to_string(pieces)},
                                                  {"pad_id", "0"},
                                                  {"unk_id", "1"},
                                                  {"bos_id", "2"},
                                                  {"eos_id", "3"},
                                                  {"num_threads", "1"},
                                                  {"minloglevel", quiet},
                                                  {"max_sentence_length", std::to_string(longest_text_line)}},
                                                 &lines, &bytes);
  lines.rethrow();
  if (!status.ok()) throw error("sentencepiece: " + words_of(status.message()));
  return bytes;
}

} // namespace penstock::apps
