// The tuner on a device whose time is made up: what it takes, what it leaves, what it remembers.
#include "engine/tuning/tuner.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/tuning/tuning_file.hpp"
#include "tests/engine/tuning/timed_device.hpp"

namespace terrane::engine {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

kernels::linear_spec product(std::uint32_t k, std::uint32_t n, const char* format = "Q4_1") {
  kernels::linear_spec spec;
  spec.k = k;
  for (const kernels::weight_format* f : kernels::weight_formats())
    if (std::string(f->name) == format) spec.matrices.push_back({f, n, 0});
  spec.output_stride = (n + 31) / 32 * 32;
  return spec;
}

struct tuner_test : testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("terrane-tuner-" + std::to_string(getpid()));
  timed_device on;
  tuner_settings settings;
  std::vector<std::string> warnings;
  const kernel_use many{{product(96, 64), 16}, 4}, few{{product(96, 64), 1}, 4};

  void SetUp() override {
    settings.cache_folder = folder;
    settings.budget = std::chrono::seconds(2);
    settings.read_over_bytes = 4096;
    settings.now = [this] { return on.now(); };
    settings.warn = [this](const std::string& w) { warnings.push_back(w); };
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  linear_layout found(const kernel_use& use) {
    return std::get<linear_layout>(on.tuning()->layout(use.shape));
  }
  // Products of 16 columns take so much of the time that others take.
  void sixteen_columns_take(double share) {
    on.launch_us = [share](const kernels::program& p, const dispatch&) {
      return columns_of(p) == 16 ? 100 * share : 100;
    };
  }
};

TEST_F(tuner_test, a_layout_that_is_clearly_faster_is_taken) {
  sixteen_columns_take(0.8);
  const tuning_report report = tune(on, std::vector{many}, settings);
  EXPECT_EQ(report.timed, 1U);
  EXPECT_EQ(found(many).columns, 16U);
  EXPECT_NEAR(on.tuning()->find(many.shape)->gain(), 0.25, 0.01);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(tuner_test, one_that_is_hardly_faster_is_not) {
  sixteen_columns_take(0.98);
  EXPECT_EQ(tune(on, std::vector{many}, settings).timed, 1U);
  EXPECT_EQ(found(many).columns, 8U);
  EXPECT_EQ(on.tuning()->find(many.shape)->gain(), 0);
}

TEST_F(tuner_test, one_that_was_only_lucky_is_not) {
  // Fast while candidates are compared, as slow as the default when it is looked at again.
  int launches = 0;
  on.launch_us = [&](const kernels::program& p, const dispatch&) {
    if (columns_of(p) == 16) launches++;
    return columns_of(p) == 16 && launches < 300 ? 50 : 100;
  };
  tune(on, std::vector{many}, settings);
  EXPECT_GT(launches, 300);
  EXPECT_EQ(found(many).columns, 8U);
}

TEST_F(tuner_test, the_order_of_workgroups_is_chosen_for_the_best_of_the_others) {
  on.launch_us = [](const kernels::program& p, const dispatch& d) {
    return (columns_of(p) == 16 ? 80 : 100) * (d.order == group_order::y_first ? 0.9 : 1);
  };
  tune(on, std::vector{many}, settings);
  EXPECT_EQ(found(many).columns, 16U);
  EXPECT_EQ(found(many).order, group_order::y_first);
  EXPECT_EQ(found(few).order, group_order::x_first);  // another class of rows
}

TEST_F(tuner_test, a_layout_with_other_bits_is_never_taken) {
  sixteen_columns_take(0.5);
  on.changed = [](const kernels::program& p) {
    kernels::program wrong = p;
    if (columns_of(p) == 16) wrong = kernels::linear(laid_out(product(96, 64), {8}, 16));
    return wrong;  // computes half of the columns
  };
  const tuning_report report = tune(on, std::vector{many}, settings);
  EXPECT_EQ(report.timed, 1U);
  EXPECT_EQ(found(many).columns, 8U);
  ASSERT_FALSE(warnings.empty());
  EXPECT_THAT(warnings[0], HasSubstr("columns 16"));
  EXPECT_THAT(warnings[0], HasSubstr("other bits"));
}

TEST_F(tuner_test, what_was_found_is_remembered) {
  sixteen_columns_take(0.8);
  tune(on, std::vector{many, few}, settings);
  timed_device later;
  settings.now = [&] { return later.now(); };
  tuning_report report = tune(later, std::vector{few, many}, settings);
  EXPECT_EQ(report.remembered, 2U);
  EXPECT_EQ(later.submits, 0U);
  EXPECT_EQ(later.compiled, 0U);
  EXPECT_EQ(std::get<linear_layout>(later.tuning()->layout(many.shape)).columns, 16U);
  // Also where nothing is timed at the start.
  timed_device plain;
  settings.budget = std::nullopt;
  tune(plain, std::vector{many}, settings);
  EXPECT_EQ(std::get<linear_layout>(plain.tuning()->layout(many.shape)).columns, 16U);
}

TEST_F(tuner_test, asked_for_it_is_timed_again) {
  sixteen_columns_take(0.8);
  tune(on, std::vector{many}, settings);
  sixteen_columns_take(1.2);
  settings.again = true;
  EXPECT_EQ(tune(on, std::vector{many}, settings).timed, 1U);
  EXPECT_EQ(found(many).columns, 8U);
}

TEST_F(tuner_test, other_drivers_shapes_and_devices_remember_nothing) {
  tune(on, std::vector{many}, settings);
  device_info other = on.info();
  EXPECT_EQ(remembered_kernels(folder, other).size(), 1U);
  other.driver += " newer";
  EXPECT_THAT(remembered_kernels(folder, other), IsEmpty());
  other = on.info();
  other.description += ", 3 threads";
  EXPECT_THAT(remembered_kernels(folder, other), IsEmpty());
  EXPECT_EQ(tune(on, std::vector{kernel_use{{product(128, 64), 16}, 1}}, settings).remembered, 0U);
}

TEST_F(tuner_test, what_another_program_or_default_gave_counts_no_more) {
  tune(on, std::vector{many}, settings);
  const std::string key = tuning_key(many.shape, on.info());
  tuned_kernels kept = remembered_kernels(folder, on.info());
  for (const bool program : {true, false}) {
    tuned_kernel old = kept.at(key);
    if (program)
      old.version++;
    else
      std::get<linear_layout>(old.by_default).together = 2;
    remember_kernels(folder, on.info(), {{key, old}});
    EXPECT_EQ(tune(on, std::vector{many}, settings).timed, 1U);
  }
}

TEST_F(tuner_test, a_damaged_file_is_no_file) {
  tune(on, std::vector{many}, settings);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-3, std::ios::end);
    file.put('x');
  }
  EXPECT_THAT(remembered_kernels(folder, on.info()), IsEmpty());
  EXPECT_EQ(tune(on, std::vector{many}, settings).timed, 1U);
  EXPECT_EQ(remembered_kernels(folder, on.info()).size(), 1U);
}

