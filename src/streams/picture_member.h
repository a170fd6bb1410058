// Which member of a row names its picture. People call it many things; what looks like a picture and is not taken must
// be said, because a question without its picture trains a model that answers blindly.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace asr {

// image, images, image_path, image_name, image_file, img, img_path, picture, image_url, video or videos: the first that
// is neither null nor empty, as a path with slashes. A list may hold one. `path` stays empty where there is none; the
// answer is "" or why what stands there is no path.
std::string read_picture_member(const nlohmann::json& row, std::string& path);

// A member that is none of those but holds what looks like the path of a picture; "" where there is none.
std::string unknown_picture_member(const nlohmann::json& row);

}  // namespace asr
