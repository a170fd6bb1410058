#pragma once
#include <c10/util/BFloat16.h>

using __nv_bfloat16 = c10::BFloat16;