TEST_F(tuner_test, it_keeps_to_its_time) {
  std::vector<kernel_use> uses;
  for (std::uint32_t k = 32; k <= 320; k += 32) uses.push_back({{product(k, 64), 16}, 1});
  on.compile_us = 50'000;  // about eleven times each
  const tuning_report report = tune(on, uses, settings);
  EXPECT_GE(report.timed, 2U);
  EXPECT_EQ(report.timed + report.left, uses.size());
  EXPECT_LT(on.now() - std::chrono::steady_clock::time_point(), std::chrono::milliseconds(2500));
  // The largest came first, and what was left is not tried again.
  EXPECT_GT(on.tuning()->find(uses.back().shape)->chosen_us, 0);
  EXPECT_EQ(on.tuning()->find(uses.front().shape)->chosen_us, 0);
  timed_device later;
  EXPECT_EQ(tune(later, uses, settings).remembered, uses.size());
}

TEST_F(tuner_test, given_up_it_keeps_what_is_done) {
  std::vector<std::string> told;
  settings.progress = [&](const tuning_progress& p) {
    if (told.empty() || told.back() != p.kernel) told.push_back(p.kernel);
    return p.done == 0;
  };
  const tuning_report report = tune(on, std::vector{many, few}, settings);
  EXPECT_TRUE(report.given_up);
  EXPECT_EQ(report.timed, 1U);
  EXPECT_EQ(remembered_kernels(folder, on.info()).size(), 1U);
  EXPECT_EQ(told.size(), 2U);
}

