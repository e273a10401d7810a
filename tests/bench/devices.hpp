// terrane-bench devices: what this machine has, and whether each device keeps the contract.
#pragma once

#include <string>

#include <boost/json.hpp>

namespace terrane::bench {

// Opens every usable device once, self-test included. `cache_folder` as for the engine; empty:
// none.
boost::json::object run_devices(const std::string& cache_folder);

}  // namespace terrane::bench
