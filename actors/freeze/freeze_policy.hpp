// How deep a model freezes, as a function of what was seen since it was last asked. Plug-ins may bring their own.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::actors {

inline constexpr double not_seen = std::numeric_limits<double>::quiet_NaN();

/// What one layer showed in an interval.
struct freeze_layer_seen {
  std::string name;
  std::int64_t parameters = 0; ///< numbers that it learns
  /// Root mean square, over the interval's updates, of the L2 norm of an update's mean gradient before any clipping; in
  /// f64, not divided by the number of parameters. not_seen where there was no gradient.
  double gradient_norm = not_seen;
};

/// The same of what freezes as a whole: its norm is that of its layers' gradients together.
struct freeze_unit_seen {
  std::string name;
  std::int64_t parameters = 0;
  double gradient_norm = not_seen;
  double norm_before = not_seen; ///< of the interval before this one
  std::vector<freeze_layer_seen> layers{};
};

/// What a policy is told. An interval ends at each decision; the next one begins there.
struct freeze_statistics {
  std::int64_t interval = 1;           ///< T: 1 at the end of the first since the run began or was thawed
  std::int64_t step = 0;               ///< minibatches of the whole run that are done
  double epochs = 0;                   ///< the same in epochs
  int depth = 0;                       ///< units that are frozen now, from the front on
  std::vector<freeze_unit_seen> units; ///< all that may freeze, the front first
  double training_loss = not_seen;     ///< mean over the interval's minibatches
  double validation_loss = not_seen;   ///< of the last evaluation in the interval
  double learning_rate = 0;            ///< of the next minibatch
  double rate_at_freeze = not_seen;    ///< the same when units froze last
};

/// Pure: the same answer for the same statistics, on whatever machine.
class freeze_policy {
public:
  virtual ~freeze_policy() = default;
  /// As parse_freeze_policy takes it: "schedule:alpha=0.25".
  virtual std::string text() const = 0;
  /// Units that are to be frozen from now on, 0 to seen.units.size(). Fewer than seen.depth freezes no more: only
  /// guards thaw.
  virtual int depth(const freeze_statistics& seen) const = 0;
  /// Whether it reads gradient norms; where it does not they are not computed.
  virtual bool reads_gradients() const { return true; }
};
using freeze_policy_ptr = std::shared_ptr<const freeze_policy>;

/// Makes a policy from what stands behind its name ("limit=3" of "NAME:limit=3"; may be empty). Throws
/// usage_error for what it cannot take.
using freeze_policy_factory = std::function<freeze_policy_ptr(std::string_view options)>;

/// One that a plug-in brings.
struct plugin_freeze_policy {
  std::string name;
  std::string summary; ///< one line
  freeze_policy_factory make;
  std::string plugin; ///< who brought it; filled in by the loader
};

} // namespace penstock::actors
