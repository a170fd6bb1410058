#include "streams/prepare/concept_groups.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace asr {
namespace {

using Groups = std::array<std::array<int, 16>, 5>;

// As released: the groups part 0..79, while the images carry COCO's ids 1..90. Images of 80..90 fall out.
constexpr Groups kVqaGroups = {{{58, 48, 55, 36, 64, 1, 70, 73, 42, 15, 6, 18, 49, 59, 31, 2},
                                {19, 77, 22, 9, 24, 53, 12, 13, 78, 50, 47, 41, 32, 28, 54, 23},
                                {60, 8, 34, 25, 67, 4, 14, 68, 3, 79, 0, 5, 65, 20, 71, 39},
                                {35, 29, 66, 40, 43, 26, 72, 10, 38, 61, 76, 44, 75, 69, 16, 57},
                                {45, 33, 63, 56, 21, 11, 62, 74, 17, 52, 46, 30, 27, 51, 37, 7}}};
constexpr Groups kNextGroups = {{{50, 60, 15, 32, 79, 27, 53, 20, 36, 28, 24, 80, 41, 33, 18, 10},
                                 {54, 5, 57, 49, 69, 62, 7, 1, 14, 35, 56, 66, 58, 51, 46, 6},
                                 {59, 61, 74, 37, 47, 34, 19, 72, 75, 23, 63, 40, 67, 21, 73, 29},
                                 {22, 2, 48, 64, 68, 9, 65, 26, 45, 12, 8, 76, 55, 4, 77, 44},
                                 {78, 17, 52, 11, 30, 13, 38, 70, 25, 3, 43, 42, 39, 16, 71, 31}}};

// A shuffle of the five a task by Python's generator, with the seeds of the released scripts: 66666 for VQA v2 and
// CLT-VQA, 6666 for NExT-QA. There replay draws from the same generator and changes the order from the second task on;
// these are the orders without it, for every method alike.
constexpr int kVqaOrder[10][5] = {{1, 2, 4, 5, 3}, {5, 1, 3, 4, 2}, {2, 3, 1, 4, 5}, {5, 1, 4, 2, 3}, {5, 1, 2, 4, 3},
                                  {3, 1, 2, 5, 4}, {1, 5, 3, 4, 2}, {1, 4, 2, 5, 3}, {5, 1, 3, 2, 4}, {3, 2, 1, 4, 5}};
constexpr int kNextOrder[8][5] = {{2, 3, 0, 4, 1}, {1, 2, 0, 4, 3}, {3, 0, 2, 4, 1}, {2, 1, 4, 3, 0},
                                  {4, 2, 1, 0, 3}, {1, 3, 0, 4, 2}, {3, 0, 4, 1, 2}, {4, 1, 3, 2, 0}};

}  // namespace

int concept_group_of(GroupTable table, int category) {
  const auto& groups = table == GroupTable::vqav2 ? kVqaGroups : kNextGroups;
  for (size_t g = 0; g < groups.size(); ++g)
    if (std::find(groups[g].begin(), groups[g].end(), category) != groups[g].end()) return static_cast<int>(g);
  return -1;
}

std::string concept_group_name(GroupTable table, int group) {
  return cat("G", group + (table == GroupTable::vqav2 ? 1 : 0));
}

std::vector<std::string> inner_order(GroupTable table, size_t position) {
  const auto& order = table == GroupTable::vqav2 ? kVqaOrder[position] : kNextOrder[position];
  std::vector<std::string> out;
  for (const int number : order) out.push_back(cat("G", number));
  return out;
}

}  // namespace asr
