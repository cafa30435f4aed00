// The policies there are, and how they are written as text.
#pragma once

#include "actors/freeze/freeze_policy.hpp"

#include <span>

namespace penstock::actors {

/// ceil(L (1 - (1 - alpha)^T)): PipeTransformer's curve (ICML 2021) as its program has it. An exact result that comes
/// out a rounding error too high is not rounded up.
int geometric_depth(double alpha, int units, std::int64_t interval);

/// That curve, whatever is seen. Throws usage_error unless 0 < alpha < 1.
freeze_policy_ptr schedule_policy(double alpha);

/// PipeTransformer's equation 1: min(d + alpha (L - d), argmin of the norms), d being the depth at hand. Units count
/// from 1, so the one with the least norm freezes too; the first of equal ones; the first term is rounded up. Norms are
/// not divided by the number of parameters. A unit without a norm, or with one that is not finite, is never the least;
/// where all are so, the depth stays. The end is L: only what never freezes, the head, learns on.
freeze_policy_ptr gradient_norm_policy(double alpha);

/// AutoFreeze (2021): the change of each active unit's norm, |before - now| / before; units freeze up to the first one
/// whose change is at least the P-th percentile (linear between neighbours) of the active ones'. So one at least stays
/// active. A unit that has no norm of the interval before stops it too.
freeze_policy_ptr percentile_policy(double percentile);

/// "schedule:alpha=A", "gradient-norm:alpha=A" (A a number or a fraction such as 1/3), "percentile:P", a plug-in's
/// "NAME" or "NAME:OPTIONS"; "off" gives none. Throws usage_error, one line, naming what was found and what was wanted.
freeze_policy_ptr parse_freeze_policy(std::string_view text, std::span<const plugin_freeze_policy> plugins = {});

/// Whether a plug-in may not have that name.
bool is_freeze_policy(std::string_view name);

/// A number, or a fraction "1/3". Nothing for what is neither.
std::optional<double> parse_fraction(std::string_view text);

} // namespace penstock::actors
