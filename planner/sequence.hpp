// What one worker does, action after action, made as it is asked for.
#pragma once

#include "planner/generator.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace penstock::planner {

/// A value: a copy goes on by itself from the same place. It holds as much as is in flight, however long the stretch.
class sequence {
public:
  /// At its end.
  sequence() = default;
  /// The schedule's own order. Throws std::invalid_argument for a schedule of unknown name or a worker it lacks.
  sequence(const schedule& s, const worker& w);
  /// An order written by hand, which may be wrong; the schedule says which updates belong to which minibatches.
  sequence(const schedule& s, std::vector<action> listed);
  explicit sequence(std::unique_ptr<generator> order);

  sequence(const sequence& other);
  sequence& operator=(const sequence& other);
  sequence(sequence&&) = default;
  sequence& operator=(sequence&&) = default;
  ~sequence() = default;

  /// The action at this place; none at the end.
  const std::optional<action>& peek() const { return next_; }
  /// To the next place; not at the end.
  void advance();
  /// Both.
  std::optional<action> next();
  /// Makes the stretch end after so many minibatches; only the end moves, and only to fewer. See generator for what may
  /// lie behind, and what is thrown else.
  void end_after(std::int64_t minibatches);
  /// See generator.
  bool append_state(std::int64_t origin, std::vector<std::int64_t>& numbers) const;

private:
  std::unique_ptr<generator> order_;
  std::optional<action> next_;
};

/// One for each of workers_of().
std::vector<sequence> sequences_of(const schedule& s);
/// All that is left of a sequence, for pictures and tests.
std::vector<action> write_out(sequence rest);

/// A sequence's actions of one kind for one stage: its forwards, or what makes its weight gradients.
class stage_passes {
public:
  enum class kind : std::uint8_t { forwards, weight_gradients };
  stage_passes(sequence from, int stage, kind wanted);
  /// The next one; none when there are no more.
  const std::optional<action>& peek() const { return place_.peek(); }
  void advance();

private:
  void find();
  sequence place_;
  int stage_;
  kind wanted_;
};

} // namespace penstock::planner
