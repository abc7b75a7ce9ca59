#pragma once

#include "rendezvous/base/clock.h"

#include <boost/asio/basic_waitable_timer.hpp>

namespace ddprun {

/// asio's timer over the project's clock.
using Timer = boost::asio::basic_waitable_timer<BootClock>;

}  // namespace ddprun
