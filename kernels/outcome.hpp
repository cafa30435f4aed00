// What a piece of posted work has to tell the host when it is complete.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/stream.hpp"

namespace penstock {

/// Gathers the device scalars of one piece of work, so that they are fetched together, once, and what is to be made of
/// them: a loss, a sum, "all finite". Filled while the work asks for its operations; settled when it is complete.
class outcome {
public:
  /// `judge` gets that tensor in the host's memory. It may throw: then nothing behind it is judged.
  void expect(tensor scalars, std::function<void(const tensor&)> judge);
  /// The same without a tensor: called in its turn.
  void then(std::function<void()> judge);
  /// Takes over what work before this one on the same stream left to be told, and puts it first.
  void adopt(outcome& earlier);
  /// On the stream, at the end of the work.
  void fetch(backend& ops);
  /// In the work's completion or later: judges in the order of `expect`, once.
  void settle();

private:
  std::vector<tensor> scalars_; // none, where nothing is to be fetched
  std::vector<std::function<void(const tensor&)>> judges_;
};

/// Posts the work, waits for it and settles what it tells. Not from the stream's own thread.
void run_and_settle(stream& on, const std::function<void(backend&, outcome&)>& work);

} // namespace penstock
