// The programs of the self-test, one for each operation. See selftest.hpp for what they write.
#pragma once

#include "kernels/lang/program.hpp"

namespace terrane::kernels::contract {

// selftest_scalars.cpp: a lane an input, one word each
program check_multiply();
program check_add();
program check_multiply_add();
program check_store_rule();
program check_f32_to_f16();
program check_f16_to_f32();
program check_round_integral();
program check_round_to_int();
program check_dot4_written_out();
program check_dot4();
program check_exp();
program check_rcp();
program check_rsqrt();
program check_rcp_wide();
program check_silu();
program check_rsqrt_wide();
program check_quantise_32();
program check_quantise_256();
program check_int_to_float_small();
program check_int_to_float();
program check_int_to_float_halves();
program check_sigmoid();
program check_tanh();
program check_gelu();
program check_softmax();
program check_attention_fold();

// selftest_rows.cpp: a lane an input, one word each
program check_q8_0_row();
program check_q4_0_row();
program check_q4_1_row();
program check_q4_k_row();
program check_q5_k_row();
program check_q6_k_row();
program check_f16_row();
program check_f16_row_fused();
program check_bf16_row();
program check_q8_0_short_row();
program check_q4_1_short_row();

// selftest_groups.cpp: a workgroup an input, except the rotation (a lane an input, two words)
program check_attention_64();
program check_attention_128();
program check_norm_4096();
program check_norm_576();
program check_norm_80();
program check_rotation();

}  // namespace terrane::kernels::contract
