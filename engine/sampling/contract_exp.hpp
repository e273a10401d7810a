// The exponential of the numeric contract, on the host: so that a probability here has the bits
// that the same exponential has on any device. Pure; any thread.
#pragma once

namespace terrane::engine {

// e^x within 0.98 ulp for x in [-86, 88], outside of which x is clamped; exactly 1 at 0. A NaN
// gives some number.
float contract_exp(float x);

}  // namespace terrane::engine
