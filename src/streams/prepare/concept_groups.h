// The five groups of objects inside every task of VQACL and CLT-VQA, and the order in which the groups of a task are
// trained, as their code has them (docs/streams.md).
#pragma once

#include <string>
#include <vector>

namespace asr {

enum class GroupTable { vqav2, nextqa };

int concept_group_of(GroupTable table, int category);         // 0 to 4; -1: in none
std::string concept_group_name(GroupTable table, int group);  // G1 to G5 of VQA v2, G0 to G4 of NExT-QA

// Names of the groups in the order in which the task at this position of the stream trains them.
std::vector<std::string> inner_order(GroupTable table, size_t position);

}  // namespace asr
