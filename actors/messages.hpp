// Messages between stages, as actors take them.
#pragma once

#include "actors/stage/messages.hpp"

#include <caf/allowed_unsafe_message_type.hpp>

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::activation_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::gradient_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::inputs_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::loss_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::credit_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::tie_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::norm_msg)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(penstock::actors::clip_msg)
