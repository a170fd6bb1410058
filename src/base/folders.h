// Folders and what lies in them. Looking never throws: what cannot be looked at is not there, and whoever then reads or
// writes it says why it cannot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace asr {

bool path_exists(const std::filesystem::path& path);
std::vector<std::string> list_folder(const std::string& path);  // names, sorted; empty where there is no folder
void make_folders(const std::string& path);                     // like mkdir -p
void remove_tree(const std::string& path);                      // a folder of ours and all in it

}  // namespace asr
