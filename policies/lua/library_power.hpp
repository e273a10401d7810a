// Powers, exponentials and logarithms from additions and multiplications of doubles in a fixed
// order, so that they have the same bits on every machine with IEEE arithmetic; the C library's
// differ. Computed with about 100 bits, so results are exact where the true value is a double and
// correctly rounded but for rare ties. Special cases are C's (C11 Annex F.10). Pure; any thread;
// needs the default rounding mode and no contraction.
#pragma once

namespace terrane::policies::lua {

double exact_power(double base, double exponent);
double exact_exp(double x);
double exact_log(double x);
double exact_log2(double x);

}  // namespace terrane::policies::lua
