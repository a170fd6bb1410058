// What newer versions of libtorch have, for files that need not know more of it than that.
#pragma once

#include <torch/version.h>

// Products of half and bfloat16 numbers with a float32 result, on a GPU: since 2.8.
#define ASR_WIDE_PRODUCTS (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 8))

// Statistics of a device's memory and of its kernels without headers of CUDA: since 2.9.
#define ASR_DEVICE_PROFILE (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9))

// Numbers of eight bits and products of them on a GPU, with a scale a row: since 2.5.
#define ASR_FLOAT8 (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5))