TEST_F(tuner_test, without_room_kernels_keep_the_default) {
  on.set_budget_bytes(100);
  const tuning_report report = tune(on, std::vector{many}, settings);
  EXPECT_EQ(report.timed, 0U);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("could not be timed"));
  EXPECT_EQ(found(many).columns, 8U);
}

// Every kind of kernel, every format, every candidate of a CPU: the default's bits.
TEST_F(tuner_test, candidates_give_the_defaults_bits) {
  std::vector<kernel_use> uses;
  for (const kernels::weight_format* f : kernels::weight_formats())
    for (std::uint32_t rows : {1U, 16U}) {
      const std::uint32_t k = f->block_elements == 256 ? 512 : 352;
      uses.push_back({{product(k, 40, f->name), rows}, 1});
    }
  for (std::uint32_t window : {0U, 100U})
    for (std::uint32_t rows : {1U, 20U})
      uses.push_back({{kernels::attention_shape{6, 2, 64, 0.125F, window}, rows}, 1});
  settings.budget = std::chrono::hours(1);
  const tuning_report report = tune(on, uses, settings);
  EXPECT_EQ(report.timed, uses.size());
  EXPECT_THAT(warnings, IsEmpty());
}

// ---- The file's lines

TEST(tuning_file, lines_are_read_as_they_were_written) {
  tuned_kernel kernel;
  kernel.by_default = linear_layout{16, 2, 1, 4096, group_order::x_first};
  kernel.chosen = linear_layout{8, 1, 1, 0, group_order::y_first};
  kernel.default_us = 12.5;
  kernel.chosen_us = 10.25;
  kernel.version = 0xfedcba9876543210U;
  const std::string key = "linear: many rows, K 96, Q4_1 64";
  const auto read = read_line(line_of(key, kernel));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->first, key);
  EXPECT_EQ(read->second.by_default, kernel.by_default);
  EXPECT_EQ(read->second.chosen, kernel.chosen);
  EXPECT_EQ(read->second.chosen_us, 10.25);
  EXPECT_EQ(read->second.version, kernel.version);
  EXPECT_EQ(difference(kernel.chosen, kernel.by_default),
            "columns 8, together 1, fetch_ahead 0, order columns_first");
}

TEST(tuning_file, lines_that_no_kernel_can_follow_are_left_out) {
  const std::string start = "linear: x\t1\t2\t2\t";
  const std::string good =
      "columns 8, together 1, warps 1, fetch_ahead 0, order rows_first, row_warps 1";
  ASSERT_TRUE(read_line(start + good + "\t" + good).has_value());
  for (const char* bad :
       {"", "columns 8",
        "columns 7, together 1, warps 1, fetch_ahead 0, order rows_first, row_warps 1",
        "columns 8, together 0, warps 1, fetch_ahead 0, order rows_first, row_warps 1",
        "columns 8, together 1, warps 99, fetch_ahead 0, order rows_first, row_warps 1",
        "columns 8, together 1, warps 1, fetch_ahead 99999999, order rows_first, row_warps 1",
        "columns 8, together 1, warps 1, fetch_ahead 0, order sideways, row_warps 1",
        "columns 8, together 1, warps 1, fetch_ahead 0, order rows_first, row_warps 1, more 1",
        "columns 8, together 1, warps 1, fetch_ahead 0, order rows_first, row_warps 3",
        "columns 32, together 1, warps 2, fetch_ahead 0, order rows_first, row_warps 1",
        "columns 8, together 1, warps 2, fetch_ahead 0, order rows_first, row_warps 2",
        "columns -8, together 1, warps 1, fetch_ahead 0, order rows_first, row_warps 1",
        "together 1, columns 8, warps 1, fetch_ahead 0, order rows_first, row_warps 1"})
    EXPECT_FALSE(read_line(start + good + "\t" + bad).has_value()) << bad;
  EXPECT_FALSE(read_line("unknown: x\t1\t2\t2\t" + good + "\t" + good).has_value());
  EXPECT_FALSE(read_line("linear: x\t1\tnan\t2\t" + good + "\t" + good).has_value());
  EXPECT_FALSE(read_line(start + good + "\t" + good + "\tmore").has_value());
}

