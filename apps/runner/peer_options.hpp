// What the options of PyTorch's examples, torchrun, DeepSpeed, Megatron and others are called here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock::apps {

struct peer_option {
  std::string_view name;  ///< as peers write it, without the dashes, lower case, words with '-' between
  std::string_view here;  ///< our option, with the dashes; "": there is none
  std::string_view words; ///< what differs, or what to do instead; "": nothing
};

/// Every name that is known, in alphabetical order; one name may stand for several options, of different programs.
std::span<const peer_option> peer_options();

/// " (here it is '--batch': ...)" for an unknown option, where a peer's option of that name is one of `options`, or has
/// none here; "" for a name that no peer has. `name` may have its dashes, underscores and capitals.
std::string peers_word(std::string_view name, std::span<const std::string> options);

/// As above, but only where `options` has what the peer means.
std::string peers_option(std::string_view name, std::span<const std::string> options);

} // namespace penstock::apps
