// A folder belongs to one process at a time. The lock goes with the process, however it ends, and leaves no file.
#pragma once

#include <string>

namespace asr {

class FolderLock {
 public:
  // Waits so many seconds for another process to end its work, then it is an error.
  explicit FolderLock(const std::string& folder, double patience = 0);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace asr