// ---- Defaults: what was measured by hand, before there was a tuner

TEST(device_tuning, a_cpu_takes_what_its_compiler_suggests) {
  device_info info;
  info.host_memory = true;
  info.product_columns = 16;
  info.product_blocks = 2;
  const device_tuning t(info);
  const auto layout = [&](std::uint32_t rows) {
    return laid_out(product(576, 960), std::get<linear_layout>(t.layout({product(576, 960), rows})),
                    rows);
  };
  for (const auto& [rows, columns, together] : {std::tuple{1U, 1U, 1},
                                                {2U, 2U, 1},
                                                {4U, 4U, 1},
                                                {8U, 8U, 2},
                                                {24U, 8U, 2},
                                                {64U, 16U, 2}}) {
    EXPECT_EQ(layout(rows).columns, columns) << rows;
    EXPECT_EQ(layout(rows).together, together) << rows;
    EXPECT_EQ(layout(rows).warps, 1) << rows;
    EXPECT_EQ(layout(rows).fetch_ahead, 16384U) << rows;
  }
  const auto attention = std::get<kernels::attention_tuning>(
      t.layout({kernels::attention_shape{9, 3, 64, 0.125F, 0}, 1}));
  EXPECT_EQ(attention, (kernels::attention_tuning{kernels::lane_keys::halves, 4, 4, 1}));
}

TEST(device_tuning, few_rows_share_a_gpu) {
  device_info info;
  info.kind = device_kind::cuda;
  info.product_columns = 16;
  const device_tuning t(info);
  const auto warps = [&](std::uint32_t k, std::uint32_t n, std::uint32_t rows) {
    return std::get<linear_layout>(t.layout({product(k, n), rows})).warps;
  };
  EXPECT_EQ(warps(3072, 3072, 1), 12);      // twelve segments
  EXPECT_EQ(warps(8192, 3072, 1), 16);      // thirty-two, two turns
  EXPECT_EQ(warps(3072, 32 * 4096, 1), 1);  // workgroups enough
  EXPECT_EQ(warps(3072, 3072, 64), 12);
  kernels::activation_spec norm;
  norm.source = kernels::activation_source::rms_norm;
  norm.k = 3072;
  norm.outputs.q8_by_256 = true;
  const auto parts = [&](std::uint32_t rows) {
    return std::get<activation_layout>(t.layout({norm, rows}));
  };
  EXPECT_EQ(parts(1), (activation_layout{8, 12}));  // a block each
  EXPECT_EQ(parts(64), (activation_layout{8, 1}));
  kernels::activation_spec gate = norm;
  gate.source = kernels::activation_source::swiglu;
  gate.k = 14336;
  const auto shared = [&](std::uint32_t rows) {
    return std::get<activation_layout>(t.layout({gate, rows})).parts;
  };
  EXPECT_EQ(shared(64), 7U);  // of equal size
  EXPECT_EQ(shared(512), 7U);
  EXPECT_EQ(shared(2048), 1U);  // rows enough
  const kernels::attention_shape shape{24, 8, 128, 0.1F, 0};
  const auto attention = [&](std::uint32_t rows) {
    return std::get<kernels::attention_tuning>(t.layout({shape, rows})).warps;
  };
  EXPECT_EQ(attention(1), kernels::attention_warps(shape));
  EXPECT_EQ(attention(64), 1);
  kernels::rope_kv_spec rope{.shape = shape};
  EXPECT_EQ(rope_warps(rope, info), 4);
  rope.shape.heads = 9;
  rope.shape.kv_heads = 3;
  EXPECT_EQ(rope_warps(rope, info), 3);
  rope.head_norms = true;
  EXPECT_EQ(rope_warps(rope, info), 1);
  EXPECT_EQ(class_of({shape, 64}, info), "64 rows, 24 heads of 128 on 8");
}

