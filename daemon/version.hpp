// The daemon's version, from the project() line of CMakeLists.txt.
#pragma once

namespace terrane::daemon {
inline constexpr const char* version = TERRANE_VERSION;
}
