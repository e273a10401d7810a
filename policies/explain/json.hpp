// The pieces from which explain, plan and why build their JSON. The field names are the interface;
// policies/README.md lists them. Pure; any thread.
#pragma once

#include "policies/explain/json_writer.hpp"
#include "policies/explain/record.hpp"

namespace terrane::policies {

void write_json(json_writer& out, const source_location& where);
void write_json(json_writer& out, const condition_value& c);
void write_json(json_writer& out, const candidate_score& s);
void write_json(json_writer& out, const candidate& c);
void write_json(json_writer& out, const planned_move& m);
void write_json(json_writer& out, const decision_record& r);

template <class T>
void write_list(json_writer& out, std::string_view name, const std::vector<T>& list) {
  out.key(name).begin_array();
  for (const T& one : list) write_json(out, one);
  out.end_array();
}

std::string_view name_of(subject_kind k);

}  // namespace terrane::policies