TEST(device_tuning, many_rows_lie_side_by_side_on_a_gpu) {
  device_info info;
  info.kind = device_kind::cuda;
  info.product_columns = 16;
  const device_tuning t(info);
  const auto layout = [&](std::uint32_t n, std::uint32_t rows) {
    const kernels::linear_spec spec = product(4096, n, "Q4_K");
    return laid_out(spec, std::get<linear_layout>(t.layout({spec, rows})), rows);
  };
  EXPECT_EQ(layout(28672, 512).columns, 64U);
  EXPECT_EQ(layout(28672, 512).row_warps, 4);
  EXPECT_EQ(layout(4096, 512).columns, 64U);
  EXPECT_EQ(layout(3072, 512).columns, 32U);  // else multiprocessors stay idle
  EXPECT_EQ(layout(3072, 512).row_warps, 4);
  EXPECT_EQ(layout(1024, 64).columns, 16U);
  EXPECT_EQ(layout(1024, 64).row_warps, 1);
  EXPECT_EQ(layout(28672, 496).columns, 16U);  // not a multiple of 32
  const kernels::attention_shape shape{24, 8, 128, 0.1F, 0};
  const auto attention = [&](std::uint32_t rows) {
    return std::get<kernels::attention_tuning>(t.layout({shape, rows})).rows;
  };
  EXPECT_EQ(attention(1), 1U);
  ASSERT_EQ(kernels::attention_rows(shape), 4U);
  EXPECT_EQ(attention(64), 4U);
  info.kind = device_kind::vulkan;
  const device_tuning through_vulkan(info);
  EXPECT_EQ(std::get<kernels::attention_tuning>(through_vulkan.layout({shape, 64})).rows, 2U);
}

TEST(device_tuning, attention_goes_through_all_chunks_at_once_where_rows_keep_a_card_busy) {
  device_info info;
  info.kind = device_kind::cuda;
  const kernels::attention_shape shape{32, 8, 128, 0.1F, 0};
  EXPECT_TRUE(attends_at_once(shape, info, 256, 64));
  EXPECT_FALSE(attends_at_once(shape, info, 128, 64));   // too few
  EXPECT_FALSE(attends_at_once(shape, info, 256, 512));  // a lone row would take too long
  EXPECT_FALSE(attends_at_once({8, 8, 96, 0.1F, 0}, info, 256, 64));
  info.kind = device_kind::vulkan;
  EXPECT_FALSE(attends_at_once(shape, info, 256, 64));
}

TEST(device_tuning, what_is_remembered_is_cut_to_what_the_shape_can_have) {
  device_info info;
  info.kind = device_kind::cuda;
  device_tuning t(info);
  const kernels::attention_shape odd{8, 8, 96, 0.1F, 0};  // heads of no whole 64
  ASSERT_EQ(kernels::attention_rows(odd), 1U);
  for (const kernels::attention_tuning wrong :
       {kernels::attention_tuning{.rows = 4}, kernels::attention_tuning{.warps = 2}}) {
    tuned_kernel kernel;
    kernel.chosen = kernel.by_default = wrong;
    t.set({odd, 64}, kernel);
    const auto layout = std::get<kernels::attention_tuning>(t.layout({odd, 64}));
    EXPECT_EQ(layout.rows, 1U);
    EXPECT_EQ(layout.warps, 1);
  }
}

TEST(device_tuning, shapes_are_named_in_words) {
  device_info info;
  info.host_memory = true;
  kernels::linear_spec spec = product(576, 576);
  spec.matrices.push_back({spec.matrices[0].format, 192, 576});
  spec.matrices.push_back({product(576, 192, "Q8_0").matrices[0].format, 192, 768});
  spec.add_residual = true;
  EXPECT_EQ(tuning_key({spec, 64}, info),
            "linear: many rows, K 576, Q4_1 576 + 192, Q8_0 192, added");
}

}  // namespace
}  // namespace terrane::engine
